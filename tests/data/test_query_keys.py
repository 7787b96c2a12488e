"""Query keys: queries with the same documents have the same key, whatever their ids and order."""

from __future__ import annotations

import numpy as np

from ltrbench.data import RankingDataset
from ltrbench.data.dataset import _SEEDS, _STEP


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


def test_keys_are_the_same_on_every_machine() -> None:
    """The formula uses integers only, so that no machine rounds."""
    rng = np.random.default_rng(0)
    data = RankingDataset(
        features=rng.choice(np.array([0, 0.5, 1, np.nan], np.float32), (6, 3)),
        labels=rng.integers(0, 3, 6).astype(np.float64),
        query_start=np.array([0, 3, 4, 6]),
    )
    expected = [
        "".join(f"{by_formula(data, query, seed):016x}" for seed in _SEEDS)
        for query in range(data.num_queries)
    ]
    assert data.query_keys.tolist() == expected
