"""The metrics, one function each.

To add a metric, write a function and decorate it with its name, here or in your own module, which
`evaluation.py` loads.

A metric takes a Ranking, a cutoff k (None: no cutoff) and a Convention. It returns (Q,) values: the expected
value over all orders of tied documents; NaN for a query without a relevant document, or without a pair to
order. `evaluate` replaces NaN by the convention's value. All metrics share the arrays of a Ranking, which are
read-only: a metric that changes one changes a copy.

In the formulas, r is a rank from 0, l_r the label at rank r, rel_r is 1 if l_r is at or above the relevance
threshold and 0 otherwise, G is the gain, D the discount, n the number of documents of the query, and R the
number of its relevant documents.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial, update_wrapper
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.clicks.estimators import ClickLog, log_of
from ltrbench.clicks.propensities import total
from ltrbench.data import Judgments
from ltrbench.data.features import read_only
from ltrbench.errors import (
    ConfigError,
    DataError,
    UndefinedMetricError,
    did_you_mean,
    require,
)
from ltrbench.metrics.conventions import Convention, Denominator, Ties
from ltrbench.shapes import Indices, Labels, PerQuery, QueryStart, Scores, Values

# ---- Ranking: the documents of every query in descending order of score, with runs of tied scores marked.
#
# All metrics read this structure, so scores are sorted once for any number of metrics. Under a policy that
# orders tied documents every run has one document. Only under EXPECTED a run can have more; a metric is
# then the expected value over all orders of the run. One implementation of a metric therefore serves all
# policies.

LONGEST = 2**31 - 1
"""Cutoff without effect: no list is longer, and it fits the integers of the kernels."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Documents in ranked order: the P positions of all queries, one query after another.

    Attributes:
        judgments: ranked documents; row i of its arrays is a document, not a position.
        order: (P,), row of the document at each position.
        position_start: (Q + 1,), first position of each query, then P.
        tie_start: (T,), first position of each run of tied scores.
        is_retrieved: (P,), whether the document at each position has a score; None: all have. The others
            stand behind all of these, and have no gain and no relevance.
    """

    judgments: Judgments
    order: Indices
    position_start: QueryStart
    tie_start: Indices
    is_retrieved: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        self._set("order", self.order)
        self._set("position_start", self.position_start)
        self._set("tie_start", self.tie_start)
        if self.is_retrieved is not None:
            self._set("is_retrieved", self.is_retrieved)

    def _set(self, name: str, array: NDArray[Any]) -> None:
        # All metrics read the ranking, so one that wrote into it would change the others.
        object.__setattr__(self, name, read_only(array))

    @cached_property
    def labels(self) -> Labels:
        """(P,), label of the document at each position."""
        return read_only(self.judgments.labels[self.order])

    def column(self, name: str) -> NDArray[Any]:
        """Returns (P,), the value at each place of a kept column, or of "query_id" or "document_id".

        Columns of a CSV file and categorical features are texts; an empty text is a missing value.

        Raises:
            DataError: The data have no such column; `data.keep` keeps one.
        """
        return self.judgments.column(name)[self.order]

    def numbers(self, name: str) -> Values:
        """Returns (P,), the number at each place of a kept column; a missing one is NaN.

        Raises:
            DataError: The data have no such column, or a cell of it is not a number.
        """
        return self.judgments.numbers(name)[self.order]

    @cached_property
    def ranks(self) -> Indices:
        """(P,), rank of each position in its query, from 0."""
        return read_only(_ranks(self.position_start))

    @cached_property
    def has_ties(self) -> bool:
        return len(self.tie_start) < len(self.order)

    @cached_property
    def tie_size(self) -> Indices:
        """(T,), number of documents in each run of tied scores."""
        bounds = np.append(self.tie_start, len(self.order))
        return read_only(np.diff(bounds))

    @cached_property
    def tie(self) -> Indices:
        """(P,), index of the run of tied scores that contains each position, from 0."""
        runs = np.arange(len(self.tie_start))
        return read_only(np.repeat(runs, self.tie_size))

    @cached_property
    def run_end(self) -> Indices:
        """(P,), position after the end of the run that contains each position."""
        end_of_run = self.tie_start + self.tie_size
        return read_only(end_of_run[self.tie])

    def tie_mean(self, values: Values) -> Values:
        """Returns (P,) values, each replaced by the mean over its run of tied scores.

        This is the expected value at a position if all orders of tied documents are equally likely.
        """
        values = _numbers(values)
        if not self.has_ties:
            return values.copy()
        from ltrbench.metrics.kernels import run_means

        # numba compiles a second version for writeable arrays.
        return run_means(read_only(values), self.tie_start)

    def sum_first(
        self, values: Values, k: int | None, factors: Values | None = None
    ) -> PerQuery:
        """Returns (Q,), the sum of the values over the first k ranks of each query; k=None: all ranks.

        Args:
            factors: (largest query,), factor of the value at each rank.
        """
        return sum_queries(
            *first_of_queries(_numbers(values), self.position_start, k), factors
        )


def _numbers(values: NDArray[Any]) -> NDArray[Any]:
    # Of a column with texts, the error names the first one that is no number.
    if values.dtype.kind == "U":
        return values.astype(np.float64)
    return values


def first_of_queries(
    values: Values, start: QueryStart, k: int | None
) -> tuple[Values, QueryStart]:
    """Returns the first k values of each query (None: all) and (Q + 1,), the start of each query in them."""
    sizes = np.diff(start)
    if k is None or k >= sizes.max():
        return values, start
    # Selecting the first k ranks first is most of the speed of a metric with a cutoff.
    num_kept = np.minimum(sizes, k)
    kept_start = np.concatenate([[0], np.cumsum(num_kept)])
    start_of_kept = np.repeat(start[:-1], num_kept)
    positions = start_of_kept + _ranks(kept_start)
    return values[positions], kept_start


def sum_queries(
    values: Values, start: QueryStart, factors: Values | None = None
) -> PerQuery:
    """Returns (Q,), the sum of the values of each query, multiplied by `factors` by rank if given."""
    weighted = values if factors is None else values * factors[_ranks(start)]
    sums: PerQuery = np.add.reduceat(weighted, start[:-1])
    return sums


def _ranks(start: QueryStart) -> Indices:
    start_of_position = np.repeat(start[:-1], np.diff(start))
    return np.arange(start[-1]) - start_of_position


def rank(
    judgments: Judgments,
    scores: Scores,
    ties: Ties = Ties.EXPECTED,
    depth: int = LONGEST,
    allows_missing: bool = False,
) -> Ranking:
    """Ranks the documents of every query by score, highest first.

    Args:
        scores: (D,), one per document, of any real dtype: values equal in that dtype are ties.
        ties: order of tied documents.
        depth: number of ranks needed per query. Later ranks are left out, except those of a run of tied
            scores that crosses the limit. Ten of a hundred ranks take a fifth of the time of all.
        allows_missing: whether a score may be NaN: the document was not retrieved, and ranks behind all
            documents with a score.

    Raises:
        DataError: If the number of scores differs from the number of documents, or a score is no real
            number; if a score is NaN and must not be, or all are.
        UndefinedMetricError: If ties are ordered by document id and the documents have no ids.
    """
    keys = _as_keys(judgments, np.asarray(scores))
    is_missing = np.isnan(keys)
    has_missing = bool(is_missing.any())
    if not allows_missing or is_missing.all():
        check_scored(judgments, keys)
    if has_missing:
        # A score of minus infinity ranks above a document without a score.
        lowest = np.finfo(np.float64).min
        keys = np.where(is_missing, -np.inf, np.maximum(keys, lowest))
    tied_first = _tied_first(judgments, ties)
    if tied_first is None:
        order, position_start = _order(keys, judgments.query_start, depth)
    else:
        order, position_start = _order(keys[tied_first], judgments.query_start, depth)
        order = tied_first[order]
    starts_run = np.ones(len(order), dtype=np.bool_)
    if ties is Ties.EXPECTED:
        in_order = keys[order]
        has_other_score = in_order[1:] != in_order[:-1]
        starts_run[1:] = has_other_score
        starts_run[position_start[:-1]] = True
    is_retrieved = ~is_missing[order] if has_missing else None
    runs = np.flatnonzero(starts_run)
    return Ranking(judgments, order, position_start, runs, is_retrieved)


_LAST_WHOLE = 2**53
"""Up to here float64 has every whole number."""


def _as_keys(judgments: Judgments, scores: Scores) -> NDArray[np.float64]:
    """Returns the (D,) scores in the dtype of sorting; large whole numbers become their ranks.

    Raises:
        DataError: There is not one real number for each document.
    """
    if scores.shape != (judgments.num_documents,):
        raise DataError(
            f"scores have shape {scores.shape}; give one for each of {judgments.num_documents} documents."
        )
    if scores.dtype.kind not in "fiub":
        raise DataError(
            f"scores have the dtype {scores.dtype}; give real numbers: np.asarray(scores, dtype=np.float64)."
        )
    if scores.dtype.kind in "iu" and _is_rounded(scores):
        # Different numbers would become equal, such as times in nanoseconds.
        _, numbers = np.unique(scores, return_inverse=True)
        return numbers.astype(np.float64)
    return np.ascontiguousarray(scores, dtype=np.float64)


def _is_rounded(numbers: Scores) -> bool:
    """Returns whether some of these whole numbers may be rounded in float64."""
    highest = int(numbers.max())
    lowest = int(numbers.min())
    return highest > _LAST_WHOLE or lowest < -_LAST_WHOLE


def check_scored(judgments: Judgments, scores: Scores) -> None:
    """Raises DataError if a score is NaN, with the query and the id of the first such document."""
    is_missing = np.isnan(scores)
    if not is_missing.any():
        return
    row = int(is_missing.argmax())
    query = str(judgments.query_ids[judgments.query_of_document[row]])
    document = f"scores[{row}] (query {query!r}) is NaN"
    if judgments.document_ids is not None:
        name = str(judgments.document_ids[row])
        document = f"scores[{row}] (document {name!r} of query {query!r}) is NaN"
    raise DataError(
        f"{int(is_missing.sum())} of {len(is_missing)} documents have no score: {document}. Give every "
        "document a score; only under the convention trec_eval may some be missing."
    )


def _tied_first(judgments: Judgments, ties: Ties) -> Indices | None:
    """Returns (D,), the rows of each query in the order of the tie policy; None: in row order."""
    if ties in (Ties.EXPECTED, Ties.ROW_ORDER):
        return None
    if ties is Ties.DOCUMENT_ID:
        if judgments.document_ids is None:
            raise UndefinedMetricError(
                "the convention orders ties by document id, but the data set has no document ids; add them "
                "(LETOR format: the comment # docid = ID), or choose another convention."
            )
        # Descending ids within ascending queries: lexsort ascends, so queries are negated and rows reversed.
        return np.lexsort((judgments.document_ids, -judgments.query_of_document))[::-1]
    keys = -judgments.labels if ties is Ties.WORST else judgments.labels
    return _order(keys, judgments.query_start, LONGEST)[0]


def _order(
    keys: Values, query_start: QueryStart, depth: int
) -> tuple[Indices, QueryStart]:
    # Imported here because importing numba is slow and `--help` does not need it.
    from ltrbench.metrics.kernels import order_within_queries

    # numba compiles a second version for writeable arrays.
    return order_within_queries(read_only(keys), query_start, depth)


MetricFunction = Callable[..., PerQuery]
"""Takes a Ranking, a cutoff and a Convention; a metric of a column also takes the name of the column."""
Depth = Callable[[int | None, Convention], int]
"""Number of ranks of a query that a metric reads, given its cutoff and convention."""


def whole_list(k: int | None, convention: Convention) -> int:
    return LONGEST


def first_k(k: int | None, convention: Convention) -> int:
    """`depth` of a metric that reads the first k documents of a query only."""
    return k or LONGEST


def first_document(k: int | None, convention: Convention) -> int:
    return 1


@dataclass(frozen=True)
class Metric:
    """A registered metric.

    Attributes:
        function: computes the values.
        no_cutoff: reason why the metric takes no cutoff; None if it takes one.
        has_gain: whether the metric uses gains; every label must then have a gain.
        has_highest_grade: whether the metric uses the highest grade; no label may then exceed it.
        ties_in_formula: whether the formula of the metric handles tied scores, under any convention.
        depth: number of first ranks the metric reads; only these are sorted. All ranks are always correct.
        bounds: lowest and highest value; None if they are not known.
        rope: half the width of the region of equivalence, in units of the metric; 0: none is declared, and
            no difference other than 0 counts as equivalent.
        lowest_in_column: lowest value of a kept column for which the metric of a column is defined.
    """

    function: MetricFunction
    no_cutoff: str | None = None
    has_gain: bool = False
    has_highest_grade: bool = False
    ties_in_formula: bool = False
    depth: Depth = whole_list
    bounds: tuple[float, float] | None = None
    rope: float = 0.0
    lowest_in_column: float = -math.inf


_SHARE = (0.0, 1.0)
"""Bounds of most metrics."""
_ROPE_OF_A_SHARE = 0.005

METRICS: dict[str, Metric] = {}
ALIASES = {"ap": "map"}
"""Alias -> metric; a result keeps the requested name."""
OF_COLUMNS: dict[str, Metric] = {}
"""Metrics of a kept column, which the name of the metric ends with: `value@10:revenue`."""


def metric(
    name: str,
    *,
    no_cutoff: str | None = None,
    has_gain: bool = False,
    has_highest_grade: bool = False,
    ties_in_formula: bool = False,
    depth: Depth = whole_list,
    bounds: tuple[float, float] | None = None,
    rope: float | None = None,
    of_column: bool = False,
    lowest_in_column: float = -math.inf,
) -> Callable[[MetricFunction], MetricFunction]:
    """Registers a metric under its name in the grammar `name@k`; the other arguments are those of `Metric`.

    Args:
        of_column: whether the function takes the name of a kept column as `column`, as in `name@k:column`.
        rope: as in `Metric`; None: 0.005 for a metric with the bounds (0, 1), otherwise none.

    Raises:
        ConfigError: If the name is invalid or in use, or `rope` is negative.
    """
    require("@metric: rope", rope, at_least=0)
    if rope is None:
        rope = _ROPE_OF_A_SHARE if bounds == _SHARE else 0.0
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ConfigError(
            f'@metric: invalid name {name!r}; use lower-case letters, digits, _, as in "rbp".'
        )

    metrics = OF_COLUMNS if of_column else METRICS

    def register(function: MetricFunction) -> MetricFunction:
        known = metrics.get(ALIASES.get(name, name))
        # A notebook cell that runs again, or a reloaded module, defines the same function again.
        if known is not None and full_name(known.function) != full_name(function):
            raise ConfigError(
                f"the name {name} of {full_name(function)} is used by {full_name(known.function)}; change it."
            )
        metrics[name] = Metric(
            function,
            no_cutoff,
            has_gain,
            has_highest_grade,
            ties_in_formula,
            depth,
            bounds,
            rope,
            lowest_in_column,
        )
        return function

    return register


def parse_metric(name: str) -> tuple[str, int | None]:
    """Returns metric and cutoff of a name: `ndcg@10` -> ("ndcg", 10); `map` -> ("map", None). The metric of a
    kept column ends with the column.

    Raises:
        ConfigError: If the metric is unknown, the cutoff is not a positive whole number, the metric takes
            no cutoff, or the column is missing or too many.

    >>> parse_metric("ndcg@10"), parse_metric("ap"), parse_metric("value@5:revenue")
    (('ndcg', 10), ('map', None), ('value:revenue', 5))
    """
    if not isinstance(name, str):
        raise ConfigError(f"metric is {name!r}; give one name, such as 'ndcg@10'.")
    of_query, _, column = name.partition(":")
    word, at, cutoff = of_query.partition("@")
    metric = ALIASES.get(word, word)
    if not _is_registered(metric, with_column=bool(column)):
        known = sorted([*METRICS, *ALIASES, *OF_COLUMNS])
        similar = "."
        if word not in known:
            similar = did_you_mean(word, known)
        raise ConfigError(
            f"unknown metric '{name}'{similar} Metrics: {', '.join(known)}; most take a cutoff "
            f"(ndcg@10), {', '.join(OF_COLUMNS)} a column of data.keep (value@10:revenue). Name "
            "the module of yours: plugins=[MODULE] or --plugin MODULE."
        )
    if column:
        metric = f"{metric}:{column}"
    if not at:
        return metric, None
    if no_cutoff := metric_of(metric).no_cutoff:
        raise ConfigError(
            f"metric '{name}' takes no cutoff: {no_cutoff}. Write {word}."
        )
    is_number = cutoff.isascii() and cutoff.isdigit()
    if not is_number or not 0 < int(cutoff) <= LONGEST:
        raise ConfigError(
            f"metric '{name}': the cutoff must be a whole number from 1 to {LONGEST}."
        )
    return metric, int(cutoff)


def is_metric(name: str) -> bool:
    """Returns whether a metric has this name. Metrics of plug-ins count once their module is loaded.

    >>> is_metric("ndcg@10"), is_metric("rbp@10")
    (True, False)
    """
    word = re.split("[@:]", name)[0]
    return _is_registered(ALIASES.get(word, word), with_column=":" in name)


def _is_registered(metric: str, *, with_column: bool) -> bool:
    if with_column:
        return metric in OF_COLUMNS
    return metric in METRICS


def metric_of(word: str) -> Metric:
    """Returns a registered metric; "value:revenue" is the metric `value` of the column revenue."""
    name, _, column = word.partition(":")
    if not column:
        return METRICS[name]
    function = OF_COLUMNS[name].function
    return replace(
        OF_COLUMNS[name],
        function=update_wrapper(partial(function, column=column), function),
    )


def full_name(function: MetricFunction) -> str:
    return f"{function.__module__}.{function.__qualname__}"


@metric("cg", has_gain=True, depth=first_k)
def cumulative_gain(
    ranking: Ranking, k: int | None, convention: Convention
) -> PerQuery:
    """CG@k = sum over r < min(k, n) of G(l_r) (Järvelin and Kekäläinen, 2002, equation 1)."""
    gains = _gains(ranking, convention)
    return _where_found(
        ranking, convention, ranking.sum_first(ranking.tie_mean(gains), k)
    )


@metric("dcg", has_gain=True, depth=first_k)
def dcg(ranking: Ranking, k: int | None, convention: Convention) -> PerQuery:
    """DCG@k = sum over r < min(k, n) of G(l_r) D(r).

    Järvelin and Kekäläinen, 2002, "Cumulated gain-based evaluation of IR techniques", equation 2; ties as in
    McSherry and Najork, 2008, "Computing Information Retrieval Performance Measures Efficiently in the
    Presence of Tied Scores", section 2.4: each document of a run has the mean gain of the run.
    """
    return _where_found(ranking, convention, _dcg(ranking, k, convention))


@metric("ndcg", has_gain=True, depth=first_k, bounds=_SHARE)
def ndcg(ranking: Ranking, k: int | None, convention: Convention) -> PerQuery:
    """NDCG@k = DCG@k / ideal DCG@k, where the ideal DCG@k is that of the labels in descending order.

    Järvelin and Kekäläinen, 2002, section 2.3; ties as in `dcg`.
    """
    return _quotient(_dcg(ranking, k, convention), _ideal_dcg(ranking, k, convention))


@metric(
    "mean_ndcg",
    no_cutoff="it is the mean of NDCG@1, ..., NDCG@n over the n documents of a query",
    has_gain=True,
    bounds=_SHARE,
)
def mean_ndcg(ranking: Ranking, k: int | None, convention: Convention) -> PerQuery:
    """MeanNDCG = (1 / n) sum over k = 1, ..., n of NDCG@k (LETOR 4.0's evaluation script)."""
    judgments = ranking.judgments
    discounts = _discounts(judgments, convention)[ranking.ranks]
    dcg_at = _running_sum(
        ranking.tie_mean(_gains(ranking, convention)) * discounts, judgments.query_start
    )
    ideal_gains = convention.gain(judgments.labels_best_first)
    ideal_at = _running_sum(ideal_gains * discounts, judgments.query_start)
    return (
        sum_queries(_quotient(dcg_at, ideal_at), judgments.query_start)
        / judgments.query_sizes
    )


@metric("precision", depth=first_k, bounds=_SHARE)
def precision(ranking: Ranking, k: int | None, convention: Convention) -> PerQuery:
    """P@k = (sum over r < min(k, n) of rel_r) / k; without a cutoff, k is n.

    A convention may divide by min(k, n) instead, so that a list shorter than k can reach 1.
    """
    relevance = _relevance(ranking, convention)
    precision = ranking.sum_first(ranking.tie_mean(relevance), k) / _num_ranks(
        ranking, k, convention
    )
    return np.where(_num_relevant(ranking, convention) > 0, precision, np.nan)


@metric("recall", depth=first_k, bounds=_SHARE)
def recall(ranking: Ranking, k: int | None, convention: Convention) -> PerQuery:
    """Recall@k = (sum over r < min(k, n) of rel_r) / R."""
    relevance = _relevance(ranking, convention)
    hits = ranking.sum_first(ranking.tie_mean(relevance), k)
    return _quotient(hits, _num_relevant(ranking, convention))


def _average_precision_depth(k: int | None, convention: Convention) -> int:
    return first_k(k if convention.average_precision_cutoff else None, convention)


@metric("map", depth=_average_precision_depth, bounds=_SHARE)
def average_precision(
    ranking: Ranking, k: int | None, convention: Convention
) -> PerQuery:
    """AP@k = (sum over r < min(k, n) of rel_r P@(r + 1)) / min(R, k); its mean over queries is MAP.

    A convention may divide by R instead, or ignore k. Tied documents as in McSherry and Najork, 2008, section
    2.3: in a run of t documents, m of them relevant, that starts at rank a after R_a relevant documents, the
    rank at offset j adds (m / t) (R_a + 1 + j (m - 1) / (t - 1)) / (a + j + 1).
    """
    k = k if convention.average_precision_cutoff else None
    relevance = _relevance(ranking, convention)
    contribution = ranking.tie_mean(relevance) * (_before_run(ranking, relevance) + 1.0)
    if ranking.has_ties:
        run_size = ranking.tie_size[ranking.tie]
        run_relevant = ranking.tie_mean(relevance) * run_size
        offset = np.arange(len(run_size)) - ranking.tie_start[ranking.tie]
        num_others = np.maximum(run_size - 1, 1)
        expected_in_run = offset * (run_relevant - 1.0) / num_others
        contribution += ranking.tie_mean(relevance) * expected_in_run
    total = ranking.sum_first(contribution / (ranking.ranks + 1.0), k)
    return _quotient(total, _num_precisions(ranking, k, convention))


@metric("mrr", depth=first_k, bounds=_SHARE)
def reciprocal_rank(
    ranking: Ranking, k: int | None, convention: Convention
) -> PerQuery:
    """RR@k = 1 / (r + 1) for the first relevant rank r < k, otherwise 0; its mean over queries is MRR.

    Tied documents as in McSherry and Najork, 2008, section 2.5: if the first relevant document is in a run of
    t documents, m of them relevant, it is at offset j with probability C(t - j - 1, m - 1) / C(t, m).
    """
    relevance = _relevance(ranking, convention)
    run_relevant = np.add.reduceat(relevance, ranking.tie_start)
    relevant_before = _before_run(ranking, relevance)[ranking.tie_start]
    first_with = (run_relevant > 0) & (relevant_before == 0)
    candidate = first_with[ranking.tie]
    run = ranking.tie[candidate]
    t = ranking.tie_size[run]
    m = run_relevant[run]
    j = np.flatnonzero(candidate) - ranking.tie_start[run]
    probability = np.zeros(len(relevance))
    probability[candidate] = np.exp(_log_first_at(j, t, m))
    expected = ranking.sum_first(probability / (ranking.ranks + 1.0), k)
    return np.where(_num_relevant(ranking, convention) > 0, expected, np.nan)


@metric("err", has_highest_grade=True, depth=first_k, bounds=_SHARE)
def expected_reciprocal_rank(
    ranking: Ranking, k: int | None, convention: Convention
) -> PerQuery:
    """ERR@k = sum over r < min(k, n) of (1 / (r + 1)) p_r product over i < r of (1 - p_i), where
    p_r = (2^l_r - 1) / 2^l_max and l_max is the highest grade of the convention.

    p_r is the probability that the document satisfies the user. Chapelle et al., 2009, "Expected Reciprocal
    Rank for Graded Relevance", equations 4 and 5; `reference_expected_stop` in kernels.py derives the
    expected value over orders of tied documents. No p is above 1: `evaluate` refuses labels above the highest
    grade.
    """
    from ltrbench.metrics.kernels import expected_stop

    exponential_gains = np.expm1(ranking.labels * np.log(2.0))
    stop = exponential_gains / 2.0**convention.highest_grade
    longest = int(ranking.judgments.query_sizes.max())
    values = expected_stop(stop, ranking.run_end, ranking.position_start, k or longest)
    return np.where(ranking.judgments.best_labels > 0, values, np.nan)


@metric(
    "wta",
    no_cutoff="it reads the first document only",
    depth=first_document,
    bounds=_SHARE,
)
def winner_takes_all(
    ranking: Ranking, k: int | None, convention: Convention
) -> PerQuery:
    """WTA = 1 if the first document has the highest label of its query, otherwise 0.

    Chen et al., 2009, "Ranking Measures and Loss Functions in Learning to Rank", section 2, define the loss,
    1 - WTA.
    """
    best_labels = ranking.judgments.best_labels
    best = np.repeat(best_labels, np.diff(ranking.position_start))
    is_best = (ranking.labels == best).astype(np.float64)
    wins = ranking.sum_first(ranking.tie_mean(is_best), 1)
    return np.where(best_labels > 0, wins, np.nan)


_PAIRS_OF_A_WHOLE_LIST = "it counts the pairs of the whole list"


@metric("pairwise_accuracy", no_cutoff=_PAIRS_OF_A_WHOLE_LIST, bounds=_SHARE)
def pairwise_accuracy(
    ranking: Ranking, k: int | None, convention: Convention
) -> PerQuery:
    """Share of the pairs with different labels that are ordered correctly; a tied pair counts 1/2.

    Joachims, 2002, "Optimizing Search Engines using Clickthrough Data", section 3: (1 + tau_a) / 2.
    """
    return _share_in_order(_pairs_by_label(ranking))


@metric("auc", no_cutoff=_PAIRS_OF_A_WHOLE_LIST, bounds=_SHARE)
def area_under_roc(ranking: Ranking, k: int | None, convention: Convention) -> PerQuery:
    """AUC: share of the pairs of a relevant and another document ordered correctly; a tied pair counts 1/2.

    Hanley and McNeil, 1982, "The Meaning and Use of the Area under a ROC Curve", in each query.
    """
    return _share_in_order(_pairs_by_relevance(ranking, convention))


@metric(
    "kendall_tau",
    no_cutoff=_PAIRS_OF_A_WHOLE_LIST,
    ties_in_formula=True,
    bounds=(-1.0, 1.0),
    rope=0.005,
)
def kendall_tau(ranking: Ranking, k: int | None, convention: Convention) -> PerQuery:
    """tau_b = (C - W) / sqrt((P - T_s) (P - T_l)), from -1 to 1: of P pairs, C are ordered correctly, W
    wrongly, T_s are tied in score and T_l in label.

    Kendall, 1945, "The Treatment of Ties in Ranking Problems". The formula includes tied scores; there is no
    mean over their orders. It is 0 if all scores are tied: only labels leave a query out of the mean.
    """
    right, wrong, tied_differing, tied = _pairs_by_label(ranking)
    sizes = ranking.judgments.query_sizes
    differing_in_label = right + wrong + tied_differing
    differing_in_score = sizes * (sizes - 1) / 2 - tied
    tau = _quotient(right - wrong, np.sqrt(differing_in_label * differing_in_score))
    return np.where((differing_in_label > 0) & (differing_in_score == 0), 0.0, tau)


# ---- Metrics of a kept column c, such as revenue or clicks; a missing c_r counts as 0.

CORRECTED = "corrected"
"""Kept column of the corrected clicks of a document, of a log of clicks; see `ClickLog.corrected`."""


@metric("value", depth=first_k, of_column=True)
def value(
    ranking: Ranking, k: int | None, convention: Convention, column: str
) -> PerQuery:
    """Value@k:c = sum over r < min(k, n) of c_r, where c_r is the column c of the document at rank r."""
    return _value(ranking, k, column)


@metric("nvalue", depth=first_k, bounds=_SHARE, of_column=True, lowest_in_column=0.0)
def nvalue(
    ranking: Ranking, k: int | None, convention: Convention, column: str
) -> PerQuery:
    """NValue@k:c = Value@k:c / its highest value, that of the documents in descending order of c >= 0."""
    judgments = ranking.judgments
    numerator = _value(ranking, k, column)

    def highest() -> PerQuery:
        return _value(
            rank(
                judgments, np.nan_to_num(judgments.numbers(column)), depth=k or LONGEST
            ),
            k,
            column,
        )

    return _quotient(
        numerator, judgments.remember(("highest_value", column, k), highest)
    )


@metric("dcv", depth=first_k, of_column=True)
def dcv(
    ranking: Ranking, k: int | None, convention: Convention, column: str
) -> PerQuery:
    """DCV@k:c = sum over r < min(k, n) of c_r D(r): DCG with the column c in place of the gain.

    Of corrected clicks (`data=clicks`) the values include the error of the estimated examination.
    """
    discounts = _discounts(ranking.judgments, convention)
    if column == CORRECTED and ranking.judgments.impressions is not None:
        log = log_of(ranking.judgments)
        gains = _gains_of_rows(ranking, k, discounts)
        return log.values(gains, np.zeros(log.impressions.num_positions))
    return _value(ranking, k, column, discounts)


@metric("ctr", depth=first_k, of_column=True)
def ctr(
    ranking: Ranking, k: int | None, convention: Convention, column: str
) -> PerQuery:
    """CTR@k:c = Value@k:c / min(k, n), the mean of the column c over the first k documents."""
    return _value(ranking, k, column) / np.minimum(
        ranking.judgments.query_sizes, k or LONGEST
    )


BUILT_IN = tuple(METRICS)
"""Metrics of any data set; plug-ins add theirs to `METRICS` later."""


def are_built_in(names: Iterable[str]) -> bool:
    """Returns whether several threads may compute the metrics: the kernels of a plug-in may not permit it."""
    return all(parse_metric(name)[0] in BUILT_IN for name in names)


# ---- Metrics of a log of clicks: expected clicks without the bias of the positions that were shown.
#
# `ltrbench.clicks.estimators` has the formulas. Tied documents share the mean of the values of their ranks.

CLICK_METRICS = ("clicks", "snips", "clipped_clicks")
"""Metrics of a log of clicks (`data=clicks`), whatever the labels are."""


@metric("clicks", depth=first_k)
def clicks(ranking: Ranking, k: int | None, convention: Convention) -> PerQuery:
    """Clicks@k = sum over r < min(k, n) of theta_r g_r: the clicks that a session is expected to have.

    The attraction g is estimated by inverse propensities: the clicks of a document, each divided by theta at
    the position where it was shown, over the number of sessions. Positions that were never shown add 0.
    """
    log = log_of(ranking.judgments)
    return log.values(*_examined(ranking, log, k))


def is_of_clicks(name: str) -> bool:
    """Returns whether a metric is of the clicks of a log.

    >>> is_of_clicks("clicks@10"), is_of_clicks("dcv@5:corrected"), is_of_clicks("ndcg@10")
    (True, True, False)
    """
    word = parse_metric(name)[0]
    return word in CLICK_METRICS or word == f"dcv:{CORRECTED}"


def click_gains(
    ranking: Ranking, name: str, convention: Convention
) -> tuple[ClickLog, Values]:
    """Returns the log, and (D,) the value of the rank of each document in a metric of clicks."""
    word, k = parse_metric(name)
    log = log_of(ranking.judgments)
    if word in CLICK_METRICS:
        return log, _examined(ranking, log, k)[0]
    discounts = _discounts(ranking.judgments, convention)
    return log, _gains_of_rows(ranking, k, discounts)


@metric("snips", depth=first_k)
def snips(ranking: Ranking, k: int | None, convention: Convention) -> PerQuery:
    """SNIPS@k = Clicks@k / (sum over documents of g), with one divisor for all queries and rankers: the mean
    examination of what users would click."""
    log = log_of(ranking.judgments)
    return log.self_normalised(*_examined(ranking, log, k))


@metric("clipped_clicks", depth=first_k)
def clipped_clicks(ranking: Ranking, k: int | None, convention: Convention) -> PerQuery:
    """Clicks@k with each inverse propensity clipped at 4: biased, to be read beside Clicks@k only."""
    log = log_of(ranking.judgments)
    gains, _ = _examined(ranking, log, k)
    return log.clipped(gains, tau=4.0)


def _examined(ranking: Ranking, log: ClickLog, k: int | None) -> tuple[Values, Values]:
    """Returns (D,), theta of the rank of each document, and (K,), sum of theta g over the documents at each
    rank, the derivative of the expected clicks by log theta."""
    longest = int(ranking.judgments.query_sizes.max())
    theta = log.examination_of_ranks(min(k or longest, longest))
    gains = _gains_of_rows(ranking, k, theta)
    sessions = log.num_sessions[log.query_of_row]
    attractions = ranking.tie_mean((log.corrected * sessions)[ranking.order])
    first = ranking.ranks < len(theta)
    ranks = ranking.ranks[first]
    terms = theta[ranks] * attractions[first]
    num_positions = log.impressions.num_positions
    gradient = total(ranks, terms, max(num_positions, len(theta)))
    return gains, gradient[:num_positions]


def _gains_of_rows(ranking: Ranking, k: int | None, of_ranks: Values) -> Values:
    """Returns (D,), the value of the rank of each document; 0 from rank k on."""
    depth = min(k or len(of_ranks), len(of_ranks))
    padded = np.append(of_ranks[:depth], 0.0)
    at_positions = padded[np.minimum(ranking.ranks, depth)]
    gains = np.zeros(ranking.judgments.num_documents)
    gains[ranking.order] = ranking.tie_mean(at_positions)
    return gains


# ---- Parts of metrics.


def _gains(ranking: Ranking, convention: Convention) -> Values:
    """(P,), G(l) at each position; 0 if the document was not retrieved."""
    gains = convention.gain(ranking.labels)
    if ranking.is_retrieved is None:
        return gains
    return gains * ranking.is_retrieved


def _relevance(ranking: Ranking, convention: Convention) -> Values:
    """(P,), rel at each position, 0 or 1; 0 if the document was not retrieved."""
    is_relevant = ranking.labels >= convention.relevance_threshold
    if ranking.is_retrieved is not None:
        is_relevant &= ranking.is_retrieved
    return is_relevant.astype(np.float64)


def _num_relevant(ranking: Ranking, convention: Convention) -> PerQuery:
    """Returns (Q,), R of each query; cached with the judgments, because it does not depend on scores."""
    judgments = ranking.judgments
    threshold = convention.relevance_threshold

    def compute() -> PerQuery:
        return sum_queries(
            (judgments.labels >= threshold).astype(np.float64), judgments.query_start
        )

    return judgments.remember(("num_relevant", threshold), compute)


def _num_ranks(ranking: Ranking, k: int | None, convention: Convention) -> PerQuery:
    """Returns (Q,), the divisor of precision."""
    sizes = ranking.judgments.query_sizes.astype(np.float64)
    if k is None:
        return sizes
    is_short = convention.precision_denominator is Denominator.K_UP_TO_SIZE
    if is_short:
        return np.minimum(sizes, k)
    return np.full(len(sizes), float(k))


def _num_precisions(
    ranking: Ranking, k: int | None, convention: Convention
) -> PerQuery:
    """Returns (Q,), the divisor of average precision."""
    possible = _num_relevant(ranking, convention)
    cut = convention.average_precision_cutoff and (
        convention.average_precision_denominator is Denominator.RELEVANT_UP_TO_K
    )
    if k is None or not cut:
        return possible
    return np.minimum(possible, k)


def _discounts(judgments: Judgments, convention: Convention) -> Values:
    """(largest query,), D(r) of each rank."""
    return convention.discount(np.arange(judgments.query_sizes.max()))


def _dcg(ranking: Ranking, k: int | None, convention: Convention) -> PerQuery:
    gains = ranking.tie_mean(_gains(ranking, convention))
    values = ranking.sum_first(gains, k, _discounts(ranking.judgments, convention))
    if convention.zero_if_shorter_than_k and k is not None:
        values = np.where(ranking.judgments.query_sizes < k, 0.0, values)
    return values


def _ideal_dcg(ranking: Ranking, k: int | None, convention: Convention) -> PerQuery:
    """Returns (Q,), the ideal DCG; cached with the judgments, because it does not depend on scores."""
    judgments = ranking.judgments
    key = ("ideal_dcg", convention.gain, convention.discount, k)

    def compute() -> PerQuery:
        labels, start = first_of_queries(
            judgments.labels_best_first, judgments.query_start, k
        )
        return sum_queries(
            convention.gain(labels), start, _discounts(judgments, convention)
        )

    return judgments.remember(key, compute)


DENOMINATORS: dict[str, MetricFunction] = {
    "ndcg": _ideal_dcg,
    "precision": _num_ranks,
    "recall": lambda ranking, k, convention: _num_relevant(ranking, convention),
    "map": _num_precisions,
    "pairwise_accuracy": lambda ranking, k, convention: _num_pairs(
        _pairs_by_label(ranking)
    ),
    "auc": lambda ranking, k, convention: _num_pairs(
        _pairs_by_relevance(ranking, convention)
    ),
}
"""Metric -> (Q,) denominators of its values, for the ratio of sums over a test set."""


def _value(
    ranking: Ranking, k: int | None, column: str, factors: Values | None = None
) -> PerQuery:
    """Returns (Q,), the sum of a column over the first k ranks, times the factor of each rank if given.

    Raises:
        DataError: The data have no such column, or it has texts.
    """
    values = ranking.numbers(column)
    return ranking.sum_first(
        ranking.tie_mean(np.where(np.isnan(values), 0.0, values)), k, factors
    )


def _where_found(
    ranking: Ranking, convention: Convention, values: PerQuery
) -> PerQuery:
    """Returns the values; NaN for a query in which no document has a gain."""
    return np.where(_ideal_dcg(ranking, 1, convention) > 0, values, np.nan)


def _quotient(numerator: NDArray[Any], denominator: NDArray[Any]) -> Values:
    """Returns the quotient; NaN if the denominator is 0, where the metric is not defined."""
    quotient = np.full(len(numerator), np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator > 0)
    return quotient


def _before_run(ranking: Ranking, relevance: Values) -> Values:
    """Returns (P,), the number of relevant documents of the query before the run of each position."""
    before = np.cumsum(relevance) - relevance
    before_query = before[ranking.position_start[:-1]]
    before_run = before
    if ranking.has_ties:
        before_run = before[ranking.tie_start[ranking.tie]]
    num_positions = np.diff(ranking.position_start)
    counts: Values = before_run - np.repeat(before_query, num_positions)
    return counts


def _running_sum(values: Values, query_start: QueryStart) -> Values:
    """Returns (D,), the sum of the values of the query up to and including each position."""
    # One cumsum over all queries would accumulate rounding across queries.
    sums = []
    for first, end in pairwise(query_start):
        sums.append(np.cumsum(values[first:end]))
    return np.concatenate(sums)


def _share_in_order(counts: Values) -> PerQuery:
    right, _, tied_differing, _ = counts
    return _quotient(right + 0.5 * tied_differing, _num_pairs(counts))


def _num_pairs(counts: Values) -> PerQuery:
    """Returns (Q,), the number of pairs with different grades."""
    right, wrong, tied_differing, _ = counts
    pairs: PerQuery = right + wrong + tied_differing
    return pairs


def _pairs_by_label(ranking: Ranking) -> Values:
    return _count_pairs(ranking, *ranking.judgments.grades)


def _pairs_by_relevance(ranking: Ranking, convention: Convention) -> Values:
    relevant = ranking.judgments.labels >= convention.relevance_threshold
    return _count_pairs(ranking, relevant.astype(np.int64), 2)


def _count_pairs(ranking: Ranking, grades: Indices, num_grades: int) -> Values:
    """Returns (4, Q): pairs ordered correctly, wrongly, tied with different grades, and all tied pairs.

    Args:
        grades: (D,), grade of each document, from 0 to num_grades - 1.
    """
    from ltrbench.metrics.kernels import count_pairs

    in_order = grades[ranking.order]
    counts: Values = count_pairs(
        in_order, num_grades, ranking.run_end, ranking.position_start
    )
    return counts.T


def _log_first_at(j: NDArray[Any], t: NDArray[Any], m: NDArray[Any]) -> Values:
    """Returns log(C(t - j - 1, m - 1) / C(t, m))."""
    log_later = _log_binomial(t - j - 1, m - 1)
    return log_later - _log_binomial(t, m)


def _log_binomial(n: NDArray[Any], k: NDArray[Any]) -> Values:
    """Returns log C(n, k); log 0 if k > n."""
    # Imported here because SciPy takes twice as long to import as NumPy, and `--help` does not need it.
    from scipy.special import gammaln

    possible = k <= n
    n = np.where(possible, n, k)
    log_of_n = gammaln(n + 1)
    log_of_k = gammaln(k + 1)
    value: Values = log_of_n - log_of_k - gammaln(n - k + 1)
    return np.where(possible, value, -np.inf)
