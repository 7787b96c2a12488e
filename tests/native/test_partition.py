from __future__ import annotations

import numba
import numpy as np
import pytest
from engine_cases import MAY_COMPILE
from hypothesis import given
from hypothesis import strategies as st

from ltrbench.native import bins as stage
from ltrbench.native.bins import BinnedFeatures, bin_features, partition
from ltrbench.native.reference import Split, goes_left

NUM_DOCUMENTS = 60


@pytest.fixture(autouse=True)
def _few_are_shared_out_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without compilation, runs the code for several threads on few rows; compiled code is unaffected."""
    monkeypatch.setattr(stage, "FEW_ROWS", 1)


def make_binned(num_documents: int, seed: int) -> BinnedFeatures:
    rng = np.random.default_rng(seed)
    features = np.round(3 * rng.normal(size=(num_documents, 11))).astype(np.float32)
    features[rng.random(features.shape) < 0.1] = np.nan
    return bin_features(features, 255, rng)


def assert_as_the_reference_says(
    binned: BinnedFeatures, rows: np.ndarray, column: int, last_bin: int
) -> None:
    for missing_left in (False, True):
        bins = binned.bins_of(column, rows).astype(np.int64)[:, None]
        split = Split(gain=0.0, feature=0, bin=last_bin, missing_left=missing_left)
        is_left = goes_left(bins, split, missing_bin=int(binned.num_bins[column]) - 1)
        moved, scratch = rows.copy(), np.empty_like(rows)
        num_left = partition(
            binned.words,
            binned.layout,
            binned.num_bins,
            column,
            last_bin,
            missing_left,
            moved,
            scratch,
            numba.get_num_threads(),
        )
        assert num_left == np.count_nonzero(is_left)
        np.testing.assert_array_equal(moved, np.concatenate([rows[is_left], rows[~is_left]]))


@MAY_COMPILE
@given(
    seed=st.integers(0, 2**32 - 1), column=st.integers(0, 10), rows=st.sets(st.integers(0, NUM_DOCUMENTS - 1))
)
def test_documents_are_shared_out_as_the_reference_says(seed: int, column: int, rows: set[int]) -> None:
    binned = make_binned(NUM_DOCUMENTS, seed)
    last_bin = seed % int(binned.num_bins[column])
    assert_as_the_reference_says(binned, np.array(sorted(rows), dtype=np.uint32), column, last_bin)
