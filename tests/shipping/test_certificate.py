"""Certificates: a faithful engine always passes, and each error of conversion is caught and named."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fake_targets.faithful import (
    FLIP,
    HALF,
    MISSING_RIGHT,
    SHIFT,
    FaithfulTarget,
    broken,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming
from random_trees import NUM_FEATURES, random_documents, random_ensemble
from shipped_models import certified, of_one, shipped

from ltrbench.data import Judgments
from ltrbench.metrics import DEFAULT
from ltrbench.models.trees import (
    Ensemble,
    InnerNode,
    Leaf,
    Node,
    WeightedTree,
    ensemble_scores,
)
from ltrbench.shipping.certificate import (
    ABOVE,
    BELOW,
    CERTIFIED,
    MOST_ROWS,
    REFUSED,
    SPECIAL,
    THRESHOLD,
    certify,
    compare_scores,
    make_probes,
    rounding_bounds,
)
from ltrbench.shipping.target import MISSING_VALUES, Engine, Linear

COMPARISONS = ["<=", "<"]


@given(
    st.integers(0, 10**6),
    st.sampled_from(COMPARISONS),
    st.sampled_from(["float32", "float64"]),
    st.floats(0, 0.5),
    st.sampled_from([0.0, 2.5, 1e4]),
)
def test_a_faithful_engine_always_passes(
    seed: int, comparison: str, score_dtype: str, missing: float, offset: float
) -> None:
    ensemble = random_ensemble(seed, comparison, score_dtype=score_dtype)
    certificate = certified(
        FaithfulTarget(offset=offset), ensemble, random_documents(seed, missing=missing)
    )
    assert (certificate.status, certificate.reason) == (CERTIFIED, "")
    assert not any(rows.differing for rows in certificate.probes.values())


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.sampled_from(COMPARISONS))
def test_an_engine_that_sums_in_another_order_passes(
    seed: int, comparison: str
) -> None:
    ensemble = random_ensemble(seed, comparison, num_trees=12)
    turned = replace(ensemble, trees=ensemble.trees[::-1], score_dtype="float32")
    engine = Engine(
        lambda features: ensemble_scores(turned, features),
        "Turned",
        score_dtype="float32",
        is_in_order=False,
    )
    model, export = (
        shipped(ensemble, NUM_FEATURES),
        FaithfulTarget().export(shipped(ensemble, NUM_FEATURES)),
    )
    data = random_documents(seed)
    certificate = certify(
        model, lambda rows: ensemble_scores(ensemble, rows), data, export, engine
    )
    assert certificate.status == CERTIFIED


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.sampled_from(COMPARISONS))
@pytest.mark.parametrize(
    ("fault", "kinds"),
    [
        (FLIP, {ABOVE, THRESHOLD}),
        (SHIFT, {ABOVE, THRESHOLD}),
        (MISSING_RIGHT, {MISSING_VALUES}),
        (HALF, set()),
    ],
)
def test_an_error_of_conversion_is_caught_and_named(
    fault: Any, kinds: set[str], seed: int, comparison: str
) -> None:
    ensemble = random_ensemble(seed, comparison, num_trees=3)
    certificate = certified(
        FaithfulTarget(fault=fault), ensemble, random_documents(seed)
    )
    data = random_documents(seed).features
    rows = np.concatenate(
        [data, make_probes(shipped(ensemble, NUM_FEATURES), data).features]
    )
    given, changed = (
        ensemble_scores(each, rows) for each in (ensemble, broken(ensemble, fault))
    )
    if (
        np.abs(given - changed).max() < 1e-4
    ):  # such as trees without any missing value on the left
        return
    assert certificate.status == REFUSED
    if kinds:
        assert {
            kind for kind, of_kind in certificate.probes.items() if of_kind.differing
        } & kinds
        shown = next(
            kind for kind in certificate.probes if certificate.probes[kind].differing
        )
        example = certificate.probes[shown].example
        assert example is not None
        assert re.search(
            naming("Faithful", example.feature, "--tolerance", "--to"),
            certificate.reason,
        )
    else:
        assert certificate.unexplained.size or any(
            rows.differing for rows in certificate.probes.values()
        )


def test_a_limit_refuses_only_if_the_data_has_such_values_and_rankings_change() -> None:
    ensemble = random_ensemble(3)
    target = FaithfulTarget(fault=MISSING_RIGHT, limit=True)
    without = certified(target, ensemble, random_documents(3))
    assert without.status == CERTIFIED
    assert without.limits[MISSING_VALUES].documents == 0
    assert without.limits[MISSING_VALUES].differing > 0
    with_missing = certified(target, ensemble, random_documents(3, missing=0.3))
    assert with_missing.status == REFUSED
    assert re.search(naming("Missing values go right.", "--to"), with_missing.reason)


def test_the_tolerance_is_the_number_of_queries_whose_ranking_may_change() -> None:
    ensemble, data = random_ensemble(3), random_documents(3, missing=0.3)
    target = FaithfulTarget(fault=MISSING_RIGHT)
    comparison = certified(target, ensemble, data).comparison
    assert comparison is not None
    changed = len(comparison.changed_queries)
    assert changed > 0
    assert certified(target, ensemble, data, tolerance=changed).status == CERTIFIED
    assert certified(target, ensemble, data, tolerance=changed - 1).status == REFUSED


def test_a_refusal_names_query_documents_and_scores() -> None:
    ensemble, data = random_ensemble(3), random_documents(3, missing=0.3)
    certificate = certified(FaithfulTarget(fault=MISSING_RIGHT), ensemble, data)
    assert certificate.comparison is not None
    query, pair = next(iter(certificate.comparison.changed_queries.items()))
    scores = ensemble_scores(ensemble, data.features)
    assert data.document_ids is not None
    parts = [data.query_ids[query], *data.document_ids[list(pair)], "--tolerance"]
    parts += [repr(float(scores[row])) for row in pair]
    assert re.search(naming(*parts), certificate.reason)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=20), st.randoms())
def test_equal_rankings_lose_exactly_nothing(scores: list[float], random: Any) -> None:
    # Another scale with the same order and the same ties.
    other = np.unique(scores, return_inverse=True)[1] * random.choice([1.0, 0.5])
    labels = np.array([row % 3 for row in range(len(scores))], dtype=np.float64)
    judgments = Judgments(labels=labels, query_start=np.array([0, len(scores)]))
    comparison = compare_scores(
        judgments, np.array(scores), other, np.zeros(len(scores)), DEFAULT
    )
    assert comparison.changed_queries == {}
    assert comparison.describe_reordered() == ""
    assert comparison.metric is None or comparison.metric.loss == 0


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 2)),
        min_size=2,
        max_size=12,
    )
)
def test_changed_pairs_are_those_of_the_definition(
    rows: list[tuple[int, int, int]],
) -> None:
    original, converted, bounds = (
        np.array(column, dtype=np.float64) for column in zip(*rows, strict=True)
    )
    judgments = Judgments(
        labels=np.zeros(len(rows)), query_start=np.array([0, len(rows)])
    )
    comparison = compare_scores(judgments, original, converted, bounds, DEFAULT)
    pairs = [(i, j) for i in range(len(rows)) for j in range(len(rows))]
    ordered = [
        (i, j) for i, j in pairs if original[i] - original[j] > bounds[i] + bounds[j]
    ]
    assert comparison.reversed_pairs == sum(
        converted[i] < converted[j] for i, j in ordered
    )
    assert comparison.tied_pairs == sum(
        converted[i] == converted[j] for i, j in ordered
    )
    within = [
        (i, j) for i, j in pairs if original[i] > original[j] and (i, j) not in ordered
    ]
    assert comparison.reversed_pairs_within_rounding == sum(
        converted[i] < converted[j] for i, j in within
    )
    assert comparison.tied_pairs_within_rounding == sum(
        converted[i] == converted[j] for i, j in within
    )
    assert bool(comparison.changed_queries) == any(
        converted[i] <= converted[j] for i, j in ordered
    )


@given(st.integers(0, 10**6), st.integers(2, 400))
def test_the_rounding_bound_holds_for_every_order_of_a_sum(
    seed: int, num_trees: int
) -> None:
    rng = np.random.default_rng(seed)
    terms = rng.normal(size=num_trees) * 10.0 ** rng.integers(-6, 6, num_trees)
    trees = tuple(WeightedTree(1.0, Leaf(float(term))) for term in terms)
    document = np.zeros((1, NUM_FEATURES), dtype=np.float32)
    bound = rounding_bounds(
        shipped(Ensemble(trees), NUM_FEATURES), document, ("float64", "float32")
    )[0]
    total = np.float32(0)
    for term in rng.permutation(terms).astype(np.float32):
        total += term
    assert abs(float(total) - float(np.sum(terms))) <= bound


def test_all_thresholds_are_tested_and_reached() -> None:
    # No path splits twice on a feature, so that a value at a threshold reaches each node.
    deep: Node = Leaf(1.0)
    for feature, threshold in enumerate([0.9, 0.01, 0.02, 0.99]):
        deep = InnerNode(feature, float(np.float32(threshold)), True, Leaf(0.0), deep)
    ensemble = Ensemble((WeightedTree(1.0, deep),))
    probes = make_probes(shipped(ensemble, NUM_FEATURES), random_documents(0).features)
    assert probes.num_tested == probes.num_splits == NUM_FEATURES
    values = probes.features[np.arange(len(probes.kinds)), probes.changed]
    thresholds = values[probes.kinds == THRESHOLD]
    np.testing.assert_array_equal(
        values[probes.kinds == ABOVE], np.nextafter(thresholds, np.float32(np.inf))
    )
    np.testing.assert_array_equal(
        values[probes.kinds == BELOW], np.nextafter(thresholds, np.float32(-np.inf))
    )
    assert set(probes.kinds.tolist()) == {THRESHOLD, ABOVE, BELOW, *SPECIAL}


def test_a_split_that_no_document_reaches_is_reached_by_a_changed_document() -> None:
    inner = InnerNode(1, 0.5, True, Leaf(1.0), Leaf(2.0))
    root = InnerNode(0, 1000.0, True, Leaf(0.0), inner)
    probes = make_probes(
        shipped(of_one(root), NUM_FEATURES), random_documents(0).features
    )
    assert probes.num_splits == 2
    of_inner = probes.features[(probes.kinds == THRESHOLD) & (probes.changed == 1)]
    assert (of_inner[:, 0] > 1000).all()


def test_the_number_of_rows_is_bounded_and_the_sample_is_the_same_every_time() -> None:
    thresholds = np.linspace(0, 1, 6000, dtype=np.float32).tolist()
    trees = tuple(
        WeightedTree(1.0, InnerNode(0, threshold, True, Leaf(0.0), Leaf(1.0)))
        for threshold in thresholds
    )
    model = shipped(Ensemble(trees), NUM_FEATURES)
    first, second = (make_probes(model, random_documents(0).features) for _ in range(2))
    assert len(first.features) <= MOST_ROWS
    assert first.num_tested < first.num_splits == len(thresholds)
    np.testing.assert_array_equal(first.features, second.features)


def test_a_linear_model_is_tested_at_special_values() -> None:
    model = shipped(Linear(np.array([0.0, 2.0, 0.0, 0.0])), NUM_FEATURES)
    probes = make_probes(model, random_documents(0).features)
    assert set(probes.kinds.tolist()) == set(SPECIAL)
    assert set(probes.changed.tolist()) == {1}
    refusing = replace(model, refuses_missing=True)
    probes = make_probes(refusing, random_documents(0).features)
    assert set(probes.kinds.tolist()) == set(SPECIAL) - {MISSING_VALUES}
