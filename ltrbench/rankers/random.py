"""Random scores, the lower baseline. A backend that is not better than random has a bug."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.dataset import splitmix
from ltrbench.data.features import SparseRows, csr_of, row_blocks
from ltrbench.rankers.base import (
    NO_DEBIASING,
    Debiasing,
    Ranker,
    check_blocks,
    check_fitted,
    read_model_json,
)
from ltrbench.shapes import Features

_FILE = "random.json"

_ROWS = 4096
"""Number of sparse rows that are scored at a time."""


@dataclass(kw_only=True)
class RandomRanker(Ranker):
    """Scores each document by a pseudo-random function of its features and the seed.

    The score therefore does not depend on the batch, and documents with equal features have equal scores.
    """

    is_yardstick: ClassVar[bool] = True
    debiasing: ClassVar[Debiasing] = {NO_DEBIASING: {}}
    reads_blocks: ClassVar[bool] = True
    reads_categories: ClassVar[bool] = True  # as values without order

    def __post_init__(self) -> None:
        super().__post_init__()
        self._num_features: int | None = None

    def fit(self, train: RankingDataset, *_: object, **__: object) -> Self:
        self._num_features = train.num_features
        return self

    def predict(self, features: Features) -> NDArray[np.float64]:
        given = check_blocks(features, check_fitted(self._num_features))
        num_features = given.shape[1]
        rng = np.random.default_rng(self.seed)
        numbers = rng.integers(0, 2**63, num_features, dtype=np.uint64)
        factors: NDArray[np.uint64] = np.asarray(numbers * 2 + 1)  # odd
        if (sparse := csr_of(given)) is not None:
            return _scores(_sums_of_stored(sparse, factors))
        sums = [np.zeros(0, dtype=np.uint64)]
        for _, block in row_blocks(given):
            sums.append(_hashed(block, factors).sum(axis=1, dtype=np.uint64))
        return _scores(np.concatenate(sums))

    def importance(self) -> dict[str, NDArray[np.float64]]:
        """Returns 0 splits for every feature: its permutation importance would be noise, and is not computed.

        A derived class with another `predict` has no kinds, because its features may matter.
        """
        if type(self).predict is not RandomRanker.predict:
            return {}
        return {"split": np.zeros(check_fitted(self._num_features))}

    def save(self, folder: Path) -> None:
        content = {"seed": self.seed, "num_features": check_fitted(self._num_features)}
        (folder / _FILE).write_text(json.dumps(content) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Self:
        content = read_model_json(folder / _FILE, {"seed": int, "num_features": int})
        ranker = cls(seed=content["seed"])
        ranker._num_features = content["num_features"]
        return ranker


def _hashed(
    values: NDArray[np.float32], factors: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Returns the hash of each value, 0 for a value of 0. A score is a function of the sum of a document."""
    # Adding 0 turns -0.0 into 0.0, so that equal features have equal bits.
    bits = (values + np.float32(0)).view(np.uint32)
    return splitmix(bits.astype(np.uint64) * factors)


def _sums_of_stored(
    sparse: SparseRows, factors: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Returns the (D,) sums of the hashes of all features, from the stored values alone."""
    absent = np.full(len(factors), sparse.absent, dtype=np.float32)
    of_absent = _hashed(absent, factors)
    sums = np.full(len(sparse), of_absent.sum(dtype=np.uint64))
    for first in range(0, len(sparse), _ROWS):
        part = sparse.take(slice(first, first + _ROWS))
        stored = _hashed(part.values, factors[part.columns])
        more = stored - of_absent[part.columns]
        nothing = np.zeros(1, dtype=np.uint64)
        before = np.concatenate([nothing, np.cumsum(more, dtype=np.uint64)])
        sums[first : first + _ROWS] += np.diff(before[part.row_start])
    return sums


def _scores(sums: NDArray[np.uint64]) -> NDArray[np.float64]:
    # The upper 53 bits fill the mantissa of a float64: uniform on [0, 1).
    upper = splitmix(sums) >> np.uint64(11)
    return upper.astype(np.float64) * 2.0**-53
