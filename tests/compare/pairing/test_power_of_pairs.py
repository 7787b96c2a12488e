"""What a pair's data can show, and what more queries, seeds or folds would: by the error of its claim."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from claim_cases import SEEDS, deterministic, folds, only, pair_of, resampled, runs_of
from toy_runs import mentions

from ltrbench.compare import Settings, render
from ltrbench.compare.output.record import comparisons_as_json
from ltrbench.compare.pairing.pairs import Pair
from ltrbench.compare.pairing.power import FOLDS, QUERIES, RESAMPLES, Need, Power
from ltrbench.compare.pairing.power import SEEDS as OF_SEEDS
from ltrbench.results import FINISHED, Run, RunResult
from ltrbench.statistics import (
    MODELS,
    design_of_folds,
    design_of_replicates,
    fewest,
    minimum_detectable_difference,
    queries_needed,
)


def needs_of(pair: Pair) -> dict[str, Need]:
    return {need.kind: need for need in pair.power.needs}


def seconds_of(run: Run) -> float:
    return run.result.total_seconds


def two_models(folder: Path, seeds: tuple[int, ...] = SEEDS) -> list[Run]:
    return [*runs_of(folder, "native", seeds), *runs_of(folder, "xgboost", seeds, skill=0.9)]


def test_without_a_named_difference_nothing_is_needed(tmp_path: Path) -> None:
    comparison = only(two_models(tmp_path))
    power = pair_of(comparison).power
    assert (power.needs, power.cheapest, power.detect) == ((), None, None)
    assert power.detectable is not None
    assert "To detect" not in render(comparison)


def test_trained_models_need_queries_only(tmp_path: Path) -> None:
    pair = pair_of(only(two_models(tmp_path, (1,)), Settings(detect=0.001)))
    spread = pair.statistics.sd_of_differences
    assert pair.scope == MODELS
    assert spread is not None
    assert pair.power.detectable == pytest.approx(
        minimum_detectable_difference(spread, pair.statistics.num_queries)
    )
    assert pair.power.needs == (Need(QUERIES, pair.statistics.num_queries, queries_needed(spread, 0.001)),)
    assert pair.power.cheapest == QUERIES


def test_what_is_detectable_and_what_is_needed_follow_from_the_error_of_the_claim(tmp_path: Path) -> None:
    runs = two_models(tmp_path)
    pair = pair_of(only(runs))
    assert pair.inference is not None
    assert pair.inference.standard_error is not None
    design = design_of_replicates(pair.inference)
    assert pair.power.detectable == design.detectable() > 2.8 * pair.inference.standard_error
    queries_only = replace(design, training=0.0, by_query=0.0)
    detect = (design.detectable() + queries_only.detectable()) / 2
    needs = needs_of(pair_of(only(runs, Settings(detect=detect))))
    assert [*needs] == [QUERIES, OF_SEEDS]
    number = fewest(lambda count: replace(design, num_trainings=count), detect, 3)
    assert number is not None
    assert (needs[OF_SEEDS].present, needs[OF_SEEDS].number) == (len(SEEDS), number)
    # Each model is trained so many times more, and a run of each takes its mean time.
    seconds = sum(seconds_of(run) for run in runs) / len(SEEDS)
    assert needs[OF_SEEDS].seconds == pytest.approx((number - len(SEEDS)) * seconds)


def test_seeds_are_cheapest_where_they_are_enough_because_queries_cost_judgments(tmp_path: Path) -> None:
    runs = two_models(tmp_path)
    detectable = pair_of(only(runs)).power.detectable
    assert detectable is not None
    slightly_less = only(runs, Settings(detect=0.98 * detectable))
    assert pair_of(slightly_less).power.cheapest == OF_SEEDS
    assert mentions(render(slightly_less), "seeds (cheapest")
    much_less = only(runs, Settings(detect=detectable / 10))
    needs = needs_of(pair_of(much_less))
    assert needs[OF_SEEDS] == Need(OF_SEEDS, len(SEEDS), None)
    assert mentions(render(much_less), "queries", "more seeds", "not enough")
    assert pair_of(much_less).power.cheapest == QUERIES


def test_a_difference_that_the_data_show_needs_no_more_of_anything(tmp_path: Path) -> None:
    comparison = only(two_models(tmp_path), Settings(detect=0.5))
    power = pair_of(comparison).power
    assert power.is_enough
    assert power.cheapest is None
    assert all(need.number is not None and need.number <= need.present for need in power.needs)
    assert mentions(render(comparison), "To detect 0.5", "xgboost", "no more")


def test_a_model_whose_seeds_change_nothing_is_not_trained_again(tmp_path: Path) -> None:
    runs = [*deterministic(tmp_path, "native"), *runs_of(tmp_path, "random", skill=0.5)]
    detectable = pair_of(only(runs)).power.detectable
    assert detectable is not None
    seeds = needs_of(pair_of(only(runs, Settings(detect=0.98 * detectable))))[OF_SEEDS]
    assert seeds.number is not None
    of_random = sum(seconds_of(run) for run in runs if run.result.model == "random") / len(SEEDS)
    assert seeds.seconds == pytest.approx((seeds.number - len(SEEDS)) * of_random)


def test_folds_are_needed_of_the_size_that_they_have(tmp_path: Path) -> None:
    runs = [*folds(tmp_path, "native", (1,)), *folds(tmp_path, "other", (1,))]
    comparison = only(runs)
    pair = pair_of(comparison)
    assert pair.inference is not None
    assert comparison.queries is not None
    test_share = comparison.queries.test_share
    assert test_share is not None
    design = design_of_folds(pair.inference, test_share)
    assert pair.power.detectable == design.detectable()
    detect = 0.9 * design.detectable()
    needs = needs_of(pair_of(only(runs, Settings(detect=detect))))
    # Of one seed a fold it is not known what seeds add.
    assert [*needs] == [QUERIES, FOLDS]
    number = needs[FOLDS].number
    assert number == fewest(lambda count: replace(design, num_folds=count), detect)
    assert number is not None
    a_fold = sum(seconds_of(run) for run in runs) / 5
    assert needs[FOLDS].seconds == pytest.approx((number - 5) * a_fold)


def test_seeds_in_folds_are_needed_in_each_fold(tmp_path: Path) -> None:
    runs = [*folds(tmp_path, "native", SEEDS), *folds(tmp_path, "other", SEEDS)]
    detectable = pair_of(only(runs)).power.detectable
    assert detectable is not None
    needs = needs_of(pair_of(only(runs, Settings(detect=0.99 * detectable))))
    assert [*needs] == [QUERIES, OF_SEEDS, FOLDS]
    seeds = needs[OF_SEEDS]
    assert seeds.present == len(SEEDS)
    assert seeds.number is not None
    of_one_seed = sum(seconds_of(run) for run in runs) / len(SEEDS)
    assert seeds.seconds == pytest.approx((seeds.number - len(SEEDS)) * of_one_seed)


def test_more_resamples_are_often_not_enough(tmp_path: Path) -> None:
    numbers = (1, 2, 3, 4, 5)
    runs = [*resampled(tmp_path, "native", numbers), *resampled(tmp_path, "xgboost", numbers)]
    pair = pair_of(only(runs))
    assert pair.inference is not None
    assert pair.power.detectable == pytest.approx(design_of_replicates(pair.inference, 1.0).detectable())
    # The bootstrap's own part, 1 of 1 + 1/R, is more than half of the error of training.
    needs = needs_of(pair_of(only(runs, Settings(detect=0.4 * (pair.power.detectable or 0)))))
    assert needs[RESAMPLES].number is None
    assert needs[RESAMPLES].seconds is None


def test_where_neither_queries_nor_folds_are_enough_the_table_says_so(tmp_path: Path) -> None:
    runs = [*folds(tmp_path, "native", SEEDS), *folds(tmp_path, "other", SEEDS)]
    comparison = only(runs, Settings(detect=1e-6))
    assert {need.number for need in pair_of(comparison).power.needs} == {None}
    assert pair_of(comparison).power.cheapest is None
    text = render(comparison)
    assert mentions(text, "To detect 1e-06", "not enough", "queries", "seeds", "folds", "for other")


def test_two_seeds_have_no_error_and_no_needs(tmp_path: Path) -> None:
    comparison = only(two_models(tmp_path, (1, 2)), Settings(detect=0.01))
    assert pair_of(comparison).power == Power(None, 0.01)
    assert "Minimum detectable" not in render(comparison)


def test_runs_without_times_have_needs_without_times(tmp_path: Path) -> None:
    runs = [Run(run.path, replace(run.result, seconds={})) for run in two_models(tmp_path)]
    detectable = pair_of(only(runs)).power.detectable
    assert detectable is not None
    power = pair_of(only(runs, Settings(detect=0.98 * detectable))).power
    assert all(need.number is not None and need.seconds is None for need in power.needs)
    assert power.cheapest is None


def test_a_record_names_the_needs(tmp_path: Path) -> None:
    comparison = only(two_models(tmp_path), Settings(detect=0.01))
    (pair,) = json.loads(json.dumps(comparisons_as_json([comparison]), allow_nan=False))["pairs"]
    power = pair_of(comparison).power
    assert pair["power"]["detectable"] == power.detectable
    assert [need["kind"] for need in pair["power"]["needs"]] == [need.kind for need in power.needs]
    assert pair["power"]["cheapest"] == power.cheapest


def test_the_time_of_a_run_counts_its_evaluator_once_and_leaves_out_compiling() -> None:
    seconds = {"load": 2.0, "warm_up": 50.0, "fit": 3.0, "monitor": 1.0, "predict": 0.5}
    result = RunResult(status=FINISHED, model="native", params="matched", seed=0, seconds=seconds)
    assert result.total_seconds == 2.0 + 3.0 + 0.5
