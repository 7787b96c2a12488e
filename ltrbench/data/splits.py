"""Training, validation and test sets: split by query, from a seed or by time, with a check against leakage.

Queries with identical judged lists are never separated, nor are the queries of one group, such as
near-duplicates.
"""

from __future__ import annotations

import copy
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.dataset import (
    QueryKeys,
    RankingDataset,
    check_same_features,
    content_keys,
    joined,
)
from ltrbench.errors import DataError, require, require_choice
from ltrbench.shapes import Indices

if TYPE_CHECKING:
    from scipy.sparse import csr_array

log = logging.getLogger("ltrbench")

_MAX_SHARED = 10
"""Maximum number of queries with a document that is evidence of near-duplicates: more are common documents,
such as rows of zeros."""


@dataclass(frozen=True)
class Splits:
    """Training, validation (optional) and test sets of a run.

    Training weights are scaled to a mean of 1 over queries before any backend receives them. A minimum sum of
    hessians, or a regularisation strength, then has the same effect in every unit of weight.

    Attributes:
        rule: how the queries were split, in words; empty if it is not known.
        spans: split -> first and last time of its queries, as text; empty without times.
        num_in_gaps: number of queries left out because they are in a gap between splits.
        notes: sentences about splits that are not as large as they were asked to be.
        facts: what the source knows about its data, for the record of a run; JSON values.
        reading: options with which the files were read, if the settings of the run do not have them.

    Raises:
        DataError: The splits differ in their features, or share a query.
    """

    train: RankingDataset
    valid: RankingDataset | None
    test: RankingDataset
    rule: str = field(default="", kw_only=True)
    spans: Mapping[str, tuple[str, str]] = field(default_factory=dict, kw_only=True)
    num_in_gaps: int = field(default=0, kw_only=True)
    notes: Sequence[str] = field(default=(), kw_only=True)
    facts: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    reading: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    # Of train as it was given.
    _mean_weight: float = field(init=False, repr=False, default=1.0)

    def __post_init__(self) -> None:
        for name, split in self:
            check_same_features(name, split, self.train)
        _check_no_leak(self)
        weights = self.train.query_weights
        object.__setattr__(
            self, "_mean_weight", 1.0 if weights is None else weights.mean()
        )
        object.__setattr__(self, "train", self.train.with_mean_weight_one())

    @property
    def digests(self) -> dict[str, str]:
        """Split -> its fingerprint, and "SPLIT.names" -> digest of its feature names and document ids."""
        digests = {}
        for name, split in self:
            digests[name] = split.fingerprint
            digests[f"{name}.names"] = split.digest_of_names
        return digests

    def whole(self) -> Splits:
        """Returns all labelled queries as the training set, for a final model; without a validation set.

        The test set is the same data set: the saved model is checked on it, and it gives no metric. A split
        whose labels are all 0 is not judged, and left out. If ids repeat between splits, those of valid and
        test get the name of their split, as in "12#test". Kept columns that a split lacks are left out.
        """
        judged = {name: split for name, split in self if split.labels.any()}
        parts = {"train": self.train, **judged}
        if self.train.query_weights is not None:
            weights = self.train.weight_of_document * self._mean_weight
            parts["train"] = self.train.with_fields(document_weights=weights)
        ids = np.concatenate([split.query_ids for split in parts.values()])
        if len(np.unique(ids)) < len(ids):
            for name, split in [*parts.items()][1:]:
                ids_of_split = np.char.add(split.query_ids, f"#{name}")
                parts[name] = split.with_fields(query_ids=ids_of_split)
        every = joined([*parts.values()]).with_mean_weight_one()
        return self._replaced(train=every, valid=None, test=every, rule="", spans={})

    def in_memory(self, keep_sparse: bool = False) -> Splits:
        """Returns the splits with the features of each as one array; self if they are arrays already.

        Args:
            keep_sparse: whether sparse features stay sparse.

        Raises:
            DataError: An array does not fit into the available memory.
        """
        in_memory = {name: split.in_memory(keep_sparse) for name, split in self}
        if all(in_memory[name] is split for name, split in self):
            return self
        return self._replaced(**in_memory)

    def with_train(self, train: RankingDataset) -> Splits:
        """Returns the splits with other lists of the same training queries, whose mean weight becomes 1."""
        return self._replaced(train=train.with_mean_weight_one())

    def _replaced(self, **changes: Any) -> Splits:
        # A copy, because these splits have been checked.
        splits = copy.copy(self)
        for name, value in changes.items():
            object.__setattr__(splits, name, value)
        return splits

    def __iter__(self) -> Iterator[tuple[str, RankingDataset]]:
        """Yields the name and the data of each existing split, in the order train, valid, test."""
        yield "train", self.train
        if self.valid is not None:
            yield "valid", self.valid
        yield "test", self.test


def split_queries(
    dataset: RankingDataset,
    share: float,
    seed: int,
    name: str,
    groups: Mapping[str, str] | None = None,
) -> tuple[RankingDataset, RankingDataset]:
    """Holds out a share of the queries: returns (remaining queries, held-out queries), in file order.

    Queries with identical judged lists stay together and count once; near-duplicates stay together. With
    groups, whole groups are held out, with a number of queries close to the share.

    Args:
        share: share of the queries to hold out, above 0 and below 1; rounded to whole queries, at least one
            on each side.
        seed: random seed of the split.
        name: name of the held-out split in messages, "valid" or "test".
        groups: query id -> group, for groups of queries that stay together; None: no groups.

    Raises:
        DataError: The share or the seed is out of range, or there are fewer than two
            queries or groups.
    """
    _check_share(share, name)
    shuffled = _shuffled_units(dataset, seed, groups)
    if len(shuffled) < 2:
        raise DataError(
            f"{_counted(dataset, len(shuffled))} cannot be split; more are needed, or a {name} set of its "
            "own."
        )
    divide = partial(_in_two, share=share, is_grouped=groups is not None)
    taken, rest = _queries_of_parts(shuffled, divide)
    return dataset.take_queries(rest), dataset.take_queries(taken)


def _in_two(
    units: Sequence[Indices], share: float, is_grouped: bool
) -> list[Sequence[Indices]]:
    """Returns the units that are held out, and the others; for groups by the number of their queries."""
    if is_grouped:
        num_taken = _num_closest([len(queries) for queries in units], share)
    else:
        num_taken = max(round(share * len(units)), 1)
        num_taken = min(num_taken, len(units) - 1)
    return [units[:num_taken], units[num_taken:]]


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """The size of a split beside the size that was asked for.

    Queries of the same time or group stay together, so that the two may differ.

    Attributes:
        name: "valid" or "test".
        share: share of the queries that was asked for.
        num_held_out: number of queries held out, of `num_queries`.
        largest: what keeps most of them together, such as "the time 2026-03"; empty if it is not known.
        settings: settings of the source that name the columns of times and groups; empty without any.
    """

    name: str
    share: float
    num_held_out: int
    num_queries: int
    largest: str = ""
    settings: tuple[str, ...] = ()

    @property
    def real_share(self) -> float:
        return self.num_held_out / self.num_queries

    @property
    def in_words(self) -> str:
        """The share in per cent: the real one too if another number of queries would be closer."""
        asked = f"{100 * self.share:g} %"
        if self._off_by <= 1:
            return asked
        return f"{100 * self.real_share:.3g} % ({asked} asked for)"

    @property
    def _off_by(self) -> float:
        return abs(self.num_held_out - self.share * self.num_queries)

    @property
    def _reason(self) -> str:
        because = ""
        if self.largest:
            because = f" ({self.largest})"
        counted = f"{self.num_held_out} of {self.num_queries} queries"
        setting = f"data.{self.name}_share={self.share:g}"
        return (
            f"{self.name} has {100 * self.real_share:.3g} % of the queries, {counted}, and not "
            f"{100 * self.share:g} % ({setting}): queries of the same time or "
            f"group stay together{because}"
        )

    def check(self) -> None:
        """Raises DataError if the split has over twice or under half of the queries that were asked for."""
        is_near = self.share / 2 <= self.real_share <= 2 * self.share
        if not is_near and self._off_by > 1:
            remedy = "add queries of other groups"
            if self.settings:
                columns = " or ".join(self.settings)
                remedy = f"choose a column with more different values for {columns}"
            raise DataError(
                f"{self._reason}. Set data.{self.name}_share={self.real_share:.3g} to accept this, or "
                f"{remedy}."
            )

    def note(self) -> str | None:
        """Returns a sentence if the number of queries is off by more than a tenth and one query."""
        tenth = 0.1 * self.share * self.num_queries
        if self._off_by <= max(1.0, tenth):
            return None
        return f"{self._reason}."


def split_latest(
    dataset: RankingDataset,
    times: Mapping[str, Any],
    share: float,
    name: str,
    groups: Mapping[str, str] | None = None,
    *,
    gap: Any = None,
) -> tuple[RankingDataset, RankingDataset]:
    """Holds out the latest queries: returns (earlier queries, latest queries), in file order.

    Queries of the same time stay together, so that every held-out query is later than every remaining query.
    Queries with identical judged lists and queries of one group stay together as well, and all of them have
    the latest of their times.

    Args:
        times: query id -> time, in numbers or other values that can be compared.
        share: share of the queries to hold out, above 0 and below 1; the number of held-out queries is as
            close to it as the times permit.
        name: name of the held-out split in messages, "valid" or "test".
        groups: query id -> group, for groups of queries that stay together; None: no groups.
        gap: minimum time from a remaining query to the first held-out query, in the units of times; queries
            in between are left out of both. None: no gap.

    Raises:
        DataError: The share is out of range, all queries have the same time,
            or none remains before the gap.

    >>> data = RankingDataset(features=[[0], [1], [2]], labels=[0, 1, 1], query_start=[0, 1, 2, 3])
    >>> earlier, latest = split_latest(data, {"1": 2025, "2": 2026, "3": 2024}, 0.2, "test")
    >>> earlier.query_ids.tolist(), latest.query_ids.tolist()
    (['1', '3'], ['2'])
    """
    _check_share(share, name)
    time_of_query = _times_of_units(dataset, times, groups)
    latest_first = sorted(Counter(time_of_query).items(), reverse=True)
    if len(latest_first) < 2:
        raise DataError(
            f"data.split_by: the {dataset.num_queries} queries, all of the time {time_of_query[0]}, cannot "
            f"be split by time for {name}. Choose a column with several times, or remove data.split_by."
        )
    num_times = _num_closest([num_queries for _, num_queries in latest_first], share)
    begin, _ = latest_first[num_times - 1]
    return _divided(dataset, time_of_query, _Period(begin=begin, gap=gap), name)


def take_window(
    dataset: RankingDataset,
    times: Mapping[str, Any],
    fold: int,
    num_folds: int,
    groups: Mapping[str, str] | None = None,
    *,
    gap: Any = None,
) -> tuple[RankingDataset, RankingDataset]:
    """Returns (queries before window `fold`, queries of the window), in file order: rolling origins.

    The queries in order of time are num_folds + 1 parts of about equal size. The first part is never tested;
    each other part is a window, and windows are numbered from one. Later queries are in neither set.

    Args:
        times, groups, gap: as for `split_latest`.

    Raises:
        DataError: There are too few different times, or no query remains
            before the gap.

    >>> data = RankingDataset(features=[[0], [1], [2]], labels=[0, 1, 1], query_start=[0, 1, 2, 3])
    >>> before, window = take_window(data, {"1": 2025, "2": 2026, "3": 2024}, 1, num_folds=2)
    >>> before.query_ids.tolist(), window.query_ids.tolist()
    (['3'], ['1'])
    """
    time_of_query = _times_of_units(dataset, times, groups)
    in_order = sorted(Counter(time_of_query).items())
    starts: list[int] = []
    if len(in_order) > 1:
        sizes = [num_queries for _, num_queries in in_order]
        parts = range(1, num_folds + 1)
        starts = [_num_closest(sizes, part / (num_folds + 1)) for part in parts]
    if len(set(starts)) < num_folds:
        raise DataError(
            f"cv={num_folds} cv_split=forward: {len(in_order)} different times of {dataset.num_queries} "
            f"queries do not give {num_folds + 1} parts. Set a smaller cv, or choose another data.split_by."
        )
    begin, _ = in_order[starts[fold - 1]]
    end = None
    if fold < num_folds:
        end, _ = in_order[starts[fold]]
    window = _Period(begin=begin, end=end, gap=gap)
    return _divided(dataset, time_of_query, window, "test")


def _times_of_units(
    dataset: RankingDataset,
    times: Mapping[str, Any],
    groups: Mapping[str, str] | None,
) -> list[Any]:
    """Returns the (Q,) times of the queries; queries that stay together have the latest of their times."""
    time_of_query = [times[query_id] for query_id in dataset.query_ids.tolist()]
    unit_of_query = _units(dataset, groups).tolist()
    time_of_unit: dict[int, Any] = {}
    for unit, time in zip(unit_of_query, time_of_query, strict=True):
        time_of_unit[unit] = max(time, time_of_unit.get(unit, time))
    return [time_of_unit[unit] for unit in unit_of_query]


@dataclass(frozen=True, kw_only=True)
class _Period:
    """Times of a held-out split.

    Attributes:
        begin: first time of the split.
        end: first time after the split; None: the split has all later times.
        gap: minimum time from a remaining query to `begin`; None: no gap.
    """

    begin: Any
    end: Any = None
    gap: Any = None

    def contains(self, time: Any) -> bool:
        """Returns whether a query of this time is in the split."""
        if self.end is not None and time >= self.end:
            return False
        return bool(self.begin <= time)

    def is_after(self, time: Any) -> bool:
        """Returns whether a query of this time remains: it is before the split and the gap."""
        is_before = bool(time < self.begin)
        if self.gap is None or not is_before:
            return is_before
        return bool(time <= self.begin - self.gap)


def _divided(
    dataset: RankingDataset, time_of_query: Sequence[Any], period: _Period, name: str
) -> tuple[RankingDataset, RankingDataset]:
    """Returns the queries before a period and its gap, and the queries of the period."""
    is_rest = [period.is_after(time) for time in time_of_query]
    is_taken = [period.contains(time) for time in time_of_query]
    if not any(is_rest):
        raise DataError(
            f"data.gap: no query is that long before {name} begins, {period.begin}; set a smaller gap."
        )
    rest = dataset.take_queries(np.flatnonzero(is_rest))
    return rest, dataset.take_queries(np.flatnonzero(is_taken))


def folds(
    dataset: RankingDataset,
    num_folds: int,
    seed: int,
    groups: Mapping[str, str] | None = None,
) -> list[Indices]:
    """Partitions the queries into cross-validation folds, none of which is empty.

    Queries with identical judged lists are in the same fold and count once; near-duplicates are in the same
    fold. If there are none of both, the sizes differ by at most one. With groups, the sizes are as equal as
    whole groups permit.

    Args:
        groups: query id -> group, for groups of queries that stay together; None: no groups.

    Returns:
        Query indices of each fold, in file order.

    Raises:
        DataError: Fewer than two folds, fewer queries or groups than folds, or a negative seed.
    """
    require("cv", num_folds, at_least=2)
    shuffled = _shuffled_units(dataset, seed, groups)
    num_units = sum(unit.size > 0 for unit in shuffled)
    if num_folds > num_units:
        raise DataError(
            f"cv is {num_folds} for {_counted(dataset, num_units)}; set a smaller cv."
        )
    deal = _deal_in_turn if groups is None else _deal_largest_first
    return _queries_of_parts(shuffled, partial(deal, num_folds=num_folds))


def take_fold(
    dataset: RankingDataset,
    fold: int,
    num_folds: int,
    seed: int,
    groups: Mapping[str, str] | None = None,
) -> tuple[RankingDataset, RankingDataset]:
    """Returns (queries of the other folds, queries of `fold`), in file order; folds are numbered from one.

    Raises:
        DataError: There are too few queries or groups for `num_folds` folds.
    """
    taken = folds(dataset, num_folds, seed, groups)[fold - 1]
    rest = np.setdiff1d(np.arange(dataset.num_queries), taken)
    return dataset.take_queries(rest), dataset.take_queries(taken)


def sample_queries(dataset: RankingDataset, share: float, seed: int) -> RankingDataset:
    """Returns a random share of the queries, in file order; a larger share contains every smaller one.

    Args:
        share: above 0, at most 1; rounded to whole queries, at least one.

    Raises:
        DataError: The share or the seed is out of range.
    """
    require("data.subset", share, above=0, at_most=1)
    require("data.split_seed", seed, at_least=0)
    if share == 1.0:
        return dataset
    num_kept = max(round(share * dataset.num_queries), 1)
    shuffled = np.random.default_rng(seed).permutation(dataset.num_queries)
    return dataset.take_queries(np.sort(shuffled[:num_kept]))


def check_no_shared_group(groups: Mapping[str, Mapping[str, str] | None]) -> None:
    """Raises DataError if two splits have queries of the same group.

    Args:
        groups: name of the split -> query id -> group; None: no groups.
    """
    seen: dict[str, tuple[str, str]] = {}
    for name, groups_of_split in groups.items():
        for query_id, group in (groups_of_split or {}).items():
            where, other_id = seen.setdefault(group, (name, query_id))
            if where != name:
                raise DataError(
                    f"data.group_by: group {group!r} has query {other_id} in {where} and query {query_id} in "
                    f"{name}; near-duplicates in two splits leak. Move all queries of the group to one file."
                )


def _shuffled_units(
    dataset: RankingDataset, seed: int, groups: Mapping[str, str] | None
) -> list[Indices]:
    """Returns the shuffled queries, with queries that stay together in one array.

    Near-duplicates are in the array of the first of them. The arrays of the others are empty, unless there
    are groups or more than a tenth are empty, so that all other queries are split as if there were no
    near-duplicates; see `_queries_of_parts`.
    """
    require("data.split_seed", seed, at_least=0)
    unit_of_query = _units(dataset, groups).tolist()
    place_of_query: list[Any] = dataset.query_keys.tolist()
    if groups is not None:
        place_of_query = unit_of_query
    place_of_unit: dict[int, Any] = {}
    queries_of_place: dict[Any, list[int]] = {}
    shuffled = np.random.default_rng(seed).permutation(dataset.num_queries)
    for query in shuffled.tolist():
        place_of_first = place_of_unit.setdefault(
            unit_of_query[query], place_of_query[query]
        )
        queries_of_place.setdefault(place_of_query[query], [])
        queries_of_place[place_of_first].append(query)
    units = [np.array(queries, dtype=np.int64) for queries in queries_of_place.values()]
    different = [unit for unit in units if unit.size]
    if len(different) >= 0.9 * len(units):
        return units
    return different


def _units(dataset: RankingDataset, groups: Mapping[str, str] | None) -> Indices:
    """Returns the (Q,) number of the unit of each query: the queries of a unit stay together.

    Queries with identical judged lists are in one unit, because they would leak across splits. So are
    near-duplicates and queries of one group, and units that share a query are one.

    Clusters in groups are the units: sessions of several users may show the same documents.
    """
    _, list_of_query = np.unique(dataset.query_keys, return_inverse=True)
    if groups is not None and dataset.clusters is not None:
        return list_of_query
    near = list_of_query[near_duplicates([dataset])]
    if groups is None and not near.size:
        return list_of_query
    num_queries = dataset.num_queries
    group_of_query = np.arange(num_queries)
    if groups is not None:
        names = [groups[query_id] for query_id in dataset.query_ids.tolist()]
        _, group_of_query = np.unique(names, return_inverse=True)
    # A graph of lists and groups, in which each query connects its list with its group.
    of_queries = np.stack([list_of_query, num_queries + group_of_query], axis=1)
    edges = np.concatenate([near, of_queries])
    components = _components(edges, 2 * num_queries)
    units: Indices = components[list_of_query].astype(np.int64)
    return units


def _components(edges: Indices, num_nodes: int) -> NDArray[np.int32]:
    """Returns the (num_nodes,) number of the connected component of each node.

    Args:
        edges: (E, 2), pairs of nodes.
    """
    # Imported here, because few data sets need it, and reading data should not wait for it.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    weights = np.ones(len(edges))
    first, second = edges.T
    shape = (num_nodes, num_nodes)
    graph = coo_array((weights, (first, second)), shape=shape)
    _, component_of_node = connected_components(graph, directed=False)
    components: NDArray[np.int32] = component_of_node
    return components


def _num_closest(sizes: Sequence[int], share: float) -> int:
    """Returns how many of the first parts have a total size closest to the share: at least one, not all."""
    ends = np.cumsum(sizes)
    asked = share * ends[-1]
    distances = np.abs(ends[:-1] - asked)
    return int(np.argmin(distances)) + 1


def _queries_of_parts(
    units: Sequence[Indices],
    divide: Callable[[Sequence[Indices]], Sequence[Sequence[Indices]]],
) -> list[Indices]:
    """Returns the queries of each part, in file order.

    Empty units count, as in the splits of data without near-duplicates, unless a part would be empty.
    """
    parts = divide(units)
    if not all(sum(map(len, part)) for part in parts):
        parts = divide([unit for unit in units if unit.size])
    return [np.sort(np.concatenate(part)) for part in parts]


def _deal_in_turn(units: Sequence[Indices], num_folds: int) -> list[Sequence[Indices]]:
    return [units[first::num_folds] for first in range(num_folds)]


def _deal_largest_first(
    units: Sequence[Indices], num_folds: int
) -> list[Sequence[Indices]]:
    """Deals units to folds, the largest first, each to the fold with the fewest queries."""
    dealt: list[list[Indices]] = [[] for _ in range(num_folds)]
    sizes = np.zeros(num_folds, dtype=np.int64)
    for unit in sorted(units, key=len, reverse=True):
        smallest = int(np.argmin(sizes))
        dealt[smallest].append(unit)
        sizes[smallest] += len(unit)
    return [*dealt]


def _counted(dataset: RankingDataset, num_units: int) -> str:
    return f"{dataset.num_queries} queries in {num_units} groups of different queries"


def _check_share(share: float, name: str) -> None:
    if 0.0 < share < 1.0:
        return
    final = ""
    if name == "test":
        final = " The verb final trains a chosen model on all queries."
    raise DataError(
        f"data.{name}_share is {share}; set a share between 0 and 1, such as 0.2.{final}"
    )


def near_duplicates(parts: Sequence[RankingDataset]) -> Indices:
    """Returns the (P, 2) pairs of queries that share most of their documents, up to rounding.

    A pair shares more than half of the different documents (`RankingDataset.rounded_keys`) of its shorter
    query. In addition, fewer than 0.001 such pairs would be expected if documents were in queries by chance,
    each at its frequency: equal documents of short queries, of few queries, or of features with few values
    are not enough. Among 100 queries about 5 equal documents are, among 10,000 about 3. Documents in more
    than `_MAX_SHARED` queries do not count.

    Args:
        parts: data sets, whose queries are numbered one after the other.
    """
    has = _documents_of_queries(parts)
    num_queries, _ = has.shape
    num_different = has.sum(axis=1)
    shared = _shared_documents(has)
    num_shorter = num_different[shared.pairs].min(axis=1)
    # Logarithm of the number of pairs of queries, times the 2^n sets of documents that can be shared.
    log_sets = num_shorter * np.log(2)
    log_chances = 2 * np.log(num_queries) + log_sets
    is_most = 2 * shared.counts > num_shorter
    is_unlikely = shared.surprises > log_chances + np.log(1000)
    near: Indices = np.unique(shared.pairs[is_most & is_unlikely], axis=0)
    return near


@dataclass(frozen=True, kw_only=True)
class _SharedDocuments:
    """What queries have in common, for each of S pairs of queries that share a document.

    Attributes:
        pairs: (S, 2), the queries; the first has the lower number.
        counts: (S,), number of documents that they share.
        surprises: (S,), sum of -log(frequency) over the shared documents, the frequency in other queries.
    """

    pairs: Indices
    counts: NDArray[np.float64]
    surprises: NDArray[np.float64]


def _shared_documents(has: csr_array) -> _SharedDocuments:
    """Returns what queries have in common, without documents in more than `_MAX_SHARED` queries.

    Args:
        has: (Q, documents), 1 where a query has a document.
    """
    num_queries, _ = has.shape
    num_with = has.sum(axis=0)
    is_shared = (num_with > 1) & (num_with <= _MAX_SHARED)
    has_shared = has[:, is_shared]
    surprise = np.log(num_queries / (num_with[is_shared] - 1))
    counts = (has_shared @ has_shared.T).tocoo()
    surprises = ((has_shared * surprise) @ has_shared.T).tocoo()
    pairs = np.stack(counts.coords, axis=1).astype(np.int64)
    is_ordered = pairs[:, 0] < pairs[:, 1]
    return _SharedDocuments(
        pairs=pairs[is_ordered],
        counts=counts.data[is_ordered],
        surprises=surprises.data[is_ordered],
    )


def _documents_of_queries(parts: Sequence[RankingDataset]) -> csr_array:
    """Returns the (Q, documents) matrix of 1 where a query has a document, of all different documents."""
    # Imported here, because it takes a tenth of a second, too long for --help.
    from scipy.sparse import csr_array

    sizes = np.concatenate([part.query_sizes for part in parts])
    queries = np.repeat(np.arange(len(sizes)), sizes)
    keys = np.concatenate([part.rounded_keys for part in parts])
    _, documents = np.unique(keys, return_inverse=True)
    has = csr_array((np.ones(len(keys)), (queries, documents)))
    has.data[:] = 1  # also for a document that a query has several times
    return has


def _check_no_leak(splits: Splits) -> None:
    """Raises DataError if a query is in two splits, under the same id or under different ids.

    Its id alone does not identify it: each file may number queries from 1.
    """
    for (name, split), (other_name, other) in combinations(splits, 2):
        rows, other_rows = _same_queries(split, other)
        if rows.size:
            first = int(rows.argmin())
            query_id = split.query_ids[rows[first]]
            other_id = other.query_ids[other_rows[first]]
            raise DataError(
                f"query {query_id} of {name} is in {other_name} as query {other_id}, with the same "
                f"documents: {other_name} would leak into {name}. Remove the query from one of the two files."
            )


def _same_queries(
    split: RankingDataset, other: RankingDataset
) -> tuple[Indices, Indices]:
    """Returns the indices of queries that both have: with the same content or, if there are none, with the
    same id and the same documents under other labels."""
    _, rows, other_rows = np.intersect1d(
        split.query_keys, other.query_keys, return_indices=True
    )
    if rows.size:
        return rows, other_rows
    _, rows, other_rows = np.intersect1d(
        split.query_ids, other.query_ids, return_indices=True
    )
    keys = _keys_without_labels(split, rows)
    is_same = keys == _keys_without_labels(other, other_rows)
    return rows[is_same], other_rows[is_same]


def _near_duplicates_between(
    split: RankingDataset, other: RankingDataset
) -> list[tuple[str, str]]:
    """Returns the ids of near-duplicate queries, one of each data set."""
    near = near_duplicates([split, other])
    is_in_first = near[:, 0] < split.num_queries
    is_in_second = near[:, 1] >= split.num_queries
    ids = np.concatenate([split.query_ids, other.query_ids])
    pairs: list[tuple[str, str]] = ids[near[is_in_first & is_in_second]].tolist()
    return pairs


def _pairs_in_words(pairs: Sequence[tuple[str, str]]) -> str:
    shown = [f"{one} and {two}" for one, two in pairs[:3]]
    if len(pairs) > 3:
        shown.append("...")
    return "; ".join(shown)


def check_files(
    files: Mapping[str, RankingDataset | None],
    without_ids: Collection[str] | None = None,
) -> None:
    """Raises DataError if queries of two files are near-duplicates or have the same id.

    The same id is no evidence if one of the files numbers its queries from 1, as the other may do as well;
    then it is a warning.

    Args:
        files: name of the split -> its queries, before any are held out; None: no file.
        without_ids: splits whose files have no ids, so that their queries are numbered when they are read;
            None: not known, so that all splits with the ids 1, 2, ... may have none.
    """
    given = [(name, split) for name, split in files.items() if split]
    for (name, split), (other_name, other) in combinations(given, 2):
        pairs = _near_duplicates_between(split, other)
        if pairs:
            raise DataError(
                f"{name} and {other_name} have {len(pairs)} pairs of near-duplicate queries "
                f"({_pairs_in_words(pairs)}), "
                f"equal up to rounding, which would leak from {name} to {other_name}. Remove them from one "
                "file, or list both files in data.train, whose splits keep them together."
            )
        is_common = np.isin(split.query_ids, other.query_ids)
        common_ids = split.query_ids[is_common].tolist()
        if not common_ids:
            continue
        shown = "; ".join(common_ids[:3])
        common = (
            f"{name} and {other_name} have {len(common_ids)} common query ids ({shown})"
        )
        largest = _largest_per_query(split.query_ids.tolist())
        other_largest = _largest_per_query(other.query_ids.tolist())
        if min(largest, other_largest) > 2:
            raise DataError(
                f"{common}: {other_name} would leak into {name}. Move all documents of a query to one file; "
                "if they are different queries, give them different ids."
            )
        # Without ids in the files, equal ids mean nothing.
        is_numbered = max(largest, other_largest) <= 1
        if without_ids is not None:
            is_numbered = {name, other_name} <= {*without_ids}
        if not is_numbered or split.num_queries == other.num_queries:
            log.warning("%s: a leak, unless each file numbers its own queries.", common)


def _largest_per_query(ids: Sequence[str]) -> float:
    """Returns the largest number, divided by the number of queries: 1 for 1, 2, ...; infinity for texts."""
    if all(each.isdecimal() for each in ids):
        return max(map(int, ids)) / len(ids)
    return np.inf


def _keys_without_labels(dataset: RankingDataset, queries: Indices) -> QueryKeys:
    if not queries.size:
        return np.array([], dtype=np.str_)
    taken = dataset.take_queries(queries)
    return content_keys(taken.with_fields(labels=np.zeros(taken.num_documents)))


# ---- Resamples of the training queries: a sweep trains every model on each, to measure training variance.
#
# A resample is drawn by query from a seed and the resample's index, so that every backend trains on the
# same queries. It replaces the training set after the data are read; validation and test sets stay whole.

BOOTSTRAP = "bootstrap"
SUBSAMPLE = "subsample"
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
        require("replicates.number", self.number, at_least=2)
        require("replicates.index", self.index, at_least=1, at_most=self.number)
        require_choice("replicates.kind", self.kind, KINDS)
        require("replicates.share", self.share, above=0, at_most=1)
        require("replicates.seed", self.seed, at_least=0)

    def describe(self) -> dict[str, Any]:
        """Returns the settings of this resample, as a result records them; the share of a bootstrap is 1."""
        return {
            "kind": self.kind,
            "share": self.share if self.kind == SUBSAMPLE else 1.0,
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

    def _draw(self, num_queries: int) -> Indices:
        """Returns the (n,) drawn query indices, ascending; a bootstrap has repeats."""
        rng = np.random.default_rng([self.seed, self.index])
        if self.kind == BOOTSTRAP:
            return np.sort(rng.integers(0, num_queries, num_queries))
        num_drawn = max(round(self.share * num_queries), 1)
        return np.sort(rng.permutation(num_queries)[:num_drawn])


def _distinct_ids(query_ids: NDArray[np.str_], queries: Indices) -> NDArray[np.str_]:
    """Returns the (n,) ids of the drawn queries: the original id for the first copy, id#2 for the second, ...

    Args:
        query_ids: (Q,), ids of the whole training set.
        queries: (n,) ascending, with repeats.
    """
    first_copies = np.searchsorted(queries, queries)
    copies = np.arange(len(queries)) - first_copies + 1
    ids: list[str] = query_ids[queries].tolist()
    for number in np.flatnonzero(copies > 1):
        ids[number] = f"{ids[number]}#{copies[number]}"
    return np.array(ids, dtype=np.str_)


# ---- Lists of clicks, weighted by their propensities.


def click_weighted(train: RankingDataset) -> RankingDataset:
    """Returns a training set in which each click is a list of its own, with the weight 1 / theta.

    A list with c clicks becomes c lists with one clicked document each, weighted by the inverse of the
    propensity theta of that click (Joachims, Swaminathan and Schnabel, 2017). Lists without a click keep the
    weight 1.

    Raises:
        DataError: The examination of positions is not known, or the labels are not clicks.
    """
    given = train.impressions
    if given is None:
        raise DataError(
            "debias=weights needs the examination of positions, which the training data do not have; use "
            "data=clicks, which estimates it, or another debias."
        )
    is_click = given.clicks > 0
    rows = given.rows[is_click]
    _check_labels(train, rows)
    of_clicks = train.query_of_document[rows]
    without = np.setdiff1d(np.arange(train.num_queries), of_clicks)
    queries = np.sort(np.append(of_clicks, without))
    # The rows are in ascending order, too.
    lists_of_clicks = np.flatnonzero(np.isin(queries, of_clicks))
    weights = np.ones(len(queries))
    weights[lists_of_clicks] = 1 / given.propensities[is_click]
    taken = train.take_queries(queries, _distinct_ids(train.query_ids, queries))
    places = rows - train.query_start[of_clicks]
    labels = np.zeros(taken.num_documents)
    labels[taken.query_start[lists_of_clicks] + places] = 1.0
    return taken.with_fields(
        labels=labels,
        query_weights=weights,
        document_weights=None,
        positions=None,
    )


def _check_labels(train: RankingDataset, clicked: Indices) -> None:
    clicks = np.zeros(train.num_documents)
    clicks[clicked] = 1.0
    if not np.array_equal(clicks, train.labels):
        raise DataError("debias=weights needs training lists whose labels are clicks.")
