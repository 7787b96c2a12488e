"""Not a verb: reads the data of a finished run again, from the settings that the run recorded."""

from __future__ import annotations

import contextlib
import os
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, DataError
from ltrbench.results import Run
from ltrbench.user_modules import searching_only

_OURS = "ltrbench.data."
_FOR_TABLES_ONLY = ("published", "fetch")


def split_of_run(run: Run, split: str) -> RankingDataset:
    """Returns "test" or "valid" of the data of a run.

    Only data sources of ltrbench are used, because code named in a run folder is not executed. Relative paths
    begin in the folder in which the run was started.

    Raises:
        ConfigError: The class of the data source is not part of ltrbench.
        DataError: The data cannot be read, the run has no such split, or it is not the split of the run.
    """
    from ltrbench.config import build
    from ltrbench.data.sources import DataSource
    from ltrbench.experiment.loading import load_once

    settings = _settings(run)
    with searching_only(Path.cwd()), _in_folder(Path(run.result.started_in or ".")):
        try:
            source = build({"data": settings}, "data", DataSource)
            splits, _ = load_once(source)
        except (DataError, ConfigError) as error:
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


def _settings(run: Run) -> dict[str, Any]:
    from ltrbench.config import find_class
    from ltrbench.data.sources import DataSource

    settings = dict(run.result.settings.get("data", {}))
    target = str(settings.get("_target_"))
    if not target.startswith(_OURS):
        raise ConfigError(
            f"the data of {run.path} have the class '{target}', which is not part of ltrbench. Code named in "
            "a run folder is not executed: name a data file with --data FILE."
        )
    types = typing.get_type_hints(find_class(target, DataSource, "data"))
    # A result records NaN as null.
    return {
        name: float("nan") if value is None and types.get(name) is float else value
        for name, value in settings.items()
        if name not in _FOR_TABLES_ONLY
    }


@contextlib.contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    """Changes the current folder for the block; a folder of another machine is ignored."""
    before = Path.cwd()
    if folder.is_dir():
        os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
