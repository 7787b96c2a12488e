"""Functions that read any file of ours, a table or LETOR text, by the file's ending."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ltrbench.data.dataset import RankingDataset
from ltrbench.data.formats.compression import without_compression_ending
from ltrbench.data.formats.letor.reader import read_letor, read_letor_features
from ltrbench.data.formats.options import as_paths
from ltrbench.data.formats.table.tables import read_table, read_table_features
from ltrbench.errors import ConfigError, DataError, did_you_mean
from ltrbench.shapes import Features

_TABLES = (".csv", ".parquet")
# What a run knows of its features and demands of its labels, and not how a file is written.
_OF_THE_RUN = {"num_features", "feature_names", "whole_labels"}
# What says how labels and queries are read.
_NO_FEATURES = {"sort_queries", "whole_labels"}


def read_data(
    path: str | Path | Sequence[str | Path],
    num_features: int | None = None,
    feature_names: Sequence[str] | str | Path | None = None,
    **options: Any,
) -> RankingDataset:
    """Reads a file as a table where it ends in .csv or .parquet, compressed or not, otherwise as LETOR text.

    Args:
        path: the file, or several of one kind that are one split.
        num_features: the number of features that are expected; None: what the file has.
        feature_names: the features that training has, by which a table's columns are found in any order;
            LETOR text tells features by their index, and has no use for them. Or, for LETOR text, the path of
            a file of names.
        options: those of `read_table` or `read_letor`, by name.

    Raises:
        ConfigError: on an option that the reader does not have, or of the wrong type.
        DataError: where the file cannot be read.
    """
    reader = _reader_of_all(as_paths(path))
    return reader(path, num_features, **_checked(path, reader, feature_names, options))


def read_features(
    path: str | Path | Sequence[str | Path],
    num_features: int | None = None,
    feature_names: Sequence[str] | str | Path | None = None,
    **options: Any,
) -> Features:
    """Reads the features of documents that are to be scored: they need neither labels nor queries.

    Where a file has labels they are checked, and not returned.

    Args:
        path, num_features, feature_names: as in `read_data`.
        options: those of `read_table` or `read_letor`, by name. Those about labels and queries
            (`whole_labels`, `sort_queries`) change nothing here.

    Returns:
        (D, F), the documents in the order of the file: what `Ranker.predict` takes.

    Raises:
        ConfigError: on an option that the reader does not have, or of the wrong type.
        DataError: where the file cannot be read; where only some documents have a label.
    """
    reader = _reader_of_all(as_paths(path))
    checked = _checked(path, reader, feature_names, options)
    checked = {name: value for name, value in checked.items() if name not in _NO_FEATURES}
    if reader is read_table:
        return read_table_features(path, num_features, **checked)
    return read_letor_features(path, num_features, **checked)


def _checked(
    path: str | Path | Sequence[str | Path],
    reader: Callable[..., RankingDataset],
    feature_names: Sequence[str] | str | Path | None,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """The options for a reader, `feature_names` among them where it takes them."""
    first = as_paths(path)[0]
    known = _options(reader)
    for name in options:
        if name not in known:
            raise ConfigError(f"{first}: {reader.__name__} has no option '{name}'{did_you_mean(name, known)}")
    if reader is read_table and isinstance(feature_names, (str, Path)):
        raise ConfigError(
            f"{first}: feature_names={feature_names} is for LETOR text; a table's columns are the names."
        )
    takes_names = reader is read_table or isinstance(feature_names, (str, Path))
    named = {"feature_names": feature_names} if takes_names and feature_names is not None else {}
    return {**options, **named}


def reading_options(path: str | Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """How a run read its own files, as far as it applies to another: options for `read_data`.

    Args:
        path: the file to be read.
        config: the run's `data`, as its result keeps it; NaN is None there.

    Returns:
        Those of its keys that are options of the reader of `path` and are set, without those that say which
        features the run has, or what it asks of labels.

    >>> reading_options("test.txt", {"name": "mine", "first_index": 0, "absent": None, "label": "grade"})
    {'first_index': 0, 'absent': nan}
    """
    known = set(_options(_reader(Path(path)))) - _OF_THE_RUN
    options = {name: value for name, value in config.items() if name in known and value is not None}
    if "absent" in known and config.get("absent", 0.0) is None:
        options["absent"] = float("nan")
    return options


def _reader_of_all(paths: Sequence[Path]) -> Callable[..., RankingDataset]:
    readers = [_reader(path) for path in paths]
    if len(set(readers)) > 1:
        odd = next(path for path, reader in zip(paths, readers, strict=True) if reader is not readers[0])
        raise DataError(
            f"{odd}: is not of the kind of {paths[0]}, by its ending; give tables or LETOR text, not both."
        )
    return readers[0]


def _reader(path: Path) -> Callable[..., RankingDataset]:
    inner = without_compression_ending(path)
    return read_table if inner.suffix.lower() in _TABLES else read_letor


def _options(reader: Callable[..., RankingDataset]) -> list[str]:
    return list(inspect.signature(reader).parameters)[1:]
