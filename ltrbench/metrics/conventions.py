"""Convention: everything that the name of a metric leaves open. Its name is recorded with each result.

Libraries differ in the gain of a label, in the order of tied scores, in the value of a query without a
relevant document, and more; the same scores then give different NDCGs. A `Convention` defines all of these.
`PRESETS` has the conventions of libraries; `with_settings` changes fields of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError, did_you_mean, require_choice
from ltrbench.measure import plain
from ltrbench.shapes import Labels

Gain = Callable[[Labels], NDArray[np.float64]]
Discount = Callable[[NDArray[np.int64]], NDArray[np.float64]]


def exponential_gain(labels: Labels) -> NDArray[np.float64]:
    """G(l) = 2^l - 1 (Burges et al., 2005, "Learning to Rank using Gradient Descent", section 6)."""
    return np.exp2(labels) - 1.0


def linear_gain(labels: Labels) -> NDArray[np.float64]:
    """G(l) = l (Järvelin and Kekäläinen, 2002, "Cumulated gain-based evaluation of IR techniques")."""
    return labels.copy()


@dataclass(frozen=True)
class TableGain:
    """G(l) = gains[l], for the grades 0, 1, ..., len(gains) - 1.

    Raises:
        ConfigError: If a higher grade has a smaller gain than a lower one, or a gain is negative. The ideal
            ranking sorts by label, so NDCG could exceed 1.
    """

    gains: tuple[float, ...]

    def __post_init__(self) -> None:
        is_ascending = list(self.gains) == sorted(self.gains)
        if not is_ascending or self.gains[:1] < (0.0,):
            raise ConfigError(
                f"gain is {list(self.gains)}; gains must not decrease from 0, as in [0,1,3,7]."
            )

    def __call__(self, labels: Labels) -> NDArray[np.float64]:
        return np.array(self.gains)[labels.astype(np.int64)]


def logarithmic_discount(ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """D(r) = 1 / log2(r + 2), ranks from 0 (Järvelin and Kekäläinen, 2002, with base 2)."""
    discounts: NDArray[np.float64] = 1.0 / np.log2(ranks + 2.0)
    return discounts


def letor_discount(ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """D(r) = 1 for r < 2 and 1 / log2(r + 1) otherwise (evaluation script of LETOR 4.0)."""
    arguments = np.maximum(ranks + 1.0, 2.0)
    discounts: NDArray[np.float64] = 1.0 / np.log2(arguments)
    return discounts


class Ties(Enum):
    """Order of documents with tied scores."""

    EXPECTED = "expected"  # expected value over all orders
    ROW_ORDER = "row_order"  # earlier row first, as in a stable sort
    WORST = "worst"  # lowest label first
    BEST = "best"  # highest label first
    DOCUMENT_ID = "document_id"  # descending id, as in trec_eval


class NoRelevant(Enum):
    """Value of a query without a relevant document, or without a pair to order."""

    SKIP = "skip"
    ZERO = "0"
    ONE = "1"

    @property
    def value_of_query(self) -> float:
        """Value in the mean; NaN if the query is left out of the mean."""
        if self is NoRelevant.SKIP:
            return math.nan
        return float(self.value)


class Denominator(Enum):
    """Divisor of average precision at k or precision at k."""

    RELEVANT_UP_TO_K = "min(relevant, k)"
    RELEVANT = "relevant"
    K = "k"
    K_UP_TO_SIZE = "min(k, documents)"


class Aggregation(Enum):
    """Mean of the values v of queries with weights w."""

    WEIGHTED = "weighted"  # sum of w v / sum of w, over the queries not skipped
    UNWEIGHTED = "unweighted"  # ignores weights
    UNWEIGHTED_EMPTY = (
        "unweighted_empty"  # (sum of w v + filled values without w) / sum of w
    )
    RATIO_OF_SUMS = "ratio_of_sums"  # sum of w n / sum of w d, if v = n / d, such as DCG / ideal DCG


@dataclass(frozen=True, kw_only=True)
class Convention:
    """Definition of the metrics beyond their names.

    Attributes:
        name: recorded with each result.
        gain: G(l), gain of a label.
        discount: D(r), weight of a rank, ranks from 0.
        ties: order of documents with tied scores.
        no_relevant: value of a query without a relevant document.
        unanswered: value of a query without a retrieved document, ZERO or SKIP; None: no document may lack a
            score. Otherwise a document whose score is NaN was not retrieved, and earns nothing.
        judged_only: whether retrieved documents without a judgment are left out; otherwise they have ranks
            and are not relevant.
        skip_constant_labels: whether queries whose documents all have the same label are skipped.
        skip_shorter_than: queries with fewer documents are skipped.
        default_cutoff: k of a name without a cutoff, such as `ndcg`; None: the whole list.
        zero_if_shorter_than_k: whether NDCG@k and DCG@k of a query with fewer than k documents are 0.
        relevance_threshold: smallest label of a relevant document, in binary metrics.
        average_precision_denominator: RELEVANT_UP_TO_K or RELEVANT.
        average_precision_cutoff: whether AP@k reads the first k documents only; if not, k is ignored.
        precision_denominator: K or K_UP_TO_SIZE.
        highest_grade: l_max of ERR, in which a document satisfies with probability (2^l - 1) / 2^l_max.
        aggregation: mean of the values of weighted queries.
        score_dtype: type to which scores are rounded before comparison; None: no rounding.
        value_dtype: type to which the value of a query is rounded; None: no rounding.
        largest_label: larger labels are refused; None: no limit.
        fewest_documents, most_documents: smaller, or larger, queries are refused; None: no limit.
        metrics: names of the metrics that the convention defines; None: all.
        binary_metrics: metrics defined for the labels 0 and 1 only.
        uncut_metrics: metrics defined without a cutoff only.
        by_metric: metric -> field -> value, for metrics with other values of a field.
        quirks: remarks for readers, one sentence each.
    """

    name: str
    gain: Gain = exponential_gain
    discount: Discount = logarithmic_discount
    ties: Ties = Ties.EXPECTED
    no_relevant: NoRelevant = NoRelevant.SKIP
    unanswered: NoRelevant | None = None
    judged_only: bool = True
    skip_constant_labels: bool = False
    skip_shorter_than: int = 1
    default_cutoff: int | None = None
    zero_if_shorter_than_k: bool = False
    relevance_threshold: float = 1.0
    average_precision_denominator: Denominator = Denominator.RELEVANT_UP_TO_K
    average_precision_cutoff: bool = True
    precision_denominator: Denominator = Denominator.K
    highest_grade: float = 4.0
    aggregation: Aggregation = Aggregation.WEIGHTED
    score_dtype: str | None = None
    value_dtype: str | None = None
    largest_label: float | None = None
    fewest_documents: int = 1
    most_documents: int | None = None
    metrics: frozenset[str] | None = None
    binary_metrics: frozenset[str] = frozenset()
    uncut_metrics: frozenset[str] = frozenset()
    by_metric: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    quirks: tuple[str, ...] = ()

    def of(self, metric: str) -> Convention:
        """Returns the convention with the values for one metric."""
        departures = self.by_metric.get(metric)
        if departures:
            return replace(self, by_metric={}, **departures)
        return self

    @property
    def filters(self) -> str:
        """Which queries are skipped, with or without a relevant document; "none" if there are none."""
        skipped = []
        if self.skip_constant_labels:
            skipped.append("lists with constant labels")
        if self.skip_shorter_than > 1:
            skipped.append(f"lists with fewer than {self.skip_shorter_than} documents")
        return " and ".join(skipped) or "none"

    def describe(self) -> dict[str, Any]:
        """Returns every field as a JSON value, as stored in results."""
        names = [item.name for item in fields(self)]
        values = {name: plain(getattr(self, name)) for name in names}
        return {
            **values,
            "gain": _name_of(self.gain),
            "discount": _name_of(self.discount),
        }


DEFAULT = Convention(name="default")


def with_settings(convention: Convention, settings: Mapping[str, Any]) -> Convention:
    """Returns the convention with fields set from text, as on a command line, or from such numbers and lists.

    Args:
        settings: field -> value: gain=linear, exponential or a table such as [0,1,3,7]; discount=logarithmic
            or letor; the value of an enumeration, such as ties=worst or no_relevant=0; a number; true or
            false. The value applies to every metric.

    Raises:
        ConfigError: If a field cannot be set, or cannot have the value.

    >>> with_settings(DEFAULT, {"gain": "linear", "ties": "worst", "no_relevant": "0"}).name
    'default with gain=linear, ties=worst, no_relevant=0'
    """
    if not settings:
        return convention
    values = {key: _parse(key, str(value)) for key, value in settings.items()}
    of_runs = [name for name in ("unanswered", "judged_only") if name in values]
    if of_runs and convention.unanswered is None:
        raise ConfigError(
            f"{of_runs[0]}: under the convention {convention.name} every document needs a score; only "
            "trec_eval has documents that were not retrieved, or not judged."
        )
    kept = {}
    for metric, departures in convention.by_metric.items():
        others = [name for name in departures if name not in values]
        kept[metric] = {name: departures[name] for name in others}
    changes = ", ".join(f"{key}={text}" for key, text in settings.items())
    return replace(
        convention, name=f"{convention.name} with {changes}", by_metric=kept, **values
    )


def _by_value(*items: Enum) -> dict[str, Any]:
    return {item.value: item for item in items}


_SWITCH = {"true": True, "false": False}
_CHOICES: dict[str, dict[str, Any]] = {
    "gain": {"exponential": exponential_gain, "linear": linear_gain},
    "discount": {"logarithmic": logarithmic_discount, "letor": letor_discount},
    "ties": _by_value(*Ties),
    "no_relevant": _by_value(*NoRelevant),
    "unanswered": _by_value(NoRelevant.ZERO, NoRelevant.SKIP),
    "judged_only": _SWITCH,
    "average_precision_denominator": _by_value(
        Denominator.RELEVANT_UP_TO_K, Denominator.RELEVANT
    ),
    "precision_denominator": _by_value(Denominator.K, Denominator.K_UP_TO_SIZE),
    "aggregation": _by_value(*Aggregation),
    "skip_constant_labels": _SWITCH,
    "zero_if_shorter_than_k": _SWITCH,
    "average_precision_cutoff": _SWITCH,
}
_NUMBERS = ("relevance_threshold", "highest_grade")
SETTABLE = (*_CHOICES, *_NUMBERS, "skip_shorter_than")
"""Fields that `with_settings` can set."""


def _parse(key: str, text: str) -> Any:
    require_choice("setting of the convention", key, SETTABLE)
    if key == "gain" and text.startswith("["):
        gains = text.strip("[]").split(",")
        return TableGain(tuple(_number(key, gain) for gain in gains))
    if key in _NUMBERS:
        return _number(key, text)
    if key == "skip_shorter_than":
        if not (text.isascii() and text.isdigit() and int(text)):
            raise ConfigError(
                f"{key}: '{text}' is not a whole number from 1. Example: {key}=10."
            )
        return int(text)
    choices = _CHOICES[key]
    if text not in choices:
        table = ", or a table such as [0,1,3,7]" if key == "gain" else ""
        hint = did_you_mean(text, choices)
        raise ConfigError(
            f"{key} is '{text}'{hint} Choose {', '.join(choices)}{table}."
        )
    return choices[text]


def _number(key: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError(f"{key}: '{text}' is not a finite number. Example: {key}=2.")
    return number


def _name_of(policy: Gain | Discount) -> str | list[float]:
    if isinstance(policy, TableGain):
        return list(policy.gains)
    return str(getattr(policy, "__name__", policy))


# ---- Presets: the conventions of libraries and evaluation scripts.
#
# Under the preset of a library, scores give the value that the library itself reports. A preset lists the
# metrics that its library defines; no other metric is computed under it. To add a preset, write its
# `Convention` here, from the library's source, and a test in tests/metrics that compares it with the
# library.

ABOVE_HALF = math.nextafter(0.5, math.inf)
"""Relevance threshold of libraries in which a document is relevant if its label exceeds 0.5."""

# LightGBM 4.7: src/metric/rank_metric.hpp, map_metric.hpp and dcg_calculator.cpp.
LIGHTGBM = Convention(
    name="lightgbm",
    ties=Ties.ROW_ORDER,
    no_relevant=NoRelevant.ONE,
    relevance_threshold=ABOVE_HALF,
    metrics=frozenset({"ndcg", "map"}),
    by_metric={
        "ndcg": {
            "aggregation": Aggregation.UNWEIGHTED_EMPTY,
            "largest_label": 30.0,
            "most_documents": 10_000,
        }
    },
    quirks=(
        "A query without a relevant document has the value 1, so the mean rises with their share.",
        "In the weighted NDCG such a query adds 1 to the sum, regardless of its weight, and its weight to "
        "the divisor.",
        "Tied documents keep their row order, so rows sorted by descending label increase the value.",
        "The weight of a query is the mean of the weights of its rows, summed in float32.",
        "A query with more than 10,000 documents is an error in NDCG.",
    ),
)

# XGBoost 3.2: src/metric/rank_metric.cc. Its auc is left out, because within a query it also counts pairs of
# documents with equal labels.
XGBOOST = Convention(
    name="xgboost",
    ties=Ties.ROW_ORDER,
    no_relevant=NoRelevant.ONE,
    default_cutoff=32,
    precision_denominator=Denominator.K_UP_TO_SIZE,
    score_dtype="float32",
    metrics=frozenset({"ndcg", "map", "precision"}),
    binary_metrics=frozenset({"map", "precision"}),
    by_metric={
        "ndcg": {"aggregation": Aggregation.UNWEIGHTED_EMPTY, "largest_label": 31.0},
        "precision": {"no_relevant": NoRelevant.ZERO},
    },
    quirks=(
        "A query without a relevant document has the value 1 in NDCG and AP, 0 in precision.",
        "In the weighted NDCG such a query adds 1 to the sum, regardless of its weight, and its weight to "
        "the divisor; the library refuses a resulting mean above 1, which is not checked here.",
        "Tied documents keep their row order, so rows sorted by descending label increase the value.",
        "A name without a cutoff has the cutoff 32: ndcg is ndcg@32.",
        "Scores are rounded to float32; scores that become equal are tied.",
    ),
)

XGBOOST_MINUS = replace(
    XGBOOST,
    name="xgboost-",
    no_relevant=NoRelevant.ZERO,
    by_metric={"ndcg": {"largest_label": 31.0}},
    quirks=(
        "XGBoost uses this convention for a name with a trailing minus, such as ndcg@10-.",
        "A query without a relevant document has the value 0.",
        *XGBOOST.quirks[2:],
    ),
)

# CatBoost 1.2: catboost/libs/metrics/metric.cpp, dcg.cpp and precision_recall_at_k.cpp.
_CATBOOST_UNWEIGHTED = {"aggregation": Aggregation.UNWEIGHTED}
CATBOOST = Convention(
    name="catboost",
    gain=linear_gain,
    ties=Ties.WORST,
    no_relevant=NoRelevant.ZERO,
    relevance_threshold=ABOVE_HALF,
    precision_denominator=Denominator.K_UP_TO_SIZE,
    highest_grade=0.0,  # a document with label 1 satisfies with probability 1
    metrics=frozenset(
        {"ndcg", "dcg", "map", "mrr", "precision", "recall", "err", "auc"}
    ),
    binary_metrics=frozenset({"err", "auc"}),
    by_metric={
        "ndcg": {"no_relevant": NoRelevant.ONE},
        "map": _CATBOOST_UNWEIGHTED,
        "precision": _CATBOOST_UNWEIGHTED,
        "recall": {**_CATBOOST_UNWEIGHTED, "no_relevant": NoRelevant.ONE},
        "auc": {**_CATBOOST_UNWEIGHTED, "ties": Ties.EXPECTED},
    },
    quirks=(
        "A query without a relevant document has the value 1 in NDCG and recall, 0 in the other metrics.",
        "Query weights are used in NDCG, DCG, MRR and ERR only.",
        "ERR uses the label as the probability that the document satisfies the user.",
        "AUC counts a tied pair as 1/2; the other metrics rank the lower label first.",
        "A query whose documents are all relevant has the value 0 in AUC.",
        "The gain is the label; with NDCG:type=Exp, which is not the default, it is 2^label - 1.",
    ),
)

# scikit-learn 1.9: sklearn/metrics/_ranking.py, dcg_score and ndcg_score.
SKLEARN = Convention(
    name="sklearn",
    gain=linear_gain,
    ties=Ties.EXPECTED,
    no_relevant=NoRelevant.ZERO,
    fewest_documents=2,
    metrics=frozenset({"ndcg", "dcg"}),
    quirks=(
        "The gain is the label, not 2^label - 1.",
        "A query without a relevant document has the value 0, so the mean falls with their share.",
        "A query with one document is an error.",
    ),
)

# RankLib 2.x: ciir.umass.edu.metric, NDCGScorer, APScorer, PrecisionScorer, ReciprocalRankScorer, ERRScorer.
RANKLIB = Convention(
    name="ranklib",
    ties=Ties.ROW_ORDER,
    no_relevant=NoRelevant.ZERO,
    average_precision_denominator=Denominator.RELEVANT,
    average_precision_cutoff=False,
    precision_denominator=Denominator.K_UP_TO_SIZE,
    aggregation=Aggregation.UNWEIGHTED,
    metrics=frozenset({"ndcg", "dcg", "map", "precision", "mrr", "err"}),
    by_metric={"mrr": {"value_dtype": "float32"}},
    quirks=(
        "A query without a relevant document has the value 0, so the mean falls with their share.",
        "AP ignores its cutoff: map@k is map.",
        "Tied documents keep their row order, so rows sorted by descending label increase the value.",
        "The highest grade of ERR is 4 for any labels, unless -gmax sets it.",
        "The reciprocal rank is rounded to float32.",
    ),
)

# pyltr 0.2.6: pyltr/metrics/dcg.py, err.py, ap.py and roc.py. Its Kendall's tau is left out: it is not tau-b.
PYLTR = Convention(
    name="pyltr",
    ties=Ties.WORST,
    no_relevant=NoRelevant.ZERO,
    relevance_threshold=0.5,
    average_precision_denominator=Denominator.RELEVANT,
    aggregation=Aggregation.UNWEIGHTED,
    metrics=frozenset({"ndcg", "dcg", "map", "err", "auc"}),
    quirks=(
        "Tied documents are ranked with the lowest label first, so ties never increase the value.",
        "A query without a relevant document has the value 0, so the mean falls with their share.",
        "The default cutoff of pyltr is k = 10; here a name without a cutoff has none.",
    ),
)

# The evaluation script of LETOR 4.0 (Qin and Liu, 2013, "Introducing LETOR 4.0 Datasets").
LETOR4 = Convention(
    name="letor4",
    discount=letor_discount,
    ties=Ties.ROW_ORDER,
    no_relevant=NoRelevant.ZERO,
    zero_if_shorter_than_k=True,
    average_precision_denominator=Denominator.RELEVANT,
    average_precision_cutoff=False,
    aggregation=Aggregation.UNWEIGHTED,
    metrics=frozenset({"ndcg", "mean_ndcg", "map", "precision"}),
    quirks=(
        "The second document is not discounted: D = 1, 1, 1/log2(3), 1/log2(4), ...",
        "A query with fewer than k documents has the value 0 in NDCG@k.",
        "A query without a relevant document has the value 0, so the mean falls with their share.",
        "Average precision has no cutoff: map@k is map.",
    ),
)

# trec_eval 9: m_ndcg_cut.c, m_map_cut.c, m_P.c, m_recall.c, m_recip_rank.c; form_res_rels.c orders the ties.
# unanswered=0 is its option -c: without it, a system would gain by not answering hard queries.
TREC_EVAL = Convention(
    name="trec_eval",
    gain=linear_gain,
    ties=Ties.DOCUMENT_ID,
    no_relevant=NoRelevant.ZERO,
    unanswered=NoRelevant.ZERO,
    judged_only=False,
    average_precision_denominator=Denominator.RELEVANT,
    aggregation=Aggregation.UNWEIGHTED,
    score_dtype="float32",
    metrics=frozenset({"ndcg", "map", "precision", "recall", "mrr"}),
    uncut_metrics=frozenset({"mrr"}),
    quirks=(
        "Tied documents are ranked by descending document id, regardless of the order of their rows.",
        "Scores are rounded to float32; scores that become equal are tied.",
        "The gain is the label, not 2^label - 1.",
        "AP@k divides by the number of all relevant documents; with more than k of them it cannot reach 1.",
        "A query without a relevant document has the value 0, so the mean falls with their share.",
        "A document without a score (NaN) was not retrieved: it has no rank and earns nothing.",
        "A query without a retrieved document has the value 0, as with trec_eval -c; without -c it is left "
        "out of the mean: unanswered=skip.",
        "A retrieved document without a judgment has a rank and is not relevant; with -J it is left out: "
        "judged_only=true.",
    ),
)

_OF_LIBRARIES = (
    LIGHTGBM,
    XGBOOST,
    XGBOOST_MINUS,
    CATBOOST,
    SKLEARN,
    RANKLIB,
    PYLTR,
    LETOR4,
    TREC_EVAL,
)

PRESETS: dict[str, Convention] = {
    convention.name: convention for convention in (DEFAULT, *_OF_LIBRARIES)
}


def preset(name: str) -> Convention:
    """Returns the convention with this name.

    Raises:
        ConfigError: If there is no such convention.

    >>> preset("letor4").quirks[1]
    'A query with fewer than k documents has the value 0 in NDCG@k.'
    """
    require_choice("convention", name, PRESETS)
    return PRESETS[name]


def described_as(described: Mapping[str, Any]) -> Convention | None:
    """Returns the convention whose `describe` gives these values, but for its name: a preset, or a preset
    with settings. None if there is none.

    >>> described_as(with_settings(DEFAULT, {"gain": "linear"}).describe()).name
    'default with gain=linear'
    """
    for base in PRESETS.values():
        of_base = base.describe()
        settings = {}
        for name in SETTABLE:
            value = described.get(name)
            if value != of_base[name]:
                settings[name] = _text_of(name, value)
        try:
            convention = with_settings(base, settings)
        except ConfigError:  # the preset does not allow them
            continue
        if convention.describe() == {**described, "name": convention.name}:
            return convention
    return None


def _text_of(name: str, value: object) -> str:
    """Returns the text of `with_settings` for the described value of a field."""
    for text, choice in _CHOICES.get(name, {}).items():
        described = _name_of(choice) if callable(choice) else plain(choice)
        if described == value:
            return text
    return str(value)
