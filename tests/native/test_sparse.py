"""Sparse features have the columns, thresholds, bins and histograms of the same features as an array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ltrbench.compilation import config
from ltrbench.data import RankingDataset
from ltrbench.data.features import AnyFeatures, SparseRows
from ltrbench.native.bins import (
    IN_LISTS,
    BinnedFeatures,
    SparseBins,
    bin_features,
    reference_bins,
)
from ltrbench.native.boosting import BINNINGS
from ltrbench.native.objectives.lambdarank import LambdaRank
from ltrbench.native.sparse import (
    DOCUMENTS_PER_LISTED,
    LANE_BYTES,
    OtherBins,
    SparseColumns,
    StoredColumns,
    bin_sparse,
    bundle,
    reference_bundle,
    reference_cells,
)
from ltrbench.rankers.native import NativeRanker
from ltrbench.shapes import Features

SPARSE_CASES = settings(deadline=None, max_examples=10 if config.DISABLE_JIT else 100)


def features_of(
    seed: int, shape: tuple[int, int], share: float, absent: float
) -> Features:
    """Returns features of which a share of the cells are not absent; the first ones are a one-hot group. Of
    each second feature, many documents may have the same value."""
    rng = np.random.default_rng(seed)
    values = rng.choice(np.array([0.0, -0.0, 1.0, -2.5, np.nan, 3e38]), shape)
    values = np.where(rng.random(shape) < 0.5, values, rng.normal(size=shape))
    values[:, ::2] = values[:, ::2].round(1)
    features = np.where(rng.random(shape) < share, values, absent)
    group = features[:, : 2 * shape[1] // 3]
    group[np.arange(group.shape[1]) != rng.integers(0, shape[1], shape[0])[:, None]] = (
        absent
    )
    return features.astype(np.float32)


def everyone(binned: SparseBins | BinnedFeatures) -> NDArray[np.uint32]:
    return np.arange(binned.num_documents, dtype=np.uint32)


def others_in(
    features: Features, binned: BinnedFeatures, absent: float
) -> NDArray[np.bool_]:
    """Returns the (C, D) mask of the bins that are not the bin of the absent value."""
    default_bins = reference_bins(
        np.full((1, features.shape[1]), absent, dtype=np.float32), binned
    )
    is_other: NDArray[np.bool_] = reference_bins(features, binned) != default_bins
    return is_other


def assert_columns_of_an_array(
    sparse: SparseBins,
    dense: BinnedFeatures,
    features: Features,
    absent: float,
    min_docs: int,
) -> NDArray[np.int64]:
    """Compares the columns that may be split, which it returns."""
    kept = np.flatnonzero(others_in(features, dense, absent).sum(axis=1) >= min_docs)
    if len(kept) == 0:
        assert sparse.num_columns == 1
        return kept
    np.testing.assert_array_equal(
        sparse.feature_of_column, dense.feature_of_column[kept]
    )
    np.testing.assert_array_equal(sparse.num_bins, dense.num_bins[kept])
    rows = everyone(sparse)
    for c, column in enumerate(kept.tolist()):
        for some in (rows, rows[::3], rows[-1:], rows[:0]):
            np.testing.assert_array_equal(
                sparse.bins_of(c, some), dense.bins_of(column, some)
            )
        bins = np.arange(sparse.num_bins[c] - 1)  # without the bin of missing values
        edges = sparse.upper_edges(np.full(len(bins), c), bins)
        np.testing.assert_array_equal(edges, dense.thresholds[column, bins])
    return kept


@given(
    seed=st.integers(0, 1000),
    shape=st.tuples(st.integers(1, 300), st.integers(1, 18)),
    share=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    absent=st.sampled_from([0.0, np.nan]),
    rule=st.sampled_from(sorted(BINNINGS)),
    max_bins=st.sampled_from([2, 5, 255]),
    sample_size=st.sampled_from([20, 200]),
    min_docs=st.sampled_from([1, 2, 8]),
)
@SPARSE_CASES
def test_columns_thresholds_and_bins_are_those_of_an_array(
    seed: int,
    shape: tuple[int, int],
    share: float,
    absent: float,
    rule: str,
    max_bins: int,
    sample_size: int,
    min_docs: int,
) -> None:
    features = features_of(seed, shape, share, absent)
    binning = BINNINGS[rule]
    if binning.sample_size is not None:
        binning = binning._replace(sample_size=sample_size)
    dense = bin_features(features, max_bins, np.random.default_rng(0), binning)
    stored = SparseRows.of(features, absent)
    sparse = bin_sparse(stored, max_bins, np.random.default_rng(0), binning, min_docs)
    kept = assert_columns_of_an_array(sparse, dense, features, absent, min_docs)
    if len(kept):
        assert_lanes_and_lists_of_the_reference(
            sparse, reference_bins(features, dense)[kept]
        )


def assert_lanes_and_lists_of_the_reference(
    sparse: SparseBins, bins: NDArray[np.uint8]
) -> None:
    """Compares lanes and lists, given the (C, D) bins."""
    layout = sparse.layout
    columns = SparseColumns(
        sparse.feature_of_column,
        sparse.num_bins,
        layout.bin_start,
        sparse.edges,
        layout.default_bin,
    )
    is_other = bins != layout.default_bin[:, None]
    for d, cells in enumerate(reference_cells(bins, columns)):
        listed = [
            cell
            for cell in cells
            if layout.lane[np.searchsorted(layout.bin_start, cell, "right") - 1]
            == IN_LISTS
        ]
        assert (
            layout.cells[layout.row_start[d] : layout.row_start[d + 1]].tolist()
            == listed
        )
    is_listed = layout.lane == IN_LISTS
    expected = np.concatenate(
        [[0], np.cumsum(np.where(is_listed, is_other.sum(axis=1), 0))]
    )
    np.testing.assert_array_equal(layout.listed_before, expected)
    for lane in range(len(layout.cell_of_byte)):
        # A document has at most one of the columns outside its default bin.
        assert is_other[layout.lane == lane].sum(axis=0).max() == 1


@given(
    seed=st.integers(0, 1000),
    num_documents=st.integers(1, 90),
    num_columns=st.integers(1, 30),
    share=st.sampled_from([0.02, 0.1, 0.4]),
    most_bytes=st.sampled_from([1, 2, 60, 255]),
)
@SPARSE_CASES
def test_bundles_are_those_of_the_reference(
    seed: int, num_documents: int, num_columns: int, share: float, most_bytes: int
) -> None:
    rng = np.random.default_rng(seed)
    features = (rng.random((num_documents, num_columns)) < share).astype(np.float32)
    group = features[:, : num_columns // 2]
    group[np.arange(group.shape[1]) != rng.integers(0, 9, num_documents)[:, None]] = 0
    by_column = SparseRows.of(features).to_scipy().tocsc()
    stored = StoredColumns(
        by_column.indptr.astype(np.int64),
        by_column.indices,
        by_column.data,
        num_documents,
        0.0,
    )
    # Columns of one threshold, 0.5, with more bytes reserved than they use.
    columns = SparseColumns(
        feature=np.arange(num_columns),
        num_bins=np.full(num_columns, 3),
        bin_start=3 * np.arange(num_columns + 1),
        edges=np.tile(np.array([0.5, np.inf, np.inf], dtype=np.float32), num_columns),
        default_bin=np.zeros(num_columns, dtype=np.int64),
    )
    is_other = features.T == 1
    others = OtherBins(
        is_other.sum(axis=1), rng.integers(1, most_bytes + 1, num_columns)
    )
    bundles = bundle(columns, stored, others)
    expected = reference_bundle(is_other, others)
    np.testing.assert_array_equal(bundles.lane, expected.lane)
    np.testing.assert_array_equal(bundles.first_byte, expected.first_byte)
    assert bundles.num_lanes == expected.num_lanes
    for lane in range(bundles.num_lanes):
        members = bundles.lane == lane
        assert is_other[members].sum(axis=0).max() == 1
        assert DOCUMENTS_PER_LISTED * is_other[members].sum() >= num_documents
        assert others.num_bytes[members].sum() <= LANE_BYTES


NUM_DOCUMENTS = 120 if config.DISABLE_JIT else 600
SETTINGS: list[dict[str, Any]] = [
    {},
    {"num_threads": 1},
    {"min_docs_in_leaf": 20},
    {"max_bins": 1000},
    {"max_bins": 3},
    {"binning": "equal_width", "max_bins": 7},
    {"document_counts": "by_hessian", "equal_cuts": "highest"},
    {"growth": "by_deviance"},
    {"growth": "depth_wise", "max_depth": 3},
    {"cut_without_gain": True, "split_criterion": "least_squares"},
    {"l1": 0.1},
    {"monotone": {"7": 1, "30": -1, "33": 1}},
    {"features_per_split": 0.5},
    {"features_per_tree": 0.5},
    {"queries_per_tree": 0.5},
    {"documents_per_tree": 0.5, "objective": LambdaRank(float32_scores=True)},
    {"goss_top_rate": 0.2, "goss_other_rate": 0.2, "learning_rate": 0.5},
    {"drop_rate": 0.5},
]


def dataset(seed: int, absent: float) -> RankingDataset:
    """Returns data with a group of exclusive features, rare, dense, constant and empty features."""
    rng = np.random.default_rng(seed)
    group = np.eye(25)[rng.integers(0, 25, NUM_DOCUMENTS)] * rng.integers(
        1, 4, (NUM_DOCUMENTS, 1)
    )
    rare = np.where(
        rng.random((NUM_DOCUMENTS, 8)) < 0.05, rng.normal(size=(NUM_DOCUMENTS, 8)), 0.0
    )
    dense = np.column_stack(
        [rng.normal(size=(NUM_DOCUMENTS, 2)), np.ones(NUM_DOCUMENTS)]
    )
    features = np.column_stack([group, rare, dense, np.zeros((NUM_DOCUMENTS, 2))])
    if np.isnan(absent):
        features[features == 0] = np.nan
    else:
        features[rng.random(features.shape) < 0.02] = np.nan
    utility = np.nan_to_num(features) @ rng.normal(size=features.shape[1])
    labels = np.digitize(utility, np.quantile(utility, [0.5, 0.75, 0.9])).astype(
        np.float64
    )
    query_start = np.append(np.arange(0, NUM_DOCUMENTS, 15), NUM_DOCUMENTS)
    return RankingDataset(
        features=features.astype(np.float32), labels=labels, query_start=query_start
    )


def with_features(data: RankingDataset, features: AnyFeatures) -> RankingDataset:
    return RankingDataset(
        features=features,  # type: ignore[arg-type]
        labels=data.labels,
        query_start=data.query_start,
    )


def sparse_of(data: RankingDataset, absent: float) -> RankingDataset:
    return with_features(data, SparseRows.of(data.features, absent))


def fit(
    train: RankingDataset, valid: RankingDataset | None = None, **changed: Any
) -> tuple[NativeRanker, list[NDArray[np.float64]]]:
    """Returns a fitted model, and the scores of training and validation documents after each tree."""
    curve: list[NDArray[np.float64]] = []

    def note(iteration: Any) -> None:
        curve.append(iteration.train_scores)
        if valid is not None:
            curve.append(iteration.valid_scores)

    fields = {
        "num_trees": 6,
        "num_leaves": 12,
        "min_docs_in_leaf": 2,
        "num_threads": 2,
        **changed,
    }
    return NativeRanker(**fields).fit(train, valid, note), curve


def assert_same_fit(
    one: tuple[NativeRanker, list[NDArray[np.float64]]],
    other: tuple[NativeRanker, list[NDArray[np.float64]]],
    folder: Path,
) -> None:
    for name, (ranker, _) in (("one", one), ("other", other)):
        (folder / name).mkdir()
        ranker.save(folder / name)
    assert (folder / "one" / "model.npz").read_bytes() == (
        folder / "other" / "model.npz"
    ).read_bytes()
    assert len(one[1]) == len(other[1]) > 0
    for scores, expected in zip(one[1], other[1], strict=True):
        np.testing.assert_array_equal(scores, expected)


@pytest.mark.parametrize("absent", [0.0, np.nan])
@pytest.mark.parametrize("changed", SETTINGS, ids=str)
def test_the_model_and_all_scores_are_those_of_an_array(
    changed: dict[str, Any], absent: float, tmp_path: Path
) -> None:
    train, valid = dataset(0, absent), dataset(1, absent)
    dense = fit(train, valid, **changed)
    sparse = fit(sparse_of(train, absent), sparse_of(valid, absent), **changed)
    assert len(dense[0].trees().trees) > 0
    assert_same_fit(sparse, dense, tmp_path)
    stored = sparse_of(valid, absent)
    np.testing.assert_array_equal(
        sparse[0].predict(stored.features), dense[0].predict(valid.features)
    )
