"""The verb `import`: the scores of any system as a run folder."""

from __future__ import annotations

from pathlib import Path

import click

from ltrbench.cli.files import PATH, PLUGIN_OPTION, echo


@click.command("import")
@click.argument("name")
@click.argument("file")
@click.option("--like", type=PATH, required=True, metavar="RUN", help="The run whose data the scores are of.")
@click.option("--output", type=PATH, required=True, metavar="DIR", help="The folder of the new run.")
@PLUGIN_OPTION
def import_verb(name: str, file: str, like: Path, output: Path) -> None:
    """Writes the scores in FILE as a run of the system NAME, to be compared and tracked like any other.

    FILE holds one score a line in the order of the data's rows, the query, index and score of RankLib's
    -score, or a TREC run; which, is told by its content. Its name may hold {data}, {fold}, {seed} and
    {split}, as of RUN; with {split}, test and valid are read.

    \b
        python -m ltrbench import ranklib scores.txt --like outputs/2026-01-31/12-00-00 --output ranklib
    """
    from ltrbench.compare.scores.imported import Import, import_like
    from ltrbench.results import read_run

    run = import_like(Import(name, file), read_run(like), output)
    figures = [
        f"{key} {'-' if value is None else f'{value:.4f}'}"
        for key, value in run.result.metrics.items()
        if key.startswith("test/")
    ]
    echo(f"{output}: {name}, {', '.join(figures)}")
    for note in run.result.notes:
        echo(f"- {note}")
