"""The verb `frontier`: what models and cheaper variants cost, and the cheapest to ship."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import click

from ltrbench.cli.console import JSON_OPTION, PATH, PLUGIN_OPTION, echo, echo_json, terminal_width, wrapped
from ltrbench.cli.session import mirror_beside
from ltrbench.cli.verbs.runs import load_splits
from ltrbench.errors import ConfigError
from ltrbench.runs.record import find_runs, holds_runs


@click.command("frontier")
@click.argument("folder", metavar="DIR", type=PATH)
@click.option("--metric", help="Metric of the quality. Default: the ndcg with the largest cutoff.")
@click.option(
    "--guard",
    "guards",
    metavar="NAME=LIMIT",
    multiple=True,
    help="As in compare: ndcg@10=-0.005 against the best row, latency=2ms (median of a list of 100 documents "
    "in the service), memory=200MB (of loading). Default: the region of equivalence of the metric.",
)
@click.option("--output", type=PATH, metavar="OUT", help="Folder of the variants. Default: DIR-frontier.")
@PLUGIN_OPTION
@JSON_OPTION
def frontier_verb(
    folder: Path,
    metric: str | None,
    guards: tuple[str, ...],
    output: Path | None,
    as_object: bool,
) -> None:
    """Shows what the models of the runs in DIR cost, and the cheapest that is equivalent to the best.

    Lists of 20, 100 and 1,000 documents are timed on one thread, from the request to the answer of the
    service; the trained models and the chosen one also in their library, as C, in treelite and in ONNX.
    Variants of the best row, its first 10 %, 20 %, ... of the trees, are written to OUT as runs for compare,
    ship and serve. All choices are by validation: the best row, and the row of lowest latency that is not
    lower by more than the guards allow, tested on validation. Test is evaluated once, for these two rows.

    \b
        python -m ltrbench frontier multirun/2026-01-31/12-00-00
        python -m ltrbench frontier multirun/2026-01-31/12-00-00 --guard ndcg@10=-0.002 --guard latency=2ms
    """
    from ltrbench.compare import Guard, Settings
    from ltrbench.frontier import as_table, frontier

    # Not in the folder, whose comparisons would have the variants as rows, and wider intervals.
    beside = folder.resolve().with_name(f"{folder.resolve().name}-frontier")
    variants = Path(os.path.relpath(beside)) if output is None else output
    if holds_runs(variants):
        raise ConfigError(f"{variants} already has runs; name another folder with --output, or delete it.")
    runs = find_runs([folder])
    settings = Settings(metric=metric, guards=tuple(map(Guard.parse, guards)))
    given = [("--metric", metric), ("--output", output), *(("--guard", each) for each in guards)]
    words = [str(word) for option, value in given if value is not None for word in (option, value)]
    done, made = frontier(runs, settings, variants, load_splits, ["frontier", str(folder), *words])
    if as_object:
        echo_json(asdict(done))
    else:
        notes = "".join(f"\n{wrapped(f'- {note}', '  ')}" for note in done.notes)
        echo(f"{wrapped(done.sentence)}\n\n{as_table(done).markdown(terminal_width())}{notes}")
    mirror_beside(runs, made)
