"""The report, the comparison as text, and their formats: terminal, Markdown, LaTeX, and HTML.

    SECTIONS       the sections of the report, and OF_TEXT, those below the table on a terminal
    page.html.j2   template of the report, with a macro for each class of views
    page.css       style
    page.js        script: sorts tables

The report is one HTML file with the whole comparison; it needs no network and no other file. `as_page`
renders the chapters of `chapters_of`. Numbers come from the comparison; the sections only compute slices of
the queries.
"""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ltrbench.compare import claim_sections, run_sections
from ltrbench.compare.answer import Answer, answer_of
from ltrbench.compare.claim_notes import (
    about_claims,
    about_intervals,
    about_tuning,
    all_notes,
    level_in_words,
)
from ltrbench.compare.claim_sections import data_sets_chapters
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.groups import ATTRIBUTES
from ltrbench.compare.leaderboard import ALL, MAIN, columns_of_tables, leaderboard
from ltrbench.compare.remarks import Note
from ltrbench.compare.run_sections import grouped_notes
from ltrbench.compare.slicing import slices
from ltrbench.compare.views import (
    Chapter,
    Code,
    Definitions,
    Folded,
    Prose,
    Section,
    Shown,
    View,
    as_text,
    joined,
    link_to,
    section_text,
)
from ltrbench.plots import save_figure
from ltrbench.runs import Run
from ltrbench.runs.record import RunResult
from ltrbench.tables import Table, TableColumn, TableRow, anchor, glossary, paragraph
from ltrbench.untrusted import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

SECTIONS: tuple[Callable[[Shown], Section | None], ...] = (
    claim_sections.leaderboard_section,
    claim_sections.pairs_section,
    claim_sections.queries_section,
    claim_sections.slices_section,
    run_sections.learning_section,
    run_sections.costs_section,
    run_sections.importances_section,
    run_sections.search_section,
    run_sections.settings_section,
    run_sections.hyperparameters_section,
    run_sections.data_section,
    run_sections.examination_section,
    run_sections.notes_section,
)
"""The sections of the report, in its order: functions from `Shown` to a `Section`, or None if there is
nothing to show."""

OF_TEXT = (claim_sections.slices_section,)
"""The sections below the table in a terminal and in table.md."""

_DRAWS = 2_000
"""Number of bootstrap draws in the default slices: enough for three digits of the width of an interval."""


def chapters_of(comparisons: Sequence[Comparison], command: str = "") -> list[Chapter]:
    """Returns the chapters of the report: one per data set, in their order, and those on the whole.

    Args:
        command: Command that writes the report again; empty to leave it out.
    """
    chapters = [
        _chapter(comparison, f"data-{number}")
        for number, comparison in enumerate(comparisons, 1)
    ]
    chapters += data_sets_chapters(comparisons)
    return [*chapters, _provenance_chapter(comparisons, command), _glossary_chapter()]


def _chapter(comparison: Comparison, name: str) -> Chapter:
    # The default attributes that were not requested, with fewer draws.
    num_draws = min(comparison.settings.num_draws, _DRAWS)
    settings = replace(comparison.settings, num_draws=num_draws)
    requested = {item.attribute for item in comparison.slices}
    missing = [each for each in ATTRIBUTES if each not in requested]
    added = slices(replace(comparison, settings=settings), missing)
    shown = Shown(comparison, added)
    sections = [make(shown) for make in SECTIONS]
    present = [section for section in sections if section is not None]
    answer = answer_of(comparison)
    headline, number = _headline(answer)
    return Chapter(
        name=name,
        title=comparison.data,
        sections=present,
        headline=headline,
        answer=answer.sentences[number:],
        facts=list(_facts(comparison)),
        next_step=next_step_views(answer),
        terms=("recommendation", "these models", "trained again", "yardstick"),
    )


def _facts(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yields the facts below the headline, each with its name."""
    yield "metric", comparison.metric
    yield "convention", comparison.settings.convention.name
    yield "models", f"{len(comparison.rows):,}"
    if comparison.queries is not None:
        yield "queries", f"{comparison.queries.distinct.num_queries:,}"
    folds, repeats = _folds(comparison)
    if folds:
        yield "folds", f"{len(folds):,}{repeats}"
    num_runs = sum(len(row.runs) for row in comparison.rows)
    yield "runs", f"{num_runs:,}"
    trainings = ", ".join(dict.fromkeys(comparison.replicates.values()))
    if trainings:
        yield "trainings", trainings


_MOST_WORDS = 25  # of the headline


def _headline(answer: Answer) -> tuple[str, int]:
    """Returns the first sentences of an answer that fit into the headline, and their number."""
    headline = ""
    for number, sentence in enumerate(answer.sentences):
        longer = f"{headline} {sentence}".strip()
        if number and len(longer.split()) > _MOST_WORDS:
            return headline, number
        headline = longer
    return headline, len(answer.sentences)


def _glossary_chapter() -> Chapter:
    entries = glossary()
    folded = Folded(f"All {len(entries)} terms", [Definitions(entries)])
    lead = "Meaning of the columns, notes and sections of this report."
    terms = Section("terms", "Terms", lead, [folded])
    return Chapter("glossary", "Glossary", [terms])


# ---- Chapter on the runs: versions, machine, and the commands that repeat them.


def _provenance_chapter(comparisons: Sequence[Comparison], command: str) -> Chapter:
    """Returns one chapter for all data sets, because one sweep makes the runs on all of them."""
    rows = itertools.chain.from_iterable(item.ranked for item in comparisons)
    runs = list(itertools.chain.from_iterable(row.runs for row in rows))
    lead = "One command per run, in the order of the tables above; runs made from Python have none."
    words = [run.result.command for run in runs if run.result.command is not None]
    commands = dict.fromkeys(map(shlex.join, words))
    again: list[View] = []
    if commands:
        again.append(Code("\n".join(commands)))
    sections = [_environment(runs), Section("rerun", "Repeat the runs", lead, again)]
    if command:
        sections.append(
            Section("command", "Repeat the comparison", "", [Code(command)])
        )
    return Chapter("provenance", "Provenance", sections)


def _environment(runs: Sequence[Run]) -> Section:
    results = [run.result for run in runs]
    machines = [result.machine for result in results if result.machine.get("cpu")]
    facts: dict[str, Iterable[object]] = {
        "commit": (result.commit for result in results),
        "machine": map(_machine_in_words, machines),
        "system": (result.machine.get("system") for result in results),
        "threads": (result.threads or None for result in results),
        "started": [_started_in_words(results)],
    }
    packages = set(itertools.chain.from_iterable(result.versions for result in results))
    versions = {}
    for name in sorted(packages):
        versions[name] = [result.versions.get(name) for result in results]
    tables = [_table(facts, "Environment"), _table(versions, "Versions")]
    return Section("made-by", "Environment of the runs", "", tables)


def _machine_in_words(machine: Mapping[str, Any]) -> str:
    return f"{machine['cpu']}, {machine.get('cores')} cores"


def _started_in_words(results: Iterable[RunResult]) -> str:
    """Returns the first and the last start, to the minute; empty if no run has one."""
    started = sorted(result.started for result in results if result.started)
    if not started:
        return ""
    first = _minute_of(started[0])
    last = _minute_of(started[-1])
    return first if first == last else f"{first} to {last}"


def _minute_of(time: str) -> str:
    return f"{time[:16].replace('T', ' ')} UTC"


def _table(facts: Mapping[str, Iterable[object]], caption: str) -> Table:
    """Returns a row for each fact, with its distinct values."""
    columns = [
        TableColumn(header, left=True, sortable=False)
        for header in ("", "value in these runs")
    ]
    rows: list[TableRow] = []
    for name, values in facts.items():
        rows.append([name, _distinct(values)])
    return Table(columns, rows, caption, "compact")


def _distinct(values: Iterable[object]) -> str | None:
    """Returns the distinct values, separated by semicolons."""
    known = [str(value) for value in values if value not in (None, "")]
    return "; ".join(dict.fromkeys(known)) or None


# ---- Writes chapters as one HTML page that contains its style and its script.

_HERE = Path(__file__).parent
_CODE = re.compile(r"`([^`]+)`")
_HYPHEN = re.compile(r"(?<![^\s\[(])-(?=[\d.])")


def as_page(
    comparisons: Sequence[Comparison], chapters: Sequence[Chapter], title: str = ""
) -> str:
    """Returns chapters as HTML, by default with the title of comparisons.

    Every text is escaped; the content policy allows no requests and no other script.
    """
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_without_controls,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = (f"figure-{number}" for number in itertools.count(1))
    environment.filters |= {
        "svg": lambda drawing: _svg(drawing, next(names)),
        "css_colour": _css_colour,
        "with_code": _with_code,
        "with_minus": lambda text: _HYPHEN.sub("\N{MINUS SIGN}", text),
        "anchor": anchor,
        "kind": lambda view: type(view).__name__.lower(),
    }
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest())
    if not title:
        data_sets = ", ".join(comparison.data for comparison in comparisons)
        title = f"{data_sets}: {comparisons[0].metric}"
    return environment.get_template("page.html.j2").render(
        title=title,
        chapters=chapters,
        style=Markup(style),
        script=Markup(script),
        script_hash=f"sha256-{digest.decode()}",
    )


@dataclass(frozen=True, repr=False)
class Report:
    """The report of a comparison, as one HTML page.

    Attributes:
        html: the page; it needs no network and no other file.
    """

    html: str

    def _repr_html_(self) -> str:
        """Returns the page in a frame of a notebook, which keeps its style and its script."""
        # Links inside the page would otherwise open the notebook in the frame.
        page = escape(
            self.html.replace("<head>", '<head><base href="about:srcdoc">', 1)
        )
        return (
            f'<iframe srcdoc="{page}" style="width:100%;height:80vh;border:0"></iframe>'
        )

    def save(self, path: str | Path) -> None:
        """Writes the page."""
        Path(path).write_text(self.html, encoding="utf-8")


def as_report(comparison: Comparison) -> Report:
    """Returns the report of a comparison."""
    return Report(as_page([comparison], chapters_of([comparison])))


def _without_controls(value: object) -> object:
    """Returns the text of any value with control characters escaped, which browsers do not show; markup is
    unchanged."""
    if isinstance(value, Markup):
        return value
    return visible(str(value), lines=True)


def _with_code(text: str) -> Markup:
    """Returns escaped text with `code` in backticks as code elements, without control characters.

    >>> _with_code("a < `b`")
    Markup('a &lt; <code>b</code>')
    """
    escaped = str(escape(visible(text, lines=True)))
    return Markup(_CODE.sub(r"<code>\1</code>", escaped))


# ---- Text.

_WIDEST = 100  # columns of a line of text


def render(
    comparison: Comparison,
    width: int | None = None,
    glossary_file: str | None = None,
    which: str = ALL,
    shown_notes: Collection[Note] = (),
) -> str:
    """Returns the comparison as text.

    For a terminal: title, table, answer and next step. Markdown for a file has all notes as well.

    Args:
        width: Width of the terminal in columns; None for Markdown with long lines.
        glossary_file: File that notes and columns link to. Without it, each group of notes lists its terms,
            for the command `glossary`.
        which: `MAIN`: the columns of the answer; `ALL`: all columns.
        shown_notes: Notes that another table has shown.
    """
    shown = Shown(comparison)
    answer = answer_of(comparison)
    table = leaderboard(shown, shown.rows, columns_of_tables(comparison, which))
    makers: Sequence[Callable[[Shown], Section | None]] = OF_TEXT
    sections = [section for make in makers if (section := make(shown)) is not None]
    if width is None:
        return _as_markdown(
            comparison,
            answer,
            table,
            sections,
            glossary_file=glossary_file,
            shown_notes=shown_notes,
        )
    narrow = min(width, _WIDEST)
    texts_of_answer = [level_in_words(comparison), *answer.sentences]
    if comparison.evidence is not None:
        # The header of the differences has their level.
        texts_of_answer = answer.paragraphs
    sentences = [paragraph(text, narrow) for text in texts_of_answer if text]
    texts = [section_text(section, width) for section in sections]
    parts = [
        paragraph(answer.title, narrow),
        table.plain(width),
        "\n".join(sentences),
        *texts,
        _next_in_words(answer),
    ]
    return f"{joined(parts)}\n"


def _as_markdown(
    comparison: Comparison,
    answer: Answer,
    table: Table,
    sections: Sequence[Section],
    *,
    glossary_file: str | None,
    shown_notes: Collection[Note],
) -> str:
    views: list[View] = [Prose(answer.title)]
    views += [Prose(sentence) for sentence in answer.sentences]
    views += next_step_views(answer)
    views.append(table)
    views += grouped_notes(
        note for note in all_notes(comparison) if note not in shown_notes
    )
    parts = [as_text(view, None, glossary_file) for view in views]
    parts += [section_text(section, None) for section in sections]
    if glossary_file is not None:
        links = [link_to(term, glossary_file) for term in _column_terms(comparison)]
        parts.append(f"Columns: {', '.join(links)}.")
    return f"{joined(parts)}\n"


def render_all(
    comparisons: Sequence[Comparison], width: int | None, which: str = MAIN
) -> str:
    """Returns the tables of all data sets, with each note once, and the tests over data sets."""
    parts: list[str] = []
    shown: set[Note] = set()
    for comparison in comparisons:
        parts.append(render(comparison, width, None, which, shown).rstrip())
        shown |= {*all_notes(comparison)}
    return joined([*parts, text_over_data_sets(comparisons, width)])


def text_over_data_sets(comparisons: Sequence[Comparison], width: int | None) -> str:
    """Returns means and tests over data sets; empty with a single data set."""
    chapters = data_sets_chapters(comparisons)
    return joined(
        section_text(section, width)
        for chapter in chapters
        for section in chapter.sections
    )


def _next_in_words(answer: Answer) -> str:
    """Returns the next step as a line of text; empty if there is none."""
    step = answer.next_step
    if step is None:
        return ""
    if not step.command:
        return f"Next: {visible(step.purpose)}"
    line = f"Next: {visible(step.command)}"
    purpose = visible(step.purpose)
    if len(line) + len(purpose) + 4 <= _WIDEST:
        return f"{line}    {purpose}"
    return f"{line}\n      {purpose}"


def next_step_views(answer: Answer) -> list[Prose | Code]:
    """Returns what to do next, with its command."""
    step = answer.next_step
    if step is None:
        return []
    if not step.command:
        return [Prose(step.purpose)]
    return [Prose(f"Next step, which {step.purpose}:"), Code(step.command)]


def _column_terms(comparison: Comparison) -> list[str]:
    """Returns the term of each column of the table, once each."""
    return list(
        dict.fromkeys(["model", *(item.term for item in columns_of_tables(comparison))])
    )


def terms_of(comparison: Comparison) -> list[str]:
    """Returns the terms of the glossary that the table and its notes use."""
    terms_of_notes = [note.term for note in all_notes(comparison)]
    return [*_column_terms(comparison), *terms_of_notes]


def as_latex(comparison: Comparison) -> str:
    """Returns the table for a paper; it needs \\usepackage{booktabs}.

    A mean is bold if its row is claimed to be better than every other row. Times, sizes and memory are left
    out.
    """
    sentences = [
        about_intervals(comparison),
        about_claims(comparison),
        about_tuning(comparison),
    ]
    how = ""
    if comparison.pairs:
        how = " ".join(filter(None, sentences))
    about = f"{visible(comparison.data)}, {_counts(comparison)}"
    columns = [item for item in columns_of_tables(comparison) if not item.is_cost]
    table = leaderboard(Shown(comparison), comparison.ranked, columns)
    return f"% {about}. {visible(how)}\n{table.latex()}"


def _folds(comparison: Comparison) -> tuple[set[int], str]:
    """Returns the numbers of the folds, and " x 2 repeats"; the latter empty without repeats."""
    repeats = set()
    folds = set()
    for row in comparison.rows:
        for item in row.evaluated:
            repeats.add(item.cell.repeat)
            if item.cell.fold is not None:
                folds.add(item.cell.fold)
    of_repeats = f" x {len(repeats)} repeats" if len(repeats) > 1 else ""
    return folds, of_repeats


def _counts(comparison: Comparison) -> str:
    folds, repeats = _folds(comparison)
    queries = 0
    if comparison.queries is not None:
        queries = comparison.queries.distinct.num_queries
    parts = []
    if len(folds) == 1:
        parts.append(f"fold {next(iter(folds))}")
    elif folds:
        parts.append(f"mean over {len(folds)} folds{repeats}")
    if queries and len(comparison.rows) > 1:
        of_all_folds = " of all folds" if len(folds) > 1 else ""
        parts.append(f"differences over {queries} queries{of_all_folds}")
    return ", ".join(parts) or "one model"


# ---- Matplotlib figures as small inline SVG in the colours of the page.

# Colour of the drawing -> colour of the style sheet.
_COLOURS = {
    "#000000": "currentColor",
    "#ffffff": "var(--paper)",
    "#dddddd": "var(--grid)",
    "#777777": "var(--muted)",
    "#555555": "var(--muted)",
    "#0072b2": "var(--blue)",
}
_COLOUR = re.compile("|".join(_COLOURS), re.IGNORECASE)
_ROOT = re.compile(
    r'.*?<svg[^>]* viewBox="([^"]*)"[^>]*>(?:\s*<defs>\s*<style.*?</defs>)?', re.DOTALL
)
_TAG = re.compile(r"<[^>]*>")
_GROUP = re.compile(r'(?<=<g) id="[^"]*"')
_STYLE = re.compile(r'style="[^"]*"')
_FONTS = re.compile(r"font-family: [^;]*; ")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_BETWEEN_TAGS = re.compile(r"(?<=>)\s+(?=<)")


def _css_colour(text: str) -> str:
    """Returns the text with colours replaced by those of the style sheet."""
    return _COLOUR.sub(lambda colour: _COLOURS[colour[0].lower()], text)


def _svg(drawing: Drawing, name: str) -> Markup:
    """Returns the drawing as SVG without namespaces, names of groups and invisible decimals.

    Args:
        name: Name of the drawing, unique in the page, from which its ids are computed.
    """
    import matplotlib as mpl

    stream = io.StringIO()
    # Text stays text, and output is deterministic: no random ids, no date, no version.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        save_figure(drawing, stream, format="svg", transparent=True, metadata=nothing)
    text = stream.getvalue()
    root = _ROOT.match(text)
    assert root is not None  # Matplotlib writes it
    box = root[1]
    width = box.split()[2]
    begin = f'<svg viewBox="{box}" style="--width: {width}" aria-hidden="true">'
    # Matplotlib escapes the texts between the tags.
    drawn = _BETWEEN_TAGS.sub("", text[root.end() :])
    return Markup(begin + _TAG.sub(_slim, drawn))


def _slim(tag: re.Match[str]) -> str:
    text = _GROUP.sub("", " ".join(tag[0].split()))
    text = _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.1f}", text)
    return _STYLE.sub(_without_font, text)


def _without_font(style: re.Match[str]) -> str:
    return _css_colour(_FONTS.sub("", style[0]))
