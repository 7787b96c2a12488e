"""Chapter on the runs: versions, machine, and the commands that repeat them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from ltrbench.compare.comparison import Comparison
from ltrbench.compare.output.report.parts import Chapter, Code, Folded, PagePart, Section
from ltrbench.results import NO_PARAMETERS, Run, RunResult
from ltrbench.tables import Table, TableCell, TableColumn, TableRow, numbers


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
