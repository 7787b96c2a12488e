"""Resamples of the training queries: a sweep trains every model on each, to measure training variance.

A resample is drawn by query from a seed and the resample's index, so that every backend trains on the same
queries. It replaces the training set after the data are read; validation and test sets stay whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.dataset import RankingDataset
from ltrbench.errors import ConfigError, did_you_mean

BOOTSTRAP, SUBSAMPLE = "bootstrap", "subsample"
KINDS = (BOOTSTRAP, SUBSAMPLE)


@dataclass(frozen=True, kw_only=True)
class TrainingResample:
    """One of `number` training sets, each drawn from all training queries.

    Args:
        number: number of resamples; at least 2.
        index: index of this resample, from one.
        kind: "bootstrap", as many queries as the training set, drawn with replacement (Efron, 1979); or
            "subsample", a share of the queries, drawn without replacement.
        share: share of the queries in a subsample; a bootstrap ignores it.
        seed: random seed of the draw; resample i does not depend on `number`.

    Raises:
        ConfigError: A value is out of range.
    """

    number: int
    index: int
    kind: str = BOOTSTRAP
    share: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.number < 2:
            raise ConfigError(
                f"replicates.number is {self.number}; set at least 2 resamples, or replicates=null to train "
                "once on all training queries."
            )
        if not 1 <= self.index <= self.number:
            raise ConfigError(
                f"replicates.index is {self.index}, but the {self.number} resamples are numbered 1 to "
                f"{self.number}; choose one, or remove the setting and add -m to run all of them."
            )
        if self.kind not in KINDS:
            raise ConfigError(
                f"replicates.kind is '{self.kind}'{did_you_mean(self.kind, KINDS)} It must be one of "
                f"{', '.join(KINDS)}."
            )
        if self.kind == SUBSAMPLE and not 0.0 < self.share < 1.0:
            raise ConfigError(
                f"replicates.share is {self.share}; set a share of the training queries above 0 and below 1, "
                "such as replicates.share=0.5."
            )
        if self.seed < 0:
            raise ConfigError(f"replicates.seed is {self.seed}; set a whole number of 0 or more.")

    def describe(self) -> dict[str, Any]:
        """Returns the settings of this resample, as a result records them; the share of a bootstrap is 1."""
        share = self.share if self.kind == SUBSAMPLE else 1.0
        return {
            "kind": self.kind,
            "share": share,
            "number": self.number,
            "index": self.index,
            "seed": self.seed,
        }

    def seed_of_ranker(self, seed: int) -> int:
        """Returns the seed of the fit on this resample, so that the model's randomness varies as well."""
        return seed + self.index - 1

    def of(self, train: RankingDataset) -> RankingDataset:
        """Returns the resampled training set, its queries in file order.

        A query drawn k times occurs k times, with distinct ids such as "12", "12#2", "12#3".
        """
        queries = self._draw(train.num_queries)
        return train.take_queries(queries, _distinct_ids(train.query_ids, queries))

    def num_documents(self, train: RankingDataset) -> int:
        """Returns the number of documents in the resample of a training set."""
        return int(train.query_sizes[self._draw(train.num_queries)].sum())

    def _draw(self, num_queries: int) -> NDArray[np.int64]:
        """Returns the (n,) drawn query indices, ascending; a bootstrap has repeats."""
        rng = np.random.default_rng([self.seed, self.index])
        if self.kind == BOOTSTRAP:
            return np.sort(rng.integers(0, num_queries, num_queries))
        num_drawn = max(round(self.share * num_queries), 1)
        return np.sort(rng.permutation(num_queries)[:num_drawn])


def _distinct_ids(query_ids: NDArray[np.str_], queries: NDArray[np.int64]) -> NDArray[np.str_]:
    """Returns the (n,) ids of the drawn queries: the original id for the first copy, id#2 for the second, ...

    Args:
        query_ids: (Q,), ids of the whole training set.
        queries: (n,) ascending, with repeats.
    """
    copies = np.arange(len(queries)) - np.searchsorted(queries, queries) + 1
    repeated = np.flatnonzero(copies > 1)
    ids: list[str] = query_ids[queries].tolist()
    known, mark = set(query_ids.tolist()), "#"
    # The mark is lengthened until no id of the file looks like the id of a copy.
    while any(f"{ids[place]}{mark}{copies[place]}" in known for place in repeated):
        mark += "#"
    for place in repeated:
        ids[place] = f"{ids[place]}{mark}{copies[place]}"
    return np.array(ids, dtype=np.str_)
