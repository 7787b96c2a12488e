# mypy: strict-optional=False
"""Tables of toy runs: rows and cells, means and differences, queries that overlap, and replicates."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from claim_cases import only, resampled
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming
from scipy import stats
from toy_runs import IMPORTED, NUM_QUERIES, judgments, keys_of, mentions, write

from ltrbench.compare import (
    Comparison,
    Guard,
    Settings,
    answer_of,
    best_by_validation,
    compare,
    render,
)
from ltrbench.compare.claims import NOT_ALIKE
from ltrbench.compare.decision import decide
from ltrbench.compare.derived import Fusing, fuse
from ltrbench.compare.groups import kinds_of_values
from ltrbench.compare.remarks import GROUPS, ON_BACKENDS, Kind, notes_of
from ltrbench.compare.table import (
    clustered,
)
from ltrbench.data import Judgments, RankingDataset
from ltrbench.errors import ConfigError, ResultError
from ltrbench.folders import conf_dir, settings_in
from ltrbench.metrics import DEFAULT, PRESETS, Convention, evaluate
from ltrbench.metrics.conventions import Aggregation, NoRelevant
from ltrbench.runs.record import FAILED, FINISHED, Run, RunResult, ScoredSplit
from ltrbench.runs.writing import write_run
from ltrbench.statistics import PairedSample
from ltrbench.tables import glossary


def remarks_of(comparison: Comparison) -> str:
    return " ".join(answer_of(comparison).remarks)


def test_the_difference_is_paired_by_query_and_its_interval_is_students(
    tmp_path: Path,
) -> None:
    a, b = (
        write(tmp_path / "a", "native", skill=2.0),
        write(tmp_path / "b", "lightgbm", skill=0.5),
    )
    (comparison,) = compare([a, b])
    values = [
        evaluate(judgments(1), run.scored("test").scores, ["ndcg@10"]).per_query[
            "ndcg@10"
        ][1:]
        for run in (a, b)
    ]
    differences = values[1] - values[0]
    expected = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    row = comparison.rows[1]
    statistics = comparison.claim(row.label).statistics
    assert statistics.num_queries == NUM_QUERIES - 1
    assert statistics.difference == pytest.approx(differences.mean())
    assert (statistics.interval.low, statistics.interval.high) == pytest.approx(
        (expected.low, expected.high)
    )
    assert comparison.claim(comparison.rows[0].label) is None


def test_a_failed_run_is_named_and_does_not_stop_the_others(tmp_path: Path) -> None:
    good = write(tmp_path / "good", "native")
    failed = RunResult(
        status=FAILED,
        model="xgboost",
        params="matched",
        seed=0,
        data={"name": "toy"},
        error="out of memory",
    )
    (comparison,) = compare([good, write_run(tmp_path / "bad", failed)])
    assert f"xgboost failed ({tmp_path / 'bad'}): out of memory" in comparison.notes
    with pytest.raises(ResultError, match=naming("no finished run", "out of memory")):
        compare([write_run(tmp_path / "bad", failed)])


def test_the_model_to_use_is_named_with_the_validation_value_that_it_was_chosen_by(
    tmp_path: Path,
) -> None:
    valid = {"native": {1: 0.70, 2: 0.72}, "lightgbm": {1: 0.75, 2: 0.65}}
    runs = []
    for model, values in valid.items():
        for fold, value in values.items():
            run = write(tmp_path / f"{model}{fold}", model, fold=fold)
            metrics = {**run.result.metrics, "valid/ndcg@10": value}
            runs.append(Run(run.path, replace(run.result, metrics=metrics)))
    (comparison,) = compare(runs)
    choice = best_by_validation(comparison)
    assert choice.run.path == runs[1].path
    assert mentions(
        choice.reason, "native", "ndcg@10, 0.7100", "2 runs", "fold=2 seed=0", "0.7200"
    )
    assert choice.metrics["test/ndcg@10"] == comparison.row("native").metrics["ndcg@10"]
    assert choice.metrics["valid/ndcg@10"] == pytest.approx((0.70 + 0.72) / 2)
    # A mean over other folds cannot be compared.
    (one_missing,) = compare(runs[:3])
    choice = best_by_validation(one_missing)
    assert choice.row.label == "native"
    assert mentions(choice.reason, "lightgbm", "missing folds")


def test_a_lost_run_does_not_make_its_fold_weigh_less(tmp_path: Path) -> None:
    # Fold 2 is the hard one, where a seed of native is lost.
    valid = {
        "native": {(1, 0): 0.80, (1, 1): 0.80, (2, 0): 0.30},
        "lightgbm": {(1, 0): 0.81, (1, 1): 0.81, (2, 0): 0.31, (2, 1): 0.31},
    }
    runs = []
    for model, values in valid.items():
        for (fold, seed), value in values.items():
            path = tmp_path / f"{model}{fold}{seed}"
            run = write(path, model, fold=fold, seed=seed)
            metrics = {**run.result.metrics, "valid/ndcg@10": value}
            runs.append(Run(run.path, replace(run.result, metrics=metrics)))
    comparison = only(runs)
    choice = best_by_validation(comparison)
    assert choice.row.label == "lightgbm"
    assert choice.metrics["valid/ndcg@10"] == pytest.approx((0.81 + 0.31) / 2)
    (other,) = (row for row in comparison.rows if row.label == "native")
    choice = best_by_validation(comparison, [other])
    assert choice.metrics["valid/ndcg@10"] == pytest.approx((0.80 + 0.30) / 2)


def test_the_shown_means_differ_by_the_shown_difference_also_if_a_run_is_lost(
    tmp_path: Path,
) -> None:
    runs = []
    for model, number, seed in itertools.product("ab", (1, 2, 3), (0, 1)):
        folder = tmp_path / f"{model}{number}{seed}"
        (run,) = resampled(folder, model, (number,), skill=1.0 + number + 2 * seed)
        runs.append(replace(run, result=replace(run.result, seed=seed)))
    comparison = only(runs[1:])
    shown = [row.metrics["ndcg@10"] for row in comparison.rows]
    np.testing.assert_allclose(comparison.queries.sample.means, shown)


def test_guards_are_not_checked_against_a_row_that_nobody_named(tmp_path: Path) -> None:
    guarded = Settings(baseline="c", guards=(Guard.parse("ndcg@5=-0.005"),))
    runs = [
        write(tmp_path / f"{model}{fold}", model, fold=fold, skill=skill)
        for model, skill in {"a": 1.0, "bb": 5.0, "c": 9.0}.items()
        for fold in (1, 2)
    ]
    (whole,) = compare(runs, settings=guarded)
    assert decide(whole).checks
    (without_fold,) = compare(runs[:-1], settings=guarded)
    assert not decide(without_fold).checks
    assert mentions(without_fold.notes, "c", "test sets", "no guard")
    with pytest.raises(ConfigError, match=naming("guard", "--baseline")):
        compare(runs, settings=replace(guarded, baseline=None))


def test_zero_ranks_above_negative_values_and_numbers_are_not_sorted_as_text(
    tmp_path: Path,
) -> None:
    folds = [write(tmp_path / f"a{fold}", "a", fold=fold) for fold in range(1, 11)]
    others = [write(tmp_path / f"b{fold}", "b", fold=fold) for fold in (1, 3, 4)]
    (comparison,) = compare([*folds, *others])
    assert mentions(remarks_of(comparison), "folds 2, 5, 6, 7, 8, 9, 10")
    row = comparison.row("a")
    (first, *_) = row.evaluated
    rows = []
    for value in (np.nan, -0.2, 0.0, 0.1):
        evaluation = replace(first.evaluation, means={"kendall_tau": value})
        rows.append(replace(row, evaluated=(replace(first, evaluation=evaluation),)))
    in_order = sorted(rows, key=lambda row: row.rank_by("kendall_tau"))
    assert [row.metrics["kendall_tau"] for row in in_order] == [0.1, 0.0, -0.2, None]
    # NaN has no place among numbers, whatever order a set has.
    for texts in itertools.permutations(["1", "2", "nan", "10", "x"]):
        names = [name for name, _ in kinds_of_values(np.array(texts))]
        assert names == ["1", "2", "10", "nan", "x"]
    # Empty cells leave the others numbers.
    numbers = np.array([*range(20), np.nan, np.nan], dtype=float)
    *ranges, (missing, inside) = kinds_of_values(numbers)
    known = kinds_of_values(numbers[:20])
    assert [name for name, _ in ranges] == [name for name, _ in known]
    assert (missing, np.flatnonzero(inside).tolist()) == ("missing", [20, 21])
    kinds = kinds_of_values(np.array(["10.0", "missing", "9.0", "-1.0"]))
    assert [name for name, _ in kinds] == ["-1.0", "9.0", "10.0", "missing"]
    assert [int(is_kind.argmax()) for _, is_kind in kinds] == [3, 2, 0, 1]


def test_a_model_that_lacks_a_fold_is_left_out_of_paired_tests_and_the_others_keep_theirs(
    tmp_path: Path,
) -> None:
    runs = [
        write(tmp_path / f"{model}{fold}", model, fold=fold)
        for model in ("native", "lightgbm")
        for fold in (1, 2, 3)
    ]
    runs.append(write(tmp_path / "x", "xgboost", fold=2))
    (comparison,) = compare(runs)
    assert [(pair.a, pair.b) for pair in comparison.pairs] == [("native", "lightgbm")]
    assert comparison.pairs[0].statistics.num_queries == 3 * (NUM_QUERIES - 1)
    assert comparison.claim("xgboost") is None
    assert any(
        mentions(note, "xgboost", "folds 1, 3", "left out") for note in comparison.notes
    )
    # In any order of the runs; a complete row replaces a baseline that is not.
    for baseline, replaced in ((None, "native"), ("xgboost", "lightgbm")):
        (partial,) = compare(runs[::-1], settings=Settings(baseline=baseline))
        assert {(pair.a, pair.b) for pair in partial.pairs} == {("lightgbm", "native")}
        assert partial.baseline == replaced
        assert mentions(remarks_of(partial), "xgboost", "folds 1, 3")
    # With a reason, all rows are paired over the common fold.
    (selected,) = compare(runs, settings=Settings(selected="they crashed"))
    assert len(selected.pairs) == 3
    assert all(
        pair.statistics.num_queries == NUM_QUERIES - 1 for pair in selected.pairs
    )
    assert selected.row("native").runs == (runs[1],)
    assert mentions(remarks_of(selected), "they crashed", "1 of 3")
    # A single complete row has no partner.
    (alone,) = compare([*runs[:4], *runs[5:]])
    assert (alone.pairs, len(alone.row("native").runs)) == ((), 3)
    assert mentions(remarks_of(alone), "xgboost", "lightgbm", "fold 2")


@pytest.mark.parametrize(
    ("fields", "warning"),
    [
        ({"threads": 1}, ("threads", "1, 2", "differ")),
        (
            {"machine": {"cpu": "other", "cores": 8}},
            ("machines", "some (2 cores)", "other (8 cores)"),
        ),
        ({"commit": "def"}, ("commits", "abc, def")),
    ],
)
def test_circumstances_that_differ_are_told(
    tmp_path: Path, fields: dict[str, Any], warning: tuple[str, ...]
) -> None:
    (comparison,) = compare(
        [write(tmp_path / "a", "native"), write(tmp_path / "b", "xgboost", **fields)]
    )
    term, *parts = warning
    (note,) = (note for note in notes_of(comparison.remarks) if note.term == term)
    assert mentions(note, *parts)


def test_notes_of_runs_are_counted_and_the_rarest_of_many_are_left_to_the_records(
    tmp_path: Path,
) -> None:
    runs = [
        write(
            tmp_path / f"{fold}",
            "native",
            fold=fold,
            notes=["It took long.", *(f"Value {fold * each}." for each in "abc")],
            unmatched=["The loss is mine."] if fold == 1 else [],
        )
        for fold in (1, 2, 3)
    ]
    (comparison,) = compare(runs)
    notes = [note for note in notes_of(comparison.remarks) if note.subject == "native"]
    (departure,) = (note for note in notes if note.group == ON_BACKENDS)
    assert mentions(departure, "1 of 3 runs", "The loss is mine.")
    first, *values, rest = (note for note in notes if note.term == "notes of runs")
    assert first.sentence == "It took long."
    assert len(values) == 7
    assert mentions(rest, "2 further")


def test_every_kind_of_remark_has_an_entry_in_the_glossary() -> None:
    terms = glossary()
    assert {kind.term for kind in Kind} <= terms.keys()
    assert {kind.group for kind in Kind} == {*GROUPS}


def test_of_a_run_that_was_made_twice_the_last_is_counted_and_the_other_named(
    tmp_path: Path,
) -> None:
    runs = [
        write(tmp_path / name, "native", skill=skill, started=name)
        for name, skill in (("1", 0.5), ("2", 2.0))
    ]
    (comparison,) = compare(runs)
    assert comparison.rows[0].runs == (runs[1],)
    (note,) = (
        note for note in notes_of(comparison.remarks) if note.term == "repeated runs"
    )
    counted, ignored = str(note).split("ignored")
    assert mentions(counted, "native", "2 runs", "seed 0", "fold 1", tmp_path / "2")
    assert mentions(ignored, tmp_path / "1")


# Every library's convention, and every way to weigh queries with every value of an empty one.
CONVENTIONS = [
    *PRESETS.values(),
    *(
        replace(
            DEFAULT,
            name=f"{way.value} {empty.value}",
            aggregation=way,
            no_relevant=empty,
        )
        for way in Aggregation
        for empty in NoRelevant
        if way is not Aggregation.RATIO_OF_SUMS or empty is NoRelevant.SKIP
    ),
]


def weighted_run(
    model: str, fold: int, judged: Judgments, scores: np.ndarray[Any, Any]
) -> Run:
    """Held in memory."""
    splits = {
        split: {"fingerprint": f"{split} {fold}"}
        for split in ("train", "valid", "test")
    }
    result = RunResult(
        status=FINISHED,
        model=model,
        params="matched",
        seed=0,
        data={"name": "toy", "fold": fold, **splits},
        metrics={"test/ndcg@2": 0.0},
    )
    return Run(
        Path(model, str(fold)),
        result,
        held={"test": ScoredSplit(judged, scores, query_keys=keys_of(judged))},
    )


@pytest.mark.slow
@settings(max_examples=20)
@given(
    convention=st.sampled_from(CONVENTIONS),
    metric=st.sampled_from(["ndcg@2", "map", "precision@2", "mrr"]),
    queries=st.lists(
        st.tuples(
            st.lists(st.sampled_from([0.0, 1.0]), min_size=3, max_size=3),
            st.floats(0.01, 100),
        ),
        min_size=2,
        max_size=12,
    ),
    seed=st.integers(0, 1000),
)
def test_a_difference_is_that_of_the_means_under_every_convention_with_weights_and_empty_queries(
    convention: Convention,
    metric: str,
    queries: list[tuple[list[float], float]],
    seed: int,
) -> None:
    word = metric.partition("@")[0]
    if (convention.metrics is not None and word not in convention.metrics) or word in {
        *convention.uncut_metrics,
        *["mrr"] * (convention.aggregation is Aggregation.RATIO_OF_SUMS),
    }:
        metric = "ndcg@2"
    rng = np.random.default_rng(seed)
    runs: list[Run] = []
    for fold, of_fold in enumerate((queries, queries[::-1][1:]), start=1):
        judged = Judgments(
            labels=np.array([label for labels, _ in of_fold for label in labels]),
            query_start=np.arange(len(of_fold) + 1) * 3,
            document_ids=np.arange(len(of_fold) * 3).astype(str),
            query_weights=np.array([weight for _, weight in of_fold]),
        )
        scores = {
            model: rng.permutation(np.arange(3.0 * len(of_fold)))
            for model in ("a", "b")
        }
        runs += [
            weighted_run(model, fold, judged, of_model)
            for model, of_model in scores.items()
        ]
    (comparison,) = compare(
        runs, settings=Settings(metric=metric, convention=convention, num_draws=20)
    )
    a, b = comparison.rows
    if a.metrics[metric] is None or comparison.queries is None:
        return  # no query counts in some fold
    means = np.array([a.metrics[metric], b.metrics[metric]], dtype=float)
    np.testing.assert_allclose(comparison.queries.sample.means, means, rtol=1e-12)
    (pair,) = comparison.pairs
    assert pair.statistics.difference == pytest.approx(means[0] - means[1], abs=1e-11)
    if abs(means[0] - means[1]) > 1e-9:
        assert comparison.best == ("a" if means[0] > means[1] else "b")


def rows(
    folder: Path,
    model: str,
    replicates: Iterable[tuple[int | None, int]],
    **fields: Any,
) -> list[Run]:
    """Runs of a model, one in each fold and of each seed."""
    return [
        write(folder / f"{model}-{fold}-{seed}", model, fold=fold, seed=seed, **fields)
        for fold, seed in replicates
    ]


def seeds(count: int, fold: int | None = None) -> list[tuple[int | None, int]]:
    return [(fold, seed) for seed in range(count)]


def models(folder: Path, *replicates: Iterable[tuple[int | None, int]]) -> list[Run]:
    """Rows of native, xgboost and so on, each with these folds and seeds."""
    names = ("native", "xgboost", "lightgbm")
    return [
        run
        for model, of_model in zip(names, replicates, strict=False)
        for run in rows(folder, model, of_model)
    ]


THREE_FOLDS = [(1, 0), (2, 0), (3, 0)]


@pytest.mark.parametrize(
    ("make", "texts"),
    [
        (lambda t: models(t, seeds(5), seeds(5)), ["5 seeds", "5 seeds"]),
        (lambda t: models(t, seeds(1)), ["1 seed"]),
        (
            lambda t: models(t, seeds(5), [(None, 3), (None, 7)]),
            ["5 of 6 seeds", "2 of 6 seeds"],
        ),
        (
            lambda t: (
                models(t, seeds(2))
                + rows(t, "ranklib", [(None, 7)], origin=IMPORTED, seconds={})
            ),
            ["2 seeds", "1 (imported)"],
        ),
        (lambda t: models(t, [*seeds(3, 1), *seeds(3, 2)]), ["2 folds x 3 seeds"]),
        (
            lambda t: models(t, [*seeds(3, 1), *seeds(2, 2)]),
            ["2 folds x 2 to 3 of 3 seeds"],
        ),
        (
            lambda t: models(t, [(1, 0), (1, 1), (2, 2), (2, 3)]),
            ["2 folds x 2 of 4 seeds"],
        ),
        (
            lambda t: models(t, THREE_FOLDS, THREE_FOLDS[:2], THREE_FOLDS),
            ["3 folds x 1 seed", "2 of 3 folds x 1 seed", "3 folds x 1 seed"],
        ),
        (lambda t: resampled(t, "native", (1, 2, 3, 4, 5)), ["5 resamples"]),
        (lambda t: resampled(t, "native", (1, 3, 5)), ["3 of 5 resamples"]),
    ],
)
def test_a_row_states_how_many_folds_resamples_and_seeds_it_has_and_lacks(
    tmp_path: Path, make: Callable[[Path], list[Run]], texts: list[str]
) -> None:
    assert [*only(make(tmp_path)).replicates.values()] == texts


OF_DATA = 40
NAMES = ("native", "lightgbm")


def dataset(num_queries: int = OF_DATA, seed: int = 0) -> RankingDataset:
    """Five documents a query, one of them relevant, so that every query counts."""
    rng, num_documents = np.random.default_rng(seed), 5 * num_queries
    return RankingDataset(
        features=rng.random((num_documents, 3), dtype=np.float32),
        labels=np.concatenate(
            [rng.permutation([2.0, 1, 0, 0, 0]) for _ in range(num_queries)]
        ),
        query_start=np.arange(num_queries + 1) * 5,
        query_ids=np.array([f"q{seed}-{number}" for number in range(num_queries)]),
    )


def parts(data: RankingDataset, num_parts: int = 5) -> list[RankingDataset]:
    return [
        data.take_queries(part)
        for part in np.array_split(np.arange(data.num_queries), num_parts)
    ]


def halves(data: RankingDataset, count: int = 5) -> list[RankingDataset]:
    """Random half-splits, which overlap, in another order of queries and with other numbers."""
    taken = [
        data.take_queries(
            np.random.default_rng(seed).permutation(data.num_queries)[
                : data.num_queries // 2
            ]
        )
        for seed in range(count)
    ]
    return [
        replace(part, query_ids=np.arange(part.num_queries).astype(str))
        for part in taken
    ]


def test_random_half_splits_of_one_data_set_count_each_query_once(
    tmp_path: Path,
) -> None:
    tests = halves(dataset())
    comparison = only(
        [
            write(tmp_path / f"{model}{fold}", model, fold=fold, judged=test)
            for model in NAMES
            for fold, test in enumerate(tests, start=1)
        ]
    )
    distinct, times = (
        len(set(np.concatenate([part.query_keys for part in tests]))),
        5 * OF_DATA // 2,
    )
    assert distinct < times
    (note,) = (note for note in comparison.notes if mentions(note, "repeat"))
    assert mentions(note, f"{distinct} distinct", f"{times} times")
    assert mentions(render(comparison), f"{distinct} queries")
    queries = comparison.queries
    assert queries.distinct.num_queries == distinct
    once = clustered(queries.sample, queries.query_keys)
    assert once.num_queries == distinct
    np.testing.assert_allclose(once.means, queries.sample.means, rtol=1e-12)


def test_feature_sets_on_the_same_judgments_are_rows_of_one_table_and_paired(
    tmp_path: Path,
) -> None:
    def with_features(ignore: list[str], skill: float, **fields: Any) -> list[Run]:
        runs = []
        for fold in (1, 2, 3):
            folder = tmp_path / f"{len(ignore)}{skill}{fold}"
            run = write(
                folder,
                "native",
                fold=fold,
                skill=skill,
                train=f"{ignore} {fold}",
                valid=f"{ignore} {fold}",
                data_settings={"ignore": ignore, **fields},
            )
            test = {**run.result.data["test"], "fingerprint": f"{ignore} {fold} test"}
            data = {**run.result.data, "test": test}
            runs.append(replace(run, result=replace(run.result, data=data)))
        return runs

    both = [*with_features([], 3.0), *with_features(["price"], 1.0)]
    (comparison,) = compare(both)
    assert [row.label for row in comparison.rows] == [
        "native data.ignore=[]",
        "native data.ignore=[price]",
    ]
    (pair,) = comparison.pairs
    assert pair.statistics.num_queries == 3 * (NUM_QUERIES - 1)
    assert (pair.models.state, pair.variation is None) == ("better", False)
    # A fusion takes the rows that the table shows.
    fused = fuse(both, Fusing(("rrf",), of=tuple(row.label for row in comparison.rows)))
    assert [run.result.data["fold"] for run in fused] == [1, 2, 3]
    # Other data with other features stay apart.
    others = with_features(["price"], 2.0, root="elsewhere")
    assert len(compare([*both[:3], *others])) == 2


def test_subsets_of_one_test_set_with_one_training_set_are_not_folds(
    tmp_path: Path,
) -> None:
    runs = [
        write(
            tmp_path / f"{model}{fold}", model, fold=fold, judged=test, train="one file"
        )
        for model in NAMES
        for fold, test in enumerate(parts(dataset()), start=1)
    ]
    (comparison,) = compare(runs)
    (pair,) = comparison.pairs
    assert (pair.methods.reason, pair.variation) == (NOT_ALIKE, None)
    assert pair.statistics.num_queries == OF_DATA
    assert any(mentions(note, "same training set") for note in comparison.notes)


def samples(draw: st.DrawFn) -> tuple[PairedSample, np.ndarray]:
    count = draw(st.integers(1, 25))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    sample = PairedSample.of(
        rng.random((3, count)), rng.uniform(0.1, 5, count), rng.integers(0, 3, count)
    )
    return sample, rng.integers(0, draw(st.integers(1, 30)), count).astype(str)


@given(st.composite(samples)())
def test_counting_each_query_once_leaves_means_and_shares_as_they_are(
    given_sample: tuple[PairedSample, np.ndarray],
) -> None:
    sample, keys = given_sample
    once = clustered(sample, keys)
    distinct = list(
        dict.fromkeys(keys.tolist())
    )  # in the order in which they come first
    assert once.num_queries == len(distinct)
    np.testing.assert_allclose(once.means, sample.means, rtol=1e-12)
    np.testing.assert_allclose(
        once.weights, [sample.weights[keys == key].sum() for key in distinct]
    )
    means = [
        np.average(
            sample.values[:, keys == key], axis=1, weights=sample.weights[keys == key]
        )
        for key in distinct
    ]
    np.testing.assert_allclose(once.values.T, means)
    if len(distinct) == len(keys):
        assert once is sample
    elif any(len(set(sample.strata[keys == key])) > 1 for key in distinct):
        assert len(once.cells) == 1
    else:
        assert once.strata.tolist() == [
            sample.strata[keys == key][0] for key in distinct
        ]


def letor_folds(folder: Path) -> list[Run]:
    """Two settings on five folds, the validation part of each being the test part of the one before."""
    tests = parts(dataset())
    return [
        write(
            folder / f"{leaves}-{fold}",
            "native",
            fold=fold,
            judged=part,
            validated=tests[fold - 2],
            settings={"num_leaves": leaves},
            metrics={"test/ndcg@10": 0.5, "valid/ndcg@10": leaves / 100},
        )
        for leaves in (15, 31)
        for fold, part in enumerate(tests, start=1)
    ]


def test_a_setting_chosen_on_letors_folds_is_told_to_have_seen_test_data(
    tmp_path: Path,
) -> None:
    (comparison,) = compare(letor_folds(tmp_path))
    (note,) = (
        note for note in comparison.notes if mentions(note, "Settings of native")
    )
    assert mentions(note, "folds 1, 2", "test queries of", "its own validation")
    choice = best_by_validation(comparison)
    assert mentions(choice.reason, "folds 1, 2", "test queries")


def test_rows_are_named_by_their_objective_and_its_settings_with_effect(
    tmp_path: Path,
) -> None:
    def rows_of(*settings: dict[str, Any]) -> list[str]:
        of_native = {"_target_": "ltrbench.rankers.native.NativeRanker"}
        runs = [
            write(
                tmp_path / f"{len(settings)}_{number}",
                "native",
                settings={**of_native, **each},
            )
            for number, each in enumerate(settings)
        ]
        return [row.label for row in only(runs).rows]

    def of(name: str, **changes: Any) -> dict[str, Any]:
        objective = settings_in("model/objective", name)
        return {
            "truncation": objective.pop("truncation", 30),
            "objective": {**objective, **changes},
        }

    names = [path.stem for path in conf_dir().glob("model/objective/[a-z]*.yaml")]
    every = {
        f"native {name}": of(name) for name in names if name not in ("none", "custom")
    }
    own = {"truncation": None, "objective": {"_target_": "my_loss.MyLoss", "margin": 2}}
    assert {*rows_of(*every.values(), own)} == {*every, "native MyLoss"}
    # Permutations have no effect without noise, and mu has none on ndcg2.
    rows = {
        "native ranknet sigma=2.0": of("ranknet", sigma=2.0),
        "native xendcg": of("xendcg"),
        "native approx_ndcg temperature=0.1": of("approx_ndcg", temperature=0.1),
        "native yetirank mode=Classic noise=Gumbel": of("yetirank"),
        "native yetirank mode=NDCG noise=No": of("yetirank", noise="No", mode="NDCG"),
        "native lambdaloss mu=5.0 weighting=ndcg2++": of(
            "lambdaloss", weighting="ndcg2++", mu=5.0
        ),
        "native lambdaloss weighting=ndcg2": of("lambdaloss"),
    }
    assert rows_of(*rows.values()) == [*rows]
