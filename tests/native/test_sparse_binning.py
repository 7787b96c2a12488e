"""Sparse features have the columns, thresholds, bins and histograms of the same features as an array."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ltrbench.compilation import config
from ltrbench.data.features import SparseRows
from ltrbench.native.bins import IN_LISTS, BinnedFeatures, SparseBins, bin_alike, bin_features, reference_bins
from ltrbench.native.boosting import BINNINGS
from ltrbench.native.histogram import bin_starts, build_histogram, quantise
from ltrbench.native.sparse import (
    DOCUMENTS_PER_LISTED,
    LANE_BYTES,
    OtherBins,
    SparseColumns,
    StoredColumns,
    bin_sparse,
    build_sparse_histogram,
    bundle,
    reference_bundle,
    reference_cells,
)
from ltrbench.shapes import Features

SPARSE_CASES = settings(deadline=None, max_examples=10 if config.DISABLE_JIT else 100)


def features_of(seed: int, shape: tuple[int, int], share: float, absent: float) -> Features:
    """Returns features of which a share of the cells are not absent; the first ones are a one-hot group."""
    rng = np.random.default_rng(seed)
    values = rng.choice(np.array([0.0, -0.0, 1.0, -2.5, np.nan, 3e38]), shape)
    values = np.where(rng.random(shape) < 0.5, values, rng.normal(size=shape))
    features = np.where(rng.random(shape) < share, values, absent)
    group = features[:, : 2 * shape[1] // 3]
    group[np.arange(group.shape[1]) != rng.integers(0, shape[1], shape[0])[:, None]] = absent
    return features.astype(np.float32)


def everyone(binned: SparseBins | BinnedFeatures) -> NDArray[np.uint32]:
    return np.arange(binned.num_documents, dtype=np.uint32)


def others_in(features: Features, binned: BinnedFeatures, absent: float) -> NDArray[np.bool_]:
    """Returns the (C, D) mask of the bins that are not the bin of the absent value."""
    default_bins = reference_bins(np.full((1, features.shape[1]), absent, dtype=np.float32), binned)
    is_other: NDArray[np.bool_] = reference_bins(features, binned) != default_bins
    return is_other


def assert_columns_of_an_array(
    sparse: SparseBins, dense: BinnedFeatures, features: Features, absent: float, min_docs: int
) -> NDArray[np.int64]:
    """Compares the columns that may be split, which it returns."""
    kept = np.flatnonzero(others_in(features, dense, absent).sum(axis=1) >= min_docs)
    if len(kept) == 0:
        assert sparse.num_columns == 1
        return kept
    np.testing.assert_array_equal(sparse.feature_of_column, dense.feature_of_column[kept])
    np.testing.assert_array_equal(sparse.num_bins, dense.num_bins[kept])
    rows = everyone(sparse)
    for c, column in enumerate(kept.tolist()):
        np.testing.assert_array_equal(sparse.bins_of(c, rows), dense.bins_of(column, rows))
        bins = np.arange(sparse.num_bins[c] - 1)  # without the bin of missing values
        edges = sparse.upper_edges(np.full(len(bins), c), bins)
        np.testing.assert_array_equal(edges, dense.thresholds[column, bins])
    return kept


@given(
    seed=st.integers(0, 1000),
    shape=st.tuples(st.integers(1, 60), st.integers(1, 18)),
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
        assert_lanes_and_lists_of_the_reference(sparse, reference_bins(features, dense)[kept])


def assert_lanes_and_lists_of_the_reference(sparse: SparseBins, bins: NDArray[np.uint8]) -> None:
    """Compares lanes and lists, given the (C, D) bins."""
    layout = sparse.layout
    columns = SparseColumns(
        sparse.feature_of_column, sparse.num_bins, layout.bin_start, sparse.edges, layout.default_bin
    )
    is_other = bins != layout.default_bin[:, None]
    for d, cells in enumerate(reference_cells(bins, columns)):
        listed = [
            cell
            for cell in cells
            if layout.lane[np.searchsorted(layout.bin_start, cell, "right") - 1] == IN_LISTS
        ]
        assert layout.cells[layout.row_start[d] : layout.row_start[d + 1]].tolist() == listed
    is_listed = layout.lane == IN_LISTS
    expected = np.concatenate([[0], np.cumsum(np.where(is_listed, is_other.sum(axis=1), 0))])
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
        by_column.indptr.astype(np.int64), by_column.indices, by_column.data, num_documents, 0.0
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
    others = OtherBins(is_other.sum(axis=1), rng.integers(1, most_bytes + 1, num_columns))
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


def test_each_one_hot_group_becomes_one_lane_and_rare_columns_are_listed() -> None:
    rng = np.random.default_rng(0)
    groups = [np.eye(40, dtype=np.float32)[rng.integers(0, 40, 2000)] for _ in range(3)]
    rare = (rng.random((2000, 20)) < 0.01).astype(np.float32)
    features = np.concatenate([*groups, rare], axis=1)
    sparse = bin_sparse(SparseRows.of(features), 255, np.random.default_rng(0))
    lanes = sparse.layout.lane
    for group in range(3):
        assert len(set(lanes[40 * group : 40 * group + 40])) == 1
    assert sorted(set(lanes[:120])) == [0, 1, 2]
    assert sparse.words.shape == (2000, 1)
    listed = np.flatnonzero(lanes[120:] == IN_LISTS)
    assert len(sparse.layout.cells) == rare[:, listed].sum()


@given(seed=st.integers(0, 1000), share=st.sampled_from([0.05, 0.5]), absent=st.sampled_from([0.0, np.nan]))
@SPARSE_CASES
def test_histograms_are_those_of_an_array(seed: int, share: float, absent: float) -> None:
    rng = np.random.default_rng(seed)
    features = features_of(seed, (70, 20), share, absent)
    packed = quantise(rng.normal(size=70), rng.random(70)).packed
    rows = np.flatnonzero(rng.random(70) < 0.6).astype(np.uint32)
    dense = bin_features(features, 255, np.random.default_rng(0))
    sparse = bin_sparse(SparseRows.of(features, absent), 255, np.random.default_rng(0))
    kept = np.flatnonzero(others_in(features, dense, absent).any(axis=1))
    histogram = np.full(sparse.layout.bin_start[-1], -1)
    build_sparse_histogram(sparse, rows, packed, histogram)
    expected = np.empty(bin_starts(dense)[-1], dtype=np.int64)
    build_histogram(dense, bin_starts(dense), rows, packed, expected)
    if len(kept):
        is_kept = np.repeat(np.isin(np.arange(dense.num_columns), kept), dense.num_bins)
        np.testing.assert_array_equal(histogram, expected[is_kept])


def test_dense_bins_do_not_depend_on_how_the_features_are_stored() -> None:
    features, other = features_of(0, (60, 20), 0.2, 0.0), features_of(1, (60, 20), 0.2, 0.0)
    expected = bin_features(features, 255, np.random.default_rng(0))
    binned = bin_features(SparseRows.of(features), 255, np.random.default_rng(0))
    np.testing.assert_array_equal(binned.words, expected.words)
    np.testing.assert_array_equal(
        bin_alike(SparseRows.of(other), binned).words, bin_alike(other, expected).words
    )
