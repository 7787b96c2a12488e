"""The verb `aa`: the rate of false claims, from A/A comparisons of each model with itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltrbench.cli.files import (
    JSON_OPTION,
    PATH,
    PLUGIN_OPTION,
    echo,
    echo_json,
    split_settings,
    terminal_width,
    wrapped,
)
from ltrbench.cli.verbs.data.evaluate import CONVENTION_OPTION, ROPE_OPTION, SETTINGS_OPTION
from ltrbench.errors import ResultError
from ltrbench.tables import Table, TableColumn, TableRow

if TYPE_CHECKING:
    from ltrbench.compare.analysis.aa import AgainstItself


@click.command("aa")
@click.argument("folders", metavar="DIR...", type=PATH, nargs=-1, required=True)
@click.option("--metric", help="Metric of the claims. Default: the ndcg with the largest cutoff.")
@PLUGIN_OPTION
@CONVENTION_OPTION
@SETTINGS_OPTION
@ROPE_OPTION
@click.option(
    "--halvings",
    type=click.IntRange(min=1),
    default=1_000,
    show_default=True,
    metavar="N",
    help="Maximum number of ways to split into halves; if more are possible, --seed draws N of them.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed that draws the halves.")
@JSON_OPTION
def aa_verb(
    folders: tuple[Path, ...],
    metric: str | None,
    preset_name: str,
    settings: tuple[str, ...],
    rope: float,
    halvings: int,
    seed: int,
    as_object: bool,
) -> None:
    """Compares each model with itself, to measure the rate of false claims.

    Reads the finished runs in and below DIR... The replicates of a model (its seeds or resamples) are split
    into two halves, which are compared like two models. A model needs at least eight replicates.

    \b
        python -m ltrbench aa multirun
        python -m ltrbench aa multirun --metric map --halvings 200 --json
    """
    from ltrbench.compare import Settings
    from ltrbench.compare.analysis.aa import each_against_itself
    from ltrbench.metrics import preset, with_settings
    from ltrbench.results import find_runs

    convention = with_settings(preset(preset_name), split_settings("--set", settings))
    chosen = Settings(metric=metric, convention=convention, rope=rope, seed=seed)
    rows = each_against_itself(find_runs(folders), chosen, halvings)
    if all(row.halved is None for row in rows):
        raise ResultError("\n".join(["no model has enough replicates for two halves.", *_reasons(rows)]))
    if as_object:
        echo_json(_record(rows, convention.name, rope, seed))
    else:
        echo(_render(rows))


def _render(rows: Sequence[AgainstItself]) -> str:
    from ltrbench.compare.analysis.aa import OF_RESAMPLES, READING

    columns = [
        TableColumn("data", left=True),
        TableColumn("model", left=True),
        TableColumn("replicates"),
        TableColumn("halvings"),
        TableColumn("interval excludes 0"),
        TableColumn("better or worse"),
        TableColumn("equivalent"),
        TableColumn("by queries alone"),
    ]
    table = Table(columns, [_cells(row) for row in rows]).markdown(terminal_width() or 100_000)
    parts = [f"Models against themselves, {rows[0].metric}", table, wrapped(READING)]
    if any(row.kind == "resamples" for row in rows):
        parts.append(wrapped(OF_RESAMPLES))
    return "\n\n".join([*parts, *_reasons(rows)])


def _cells(row: AgainstItself) -> TableRow:
    kind = row.kind if row.num_replicates != 1 else row.kind.removesuffix("s")
    folds = f"{row.num_folds} folds x " if row.num_folds > 1 else ""
    replicates = f"{folds}{row.num_replicates} {kind}"
    halved = row.halved
    if halved is None:
        return [row.data, row.label, replicates, *[None] * 5]
    of_all = "" if halved.num_halvings == halved.num_distinct else f" of {halved.num_distinct:,}"
    counts = (halved.num_intervals, halved.num_different, halved.num_equivalent, halved.num_by_queries)
    shares = [f"{count} ({100 * count / halved.num_halvings:.1f} %)" for count in counts]
    return [row.data, row.label, replicates, f"{halved.num_halvings:,}{of_all}", *shares]


def _reasons(rows: Sequence[AgainstItself]) -> list[str]:
    """Returns one line for each row without a result, with the command that would give one."""
    lines = []
    for row in rows:
        step = row.next_step
        if step is not None:
            lines.append(f"{row.data}, {row.label}: {step.sentence}\n  {step.command}".rstrip())
        elif row.halved is None:
            lines.append(f"{row.data}, {row.label}: {row.reason}.")
    return lines


def _record(rows: Sequence[AgainstItself], convention: str, rope: float, seed: int) -> dict[str, Any]:
    return {
        "metric": rows[0].metric,
        "convention": convention,
        "rope": rope,
        "seed": seed,
        "rows": [asdict(row) for row in rows],
    }
