"""The verb `predict`: scores a data file with the model of a finished run."""

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
    """Scores the documents of DATA with the model of the finished RUN, one score per line.

    DATA has the format of the training files; columns of a table are matched by name. Labels and queries are
    not needed: a LETOR line may begin with qid:ID or with its first feature, and a table may lack these
    columns. Scores are in the order of the file and have full precision.

    \b
        python -m ltrbench predict outputs/2026-01-31/12-00-00 test.txt --output scores.txt
    """
    from ltrbench.data.formats.reading import read_features, reading_options

    finished = read_run(run)
    model = load_model(finished, ranker)
    train = finished.result.data["train"]
    # As in training, except that the columns of a table may be in another order; a LETOR file has no names.
    as_trained = {"num_features": int(train["features"]), "feature_names": finished.result.feature_names}
    options = reading_options(data, finished.result.settings.get("data", {}))
    scores = model.predict(read_features(data, **{**as_trained, **options, **typed_options(reading)}))
    with opened(output) as file:
        file.writelines(f"{score!s}\n" for score in scores)
