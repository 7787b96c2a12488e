"""Convention: the policy that a metric's name leaves open, named, so that it can stand beside every number.

Libraries differ in the gain of a label, in how tied scores are ranked, and in what a query without any
relevant document is worth; the same scores then give another NDCG.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltrbench.shapes import Labels

Gain = Callable[[Labels], NDArray[np.float64]]
Discount = Callable[[NDArray[np.int64]], NDArray[np.float64]]


def exponential_gain(labels: Labels) -> NDArray[np.float64]:
    """G(l) = 2^l - 1 (Burges et al., 2005, "Learning to Rank using Gradient Descent", section 6)."""
    return np.exp2(labels) - 1.0


def logarithmic_discount(ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """D(r) = 1 / log2(r + 2), ranks from 0 (Järvelin and Kekäläinen, 2002, with base 2)."""
    discounts: NDArray[np.float64] = 1.0 / np.log2(ranks + 2.0)
    return discounts


@dataclass(frozen=True)
class Convention:
    """How a metric is computed, beyond its name.

    Attributes:
        name: what a result says it was computed under.
        gain: G(l), the worth of a label.
        discount: D(r), the weight of a rank, ranks from 0.
        relevance_threshold: a document with this label or a higher one is relevant, where a metric is binary.

    Common to what is here: documents with tied scores count with the expected value over all their orders,
    and a query without a relevant document is skipped; the share of such queries is reported.
    """

    name: str
    gain: Gain
    discount: Discount
    relevance_threshold: float

    def describe(self) -> dict[str, str | float]:
        """The convention in words, as a result carries it."""
        return {
            "name": self.name,
            "gain": self.gain.__name__,
            "discount": self.discount.__name__,
            "ties": "expected value over the orders of tied documents",
            "query_without_relevant_document": "skipped",
            "relevance_threshold": self.relevance_threshold,
            "average_precision_denominator": "min(relevant documents, k)",
            "precision_denominator": "k",
        }


DEFAULT = Convention("default", exponential_gain, logarithmic_discount, relevance_threshold=1.0)
