"""Compares the specification of every dialect with the libraries and with the definition of swaps."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from engine_cases import GOLDEN_DIALECTS, dialect, golden_lambdas
from hypothesis import given, settings
from hypothesis import strategies as st

from ltrbench.data import Judgments
from ltrbench.metrics import evaluate, preset
from ltrbench.native.objectives.pairs import change_by_swapping, pair_lambdas
from ltrbench.native.objectives.pairwise import PairSettings

documents = st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 3)), min_size=2, max_size=8)


@pytest.mark.parametrize(("preset_name", "varied", "golden_name"), GOLDEN_DIALECTS)
def test_lambdas_are_the_librarys_on_real_queries(
    preset_name: str, varied: dict[str, Any], golden_name: str
) -> None:
    settings = replace(dialect(preset_name), **varied)
    # The libraries sum in float32, and XGBoost also has float32 scores.
    tolerance = {"lightgbm": 1e-6, "xgboost": 2e-6}[preset_name]
    for golden in golden_lambdas():
        pairs = pair_lambdas(np.array(golden["labels"]), np.array(golden["scores"]), settings)
        np.testing.assert_allclose(pairs.gradients, golden[golden_name]["g"], rtol=0, atol=tolerance)
        np.testing.assert_allclose(pairs.hessians, golden[golden_name]["h"], rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("metric", "highest_grade", "golden_name"),
    [("ndcg@10", 4.0, "ndcg10"), ("ndcg@3", 4.0, "ndcg3"), ("err@10", 2.0, "err10"), ("map", 4.0, "ap")],
)
def test_lambdas_are_pyltrs_on_real_queries(metric: str, highest_grade: float, golden_name: str) -> None:
    pairs_of_ndcg = dialect("pyltr")
    convention = replace(pairs_of_ndcg.convention, highest_grade=highest_grade)
    settings = replace(pairs_of_ndcg, metric=metric, convention=convention, truncation=None)
    for golden in golden_lambdas("pyltr_lambdas.json"):
        pairs = pair_lambdas(np.array(golden["labels"]), np.array(golden["scores"]), settings)
        # pyltr's lambdas are positive if a document should move up.
        np.testing.assert_allclose(-pairs.gradients, golden[golden_name]["lambdas"], rtol=0, atol=1e-9)
        np.testing.assert_allclose(pairs.hessians, golden[golden_name]["weights"], rtol=0, atol=1e-9)


def test_lambdas_equal_the_worked_example_of_ranklibs_tutorial() -> None:
    labels = np.array([0, 0, 0, 1, 1, 0, 1, 1, 0, 0], dtype=np.float64)
    pairs = pair_lambdas(labels, np.zeros(10), dialect("ranklib"))
    assert pairs.delta[0, [3, 4, 6, 7]].round(3).tolist() == [0.222, 0.239, 0.260, 0.267]
    expected = [-0.495, -0.206, -0.104, 0.231, 0.231, -0.033, 0.240, 0.247, -0.051, -0.061]
    assert (-pairs.gradients).round(3).tolist() == expected


@pytest.mark.parametrize("preset_name", ["native", "lightgbm", "xgboost", "ranklib", "pyltr"])
@given(documents)
def test_what_one_document_of_a_pair_gains_the_other_loses(
    preset_name: str, documents: list[tuple[int, int]]
) -> None:
    labels, scores = np.array(documents, dtype=np.float64).T
    matrix = pair_lambdas(labels, scores, dialect(preset_name)).lambda_matrix
    np.testing.assert_array_equal(matrix, -matrix.T)
    # The document with the higher label is pushed up, which is a negative gradient.
    assert ((matrix * (labels[:, None] - labels[None, :])) <= 0).all()


@pytest.mark.parametrize("metric", ["ndcg", "ndcg@3", "err@10", "map", "mrr", "dcg@2", "precision@2", "wta"])
@given(documents)
@settings(max_examples=25, deadline=None)
def test_delta_is_the_change_of_the_metric_when_two_documents_change_places(
    metric: str, documents: list[tuple[int, int]]
) -> None:
    labels, scores = np.array(documents, dtype=np.float64).T
    settings = PairSettings(metric=metric, truncation=None)
    pairs = pair_lambdas(labels, scores, settings)

    def value(permuted: np.ndarray[Any, Any]) -> float:
        query = Judgments(labels=permuted, query_start=np.array([0, len(permuted)]))
        per_query = evaluate(query, -pairs.ranks.astype(float), [metric]).per_query[metric]
        return float(np.nan_to_num(per_query)[0])

    for i, j in combinations(range(len(labels)), 2):
        swapped = labels.copy()
        swapped[[i, j]] = labels[[j, i]]
        assert pairs.delta[i, j] == pytest.approx(abs(value(swapped) - value(labels)), abs=1e-12)


@given(documents)
@settings(max_examples=25, deadline=None)
def test_the_formula_of_ndcg_and_its_swaps_agree_where_no_truncation_tells_them_apart(
    documents: list[tuple[int, int]],
) -> None:
    labels, scores = np.array(documents, dtype=np.float64).T
    pairs = pair_lambdas(labels, scores, PairSettings(truncation=None))
    swaps = change_by_swapping(labels, pairs.ranks, "ndcg", preset("default"))
    np.testing.assert_allclose(pairs.delta, swaps, rtol=0, atol=1e-12)
