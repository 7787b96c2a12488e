"""Query keys: queries with the same documents have the same key, whatever their ids and order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ltrbench.data import RankingDataset
from ltrbench.data.dataset import _SEEDS, _STEP


def dataset(sizes: list[int], seed: int = 0, num_features: int = 3) -> RankingDataset:
    """Returns data with few distinct values, so that small queries are often equal."""
    rng, num_documents = np.random.default_rng(seed), sum(sizes)
    return RankingDataset(
        features=rng.choice(np.array([0, 0.5, 1, np.nan], np.float32), (num_documents, num_features)),
        labels=rng.integers(0, 3, num_documents).astype(np.float64),
        query_start=np.cumsum([0, *sizes]),
    )


def splitmix(number: int) -> int:
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    number = (number ^ (number >> 27)) * 0x94D049BB133111EB % 2**64
    return number ^ (number >> 31)


def linear(words: list[int], seed: int) -> int:
    constants = [splitmix((place * _STEP + seed) % 2**64) | 1 for place in range(1, len(words) + 1)]
    return sum((word ^ (word >> 16)) * factor for word, factor in zip(words, constants, strict=True)) % 2**64


def by_formula(data: RankingDataset, query: int, seed: int) -> int:
    rows = range(data.query_start[query], data.query_start[query + 1])
    features = [linear(data.features[row].view(np.uint32).tolist(), seed) for row in rows]
    labels = [splitmix((int(data.labels[row : row + 1].view(np.uint64)[0]) + seed) % 2**64) for row in rows]
    total = sum(
        splitmix((of_features + of_label) % 2**64 ^ seed)
        for of_features, of_label in zip(features, labels, strict=True)
    )
    if len(set(features)) == 1:
        total += splitmix(linear([ord(letter) for letter in data.query_ids[query]], seed) ^ seed)
    return splitmix(total % 2**64 ^ seed)


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=30), seed=st.integers(0, 10_000))
def test_two_queries_have_one_key_exactly_where_they_have_the_same_documents(
    sizes: list[int], seed: int
) -> None:
    data = dataset(sizes, seed, num_features=2)
    documents = [
        sorted(zip(data.features[rows].view(np.uint32).tolist(), data.labels[rows].tolist(), strict=True))
        for rows in map(slice, data.query_start[:-1], data.query_start[1:])
    ]
    bits = data.features.view(np.uint32)
    identified = [
        bool((bits[rows] != bits[rows.start]).any())
        for rows in map(slice, data.query_start[:-1], data.query_start[1:])
    ]
    content = [
        repr(of_query) if distinct else f"{of_query} of {query_id}"
        for of_query, distinct, query_id in zip(documents, identified, data.query_ids, strict=True)
    ]
    pairs = set(zip(data.query_keys.tolist(), content, strict=True))
    assert len(pairs) == len(set(content)) == len(set(data.query_keys.tolist()))


def test_keys_are_the_same_on_every_machine() -> None:
    """The formula uses integers only, so that no machine rounds."""
    data = dataset([3, 1, 2])
    expected = [
        "".join(f"{by_formula(data, query, seed):016x}" for seed in _SEEDS)
        for query in range(data.num_queries)
    ]
    assert data.query_keys.tolist() == expected
