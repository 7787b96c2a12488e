"""Simulated logs of clicks on labelled data, whose truth is known: the source of `data=click_simulation`.

A session draws query q with a probability proportional to 1 / r^popularity, where r is a random rank of the
query, draws one of the logging rankers, and shows its first `depth` documents at the positions k = 0, 1, ...
The attraction g of a document depends on its label. With theta_k = 1 / (k + 1)^eta and independent draws:

    pbm      the user examines k with probability theta_k, and clicks with g: P(click) = theta_k g_k
    trust    who examines k also clicks a document that does not attract, with probability t / (k + 1):
             P(click) = theta_k (g_k + (1 - g_k) t / (k + 1))
    cascade  the user goes down the list up to the first click: P(click) = g_k prod_{j < k} (1 - g_j)
    dbn      the user goes on with probability c, but ends after a click that satisfies, which has the
             probability g: P(click) = g_k prod_{j < k} c (1 - g_j^2)

pbm: Richardson, Dominowska and Ragno, 2007; trust: Agarwal et al., 2019, "Addressing Trust Bias for
Unbiased Learning-to-Rank"; cascade: Craswell et al., 2008; dbn: Chapelle and Zhang, 2009. A click model is a
function in CLICK_MODELS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ltrbench.clicks.estimators import MODELLED
from ltrbench.clicks.log import Log, checked, first_rows, taken
from ltrbench.clicks.propensities import HARVEST, check_method, total
from ltrbench.clicks.rows import Rows
from ltrbench.clicks.source import CLICKS, CORRECTED, QUERY, ClickSource
from ltrbench.data.dataset import RankingDataset
from ltrbench.data.features import as_array
from ltrbench.data.score_files import read_score_file
from ltrbench.data.sources import DataSource, SplitSource
from ltrbench.data.splits import Splits
from ltrbench.errors import ConfigError, require, require_choice
from ltrbench.shapes import QueryStart, Scores, Values

if TYPE_CHECKING:
    import pandas as pd

Lists = NDArray[np.float64]
"""(S, K), a value for each position of each session."""
Clicked = NDArray[np.bool_]
"""(S, K)."""

TRUTH = "truth"
ATTRACTION = "attraction"
"""Kept columns of a document: its label in the labelled data, and its attraction."""

NOTHING = -1
"""In place of a document, at positions below the end of a list."""

# ---- Users.


@dataclass(frozen=True, kw_only=True)
class Users:
    """Parameters of the click models.

    Attributes:
        eta: theta_k = 1 / (k + 1)^eta.
        continuation: c of dbn.
        trust: t of trust.
    """

    eta: float = 1.0
    continuation: float = 0.9
    trust: float = 0.65

    def theta(self, num_positions: int) -> Values:
        """Returns (K,), the examination of each position."""
        ranks = np.arange(1.0, num_positions + 1)
        return ranks**-self.eta


ClickModel = Callable[[Lists, Users, Generator], Clicked]
"""(attraction, users, rng) -> clicks; a position without a document has the attraction NaN."""
Rates = Callable[[Lists, Users], Lists]
"""(attraction, users) -> probability of a click."""


def pbm(attraction: Lists, users: Users, rng: Generator) -> Clicked:
    """Clicks of the position-based model."""
    is_attracted = _drawn(attraction, rng)
    theta = users.theta(attraction.shape[1])
    is_examined = rng.random(attraction.shape) < theta
    return np.logical_and(is_attracted, is_examined)


def trust(attraction: Lists, users: Users, rng: Generator) -> Clicked:
    """Clicks of users who trust the first positions."""
    num_positions = attraction.shape[1]
    misled = users.trust / np.arange(1.0, num_positions + 1)
    is_clicked_if_seen = attraction + (1 - attraction) * misled
    return pbm(is_clicked_if_seen, users, rng)


def cascade(attraction: Lists, users: Users, rng: Generator) -> Clicked:
    """Clicks on the first document that attracts."""
    is_attracted = _drawn(attraction, rng)
    is_first = np.cumsum(is_attracted, axis=1) == 1
    clicks: Clicked = np.logical_and(is_attracted, is_first)
    return clicks


def dbn(attraction: Lists, users: Users, rng: Generator) -> Clicked:
    """Clicks of the dynamic Bayesian network."""
    is_attracted = _drawn(attraction, rng)
    is_satisfied = is_attracted & _drawn(attraction, rng)
    goes_on = rng.random(attraction.shape) < users.continuation
    passes = goes_on & ~is_satisfied
    reaches_next = np.logical_and.accumulate(passes, axis=1)
    is_examined = np.ones_like(passes)
    is_examined[:, 1:] = reaches_next[:, :-1]
    return np.logical_and(is_attracted, is_examined)


def _drawn(probabilities: Lists, rng: Generator) -> Clicked:
    """Returns independent events; none where the probability is NaN."""
    events: Clicked = rng.random(probabilities.shape) < probabilities
    return events


CLICK_MODELS: Mapping[str, ClickModel] = {
    "pbm": pbm,
    "cascade": cascade,
    "dbn": dbn,
    "trust": trust,
}


def _rates_of_pbm(attraction: Lists, users: Users) -> Lists:
    rates: Lists = attraction * users.theta(attraction.shape[1])
    return rates


def _rates_of_trust(attraction: Lists, users: Users) -> Lists:
    num_positions = attraction.shape[1]
    misled = users.trust / np.arange(1.0, num_positions + 1)
    is_clicked_if_seen = attraction + (1 - attraction) * misled
    return _rates_of_pbm(is_clicked_if_seen, users)


def _rates_of_cascade(attraction: Lists, users: Users) -> Lists:
    return _rates_if_passed(attraction, 1 - attraction)


def _rates_of_dbn(attraction: Lists, users: Users) -> Lists:
    passes = users.continuation * (1 - attraction**2)
    return _rates_if_passed(attraction, passes)


def _rates_if_passed(attraction: Lists, passes: Lists) -> Lists:
    """Returns g_k times the product of the probabilities that the user passes a position above k."""
    reaches_next = np.cumprod(passes, axis=1)
    is_examined = np.ones_like(attraction)
    is_examined[:, 1:] = reaches_next[:, :-1]
    rates: Lists = attraction * is_examined
    return rates


RATES: Mapping[str, Rates] = {
    "pbm": _rates_of_pbm,
    "cascade": _rates_of_cascade,
    "dbn": _rates_of_dbn,
    "trust": _rates_of_trust,
}
"""Click model -> its click-through rates."""

# ---- Sessions.


@dataclass(frozen=True, kw_only=True)
class Logging:
    """How lists are logged.

    Attributes:
        num_sessions: S, number of lists.
        depth: K, largest number of documents in a list.
        popularity: exponent of the distribution of queries; 0: all are equally frequent.
        shuffled_share: share of the lists whose documents are shown in random order.
    """

    num_sessions: int
    depth: int = 10
    popularity: float = 0.7
    shuffled_share: float = 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Sessions:
    """S sessions.

    Attributes:
        queries, rankers: (S,), query and ranker of each list.
        is_shuffled: (S,).
        documents: (S, K), row of the document at each position; `NOTHING` below the end of a list.
        clicks: (S, K).
    """

    queries: NDArray[np.int64]
    rankers: NDArray[np.int64]
    is_shuffled: NDArray[np.bool_]
    documents: NDArray[np.int64]
    clicks: Clicked


def simulate(
    attraction: Values,
    query_start: QueryStart,
    scores: Sequence[Scores],
    settings: Logging,
    *,
    click_model: ClickModel = pbm,
    users: Users | None = None,
    seed: int = 0,
) -> Sessions:
    """Returns simulated sessions.

    Args:
        attraction: (D,).
        scores: for each logging ranker, its scores, (D,).
    """
    rng = np.random.default_rng(seed)
    num_queries = len(query_start) - 1
    num_sessions = settings.num_sessions
    ranks = rng.permutation(num_queries) + 1.0
    frequencies = ranks**-settings.popularity
    shares = frequencies / frequencies.sum()
    queries = rng.choice(num_queries, num_sessions, p=shares)
    rankers = rng.integers(len(scores), size=num_sessions)
    tops = [_top_documents(each, query_start, settings.depth) for each in scores]
    documents = np.stack(tops)[rankers, queries]
    is_shuffled = rng.random(num_sessions) < settings.shuffled_share
    documents[is_shuffled] = _shuffled(documents[is_shuffled], rng)
    shown = np.where(documents == NOTHING, np.nan, attraction[documents])
    return Sessions(
        queries=queries,
        rankers=rankers,
        is_shuffled=is_shuffled,
        documents=documents,
        clicks=click_model(shown, users or Users(), rng),
    )


def _top_documents(
    scores: Scores, query_start: QueryStart, depth: int
) -> NDArray[np.int64]:
    """Returns (Q, K), the rows of the first documents of each query; `NOTHING` after the last one."""
    sizes = np.diff(query_start)
    query_of_row = np.repeat(np.arange(len(sizes)), sizes)
    # A stable sort, so that ties keep the order of the rows.
    order = np.lexsort((-scores, query_of_row))
    starts = np.repeat(query_start[:-1], sizes)
    ranks = np.arange(len(scores)) - starts
    is_shown = ranks < depth
    top = np.full((len(sizes), depth), NOTHING)
    top[query_of_row[is_shown], ranks[is_shown]] = order[is_shown]
    return top


def _shuffled(documents: NDArray[np.int64], rng: Generator) -> NDArray[np.int64]:
    """Returns lists in random order; what is no document stays at the end."""
    keys = rng.random(documents.shape)
    keys[documents == NOTHING] = np.inf
    return np.take_along_axis(documents, np.argsort(keys, axis=1), axis=1)


# ---- The lists of a log, whose clicks are drawn again.

_OF_QUERIES = 1
"""Part of the seed of the queries, so that clicks are drawn independently of them."""
_PRIOR = 1.0
"""Displays at position 0 with the mean attraction, added to those of each document."""
_METRIC_DEPTH = 10


@dataclass(frozen=True, eq=False, kw_only=True)
class Replica:
    """The lists of a log, with users whose attraction is known.

    Attributes:
        attraction: (U,), attraction of each query and document.
        positions: (U,), mean position where it was shown; infinite if it was not.
        queries: (U,), number of its query in the log that is checked.
    """

    log: Log
    source: ClickSource
    attraction: Values
    positions: Values
    queries: NDArray[np.int64]
    users: Users

    @classmethod
    def of(cls, log: Log, source: ClickSource) -> Replica:
        """Returns users like those of a log: with its examination as a power of the position, and the
        attraction (C + a m) / (E + a) of a document with C clicks and the sum E of examinations, where m is
        the mean attraction and a is 1.

        Raises:
            DataError: The log does not identify the examination.
        """
        # Without features, so that the sessions of a query are one list.
        log = replace(log, others=log.others.iloc[:, :0])
        source = replace(source, cluster=QUERY, features=None, categorical=[], keep=[])
        given = source.lists_of(log).impressions
        assert given is not None  # lists of a log have them
        num_units = int(log.units.max()) + 1
        theta = np.nan_to_num(given.theta)
        examined = total(given.units, given.shown * theta[given.positions], num_units)
        clicks = total(given.units, given.clicks, num_units)
        mean = clicks.sum() / examined.sum()
        attraction = (clicks + _PRIOR * mean) / (examined + _PRIOR)
        shown = total(given.units, given.shown, num_units)
        sums = total(given.units, given.shown * given.positions, num_units)
        positions = np.full(num_units, np.inf)
        np.divide(sums, shown, out=positions, where=shown > 0)
        return cls(
            log=log,
            source=source,
            attraction=np.minimum(attraction, 1.0),
            positions=positions,
            queries=log.queries[first_rows(log.units)],
            users=Users(eta=_power_of(theta)),
        )

    def resampled(self, seed: int) -> Replica:
        """Returns as many queries, drawn with replacement, with all of their lists: other queries of the
        same users, for which intervals hold, too."""
        log = self.log
        num_queries = len(log.query_names)
        rng = np.random.default_rng([seed, _OF_QUERIES])
        drawn = rng.integers(num_queries, size=num_queries)
        by_query = np.argsort(log.queries, kind="stable")
        sizes = np.bincount(log.queries, minlength=num_queries)
        rows_of_query = np.split(by_query, np.cumsum(sizes)[:-1])
        chosen = [rows_of_query[query] for query in drawn]
        rows = np.concatenate(chosen)
        copies = np.repeat(np.arange(num_queries), sizes[drawn])
        copied = taken(log, rows, copies)
        units = log.units[rows][first_rows(copied.units)]
        return replace(
            self,
            log=copied,
            attraction=self.attraction[units],
            positions=self.positions[units],
            queries=self.queries[units],
        )

    def drawn(self, click_model: str, seed: int) -> Log:
        """Returns the log with clicks of simulated users."""
        log = self.log
        shown = np.flatnonzero(log.is_shown)
        cells = (log.sessions[shown], log.positions[shown])
        num_positions = int(log.positions.max()) + 1
        lists = np.full((len(log.session_names), num_positions), np.nan)
        lists[cells] = self.attraction[log.units[shown]]
        rng = np.random.default_rng(seed)
        drawn = CLICK_MODELS[click_model](lists, self.users, rng)
        clicks = np.zeros_like(log.clicks)
        clicks[shown] = drawn[cells]
        return replace(log, clicks=clicks)

    def expected_clicks(
        self, scores: Scores, data: RankingDataset, click_model: str
    ) -> float:
        """Returns the true clicks a session of a ranking, on the positions of the log, at most ten.

        Args:
            scores: (D,), of the documents of `data`, which are the lists of the log.
        """
        num_positions = int(self.log.positions.max()) + 1
        depth = min(num_positions, _METRIC_DEPTH)
        top = _top_documents(scores, data.query_start, depth)
        attraction = self.attraction[self.units_of(data)]
        lists = np.where(top == NOTHING, 0.0, attraction[top])
        clicks = RATES[click_model](lists, self.users).sum(axis=1)
        return float(np.average(clicks, weights=data.query_weights))

    def units_of(self, data: RankingDataset) -> NDArray[np.int64]:
        """Returns (D,), the query and document of each row of the lists of the log."""
        return self.source.units_of(self.log, data)


def _power_of(theta: Values) -> float:
    """Returns eta of the least squares fit of log theta_k = -eta log(k + 1)."""
    known = np.flatnonzero(theta > 0)
    logs = np.log(known + 1.0)
    if len(known) == 1:
        return 0.0
    moment = float(logs @ np.log(theta[known]))
    return max(-moment / float(logs @ logs), 0.0)


# ---- Logging rankers.

GOOD = "good"
POOR = "poor"
OF_FEATURES = (POOR, GOOD)
"""Logging rankers that score by features."""
MIXTURE = "mixture"
SHUFFLE = "shuffle"

_PENALTY = 1.0
"""L2 penalty of the linear ranker, for standardised features."""


def _scores_of_features(data: RankingDataset) -> dict[str, Scores]:
    """Returns the scores of two rankers: `good`, a linear fit to the labels, and `poor`, the feature with the
    median correlation with the labels. Features and labels are centred in each query."""
    design = _standardised(data)
    column = data.labels[:, np.newaxis]
    moments = design.T @ _centred(column, data)[:, 0]
    penalty = _PENALTY * np.eye(design.shape[1])
    weights = np.linalg.solve(design.T @ design + penalty, moments)
    by_correlation = np.argsort(np.abs(moments))
    median = by_correlation[len(moments) // 2]
    poor = np.sign(moments[median]) * design[:, median]
    return {POOR: poor, GOOD: design @ weights}


def _standardised(data: RankingDataset) -> Values:
    """Returns the features that differ in a query, with mean 0 in each query and variance 1."""
    cells = as_array(data.features).astype(np.float64)
    features = _centred(cells, data)
    spread = np.sqrt((features**2).mean(axis=0))
    varies = spread > 0
    if not varies.any():
        raise ConfigError(
            "no feature differs between the documents of a query, so that there is no logging ranker; set "
            "data.logging to a file of scores."
        )
    standardised: Values = features[:, varies] / spread[varies]
    return standardised


def _centred(columns: Values, data: RankingDataset) -> Values:
    """Returns (D, F) minus the means of the queries; 0 for missing values."""
    known = ~np.isnan(columns)
    starts = data.query_start[:-1]
    values = np.where(known, columns, 0.0)
    sums = np.add.reduceat(values, starts, axis=0)
    counts = np.add.reduceat(known.astype(np.float64), starts, axis=0)
    means = sums / np.maximum(counts, 1)
    return np.where(known, columns - means[data.query_of_document], 0.0)


# ---- The source.


@dataclass(kw_only=True)
class ClickSimulation(SplitSource):
    """A simulated log of all queries of a labelled data set.

    Models learn from clicks, as from a real log. The labels of the test set are those of the labelled data:
    its metrics of labels are the truth beside its metrics of clicks. Kept columns `truth` and `attraction`
    have the label and the attraction of each document.

    Args:
        from_: the labelled data; `from` in the YAML.
        click_model: name in CLICK_MODELS.
        logging: the rankers that make the lists, each an equal share of them: poor, good, mixture (both), or
            paths of score files; and shuffle:SHARE, the share of lists in random order (alone: of poor).
        num_sessions: number of lists.
        depth: largest number of documents in a list.
        popularity: exponent of the distribution of queries; 0: all are equally frequent.
        attraction: attraction of the labels 0, 1, 2, ...; None: 0.1 + 0.8 (2^label - 1) / (2^highest - 1).
        eta, continuation, trust: parameters of the click models; see `Users`.
        seed: random seed of the log.
        propensity: as for `ClickSource`.
        metrics: metrics of runs on these data, unless the command sets others.

    Raises:
        ConfigError: A setting is out of range.
    """

    from_: Any
    click_model: str = "pbm"
    logging: Any = MIXTURE
    num_sessions: int = 10_000
    depth: int = 10
    popularity: float = 0.7
    attraction: list[float] | None = None
    eta: float = 1.0
    continuation: float = 0.9
    trust: float = 0.65
    seed: int = 0
    propensity: str = HARVEST
    metrics: list[str] = field(default_factory=lambda: ["clicks@10", "ndcg@10"])

    # No setting: a final model trains on the lists of all sessions.
    by_session = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("data.click_model", self.click_model, CLICK_MODELS)
        check_method(self.propensity)
        require("data.num_sessions", self.num_sessions, at_least=2)
        require("data.depth", self.depth, at_least=1)
        for value in (self.continuation, self.trust, *(self.attraction or ())):
            if not 0 <= value <= 1:
                raise ConfigError(
                    f"data.attraction, data.continuation and data.trust are probabilities, but one is "
                    f"{value:g}; set numbers from 0 to 1."
                )
        _shuffled_share(self._parts)
        if not isinstance(self.from_, DataSource):
            raise ConfigError(
                f"data.from is {self.from_!r}; name a labelled data set, as in data.from=mq2008."
            )

    def with_all_queries(self) -> Self:
        source = super().with_all_queries()
        source.by_session = True
        return source

    def load(self) -> Splits:
        """Loads the labelled data, simulates the log, and splits it by query.

        Raises:
            DataError: The labelled data is absent, or the log does not identify the examination.
        """
        of_labels = self.from_.load()
        labelled = _with_own_names(of_labels.whole().train)
        attraction = self._attraction_of(labelled.labels)
        names, scores = self._rankers(labelled)
        sessions = simulate(
            attraction,
            labelled.query_start,
            scores,
            Logging(
                num_sessions=self.num_sessions,
                depth=self.depth,
                popularity=self.popularity,
                shuffled_share=_shuffled_share(self._parts),
            ),
            click_model=CLICK_MODELS[self.click_model],
            users=Users(eta=self.eta, continuation=self.continuation, trust=self.trust),
            seed=self.seed,
        )
        rows = _rows_of(sessions, labelled, attraction, names)
        source = self._click_source(labelled)
        splits = source.splits_of(checked(rows, first_position=0))
        splits = replace(splits, reading=of_labels.reading)
        if self.by_session:
            return splits
        truth = splits.test.numbers(TRUTH)
        return replace(splits, test=splits.test.with_fields(labels=truth))

    def _click_source(self, labelled: RankingDataset) -> ClickSource:
        splitting = {
            item.name: getattr(self, item.name) for item in fields(SplitSource)
        }
        source = ClickSource(
            **splitting,
            log=None,
            propensity=self.propensity,
            categorical=[*labelled.categories],
            keep=[*labelled.kept, TRUTH, ATTRACTION],
        )
        return source.with_all_queries() if self.by_session else source

    @property
    def _parts(self) -> list[str]:
        given = self.logging
        listed = given if isinstance(given, list) else [given]
        return [str(part) for part in listed]

    def _rankers(self, labelled: RankingDataset) -> tuple[list[str], list[Scores]]:
        """Returns name and scores of each logging ranker."""
        names: list[str] = []
        for part in self._parts:
            if part == MIXTURE:
                names.extend(OF_FEATURES)
            elif not part.startswith(f"{SHUFFLE}:"):
                names.append(part)
        if not names:
            names = [POOR]
        of_features: dict[str, Scores] = {}
        if not set(OF_FEATURES).isdisjoint(names):
            of_features = _scores_of_features(labelled)
        scores = []
        for name in names:
            if name in of_features:
                scores.append(of_features[name])
            else:
                scores.append(_scores_of_file(name, labelled))
        return names, scores

    def _attraction_of(self, labels: Values) -> Values:
        """Returns (D,)."""
        if self.attraction is None:
            gains = 2.0**labels - 1
            highest_gain = max(float(gains.max()), 1.0)
            return 0.1 + 0.8 * gains / highest_gain
        highest = int(labels.max())
        if highest >= len(self.attraction):
            raise ConfigError(
                f"data.attraction has {len(self.attraction)} values, but the highest label is {highest}; "
                f"list one for each of the labels 0 to {highest}."
            )
        by_label: Values = np.array(self.attraction)
        return by_label[labels.astype(np.int64)]


def _shuffled_share(parts: Sequence[str]) -> float:
    """Returns SHARE of shuffle:SHARE; 0 without it."""
    share = 0.0
    for part in parts:
        name, _, number = part.partition(":")
        if name != SHUFFLE:
            continue
        try:
            share = float(number)
        except ValueError:
            share = np.nan
        if not 0 < share <= 1:
            raise ConfigError(
                f"data.logging has '{part}'; write {SHUFFLE}:SHARE with a share of the lists, as in "
                f"{SHUFFLE}:0.1."
            )
    return share


def _scores_of_file(name: str, labelled: RankingDataset) -> Scores:
    """Returns the scores of a file; documents that it does not retrieve come last."""
    path = Path(name).expanduser()
    if not path.is_file():
        raise ConfigError(
            f"data.logging has '{name}', which is no file of scores; set {POOR}, {GOOD}, {MIXTURE}, "
            f"{SHUFFLE}:SHARE, or a path."
        )
    matched = read_score_file(path).match(labelled, labelled.file_rows, "the data")
    return np.nan_to_num(matched.scores, nan=-np.inf, neginf=-np.inf)


def _rows_of(
    sessions: Sessions,
    labelled: RankingDataset,
    attraction: Values,
    names: Sequence[str],
) -> Rows:
    """Returns the rows of the log: what was shown, and, in the first session of each query, its documents
    that this session did not show."""
    import pandas as pd

    shown = np.nonzero(sessions.documents != NOTHING)
    of_sessions, positions = shown
    documents = sessions.documents[shown]
    hidden, of_hidden = _candidates(sessions, labelled)
    every = np.concatenate([documents, hidden])
    every_session = np.concatenate([of_sessions, of_hidden])
    empty = np.full(len(hidden), np.nan)
    no_clicks = np.zeros(len(hidden), dtype=np.int64)
    frame = pd.DataFrame(
        {
            "session": every_session,
            "query": labelled.query_ids[labelled.query_of_document[every]],
            "document": _names_of_documents(labelled)[every],
            "position": np.concatenate([positions, empty]),
            "click": np.concatenate([sessions.clicks[shown], no_clicks]),
            "ranker": np.array(names)[sessions.rankers[every_session]],
            "randomised": sessions.is_shuffled[every_session],
        }
    )
    others = _columns_of_documents(labelled, attraction).iloc[every]
    return Rows(
        frame, others.reset_index(drop=True), lambda row: f"simulated log, row {row}"
    )


def _candidates(
    sessions: Sessions, labelled: RankingDataset
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns documents that the first session of their query does not show, and these sessions."""
    queries, firsts = np.unique(sessions.queries, return_index=True)
    session_of_query = np.full(labelled.num_queries, NOTHING)
    session_of_query[queries] = firsts
    sessions_of_rows = session_of_query[labelled.query_of_document]
    is_hidden = sessions_of_rows != NOTHING
    of_firsts = sessions.documents[firsts]
    is_hidden[of_firsts[of_firsts != NOTHING]] = False
    hidden = np.flatnonzero(is_hidden)
    return hidden, sessions_of_rows[hidden]


def _with_own_names(labelled: RankingDataset) -> RankingDataset:
    """Returns the data in which no feature has the name of a kept column of the log, such as clicks."""
    taken = (CLICKS, CORRECTED, MODELLED, TRUTH, ATTRACTION)
    new = {
        name: f"feature_{name}" if name in taken else name
        for name in labelled.feature_names
    }
    categories = {new[name]: values for name, values in labelled.categories.items()}
    return labelled.with_fields(
        feature_names=tuple(new.values()), categories=categories
    )


def _names_of_documents(labelled: RankingDataset) -> NDArray[np.str_]:
    """Returns (D,), the ids of the documents, or else their numbers in the query."""
    if labelled.document_ids is not None:
        return labelled.document_ids
    starts = labelled.query_start[labelled.query_of_document]
    numbers = np.arange(labelled.num_documents) - starts
    return numbers.astype(np.str_)


def _columns_of_documents(labelled: RankingDataset, attraction: Values) -> pd.DataFrame:
    """Returns features, kept columns, and the truth."""
    frame = labelled.to_frame()
    columns = [*labelled.feature_names, *labelled.kept]
    others = frame[columns].assign(**{TRUTH: labelled.labels, ATTRACTION: attraction})
    for name in labelled.categories:
        cells = others[name].astype(object)
        others[name] = cells.where(cells.notna(), "")
    return others
