"""The verb `import`: writes the scores of any system, or a model of another library, as a run folder."""

from __future__ import annotations

from pathlib import Path

import click

from ltrbench.cli.files import PATH, PLUGIN_OPTION, echo
from ltrbench.cli.verbs.runs.models import SOURCE_OPTION, load_splits
from ltrbench.errors import ConfigError
from ltrbench.results import Run, read_run


@click.command("import")
@click.argument("name")
@click.argument("file")
@click.option("--like", type=PATH, required=True, metavar="RUN", help="Run on the same data.")
@click.option("--output", type=PATH, required=True, metavar="DIR", help="Folder of the new run.")
@click.option(
    "--features",
    "way",
    type=click.Choice(["names", "numbers", "positions"]),
    help="How the features of a model are matched with the data. Default: names if the model and the data "
    "have them, else RankLib's numbers, else positions.",
)
@SOURCE_OPTION
@PLUGIN_OPTION
def import_verb(name: str, file: str, like: Path, output: Path, way: str | None, source: str | None) -> None:
    """Writes the scores or the model in FILE as a run of the system NAME.

    The run can be compared and tracked like any other run. Scores: FILE has one score per line in the order
    of the data rows, the query, index and score of RankLib's -score, or a TREC run; the format is detected
    from the content. {data}, {fold} and {seed} in the file name are filled in from RUN; with {split} in it,
    the scores of test and valid are read.

    A model: FILE is LightGBM's model.txt, XGBoost's model.json or model.ubj, or a tree ensemble of RankLib.
    The data of RUN are loaded again and scored. The run has the model, for predict, trees and ship.

    \b
        python -m ltrbench import ranklib scores.txt --like outputs/2026-01-31/12-00-00 --output ranklib
        python -m ltrbench import production model.txt --like outputs/2026-01-31/12-00-00 --output production
    """
    from ltrbench.compare.scores.imported import Import, import_like
    from ltrbench.rankers.models.formats.reading import is_model_file

    system, run_on_data = Import(name, file), read_run(like)
    path = system.file(run_on_data.result, "test")
    if is_model_file(path):
        _report(output, _import_model(name, path, run_on_data, output, way, source))
        return
    for option, value in (("--features", way), ("--source", source)):
        if value is not None:
            raise ConfigError(
                f"{option} applies to model files only, but {path} is not one; remove {option}."
            )
    _report(output, import_like(system, run_on_data, output))


def _import_model(name: str, path: Path, like: Run, output: Path, way: str | None, source: str | None) -> Run:
    from ltrbench.compare.scores.imported_models import ModelImport, check_like, import_model

    check_like(like)
    return import_model(ModelImport(name, path, way), like, load_splits(like, source), output)


def _report(output: Path, run: Run) -> None:
    """Prints the metrics and the notes of a run."""
    figures = [
        f"{key} {'-' if value is None else f'{value:.4f}'}"
        for key, value in run.result.metrics.items()
        if key.startswith("test/")
    ]
    echo(f"{output}: {run.result.model}, {', '.join(figures)}")
    for note in run.result.notes:
        echo(f"- {note}")
