"""The model of a finished run, for the verbs that use it."""

from __future__ import annotations

import click

from ltrbench.errors import ConfigError, ResultError
from ltrbench.rankers import Ranker
from ltrbench.results import FINISHED, MODEL_FOLDER, Run

RANKER_OPTION = click.option(
    "--ranker", help="Class of the run's model, where it is not ltrbench's own: my_module.MyRanker."
)


def load_model(run: Run, named: str | None) -> Ranker:
    """Loads a run's model; one of a class outside ltrbench only if the command line names the class.

    Raises:
        ResultError: where the run failed, or has no model because its scores were imported.
        ConfigError: where the class must be named.
    """
    from ltrbench.config import find_class

    if run.result.status != FINISHED:
        raise ResultError(f"{run.path} failed and has no model; name a finished run.")
    if not (run.path / MODEL_FOLDER).is_dir():
        raise ResultError(f"{run.path} has no model: it holds the scores of {run.result.model} only.")
    target = named or str(run.result.settings.get("model", {}).get("_target_"))
    if named is None and not target.startswith("ltrbench.rankers."):
        raise ConfigError(
            f"the model of {run.path} is of the class '{target}', which is not ltrbench's own. A run folder "
            f"is not trusted to name code: if you trust that class, say --ranker {target}."
        )
    ranker: type[Ranker] = find_class(target, Ranker, "--ranker" if named else "model")
    return ranker.load(run.path / MODEL_FOLDER)
