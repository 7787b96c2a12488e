"""Loads the model of a finished run, for the verbs that use it."""

from __future__ import annotations

import click

from ltrbench.errors import ConfigError
from ltrbench.rankers import Ranker
from ltrbench.results import Run, class_and_folder_of_model

RANKER_OPTION = click.option(
    "--ranker", help="Class of the model if it is not part of ltrbench: my_module.MyRanker."
)


def load_model(run: Run, named: str | None) -> Ranker:
    """Loads the model of a run. The class of the model must be part of ltrbench, or be given in `named`.

    Raises:
        ResultError: The run failed, or has no model because its scores were imported or it is a trial.
        ConfigError: The class is not part of ltrbench and `named` is None.
    """
    from ltrbench.config import find_class

    recorded, folder = class_and_folder_of_model(run)
    target = named or recorded
    if named is None and not target.startswith("ltrbench.rankers."):
        raise ConfigError(
            f"the model of {run.path} has the class '{target}', which is not part of ltrbench. Code named in "
            f"a run folder is not executed by default; if you trust the class, add --ranker {target}."
        )
    ranker: type[Ranker] = find_class(target, Ranker, "--ranker" if named else "model")
    return ranker.load(folder)
