"""Propensities: the probability theta_k that a position k is examined, relative to position 0.

METHODS names the estimators. Each returns an `Examination`, which also knows how much each impression
contributed to theta, so that intervals of what is divided by theta can include its error.

In the formulas, d is a query and document, n_dk how often it was shown at position k, c_dk how often it was
clicked there, and C_d = sum_k c_dk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.impressions import Impressions
from ltrbench.errors import ConfigError, DataError, did_you_mean
from ltrbench.shapes import PerQuery, Values
from ltrbench.tables import listed

if TYPE_CHECKING:
    from scipy.sparse import csr_array

HARVEST = "harvest"
COLUMN = "column"
RANDOM = "random"
EM = "em"
POWER = "power"
METHODS = (HARVEST, COLUMN, RANDOM, EM, POWER)

FEWEST_CLICKS = 30
"""Minimum number of clicks at each position for `random`."""

_LARGEST_ETA = 10
"""Largest exponent of `power`, so that all examinations are above 0."""

_ITERATIONS = 100
"""Maximum number of Newton steps of `harvest`, which needs about ten."""
_ITERATIONS_OF_EM = 500
_TOLERANCE = 1e-12
_LONGEST_STEP = 2.0
"""Maximum change of log theta in a Newton step."""
_MOST_LISTED = 4


def total(codes: NDArray[np.int64], values: Values, size: int) -> Values:
    """Returns (size,), the sum of the values of each code."""
    sums = np.bincount(codes, values, size)
    return sums.astype(np.float64)


class Examination(ABC):
    """Estimated examination of K positions.

    Attributes:
        impressions: those that it was estimated from.
        theta: (K,), theta_0 is 1; 0 where nothing was shown; NaN where the log does not identify it.
    """

    impressions: Impressions
    theta: Values
    is_claimed = True
    """Whether a claim may rest on it."""

    @property
    def propensities(self) -> Values:
        """(I,), the examination of each impression."""
        return self.theta[self.impressions.positions]

    @abstractmethod
    def influence(self, gradient: Values) -> Values:
        """Returns (I,), the influence of each impression on gradient . log theta; the sum is 0.

        Args:
            gradient: (K,), derivative of a statistic with respect to log theta.
        """


@dataclass(frozen=True, eq=False)
class Known(Examination):
    """Given propensities (`column`, `power`), without an error of estimation."""

    impressions: Impressions
    theta: Values
    given: Values | None = None
    """(I,), propensities that differ within a position."""

    @property
    def propensities(self) -> Values:
        if self.given is not None:
            return self.given
        return super().propensities

    def influence(self, gradient: Values) -> Values:
        return np.zeros(len(self.impressions))


@dataclass(frozen=True, eq=False)
class Expected(Known):
    """Theta of regression EM, which rests on the model of attraction, and carries no claim."""

    is_claimed = False


@dataclass(frozen=True, eq=False)
class Random(Examination):
    """theta_k = CTR_k / CTR_0 of randomised lists.

    The influence of an impression at position k on log CTR_k is (c - n CTR_k) / sum_d c_dk.
    """

    impressions: Impressions
    theta: Values
    clicks: Values
    shown: Values

    def influence(self, gradient: Values) -> Values:
        logs = np.array(gradient)
        logs[0] = -gradient[1:].sum()
        given = self.impressions
        rates = self.clicks / np.maximum(self.shown, 1)
        at = given.positions
        excess = given.clicks - given.shown * rates[at]
        clicks = np.maximum(self.clicks, 1)[at]
        terms = logs[at] * excess / clicks
        return np.where(given.is_randomised, terms, 0.0)


@dataclass(frozen=True, eq=False)
class Harvest(Examination):
    """Theta that solves, for every position k,

        sum_d c_dk = sum_d C_d p_dk        with p_dk = n_dk theta_k / sum_j n_dj theta_j

    Given the clicks C_d of a document, its attraction cancels: the clicks are multinomial with
    probabilities p_dk. The logarithm of this likelihood is concave in log theta. AllPairs (Agarwal et
    al., 2019, "Estimating Position Bias without Intrusive Interventions") rests on the same idea.

    The influence of a click of d at position k on log theta is J^-1 (e_k - p_d), where J is the negative
    Hessian, sum_d C_d (diag(p_d) - p_d p_d').
    """

    impressions: Impressions
    theta: Values

    @cached_property
    def _clicked(self) -> _Clicked:
        with_clicks = np.flatnonzero(self.theta > 0)
        return _Clicked.of(self.impressions).at(with_clicks)

    @cached_property
    def _information(self) -> Values:
        return self._clicked.score_and_information(self.theta)[1]

    @property
    def share_of_clicks(self) -> float:
        """Share of the clicks on documents that were shown at several positions."""
        total = self.impressions.clicks.sum()
        return float(self._clicked.clicks.sum() / max(total, 1.0))

    def influence(self, gradient: Values) -> Values:
        with_clicks = np.flatnonzero(self.theta > 0)
        free = with_clicks[1:]
        direction = np.zeros(len(self.theta))
        inside = self._information[np.ix_(free, free)]
        direction[free] = np.linalg.solve(inside, gradient[free])
        clicked = self._clicked
        weights = clicked.shown * np.nan_to_num(self.theta)[clicked.positions]
        sums = clicked.of_units(weights)
        means = clicked.of_units(weights * direction[clicked.positions]) / sums
        apart = direction[clicked.positions] - means[clicked.units]
        terms = np.zeros(len(self.impressions))
        terms[clicked.chosen] = clicked.clicks * apart
        return terms


@dataclass(frozen=True, eq=False)
class _Clicked:
    """Impressions of U documents with a click that were shown at several positions.

    Attributes:
        chosen: (n,), their places in the impressions.
        units: (n,), number of the document, from 0 to U - 1.
    """

    chosen: NDArray[np.int64]
    units: NDArray[np.int64]
    positions: NDArray[np.int64]
    shown: Values
    clicks: Values
    num_units: int
    num_positions: int

    @classmethod
    def of(cls, given: Impressions) -> _Clicked:
        num_units = int(given.units.max(initial=-1)) + 1
        used = given.is_compared
        clicks = total(given.units[used], given.clicks[used], num_units)
        first = np.full(num_units, given.num_positions)
        last = np.full(num_units, -1)
        np.minimum.at(first, given.units[used], given.positions[used])
        np.maximum.at(last, given.units[used], given.positions[used])
        is_informative = (clicks > 0) & (first < last)
        chosen = np.flatnonzero(used & is_informative[given.units])
        distinct, units = np.unique(given.units[chosen], return_inverse=True)
        return cls(
            chosen=chosen,
            units=units,
            positions=given.positions[chosen],
            shown=given.shown[chosen],
            clicks=given.clicks[chosen],
            num_units=len(distinct),
            num_positions=given.num_positions,
        )

    def at(self, positions: NDArray[np.int64]) -> _Clicked:
        """Returns the impressions at some positions."""
        kept = np.isin(self.positions, positions)
        columns = ("chosen", "units", "positions", "shown", "clicks")
        chosen = {name: getattr(self, name)[kept] for name in columns}
        return replace(self, **chosen)

    def of_units(self, values: Values) -> Values:
        """Returns (U,), the sum of (n,) values of each document."""
        return total(self.units, values, self.num_units)

    @cached_property
    def clicks_of_unit(self) -> Values:
        return self.of_units(self.clicks)

    def shares(self, theta: Values) -> Values:
        """Returns (n,), n_dk theta_k / sum_j n_dj theta_j."""
        weights = self.shown * theta[self.positions]
        return weights / self.of_units(weights)[self.units]

    def log_likelihood(self, logs: Values) -> float:
        """Returns the multinomial log-likelihood of log theta, without its constant."""
        weights = self.shown * np.exp(logs)[self.positions]
        total = (self.clicks * logs[self.positions]).sum()
        of_units = self.clicks_of_unit * np.log(self.of_units(weights))
        return float(total - of_units.sum())

    def score_and_information(self, theta: Values) -> tuple[Values, Values]:
        """Returns the derivatives of the log-likelihood by log theta, (K,), and minus the second ones."""
        from scipy.sparse import coo_array  # a tenth of a second to import

        shares = self.shares(np.nan_to_num(theta))
        expected = self.clicks_of_unit[self.units] * shares
        num = self.num_positions
        totals = total(self.positions, expected, num)
        clicks = total(self.positions, self.clicks, num)
        roots = np.sqrt(self.clicks_of_unit)[self.units]
        cells = (self.units, self.positions)
        shape = (self.num_units, num)
        matrix = coo_array((roots * shares, cells), shape).tocsr()
        products = (matrix.T @ matrix).toarray()
        return clicks - totals, np.diag(totals) - products


def estimate(impressions: Impressions, method: str = HARVEST) -> Examination:
    """Returns the examination by an estimator.

    Raises:
        ConfigError: The estimator is not known.
        DataError: The log does not identify theta.
    """
    check_method(method)
    name, _, parameter = method.partition(":")
    if not len(impressions):
        raise DataError("the log has no list with positions; log what was shown where.")
    match name:
        case "column":
            return _known(impressions)
        case "power":
            return power(impressions, float(parameter))
        case "random":
            return random_lists(impressions)
        case "em":
            return expected(impressions)
    return harvest(impressions)


def _are_shown(given: Impressions) -> NDArray[np.bool_]:
    """Returns (K,), whether a document was shown at each position; a list can have gaps, such as a place for
    advertisements, where theta is 0."""
    return total(given.positions, given.shown, given.num_positions) > 0


def check_method(method: str) -> None:
    """Raises ConfigError if an estimator is unknown, or `power` has no exponent from 0 to 10."""
    name, _, parameter = method.partition(":")
    if name not in METHODS or (parameter and name != POWER):
        raise ConfigError(
            f"data.propensity is {method!r}{did_you_mean(name, METHODS)} The estimators are "
            f"{', '.join(METHODS[:-1])} and power:1."
        )
    if name != POWER:
        return
    try:
        is_valid = 0 <= float(parameter) <= _LARGEST_ETA
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ConfigError(
            f"data.propensity is {method!r}; write power:ETA with ETA from 0 to {_LARGEST_ETA}, such as "
            "power:1."
        )


def _known(given: Impressions) -> Known:
    """Returns the propensities of a column, over their mean at position 0.

    Theta_k is their mean at position k over that at position 0: within a position they may differ, as between
    devices.
    """
    values = given.propensities
    is_valid = (values > 0) & (values <= 1)
    if not is_valid.all():
        wrong = values[~is_valid][0]
        raise DataError(
            f"data.propensity=column: a propensity is {wrong:g}; write the probability of examination, "
            "above 0 and at most 1, for every shown document."
        )
    num = given.num_positions
    sums = total(given.positions, given.shown * values, num)
    shown = total(given.positions, given.shown, num)
    means = np.zeros(num)
    np.divide(sums, shown, out=means, where=shown > 0)
    # If no list starts at position 0, theta is relative to the first one.
    first = means[given.positions.min()]
    return Known(given, means / first, values / first)


def power(given: Impressions, eta: float) -> Known:
    """Returns theta_k = (k + 1)^-eta, for an analysis of sensitivity."""
    theta = np.arange(1.0, given.num_positions + 1) ** -eta
    return Known(given, np.where(_are_shown(given), theta, 0.0))


def random_lists(given: Impressions) -> Random:
    """Returns theta_k = CTR_k / CTR_0 of the randomised lists.

    Raises:
        DataError: A position has too few clicks in them.
    """
    chosen = given.is_randomised
    num = given.num_positions
    clicks = total(given.positions[chosen], given.clicks[chosen], num)
    shown = total(given.positions[chosen], given.shown[chosen], num)
    is_needed = _are_shown(given)
    is_needed[0] = True
    few = np.flatnonzero(is_needed & (clicks < FEWEST_CLICKS))
    if len(few):
        position = int(few[0])
        raise DataError(
            f"data.propensity=random: position {position} has {clicks[position]:.0f} clicks in randomised "
            f"lists, and needs {FEWEST_CLICKS}. Log more lists with randomised=true, or use harvest."
        )
    rates = clicks / np.maximum(shown, 1)
    return Random(given, rates / rates[0], clicks, shown)


def harvest(given: Impressions) -> Harvest:
    """Returns the theta that solves the equation of `Harvest`, by Newton's method.

    Raises:
        DataError: The clicks do not compare all positions that have some, so that ratios are not known.
    """
    clicked = _Clicked.of(given)
    compared = _compared(clicked)
    identified = _exchanged(compared)
    _check_exchanged(given, identified)
    clicks = total(clicked.positions, clicked.clicks, clicked.num_positions)
    every = total(given.positions, given.clicks, clicked.num_positions)
    is_needed = every > 0
    is_needed[0] = True
    without = np.flatnonzero(is_needed & (clicks == 0))
    if len(without):
        raise DataError(
            f"data.propensity=harvest: position {without[0]} has no click on a document that was also shown "
            "elsewhere, so its examination is not known. Log more lists."
        )
    with_clicks = np.flatnonzero(clicks > 0)
    _check_both_ways(compared, with_clicks)
    theta = np.where(_are_shown(given), np.nan, 0.0)
    # The most likely examination of a position without a click is 0.
    theta[identified] = 0.0
    logs = _maximised(clicked.at(with_clicks), with_clicks[1:])
    theta[with_clicks] = np.exp(logs[with_clicks])
    return Harvest(given, theta)


def _maximised(clicked: _Clicked, free: NDArray[np.int64]) -> Values:
    """Returns the log theta with the highest likelihood, by Newton's method with halved steps.

    Args:
        free: positions whose log theta is estimated; the others have 0.
    """
    logs = np.zeros(clicked.num_positions)
    best = clicked.log_likelihood(logs)
    for _ in range(_ITERATIONS):
        score, information = clicked.score_and_information(np.exp(logs))
        inside = information[np.ix_(free, free)]
        step: Values = np.linalg.solve(inside, score[free]).astype(np.float64)
        size = np.abs(step).max(initial=0)
        if size > _LONGEST_STEP:
            step *= _LONGEST_STEP / size
        candidate = _moved(logs, free, step)
        while clicked.log_likelihood(candidate) < best and size > _TOLERANCE:
            step /= 2
            size /= 2
            candidate = _moved(logs, free, step)
        logs = candidate
        best = clicked.log_likelihood(logs)
        if size < _TOLERANCE:
            break
    return logs


def _moved(logs: Values, free: NDArray[np.int64], step: Values) -> Values:
    moved = logs.copy()
    moved[free] += step
    return moved


def _compared(clicked: _Clicked) -> csr_array:
    """Returns (K, K), the number of documents that were clicked at a position (row) and shown at another one.

    Without such documents from one group of positions to the others, the likelihood has no maximum: it rises
    with the ratio of their examinations, as in paired comparisons (Ford, 1957, "Solution of a Ranking Problem
    from Binary Comparisons").
    """
    from scipy.sparse import coo_array

    shape = (clicked.num_units, clicked.num_positions)
    ones = np.ones(len(clicked.units))
    shown = coo_array((ones, (clicked.units, clicked.positions)), shape)
    is_click = clicked.clicks > 0
    cells = (clicked.units[is_click], clicked.positions[is_click])
    clicks = coo_array((ones[is_click], cells), shape)
    return clicks.tocsr().T @ shown.tocsr()


def _exchanged(compared: csr_array) -> NDArray[np.int64]:
    """Returns the positions that documents with a click connect with position 0, which is one of them."""
    from scipy.sparse.csgraph import connected_components

    _, components = connected_components(compared, directed=False)
    return np.flatnonzero(components == components[0])


def _check_exchanged(given: Impressions, connected: NDArray[np.int64]) -> None:
    """Raises DataError if clicks are at positions that are not connected with position 0."""
    clicks = total(given.positions, given.clicks, given.num_positions)
    clicks[connected] = 0
    others = np.flatnonzero(clicks > 0)
    if not len(others):
        return
    verb = "was" if len(others) == 1 else "were"
    raise DataError(
        f"data.propensity=harvest: {_named(others)} {verb} never exchanged with {_ranges(connected)}: no "
        "document with a click was shown in both groups, so their examination is not known. "
        f"{_swap(connected, others)}"
    )


def _check_both_ways(compared: csr_array, with_clicks: NDArray[np.int64]) -> None:
    """Raises DataError unless the graph of the positions with clicks is strongly connected."""
    graph = compared[with_clicks][:, with_clicks]
    is_after = _reached(graph)
    is_before = _reached(graph.T)
    if not is_after.all():
        clicked = with_clicks[is_after]
        shown = with_clicks[~is_after]
        swap = _swap(clicked, shown)
    elif not is_before.all():
        clicked = with_clicks[~is_before]
        shown = with_clicks[is_before]
        swap = _swap(shown, clicked)
    else:
        return
    raise DataError(
        f"data.propensity=harvest: no document that was clicked at {_named(clicked)} was also shown at "
        f"{_named(shown)}, so the ratio of their examinations is not known. {swap}"
    )


def _reached(graph: csr_array) -> NDArray[np.bool_]:
    """Returns the nodes that a path from the first one reaches."""
    from scipy.sparse.csgraph import breadth_first_order

    order = breadth_first_order(graph, 0, return_predecessors=False)
    is_reached = np.zeros(graph.shape[0], dtype=np.bool_)
    is_reached[order] = True
    return is_reached


def _named(positions: NDArray[np.int64]) -> str:
    noun = "position" if len(positions) == 1 else "positions"
    return f"{noun} {_ranges(positions)}"


def _swap(connected: NDArray[np.int64], others: NDArray[np.int64]) -> str:
    """Returns what to log, so that other positions are compared with those that are connected with 0."""
    near = connected[connected < others[0]][-1]
    return (
        f"Swap 1 % of the lists between positions {near} and {others[0]}, and log them."
    )


def _ranges(positions: NDArray[np.int64]) -> str:
    """Returns positions in words.

    >>> _ranges(np.array([0, 1, 2, 3, 7, 9, 10]))
    '0 to 3, 7, 9 and 10'
    """
    cuts = np.flatnonzero(np.diff(positions) > 1) + 1
    parts: list[str] = []
    for run in np.split(positions, cuts):
        if len(run) > 2:
            parts.append(f"{run[0]} to {run[-1]}")
        else:
            parts.extend(map(str, run.tolist()))
    if len(parts) > _MOST_LISTED:
        parts = [*parts[:_MOST_LISTED], "others"]
    return listed(parts)


def expected(given: Impressions) -> Expected:
    """Returns theta of the EM of the position-based model, with an attraction for each query and document."""
    examination, _ = expectation_maximisation(given, prior=(0.0, 0.0))
    theta = examination / examination[0]
    return Expected(given, theta)


def expectation_maximisation(
    given: Impressions,
    prior: tuple[float, float] = (1.0, 2.0),
    start: float = 0.5,
    num_iterations: int = _ITERATIONS_OF_EM,
) -> tuple[Values, Values]:
    """Returns examination (K,) and attraction (U,) of the position-based model.

    A step replaces each parameter by (a + sum of its expected values) / (b + number of impressions); that of
    examination is 1 with a click, and theta (1 - g) / (1 - theta g) without one (Chuklin, Markov and de
    Rijke, 2015, "Click Models for Web Search", equations 4.24 and 4.25).

    Args:
        prior: (a, b); PyClick has (1, 2).
        start: first value of each parameter.
        num_iterations: maximum number of steps; they end once no parameter changes.
    """
    theta = np.full(given.num_positions, start)
    num_units = int(given.units.max(initial=-1)) + 1
    attraction = np.full(num_units, start)
    for _ in range(num_iterations):
        examined, attracted = _expected_values(given, theta, attraction)
        last = theta
        theta = _rates(given.positions, examined, given.shown, prior)
        attraction = _rates(given.units, attracted, given.shown, prior)
        if np.abs(theta - last).max() < _TOLERANCE:
            break
    return theta, attraction


def _expected_values(
    given: Impressions, theta: Values, attraction: Values
) -> tuple[Values, Values]:
    """Returns (I,), the expected numbers of examinations and of attractions of each row of impressions."""
    t = theta[given.positions]
    g = attraction[given.units]
    skips = given.shown - given.clicks
    # Where both are 1, all impressions are clicks.
    per_skip = skips / np.maximum(1 - t * g, 1e-300)
    examined = given.clicks + per_skip * (t - t * g)
    attracted = given.clicks + per_skip * (g - t * g)
    return examined, attracted


def _rates(
    codes: NDArray[np.int64],
    numbers: Values,
    shown: Values,
    prior: tuple[float, float],
) -> Values:
    """Returns (a + sum of the numbers) / (b + sum of the impressions) of each code."""
    size = int(codes.max(initial=-1)) + 1
    numerators = total(codes, numbers, size) + prior[0]
    denominators = total(codes, shown, size) + prior[1]
    return numerators / np.maximum(denominators, 1)


# ---- The error of theta in the values per query of a split.


def influence_of_queries(
    examination: Examination, query_of_row: NDArray[np.int64], num_queries: int
) -> Values:
    """Returns (Q, K), the influence of the impressions of each query on log theta."""
    given = examination.impressions
    queries = query_of_row[given.rows]
    influence = np.zeros((num_queries, given.num_positions))
    if isinstance(examination, Known):
        return influence
    for position in range(1, given.num_positions):
        gradient = np.zeros(given.num_positions)
        gradient[position] = 1.0
        terms = examination.influence(gradient)
        influence[:, position] = total(queries, terms, num_queries)
    return influence


def errors_of_log_theta(influence: Values) -> Values:
    """Returns (K,), standard errors of log theta, given the influence of each of Q queries, (Q, K)."""
    num_queries = len(influence)
    if num_queries < 2:
        return np.zeros(influence.shape[1])
    variances = influence.var(axis=0, ddof=1)
    errors: Values = np.sqrt(num_queries * variances)
    return errors


def influence_of_split(
    own: Values, rest: Values, weights: PerQuery, num_lists: float | None
) -> Values:
    """Returns (Q, K), errors of log theta that the queries of a test set stand for; they sum to 0.

    A query of the test set contributes its own influence. The influence of queries outside has the covariance
    matrix sum_c i_c i_c' over their clusters c. It is added as contrasts between the queries of the test set:
    orthogonal directions with this covariance, in a fixed random order, which do not change the mean.

    In a cross-validation each query is in the test set of one fold, but its influence is in the values of all
    folds: it counts as often as the lists of all folds exceed those of its fold, and nothing is added.

    Args:
        own: (Q, K), influence of the queries of the test set on theta.
        rest: (C, K), influence of the other clusters.
        weights: (Q,), numbers of sessions.
        num_lists: number of lists in all folds of a cross-validation; None: one test set.
    """
    if num_lists is not None:
        return _centred(own * (num_lists / weights.sum()), weights)
    moments, directions = np.linalg.eigh(rest.T @ rest)
    num_contrasts = min(len(own) - 1, own.shape[1])
    contrasts = _contrasts(len(own), num_contrasts)
    # The largest moments come last.
    sizes = np.sqrt(np.maximum(moments, 0))[::-1]
    by_size = directions[:, ::-1] * sizes
    roots = by_size[:, :num_contrasts]
    of_rest: Values = contrasts @ roots.T
    return _centred(own, weights) + of_rest


def _centred(values: Values, weights: PerQuery) -> Values:
    shares = weights / weights.sum()
    centred: Values = values - np.outer(shares, values.sum(axis=0))
    return centred


def _contrasts(num_rows: int, num_columns: int) -> Values:
    """Returns (num_rows, num_columns), orthonormal columns that each sum to 0: cosines in a random order."""
    places = np.random.default_rng(0).permutation(num_rows) + 0.5
    frequencies = np.arange(1, num_columns + 1)
    angles = np.pi * np.outer(places, frequencies) / num_rows
    contrasts: Values = np.sqrt(2 / num_rows) * np.cos(angles)
    return contrasts
