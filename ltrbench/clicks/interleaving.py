"""Interleaving: two rankers in one list, compared by the clicks on the documents of each.

    team_draft           draws lists: in each round both rankers place a document, in random order
    read_interleaved     reads a log: the outcome of each session with a click
    Preference           (wins + ties / 2) / n - 1 / 2, with its interval, and one for continuous looking
    plan                 the preference to expect, from judged queries and simulated clicks

A session is one shown list. It is a win of the first ranker if its documents have more clicks, and a tie if
both have as many. Sessions of a query are not independent, so that the variance is that of a cluster sample
by query.

Radlinski, Kurup and Joachims, 2008, "How Does Clickthrough Data Reflect Retrieval Quality?" (team draft);
Joachims, 2003, "Evaluating Retrieval Performance Using Clickthrough Data" (balanced interleaving);
Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, 2024, "Time-uniform central limit theory and asymptotic
confidence sequences".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy
from numpy.typing import NDArray

from ltrbench.clicks.log import ROLES as ROLES_OF_LOG
from ltrbench.clicks.propensities import total
from ltrbench.clicks.rows import Codes, Rows
from ltrbench.clicks.simulation import CLICK_MODELS, ClickModel, Users, pbm
from ltrbench.clicks.ubi import is_ubi
from ltrbench.data.tables import open_table
from ltrbench.errors import (
    ConfigError,
    DataError,
    did_you_mean,
    require,
    require_choice,
)
from ltrbench.shapes import Values
from ltrbench.statistics import LEVEL, Interval, PairedSample, system_intervals
from ltrbench.statistics.paired import effective_size
from ltrbench.statistics.planning import POWER

if TYPE_CHECKING:
    import pandas as pd

WIN = 1.0
TIE = 0.5
LOSS = 0.0
PLANNED = 1000
"""Sessions for which the sequence is narrowest, unless the user names another number."""
NOT_FILLED = -1
"""Document of a place that a list of team draft does not have."""

ROLES: Mapping[str, tuple[str, ...]] = {
    "session": (*ROLES_OF_LOG["session"], "search_id"),
    "query": ROLES_OF_LOG["query"],
    "position": ROLES_OF_LOG["position"],
    "click": ROLES_OF_LOG["click"],
    "event": ("event",),
    "team": (*ROLES_OF_LOG["team"], "ranking_function"),
    "credit": ("credit",),
    "rank_a": ("rank_a",),
    "rank_b": ("rank_b",),
}
"""Role -> default names of its column."""
_Columns = Mapping[str, str]
"""Role -> column."""
_NUMBERS = ("position", "credit", "rank_a", "rank_b")
_EMPTY = ("", "na", "nan", "none")


# ---- Team draft.


def team_draft(
    first: Values, second: Values, depth: int, rng: np.random.Generator
) -> tuple[Codes, NDArray[np.bool_]]:
    """Draws S lists of at most `depth` documents.

    In each round a coin decides which ranker places its best document that is not in the list, and then the
    other one does. A list ends when a ranker has no document left.

    Args:
        first, second: (S, D), rank of each document by each ranker; infinite: not in its list.

    Returns:
        (S, depth) documents, `NOT_FILLED` after the end of a list, and whether the second ranker placed each.
    """
    left = np.stack([first, second]).astype(np.float64)
    sessions = np.arange(len(first))
    documents = np.full((len(first), depth), NOT_FILLED)
    is_second = np.zeros((len(first), depth), dtype=np.bool_)
    is_open = np.ones(len(first), dtype=np.bool_)
    turn = np.zeros(len(first), dtype=np.int64)
    for position in range(depth):
        turn = 1 - turn
        if position % 2 == 0:
            turn = rng.integers(2, size=len(first))
        ranks = left[turn, sessions]
        chosen = ranks.argmin(axis=1)
        is_open &= np.isfinite(ranks[sessions, chosen])
        documents[is_open, position] = chosen[is_open]
        is_second[:, position] = is_open & (turn == 1)
        left[:, sessions, chosen] = np.inf
    return documents, is_second


# ---- Outcomes of sessions.


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcomes:
    """Outcomes of S sessions with a click, in the order of the log.

    Attributes:
        queries: (S,) code of the query of each session.
        values: (S,), `WIN` or `LOSS` of the first team, or `TIE`.
        num_sessions: number of sessions of the log, with or without a click.
        has_queries: whether the log names queries; otherwise each session is its own.
        method: team, credit or balanced: the columns that say to whom a click belongs.
    """

    queries: Codes
    values: Values
    num_sessions: int
    has_queries: bool = True
    method: str = "team"


def outcomes_of_credits(credits_of_sessions: Values) -> Values:
    """Returns the outcome of sessions: the sign of the clicks of the first team minus those of the second.

    >>> outcomes_of_credits(np.array([2.0, 0.0, -1.0])).tolist()
    [1.0, 0.5, 0.0]
    """
    outcomes: Values = (np.sign(credits_of_sessions) + 1) / 2
    return outcomes


def balanced_credits(
    sessions: Codes, positions: Values, rank_a: Values, rank_b: Values
) -> Values:
    """Returns the credit of each click in lists of balanced interleaving.

    With the lowest click c of a list and k = min(rank_a(c), rank_b(c)), a click counts for each ranker that
    has its document among its first k (Joachims, 2003). It prefers a ranker for a shifted list: if B's
    list is A's with the first document moved to the end, random clicks favour B.

    Args:
        sessions, positions, rank_a, rank_b: (C,), of each click; an infinite rank: not in the list.
    """
    order = np.lexsort((positions, sessions))
    num_sessions = sessions.max(initial=-1) + 1
    lowest = np.zeros(num_sessions, dtype=np.int64)
    lowest[sessions[order]] = order  # the last one of a session stays
    best = np.minimum(rank_a, rank_b)
    within = best[lowest[sessions]]
    of_a = (rank_a <= within).astype(np.float64)
    return of_a - (rank_b <= within)


def read_interleaved(
    path: Path,
    columns: Mapping[str, str] | None = None,
    teams: tuple[str, str] = ("A", "B"),
) -> Outcomes:
    """Reads a log of interleaved lists, with one row for each document or for each event.

    The columns are session, query (optional), and click (0 or 1) or event (`click`, or another one); and
    team, the ranker that placed the document, or credit, a number above 0 for the first team and below 0 for
    the second, or rank_a, rank_b and position of balanced interleaving.

    Args:
        columns: role -> column; absent: the default names in `ROLES`.
        teams: names of the two teams.

    Raises:
        DataError: A column is missing, a cell is invalid, or the log has one session, one team or no click.
    """
    if not path.exists():
        raise DataError(f"{path} does not exist; check the path of the log.")
    if is_ubi(path):
        raise DataError(
            f"{path}: events of User Behavior Insights do not say which ranker placed a document; write "
            "session, query, document, click and team to a CSV or Parquet table."
        )
    rows, by_role = _read_rows(path, columns or {})
    sessions, _ = rows.coded("session")
    num_sessions = int(sessions.max()) + 1
    if num_sessions < 2:
        raise DataError(
            f"{path}: the log has one session; a preference needs many shown lists."
        )
    queries = _queries_of_sessions(rows, sessions)
    clicked = np.flatnonzero(_are_clicks(rows))
    method = _method(str(path), by_role)
    if method == "team":
        credits_of_rows = _credits_of_teams(rows, teams)
        clicked = clicked[credits_of_rows[clicked] != 0]
    elif method == "credit":
        credits_of_rows = _numbers(rows, "credit")
    else:
        clicked = clicked[_are_in_a_list(rows)[clicked]]
        credits_of_rows = _credits_of_ranks(rows, sessions, clicked)
    if not len(clicked):
        raise DataError(
            f"{path}: no document with a team was clicked; a preference needs clicks."
        )
    with_click, of_click = np.unique(sessions[clicked], return_inverse=True)
    totals = total(of_click, credits_of_rows[clicked], len(with_click))
    return Outcomes(
        queries=queries[with_click],
        values=outcomes_of_credits(totals),
        num_sessions=num_sessions,
        has_queries="query" in by_role,
        method=method,
    )


def _read_rows(path: Path, given: _Columns) -> tuple[Rows, _Columns]:
    """Returns the columns of a log by their roles, and role -> column."""
    unknown = [role for role in given if role not in ROLES]
    if unknown:
        hint = did_you_mean(unknown[0], ROLES)
        raise ConfigError(
            f"--column {unknown[0]}: there is no such role{hint} Roles are {', '.join(ROLES)}."
        )
    table = open_table(path)
    by_role: dict[str, str] = {}
    for role, usual in ROLES.items():
        names = [*usual]
        if role in given:
            names = [given[role]]
        present = [name for name in names if name in table.columns]
        if present:
            by_role[role] = present[0]
        elif role == "session" or role in given:
            raise _no_column(str(path), role, names, table.columns)
    if "click" not in by_role and "event" not in by_role:
        raise _no_column(str(path), "click", ROLES["click"], table.columns)
    texts = [name for role, name in by_role.items() if role not in _NUMBERS]
    numbers = [name for role, name in by_role.items() if role in _NUMBERS]
    read = table.rows(texts, numbers)
    columns = list(by_role.values())
    frame = read[columns].set_axis(list(by_role), axis=1)
    return Rows(frame, read, table.location), by_role


def _no_column(
    name: str, role: str, names: Sequence[str], columns: Sequence[str]
) -> DataError:
    missing = " or ".join(map(repr, names))
    listed = ", ".join(columns)[:200]
    return DataError(
        f"{name}: the log has no column {missing} ({role}); its columns are {listed}, so name one with "
        f"--column {role}=COLUMN."
    )


def _method(name: str, by_role: Mapping[str, str]) -> str:
    if "team" in by_role or "credit" in by_role:
        return "team" if "team" in by_role else "credit"
    if {"rank_a", "rank_b", "position"} <= by_role.keys():
        return "balanced"
    raise DataError(
        f"{name}: the log has no column 'team', the ranker that placed each document (A or B); log it, or "
        "name the column with --column team=COLUMN."
    )


def _queries_of_sessions(rows: Rows, sessions: Codes) -> Codes:
    """Returns the query of each session; without queries, the session itself."""
    _, firsts = np.unique(sessions, return_index=True)
    if "query" not in rows.frame:
        return np.arange(len(firsts))
    queries, _ = rows.coded("query")
    of_session = queries[firsts]

    def message(row: int) -> str:
        session = rows.shown("session", row)
        before = rows.shown("query", int(firsts[sessions[row]]))
        query = rows.shown("query", row)
        return f"session {session} has the query {query}, and {before} before; number each shown list."

    rows.check(queries == of_session[sessions], message)
    return of_session


_CLICKED = ("1", "1.0", "true", "yes")
_NOT_CLICKED = ("0", "0.0", "false", "no", *_EMPTY)


def _are_clicks(rows: Rows) -> NDArray[np.bool_]:
    if "click" not in rows.frame:
        return (rows.words("event") == "click").to_numpy()
    words = rows.words("click")
    is_known = words.isin([*_CLICKED, *_NOT_CLICKED])
    rows.check(
        is_known.to_numpy(),
        lambda row: f"the click is {rows.shown('click', row)}; write 1 or 0.",
    )
    return words.isin(_CLICKED).to_numpy()


def _credits_of_teams(rows: Rows, teams: tuple[str, str]) -> Values:
    """Returns 1 for a document of the first team, -1 for one of the second, and 0 without a team."""
    words = rows.texts("team")
    is_first = (words == teams[0]).to_numpy()
    is_second = (words == teams[1]).to_numpy()
    is_empty = words.str.lower().isin(_EMPTY).to_numpy()

    def message(row: int) -> str:
        team = rows.shown("team", row)
        return (
            f"the team is {team}; write {teams[0]} or {teams[1]}, or name the two teams with --teams "
            "NAME,NAME."
        )

    rows.check(is_first | is_second | is_empty, message)
    for name, present in zip(teams, (is_first, is_second), strict=True):
        if not present.any():
            raise DataError(
                f"{rows.location(0)}: no row has the team {name}; log the documents of both rankers."
            )
    return is_first.astype(np.float64) - is_second


def _are_in_a_list(rows: Rows) -> NDArray[np.bool_]:
    """Returns whether a ranker has the document of each row; an advertisement is in neither list."""
    ranks = np.minimum(_numbers(rows, "rank_a"), _numbers(rows, "rank_b"))
    return np.isfinite(ranks)


def _credits_of_ranks(rows: Rows, sessions: Codes, clicked: Codes) -> Values:
    values = np.zeros(len(sessions))
    has_place = np.ones(len(sessions), dtype=np.bool_)
    has_place[clicked] = ~np.isnan(_numbers(rows, "position")[clicked])
    rows.check(
        has_place,
        lambda row: "a click without a position; write where the document was shown.",
    )
    positions = _numbers(rows, "position")[clicked]
    rank_a = _numbers(rows, "rank_a")[clicked]
    rank_b = _numbers(rows, "rank_b")[clicked]
    values[clicked] = balanced_credits(sessions[clicked], positions, rank_a, rank_b)
    return values


def _numbers(rows: Rows, role: str) -> Values:
    """Returns the numbers of a column."""
    import pandas as pd

    cells = rows.frame[role]
    numbers = pd.to_numeric(cells, errors="coerce")
    numbers = numbers.where(np.isfinite(numbers))
    is_empty = rows.words(role).isin(_EMPTY)
    rows.check(
        (numbers.notna() | is_empty).to_numpy(),
        lambda row: f"the {role} is {rows.shown(role, row)}; write a number.",
    )
    return numbers.fillna(_IF_EMPTY[role]).to_numpy(np.float64)


_IF_EMPTY = {
    "credit": 0.0,
    "position": math.nan,
    "rank_a": math.inf,
    "rank_b": math.inf,
}
"""Role -> number of an empty cell: no credit, no position, not in the list."""


# ---- The preference, and its intervals.


@dataclass(frozen=True, eq=False)
class Preference:
    """Preference for the first of two rankers, between -1/2 and 1/2.

    Attributes:
        wins, losses, ties: numbers of sessions.
        sample: the mean outcome of each query minus 1/2, with its number of sessions as weight.
    """

    wins: int
    losses: int
    ties: int
    sample: PairedSample

    @classmethod
    def of(cls, queries: Codes, values: Values) -> Preference:
        """Returns the preference of sessions.

        Args:
            queries: (S,) code of the query of each session.
            values: (S,) its outcome.
        """
        counts = np.bincount(queries)
        is_present = counts > 0
        sums = np.bincount(queries, values)[is_present]
        sizes = counts[is_present]
        wins = int((values == WIN).sum())
        losses = int((values == LOSS).sum())
        excess = sums / sizes - TIE
        weights = sizes.astype(np.float64)
        sample = PairedSample.of(excess, weights, are_clusters=True)
        return cls(wins, losses, len(values) - wins - losses, sample)

    @property
    def num_sessions(self) -> int:
        return self.wins + self.losses + self.ties

    @property
    def num_queries(self) -> int:
        return self.sample.num_queries

    @property
    def value(self) -> float:
        """(wins + ties / 2) / n - 1 / 2."""
        share = (self.wins + self.ties / 2) / self.num_sessions
        return share - 1 / 2

    @property
    def standard_error(self) -> float:
        """Of the cluster sample by query; NaN for one query."""
        return float(self.sample.standard_errors[0])

    @cached_property
    def interval(self) -> Interval | None:
        """Student's interval of 95 %, for one look; None if the queries are too few or all outcomes equal."""
        if not self.standard_error > 0:
            return None
        return system_intervals(self.sample)[0]

    def always_valid(self, planned: int = PLANNED) -> Interval | None:
        """Returns the interval of 95 % that holds at all looks together; None as for `interval`."""
        if self.interval is None:
            return None
        half = half_width(self.standard_error, self.num_sessions, planned)
        return Interval(self.value - half, self.value + half, "sequence")

    @property
    def deviation(self) -> float:
        """s_cluster = SE sqrt(n): the standard deviation of a session that includes what queries share."""
        return self.standard_error * math.sqrt(self.num_sessions)


def half_width(
    standard_error: float, num_sessions: int, planned: int, level: float = LEVEL
) -> float:
    """Returns half the width of the asymptotic confidence sequence.

        SE sqrt(2 (t r^2 + 1) / (t r^2) log(sqrt(t r^2 + 1) / level))
        r^2 = (-2 log(level) + log(-2 log(level)) + 1) / planned

    It holds at all numbers of sessions t together, and is narrowest about the planned number, which must not
    be changed between looks (Waudby-Smith et al., 2024, theorem 2.2 and appendix B.2).
    """
    wanted = -2 * math.log(level)
    squared = (wanted + math.log(wanted) + 1) / planned
    ratio = num_sessions * squared
    growth = math.log(math.sqrt(ratio + 1) / level)
    quantile = math.sqrt(2 * (ratio + 1) / ratio * growth)
    return standard_error * quantile


def sessions_needed(
    difference: float, deviation: float, power: float = POWER, level: float = LEVEL
) -> int:
    """Returns the number of sessions with a click, ((z_(1 - level/2) + z_power) s / d)^2, for one look.

    >>> sessions_needed(0.02, 0.5)
    4906
    """
    of_level = scipy.special.ndtri(1 - level / 2)
    quantiles = of_level + scipy.special.ndtri(power)
    errors = float(quantiles) * deviation / abs(difference)
    return math.ceil(errors**2)


# ---- Lists of two rankers, from their scores.

_ScoresOfQuery = Mapping[str, float]
Run = Mapping[str, _ScoresOfQuery]
"""Query -> document -> score, higher is ranked earlier."""


@dataclass(frozen=True, eq=False)
class Pool:
    """The first documents of two rankers on a query.

    Attributes:
        documents: D names.
        ranks: (2, D), rank by each ranker, from 0; infinite: not among its first documents.
    """

    documents: Sequence[str]
    ranks: Values

    @classmethod
    def of(cls, first: _ScoresOfQuery, second: _ScoresOfQuery, depth: int) -> Pool:
        lists = [_first_documents(scores, depth) for scores in (first, second)]
        documents = list(dict.fromkeys(itertools.chain(*lists)))
        ranks = np.full((2, len(documents)), np.inf)
        for of_ranker, ranked in zip(ranks, lists, strict=True):
            places = [documents.index(name) for name in ranked]
            of_ranker[places] = np.arange(len(ranked))
        return cls(documents, ranks)


def _first_documents(scores: _ScoresOfQuery, depth: int) -> list[str]:
    return sorted(scores, key=lambda name: -scores[name])[:depth]


def pools_of(first: Run, second: Run, depth: int) -> dict[str, Pool]:
    """Returns the pool of each query that both rankers have.

    Raises:
        DataError: There is no such query.
    """
    require("--depth", depth, at_least=1)
    pools = {}
    for query, scores in first.items():
        if query in second:
            pools[query] = Pool.of(scores, second[query], depth)
    if not pools:
        of_first = next(iter(first), "")
        of_second = next(iter(second), "")
        raise DataError(
            f"the rankers have no query in common: the first query is {of_first!r} in one and {of_second!r} "
            "in the other; score the same queries."
        )
    return pools


def lists_of(
    pools: Mapping[str, Pool], depth: int, num_lists: int, seed: int
) -> pd.DataFrame:
    """Returns lists of team draft, with the columns query, list, position, document and team (A or B)."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    parts = []
    for query, pool in pools.items():
        first = np.repeat(pool.ranks[:1], num_lists, axis=0)
        second = np.repeat(pool.ranks[1:], num_lists, axis=0)
        documents, is_second = team_draft(first, second, depth, rng)
        is_filled = documents != NOT_FILLED
        numbers, positions = np.nonzero(is_filled)
        columns = {
            "query": query,
            "list": numbers,
            "position": positions,
            "document": np.array(pool.documents)[documents[is_filled]],
            "team": np.where(is_second[is_filled], "B", "A"),
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


# ---- Planning: simulated clicks on judged queries.

LOWEST = 0.1
HIGHEST = 0.9
"""Attraction of a document of label 0, and of the highest label, in simulated clicks."""
_SESSIONS_OF_PILOT = 20_000
"""Minimum number of simulated sessions of a plan."""


def simulated_outcomes(
    ranks: Values,
    attraction: Values,
    depth: int,
    rng: np.random.Generator,
    click_model: ClickModel = pbm,
) -> Values:
    """Returns (S,) outcomes of simulated sessions; NaN without a click.

    Args:
        ranks: (2, S, D), as in `team_draft`.
        attraction: (S, D).
    """
    documents, is_second = team_draft(ranks[0], ranks[1], depth, rng)
    placed = np.maximum(documents, 0)
    of_places = np.take_along_axis(attraction, placed, axis=1)
    of_places[documents == NOT_FILLED] = np.nan
    are_clicked = click_model(of_places, Users(), rng)
    of_teams = np.where(is_second, -1, 1) * are_clicked
    outcomes = outcomes_of_credits(of_teams.sum(axis=1))
    outcomes[~are_clicked.any(axis=1)] = np.nan
    return outcomes


@dataclass(frozen=True, eq=False)
class Plan:
    """Simulated sessions of two rankers on judged queries.

    Attributes:
        preference: of the simulated sessions.
        clicked_share: share of the sessions with a click.
    """

    preference: Preference
    clicked_share: float

    @property
    def correlation(self) -> float:
        """Correlation of two sessions of a query: (s_cluster^2 / s^2 - 1) / (m - 1), for m sessions a query.

        m is the mean over sessions, sum_q n_q^2 / n (Kish, 1965, "Survey Sampling", 5.4). If no query has two
        sessions, it is 0.
        """
        preference = self.preference
        num_queries = effective_size(preference.sample.weights)
        excess = preference.num_sessions / num_queries - 1
        if excess <= 0:
            return 0.0
        ratio = preference.deviation**2 / self._variance
        return min(max((ratio - 1) / excess, 0.0), 1.0)

    @property
    def _variance(self) -> float:
        """Variance of the outcome of one session."""
        preference = self.preference
        squares = (preference.wins + preference.losses) / 4
        return squares / preference.num_sessions - preference.value**2

    def deviation(self, sessions_per_query: float) -> float:
        """Returns s_cluster with another number of sessions with a click a query."""
        growth = 1 + (sessions_per_query - 1) * self.correlation
        return math.sqrt(self._variance * growth)


def plan(
    pools: Mapping[str, Pool],
    labels: Mapping[str, Mapping[str, float]],
    depth: int,
    seed: int,
    click_model: str = "pbm",
) -> Plan:
    """Simulates sessions of two rankers; the queries are equally likely.

    Args:
        labels: query -> document -> label, 0 if absent.
        click_model: a key of `CLICK_MODELS`.

    Raises:
        DataError: No document has a label above 0.
        ConfigError: There is no such click model.
    """
    require_choice("--click-model", click_model, CLICK_MODELS)
    attraction_of = _Attraction.of(labels)
    width = max(len(pool.documents) for pool in pools.values())
    ranks = np.full((2, len(pools), width), np.inf)
    attraction = np.zeros((len(pools), width))
    for number, (query, pool) in enumerate(pools.items()):
        size = len(pool.documents)
        ranks[:, number, :size] = pool.ranks
        attraction[number, :size] = attraction_of.documents(query, pool.documents)
    rng = np.random.default_rng(seed)
    # As many sessions as queries, so that many queries have two, and their correlation is known.
    num_sessions = max(_SESSIONS_OF_PILOT, len(pools))
    queries = rng.integers(len(pools), size=num_sessions)
    outcomes = simulated_outcomes(
        ranks[:, queries], attraction[queries], depth, rng, CLICK_MODELS[click_model]
    )
    is_clicked = ~np.isnan(outcomes)
    preference = Preference.of(queries[is_clicked], outcomes[is_clicked])
    return Plan(preference, float(is_clicked.mean()))


@dataclass(frozen=True)
class _Attraction:
    """Attraction of documents with labels: the gain 2^label - 1, from `LOWEST` to `HIGHEST`."""

    labels: Mapping[str, Mapping[str, float]]
    largest: float

    @classmethod
    def of(cls, labels: Mapping[str, Mapping[str, float]]) -> _Attraction:
        largest = max(max(of_query.values()) for of_query in labels.values())
        if largest > 0:
            return cls(labels, largest)
        raise DataError("no document has a label above 0; a plan needs judged queries.")

    def documents(self, query: str, names: Sequence[str]) -> Values:
        of_query = self.labels.get(query, {})
        labels = np.array([of_query.get(name, 0.0) for name in names])
        scale = (2**labels - 1) / (2**self.largest - 1)
        attraction: Values = LOWEST + (HIGHEST - LOWEST) * scale
        return attraction
