"""Features in the forms that LightGBM reads without one array of all of them.

    rows of arrays                 the arrays, and slices of them, one below the other
    sparse rows, 0 where absent    SciPy's CSR
    any other FeatureMatrix        BlockSequence, which LightGBM reads in batches

LightGBM chooses the same bins, so that the models are the same as for one array.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from ltrbench.data.features import (
    AnyFeatures,
    FeatureMatrix,
    RowView,
    StackedRows,
    as_array,
    csr_of,
    read_rows,
    require_memory,
    row_blocks,
    rows_of_block,
)
from ltrbench.errors import DataError
from ltrbench.measure.available import available_bytes
from ltrbench.shapes import Features

_DEFAULT_BINS = 255
"""LightGBM's default of max_bin; with more bins than that, a bin takes 2 bytes."""

MOST_DOCUMENTS_BINNED = 200_000
"""Number of documents above which the bins are chosen on a sample (bin_construct_sample_cnt)."""

_DEFAULT_LEAVES = 31
"""LightGBM's default of num_leaves."""
_STORED_BYTES, _FEATURE_BYTES, _HISTOGRAM_BYTES = 24, 1500, 16
"""Bytes of sparse features: of a stored value and of a feature [measured, 4 million values of 2,000 to
1,000,000 features, LightGBM 4.7], and of a bin of a leaf's histogram (two sums in float64)."""

_SAMPLE_BYTES = 12
"""Bytes of a sampled value: float64, and the row number."""


def make_lightgbm_dataset(features: AnyFeatures, params: dict[str, Any], **content: Any) -> lgb.Dataset:
    """Returns a constructed data set of LightGBM.

    Args:
        content: labels, sizes of the queries and the like, under LightGBM's names.

    Raises:
        DataError: LightGBM needs more memory than is available.
    """
    if params.get("linear_tree") and not _is_of_arrays(features):
        features = as_array(features)  # LightGBM would crash
    if not isinstance(features, FeatureMatrix):
        return lgb.Dataset(features, params=params, **content).construct()
    if (sparse := csr_of_zeros(features)) is not None:
        _require_memory_of_stored(sparse.nnz, features.shape, params)
        return lgb.Dataset(sparse, params=params, **content).construct()
    _require_memory(features, params)
    if _is_of_arrays(features):
        arrays = list(_slices(features, 0, len(features)))
        return lgb.Dataset(arrays, params=params, **content).construct()
    return _DatasetOfSequence(BlockSequence(features), params=params, **content).construct()


def csr_of_zeros(features: AnyFeatures) -> Any | None:
    """Returns sparse features whose absent values are 0 as SciPy's CSR; None for other features."""
    sparse = csr_of(features)
    return sparse.to_scipy() if sparse is not None and sparse.absent == 0 else None


class BlockSequence(lgb.Sequence):
    """Rows of a FeatureMatrix, which LightGBM reads in batches."""

    def __init__(self, features: FeatureMatrix) -> None:
        self.features = features
        self.batch_size = rows_of_block(features.shape[1])

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: Any) -> NDArray[Any]:
        rows = self.features[index]
        # LightGBM takes a sample of single rows in float64 only.
        return rows if rows.ndim == 2 else rows.astype(np.float64)


class _DatasetOfSequence(lgb.Dataset):
    """A data set of a BlockSequence whose bins are chosen as for an array, and in no more memory.

    The methods replace methods of LightGBM 4.6 and 4.7. If a later version has other names, its own methods
    choose the bins more slowly and in more than twice the memory.
    """

    def get_params(self) -> dict[str, Any]:
        # By default without min_data_in_leaf, so that LightGBM would drop other features.
        return dict(self.params or {})

    def _Dataset__sample(  # noqa: N802
        self, seqs: list[BlockSequence], total_nrow: int
    ) -> tuple[list[NDArray[np.float64]], list[NDArray[np.int32]]]:
        """Returns the values of a sample by columns, without zeros, and their row numbers in the sample."""
        return sampled_columns(seqs[0].features, self._create_sample_indices(total_nrow=total_nrow))


def sampled_columns(
    features: FeatureMatrix, rows: NDArray[np.int32]
) -> tuple[list[NDArray[np.float64]], list[NDArray[np.int32]]]:
    """Returns the values of some rows by columns, without zeros, and their positions in `rows`.

    Args:
        rows: row numbers, ascending.
    """
    shape = features.shape[1], len(rows)
    values, positions, ends = np.empty(shape), np.empty(shape, dtype=np.int32), [0] * shape[0]
    for start, block in row_blocks(features):
        first, after = np.searchsorted(rows, [start, start + len(block)])
        of_columns = block[rows[first:after] - start].T.copy()
        kept = (np.abs(of_columns) > lgb.basic.ZERO_THRESHOLD) | np.isnan(of_columns)
        for column, begin in enumerate(ends):
            places = np.flatnonzero(kept[column])
            ends[column] = end = begin + len(places)
            values[column, begin:end] = of_columns[column, places]
            positions[column, begin:end] = first + places
    return (
        [values[column, :end] for column, end in enumerate(ends)],
        [positions[column, :end] for column, end in enumerate(ends)],
    )


def _require_memory(features: FeatureMatrix, params: dict[str, Any]) -> None:
    """Raises DataError if the bins, or what LightGBM needs to choose them, do not fit into memory."""
    num_documents, num_features = features.shape
    bytes_per_value = 1 if params.get("max_bin", _DEFAULT_BINS) <= _DEFAULT_BINS else 2
    if params.get("linear_tree"):
        bytes_per_value += features.dtype.itemsize  # linear leaves need the values
    sampled = min(num_documents, params.get("bin_construct_sample_cnt", MOST_DOCUMENTS_BINNED))
    num_bytes = (num_documents * bytes_per_value + sampled * _SAMPLE_BYTES) * num_features
    free = available_bytes()
    if num_bytes > free:
        raise DataError(
            f"LightGBM's bins of {num_documents} documents with {num_features} features need up to "
            f"{num_bytes / 1e9:.1f} GB of memory, but only {free / 1e9:.1f} GB are available. Take fewer "
            "queries (data.subset), or free memory."
        )


def _require_memory_of_stored(num_stored: int, shape: tuple[int, int], params: dict[str, Any]) -> None:
    """Raises DataError if the bins of sparse features or the histograms do not fit into memory.

    LightGBM bundles the features, and keeps the histogram of every leaf. A bin has at least `min_data_in_bin`
    stored values, and a feature has two more bins.
    """
    num_documents, num_features = shape
    most = num_features * params.get("max_bin", _DEFAULT_BINS)
    num_bins = min(most, num_stored // params.get("min_data_in_bin", 3) + 2 * num_features)
    histograms = params.get("num_leaves", _DEFAULT_LEAVES) * num_bins * _HISTOGRAM_BYTES
    num_bytes = num_stored * _STORED_BYTES + num_features * _FEATURE_BYTES + histograms
    require_memory(
        f"LightGBM's bins and histograms of {num_documents} documents with {num_features} sparse features",
        num_bytes,
        "Take fewer queries (data.subset), set fewer num_leaves or max_bins (model.num_leaves, "
        "model.max_bins), or free memory.",
    )


def _is_of_arrays(features: AnyFeatures) -> bool:
    if isinstance(features, RowView):
        return _is_of_arrays(features.base)
    if isinstance(features, StackedRows):
        return all(_is_of_arrays(part) for part in features.parts)
    return not isinstance(features, FeatureMatrix)


def _slices(features: AnyFeatures, start: int, stop: int) -> Iterator[Features]:
    """Yields the arrays that hold the rows from `start` to before `stop`, without a copy."""
    if isinstance(features, RowView):
        for begin, end in features.ranges_within(np.array([[start, stop]])).tolist():
            yield from _slices(features.base, begin, end)
    elif isinstance(features, StackedRows):
        part_start = features.row_start
        first, after = np.searchsorted(part_start, start, side="right") - 1, np.searchsorted(part_start, stop)
        for number in range(first, after):
            part, offset = features.parts[number], int(part_start[number])
            begin, end = max(start - offset, 0), min(stop - offset, len(part))
            if begin < end:
                yield from _slices(part, begin, end)
    else:
        yield read_rows(features, start, stop)
