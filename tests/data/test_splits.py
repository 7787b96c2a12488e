"""Splits: by query, from a seed, and without leakage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming

from ltrbench.data import RankingDataset, Splits, split_queries
from ltrbench.data.splits import take_fold
from ltrbench.errors import DataError


def dataset(num_queries: int, first: int = 0, num_features: int = 1) -> RankingDataset:
    """Returns queries of two documents; the query number, from `first`, is the id and the feature value."""
    numbers = np.arange(first, first + num_queries)
    return RankingDataset(
        features=np.repeat(numbers, 2)[:, None].repeat(num_features, axis=1).astype(np.float32),
        labels=np.tile([0.0, 1.0], num_queries),
        query_start=np.arange(num_queries + 1) * 2,
        query_ids=numbers.astype(np.str_),
    )


@given(num_queries=st.integers(2, 60), share=st.floats(0.001, 0.999), seed=st.integers(0, 2**32))
@settings(deadline=None)
def test_each_query_goes_to_one_side_and_stays_in_the_order_of_the_file(
    num_queries: int, share: float, seed: int
) -> None:
    rest, taken = split_queries(dataset(num_queries), share, seed, "test")
    numbers = [int(query_id) for side in (rest, taken) for query_id in side.query_ids]
    assert sorted(numbers) == list(range(num_queries))
    assert numbers[: rest.num_queries] == sorted(numbers[: rest.num_queries])
    assert numbers[rest.num_queries :] == sorted(numbers[rest.num_queries :])
    assert taken.num_queries == min(max(round(share * num_queries), 1), num_queries - 1)


@pytest.mark.parametrize(("leaking", "split"), [(1, "valid"), (2, "test")])
def test_a_query_in_two_splits_is_a_leak(leaking: int, split: str) -> None:
    parts = [dataset(3), dataset(3, first=3), dataset(3, first=6)]
    parts[leaking] = dataset(3, first=2)
    with pytest.raises(DataError, match=naming("query 2", "train", f"in {split}", "Remove the query")):
        Splits(*parts)


def test_a_judged_list_under_another_id_is_a_leak() -> None:
    judged = RankingDataset(
        features=np.array([[0.5], [0.25]], dtype=np.float32),
        labels=np.array([0.0, 1.0]),
        query_start=np.array([0, 2]),
        query_ids=np.array(["a"]),
    )
    with pytest.raises(DataError, match=naming("query a", "train", "in test", "query b", "same documents")):
        Splits(judged, None, replace(judged, query_ids=np.array(["b"])))
    # The same documents with other labels may be another query, but not under the same id.
    relabelled = replace(judged, labels=np.array([1.0, 0.0]))
    Splits(judged, None, replace(relabelled, query_ids=np.array(["b"])))
    with pytest.raises(DataError, match=naming("query a", "train", "in test")):
        Splits(judged, None, relabelled)


def test_splits_have_the_same_number_of_features() -> None:
    with pytest.raises(DataError, match=naming("test", "1 features", "2")):
        Splits(dataset(2, num_features=2), None, dataset(2, first=5))


def with_twins(num_queries: int, twins: list[int]) -> RankingDataset:
    """Returns queries of two documents; query `twins[i]` has the judged list of query i and another id."""
    source = [*twins, *range(len(twins), num_queries)]
    features = np.array([[query, row] for query in source for row in (0, 1)], dtype=np.float32)
    return RankingDataset(
        features=features, labels=np.tile([0.0, 1.0], num_queries), query_start=np.arange(num_queries + 1) * 2
    )


@given(
    twins=st.lists(st.integers(5, 11), max_size=5),
    num_folds=st.integers(2, 5),
    seed=st.integers(0, 99),
    share=st.floats(0.01, 0.99),
)
@settings(deadline=None)
def test_every_query_is_in_one_fold_and_queries_of_one_judged_list_in_the_same(
    twins: list[int], num_folds: int, seed: int, share: float
) -> None:
    whole, tested = with_twins(12, twins), []
    for fold in range(1, num_folds + 1):
        train, test = take_fold(whole, fold, num_folds, seed)
        Splits(train, None, test)  # which refuses a leak
        assert train.num_queries + test.num_queries == 12
        assert twins or test.num_queries in (12 // num_folds, -(-12 // num_folds))
        tested += test.query_ids.tolist()
    assert sorted(tested, key=int) == whole.query_ids.tolist()
    rest, taken = split_queries(whole, share, seed, "test")
    Splits(rest, None, taken)
