"""Train, validation and test: made by query, from a seed, and checked never to leak into each other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.dataset import RankingDataset
from ltrbench.errors import DataError


@dataclass(frozen=True)
class Splits:
    """What a run trains on, stops by, and is judged on.

    The weights of train are scaled so that the mean over its queries is 1, before any backend sees them: a
    bound on a sum of hessians, or a regularisation, then means the same whatever unit the weights are in.

    Raises:
        DataError: where the splits differ in their features, or a query of one stands in another as well.
    """

    train: RankingDataset
    valid: RankingDataset | None
    test: RankingDataset

    def __post_init__(self) -> None:
        for name, split in self:
            if split.num_features != self.train.num_features:
                raise DataError(
                    f"{name} has {split.num_features} features, train has {self.train.num_features}; "
                    "the splits must describe documents alike."
                )
        _check_no_leak(self)
        object.__setattr__(self, "train", self.train.with_mean_weight_one())

    def __iter__(self) -> Iterator[tuple[str, RankingDataset]]:
        """The splits that are there, with their names, in the order train, valid, test."""
        yield "train", self.train
        if self.valid is not None:
            yield "valid", self.valid
        yield "test", self.test


def split_queries(
    dataset: RankingDataset, share: float, seed: int, name: str
) -> tuple[RankingDataset, RankingDataset]:
    """Takes a share of the queries out: (the rest, what was taken), each in the order of the file.

    Queries with the same judged list go to the same side; a share counts such a list once.

    Args:
        share: of the queries, more than 0 and less than 1; rounded to whole queries, at least one on each
            side.
        seed: the same seed takes the same queries.
        name: what the part is for, for messages: "valid" or "test".

    Raises:
        DataError: where the share or the seed is out of range or there are fewer than two queries.
    """
    if not 0.0 < share < 1.0:
        raise DataError(f"data.{name}_share is {share}; it is a share of the queries, above 0 and below 1.")
    _check_seed(seed)
    shuffled = _shuffled_lists(dataset, seed)
    if len(shuffled) < 2:
        remedy = "; or set data.valid_share=0 to go without" if name == "valid" else ""
        raise DataError(
            f"{_counted(dataset, shuffled)} cannot be split in two: data.{name} must be given, or more "
            f"queries{remedy}."
        )
    num_taken = min(max(round(share * len(shuffled)), 1), len(shuffled) - 1)
    taken, rest = (np.sort(np.concatenate(part)) for part in (shuffled[:num_taken], shuffled[num_taken:]))
    return dataset.take_queries(rest), dataset.take_queries(taken)


def folds(dataset: RankingDataset, num_folds: int, seed: int) -> list[NDArray[np.int64]]:
    """Deals the queries into folds of sizes that differ by one at most: every query is in exactly one.

    Queries with the same judged list go into the same fold, and count once.

    Returns:
        The numbers of each fold's queries, in the order of the file.

    Raises:
        DataError: where there are fewer than two folds, fewer queries than folds, or the seed is negative.
    """
    _check_seed(seed)
    if num_folds < 2:
        raise DataError(f"cv is {num_folds}; cross-validation needs at least 2 folds.")
    shuffled = _shuffled_lists(dataset, seed)
    if num_folds > len(shuffled):
        raise DataError(
            f"cv is {num_folds}, but there are only {_counted(dataset, shuffled)}, and a fold without a "
            "query tests nothing; set a smaller cv."
        )
    return [np.sort(np.concatenate(shuffled[number::num_folds])) for number in range(num_folds)]


def take_fold(
    dataset: RankingDataset, fold: int, num_folds: int, seed: int
) -> tuple[RankingDataset, RankingDataset]:
    """(the queries of the other folds, those of `fold`, counted from one), each in the order of the file.

    Raises:
        DataError: where the fold does not exist, or the data cannot be dealt into so many.
    """
    if not 1 <= fold <= num_folds:
        raise DataError(
            f"data.fold is {fold}, but cv={num_folds} has the folds 1 to {num_folds}; choose one."
        )
    taken = folds(dataset, num_folds, seed)[fold - 1]
    rest = np.setdiff1d(np.arange(dataset.num_queries), taken)
    return dataset.take_queries(rest), dataset.take_queries(taken)


def sample_queries(dataset: RankingDataset, share: float, seed: int) -> RankingDataset:
    """A share of the queries, in the order of the file; a larger share holds the smaller one's queries.

    Args:
        share: more than 0, at most 1; rounded to whole queries, at least one.

    Raises:
        DataError: where the share or the seed is out of range.
    """
    _check_seed(seed)
    if not 0.0 < share <= 1.0:
        raise DataError(
            f"data.subset is {share}; it is a share of the training queries, above 0 and at most 1."
        )
    if share == 1.0:
        return dataset
    num_kept = max(round(share * dataset.num_queries), 1)
    shuffled = np.random.default_rng(seed).permutation(dataset.num_queries)
    return dataset.take_queries(np.sort(shuffled[:num_kept]))


def _shuffled_lists(dataset: RankingDataset, seed: int) -> list[NDArray[np.int64]]:
    """The queries shuffled, those with the same judged list together: on two sides they would be a leak."""
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
        raise DataError(f"data.split_seed is {seed}; a seed is a whole number of 0 or more.")


def _check_no_leak(splits: Splits) -> None:
    """Refuses a query that stands in two splits, under its own id or under another one."""
    seen: dict[bytes, tuple[str, str]] = {}
    for name, split in splits:
        for query, query_id in enumerate(split.query_ids.tolist()):
            for key in _marks(split, query, query_id):
                where, other_id = seen.setdefault(key, (name, query_id))
                if where != name:
                    alias = "" if other_id == query_id else f" as {other_id}"
                    raise DataError(
                        f"query {query_id} stands in {where}{alias} and in {name}, with the same documents: "
                        f"{name} would leak into {where}. Give files that share no query."
                    )


def _marks(split: RankingDataset, query: int, query_id: str) -> Iterator[bytes]:
    """What tells a query. Its id alone does not, because files may number their queries anew."""
    rows = slice(split.query_start[query], split.query_start[query + 1])
    yield query_id.encode() + b"\0" + hashlib.blake2b(split.features[rows].data, digest_size=16).digest()
    judged_list = _judged_list(split, query)
    if judged_list is not None:
        yield judged_list


def _judged_list(split: RankingDataset, query: int) -> bytes | None:
    """A digest of a query's features and labels; None where they do not tell one query from another."""
    rows = slice(split.query_start[query], split.query_start[query + 1])
    # Queries may well share a document, or several that all look alike, but hardly a whole judged list.
    bits = split.features[rows].view(np.uint32)  # so that a missing value equals itself
    if not (bits != bits[0]).any():
        return None
    digest = hashlib.blake2b(split.features[rows].data, digest_size=16)
    digest.update(split.labels[rows].data)
    return digest.digest()
