"""Convention: the policy that a metric's name leaves open, named, so that it can stand beside every number.

Libraries differ in the gain of a label, in how tied scores are ranked, in what a query without any relevant
document is worth and in more; the same scores then give another NDCG. A `Convention` says each of these. The
libraries' own stand in `presets.py`; `with_settings` varies one.
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
        ConfigError: where a higher grade gains less than a lower one, or a gain is negative: the ideal
            ranking sorts by label, and an NDCG above 1 would come of it.
    """

    gains: tuple[float, ...]

    def __post_init__(self) -> None:
        if list(self.gains) != sorted(self.gains) or self.gains[:1] < (0.0,):
            raise ConfigError(
                f"gain is {list(self.gains)}; give gains of 0 or more, of each grade no less than the one "
                "before, as in [0,1,3,7]."
            )

    def __call__(self, labels: Labels) -> NDArray[np.float64]:
        return np.array(self.gains)[labels.astype(np.int64)]


def logarithmic_discount(ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """D(r) = 1 / log2(r + 2), ranks from 0 (Järvelin and Kekäläinen, 2002, with base 2)."""
    discounts: NDArray[np.float64] = 1.0 / np.log2(ranks + 2.0)
    return discounts


def letor_discount(ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """D(r) = 1 for r < 2 and 1 / log2(r + 1) from there on, as LETOR 4.0's own script counts."""
    discounts: NDArray[np.float64] = 1.0 / np.log2(np.maximum(ranks + 1.0, 2.0))
    return discounts


class Ties(Enum):
    """How documents with tied scores are ranked."""

    EXPECTED = "expected"  # the expected value over all their orders
    ROW_ORDER = "row_order"  # the earlier row first, as a stable sort leaves them
    WORST = "worst"  # the lowest label first
    BEST = "best"  # the highest label first
    DOCUMENT_ID = "document_id"  # the id that sorts last first, as trec_eval does


class NoRelevant(Enum):
    """What a query counts in whose documents there is nothing to find."""

    SKIP = "skip"
    ZERO = "0"
    ONE = "1"

    @property
    def value_of_query(self) -> float:
        """NaN for a query that is left out of the mean."""
        return math.nan if self is NoRelevant.SKIP else float(self.value)


class Denominator(Enum):
    """What average precision, or precision, at k divides by."""

    RELEVANT_UP_TO_K = "min(relevant, k)"
    RELEVANT = "relevant"
    K = "k"
    K_UP_TO_SIZE = "min(k, documents)"


class Aggregation(Enum):
    """How the values of queries with weights become one number."""

    WEIGHTED = "weighted"  # sum of w v / sum of w, over the queries that count
    UNWEIGHTED = "unweighted"  # weights are not looked at
    UNWEIGHTED_EMPTY = "unweighted_empty"  # (sum of w v + filled values, without their w) / sum of w


_DENOMINATORS = {
    "average_precision_denominator": (Denominator.RELEVANT_UP_TO_K, Denominator.RELEVANT),
    "precision_denominator": (Denominator.K, Denominator.K_UP_TO_SIZE),
}


@dataclass(frozen=True, kw_only=True)
class Convention:
    """How a metric is computed, beyond its name.

    Attributes:
        name: what a result says it was computed under.
        gain: G(l), the worth of a label.
        discount: D(r), the weight of a rank, ranks from 0.
        ties: how documents with tied scores are ranked.
        no_relevant: what a query counts in which there is nothing to find.
        default_cutoff: the k of a name that gives none, such as `ndcg`; None: the whole list.
        zero_if_shorter_than_k: whether NDCG@k and DCG@k of a query of fewer than k documents are 0.
        relevance_threshold: a document with this label or a higher one is relevant, where a metric is binary.
        average_precision_denominator: RELEVANT_UP_TO_K or RELEVANT.
        average_precision_cutoff: whether AP@k looks at the first k only; if not, k is ignored.
        precision_denominator: K or K_UP_TO_SIZE.
        highest_grade: l_max of ERR, whose documents satisfy with probability (2^l - 1) / 2^l_max.
        aggregation: how the values of queries with weights become one number.
        score_dtype: what scores are rounded to before they are compared; None: left as they are.
        value_dtype: what a query's value is rounded to; None: not at all.
        largest_label: labels above it are refused; None: all are taken.
        largest_mean: a mean above it, as odd weights can make it, is refused; None: it is not looked at.
        fewest_documents, most_documents: queries of fewer, or more, are refused; None: of no number.
        metrics: the names that the convention defines; None: all.
        binary_metrics: those of them that are defined on the labels 0 and 1 only.
        uncut_metrics: those of them that are defined without a cutoff only.
        by_metric: metric -> field -> value, where a metric departs from the other fields.
        quirks: what a reader should know of it, a sentence each.

    Raises:
        ConfigError: where a denominator is not one of those that the metric can have.
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
                    f"{name} is '{getattr(self, name).value}'; it may be "
                    f"{' or '.join(item.value for item in possible)}."
                )

    def of(self, metric: str) -> Convention:
        """This convention as it stands for one metric."""
        departures = self.by_metric.get(metric)
        return replace(self, by_metric={}, **departures) if departures else self

    def describe(self) -> dict[str, Any]:
        """The convention in words, as a result carries it: every field, in what JSON can hold."""
        return {item.name: _as_json(getattr(self, item.name)) for item in fields(self)}


DEFAULT = Convention(name="default")


def with_settings(convention: Convention, settings: Mapping[str, str]) -> Convention:
    """The convention with some fields set from text, as a command line gives them.

    Args:
        settings: field -> value: gain=linear, exponential or a table such as [0,1,3,7]; discount=logarithmic
            or letor; the value of an enumeration, such as ties=worst or no_relevant=0; a number; true or
            false. A field set here holds for every metric.

    Raises:
        ConfigError: on a field that cannot be set, or a value that it cannot have.

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
"""The fields that `with_settings` sets."""


def _parse(key: str, text: str) -> Any:
    if key not in SETTABLE:
        raise ConfigError(
            f"a convention has no setting '{key}'{did_you_mean(key, SETTABLE)} Settings are "
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
            f"{key} is '{text}'{did_you_mean(text, choices)} It may be {', '.join(choices)}{table}."
        )
    return choices[text]


def _number(key: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError(f"{key}: '{text}' is not a finite number; give one, as in {key}=2.")
    return number


def _as_json(value: Any) -> Any:
    """A field's value as JSON can hold it."""
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
