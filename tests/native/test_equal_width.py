from __future__ import annotations

import numpy as np
import pytest
from engine_cases import MAY_COMPILE
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from ltrbench.native.tree.equal_width import equal_width_cuts

values = st.one_of(st.floats(-100, 100, width=32), st.integers(-3, 3).map(float), st.just(float("nan")))
columns = arrays(np.float32, st.integers(1, 60), elements=values)


def ranklib_thresholds(column: NDArray[np.float32], num_thresholds: int) -> list[np.float32]:
    """As in RankLib's LambdaMART.init, without its last threshold, the largest float."""
    distinct = sorted(set(column[~np.isnan(column)].tolist()))
    if len(distinct) <= num_thresholds:
        return [np.float32(value) for value in distinct]
    step = (np.float32(distinct[-1]) - np.float32(distinct[0])) / np.float32(num_thresholds)
    thresholds = [np.float32(distinct[0])]
    while len(thresholds) < num_thresholds:
        thresholds.append(thresholds[-1] + step)
    return thresholds


@given(columns, st.integers(2, 40))
@MAY_COMPILE
def test_cuts_are_the_first_of_ranklibs_thresholds_that_part_the_documents_alike(
    column: NDArray[np.float32], max_bins: int
) -> None:
    present = column[~np.isnan(column)]
    first_of_parting: dict[int, np.float32] = {}
    for threshold in ranklib_thresholds(column, max_bins - 1):
        first_of_parting.setdefault(int((present <= threshold).sum()), threshold)
    first_of_parting.pop(len(present), None)
    cuts = equal_width_cuts(column, max_bins)
    assert cuts.dtype == np.float32
    assert cuts.tolist() == list(first_of_parting.values())


def test_steps_are_added_up_in_float32() -> None:
    column = np.linspace(0.1, 0.9, 5_000, dtype=np.float32)
    cuts = equal_width_cuts(column, 257)
    exact = 0.1 + (float(column[-1]) - 0.1) / 256 * np.arange(256)
    assert len(cuts) == 256
    assert 1e-7 < np.abs(cuts - exact).max() < 1e-5


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_a_constant_or_missing_feature_has_no_cut(value: float) -> None:
    assert len(equal_width_cuts(np.full(7, value, dtype=np.float32), 3)) == 0


def test_a_range_beyond_float32_leaves_the_first_threshold() -> None:
    largest = np.finfo(np.float32).max
    assert equal_width_cuts(np.array([-largest, 0, largest], dtype=np.float32), 3).tolist() == [-largest]
