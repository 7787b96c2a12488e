"""Convention: everything that the name of a metric leaves open. Its name is recorded with each result.

Libraries differ in the gain of a label, in the order of tied scores, in the value of a query without a
relevant document, and more; the same scores then give different NDCGs. A `Convention` defines all of these.
`presets.py` has the conventions of libraries; `with_settings` changes fields of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError, did_you_mean
from ltrbench.shapes import Labels

Gain = Callable[[Labels], NDArray[np.float64]]
Discount = Callable[[NDArray[np.int64]], NDArray[np.float64]]


def exponential_gain(labels: Labels) -> NDArray[np.float64]:
    """G(l) = 2^l - 1 (Burges et al., 2005, "Learning to Rank using Gradient Descent", section 6)."""
    return np.exp2(labels) - 1.0


def linear_gain(labels: Labels) -> NDArray[np.float64]:
    """G(l) = l (Järvelin and Kekäläinen, 2002, "Cumulated gain-based evaluation of IR techniques")."""
    return labels


@dataclass(frozen=True)
class TableGain:
    """G(l) = gains[l], for the grades 0, 1, ..., len(gains) - 1.

    Raises:
        ConfigError: If a higher grade has a smaller gain than a lower one, or a gain is negative. The ideal
            ranking sorts by label, so NDCG could exceed 1.
    """

    gains: tuple[float, ...]

    def __post_init__(self) -> None:
        if list(self.gains) != sorted(self.gains) or self.gains[:1] < (0.0,):
            raise ConfigError(
                f"gain is {list(self.gains)}; gains must be 0 or more and must not decrease from grade to "
                "grade. Example: [0,1,3,7]."
            )

    def __call__(self, labels: Labels) -> NDArray[np.float64]:
        return np.array(self.gains)[labels.astype(np.int64)]


def logarithmic_discount(ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """D(r) = 1 / log2(r + 2), ranks from 0 (Järvelin and Kekäläinen, 2002, with base 2)."""
    discounts: NDArray[np.float64] = 1.0 / np.log2(ranks + 2.0)
    return discounts


def letor_discount(ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """D(r) = 1 for r < 2 and 1 / log2(r + 1) otherwise (evaluation script of LETOR 4.0)."""
    discounts: NDArray[np.float64] = 1.0 / np.log2(np.maximum(ranks + 1.0, 2.0))
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
        return math.nan if self is NoRelevant.SKIP else float(self.value)


class Denominator(Enum):
    """Divisor of average precision at k or precision at k."""

    RELEVANT_UP_TO_K = "min(relevant, k)"
    RELEVANT = "relevant"
    K = "k"
    K_UP_TO_SIZE = "min(k, documents)"


class Aggregation(Enum):
    """Mean of the values of weighted queries."""

    WEIGHTED = "weighted"  # sum of w v / sum of w, over the queries not skipped
    UNWEIGHTED = "unweighted"  # ignores weights
    UNWEIGHTED_EMPTY = "unweighted_empty"  # (sum of w v + filled values without w) / sum of w


_DENOMINATORS = {
    "average_precision_denominator": (Denominator.RELEVANT_UP_TO_K, Denominator.RELEVANT),
    "precision_denominator": (Denominator.K, Denominator.K_UP_TO_SIZE),
}


@dataclass(frozen=True, kw_only=True)
class Convention:
    """Definition of the metrics beyond their names.

    Attributes:
        name: recorded with each result.
        gain: G(l), gain of a label.
        discount: D(r), weight of a rank, ranks from 0.
        ties: order of documents with tied scores.
        no_relevant: value of a query without a relevant document.
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
        largest_mean: a larger mean, which weights can cause, is refused; None: no limit.
        fewest_documents, most_documents: smaller, or larger, queries are refused; None: no limit.
        metrics: names of the metrics that the convention defines; None: all.
        binary_metrics: metrics defined for the labels 0 and 1 only.
        uncut_metrics: metrics defined without a cutoff only.
        by_metric: metric -> field -> value, for metrics with other values of a field.
        quirks: remarks for readers, one sentence each.

    Raises:
        ConfigError: If a denominator is not possible for its metric.
    """

    name: str
    gain: Gain = exponential_gain
    discount: Discount = logarithmic_discount
    ties: Ties = Ties.EXPECTED
    no_relevant: NoRelevant = NoRelevant.SKIP
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
    largest_mean: float | None = None
    fewest_documents: int = 1
    most_documents: int | None = None
    metrics: frozenset[str] | None = None
    binary_metrics: frozenset[str] = frozenset()
    uncut_metrics: frozenset[str] = frozenset()
    by_metric: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    quirks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, possible in _DENOMINATORS.items():
            if getattr(self, name) not in possible:
                raise ConfigError(
                    f"{name} is '{getattr(self, name).value}'; it must be "
                    f"{' or '.join(item.value for item in possible)}."
                )

    def of(self, metric: str) -> Convention:
        """Returns the convention with the values for one metric."""
        departures = self.by_metric.get(metric)
        return replace(self, by_metric={}, **departures) if departures else self

    def describe(self) -> dict[str, Any]:
        """Returns every field as a JSON value, as stored in results."""
        return {item.name: _as_json(getattr(self, item.name)) for item in fields(self)}


DEFAULT = Convention(name="default")


def with_settings(convention: Convention, settings: Mapping[str, str]) -> Convention:
    """Returns the convention with fields set from text, as on a command line.

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
    values = {key: _parse(key, text) for key, text in settings.items()}
    kept = {
        metric: {name: value for name, value in departures.items() if name not in values}
        for metric, departures in convention.by_metric.items()
    }
    changes = ", ".join(f"{key}={text}" for key, text in settings.items())
    return replace(convention, name=f"{convention.name} with {changes}", by_metric=kept, **values)


_GAINS: dict[str, Gain] = {"exponential": exponential_gain, "linear": linear_gain}
_DISCOUNTS: dict[str, Discount] = {"logarithmic": logarithmic_discount, "letor": letor_discount}
_ENUMERATIONS: dict[str, type[Enum]] = {
    "ties": Ties,
    "no_relevant": NoRelevant,
    "average_precision_denominator": Denominator,
    "precision_denominator": Denominator,
    "aggregation": Aggregation,
}
_NUMBERS = ("relevance_threshold", "highest_grade")
_SWITCHES = ("zero_if_shorter_than_k", "average_precision_cutoff")
SETTABLE = ("gain", "discount", *_ENUMERATIONS, *_NUMBERS, *_SWITCHES)
"""Fields that `with_settings` can set."""


def _parse(key: str, text: str) -> Any:
    if key not in SETTABLE:
        raise ConfigError(
            f"a convention has no setting '{key}'{did_you_mean(key, SETTABLE)} Settings: "
            f"{', '.join(SETTABLE)}."
        )
    if key == "gain" and text.startswith("["):
        return TableGain(tuple(_number(key, item) for item in text.strip("[]").split(",")))
    if key in _NUMBERS:
        return _number(key, text)
    choices: dict[str, Any] = {"true": True, "false": False}
    if key in _ENUMERATIONS:
        choices = {item.value: item for item in _ENUMERATIONS[key]}
    elif key in ("gain", "discount"):
        choices = dict(_GAINS if key == "gain" else _DISCOUNTS)
    if text not in choices:
        table = ", or a table such as [0,1,3,7]" if key == "gain" else ""
        raise ConfigError(
            f"{key} is '{text}'{did_you_mean(text, choices)} Possible values: {', '.join(choices)}{table}."
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


def _as_json(value: Any) -> Any:
    """Returns a field as a JSON value."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, TableGain):
        return list(value.gains)
    if isinstance(value, Mapping):
        return {key: _as_json(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return list(value)
    return value.__name__ if callable(value) else value
