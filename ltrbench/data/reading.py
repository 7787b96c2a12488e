"""Readers of data: stores, tables and LETOR text, chosen by the path."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ltrbench.data.blocks import as_paths, without_compression_ending
from ltrbench.data.dataset import RankingDataset
from ltrbench.data.letor import read_letor, read_letor_features
from ltrbench.data.letor_lines import ENDINGS, companion
from ltrbench.data.store import MANIFEST_FILE, is_store, read_store, read_store_features
from ltrbench.data.tables import read_table, read_table_features
from ltrbench.errors import ConfigError, DataError, did_you_mean
from ltrbench.shapes import Features

_FEATURE_READERS: dict[Callable[..., RankingDataset], Callable[..., Features]] = {
    read_store: read_store_features,
    read_table: read_table_features,
    read_letor: read_letor_features,
}
# Options that depend on the features and the gains of a run, not on the format of a file.
_OF_THE_RUN = {"num_features", "feature_names", "whole_labels"}
# Options that concern labels and queries only.
_NO_FEATURES = {"sort_queries", "whole_labels"}


def read_data(
    path: str | Path | Sequence[str | Path],
    num_features: int | None = None,
    feature_names: Sequence[str] | str | Path | None = None,
    *,
    scratch: str | Path | None = None,
    **options: Any,
) -> RankingDataset:
    """Reads a store, a table (a file with extension .csv or .parquet, compressed or not), or LETOR text.

    Args:
        path: the file or the folder of a store, or several of the same format that form one split.
        num_features: expected number of features; None: the number in the file.
        feature_names: feature names of the training data, which select the columns of a table or a store in
            any order; ignored for LETOR text, whose features have indices. For LETOR text also the path of a
            file of feature names.
        scratch: folder of a temporary file for features that do not fit into memory, if the reader has this
            option; None: they are an error.
        options: options of `read_store`, `read_table` or `read_letor`, by name.

    Raises:
        ConfigError: The reader does not have an option, or its type is wrong.
        DataError: The file cannot be read.
    """
    reader, known = _reader_with(path, feature_names, options)
    if scratch is not None and reader is read_letor:
        known["scratch"] = scratch
    return reader(path, num_features, **known)


def read_features(
    path: str | Path | Sequence[str | Path],
    num_features: int | None = None,
    feature_names: Sequence[str] | str | Path | None = None,
    **options: Any,
) -> Features:
    """Reads the features of documents for prediction, which need neither labels nor queries.

    Labels in LETOR text are validated, but not returned; those in tables are not read.

    Args:
        path, num_features, feature_names: as in `read_data`.
        options: options of `read_store`, `read_table` or `read_letor`, by name. Options about labels and
            queries (`whole_labels`, `sort_queries`) have no effect here.

    Returns:
        (D, F), the documents in file order: the input of `Ranker.predict`. An array, SparseRows for sparse
        features, or a FeatureMatrix for a store.

    Raises:
        ConfigError: The reader does not have an option, or its type is wrong.
        DataError: The file cannot be read.
    """
    reader, known = _reader_with(path, feature_names, options)
    used = {name: value for name, value in known.items() if name not in _NO_FEATURES}
    return _FEATURE_READERS[reader](path, num_features, **used)


def _reader_with(
    given: str | Path | Sequence[str | Path],
    feature_names: Sequence[str] | str | Path | None,
    options: Mapping[str, Any],
) -> tuple[Callable[..., RankingDataset], dict[str, Any]]:
    """Returns the reader of all paths, and its options, with `feature_names` if it uses them."""
    paths = as_paths(given)
    readers = [_reader(path) for path in paths]
    reader = readers[0]
    odd = next((path for path, other in zip(paths, readers, strict=True) if other is not reader), None)
    if odd is not None:
        raise DataError(
            f"{odd}: this is not of the format of {paths[0]}; use one format for all files of a split: stores, "
            "tables with the extension .csv or .parquet, or LETOR text."
        )
    known = _options(reader)
    for name in options:
        if name not in known:
            remedy = did_you_mean(name, known)
            if reader is read_store and name in {*_options(read_letor), *_options(read_table)}:
                remedy = (
                    f"; set it when the store is built: `python -m ltrbench data build SOURCE --output STORE "
                    f"--read {name}=VALUE`."
                )
            raise ConfigError(f"{paths[0]}: {reader.__name__} has no option '{name}'{remedy}")
    is_file = isinstance(feature_names, (str, Path))
    if is_file and reader is not read_letor:
        raise ConfigError(
            f"{paths[0]}: feature_names={feature_names} is an option for LETOR text; this file has the names of "
            "its features. Remove the option."
        )
    is_used = feature_names is not None and (is_file or reader is not read_letor)
    return reader, {**options, **({"feature_names": feature_names} if is_used else {})}


def files_of(path: Path) -> list[Path]:
    """Returns the regular files that a reader reads for a path: LETOR text may have companion files, and the
    manifest of a store contains the checksums of its arrays."""
    reader = _reader(path)
    if reader is read_store:
        return [path / MANIFEST_FILE]
    beside = [companion(path, ending) for ending in ENDINGS] if reader is read_letor else []
    return [file for file in (path, *beside) if file.is_file()]


def reading_options(path: str | Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the reader options of a run that apply to another file, for `read_data`.

    Args:
        path: the file to read.
        config: `data` configuration of the run, as stored in its result; None represents NaN.

    Returns:
        The keys that are set and are options of the reader of `path`, without the options that depend on the
        features of the run or restrict labels.

    >>> reading_options("test.txt", {"name": "mine", "first_index": 0, "absent": None, "label": "grade"})
    {'first_index': 0, 'absent': nan}
    """
    known = set(_options(_reader(Path(path)))) - _OF_THE_RUN
    options = {name: value for name, value in config.items() if name in known and value is not None}
    if "absent" in known and config.get("absent", 0.0) is None:
        options["absent"] = float("nan")
    return options


def _reader(path: Path) -> Callable[..., RankingDataset]:
    if is_store(path):
        return read_store
    is_table = without_compression_ending(path).suffix.lower() in (".csv", ".parquet")
    return read_table if is_table else read_letor


def _options(reader: Callable[..., RankingDataset]) -> list[str]:
    return list(inspect.signature(reader).parameters)[1:]
