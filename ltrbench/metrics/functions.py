"""The metrics, one function each. To add one, write its function here and decorate it with its name.

A metric takes a Ranking, a cutoff k (None: no cutoff) and a Convention, and returns (Q,) values: the expected
value over all orders of tied documents. Queries without a relevant document may get any value: `evaluate`
skips them.

In the formulas r is a rank from 0, l_r the label there, rel_r whether l_r reaches the convention's relevance
threshold, G the gain and D the discount, n the number of documents and R of relevant documents of the query.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.metrics.convention import Convention
from ltrbench.metrics.ranking import Ranking
from ltrbench.shapes import PerQuery

Metric = Callable[[Ranking, int | None, Convention], PerQuery]
METRICS: dict[str, Metric] = {}


def metric(name: str) -> Callable[[Metric], Metric]:
    """Gives a metric its name in the grammar `name@k`."""

    def register(function: Metric) -> Metric:
        METRICS[name] = function
        return function

    return register


@metric("ndcg")
def ndcg(ranking: Ranking, k: int | None, convention: Convention) -> PerQuery:
    """NDCG@k = DCG@k / ideal DCG@k, with DCG@k = sum over r < min(k, n) of G(l_r) D(r).

    Järvelin and Kekäläinen, 2002, "Cumulated gain-based evaluation of IR techniques"; ties as in McSherry and
    Najork, 2008, "Computing Information Retrieval Performance Measures Efficiently in the Presence of Tied
    Scores", section 2.4: each document of a run counts the run's mean gain.
    """
    discounts = np.where(_within(ranking.ranks, k), convention.discount(ranking.ranks), 0.0)
    dcg = ranking.sum_by_query(ranking.tie_mean(convention.gain(ranking.labels)) * discounts)
    ideal = ranking.sum_by_query(convention.gain(ranking.ideal_labels) * discounts)
    return np.divide(dcg, ideal, out=np.zeros_like(dcg), where=ideal > 0)


@metric("precision")
def precision(ranking: Ranking, k: int | None, convention: Convention) -> PerQuery:
    """P@k = (sum over r < min(k, n) of rel_r) / k; without a cutoff, k is n. A short list is not excused."""
    hits = np.where(_within(ranking.ranks, k), ranking.tie_mean(_relevance(ranking, convention)), 0.0)
    places = np.diff(ranking.query_start) if k is None else k
    return ranking.sum_by_query(hits) / places


@metric("map")
def average_precision(ranking: Ranking, k: int | None, convention: Convention) -> PerQuery:
    """AP@k = (sum over r < min(k, n) of rel_r P@(r + 1)) / min(R, k); its mean over queries is MAP.

    Tied documents as in McSherry and Najork, 2008, section 2.3: in a run of t documents, m of them relevant,
    that starts at rank a behind R_a relevant ones, the place at offset j counts
    (m / t) (R_a + 1 + j (m - 1) / (t - 1)) / (a + j + 1).
    """
    relevance = _relevance(ranking, convention)
    num_relevant = ranking.sum_by_query(relevance)
    run_size = ranking.tie_size[ranking.tie]
    run_relevant = ranking.tie_mean(relevance) * run_size
    first = ranking.tie_start[ranking.tie]
    offset = np.arange(len(first)) - first
    relevant_before_run = _before_run(ranking, relevance)
    expected_in_run = offset * (run_relevant - 1.0) / np.maximum(run_size - 1, 1)
    contribution = (
        (run_relevant / run_size) * (relevant_before_run + 1.0 + expected_in_run) / (ranking.ranks + 1.0)
    )
    total = ranking.sum_by_query(np.where(_within(ranking.ranks, k), contribution, 0.0))
    possible = num_relevant if k is None else np.minimum(num_relevant, k)
    return np.divide(total, possible, out=np.zeros_like(total), where=possible > 0)


@metric("mrr")
def reciprocal_rank(ranking: Ranking, k: int | None, convention: Convention) -> PerQuery:
    """RR@k = 1 / (r + 1) for the first relevant rank r < k, otherwise 0; its mean over queries is MRR.

    Tied documents as in McSherry and Najork, 2008, section 2.5: in the run of t documents, m of them
    relevant, that holds the first relevant one, it stands at offset j with probability C(t - j - 1, m - 1) /
    C(t, m).
    """
    relevance = _relevance(ranking, convention)
    run_size = ranking.tie_size[ranking.tie]
    run_relevant = ranking.tie_mean(relevance) * run_size
    first = ranking.tie_start[ranking.tie]
    offset = np.arange(len(first)) - first
    candidate = (run_relevant > 0.5) & (_before_run(ranking, relevance) == 0) & _within(ranking.ranks, k)
    t, m, j = run_size[candidate], np.rint(run_relevant[candidate]), offset[candidate]
    probability = np.zeros(len(relevance))
    probability[candidate] = np.exp(_log_binomial(t - j - 1, m - 1) - _log_binomial(t, m))
    return ranking.sum_by_query(probability / (ranking.ranks + 1.0))


def _within(ranks: NDArray[np.int64], k: int | None) -> NDArray[np.bool_]:
    return np.ones(len(ranks), dtype=np.bool_) if k is None else ranks < k


def _relevance(ranking: Ranking, convention: Convention) -> NDArray[np.float64]:
    return (ranking.labels >= convention.relevance_threshold).astype(np.float64)


def _before_run(ranking: Ranking, relevance: NDArray[np.float64]) -> NDArray[np.float64]:
    """(D,), the number of relevant documents of the query that rank before a place's run of tied scores."""
    before = np.cumsum(relevance) - relevance
    return before[ranking.tie_start[ranking.tie]] - before[ranking.query_start[ranking.query]]


def _log_binomial(n: NDArray[Any], k: NDArray[Any]) -> NDArray[np.float64]:
    """log C(n, k), and log 0 where k > n."""
    # Imported here, because `--help` needs no binomials and would wait for SciPy twice as long as for NumPy.
    from scipy.special import gammaln

    possible = k <= n
    n = np.where(possible, n, k)
    value: NDArray[np.float64] = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return np.where(possible, value, -np.inf)
