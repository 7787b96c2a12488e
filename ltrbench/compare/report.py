"""The report: one HTML file with the whole comparison; it needs no network and no other file.

    sections       the sections on a data set, registered by a decorator, and the classes of their parts
    page.html.j2   template
    page.css       style
    page.js        script: sorts tables

`write_report` takes comparisons and writes report.html. Numbers come from the comparison; the sections only
compute the same scores by other cutoffs and under other conventions, and the risk and slices of the queries.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ltrbench.compare.advice import next_step
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.groups import ATTRIBUTES, Across, Slice, slices
from ltrbench.compare.sections import (
    PAGE,
    Chapter,
    Code,
    Definitions,
    Figures,
    Folded,
    PagePart,
    Prose,
    Section,
    Shown,
    inlined,
    sections_by_place,
)
from ltrbench.compare.tables import answer
from ltrbench.glossary import anchor, glossary
from ltrbench.plots.report import critical_difference_diagram
from ltrbench.runs import NO_PARAMETERS, Run, RunResult
from ltrbench.statistics import DataSetTest
from ltrbench.tables import Table, TableCell, TableColumn, TableRow, numbers
from ltrbench.tables.numbers import EN_DASH
from ltrbench.untrusted import visible

# ---- Chapter over several data sets: means side by side, and tests over data sets.

_RANKS = "Tests over data sets"


def data_sets_chapter(across: Across, metric: str) -> Chapter:
    """Returns the means, and the test over data sets or the reason why there is none."""
    lead = f"Mean {metric} on test, one row per data set."
    parts: list[PagePart] = [_means(across)]
    sections = [Section("means", "Means", lead, parts)]
    if across.test is None:
        sections.append(Section("ranks", _RANKS, "", [Prose(across.reason)]))
    else:
        sections.append(_ranks(across, across.test))
    return Chapter("all-data", "All data sets", (), (), sections)


def _means(across: Across) -> Table:
    columns = [
        TableColumn("data set", left=True),
        *(TableColumn(label, numbers.quality) for label in across.labels),
    ]
    rows: list[TableRow] = [[data, *means] for data, means in zip(across.data, across.means, strict=True)]
    return Table(columns, rows, "Means by data set")


def _ranks(across: Across, test: DataSetTest) -> Section:
    lead = (
        "Each data set counts once, by the ranks of the models on it. Friedman's test: do any models differ? "
        "Nemenyi's test: which ones? Wilcoxon's signed rank test with Holm's adjustment does not depend on "
        "the other models in the table."
    )
    parts: list[PagePart] = []
    if test.note:
        parts.append(Prose(f"{test.note}."))
    if test.chi2 is not None:
        parts.append(
            Prose(
                f"Friedman's χ² is {numbers.significant(test.chi2)}, p {numbers.p_value(test.chi2_p)}, over "
                f"{test.num_data_sets} data sets."
            )
        )
    if test.critical_difference is not None:
        drawing = critical_difference_diagram(
            across.labels, test.average_ranks, test.critical_difference, test.groups, PAGE
        )
        parts.append(Figures([inlined(drawing, "all-data-ranks", "Critical-difference diagram")]))
    return Section("ranks", _RANKS, lead, [*parts, *_tables(across, test)], ("tests over data sets",))


def _tables(across: Across, test: DataSetTest) -> list[Table]:
    ranks = list(zip(across.labels, test.average_ranks, strict=True))
    pairs: list[TableRow] = [
        [
            numbers.minus(across.labels[pair.a], across.labels[pair.b]),
            *(pair.nemenyi, pair.wilcoxon, pair.wilcoxon_holm),
        ]
        for pair in test.pairs
    ]
    p_values = [TableColumn(name, numbers.p_value) for name in ("Nemenyi", "Wilcoxon", "Wilcoxon, Holm")]
    columns = [TableColumn("model", left=True), TableColumn("average rank", ".2f")]
    return [
        Table(columns, ranks, "Average ranks", "compact"),
        Table([TableColumn("pair", left=True), *p_values], pairs, "p-values over data sets", "compact"),
    ]


# ---- Writes chapters as one HTML page that contains its style and its script.

_HERE = Path(__file__).parent
_CODE = re.compile(r"`([^`]+)`")


def _seen(value: object) -> object:
    """Returns the text of any value with control characters escaped, which browsers do not show; markup is
    unchanged."""
    return value if isinstance(value, Markup) else visible(str(value), lines=True)


def _with_code(text: str) -> Markup:
    """Returns escaped text with `code` in backticks as code elements.

    >>> _with_code("a < `b`")
    Markup('a &lt; <code>b</code>')
    """
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def render_page(title: str, chapters: Sequence[Chapter]) -> str:
    """Returns the page. Every text is escaped; the content policy allows no requests and no other script."""
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_seen,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("page.html.j2").render(
        title=title,
        chapters=chapters,
        kind_of=lambda part: type(part).__name__.lower(),
        anchor=anchor,
        with_code=_with_code,
        dash=EN_DASH,
        style=Markup((_HERE / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
    )


# ---- Chapter on the runs: versions, machine, and the commands that repeat them.


def provenance_chapter(comparisons: Sequence[Comparison], command: str) -> Chapter:
    """Returns one chapter for all data sets, because one sweep makes the runs on all of them.

    Args:
        command: Command that wrote the report; empty after a sweep.
    """
    runs = [run for item in comparisons for row in item.rows for run in row.runs]
    made_in_python = sum(run.result.command is None for run in runs)
    lead = "One command per run, in the order of the table above."
    if made_in_python:
        lead += f" {made_in_python} of the {len(runs)} runs were made from Python and have no command."
    again = Section("rerun", "Repeat the runs", lead, _code(runs))
    sections = [_made_by(runs), again]
    if command:
        sections.append(Section("command", "Repeat the comparison", "", [Code(command)]))
    return Chapter("provenance", "Provenance", (), (), sections)


def _made_by(runs: Sequence[Run]) -> Section:
    results = [run.result for run in runs]
    packages = sorted({name for result in results for name in result.versions})
    facts = {
        "commit": _several(result.commit for result in results),
        "machine": _several(_machine(run) for run in runs),
        "system": _several(result.machine.get("system") for result in results),
        "threads": _several(result.threads or None for result in results),
        "parameters": _several(result.params for result in results if result.params != NO_PARAMETERS),
        "started": _period(runs),
    }
    versions = {name: _several(result.versions.get(name) for result in results) for name in packages}
    parts: list[PagePart] = [
        _facts_table(facts, "Environment"),
        _facts_table(versions, "Versions"),
        Folded(f"The {len(runs)} runs", [_runs(runs)]),
    ]
    return Section("made-by", "Environment of the runs", "", parts)


def _facts_table(facts: Mapping[str, str], caption: str) -> Table:
    columns = [TableColumn(header, left=True, sortable=False) for header in ("", "value in these runs")]
    return Table(columns, [[name, TableCell(text=text)] for name, text in facts.items()], caption, "compact")


def _several(values: Iterable[object]) -> str:
    """Returns the distinct values, separated by semicolons."""
    known = dict.fromkeys(str(value) for value in values if value not in (None, ""))
    return "; ".join(known) or numbers.EN_DASH


def _machine(run: Run) -> str | None:
    machine = run.result.machine
    return f"{machine['cpu']}, {machine.get('cores')} cores" if machine.get("cpu") else None


def _period(runs: Sequence[Run]) -> str:
    times = sorted(run.result.started for run in runs if run.result.started)
    if not times:
        return numbers.EN_DASH
    first, last = times[0][:16].replace("T", " "), times[-1][:16].replace("T", " ")
    return f"{first} UTC" if first == last else f"{first} to {last} UTC"


def _runs(runs: Sequence[Run]) -> Table:
    columns = [
        TableColumn("model", left=True),
        TableColumn("data", left=True),
        TableColumn("fold", numbers.count),
        TableColumn("seed"),
        TableColumn("trees", numbers.count),
        TableColumn("fit", numbers.duration),
        TableColumn("commit", left=True),
        TableColumn("folder", left=True),
    ]
    return Table(columns, [_run_cells(run) for run in runs], "Runs", "compact")


def _run_cells(run: Run) -> TableRow:
    result = run.result
    return [
        result.model,
        str(result.data["name"]),
        result.data.get("fold"),
        TableCell(result.seed, note=_replicate(result)),
        result.best_iteration,
        TableCell(note="shared machine") if result.shared_machine else result.seconds.get("fit"),
        result.commit or None,
        str(run.path),
    ]


def _replicate(result: RunResult) -> str:
    """Returns the resample of a run, and the run whose training it reuses."""
    resample = result.data.get("resample")
    drawn = [] if resample is None else [f"resample {resample['index']} ({resample['kind']})"]
    return ", ".join([*drawn, *([f"reuses the training of {result.reused}"] if result.reused else [])])


def _code(runs: Sequence[Run]) -> list[Code]:
    commands = [shlex.join(run.result.command) for run in runs if run.result.command is not None]
    return [Code("\n".join(dict.fromkeys(commands)))] if commands else []


_DRAWS = 2_000
"""Number of bootstrap draws in the default slices: enough for three digits of the width of an interval."""


def write_report(
    comparisons: Sequence[Comparison],
    path: Path,
    slices_by_data: Mapping[str, Sequence[Slice]] | None = None,
    across: Across | None = None,
    command: str = "",
) -> None:
    """Writes the report of comparisons, one per data set.

    Args:
        slices_by_data: Data set -> its requested slices; slices by the attributes that every data set has are
            added.
        across: Comparison over data sets; None with a single data set.
        command: Command that writes the report again; empty to leave it out.
    """
    chapters = [
        _chapter(comparison, f"data-{number}", (slices_by_data or {}).get(comparison.data, ()))
        for number, comparison in enumerate(comparisons, start=1)
    ]
    if across is not None:
        chapters.append(data_sets_chapter(across, comparisons[0].metric))
    chapters += [provenance_chapter(comparisons, command), _glossary_chapter()]
    names = ", ".join(comparison.data for comparison in comparisons)
    path.write_text(render_page(f"{names}: {comparisons[0].metric}", chapters), encoding="utf-8")


def _chapter(comparison: Comparison, name: str, given: Sequence[Slice]) -> Chapter:
    shown = Shown(
        comparison, name, [*given, *_missing_slices(comparison, {item.attribute for item in given})]
    )
    made = (make(shown) for make in sections_by_place().values())
    return Chapter(
        name=name,
        title=comparison.data,
        answer=answer(comparison),
        facts=_facts(comparison),
        sections=[section for section in made if section is not None],
        next_step=_next_step(comparison),
        terms=("recommendation", "scope", "yardstick"),
    )


def _glossary_chapter() -> Chapter:
    entries = glossary()
    folded = Folded(f"All {len(entries)} terms", [Definitions(entries)])
    section = Section(
        "terms", "Terms", "Meaning of the columns, notes and sections of this report.", [folded]
    )
    return Chapter("glossary", "Glossary", (), (), [section])


def _next_step(comparison: Comparison) -> list[PagePart]:
    step = next_step(comparison)
    if step is None:
        return []
    return [Prose(step.sentence), *([Code(step.command)] if step.command else [])]


def _missing_slices(comparison: Comparison, given: Collection[str]) -> list[Slice]:
    """Returns the slices by the default attributes that were not requested, with fewer draws."""
    settings = replace(comparison.settings, num_draws=min(comparison.settings.num_draws, _DRAWS))
    missing = [attribute for attribute in ATTRIBUTES if attribute not in given]
    return slices(replace(comparison, settings=settings), missing)


def _facts(comparison: Comparison) -> list[tuple[str, str]]:
    results = [run.result for row in comparison.rows for run in row.runs]
    folds = {result.data.get("fold") for result in results} - {None}
    queries = comparison.queries
    counts = {
        "models": len(comparison.rows),
        "queries": None if queries is None else queries.num_distinct,
        "folds": len(folds) or None,
        "runs": len(results),
    }
    return [
        ("metric", comparison.metric),
        ("convention", comparison.settings.convention.name),
        *((name, numbers.count(value)) for name, value in counts.items() if value is not None),
        ("trainings", ", ".join(dict.fromkeys(comparison.replicates.values()))),
    ]
