"""The verb `leaderboard`: score files of any system on the published data sets."""

from __future__ import annotations

from pathlib import Path

import click

from ltrbench.cli.console import PATH, echo, wrapped
from ltrbench.cli.verbs.data import sources_in_yaml

_DATA_OPTION = click.option("--data", required=True, metavar="DATA", help="Data set: a YAML of conf/data.")
_OUTPUT_OPTION = click.option(
    "--output", type=PATH, default=Path("results/leaderboard"), help="Folder; default: results/leaderboard."
)


@click.group("leaderboard")
def leaderboard_verb() -> None:
    """Compares score files of any system on published data sets."""


@leaderboard_verb.command("add")
@click.argument("scores")
@_DATA_OPTION
@click.option("--name", required=True, help="Name of the entry; of runs in a folder, the model.")
@click.option("--division", type=click.Choice(["closed", "open"]), default="open", help="Default: open.")
@click.option("--code", default="", metavar="ADDRESS", help="Address of the code.")
@click.option("--settings", default="", metavar="TEXT", help="Settings, and how they were chosen.")
@_OUTPUT_OPTION
def add_verb(scores: str, data: str, name: str, output: Path, **declared: str) -> None:
    """Checks SCORES and adds them as an entry.

    SCORES is one score file for each fold, with {fold} in its name, in a format of the verb import; or a
    folder with finished runs of the model NAME. Scores that lack a fold or a document, are constant, rank
    worse than at random or with the labels, or repeat another entry are refused. Division closed: features
    and splits as published, settings chosen on validation only, and code given.

    \b
        python -m ltrbench leaderboard add 'scores/fold{fold}.txt' --data mq2008 --name mine
    """
    from ltrbench.compare.derived import Import
    from ltrbench.compare.entries import add_entry

    sources = list(sources_in_yaml(data, None, None))
    table, remarks = add_entry(Import(name, scores), sources, output, **declared)
    echo("\n".join([table, *(wrapped(remark) for remark in remarks)]))


@leaderboard_verb.command("table")
@_DATA_OPTION
@_OUTPUT_OPTION
def table_verb(data: str, output: Path) -> None:
    """Writes the table of all entries again.

    For example after a merge of entries, which are all evaluated again.

    \b
        python -m ltrbench leaderboard table --data mq2008
    """
    from ltrbench.compare.entries import folds_of, write_table

    echo(write_table(folds_of(list(sources_in_yaml(data, None, None))), output / data))
