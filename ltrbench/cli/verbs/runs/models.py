"""Loads the model and the data of a finished run, for the verbs that use them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, get_type_hints

import click

from ltrbench.errors import ConfigError, DataError, ResultError
from ltrbench.rankers import Ranker
from ltrbench.results import Run, class_and_folder_of_model

if TYPE_CHECKING:
    from ltrbench.data import RankingDataset, Splits

RANKER_OPTION = click.option(
    "--ranker", help="Class of the model if it is not part of ltrbench: my_module.MyRanker."
)

_FOR_TABLES_ONLY = ("published", "fetch")

SOURCE_OPTION = click.option(
    "--source", metavar="CLASS", help="Class of RUN's data if it is not part of ltrbench: my_module.MyData."
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


def load_splits(run: Run, named: str | None) -> Splits:
    """Loads the data of a run with its settings. The class of the data source must be part of ltrbench, or be
    given in `named`.

    Relative paths begin in the folder in which the run was started, if it still exists.

    Raises:
        ResultError: The run was made from data in memory, or with settings that this version does not know.
        ConfigError: The class is not part of ltrbench and `named` is None.
        DataError: The files are absent or invalid.
    """
    from ltrbench.config import build, find_class
    from ltrbench.data.sources import DataSource
    from ltrbench.experiment.loading import load_once

    settings = run.result.settings.get("data", {})
    target = named or str(settings.get("_target_"))
    if named is None and not target.startswith("ltrbench.data."):
        raise ConfigError(
            f"the data of {run.path} have the class '{target}', which is not part of ltrbench. Code named in "
            f"a run folder is not executed by default; if you trust the class, add --source {target}."
        )
    types = get_type_hints(find_class(target, DataSource, "--source" if named else "data"))
    # A result records NaN as null.
    kept = {
        name: float("nan") if value is None and types.get(name) is float else value
        for name, value in settings.items()
        if name not in _FOR_TABLES_ONLY
    }
    try:
        source = build({"data": {**kept, "_target_": target}}, "data", DataSource)
    except (ConfigError, TypeError) as error:  # TypeError: a setting without default is missing
        reason = str(error).rstrip(".")
        raise ResultError(
            f"the data of {run.path} cannot be loaded again from its settings: {reason}. Name a run whose "
            "data are in files."
        ) from None
    with _in_folder(Path(run.result.started_in)):
        splits, _ = load_once(source)
    return splits


def split_of_run(run: Run, split: str, named: str | None) -> RankingDataset:
    """Returns "test" or "valid" of the data of a run; `named` as in `load_splits`.

    Raises:
        ConfigError: The class of the data source is not part of ltrbench and `named` is None.
        DataError: The data cannot be read, the run has no such split, or it is not the split of the run.
    """
    try:
        splits = load_splits(run, named)
    except ConfigError as error:
        raise ConfigError(f"{error} Or name a data file with --data FILE.") from error
    except (DataError, ResultError) as error:
        raise DataError(
            f"{run.path}: its data cannot be read again. {error} Or name a data file with --data FILE."
        ) from error
    dataset: RankingDataset | None = getattr(splits, split)
    if dataset is None:
        raise DataError(f"{run.path} has no {split} split; choose --split test, or name a file with --data.")
    recorded = run.result.data.get(split, {}).get("fingerprint")
    if dataset.fingerprint != recorded:
        raise DataError(
            f"{run.path}: the {split} split of its data has the fingerprint {dataset.fingerprint}, but the "
            f"run recorded {recorded}. The data have changed since the run: restore the files, run again, or "
            "name a data file with --data FILE."
        )
    return dataset


@contextlib.contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    """Changes to a folder, if it is one."""
    with contextlib.chdir(folder) if folder.is_dir() else contextlib.nullcontext():
        yield
