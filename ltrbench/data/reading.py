"""One function that reads any file of ours: a table or LETOR text, by the file's ending."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ltrbench.data.dataset import RankingDataset
from ltrbench.data.letor import read_letor
from ltrbench.data.tables import read_table
from ltrbench.errors import ConfigError, did_you_mean

_TABLES = (".csv", ".parquet")
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


def read_data(
    path: str | Path,
    num_features: int | None = None,
    feature_names: Sequence[str] | None = None,
    **options: Any,
) -> RankingDataset:
    """Reads a file as a table where it ends in .csv or .parquet, compressed or not, otherwise as LETOR text.

    Args:
        num_features: the number of features that are expected; None: what the file has.
        feature_names: the features that training has; a table's columns are found by these names, in any
            order. LETOR text tells features by their index, so that it has no use for them.
        options: those of `read_table` or `read_letor`, by name.

    Raises:
        ConfigError: on an option that the reader does not have.
        DataError: where the file cannot be read.
    """
    reader = _reader(Path(path))
    known = [name for name in inspect.signature(reader).parameters if name != "num_features"][1:]
    for name in options:
        if name not in known:
            raise ConfigError(f"{path}: {reader.__name__} has no option '{name}'{did_you_mean(name, known)}")
    if feature_names is not None and reader is read_table:
        options["feature_names"] = feature_names
    return reader(path, num_features, **options)


def _reader(path: Path) -> Callable[..., RankingDataset]:
    inner = path.with_suffix("") if path.suffix in _COMPRESSED else path
    return read_table if inner.suffix in _TABLES else read_letor
