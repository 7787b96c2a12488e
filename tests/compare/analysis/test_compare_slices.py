"""Interactions of models and slices: one test for each model and attribute, adjusted over all."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from toy_runs import write

from ltrbench.compare import BEST, Comparison, Settings, compare, interactions, slices
from ltrbench.compare.analysis.slices import ATTRIBUTES, CHOSEN, interaction_sentence
from ltrbench.data import Judgments
from ltrbench.results import Run
from ltrbench.statistics import holm

NUM_QUERIES = 200


def judged(num_queries: int = NUM_QUERIES) -> Judgments:
    """Queries of four documents and of twelve, in turn."""
    sizes = np.tile([4, 12], num_queries // 2)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    labels = np.random.default_rng(0).integers(0, 3, starts[-1]).astype(np.float64)
    labels[starts[:-1]] = 2
    return Judgments(labels=labels, query_start=starts)


def runs(folder: Path, num_queries: int = NUM_QUERIES) -> list[Run]:
    models = {"native": 3.0, "xgboost": 2.9, "random_": 0.0}
    return [
        write(folder / model, model, fold=None, skill=skill, judged=judged(num_queries))
        for model, skill in models.items()
    ]


def comparison_of(folder: Path, num_queries: int = NUM_QUERIES, baseline: str | None = None) -> Comparison:
    settings = Settings(metric="ndcg@10", baseline=baseline, num_draws=20)
    (comparison,) = compare(runs(folder, num_queries), settings)
    return comparison


def test_each_model_but_the_baseline_has_one_test_an_attribute(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    found = interactions(comparison, slices(comparison, [*ATTRIBUTES]))
    expected = [(name, label) for name in ATTRIBUTES for label in ("xgboost", "random_")]
    assert [(item.attribute, item.label) for item in found] == expected
    assert [item.p_adjusted for item in found] == holm([item.p_value for item in found])


def test_an_interaction_of_two_slices_is_welchs_t_test_of_their_differences(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    assert comparison.queries is not None
    base, *others = comparison.queries.sample.values
    sliced = slices(comparison, ["query_size"])
    assert [item.name for item in sliced] == ["4", "12"]
    # The two sizes take turns.
    expected = [
        stats.ttest_ind((own - base)[::2], (own - base)[1::2], equal_var=False).pvalue for own in others
    ]
    assert [item.p_value for item in interactions(comparison, sliced)] == pytest.approx(expected)


def test_a_best_model_that_the_numbers_chose_is_no_baseline_of_a_test(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path, baseline=BEST)
    found = interactions(comparison, slices(comparison, ["query_size"]))
    assert {(item.p_value, item.p_adjusted, item.note) for item in found} == {(None, None, CHOSEN)}


def test_slices_of_few_queries_have_a_reason_in_place_of_a_p_value(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path, num_queries=2)
    found = interactions(comparison, slices(comparison, ["query_size"]))
    assert {item.p_value for item in found} == {None}
    assert all("4 (1 query), 12 (1 query)" in item.note for item in found)
    said = interaction_sentence(comparison.baseline, found, "query_size")
    assert "xgboost not tested" in said


def test_an_interaction_is_a_json_record(tmp_path: Path) -> None:
    comparison = comparison_of(tmp_path)
    found = [asdict(item) for item in interactions(comparison, slices(comparison, [*ATTRIBUTES]))]
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_the_sentence_of_an_attribute_names_baseline_models_p_values_and_the_number_of_tests(
    tmp_path: Path,
) -> None:
    comparison = comparison_of(tmp_path)
    found = interactions(comparison, slices(comparison, [*ATTRIBUTES]))
    said = interaction_sentence(comparison.baseline, found, "query_size")
    tested = sum(item.p_value is not None for item in found)
    for expected in ("native", "query_size", f"{tested} tests", "xgboost p", "random_ p", "not a claim"):
        assert expected in said
    assert interaction_sentence(comparison.baseline, found, "num_features") == ""
