"""Estimators: the expected clicks of a ranking, from the log of other rankings, as values per query.

A ranker puts document d of query q at rank r(d), and V = (1 / N) sum over sessions of sum_d lambda(r(d))
g_qd. With lambda = theta this is the number of clicks a session; with the discount, a DCG of attractions.

    IPS      T_q = sum over the clicks of q of lambda(r(d)) / theta(shown), V = sum_q T_q / N
    SNIPS    sum_q T_q / sum_q S_q, where S_q = sum over the clicks of q of 1 / theta(shown)
    clipped  IPS with the weights min(1 / theta, tau), which is biased; shown beside, never claimed

A value per query is T_q / N_q with the weight N_q, the number of sessions of the query. To it is added what
the impressions of the query contributed to the error of theta, and of the divisor of SNIPS. The sum of these
terms is 0 over the queries: the mean stays, and the variance of the values becomes that of the estimate. They
are linear in the values, so that they hold for a difference of two rankers as well.

Joachims, Swaminathan and Schnabel, 2017, "Unbiased Learning-to-Rank with Biased Feedback"; Swaminathan and
Joachims, 2015, "The Self-Normalized Estimator for Counterfactual Learning".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ltrbench.clicks.propensities import total
from ltrbench.data.dataset import Judgments
from ltrbench.data.impressions import Impressions
from ltrbench.errors import DataError
from ltrbench.shapes import PerQuery, Values


@dataclass(frozen=True, eq=False)
class ClickLog:
    """Clicks of a set of queries, with the examination of the positions.

    Attributes:
        query_of_row: (D,), query of each document.
        num_sessions: (Q,), N_q.
    """

    impressions: Impressions
    query_of_row: NDArray[np.int64]
    num_sessions: PerQuery

    @classmethod
    def of(cls, judgments: Judgments) -> ClickLog:
        """Returns the clicks of a data set. Raises DataError if it has no impressions."""
        if judgments.impressions is None:
            raise DataError(
                "a metric of clicks needs a log of clicks: data=clicks data.log=FILE."
            )
        sessions = judgments.query_weights
        if sessions is None:
            sessions = np.ones(judgments.num_queries)
        return cls(judgments.impressions, judgments.query_of_document, sessions)

    @cached_property
    def weights(self) -> Values:
        """(I,), the sum of 1 / theta over the clicks of each row of impressions."""
        given = self.impressions
        weights = np.zeros(len(given))
        is_clicked = given.clicks > 0
        np.divide(given.clicks, given.propensities, out=weights, where=is_clicked)
        return weights

    @cached_property
    def corrected(self) -> Values:
        """(D,), corrected clicks of each document: the mean of c / theta over the sessions of its query."""
        sums = self._of_rows(self.weights)
        return sums / self.num_sessions[self.query_of_row]

    @cached_property
    def clicks_a_session(self) -> Values:
        """(D,), number of clicks on each document, over the sessions of its query."""
        sums = self._of_rows(self.impressions.clicks)
        return sums / self.num_sessions[self.query_of_row]

    def examination_of_ranks(self, num_ranks: int) -> Values:
        """Returns (num_ranks,), theta of each rank; 0 below the last position that was shown.

        Raises:
            DataError: Theta of such a rank is not known.
        """
        theta = np.zeros(num_ranks)
        known = self.impressions.theta[:num_ranks]
        unknown = np.flatnonzero(np.isnan(known))
        if len(unknown):
            raise DataError(
                f"the examination of position {unknown[0]} is not known; use a metric of the first "
                f"{unknown[0]} positions, or log exchanges of this position with others."
            )
        theta[: len(known)] = known
        return theta

    def values(self, gains: Values, gradient: Values) -> PerQuery:
        """Returns (Q,), IPS with the influence of theta.

        Args:
            gains: (D,), lambda of the rank of each document.
            gradient: (K,), derivative of sum_q T_q by log theta through lambda.
        """
        given = self.impressions
        terms = gains[given.rows] * self.weights
        through = total(given.positions, terms, given.num_positions)
        errors = given.influence @ (gradient - through)
        return (self._of_queries(terms) + errors) / self.num_sessions

    def self_normalised(self, gains: Values, gradient: Values) -> PerQuery:
        """Returns (Q,), SNIPS with the influence of theta and of the divisor."""
        values = self.values(gains, gradient)
        ones = np.ones_like(gains)
        divisors = self.values(ones, np.zeros_like(gradient))
        mean, divisor = self._means(values, divisors)
        if divisor == 0:
            raise DataError("the log has no click; a metric of clicks needs some.")
        ratio = mean / divisor
        residuals = values - ratio * divisors
        return ratio + residuals / divisor

    def clipped(self, gains: Values, tau: float) -> PerQuery:
        """Returns (Q,), IPS with the weights min(1 / theta, tau)."""
        weights = np.minimum(self.weights, tau * self.impressions.clicks)
        terms = gains[self.impressions.rows] * weights
        return self._of_queries(terms) / self.num_sessions

    def _means(self, *values: PerQuery) -> list[float]:
        total = self.num_sessions.sum()
        return [float((of * self.num_sessions).sum() / total) for of in values]

    def _of_rows(self, values: Values) -> Values:
        num_rows = len(self.query_of_row)
        return total(self.impressions.rows, values, num_rows)

    def _of_queries(self, values: Values) -> PerQuery:
        queries = self.query_of_row[self.impressions.rows]
        return total(queries, values, len(self.num_sessions))


_LOGS: WeakKeyDictionary[Judgments, ClickLog] = WeakKeyDictionary()


def log_of(judgments: Judgments) -> ClickLog:
    """Returns the clicks of a data set; what does not depend on a ranking is computed once."""
    if judgments not in _LOGS:
        _LOGS[judgments] = ClickLog.of(judgments)
    return _LOGS[judgments]
