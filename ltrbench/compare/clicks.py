"""What a comparison of clicks rests on: the log, its checks, and the clicks that carry the estimates.

`Evidence.of` returns it for a metric of clicks. A row without enough support makes no claim. If the clicks of
a logging ranker are not predicted from those of the others, only the order of two rows is claimed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ltrbench.compare.remarks import Kind, Remark, percent
from ltrbench.compare.table import EvaluatedRun, ModelRow
from ltrbench.data import Judgments
from ltrbench.metrics import Convention, Support, parse_metric, support_of
from ltrbench.metrics.functions import is_of_clicks

CLICKS = "clicks"
"""`kind` of the facts of a log of clicks."""

LARGEST_SHARE = 0.05
"""Largest part of an estimate that one click may carry: intervals cover 90 % at 3 %, and 81 % at 16 %."""
FEWEST_QUERIES = 50
"""Minimum effective number of queries of a claim."""

_NO_CLAIM = {
    "em": "the examination by EM is biased, and carries no claim (data.propensity=em)",
    "power": "the examination was not estimated (data.propensity=power): an analysis of sensitivity",
}


@dataclass(frozen=True)
class Evidence:
    """What the claims in a metric of clicks rest on.

    Attributes:
        metric: The metric.
        facts: Facts of the log, as its source recorded them.
        num_lists: Number of lists that were shown, in all test sets.
        supports: Label of a row -> what its estimate rests on.
    """

    metric: str
    facts: Mapping[str, Any]
    num_lists: int
    supports: Mapping[str, Support]

    @classmethod
    def of(
        cls, rows: Sequence[ModelRow], metric: str, convention: Convention
    ) -> Evidence | None:
        """Returns the evidence; None if the metric is not of clicks, or there are no rows."""
        if not rows or not is_of_clicks(metric):
            return None
        firsts = _first_of_cells(rows[0])
        if firsts[0].judgments.impressions is None:
            return None
        supports = {}
        for row in rows:
            ranked = [(item.judgments, item.scores) for item in _first_of_cells(row)]
            supports[row.label] = support_of(ranked, metric, convention)
        num_lists = sum(_num_lists(item.judgments) for item in firsts)
        recorded = firsts[0].run.result.data
        return cls(metric, recorded.get("facts") or {}, num_lists, supports)

    @property
    def is_order_only(self) -> bool:
        """Whether the check by replay is rejected, so that no size of a difference is claimed."""
        return bool(self.facts.get("is_rejected"))

    def against_claims(self) -> dict[str, str]:
        """Returns label -> why the pairs of a row carry no claim, for the rows with a reason."""
        setting = str(self.facts.get("propensity"))
        estimator, _, _ = setting.partition(":")
        reason = _NO_CLAIM.get(estimator)
        if parse_metric(self.metric)[0] == "clipped_clicks":
            reason = "clipped weights are biased: claim clicks, and show this metric beside it"
        if reason:
            return dict.fromkeys(self.supports, reason)
        return {
            label: _lack_of(support)
            for label, support in self.supports.items()
            if _lack_of(support)
        }

    def remarks(self) -> Iterator[Remark]:
        """Yields what the claims assume, and how that was checked."""
        heaviest = max(support.heaviest_share for support in self.supports.values())
        yield Remark.of(
            Kind.CLICK_LOG,
            theta=self.facts.get("theta") or [],
            replays=self.facts.get("replays") or [],
            is_rejected=self.is_order_only,
            heaviest=heaviest,
            modelled=max(support.modelled_share for support in self.supports.values()),
        )


def _num_lists(judgments: Judgments) -> int:
    """Returns the number of lists that were shown."""
    if judgments.query_weights is None:
        return judgments.num_queries
    return round(float(judgments.query_weights.sum()))


def _first_of_cells(row: ModelRow) -> list[EvaluatedRun]:
    return [next(iter(items)) for items in row.cells.values()]


def _lack_of(support: Support) -> str:
    """Returns why an estimate is not enough for a claim; empty if it is.

    >>> _lack_of(Support(1000, 0.16, 0.2, 0.016, 200.0))
    'one click carries 16 % of an estimate, more than 5 %: log more lists'
    """
    if support.largest_share > LARGEST_SHARE:
        return (
            f"one click carries {percent(support.largest_share)} of an estimate, more than "
            f"{percent(LARGEST_SHARE)}: log more lists"
        )
    if support.effective_queries < FEWEST_QUERIES:
        return (
            f"the effective number of queries is {support.effective_queries:.0f}, below {FEWEST_QUERIES}: "
            "test more of them (cv=5 -m)"
        )
    return ""
