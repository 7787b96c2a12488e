"""Queries are known by their content: one that stands in several test sets counts once."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import naming
from toy_runs import mentions, write

from ltrbench.compare import Comparison, compare
from ltrbench.compare.analysis.across import across
from ltrbench.compare.comparison import best_by_validation
from ltrbench.compare.output.tables import render
from ltrbench.compare.pairing.cells import EvaluatedRow
from ltrbench.compare.pairing.fairness import warnings
from ltrbench.compare.pairing.overlap import clustered, same_sets, shared, sharing
from ltrbench.compare.scores.fusion import Fusing, fuse
from ltrbench.compare.scores.imported import Import, import_scores
from ltrbench.data import Judgments, RankingDataset
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import ResultError
from ltrbench.experiment.run import Experiment, run
from ltrbench.metrics import DEFAULT
from ltrbench.rankers.random import RandomRanker
from ltrbench.results import SCORES_FILE, Run, read_run
from ltrbench.statistics import PairedSample

NUM_QUERIES = 40
MODELS = ("native", "lightgbm")


def dataset(num_queries: int = NUM_QUERIES, seed: int = 0) -> RankingDataset:
    """Five documents a query, one of them relevant, so that every query counts."""
    rng, num_documents = np.random.default_rng(seed), 5 * num_queries
    return RankingDataset(
        features=rng.random((num_documents, 3), dtype=np.float32),
        labels=np.concatenate([rng.permutation([2.0, 1, 0, 0, 0]) for _ in range(num_queries)]),
        query_start=np.arange(num_queries + 1) * 5,
        query_ids=np.array([f"q{seed}-{number}" for number in range(num_queries)]),
    )


def parts(data: RankingDataset, num_parts: int = 5) -> list[RankingDataset]:
    return [data.take_queries(own) for own in np.array_split(np.arange(data.num_queries), num_parts)]


def halves(data: RankingDataset, count: int = 5) -> list[RankingDataset]:
    """Random half-splits, which overlap, in another order of queries and with numbers of their own."""
    taken = [
        data.take_queries(np.random.default_rng(seed).permutation(data.num_queries)[: data.num_queries // 2])
        for seed in range(count)
    ]
    return [replace(own, query_ids=np.arange(own.num_queries).astype(str)) for own in taken]


def compared(folder: Path, tests: list[Judgments]) -> Comparison:
    """Two models on folds with these test sets."""
    runs = [
        write(folder / f"{model}{fold}", model, fold=fold, judged=test)
        for model in MODELS
        for fold, test in enumerate(tests, start=1)
    ]
    (comparison,) = compare(runs)
    return comparison


def test_random_half_splits_of_one_data_set_count_each_query_once(tmp_path: Path) -> None:
    tests = halves(dataset())
    comparison = compared(tmp_path, list(tests))
    distinct, times = len(set(np.concatenate([own.query_keys for own in tests]))), 5 * NUM_QUERIES // 2
    assert distinct < times
    (note,) = (note for note in comparison.notes if mentions(note, "overlap"))
    assert mentions(note, f"{distinct} distinct", f"{times} times")
    assert mentions(render(comparison), f"{distinct} queries")
    queries = comparison.queries
    assert queries is not None
    assert queries.num_distinct == distinct
    once = clustered(queries.sample, queries.query_keys)
    assert once.num_queries == distinct
    np.testing.assert_allclose(once.means, queries.sample.means, rtol=1e-12)


def test_folds_that_share_no_query_are_no_overlap(tmp_path: Path) -> None:
    comparison = compared(tmp_path, list(parts(dataset())))
    assert not any("overlap" in note or "repeat" in note for note in comparison.notes)
    assert comparison.queries is not None
    assert comparison.queries.num_distinct == NUM_QUERIES
    assert clustered(comparison.queries.sample, comparison.queries.query_keys) is comparison.queries.sample
    assert comparison.pairs[0].over_folds is not None


def test_folds_with_one_test_set_are_not_folds(tmp_path: Path) -> None:
    first, second, *_ = parts(dataset())
    comparison = compared(tmp_path, [first, second, first])
    assert any(mentions(note, "Folds 1 and 3", "same test set") for note in comparison.notes)
    assert comparison.pairs[0].over_folds is None


def test_a_query_that_stands_twice_in_one_test_set_is_told(tmp_path: Path) -> None:
    data = dataset(6)
    twice = RankingDataset(
        features=np.concatenate([data.features, data.features[:5]]),
        labels=np.concatenate([data.labels, data.labels[:5]]),
        query_start=np.arange(8) * 5,
    )
    comparison = compared(tmp_path, [twice])
    (note,) = (note for note in comparison.notes if mentions(note, "repeat"))
    assert mentions(note, "6 distinct", "7 times")


def samples(draw: st.DrawFn) -> tuple[PairedSample, np.ndarray]:
    count = draw(st.integers(1, 25))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    sample = PairedSample.of(rng.random((3, count)), rng.uniform(0.1, 5, count), rng.integers(0, 3, count))
    return sample, rng.integers(0, draw(st.integers(1, 30)), count).astype(str)


@given(st.composite(samples)())
def test_counting_each_query_once_leaves_means_and_shares_as_they_are(
    given_sample: tuple[PairedSample, np.ndarray],
) -> None:
    sample, keys = given_sample
    once = clustered(sample, keys)
    distinct = list(dict.fromkeys(keys.tolist()))  # in the order in which they come first
    assert once.num_queries == len(distinct)
    np.testing.assert_allclose(once.means, sample.means, rtol=1e-12)
    np.testing.assert_allclose(once.weights, [sample.weights[keys == key].sum() for key in distinct])
    means = [
        np.average(sample.values[:, keys == key], axis=1, weights=sample.weights[keys == key])
        for key in distinct
    ]
    np.testing.assert_allclose(once.values.T, means)
    if len(distinct) == len(keys):
        assert once is sample
    elif any(len(set(sample.strata[keys == key])) > 1 for key in distinct):
        assert len(once.cells) == 1
    else:
        assert once.strata.tolist() == [sample.strata[keys == key][0] for key in distinct]


def test_shared_queries_are_counted_between_sets() -> None:
    first, second, third = (np.array(list(letters)) for letters in ("abc", "bcd", "cba"))
    assert same_sets([first, second, third]) == [[0, 2]]
    assert same_sets([first[:0], first[:0]]) == []
    assert sharing([first, second], [third]).tolist() == [[3], [2]]
    found = shared([first, second, third])
    assert (found.num_queries, found.num_distinct, found.in_several) == (9, 4, 3)


def test_one_test_set_of_several_training_sets_is_no_overlap(tmp_path: Path) -> None:
    comparison = compared(tmp_path, [dataset()])
    (item,) = comparison.rows[0].evaluated
    resamples = [replace(item, cell=item.cell._replace(train=f"resample {number}")) for number in range(3)]
    notes = warnings([EvaluatedRow("native", tuple(resamples))], comparison.metric, DEFAULT)
    assert not any("overlap" in str(note) for note in notes)


def test_one_data_set_under_five_names_is_no_five_data_sets(tmp_path: Path) -> None:
    names = [f"name{number}" for number in range(5)]
    runs = [
        write(tmp_path / f"{name}{model}", model, name=name, fold=None, judged=own)
        for name, own in zip(names, halves(dataset()), strict=True)
        for model in MODELS
    ]
    found = across(compare(runs))
    assert found is not None
    assert found.test is None
    assert mentions(found.reason, "name0 and name1", "not independent", "keep one")


def letor_folds(folder: Path) -> list[Run]:
    """Two settings on five folds, the validation part of each being the test part of the one before."""
    tests = parts(dataset())
    return [
        write(
            folder / f"{leaves}-{fold}",
            "native",
            fold=fold,
            judged=own,
            validated=tests[fold - 2],
            settings={"num_leaves": leaves},
            metrics={"test/ndcg@10": 0.5, "valid/ndcg@10": leaves / 100},
        )
        for leaves in (15, 31)
        for fold, own in enumerate(tests, start=1)
    ]


def test_a_setting_chosen_on_letors_folds_is_told_to_have_seen_test_data(tmp_path: Path) -> None:
    (comparison,) = compare(letor_folds(tmp_path))
    (note,) = (note for note in comparison.notes if mentions(note, "Settings of native"))
    assert mentions(note, "fold 1", "test queries of fold 5", "fold 2", "its own validation")
    choice = best_by_validation(comparison)
    assert choice is not None
    assert mentions(choice.reason, "fold 1", "test queries of fold 5")


def test_one_setting_has_not_been_chosen(tmp_path: Path) -> None:
    (comparison,) = compare(letor_folds(tmp_path)[:5])
    choice = best_by_validation(comparison)
    assert choice is not None
    assert not any("test queries of fold" in text for text in (*comparison.notes, choice.reason))


def test_folds_with_validation_queries_of_their_own_have_seen_nothing(tmp_path: Path) -> None:
    tests, valids = parts(dataset(), 2), parts(dataset(seed=1), 2)
    runs = [
        write(
            tmp_path / f"{leaves}-{fold}",
            "native",
            fold=fold,
            judged=tests[fold - 1],
            validated=valids[fold - 1],
            settings={"num_leaves": leaves},
        )
        for leaves in (15, 31)
        for fold in (1, 2)
    ]
    (comparison,) = compare(runs)
    assert not any("test queries of fold" in note for note in comparison.notes)


def test_a_run_stores_the_keys_of_test_and_validation(tmp_path: Path) -> None:
    source = Synthetic(name="synthetic", num_queries=24)
    run(Experiment(model="random", ranker=RandomRanker(), source=source, importance=None), tmp_path / "run")
    stored, splits = read_run(tmp_path / "run"), source.load()
    assert splits.valid is not None
    for split, own in (("test", splits.test), ("valid", splits.valid)):
        np.testing.assert_array_equal(stored.scored(split).query_keys, own.query_keys)


def test_imported_and_fused_runs_have_the_keys_of_the_run_in_whose_place_they_stand(tmp_path: Path) -> None:
    data = dataset()
    runs = [write(tmp_path / model, model, judged=data) for model in MODELS]
    (tmp_path / "scores.txt").write_text("".join(f"{row % 7}\n" for row in range(data.num_documents)))
    for made in (
        *import_scores(Import("other", str(tmp_path / "scores.txt")), runs),
        *fuse(runs, Fusing(methods=("rrf",))),
    ):
        np.testing.assert_array_equal(made.scored("test").query_keys, data.query_keys)


@pytest.mark.parametrize(
    "odd",
    [
        np.array(["0" * 32] * (NUM_QUERIES - 1)),
        np.array([["0" * 32] * NUM_QUERIES]),
        np.array(["0" * 31] * NUM_QUERIES),
        np.zeros(NUM_QUERIES),
    ],
    ids=["one too few", "two dimensions", "too short", "numbers"],
)
def test_stored_keys_that_are_no_keys_are_refused(tmp_path: Path, odd: np.ndarray) -> None:
    stored = write(tmp_path, "native", judged=dataset())
    with np.load(tmp_path / SCORES_FILE) as arrays:
        content = {**arrays, "test_query_keys": odd}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **content)
    (tmp_path / SCORES_FILE).write_bytes(buffer.getvalue())
    with pytest.raises(ResultError, match=naming("query_keys", "32 characters", f"{NUM_QUERIES} queries")):
        stored.scored("test")
