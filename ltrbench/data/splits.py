"""Training, validation and test sets: split by query, from a seed, with a check against leakage."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.dataset import RankingDataset
from ltrbench.data.features import FeatureMatrix, read_rows, require_memory
from ltrbench.errors import DataError
from ltrbench.shapes import Features, Labels


@dataclass(frozen=True)
class Splits:
    """Training, validation (optional) and test sets of a run.

    Training weights are scaled to a mean of 1 over queries before any backend receives them. A minimum sum of
    hessians, or a regularisation strength, then has the same effect in every unit of weight.

    Raises:
        DataError: The splits differ in their number of features, or share a query.
    """

    train: RankingDataset
    valid: RankingDataset | None
    test: RankingDataset

    def __post_init__(self) -> None:
        for name, split in self:
            if split.num_features != self.train.num_features:
                raise DataError(
                    f"{name} has {split.num_features} features, but train has {self.train.num_features}; all "
                    "splits must have the same features."
                )
        _check_no_leak(self)
        object.__setattr__(self, "train", self.train.with_mean_weight_one())

    def in_memory(self) -> Splits:
        """Returns the splits with the features of each as one array; self if they are arrays already.

        Raises:
            DataError: The arrays do not fit into the available memory together.
        """
        matrices = {name: split for name, split in self if isinstance(split.features, FeatureMatrix)}
        if not matrices:
            return self
        num_documents = sum(split.num_documents for split in matrices.values())
        require_memory(
            f"{', '.join(matrices)}: the features of {num_documents} documents with "
            f"{self.train.num_features} features",
            sum(split.features.nbytes for split in matrices.values()),
        )
        # A copy, because these splits have been checked.
        splits = copy.copy(self)
        for name, split in matrices.items():
            object.__setattr__(splits, name, split.in_memory())
        return splits

    def __iter__(self) -> Iterator[tuple[str, RankingDataset]]:
        """Yields the name and the data of each existing split, in the order train, valid, test."""
        yield "train", self.train
        if self.valid is not None:
            yield "valid", self.valid
        yield "test", self.test


def split_queries(
    dataset: RankingDataset, share: float, seed: int, name: str
) -> tuple[RankingDataset, RankingDataset]:
    """Holds out a share of the queries: returns (remaining queries, held-out queries), in file order.

    Queries with identical judged lists stay together and count once.

    Args:
        share: share of the queries to hold out, above 0 and below 1; rounded to whole queries, at least one
            on each side.
        seed: random seed of the split.
        name: name of the held-out split in messages, "valid" or "test".

    Raises:
        DataError: The share or the seed is out of range, or there are fewer than two queries.
    """
    if not 0.0 < share < 1.0:
        raise DataError(
            f"data.{name}_share is {share}; set a share of the queries above 0 and below 1, such as 0.2."
        )
    _check_seed(seed)
    shuffled = _shuffled_lists(dataset, seed)
    if len(shuffled) < 2:
        remedy = ", or set data.valid_share=0 for a run without validation" if name == "valid" else ""
        raise DataError(
            f"{_counted(dataset, shuffled)} cannot be split in two; provide data.{name}, or more "
            f"queries{remedy}."
        )
    num_taken = min(max(round(share * len(shuffled)), 1), len(shuffled) - 1)
    taken, rest = (np.sort(np.concatenate(part)) for part in (shuffled[:num_taken], shuffled[num_taken:]))
    return dataset.take_queries(rest), dataset.take_queries(taken)


def folds(dataset: RankingDataset, num_folds: int, seed: int) -> list[NDArray[np.int64]]:
    """Partitions the queries into cross-validation folds whose sizes differ by at most one.

    Queries with identical judged lists are in the same fold and count once.

    Returns:
        Query indices of each fold, in file order.

    Raises:
        DataError: Fewer than two folds, fewer queries than folds, or a negative seed.
    """
    _check_seed(seed)
    if num_folds < 2:
        raise DataError(f"cv is {num_folds}; cross-validation needs at least 2 folds.")
    shuffled = _shuffled_lists(dataset, seed)
    if num_folds > len(shuffled):
        raise DataError(
            f"cv is {num_folds}, but there are only {_counted(dataset, shuffled)}, and every fold needs at "
            "least one query; set a smaller cv."
        )
    return [np.sort(np.concatenate(shuffled[number::num_folds])) for number in range(num_folds)]


def take_fold(
    dataset: RankingDataset, fold: int, num_folds: int, seed: int
) -> tuple[RankingDataset, RankingDataset]:
    """Returns (queries of the other folds, queries of `fold`), in file order; folds are numbered from one.

    Raises:
        DataError: The fold does not exist, or there are too few queries for `num_folds` folds.
    """
    if not 1 <= fold <= num_folds:
        raise DataError(
            f"data.fold is {fold}, but cv={num_folds} has folds 1 to {num_folds}; choose one of them."
        )
    taken = folds(dataset, num_folds, seed)[fold - 1]
    rest = np.setdiff1d(np.arange(dataset.num_queries), taken)
    return dataset.take_queries(rest), dataset.take_queries(taken)


def sample_queries(dataset: RankingDataset, share: float, seed: int) -> RankingDataset:
    """Returns a random share of the queries, in file order; a larger share contains every smaller one.

    Args:
        share: above 0, at most 1; rounded to whole queries, at least one.

    Raises:
        DataError: The share or the seed is out of range.
    """
    _check_seed(seed)
    if not 0.0 < share <= 1.0:
        raise DataError(f"data.subset is {share}; set a share of the training queries above 0 and at most 1.")
    if share == 1.0:
        return dataset
    num_kept = max(round(share * dataset.num_queries), 1)
    shuffled = np.random.default_rng(seed).permutation(dataset.num_queries)
    return dataset.take_queries(np.sort(shuffled[:num_kept]))


def _shuffled_lists(dataset: RankingDataset, seed: int) -> list[NDArray[np.int64]]:
    """Returns the shuffled queries, with identical judged lists grouped: across splits they would leak."""
    queries_of_list: dict[bytes | int, list[int]] = {}
    for query in np.random.default_rng(seed).permutation(dataset.num_queries).tolist():
        queries_of_list.setdefault(_judged_list(dataset, query) or query, []).append(query)
    return [np.array(queries, dtype=np.int64) for queries in queries_of_list.values()]


def _counted(dataset: RankingDataset, lists: list[NDArray[np.int64]]) -> str:
    queries = f"{dataset.num_queries} {'query' if dataset.num_queries == 1 else 'queries'}"
    alike = f" with {len(lists)} different judged lists" if len(lists) < dataset.num_queries else ""
    return queries + alike


def _check_seed(seed: int) -> None:
    if seed < 0:
        raise DataError(f"data.split_seed is {seed}; set a whole number of 0 or more.")


def _check_no_leak(splits: Splits) -> None:
    """Raises DataError if a query is in two splits, under the same id or under different ids."""
    seen: dict[bytes, tuple[str, str]] = {}
    for name, split in splits:
        for query, query_id in enumerate(split.query_ids.tolist()):
            for key in _marks(split, query, query_id):
                where, other_id = seen.setdefault(key, (name, query_id))
                if where != name:
                    alias = "" if other_id == query_id else f" as {other_id}"
                    raise DataError(
                        f"query {query_id} is in {where}{alias} and in {name}, with the same documents: "
                        f"{name} would leak into {where}. Remove the query from one of the two files."
                    )


def _marks(split: RankingDataset, query: int, query_id: str) -> Iterator[bytes]:
    """Yields the keys that identify a query. Its id alone does not: each file may number queries from 1."""
    features, labels = _documents_of(split, query)
    digest = hashlib.blake2b(features.data, digest_size=16)
    yield query_id.encode() + b"\0" + digest.digest()
    if _identify_their_query(features):
        digest.update(labels.data)
        yield digest.digest()


def _judged_list(split: RankingDataset, query: int) -> bytes | None:
    """Returns a digest of a query's features and labels; None if they do not identify the query."""
    features, labels = _documents_of(split, query)
    if not _identify_their_query(features):
        return None
    digest = hashlib.blake2b(features.data, digest_size=16)
    digest.update(labels.data)
    return digest.digest()


def _documents_of(split: RankingDataset, query: int) -> tuple[Features, Labels]:
    """Returns the features and the labels of a query's documents."""
    start, stop = split.query_start[query : query + 2].tolist()
    return read_rows(split.features, start, stop), split.labels[start:stop]


def _identify_their_query(features: Features) -> bool:
    # Different queries may share one document, or several with equal features, but rarely a whole judged
    # list.
    bits = features.view(np.uint32)  # so that NaN equals NaN
    return bool((bits != bits[0]).any())
