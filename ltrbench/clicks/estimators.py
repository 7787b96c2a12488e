"""Estimators: the expected clicks of a ranking, from the log of other rankings, as values per query.

A ranker puts document d of query q at rank r(d), and V = (1 / N) sum over sessions of sum_d lambda(r(d))
g_qd. With lambda = theta this is the number of clicks a session; with the discount, a DCG of attractions.

    IPS      T_q = sum over the clicks of q of lambda(r(d)) / theta(shown), V = sum_q T_q / N
    SNIPS    sum_q T_q / sum_q S_q, where S_q = sum over the clicks of q of 1 / theta(shown)
    aware    IPS with theta(shown) replaced by rho_d = sum over displays of theta / N_q, if some documents
             were not shown in all sessions of their query; the estimate is lambda C_d / rho_d
    clipped  IPS with the weights min(1 / theta, tau), which is biased; shown beside, never claimed

Documents that were never shown have rho_d = 0, and the attraction that a model of features predicts. With
one ranker that shows all documents, aware is IPS. The doubly robust estimator is the sum over sessions of
lambda (g^ + (c - theta g^) / rho): aware for documents that were shown, and the model's g^ for the others.

A value per query is T_q / N_q with the weight N_q, the number of sessions of the query. To it is added what
the impressions of the query contributed to the error of theta, and of the divisor of SNIPS. The sum of these
terms is 0 over the queries: the mean stays, and the variance of the values becomes that of the estimate. They
are linear in the values, so that they hold for a difference of two rankers as well.

Joachims, Swaminathan and Schnabel, 2017, "Unbiased Learning-to-Rank with Biased Feedback"; Swaminathan and
Joachims, 2015, "The Self-Normalized Estimator for Counterfactual Learning"; Oosterhuis and de Rijke, 2020,
"Policy-Aware Unbiased Learning to Rank for Top-k Rankings".
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

MODELLED = "modelled"
"""Kept column of the attraction that a model predicts for documents that were never shown."""


@dataclass(frozen=True, eq=False)
class ClickLog:
    """Clicks of a set of queries, with the examination of the positions.

    Attributes:
        query_of_row: (D,), query of each document.
        num_sessions: (Q,), N_q.
        modelled: (D,), attraction that a model predicts for documents that were never shown, NaN for the
            others; None: no model.
    """

    impressions: Impressions
    query_of_row: NDArray[np.int64]
    num_sessions: PerQuery
    modelled: Values | None = None

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
        modelled = None
        if MODELLED in judgments.kept:
            modelled = judgments.numbers(MODELLED)
        queries = judgments.query_of_document
        return cls(judgments.impressions, queries, sessions, modelled)

    @cached_property
    def weights(self) -> Values:
        """(I,), the sum of 1 / theta, or of 1 / rho, over the clicks of each row of impressions."""
        given = self.impressions
        weights = np.zeros(len(given))
        is_clicked = given.clicks > 0
        np.divide(given.clicks, self._propensities, out=weights, where=is_clicked)
        return weights

    @cached_property
    def is_partial(self) -> bool:
        """Whether a document was not shown in all sessions of its query."""
        shown = self._of_rows(self.impressions.shown)
        return bool((shown < self.num_sessions[self.query_of_row]).any())

    @cached_property
    def _examined(self) -> Values:
        """(D,), rho N_q: the sum of theta over the displays of each document."""
        given = self.impressions
        return self._of_rows(given.shown * np.nan_to_num(given.propensities))

    @property
    def _propensities(self) -> Values:
        """(I,), theta or rho of each row of impressions."""
        if not self.is_partial:
            return self.impressions.propensities
        rho = self._examined / self.num_sessions[self.query_of_row]
        return rho[self.impressions.rows]

    @cached_property
    def _slopes(self) -> Values:
        """(I,), minus the derivative of the sum of weights by log theta at the position of each row."""
        if not self.is_partial:
            return self.weights
        given = self.impressions
        examined = given.shown * np.nan_to_num(given.propensities)
        shares = np.zeros(len(given))
        of_rows = self._examined[given.rows]
        np.divide(examined, of_rows, out=shares, where=examined > 0)
        return self._of_rows(self.weights)[given.rows] * shares

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

    def displays(self) -> tuple[Values, Values]:
        """Returns (D,), the sum of theta over the displays of each document, and its clicks."""
        return self._examined, self._of_rows(self.impressions.clicks)

    def examination_of_ranks(self, num_ranks: int) -> Values:
        """Returns (num_ranks,), theta of each rank; 0 at positions that were never shown.

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
        of_rows = gains[given.rows]
        slopes = of_rows * self._slopes
        through = total(given.positions, slopes, given.num_positions)
        errors = given.influence @ (gradient - through)
        sums = self._of_queries(of_rows * self.weights) + errors
        return sums / self.num_sessions + self.of_model(gains)

    def of_model(self, gains: Values) -> PerQuery:
        """Returns (Q,), the part of the values that is predicted, of documents that were never shown."""
        num_queries = len(self.num_sessions)
        if self.modelled is None:
            return np.zeros(num_queries)
        predicted = np.nan_to_num(self.modelled)
        return total(self.query_of_row, gains * predicted, num_queries)

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


# ---- Model of the attraction of documents that were never shown.

_NUM_FOLDS = 5
_PENALTY = 1.0
"""L2 penalty of the weights of standardised features, in displays."""


def predict_attractions(
    log: ClickLog, features: Values, queries: NDArray[np.int64], seed: int = 0
) -> Values:
    """Returns (D,), attractions that a linear model of the features predicts, from 0 to 1.

    The model is fitted to C_d / rho_d N_q of the documents that were shown, weighted by rho_d N_q, and never
    to the query that it predicts (cross-fitting in five parts).

    Args:
        features: (D, F), NaN for missing, which becomes the mean.
        queries: (D,), number of the query of each document; lists that are sessions share it.
    """
    design = _standardised(features)
    weights, clicks = log.displays()
    rng = np.random.default_rng(seed)
    fold_of_query = rng.integers(_NUM_FOLDS, size=queries.max() + 1)
    folds = fold_of_query[queries]
    predicted = np.zeros(len(features))
    for fold in range(_NUM_FOLDS):
        others = folds != fold
        coefficients = _fitted(design[others], weights[others], clicks[others])
        predicted[~others] = design[~others] @ coefficients
    return np.clip(predicted, 0.0, 1.0)


def _fitted(design: Values, weights: Values, clicks: Values) -> Values:
    """Returns (F + 1,), the coefficients of the ridge regression of clicks / weights with these weights."""
    weighted = design * weights[:, np.newaxis]
    penalty = _PENALTY * np.eye(design.shape[1])
    moments = design.T @ weighted + penalty
    coefficients = np.linalg.solve(moments, design.T @ clicks)
    return coefficients.astype(np.float64)


def _standardised(features: Values) -> Values:
    """Returns (D, F + 1), ones and the features with mean 0 and variance 1, where a missing value is 0."""
    known = ~np.isnan(features)
    counts = np.maximum(known.sum(axis=0), 1)
    means = np.where(known, features, 0.0).sum(axis=0) / counts
    centred = np.where(known, features - means, 0.0)
    spread = np.sqrt((centred**2).sum(axis=0) / counts)
    columns = centred / np.where(spread > 0, spread, 1.0)
    return np.column_stack([np.ones(len(columns)), columns])
