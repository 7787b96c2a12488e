# mypy: strict-optional=False
"""Claims of a comparison: their scope follows from what varied, one procedure decides them, and power."""

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
from toy_runs import mentions

from ltrbench.compare import Comparison, Settings, render, verdict
from ltrbench.compare.advice import all_notes, recommend
from ltrbench.compare.leaderboard import comparisons_as_json
from ltrbench.compare.pairs import Pair
from ltrbench.compare.power import QUERIES as OF_QUERIES
from ltrbench.compare.power import SEEDS as OF_SEEDS
from ltrbench.compare.power import Need, PlannedPair
from ltrbench.compare.studies import queries_needed
from ltrbench.runs import Run
from ltrbench.runs.record import IMPORTED
from ltrbench.statistics import (
    LEVEL,
    SCOPES,
    Design,
    fewest,
    independent_replicates,
    resampling_factor,
    shared_replicates,
)
from ltrbench.statistics.claims import LATER, METHODS, MODELS, RETRAINED, with_imported
from ltrbench.statistics.planning import design_of_replicates


def test_seeds_of_two_libraries_are_independent_trainings(tmp_path: Path) -> None:
    native, xgboost = (
        runs_of(tmp_path, "native"),
        runs_of(tmp_path, "xgboost", skill=0.9),
    )
    pair = pair_of(only([*native, *xgboost]))
    shares = np.full(QUERIES, 1 / QUERIES)
    assert pair.scope == RETRAINED
    expected = independent_replicates(values_of(native), values_of(xgboost), shares)
    assert pair.inference.standard_error == pytest.approx(expected.standard_error)
    assert pair.inference.difference == pytest.approx(pair.statistics.difference)
    assert pair.inference.num_replicates == (len(SEEDS), len(SEEDS))


def test_seeds_that_change_nothing_count_as_one_training(tmp_path: Path) -> None:
    both = only(
        [
            *deterministic(tmp_path, "native"),
            *deterministic(tmp_path, "xgboost", skill=0.5),
        ]
    )
    assert (pair_of(both).scope, pair_of(both).inference) == (MODELS, None)
    # Beside a model whose seeds matter, it is known not to vary.
    mixed = pair_of(
        only(
            [
                *deterministic(tmp_path / "2", "native"),
                *runs_of(tmp_path / "2", "random"),
            ]
        )
    )
    assert mixed.scope == RETRAINED
    assert mixed.inference.num_replicates == (1, len(SEEDS))


@pytest.mark.parametrize("kind", ["bootstrap", "subsample"])
def test_resampled_training_sets_speak_of_the_methods(
    tmp_path: Path, kind: str
) -> None:
    numbers = (1, 2, 3, 4, 5)
    native, xgboost = (
        resampled(tmp_path, model, numbers, kind) for model in ("native", "xgboost")
    )
    comparison = only([*native, *xgboost])
    pair = pair_of(comparison)
    expected = shared_replicates(
        values_of(native),
        values_of(xgboost),
        np.full(QUERIES, 1 / QUERIES),
        resampling_factor(kind, len(numbers), 0.5),
    )
    assert (pair.scope, pair.inference.method) == (METHODS, "resampled-t")
    assert pair.inference.standard_error == pytest.approx(expected.standard_error)
    assert SCOPES[METHODS] in render(comparison)
    # 90 queries in each training set of the toy runs.
    assert mentions(
        recommend(comparison).certainty, "90 training queries", kind, "50 %"
    )


def test_the_difference_is_over_the_resamples_that_its_interval_is_over(
    tmp_path: Path,
) -> None:
    native = [
        *resampled(tmp_path, "native", (1, 2, 3)),
        *resampled(tmp_path, "native", (4, 5), skill=9.0),
    ]
    comparison = only([*native, *resampled(tmp_path, "xgboost", (1, 2, 3), skill=1.5)])
    row = comparison.row("xgboost")
    pair = row.to_baseline
    common = values_of(native[:3]).mean()
    assert pair.difference == pytest.approx(values_of(list(row.runs)).mean() - common)
    assert pair.difference == pytest.approx(
        (pair.interval.low + pair.interval.high) / 2
    )
    record = comparisons_as_json([comparison])
    assert (
        record["rows"][1]["difference"]
        == pair.difference
        == -record["pairs"][0]["difference"]
    )
    text = render(comparison)
    assert f"{pair.difference:+.4f} [{pair.interval.low:+.4f}" in text
    assert mentions(text, "xgboost", "3 of 5 resamples")


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
    assert (pair.scope, pair.inference) == (MODELS, None)


def test_folds_speak_of_the_methods(tmp_path: Path) -> None:
    once = pair_of(
        only(
            [
                *folds(tmp_path / "1", "native", (1,)),
                *folds(tmp_path / "1", "other", (1,)),
            ]
        )
    )
    assert once.scope == METHODS
    assert once.inference is not None
    frequentist = once.over_folds.frequentist
    assert (once.interval.low, once.interval.high) == pytest.approx(
        (frequentist.interval.low, frequentist.interval.high)
    )
    source = {
        "class": "ltrbench.data.sources.TableFiles",
        "fields": {"cv_split": "forward"},
    }
    of_time = [
        folds(tmp_path / "2", model, (1,), source=source)
        for model in ("native", "other")
    ]
    assert pair_of(only([run for runs in of_time for run in runs])) == replace(
        once, scope=LATER
    )


def test_imported_scores_are_marked_and_no_claim_is_about_their_method(
    tmp_path: Path,
) -> None:
    """The differences are those of models that were trained here."""

    def compared(*imported: str) -> Comparison:
        skills = {"native": 1.0, "old": 0.5, "production": 3.0}
        of_models = (
            folds(
                tmp_path / f"{len(imported)}",
                model,
                (1,),
                skill=skill,
                **({"params": IMPORTED} if model in imported else {}),
            )
            for model, skill in skills.items()
        )
        return only([run for runs in of_models for run in runs])

    trained, mixed = compared(), compared("old", "production")
    assert [pair.difference for pair in mixed.pairs] == [
        pair.difference for pair in trained.pairs
    ]
    # An imported row shares no variance, so that each pair has its own.
    assert {pair.interval.method for pair in trained.pairs} == {"shared-corrected-t"}
    assert {pair.interval.method for pair in mixed.pairs} == {"corrected-t"}
    assert [pair.scope for pair in mixed.pairs] == [
        *[with_imported(METHODS)] * 2,
        MODELS,
    ]
    assert [row.label for row in mixed.rows] == [
        "native",
        "old (imported)",
        "production (imported)",
    ]
    assert mentions(recommend(mixed).headline, "Take production (imported)")


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
        assert pair_of(comparison).claim == "better"
        return [note.sentence for note in all_notes(comparison) if note.term == "scope"]

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

    def width(comparison: Comparison) -> float:
        pair = comparison.row("xgboost").to_baseline
        return pair.interval.high - pair.interval.low

    assert width(planned) < width(everyone)
    assert width(planned) < width(declared)
    pair = declared.row("xgboost").to_baseline
    # Two pairs in each of two metrics share 5 %.
    assert pair.interval == pair.inference.interval(0.05 / 4)


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
    claim = both.claim("random", "ndcg@5")
    assert claim.claim == "worse"
    mean = both.row("random").metrics["ndcg@5"]
    low, high = claim.interval.low, claim.interval.high
    difference = f"{claim.statistics.difference:+.4f} [{low:+.4f}, {high:+.4f}]"
    assert f"{mean:.4f} {difference} worse " in render(both)
    assert mentions(
        verdict(both).partition("In ndcg@5")[2], "trained again", "random", "worse"
    )


def needs_of(pair: Pair) -> dict[str, Need]:
    return {need.kind: need for need in pair.power.needs}


def two_models(folder: Path, seeds: tuple[int, ...] = SEEDS) -> list[Run]:
    return [
        *runs_of(folder, "native", seeds),
        *runs_of(folder, "xgboost", seeds, skill=0.98),
    ]


def test_what_is_detectable_and_what_is_needed_follow_from_the_error_of_the_claim(
    tmp_path: Path,
) -> None:
    runs = two_models(tmp_path)
    pair = pair_of(only(runs))
    design = design_of_replicates(pair.inference)
    assert (
        pair.power.detectable
        == design.detectable()
        > 2.8 * pair.inference.standard_error
    )
    detect = 0.99 * design.detectable(level=LEVEL / 2)
    # The study that follows is the second look.

    def number(of: Design, key: str) -> int | None:
        return fewest(
            lambda count: replace(of, **{key: count}),  # type: ignore[arg-type]
            detect,
            level=LEVEL / 2,
        )

    both = only(runs, Settings(detect=detect))
    limit = design.at_limit()
    low, high = number(design, "num_trainings"), number(limit, "num_trainings")
    assert [*pair_of(both).power.needs] == [
        Need(
            OF_QUERIES,
            QUERIES,
            number(design, "num_queries"),
            number(limit, "num_queries"),
        ),
        Need(OF_SEEDS, len(SEEDS), low, high),
    ]
    assert len(SEEDS) < low < high
    assert mentions(render(both), f"{low} to {high} seeds")


@pytest.mark.parametrize(
    ("num_trainings", "words"), [(4, "cannot be estimated from 4"), (12, "not enough")]
)
def test_more_queries_are_not_enough_only_if_many_trainings_show_it(
    num_trainings: int, words: str
) -> None:
    design = Design(100, query=0.01, num_trainings=num_trainings, training=0.001)
    need = queries_needed(PlannedPair(design, LEVEL, LEVEL), 0.01)
    assert (need.low, need.high, words in need.note) == (None, None, True)
