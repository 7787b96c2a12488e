"""The verb `predict`: the model of a finished run scores a file of data."""

from __future__ import annotations

from pathlib import Path

import click

from ltrbench.cli.files import PATH, READ_OPTION, opened, typed_options
from ltrbench.cli.verbs.runs.models import RANKER_OPTION, load_model
from ltrbench.results import read_run


@click.command("predict")
@click.argument("run", type=PATH)
@click.argument("data", type=PATH)
@click.option("--output", type=PATH, help="Write the scores to this file instead of standard output.")
@RANKER_OPTION
@READ_OPTION
def predict_verb(
    run: Path, data: Path, output: Path | None, ranker: str | None, reading: tuple[str, ...]
) -> None:
    """Scores the documents of the file DATA with the model of the finished RUN, a line a document.

    DATA is a file as those in training; the columns of a table are found by their names. It needs neither
    labels nor queries: a LETOR line may begin with qid:ID or with its first feature, and a table may lack
    these columns. Scores stand in the order of the file. A score is printed in full, so that reading it back
    gives the same number.

    \b
        python -m ltrbench predict outputs/2026-01-31/12-00-00 test.txt --output scores.txt
    """
    from ltrbench.data.formats.reading import read_features, reading_options

    finished = read_run(run)
    model = load_model(finished, ranker)
    train = finished.result.data["train"]
    # As in training, but that a table's columns may stand in another order; a LETOR file has no names.
    as_trained = {"num_features": int(train["features"]), "feature_names": train.get("feature_names")}
    options = reading_options(data, finished.result.settings.get("data", {}))
    scores = model.predict(read_features(data, **{**as_trained, **options, **typed_options(reading)}))
    with opened(output) as file:
        file.writelines(f"{score!s}\n" for score in scores)
