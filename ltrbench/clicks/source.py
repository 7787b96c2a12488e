"""The data source of `data=clicks`: lists to train on, and queries with their clicks to compare rankers on.

Training sets have one list for each session, whose labels are clicks, with positions. In valid and test, the
sessions of a query become one list, if the features and kept columns of a document do not depend on the
session: all documents that were shown, or logged as candidates, with their impressions. `query_weights` are
numbers of sessions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from ltrbench.clicks.checks import FEWEST_QUERIES, is_rejected, replays
from ltrbench.clicks.estimators import MODELLED, log_of, predict_attractions
from ltrbench.clicks.log import (
    ROLES,
    Log,
    OtherColumns,
    check_propensities,
    compared_sessions,
    first_rows,
    read_log,
    with_features,
)
from ltrbench.clicks.propensities import (
    COLUMN,
    HARVEST,
    check_method,
    errors_of_log_theta,
    estimate,
    influence_of_queries,
    influence_of_split,
)
from ltrbench.data.dataset import RankingDataset
from ltrbench.data.features import CheckedFeatures, take_rows
from ltrbench.data.impressions import QUERY_TEXT, UNKNOWN, Impressions
from ltrbench.data.sources import TEST, SplitSource
from ltrbench.data.splits import Splits
from ltrbench.data.tables import read_table
from ltrbench.errors import ConfigError, DataError, require_choice
from ltrbench.shapes import Features, Indices, Values

if TYPE_CHECKING:
    import pandas as pd

QUERY = "query"
USER = "user"
CLUSTERS = (QUERY, USER)
CLICKS = "clicks"
CORRECTED = "corrected"
"""Kept columns of a document: its clicks, and its corrected clicks, over the sessions of its query."""

METRICS = ("clicks@10", "clicks@5", "snips@10", f"dcv@10:{CORRECTED}")

NO_FEATURE = "no_feature"
"""Constant feature of a log without features."""

_RESERVED = ("query_id", "document_id", "label", "position", "weight")
"""Names of the columns of the table that is read into a data set."""


@dataclass(kw_only=True)
class ClickSource(SplitSource):
    """A log of clicks; see `ltrbench.clicks.log` for its columns.

    Args:
        log: path of a table with one row for each shown document, or a list of paths.
        session, query, document, position, click, ranker, randomised, propensity_column, time, user,
            application: column of each role; None: the default name, if the log has it.
        propensity: how the examination of positions is estimated: harvest, column, random, em, power:1.
        first_position: number of the first position in the log, 0 or 1; None: found from the log.
        applications: applications that are read; None: all.
        cluster: unit of intervals: query, or user; with user, each session is a list of its own.
        documents: path of a table of features, joined by document, or by query and document; None: none.
        features: feature columns, as names or shell patterns; None: all other columns.
        categorical, keep, ignore, missing: as for `TableFiles`.
        metrics: metrics of runs on these data, unless the command sets others.

    Raises:
        ConfigError: An estimator or a unit is not known.
    """

    log: Any
    session: str | None = None
    query: str | None = None
    document: str | None = None
    position: str | None = None
    click: str | None = None
    ranker: str | None = None
    randomised: str | None = None
    propensity_column: str | None = None
    time: str | None = None
    user: str | None = None
    application: str | None = None
    propensity: str = HARVEST
    first_position: int | None = None
    applications: list[str] | None = None
    cluster: str = QUERY
    documents: str | None = None
    features: list[str] | None = None
    categorical: list[str] = field(default_factory=list)
    keep: list[str] = field(default_factory=list)
    ignore: list[str] = field(default_factory=list)
    missing: list[str] | None = None
    metrics: list[str] = field(default_factory=lambda: [*METRICS])

    # No setting: a final model trains on the lists of all sessions.
    by_session = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("data.cluster", self.cluster, CLUSTERS)
        if self.first_position not in (None, 0, 1):
            raise ConfigError(
                f"data.first_position is {self.first_position}; set 0 or 1, or null to find it."
            )
        check_method(self.propensity)

    def with_all_queries(self) -> Self:
        source = super().with_all_queries()
        source.by_session = True
        return source

    def load(self) -> Splits:
        """Reads the log, splits it by query, and estimates the examination of positions.

        Raises:
            DataError: The log is invalid, or does not identify the examination.
        """
        return self.splits_of(self.read())

    def read(self) -> Log:
        """Reads the log, with the features of `documents`."""
        columns = {role: getattr(self, role, None) for role in ROLES}
        columns["propensity"] = self.propensity_column
        others = OtherColumns(
            texts=self.keep,
            categorical=self.categorical,
            ignore=self.ignore,
            missing=self.missing,
        )
        log = read_log(
            self.log,
            columns=columns,
            others=others,
            first_position=self.first_position,
            applications=self.applications,
        )
        if self.documents is not None:
            log = with_features(log, Path(self.documents).expanduser(), others)
        return log

    def lists_of(self, log: Log) -> RankingDataset:
        """Returns all lists of a log, with their impressions; see `splits_of`."""
        return _Lists(log, self).whole

    def units_of(self, log: Log, lists: RankingDataset) -> NDArray[np.int64]:
        """Returns (D,), the query and document of each document of `lists_of`."""
        return _Lists(log, self).units_of(lists)

    def splits_of(self, log: Log) -> Splits:
        """Splits a log by query, and estimates the examination of positions.

        Raises:
            DataError: The log does not identify the examination.
        """
        lists = _Lists(log, self)
        groups = lists.groups
        splits = self.complete(lists.whole, groups=groups, notes=lists.notes)
        notes = [*splits.notes, *lists.common_queries(splits)]
        splits = replace(splits, notes=notes)
        train = splits.train
        valid = splits.valid
        test = splits.test
        if self.by_session:
            return replace(
                splits,
                train=lists.sessions_of(train),
                valid=None if valid is None else lists.sessions_of(valid),
                test=lists.sessions_of(test),
            )
        are_folds = self.cv is not None and self.cv_split == TEST
        return replace(
            splits,
            train=lists.sessions_of(train),
            valid=None if valid is None else with_columns(_without_errors(valid)),
            test=with_columns(lists.with_errors(test, are_folds=are_folds)),
            facts=lists.facts,
        )


@dataclass(frozen=True, eq=False)
class _Lists:
    """The lists of a log as data sets."""

    log: Log
    settings: ClickSource

    @cached_property
    def are_of_sessions(self) -> bool:
        """Whether each session is a list of its own, because features or kept columns of a document depend on
        it."""
        if self.settings.cluster == USER:
            return True
        firsts = first_rows(self.log.units)[self.log.units]
        for name in self._columns:
            codes, _ = self.log.others[name].factorize()  # -1: missing
            if (codes != codes[firsts]).any():
                return True
        return False

    @property
    def _columns(self) -> list[str]:
        """The columns of the log that are read: features, and kept columns."""
        columns = [*self.log.others.columns]
        settings = self.settings
        if settings.features is None:
            return columns
        patterns = [*settings.features, *settings.categorical, *settings.keep]
        return [name for name in columns if _matches(name, patterns)]

    @property
    def has_no_features(self) -> bool:
        return not len(self.log.others.columns)

    @cached_property
    def notes(self) -> list[str]:
        notes = [*self.log.notes]
        if self._compared[1]:
            notes.append(self._compared[1])
        notes.extend(self._rare_rankers())
        if self.has_no_features:
            notes.append(
                "the log has no features, so that only files of scores can be compared; data.documents=FILE "
                "adds them"
            )
        return notes

    def common_queries(self, splits: Splits) -> Iterator[str]:
        """Yields a note if lists are split by user, and users of train and test sent the same queries."""
        if self.settings.cluster != USER:
            return
        test = splits.test
        if QUERY_TEXT not in test.kept or QUERY_TEXT not in splits.train.kept:
            return
        of_lists = test.kept[QUERY_TEXT][test.query_start[:-1]]
        is_common = np.isin(of_lists, splits.train.kept[QUERY_TEXT])
        share = float(is_common.mean())
        if share:
            yield (
                f"{100 * share:.0f} % of the lists of test are of queries that users in train sent, too: "
                "claims hold for new users, and not for new queries"
            )

    def _rare_rankers(self) -> Iterator[str]:
        """Yields a note on each ranker with too few queries for the check by replay."""
        log = self.log
        if log.rankers is None:
            return
        for number, name in enumerate(log.ranker_names.tolist()):
            num_queries = len(np.unique(log.queries[log.rankers == number]))
            if num_queries < FEWEST_QUERIES:
                yield (
                    f"the ranker {name} has lists of {num_queries} queries, and the check by replay needs "
                    f"{FEWEST_QUERIES}: its clicks are not checked"
                )

    @cached_property
    def _compared(self) -> tuple[NDArray[np.bool_], str]:
        if self.settings.propensity != HARVEST:
            return np.ones(len(self.log), dtype=np.bool_), ""
        return compared_sessions(self.log)

    @cached_property
    def _clusters(self) -> NDArray[np.str_]:
        """(N,), query or user of each row."""
        log = self.log
        if self.settings.cluster == QUERY:
            return log.query_names[log.queries]
        if log.users is None:
            raise DataError(
                f"{log.location(0)}: the log has no user, but data.cluster is user. Set data.user=COLUMN."
            )
        return log.user_names[log.users]

    @property
    def groups(self) -> Mapping[str, str] | None:
        """Session -> query or user, if lists are sessions."""
        if not self.are_of_sessions:
            return None
        firsts = first_rows(self.log.sessions)
        names = self.log.session_names.tolist()
        return dict(zip(names, self._clusters[firsts].tolist(), strict=True))

    @cached_property
    def whole(self) -> RankingDataset:
        """All lists, with their impressions."""
        log = self.log
        rows = np.arange(len(log))
        if not self.are_of_sessions:
            rows = first_rows(log.units)
        dataset = self._read(self._frame(rows))
        order = dataset.from_file_order(rows)
        first_of_lists = order[dataset.query_start[:-1]]
        row_of = dataset.from_file_order(np.arange(len(rows))).argsort()
        if not self.are_of_sessions:
            row_of = row_of[log.units]
        shown = np.flatnonzero(log.is_shown)
        impressions = self._impressions(row_of[shown], shown)
        if self.settings.propensity == COLUMN:
            check_propensities(log)
        examination = estimate(impressions, self.settings.propensity)
        fields: dict[str, Any] = {"file_rows": None}
        fields["impressions"] = replace(
            impressions,
            theta=examination.theta,
            propensities=examination.propensities,
            influence=influence_of_queries(
                examination, dataset.query_of_document, dataset.num_queries
            ),
            method=np.array([self.settings.propensity]),
        )
        fields["clusters"] = self._clusters[first_of_lists]
        if not self.are_of_sessions:
            fields["query_weights"] = self._num_sessions[first_of_lists]
        elif log.is_shown.all():
            fields["positions"] = log.positions[order]
        if self.are_of_sessions and QUERY_TEXT not in log.others:
            texts = log.query_names[log.queries[order]]
            fields["kept"] = {**dataset.kept, QUERY_TEXT: texts}
        return dataset.with_fields(**fields)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What a comparison says about the log: its size, its examination, and the check by replay."""
        whole = self.whole
        given = _impressions_of(whole)
        # The clicks of all sessions of a query are one unit of the check, also if each session is a list.
        influence = _sums(given.influence, self._queries)
        of_queries = replace(given, influence=influence)
        queries_of_rows = self._queries[whole.query_of_document]
        checked = replays(of_queries, queries_of_rows, [*self.log.ranker_names])
        values = given.theta.astype(object)
        values[np.isnan(given.theta)] = None
        _, clusters = np.unique(_clusters_of(whole), return_inverse=True)
        errors = errors_of_log_theta(_sums(given.influence, clusters))
        return {
            "kind": CLICKS,
            "propensity": self.settings.propensity,
            "sessions": len(self.log.session_names),
            "cluster": self.settings.cluster,
            "has_features": not self.has_no_features,
            "theta": values.tolist(),
            "errors_of_log_theta": errors.tolist(),
            "replays": [vars(replay) for replay in checked],
            "is_rejected": is_rejected(checked),
        }

    @cached_property
    def _queries(self) -> NDArray[np.int64]:
        """(Q,), number of the query of each list of `whole`."""
        log = self.log
        names = log.query_names
        numbers = np.arange(len(names))
        if self.are_of_sessions:
            names = log.session_names
            numbers = log.queries[first_rows(log.sessions)]
        place_of = _numbers_of(names)
        places = [place_of[name] for name in self.whole.query_ids.tolist()]
        return numbers[places]

    @cached_property
    def _num_sessions(self) -> Values:
        """(N,), number of sessions of the query of each row."""
        of_session = self.log.queries[first_rows(self.log.sessions)]
        counts = np.bincount(of_session)
        return counts[self.log.queries].astype(np.float64)

    def _frame(self, rows: NDArray[np.int64]) -> pd.DataFrame:
        """Returns the table that is read into a data set, of some rows of the log."""
        log = self.log
        frame = log.others.iloc[rows].reset_index(drop=True)
        for name in _RESERVED:
            if name in frame:
                raise DataError(
                    f"{log.location(0)}: the column '{name}' has no role in a log of clicks. Rename it, or "
                    f"ignore it: data.ignore=[{name}]."
                )
        for name in (CLICKS, CORRECTED, MODELLED):
            if name in frame and _matches(name, self.settings.keep):
                raise DataError(
                    f"{log.location(0)}: data.keep has the column '{name}', the name of a computed "
                    "column. Rename it, or leave it out of data.keep."
                )
        queries = log.query_names[log.queries]
        clicks = np.bincount(log.units, log.clicks)[log.units]
        if self.are_of_sessions:
            queries = log.session_names[log.sessions]
            clicks = log.clicks
        frame["query_id"] = queries[rows]
        frame["document_id"] = log.document_names[log.documents[rows]]
        frame["label"] = (clicks[rows] > 0).astype(np.int64)
        return frame

    def _read(self, frame: pd.DataFrame) -> RankingDataset:
        settings = self.settings
        if self.has_no_features:
            frame[NO_FEATURE] = 0.0
        return read_table(
            frame,
            features=settings.features,
            categorical=settings.categorical,
            keep=settings.keep,
            missing=settings.missing,
            sort_queries=True,
            whole_labels=True,
        )

    def _impressions(
        self, rows: NDArray[np.int64], shown: NDArray[np.int64]
    ) -> Impressions:
        """Returns the impressions in some rows of the log, given the row of the data set of each of them."""
        log = self.log
        rankers = np.full(len(log), UNKNOWN)
        if log.rankers is not None:
            rankers = log.rankers
        columns: dict[str, NDArray[Any]] = {
            "rows": rows,
            "positions": log.positions[shown],
            "units": log.units[shown],
            "rankers": rankers[shown],
            "is_randomised": log.is_randomised[shown],
            "is_compared": self._compared[0][shown],
            "propensities": log.propensities[shown],
        }
        order, starts = _alike([*columns.values()])
        sizes = np.diff(np.append(starts, len(order)))
        clicks = np.add.reduceat(log.clicks[shown][order], starts)
        num_positions = int(log.positions.max()) + 1
        return Impressions(
            **{name: values[order[starts]] for name, values in columns.items()},
            shown=sizes.astype(np.float64),
            clicks=clicks.astype(np.float64),
            theta=np.full(num_positions, np.nan),
            influence=np.zeros((0, num_positions)),
            method=np.array([""]),
        )

    def with_errors(self, split: RankingDataset, *, are_folds: bool) -> RankingDataset:
        """Returns a test set with the error of the estimated examination in the values of its queries.

        Args:
            are_folds: whether it is a fold of a cross-validation; else it is the only test set.
        """
        given = _impressions_of(split)
        is_outside = ~np.isin(self.whole.query_ids, split.query_ids)
        outside = _impressions_of(self.whole).influence[is_outside]
        clusters = _clusters_of(self.whole)[is_outside]
        _, numbers = np.unique(clusters, return_inverse=True)
        rest = _sums(outside, numbers)
        weights = _numbers_of_lists(split)
        num_lists = None
        if are_folds:
            num_lists = float(_numbers_of_lists(self.whole).sum())
        influence = influence_of_split(given.influence, rest, weights, num_lists)
        return split.with_fields(impressions=replace(given, influence=influence))

    def sessions_of(self, split: RankingDataset) -> RankingDataset:
        """Returns the sessions of the queries of a split as lists to train on, of the documents that were
        shown."""
        log = self.log
        keys = log.units
        if self.are_of_sessions:
            if log.is_shown.all():
                return _without_errors(split)
            keys = np.arange(len(log))
        row_of_key = np.full(keys.max() + 1, -1)
        row_of_key[keys[self._rows_of(split)]] = np.arange(split.num_documents)
        rows = row_of_key[keys]
        chosen = np.flatnonzero((rows >= 0) & log.is_shown)
        order = np.lexsort((log.positions[chosen], log.sessions[chosen]))
        chosen = chosen[order]
        rows = rows[chosen]
        sessions = log.sessions[chosen]
        starts = np.flatnonzero(np.diff(sessions, prepend=-1))
        theta = _impressions_of(split).theta
        impressions = self._impressions(np.arange(len(chosen)), chosen)
        if self.settings.propensity != COLUMN:
            propensities = theta[impressions.positions]
            impressions = replace(impressions, propensities=propensities)
        return split.with_fields(
            features=cast(Features, CheckedFeatures(take_rows(split.features, rows))),
            labels=log.clicks[chosen].astype(np.float64),
            positions=log.positions[chosen],
            query_start=np.append(starts, len(chosen)),
            query_ids=log.session_names[sessions[starts]],
            document_ids=log.document_names[log.documents[chosen]],
            clusters=self._clusters[chosen[starts]],
            kept={name: values[rows] for name, values in split.kept.items()},
            query_weights=None,
            impressions=replace(
                impressions,
                theta=theta,
                influence=np.zeros((len(starts), len(theta))),
                method=_impressions_of(split).method,
            ),
            file_rows=None,
        )

    def units_of(self, split: RankingDataset) -> NDArray[np.int64]:
        """Returns (D,), the unit of each document of a split."""
        return self.log.units[self._rows_of(split)]

    def _rows_of(self, split: RankingDataset) -> NDArray[np.int64]:
        """Returns (D,), the first row of the log of each document of the lists of a split."""
        log = self.log
        lists = log.queries
        number_of = _numbers_of(log.query_names)
        if self.are_of_sessions:
            lists = log.sessions
            number_of = _numbers_of(log.session_names)
        numbers = np.array([number_of[name] for name in split.query_ids.tolist()])
        document_of = _numbers_of(log.document_names)
        documents = np.array(
            [document_of[name] for name in split.column("document_id").tolist()]
        )
        num_documents = len(log.document_names)
        keys = lists * num_documents + log.documents
        distinct, firsts = np.unique(keys, return_index=True)
        wanted = numbers[split.query_of_document] * num_documents + documents
        rows: NDArray[np.int64] = firsts[np.searchsorted(distinct, wanted)]
        return rows


def _sums(values: Values, codes: NDArray[np.int64]) -> Values:
    """Returns (C, K), the sums of the rows, (n, K), of each code."""
    num_codes = int(codes.max(initial=-1)) + 1
    sums = np.zeros((num_codes, values.shape[1]))
    np.add.at(sums, codes, values)
    return sums


def _numbers_of(names: NDArray[np.str_]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names.tolist())}


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _alike(columns: list[NDArray[Any]]) -> tuple[Indices, Indices]:
    """Returns an order of rows by all columns, the first one first, and where rows in this order differ."""
    columns = [np.nan_to_num(values, nan=-1.0) for values in columns]
    order = np.lexsort(columns[::-1])
    differs = np.zeros(len(order), dtype=np.bool_)
    differs[0] = True
    for values in columns:
        in_order = values[order]
        is_new = in_order[1:] != in_order[:-1]
        differs[1:] |= is_new
    return order, np.flatnonzero(differs)


def with_columns(split: RankingDataset) -> RankingDataset:
    """Returns a split with its clicks and its corrected clicks as kept columns; of documents that were never
    shown, with the attraction that a model predicts."""
    clicks = log_of(split)
    kept: dict[str, NDArray[Any]] = dict(split.kept)
    kept[CLICKS] = clicks.clicks_a_session
    kept[CORRECTED] = clicks.corrected
    displays, _ = clicks.displays()
    is_unseen = displays == 0
    if is_unseen.any():
        features = np.asarray(split.features, np.float64)
        predicted = predict_attractions(clicks, features, _queries_of(split))
        kept[MODELLED] = np.where(is_unseen, predicted, np.nan)
        kept[CORRECTED] = np.where(is_unseen, predicted, clicks.corrected)
    return split.with_fields(kept=kept)


def _queries_of(split: RankingDataset) -> NDArray[np.int64]:
    """Returns (D,), the number of the query of each document, also if lists are sessions."""
    if split.query_weights is not None or QUERY_TEXT not in split.kept:
        return split.query_of_document
    _, numbers = np.unique(split.kept[QUERY_TEXT], return_inverse=True)
    return numbers.astype(np.int64)


def _without_errors(split: RankingDataset) -> RankingDataset:
    """Returns a split without the error of the examination: models learn from it and are chosen by it, and no
    claim rests on it."""
    given = _impressions_of(split)
    none = np.zeros_like(given.influence)
    return split.with_fields(impressions=replace(given, influence=none))


def _impressions_of(split: RankingDataset) -> Impressions:
    assert split.impressions is not None  # all splits of this source have them
    return split.impressions


def _numbers_of_lists(split: RankingDataset) -> Values:
    """Returns (Q,), the number of sessions of each list."""
    if split.query_weights is None:
        return np.ones(split.num_queries)
    return split.query_weights


def _clusters_of(split: RankingDataset) -> NDArray[np.str_]:
    assert split.clusters is not None  # all splits of this source have them
    return split.clusters
