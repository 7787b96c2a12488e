"""Trees: their text, zeros that count as missing, thresholds and numbers in float32."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from fractions import Fraction
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import naming

from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import ConfigError
from ltrbench.models.trees import (
    LARGEST_ZERO,
    Ensemble,
    InnerNode,
    Leaf,
    WeightedTree,
    as_lines,
    as_nested,
    ensemble_scores,
    float32_texts,
    float32_thresholds,
    float32_trees,
    nodes_of,
    parse_float32,
    without_zero_missing,
)
from ltrbench.rankers.lightgbm import LightGBMRanker

LARGEST = float(np.finfo(np.float32).max)
STUMP = InnerNode(1, 0.5, missing_left=False, left=Leaf(-0.25), right=Leaf(1.0))


def test_trees_with_linear_models_in_their_leaves_are_refused() -> None:
    train = Synthetic(name="synthetic", num_queries=20).load().train
    with pytest.raises(
        ConfigError, match=naming("linear models", "Fit without extra.linear_tree")
    ):
        LightGBMRanker(num_trees=3, extra={"linear_tree": True}).fit(train).trees()


def test_zeros_that_count_as_missing_are_shown() -> None:
    cut = replace(STUMP, zero_missing=True)
    trees = (WeightedTree(1.0, cut), WeightedTree(1.0, replace(cut, missing_left=True)))
    lines = list(as_lines(Ensemble(trees), ["a", "b"]))
    assert "b <= 0.5 and not 0" in lines
    assert "b <= 0.5 or 0 or missing" in lines
    assert [record["zero"] for record in as_nested(Ensemble(trees))] == [
        "missing",
        "missing",
    ]


@pytest.mark.parametrize(
    ("threshold", "missing_left", "zero_missing", "words"),
    [
        (np.inf, False, False, "b is not missing"),
        (LARGEST, False, False, "b is not missing"),
        (np.inf, False, True, "b is not 0 or missing"),
        (-np.inf, True, False, "b is missing"),
        (-LARGEST, True, False, "b is missing"),
        (LARGEST, True, False, "b <= 3.40282e+38 or missing"),
    ],
)
def test_a_split_on_presence_is_shown_as_such_and_is_valid_json(
    threshold: float, missing_left: bool, zero_missing: bool, words: str
) -> None:
    cut = replace(
        STUMP,
        threshold=threshold,
        missing_left=missing_left,
        zero_missing=zero_missing,
    )
    ensemble = Ensemble((WeightedTree(1.0, cut),))
    _, first, *_ = as_lines(ensemble, ["a", "b"])
    assert first == words
    (record,) = json.loads(json.dumps(as_nested(ensemble), allow_nan=False))
    assert float(record["threshold"]) == threshold


def test_text_shows_the_branch_of_missing_values_and_the_initial_score() -> None:
    missing = InnerNode(
        0,
        LARGEST,
        missing_left=False,
        left=replace(STUMP, missing_left=True),
        right=Leaf(-3),
    )
    trees = (WeightedTree(0.5, missing), WeightedTree(0.1, Leaf(0.0)))
    assert list(as_lines(Ensemble(trees, base_score=-0.5), ["clicks", "7"])) == [
        "initial score -0.5",
        "",
        "tree 1, weight 0.5",
        "clicks is not missing",
        "|- yes: feature 7 <= 0.5 or missing",
        "|  |- yes: -0.25",
        "|  `- no:  +1",
        "`- no:  -3",
        "",
        "tree 2, weight 0.1",
        "+0",
    ]


# Splits in which zeros count as missing values, written as splits in which they do not


BEYOND = float(np.nextafter(np.float32(LARGEST_ZERO), np.float32(1)))
LOWEST = float(np.finfo(np.float32).min)
EDGES = np.array(
    [0.0, LARGEST_ZERO, BEYOND, 1e-45, 1.0, 3e38, np.inf], dtype=np.float32
)
VALUES = np.unique(np.concatenate([-EDGES, EDGES, [np.nan]])).astype(np.float32)
VALUES = np.append(VALUES, np.float32(-0.0))
"""Values on both sides of each end of the zeros."""


def stump(threshold: float, missing_left: bool) -> InnerNode:
    return InnerNode(
        0, threshold, missing_left, Leaf(1.0), Leaf(2.0), zero_missing=True
    )


@pytest.mark.parametrize(
    ("comparison", "dtype", "missing_left"),
    list(itertools.product(("<=", "<"), ("float32", "float64"), (False, True))),
)
def test_every_value_goes_where_it_went(
    comparison: Literal["<=", "<"],
    dtype: Literal["float32", "float64"],
    missing_left: bool,
) -> None:
    for threshold in (
        *VALUES[np.isfinite(VALUES)].tolist(),
        0.5e-35,
        -0.5e-35,
        LOWEST,
        -LOWEST,
    ):
        root = stump(float(np.dtype(dtype).type(threshold)), missing_left)
        ensemble = Ensemble(
            (WeightedTree(1.0, root),),
            comparison=comparison,
            threshold_dtype=dtype,
            base_score=0.25,
        )
        written = without_zero_missing(ensemble)
        assert not any(
            node.zero_missing
            for node in nodes_of(written.trees[0].root)
            if isinstance(node, InnerNode)
        )
        np.testing.assert_array_equal(
            ensemble_scores(written, VALUES[:, None]),
            ensemble_scores(ensemble, VALUES[:, None]),
        )


# Thresholds rounded down to float32


FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("comparison", ["<=", "<"])
@given(threshold=FLOATS | st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_every_float32_goes_where_it_went(comparison: str, threshold: float) -> None:
    (rounded,) = float32_thresholds(np.array([threshold]), comparison)
    with np.errstate(over="ignore", under="ignore"):
        near = np.float32(threshold)
        around = [
            near,
            *(np.nextafter(near, np.float32(side)) for side in (-np.inf, np.inf)),
            rounded,
        ]
    for value in (
        *around,
        np.float32(np.inf),
        np.float32(-np.inf),
        np.float32(0),
        np.float32(-0.0),
    ):
        goes_left = (
            float(value) <= threshold
            if comparison == "<="
            else float(value) < threshold
        )
        assert (value <= rounded) == goes_left


# Trees and numbers of formats that have float32 only


float32s = st.floats(width=32, allow_nan=False)


@given(st.lists(float32s, min_size=1))
def test_a_text_is_read_as_the_number_it_was_written_from(numbers: list[float]) -> None:
    values = np.array(numbers, dtype=np.float32)
    texts = float32_texts(values)
    np.testing.assert_array_equal(list(map(parse_float32, texts)), values)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(
            np.array(texts, dtype=np.float64).astype(np.float32), values
        )


@given(
    float32s.filter(lambda number: abs(number) < LARGEST),
    st.sampled_from([-1, 0, 1]),
    st.booleans(),
)
def test_a_decimal_number_is_rounded_once(
    number: float, side: int, is_far: bool
) -> None:
    low = np.float32(number)
    high = np.nextafter(low, np.float32(np.inf))
    middle = (Fraction(float(low)) + Fraction(float(high))) / 2
    numerator, exponent = middle.numerator, middle.denominator.bit_length() - 1
    digits = str(numerator * 5**exponent)  # the middle is digits / 10^exponent
    text = (
        f"{digits}e-{exponent}"
        if side == 0
        else f"{int(digits) * 1000 + side}e-{exponent + 3}"
    )
    is_even = int(low.view(np.uint32)) % 2 == 0
    expected = {-1: low, 0: low if is_even else high, 1: high}[side]
    assert parse_float32(text) == expected


@pytest.mark.parametrize(
    "ensemble",
    [
        Ensemble((WeightedTree(1.0, Leaf(1.0)), WeightedTree(1e30, Leaf(1e10)))),
        Ensemble((WeightedTree(1.0, Leaf(np.inf)),)),
    ],
)
def test_a_leaf_value_beyond_float32_is_refused(ensemble: Ensemble) -> None:
    with pytest.raises(
        ConfigError, match=naming(f"tree {len(ensemble.trees) - 1}", "float32")
    ):
        list(float32_trees(ensemble, "<="))
