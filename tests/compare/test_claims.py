# mypy: strict-optional=False
"""The two claims of a pair: about these trained models, and about the methods, trained again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from claim_cases import (
    QUERIES,
    SEEDS,
    deterministic,
    folds,
    only,
    pair_of,
    resampled,
    runs_of,
    values_of,
)
from toy_runs import IMPORTED, mentions

from ltrbench.compare import Comparison, Guard, Settings, render
from ltrbench.compare.claim_notes import about_intervals, all_notes, family_of
from ltrbench.compare.claims import NOT_ALIKE, NOT_REPEATED, NOT_TRAINED, against
from ltrbench.compare.leaderboard import comparisons_as_json
from ltrbench.compare.power import design_of_models
from ltrbench.runs import Run
from ltrbench.statistics import (
    LEVEL,
    PairedSample,
    compare_pairs,
    fewest,
    independent_replicates,
    resampling_factor,
    shared_replicates,
)
from ltrbench.statistics.claims import Scope, Varied
from ltrbench.statistics.paired import DIFFERING
from ltrbench.statistics.planning import design_of_replicates


def test_seeds_of_two_libraries_are_independent_trainings(tmp_path: Path) -> None:
    native = runs_of(tmp_path, "native")
    xgboost = runs_of(tmp_path, "xgboost", skill=0.9)
    pair = pair_of(only([*native, *xgboost]))
    shares = np.full(QUERIES, 1 / QUERIES)
    assert pair.methods.scope == Scope(Varied.RETRAINED)
    expected = independent_replicates(values_of(native), values_of(xgboost), shares)
    assert pair.inference.standard_error == pytest.approx(expected.standard_error)
    assert pair.inference.difference == pytest.approx(pair.models.difference)
    assert pair.inference.num_replicates == (len(SEEDS), len(SEEDS))


def test_seeds_that_change_nothing_count_as_one_training(tmp_path: Path) -> None:
    native = deterministic(tmp_path, "native")
    both = pair_of(only([*native, *deterministic(tmp_path, "xgboost", skill=0.5)]))
    assert (both.methods.reason, both.inference) == (NOT_REPEATED, None)
    assert both.models.interval is not None
    # Beside a model whose seeds matter, it is known not to vary.
    mixed = pair_of(only([*native, *runs_of(tmp_path / "2", "random")]))
    assert mixed.methods.scope == Scope(Varied.RETRAINED)
    assert mixed.inference.num_replicates == (1, len(SEEDS))


@pytest.mark.parametrize("kind", ["bootstrap", "subsample"])
def test_resampled_training_sets_speak_of_the_methods(
    tmp_path: Path, kind: str
) -> None:
    numbers = (1, 2, 3, 4, 5)
    native, xgboost = (
        resampled(tmp_path, model, numbers, kind) for model in ("native", "xgboost")
    )
    pair = pair_of(only([*native, *xgboost]))
    expected = shared_replicates(
        values_of(native),
        values_of(xgboost),
        np.full(QUERIES, 1 / QUERIES),
        resampling_factor(kind, len(numbers), 0.5),
    )
    assert (pair.methods.scope, pair.inference.method) == (
        Scope(Varied.METHODS),
        "resampled-t",
    )
    assert pair.inference.standard_error == pytest.approx(expected.standard_error)


def test_methods_differ_over_common_resamples_and_models_over_all_of_them(
    tmp_path: Path,
) -> None:
    native = [
        *resampled(tmp_path, "native", (1, 2, 3)),
        *resampled(tmp_path, "native", (4, 5), skill=9.0),
    ]
    comparison = only([*native, *resampled(tmp_path, "xgboost", (1, 2, 3), skill=1.5)])
    (pair,) = against(comparison.pairs, "native")
    xgboost = values_of(list(comparison.row("xgboost").runs)).mean()
    for claim, runs in ((pair.models, native), (pair.methods, native[:3])):
        assert claim.difference == pytest.approx(xgboost - values_of(runs).mean())
        middle = (claim.interval.low + claim.interval.high) / 2
        assert claim.difference == pytest.approx(middle)
    record = comparisons_as_json([comparison])["pairs"][0]
    for kind, claim in (("models", pair.models), ("methods", pair.methods)):
        assert record[kind]["difference"] == -claim.difference
    assert mentions(render(comparison), "xgboost", "3 of 5 resamples")


@pytest.mark.parametrize("kind", ["seeds", "resamples"])
def test_models_with_different_training_sets_say_nothing_about_training(
    tmp_path: Path, kind: str
) -> None:
    if kind == "seeds":
        one, other = (
            runs_of(tmp_path, "native", train="a"),
            runs_of(tmp_path, "xgboost", train="b"),
        )
    else:
        one = resampled(tmp_path, "native", (1, 2, 3))
        other = resampled(tmp_path, "xgboost", (1, 2, 3), train="another")
    pair = pair_of(only([*one, *other], Settings(allow_mismatch=True)))
    assert (pair.methods.reason, pair.inference) == (NOT_ALIKE, None)
    assert pair.models.interval is not None


def test_folds_speak_of_the_methods_and_folds_of_time_of_later_queries(
    tmp_path: Path,
) -> None:
    models = ("native", "other")
    at_random = [folds(tmp_path / "1", model, (1,)) for model in models]
    once = pair_of(only([run for runs in at_random for run in runs]))
    assert (once.methods.scope, once.methods.reason) == (Scope(Varied.METHODS), "")
    assert once.variation is not None
    source = {
        "class": "ltrbench.data.sources.TableFiles",
        "fields": {"cv_split": "forward"},
    }
    of_time = [folds(tmp_path / "2", model, (1,), source=source) for model in models]
    later = pair_of(only([run for runs in of_time for run in runs]))
    assert later == replace(
        once, methods=replace(once.methods, scope=Scope(Varied.LATER))
    )


def test_imported_scores_are_ordinary_members_and_no_claim_is_about_their_method(
    tmp_path: Path,
) -> None:
    def compared(*imported: str) -> Comparison:
        skills = {"native": 1.0, "old": 0.5, "production": 3.0}
        runs: list[Run] = []
        for model, skill in skills.items():
            fields = {"origin": IMPORTED} if model in imported else {}
            folder = tmp_path / f"{len(imported)}"
            runs += folds(folder, model, (1,), skill=skill, **fields)
        return only(runs)

    trained = compared()
    mixed = compared("old", "production")
    assert [pair.models for pair in mixed.pairs] == [
        pair.models for pair in trained.pairs
    ]
    assert [pair.methods.scope for pair in mixed.pairs] == [
        Scope(Varied.METHODS, has_imported=True)
    ] * 3
    last = mixed.pairs[-1].methods
    assert (last.reason, last.interval) == (NOT_TRAINED, None)
    assert [row.label for row in mixed.rows] == [
        "native",
        "old (imported)",
        "production (imported)",
    ]


def test_claims_on_fewer_than_ten_trainings_say_that_rare_failures_may_be_missing(
    tmp_path: Path,
) -> None:
    def notes(seeds: tuple[int, ...]) -> list[str]:
        models = {"native": 9.0, "xgboost": 0.1}
        runs = [
            runs_of(tmp_path, model, seeds, skill=skill)
            for model, skill in models.items()
        ]
        comparison = only([run for of_model in runs for run in of_model])
        assert pair_of(comparison).methods.state == "better"
        return [
            note.sentence for note in all_notes(comparison) if note.term == "trainings"
        ]

    assert notes(tuple(range(10))) == []
    (note,) = notes(SEEDS)
    assert mentions(note, f"{len(SEEDS)} trainings", "10 or more")


def test_more_pairs_or_metrics_in_the_family_widen_every_interval(
    tmp_path: Path,
) -> None:
    runs = [
        run
        for model, skill in (("native", 1.0), ("xgboost", 0.9), ("catboost", 0.8))
        for run in runs_of(tmp_path, model, skill=skill)
    ]
    everyone = only(runs)
    planned = only(runs, Settings(baseline="native"))
    declared = only(runs, Settings(baseline="native", family=("ndcg@10", "map")))

    def width(comparison: Comparison, kind: str) -> float:
        interval = getattr(comparison.claim("xgboost"), kind).interval
        return float(interval.high - interval.low)

    for kind in ("models", "methods"):
        assert width(planned, kind) < width(everyone, kind)
        assert width(planned, kind) < width(declared, kind)
    pair = declared.claim("xgboost")
    # Two pairs in each of two metrics share 5 %.
    assert pair.methods.interval == pair.inference.interval(0.05 / 4)


def test_only_the_primary_metric_carries_claims_unless_a_family_declares_others(
    tmp_path: Path,
) -> None:
    runs = [*runs_of(tmp_path, "native"), *runs_of(tmp_path, "random", skill=0.0)]
    alone = only(runs)
    assert {pair["metric"] for pair in comparisons_as_json([alone])["pairs"]} == {
        "ndcg@10"
    }
    assert mentions(render(alone), "Claims", "ndcg@10 only")
    both = only(runs, Settings(family=("ndcg@10", "ndcg@5")))
    assert [pair["metric"] for pair in comparisons_as_json([both])["pairs"]] == [
        "ndcg@10",
        "ndcg@5",
    ]
    claim = both.claim("random", "ndcg@5").models
    assert claim.state == "worse"
    mean = both.row("random").metrics["ndcg@5"]
    low, high = claim.interval.low, claim.interval.high
    difference = f"{claim.difference:+.4f} [{low:+.4f}, {high:+.4f}]"
    assert f"{mean:.4f} {difference} worse " in render(both)


def test_what_is_detectable_and_the_queries_needed_follow_from_the_error_of_the_claim(
    tmp_path: Path,
) -> None:
    runs = [*runs_of(tmp_path, "native"), *runs_of(tmp_path, "xgboost", skill=0.98)]
    pair = pair_of(only(runs))
    design = design_of_replicates(pair.inference)
    power = pair.methods.power
    assert power.detectable == design.detectable() > 2.8 * pair.inference.standard_error
    error = pair.statistics.standard_error
    power = pair.models.power
    assert power.detectable == pytest.approx(power.design.detectable(), rel=1e-12)
    assert power.design.standard_error == pytest.approx(error)
    # Planned from the upper limits of the variances, so that it is more than the estimates need.
    detect = 0.9 * power.detectable
    estimated = fewest(lambda count: replace(power.design, num_queries=count), detect)
    assert QUERIES < estimated < power.queries_for(detect) < 2 * estimated


def test_the_power_of_a_claim_follows_from_the_interval_that_decides_it() -> None:
    rng = np.random.default_rng(0)
    weights = 1 / np.arange(1, 201) ** 1.2
    noise = rng.normal(0, 0.1, size=200)
    weighted = PairedSample.of(np.array([noise, np.zeros(200)]), weights)
    (statistics,) = compare_pairs(weighted, [(0, 1)], num_draws=10)
    design = design_of_models(statistics, statistics.interval)
    ((_, degrees),) = design.degrees
    assert degrees == pytest.approx(weighted.effective_sizes.sum() - 1)
    # Student's quantile with so few effective queries, and not that of 200 queries.
    assert design.detectable() > 1.1 * replace(design, effective_share=1).detectable()
    shared = shared_replicates(
        rng.normal(size=(3, 200)), np.zeros((3, 200)), weighted.weights
    )
    of_shared = np.array(design_of_replicates(shared).degrees)
    assert of_shared == pytest.approx(np.array(shared.degrees))
    # The bound on the share of queries that differ does not follow from a standard error.
    few = np.where(np.arange(100) < 4, 0.02 + noise[:100] / 50, 0)
    sample = PairedSample.of(np.array([few, np.zeros(100)]))
    (statistics,) = compare_pairs(sample, [(0, 1)], num_draws=10)
    assert statistics.interval.method == DIFFERING
    assert design_of_models(statistics, statistics.interval) is None


def test_each_guard_has_a_level_of_its_own_beside_the_family(tmp_path: Path) -> None:
    runs = [*runs_of(tmp_path, "native"), *runs_of(tmp_path, "xgboost", skill=0.9)]
    guards = (Guard.parse("map=-0.01"), Guard.parse("ndcg@5=-0.01"))
    settings = Settings(
        baseline="native",
        guards=guards,
        family=("ndcg@10", "ndcg@5"),
        level=LEVEL / 132,
    )
    comparison = only(runs, settings)
    assert comparison.settings.level_of("map") == settings.level
    # A guard on a metric of the family shares the level of the family.
    assert family_of(comparison) == "the difference to native in ndcg@10 and ndcg@5"
    about = about_intervals(comparison)
    assert mentions(about, "guard (map)", "99.9621 %")
    # The confidence of a bound on the loss has as many digits.
    assert comparison.settings.confidence_of("map") == "99.9621 %"
