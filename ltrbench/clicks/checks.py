"""Checks of a log, before a claim rests on it.

replay    the clicks of each logging ranker, predicted from the log of the others: it fails if examination
          does not depend on the position only
support   how much of an estimate rests on the heaviest clicks, and on how many queries
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ltrbench.clicks.estimators import ClickLog
from ltrbench.clicks.propensities import total
from ltrbench.data.dataset import QueryKeys
from ltrbench.data.impressions import Impressions
from ltrbench.shapes import PerQuery, Values
from ltrbench.statistics import LEVEL
from ltrbench.statistics.paired import effective_size

FEWEST_QUERIES = 10
"""Minimum number of queries that two rankers share, for a check of their clicks."""
RANDOMISED = "randomised lists"
_HEAVIEST = 3
"""Number of clicks whose part in an estimate is reported."""


@dataclass(frozen=True)
class Replay:
    """The clicks of a logging ranker, predicted from the log of the others.

    Attributes:
        ranker: its name.
        observed, predicted: clicks on documents that the others showed, too.
        p_value: two-sided, of no difference.
    """

    ranker: str
    observed: float
    predicted: float
    p_value: float

    @property
    def error(self) -> float:
        """Predicted over observed clicks, minus 1."""
        return self.predicted / self.observed - 1


def replays(
    given: Impressions, query_of_row: NDArray[np.int64], names: Sequence[str]
) -> list[Replay]:
    """Returns a check for each ranker that shares enough documents with others; without rankers, of the
    randomised lists against all others.

    For a query and document u let c and m be the numbers of clicks, and the sum of the examination over the
    displays, by the ranker (f) and by all others (g), on days with several rankers. The prediction of c_f is
    m_f c_g / m_g. Its error is tested by

        sum_u c_f - (c_f + c_g) m_f / (m_f + m_g)

    because given the clicks of both, a share of m_f / (m_f + m_g) is expected by f. No document has a large
    weight, as it has in the prediction if m_g is small. The variance is that of a cluster sample by query,
    with the influence of theta.

    Args:
        given: impressions, with the influence of Q queries on theta.
        query_of_row: (D,), query of each document, from 0 to Q - 1; all lists of a query have its number.
        names: name of each ranker.
    """
    groups = given.rankers
    if len(names) < 2:
        groups = given.is_randomised.astype(np.int64)
        names = ["other lists", RANDOMISED]
    checked = []
    for number, name in enumerate(names):
        replay = _replay(given, query_of_row, groups == number, name)
        if replay is not None:
            checked.append(replay)
    return checked


def _replay(
    given: Impressions,
    query_of_row: NDArray[np.int64],
    is_own: NDArray[np.bool_],
    name: str,
) -> Replay | None:
    """Returns the check of the lists of one ranker; None with too few common queries."""
    predicted = _Prediction.of(given, is_own)
    query_of_unit = np.zeros(len(predicted.clicks), dtype=np.int64)
    query_of_unit[given.units] = query_of_row[given.rows]
    differences = total(query_of_unit, predicted.excess, len(given.influence))
    error = _error_of_sum(differences - given.influence @ predicted.gradient)
    num_common = len(np.unique(query_of_unit[predicted.is_common]))
    observed = float(predicted.observed.sum())
    if num_common < FEWEST_QUERIES or not observed or not error:
        return None
    t = abs(differences.sum()) / error
    one_sided = float(scipy.special.stdtr(num_common - 1, -t))
    return Replay(name, observed, float(predicted.clicks.sum()), 2 * one_sided)


@dataclass(frozen=True, eq=False)
class _Prediction:
    """The clicks of some lists on each query and document, predicted from all other lists.

    Attributes:
        is_common: (U,), whether both showed the document.
        observed, clicks: (U,), observed and predicted clicks; 0 unless both showed the document.
        excess: (U,), observed clicks minus those that are expected, given the clicks of both.
        gradient: (K,), derivative of the sum of the expected clicks by log theta.
    """

    is_common: NDArray[np.bool_]
    observed: Values
    clicks: Values
    excess: Values
    gradient: Values

    @classmethod
    def of(cls, given: Impressions, is_own: NDArray[np.bool_]) -> _Prediction:
        num_units = int(given.units.max(initial=-1)) + 1
        examined = _examined(given)
        own = _Sums.of(given, is_own & given.is_compared, examined, num_units)
        others = _Sums.of(given, ~is_own & given.is_compared, examined, num_units)
        is_common = (own.examined > 0) & (others.examined > 0)
        rates = _ratio(others.clicks, others.examined, is_common)
        of_both = own.examined + others.examined
        shares = _ratio(own.examined, of_both, is_common)
        rates_of_both = _ratio(own.clicks + others.clicks, of_both, is_common)
        observed = np.where(is_common, own.clicks, 0.0)
        # d share / d log theta_k = ((1 - share) m_fk - share m_gk) / (m_f + m_g)
        slopes = is_own - shares[given.units]
        terms = slopes * rates_of_both[given.units] * examined
        return cls(
            is_common=is_common,
            observed=observed,
            clicks=own.examined * rates,
            excess=observed - own.examined * rates_of_both,
            gradient=total(given.positions, terms, given.num_positions),
        )


def _examined(given: Impressions) -> Values:
    """Returns (I,), the sum of the examination over the displays of each row.

    It is 0 on days with one ranker: theta was estimated without them, and documents may have had another
    attraction.
    """
    examined = given.shown * np.nan_to_num(given.propensities)
    return np.where(given.is_compared, examined, 0.0)


def _ratio(numerators: Values, denominators: Values, where: Any) -> Values:
    """Returns quotients; 0 elsewhere."""
    ratio = np.zeros(len(numerators))
    np.divide(numerators, denominators, out=ratio, where=where)
    return ratio


@dataclass(frozen=True, eq=False)
class _Sums:
    """Of each query and document: clicks, and the sum of the examination over displays."""

    clicks: Values
    examined: Values

    @classmethod
    def of(
        cls,
        given: Impressions,
        chosen: NDArray[np.bool_],
        examined: Values,
        num_units: int,
    ) -> _Sums:
        units = given.units[chosen]
        clicks = total(units, given.clicks[chosen], num_units)
        return cls(clicks, total(units, examined[chosen], num_units))


def _error_of_sum(values: PerQuery) -> float:
    """Returns the standard error of the sum of independent values."""
    size = len(values)
    if size < 2:
        return 0.0
    return float(np.sqrt(size * values.var(ddof=1)))


def is_rejected(checked: Sequence[Replay]) -> bool:
    """Returns whether a check fails at 5 %, divided by their number (Bonferroni)."""
    return any(replay.p_value < LEVEL / len(checked) for replay in checked)


@dataclass(frozen=True)
class Support:
    """On what an estimate of expected clicks rests.

    Attributes:
        num_clicks: number of clicks with a weight.
        largest_share: share of the heaviest click in the sum of the weights lambda / theta.
        heaviest_share: share of the three heaviest clicks.
        effective_share: effective number of clicks over their number, (sum w)^2 / (n sum w^2).
        effective_queries: effective number of queries, or of users.
        modelled_share: share of the estimate that a model of documents which were never shown predicts.
    """

    num_clicks: int
    largest_share: float
    heaviest_share: float
    effective_share: float
    effective_queries: float
    modelled_share: float = 0.0


def support(
    logs: Sequence[tuple[ClickLog, Values]], keys: QueryKeys | None = None
) -> Support:
    """Returns the support of an estimate.

    Args:
        logs: for each test set, its clicks, and (D,) the lambda of the rank of each document.
        keys: (Q,), keys of the lists of all test sets, which are those of their queries or users; None: each
            list is of another query.
    """
    weights = []
    sessions = []
    modelled = 0.0
    for log, gains in logs:
        clicks = log.impressions.clicks.astype(np.int64)
        each = _ratio(log.weights, log.impressions.clicks, clicks > 0)
        of_rows = each * gains[log.impressions.rows]
        weights.append(np.repeat(of_rows, clicks))
        sessions.append(log.num_sessions)
        modelled += float((log.of_model(gains) * log.num_sessions).sum())
    of_clicks = np.concatenate(weights)
    of_clicks = of_clicks[of_clicks > 0]
    sum_of_weights = max(float(of_clicks.sum()), 1e-300)
    heaviest = np.sort(of_clicks)[::-1][:_HEAVIEST]
    effective = effective_size(of_clicks)
    return Support(
        num_clicks=len(of_clicks),
        largest_share=float(heaviest.max(initial=0)) / sum_of_weights,
        heaviest_share=float(heaviest.sum()) / sum_of_weights,
        effective_share=effective / max(len(of_clicks), 1),
        effective_queries=_effective_queries(np.concatenate(sessions), keys),
        modelled_share=modelled / (modelled + sum_of_weights),
    )


def _effective_queries(sessions: PerQuery, keys: QueryKeys | None) -> float:
    """Returns the effective number of distinct keys of lists, given (Q,) numbers of sessions."""
    if keys is None:
        return effective_size(sessions)
    distinct, codes = np.unique(keys, return_inverse=True)
    return effective_size(total(codes, sessions, len(distinct)))
