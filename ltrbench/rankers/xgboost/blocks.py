"""XGBoost's matrices of features that are not one array: the same models and scores as for an array.

    Batches            blocks of rows, from which XGBoost makes the bins of a matrix
    training_matrix    the bins of the training set, in memory or in files
    bins_folder        the folder of these files, if the bins do not fit into memory
    RunningScores      scores of a validation set during a fit, read by blocks

XGBoost keeps the bin of every value twice: by rows and by columns. By rows a bin takes 1 byte (2 bytes for
more than 256 bins), but 4 bytes if any value of the matrix is missing [measured, XGBoost 3.2].
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.features import (
    AnyFeatures,
    FeatureMatrix,
    csr_of,
    is_sparse,
    require_memory,
    row_blocks,
)
from ltrbench.errors import DataError
from ltrbench.measure.available import available_bytes
from ltrbench.rankers.library import given

_DEFAULT_BINS = 256
"""XGBoost's default of max_bin."""

_SHARE_OF_BINS = 0.8
"""Share of the available memory for the bins; gradients and histograms need the rest."""

_SKETCH_BYTES_OF_BIN = 4500
"""Bytes of a feature's quantile sketch per bin [measured, 300,000 x 136, 256 bins, XGBoost 3.2]."""
_SKETCH_BYTES_OF_VALUE = 32
"""Upper limit: the sketch of few values holds all of them [measured, 5,000 x 3,000, 30,000 x 1,000, and 2,000
x 20,000 of which nearly all are 0]."""

_DEFAULT_LEAVES = 64
"""Number of leaves of a tree of XGBoost's default depth, 6."""
_STORED_BYTES, _FEATURE_BYTES, _HISTOGRAM_BYTES = 40, 500, 16
"""Bytes of sparse features whose absent values are missing: of a stored value and of a feature [measured, 4
million values of 2,000 to 1,000,000 features, XGBoost 3.2], and of a bin of a node's histogram."""

_SKETCHES_SHIFTED = tuple(int(part) for part in xgb.__version__.split(".")[:2]) < (3, 3)
"""Whether XGBoost's quantile sketch weights the first document of a query like the query before it."""


class Batches(xgb.DataIter):
    """Blocks of rows, without labels and queries.

    A batch with a part of a query would silently make this part a query. Labels and queries are therefore set
    for the finished matrix.

    Args:
        row_weights: (D,), weights of the quantile sketch.
        cache_prefix: beginning of the paths of cache files; None: no files.
    """

    def __init__(
        self, features: AnyFeatures, row_weights: NDArray[np.float64] | None, cache_prefix: str | None
    ) -> None:
        super().__init__(cache_prefix=cache_prefix)
        self._features, self._row_weights = features, row_weights
        self._blocks = row_blocks(features)

    def reset(self) -> None:
        self._blocks = row_blocks(self._features)

    def next(self, input_data: Callable[..., None]) -> bool:
        for start, block in self._blocks:
            weights = None if self._row_weights is None else self._row_weights[start : start + len(block)]
            input_data(data=block, weight=weights)
            return True
        return False


def training_matrix(
    train: RankingDataset, num_threads: int, max_bins: int | None, folder: Path | None
) -> xgb.DMatrix:
    """Returns the bins of a training set whose features are a FeatureMatrix.

    Args:
        folder: folder for the bins; None: the bins are kept in memory.
    """
    content = {"label": train.labels, "group": train.query_sizes, "weight": train.query_weights}
    settings = {"nthread": num_threads, **given({"max_bin": max_bins})}
    sparse = csr_of_missing(train.features)
    if sparse is not None:
        return xgb.QuantileDMatrix(sparse, **content, **settings)
    matrix: xgb.DMatrix
    if folder is None:
        matrix = xgb.QuantileDMatrix(Batches(train.features, _sketch_weights(train), None), **settings)
    else:
        batches = Batches(train.features, _sketch_weights(train), str(folder / "bins"))
        matrix = xgb.ExtMemQuantileDMatrix(batches, **settings)
    matrix.set_info(**content)
    return matrix


@contextlib.contextmanager
def bins_folder(features: AnyFeatures, max_bins: int | None, num_leaves: int | None) -> Iterator[Path | None]:
    """Provides a temporary folder for the bins of features that are read by blocks; None if the bins fit into
    memory.

    Args:
        num_leaves: maximum number of leaves of a tree; None: XGBoost's default.

    Raises:
        DataError: the bins fit neither into memory nor on the disk of temporary files.
    """
    sparse = csr_of_missing(features)
    if sparse is not None:
        _require_memory_of_stored(sparse.nnz, features.shape, max_bins, num_leaves)
    if sparse is not None or not isinstance(features, FeatureMatrix) or _fits(features, max_bins):
        yield None
        return
    _require_disk(features, max_bins)
    with tempfile.TemporaryDirectory(prefix="ltrbench_") as folder:
        yield Path(folder)


def _require_disk(features: FeatureMatrix, max_bins: int | None) -> None:
    """Raises DataError if the bins do not fit on the disk, or what XGBoost needs to choose them not into
    memory."""
    free, on_disk = available_bytes(), shutil.disk_usage(tempfile.gettempdir()).free
    sketches, bins = _bytes_of_sketches(features, max_bins), _bytes_of_bins(features, max_bins, 4)
    if sketches > free or bins > on_disk:
        num_documents, num_features = features.shape
        raise DataError(
            f"XGBoost's bins of {num_documents} documents with {num_features} features need up to "
            f"{bins / 1e9:.1f} GB of memory or disk, and their choice {sketches / 1e9:.1f} GB of memory, but "
            f"{free / 1e9:.1f} GB of memory are available, and {on_disk / 1e9:.1f} GB on the disk of "
            f"{tempfile.gettempdir()}. {_remedy(features)} model=lightgbm, which needs less, take fewer "
            "queries (data.subset), or set the environment variable TMPDIR to a folder on a disk with more "
            "space."
        )


def _remedy(features: FeatureMatrix) -> str:
    if not is_sparse(features):
        return "Use"
    return (
        "XGBoost reads cells that are not stored as missing, so these features are passed with all their "
        "zeros: read the file with data.absent=nan, which makes absent features missing, use"
    )


def _fits(features: FeatureMatrix, max_bins: int | None) -> bool:
    """Returns whether the bins fit into memory. The features are searched for missing values only if the
    answer depends on them."""
    free = _SHARE_OF_BINS * available_bytes() - _bytes_of_sketches(features, max_bins)
    if _bytes_of_bins(features, max_bins, 4) <= free:
        return True
    if _bytes_of_bins(features, max_bins, 1) > free:
        return False
    return not any(np.isnan(block).any() for _, block in row_blocks(features))


def _bytes_of_bins(features: FeatureMatrix, max_bins: int | None, by_row: int) -> int:
    """Returns the number of bytes of the bins.

    Args:
        by_row: minimum number of bytes of a bin by rows.
    """
    width = 1 if (max_bins or _DEFAULT_BINS) <= 256 else 2
    return features.size * (max(by_row, width) + width)


def _bytes_of_sketches(features: FeatureMatrix, max_bins: int | None) -> int:
    """Returns the number of bytes of the quantile sketches, from which XGBoost chooses the bins.

    A sketch has the size that all values of its feature need, also if most of them are 0.
    """
    of_bins = features.shape[1] * (max_bins or _DEFAULT_BINS) * _SKETCH_BYTES_OF_BIN
    return min(of_bins, features.size * _SKETCH_BYTES_OF_VALUE)


def _require_memory_of_stored(
    num_stored: int, shape: tuple[int, int], max_bins: int | None, num_leaves: int | None
) -> None:
    """Raises DataError if sketches, bins and histograms of stored values do not fit into memory.

    XGBoost keeps the histograms of all nodes of a tree.
    """
    num_documents, num_features = shape
    num_bins = min(num_features * (max_bins or _DEFAULT_BINS), num_stored)
    histograms = 2 * (num_leaves or _DEFAULT_LEAVES) * num_bins * _HISTOGRAM_BYTES
    num_bytes = num_stored * _STORED_BYTES + num_features * _FEATURE_BYTES + histograms
    require_memory(
        f"XGBoost's bins and histograms of {num_documents} documents with {num_features} sparse features",
        num_bytes,
        "Take fewer queries (data.subset), set fewer num_leaves or max_bins (model.num_leaves, "
        "model.max_bins), or free memory.",
    )


def _sketch_weights(train: RankingDataset) -> NDArray[np.float64] | None:
    """Returns the (D,) weights that XGBoost's quantile sketch gives the documents of one array."""
    if train.query_weights is None:
        return None
    weights = train.weight_of_document
    return np.concatenate([weights[:1], weights[:-1]]) if _SKETCHES_SHIFTED else weights


def csr_of_missing(features: AnyFeatures) -> Any | None:
    """Returns sparse features whose absent values are missing as SciPy's CSR, in which XGBoost regards absent
    values as missing; None for other features."""
    sparse = csr_of(features)
    return sparse.to_scipy() if sparse is not None and np.isnan(sparse.absent) else None


class RunningScores:
    """Scores of the trees so far, (D,) float32, of a validation set that is read by blocks.

    They have the bits of a prediction by all trees, because XGBoost adds trees one after the other.
    """

    def __init__(self, features: FeatureMatrix) -> None:
        self._features = features
        self._scores = np.zeros(len(features), dtype=np.float32)
        self._num_trees = 0

    def after(self, booster: xgb.Booster) -> NDArray[np.float32]:
        """Adds the trees since the last call, and returns a copy of the scores."""
        num_trees = booster.num_boosted_rounds()
        for start, block in row_blocks(self._features):
            rows = slice(start, start + len(block))
            self._scores[rows] = booster.inplace_predict(
                block,
                iteration_range=(self._num_trees, num_trees),
                predict_type="margin",
                base_margin=self._scores[rows] if self._num_trees else None,
            )
        self._num_trees = num_trees
        return self._scores.copy()
