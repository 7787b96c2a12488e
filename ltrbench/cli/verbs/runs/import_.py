"""The verb `import`: writes the scores of any system as a run folder."""

from __future__ import annotations

from pathlib import Path

import click

from ltrbench.cli.files import PATH, PLUGIN_OPTION, echo


@click.command("import")
@click.argument("name")
@click.argument("file")
@click.option("--like", type=PATH, required=True, metavar="RUN", help="Run on the same data.")
@click.option("--output", type=PATH, required=True, metavar="DIR", help="Folder of the new run.")
@PLUGIN_OPTION
def import_verb(name: str, file: str, like: Path, output: Path) -> None:
    """Writes the scores in FILE as a run of the system NAME.

    The run can be compared and tracked like any other run. FILE has one score per line in the order of the
    data rows, the query, index and score of RankLib's -score, or a TREC run; the format is detected from the
    content. {data}, {fold} and {seed} in the file name are filled in from RUN; with {split} in it, the scores
    of test and valid are read.

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
