"""The verb `show`: prints one run from its folder."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltrbench.cli.files import PATH, echo, echo_json, terminal_width
from ltrbench.cli.program import program
from ltrbench.errors import ResultError
from ltrbench.tables import Table, TableColumn, TableRow, assignments, figure, paragraph
from ltrbench.tables.numbers import DASH

if TYPE_CHECKING:
    from ltrbench.rankers.models.importance import Importances
    from ltrbench.results import Run, RunResult

NUM_FEATURES = 10
"""Maximum number of features in the table; --json has all."""

_LINE = 100  # width of a paragraph in columns if standard output is not a terminal


@click.command("show")
@click.argument("run", type=PATH)
@click.option(
    "--json", "as_object", is_flag=True, help="Print one JSON object: result.json, path, and all importances."
)
def show_verb(run: Path, as_object: bool) -> None:
    """Prints the run in the folder RUN: settings, command, and metrics or error.

    \b
        python -m ltrbench show outputs/2026-01-31/12-00-00
    """
    run_of_folder = _read(run)
    if as_object:
        echo_json(_record(run_of_folder))
    else:
        echo("\n\n".join(_parts(run_of_folder, terminal_width())))


def _read(folder: Path) -> Run:
    from ltrbench.results import RESULT_FILE, read_run
    from ltrbench.sweep.job import PLAN_FOLDER

    try:
        return read_run(folder)
    except ResultError as error:
        if (folder / RESULT_FILE).exists() or not (folder / PLAN_FOLDER).is_dir():
            raise
        status = f"{program()} status {shlex.quote(str(folder))}"
        raise ResultError(f"{error} {folder} is the folder of a sweep; {status} shows its jobs.") from error


def _record(run: Run) -> dict[str, Any]:
    importances = run.importances()
    columns = [values.tolist() for values in importances.values.values()]
    table = Table.of(["feature", *importances.values], zip(importances.feature_names, *columns, strict=True))
    return {**asdict(run.result), "path": str(run.path), "importances": table.records()}


def _parts(run: Run, width: int | None) -> Iterator[str]:
    """Yields the paragraphs and tables, fitted to a width in columns; None: standard output is no
    terminal."""
    result, columns = run.result, width or _LINE
    fold = result.data.get("fold")
    of_fold = "" if fold is None else f", fold {fold}"
    of_search = ", a trial of a search" if result.trial else ""
    yield f"{result.model} on {result.data['name']}{of_fold}: {result.status}{of_search}\n{run.path}"
    if result.error is not None:
        reason, _, trace = result.error.partition("\n")
        # A traceback is not wrapped.
        yield "\n\n".join([paragraph(f"error: {reason}", columns), *([trace.strip()] if trace else [])])
    yield _origin(result, width)
    yield _facts([*_making(result), *costs(result)], columns)
    if result.metrics:
        yield _metrics_table(result).markdown(width)
        yield paragraph(_convention(result), columns)
    importances = run.importances()
    if importances.kinds:
        yield paragraph(_importances_title(result, importances), columns)
        yield _importances_table(importances).markdown(width)
    if "train" in result.data:
        yield _data_table(result).markdown(width)
    # A run of imported scores has no machine.
    if result.machine:
        yield _facts(list(_surroundings(result)), columns)
    sentences = [*result.unmatched, *result.notes]
    if sentences:
        yield "\n".join(paragraph(f"- {sentence}", columns, "  ") for sentence in sentences)


def _facts(facts: list[tuple[str, str]], columns: int) -> str:
    margin = max(len(name) for name, _ in facts) + 2
    return "\n".join(paragraph(f"{name:{margin}}{fact}", columns, " " * margin) for name, fact in facts)


def _origin(result: RunResult, width: int | None) -> str:
    """Returns the folder in which the run was started, and the command that repeats it."""
    place = f"run in {result.started_in or DASH}"
    if result.command is None:
        return paragraph(f"{place} from Python; there is no command that repeats it.", width or _LINE)
    return f"{place} with\n{_command(result, width)}"


def _command(result: RunResult, width: int | None) -> str:
    """Returns the command that repeats the run, quoted for a shell; a line that continues ends in a
    backslash."""
    lines = ["  python -m ltrbench"]
    for word in map(shlex.quote, result.overrides or ()):
        if width is not None and len(f"{lines[-1]} {word} \\") > width:
            lines[-1] += " \\"
            lines.append(f"    {word}")
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines)


def _making(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yields the sweep, time, class, parameters, search and seed of the run."""
    if result.sweep is not None:
        yield "sweep", result.sweep
    yield "when", _when(result)
    model = result.settings.get("model", {})
    if "_target_" in model:
        yield "class", str(model["_target_"])
    settings = _settings(model)
    yield "params", f"{result.params}{': ' if settings else ''}{settings}"
    if result.search:
        yield "search", _search(result.search)
    yield "seed", str(result.seed)


def _search(search: Mapping[str, Any]) -> str:
    """Returns the search and its cost, the settings that it chose, and those of the default trial."""
    cost = f"{search['trials']} trials, {search['iterations']:,} iterations, fits {search['seconds']:.1f} s"
    return (
        f"{search['name']}, seed {search['seed']}, {cost}; chosen {search['choose']} by {search['metric']} "
        f"on validation: trial {search['chosen']}, {assignments(search['settings']) or 'no setting varied'}; "
        f"default: {assignments(search['default'])}"
    )


def _when(result: RunResult) -> str:
    if not (result.started and result.finished):
        return DASH
    started, finished = (datetime.fromisoformat(text) for text in (result.started, result.finished))
    seconds = (finished - started).total_seconds()
    return f"{started:%Y-%m-%d %H:%M:%S} {started.tzname() or ''}, {seconds:.1f} s in total"


def _settings(settings: Mapping[str, Any], prefix: str = "") -> str:
    """Returns the settings of the model as `key=value`, without nulls and without those on other lines."""
    words = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            words.append(_settings(value, f"{prefix}{key}."))
        elif value is not None and key not in ("_target_", "seed", "num_threads"):
            words.append(f"{prefix}{key}={value}")
    return ", ".join(word for word in words if word)


def costs(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yields the name and value of each cost of the run: seconds, memory and trees."""
    from ltrbench.results import TIMES

    if result.seconds:
        known = [
            f"{words} {result.seconds[kind]:.3f}" for kind, words in TIMES.items() if kind in result.seconds
        ]
        remark = " (next to another job on this machine)" if result.shared_machine else ""
        yield "seconds", f"{', '.join(known)}{remark}"
    if result.peak_memory_mb is not None:
        yield "memory", f"{result.peak_memory_mb:.0f} MB more during the fit"
    if result.best_iteration is not None:
        most = result.settings.get("model", {}).get("num_trees")
        yield "trees", f"{result.best_iteration}{'' if most is None else f' of at most {most}'}"


def _metrics_table(result: RunResult) -> Table:
    splits = [split for split in ("valid", "test") if any(key.startswith(split) for key in result.metrics)]
    names = dict.fromkeys(key.partition("/")[2] for key in result.metrics)
    rows = [[name, *(result.metrics.get(f"{split}/{name}") for split in splits)] for name in names]
    return Table.of(["metric", *splits], rows, ".4f")


_TIES = {"expected": "with their expected value", "row_order": "in row order"}
_NO_RELEVANT = {"skip": "is left out", "0": "counts 0", "1": "counts 1"}


def _convention(result: RunResult) -> str:
    fields = result.convention
    ties, absent = str(fields.get("ties")), str(fields.get("no_relevant"))
    shares = [
        f"{data['queries_without_relevant_document']:.1%} of {split}"
        for split, data in result.data.items()
        if split in ("valid", "test") and "queries_without_relevant_document" in data
    ]
    return (
        f"Convention {fields['name']}: {str(fields['gain']).replace('_', ' ')}, tied scores count "
        f"{_TIES.get(ties, ties)}, and a query without a relevant document "
        f"{_NO_RELEVANT.get(absent, absent)} ({', '.join(shares)})."
    )


def _importances_title(result: RunResult, importances: Importances) -> str:
    """Returns the title of the table of importances, with the criterion that sorts the features."""
    count = min(NUM_FEATURES, len(importances.feature_names))
    total = result.data["train"]["features"] if importances.is_part else len(importances.feature_names)
    _, meaning = _KINDS_OF_IMPORTANCE[importances.kinds[0]]
    meaning = meaning.format(metric=result.importance_metric or "the metric")
    return f"{count} of {total} features, by {meaning}"


_KINDS_OF_IMPORTANCE = {
    "permutation_within": ("within", "drop of {metric} on test when shuffled within each query"),
    "permutation_across": ("across", "drop of {metric} on test when shuffled across all queries"),
    "shap": ("SHAP", "share of the mean |SHAP|, the contribution to the scores"),
    "gain": ("gain", "share of the gain of all splits"),
    "split": ("splits", "share of all splits"),
    "drop_column": ("dropped", "drop of {metric} on test in a fit without the feature"),
}
"""Kind -> (column head, definition)."""


def _importances_table(importances: Importances) -> Table:
    """Returns the table of the most important features by the first kind."""
    from ltrbench.rankers.models.importance import FALLS, HIGH, LOW

    first, *_ = importances.kinds
    values = importances.values
    # NaN sorts last.
    order = sorted(
        range(len(values[first])),
        key=lambda row: math.inf if math.isnan(values[first][row]) else -values[first][row],
    )[:NUM_FEATURES]
    columns = [TableColumn("feature", left=True)]
    cells: list[TableRow] = [[importances.feature_names[row] for row in order]]
    for kind in importances.kinds:
        form = "+.4f" if kind in FALLS else ".1%"
        columns.append(TableColumn(_KINDS_OF_IMPORTANCE[kind][0], form))
        cells.append([float(values[kind][row]) for row in order])
        if kind == first and kind + LOW in values:
            columns.append(TableColumn("95 %"))
            ends = [(float(values[kind + LOW][row]), float(values[kind + HIGH][row])) for row in order]
            cells.append([f"{figure(low, form)} to {figure(high, form)}" for low, high in ends])
    return Table(columns, list(zip(*cells, strict=True)))


def _data_table(result: RunResult) -> Table:
    sizes = ("queries", "documents", "features")
    columns = [
        TableColumn("split", left=True),
        *map(TableColumn, sizes),
        TableColumn("no relevant", ".1%"),
        TableColumn("fingerprint"),
    ]
    keys = (*sizes, "queries_without_relevant_document", "fingerprint")
    rows = [
        [split, *(facts.get(key) for key in keys)]
        for split, facts in result.data.items()
        if split in ("train", "valid", "test")
    ]
    return Table(columns, rows)


def _surroundings(result: RunResult) -> Iterator[tuple[str, str]]:
    machine = result.machine
    yield "machine", f"{machine.get('cpu')}, {machine.get('cores')} cores, {machine.get('system')}"
    yield "threads", str(result.threads)
    yield "versions", ", ".join(f"{name} {version}" for name, version in result.versions.items())
    yield "commit", result.commit or DASH
    if result.drift:
        yield "drift", _drift(result.drift)
    chosen = result.search.get("space", {})
    fixed = {name: value for name, value in result.own_settings.items() if name not in chosen}
    if fixed:
        yield "own", f"set instead of the shared parameters: {assignments(fixed)}"
    if result.unmatched:
        yield "unmatched", "differences between this backend and the shared parameters:"
    elif not fixed and result.params not in ("own", "none"):
        yield "unmatched", "none: every shared parameter has its common meaning in this backend"


def _drift(drift: Mapping[str, Any]) -> str:
    convention = drift["convention"]
    if "error" in drift:
        return f"the metrics of {convention} could not be checked: {drift['error']}"
    figures = {name: (drift["own"][name], ours) for name, ours in drift.get("ours", {}).items()}
    pairs = {name: pair for name, pair in figures.items() if None not in pair}
    if not pairs:
        return f"not checked: {convention} has none of these metrics"
    name = max(pairs, key=lambda name: abs(pairs[name][0] - pairs[name][1]))
    theirs, ours = pairs[name]
    verdict = "DRIFT, do not rely on either value: " if drift.get("drifted") else "none: "
    return (
        f"{verdict}{len(pairs)} metrics computed by {convention} and by ltrbench under the same convention; "
        f"largest difference in {name}, {theirs:.9f} by {convention} and {ours:.9f} by ltrbench"
    )
