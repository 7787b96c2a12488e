"""What a comparison of clicks rests on: the log, its checks, and the clicks that carry the estimates.

`Evidence.of` returns it for a metric of clicks. A row without enough support makes no claim. If the clicks of
a logging ranker are not predicted from those of the others, only the order of two rows is claimed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ltrbench.compare.cells import grouped
from ltrbench.compare.remarks import Kind, Remark, percent
from ltrbench.compare.table import EvaluatedRun, ModelRow
from ltrbench.data import Judgments
from ltrbench.metrics import Convention, Support, parse_metric, support_of
from ltrbench.metrics.functions import is_of_clicks

CLICKS = "clicks"
"""`kind` of the facts of a log of clicks."""

LARGEST_SHARE = 0.05
"""Largest part of an estimate that one click may carry: intervals cover 90 % at 3 %, and 81 % at 16 %."""
LARGEST_MODELLED_SHARE = 0.05
"""Largest part of an estimate that a model of documents which were never shown may carry: if the features say
nothing, intervals cover 88 % at 5 %, and 82 % at 10 %."""
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
        supports: Label of a row -> what its estimate rests on, in the repeat with the heaviest click.
        num_folds: Number of test sets.
    """

    metric: str
    facts: Mapping[str, Any]
    num_lists: int
    supports: Mapping[str, Support]
    num_folds: int = 1

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
            repeats = _by_repeat(_first_of_cells(row))
            of_repeats = [_support(items, metric, convention) for items in repeats]
            supports[row.label] = max(of_repeats, key=_largest_share)
        once = _by_repeat(firsts)[0]
        recorded = firsts[0].run.result.data
        return cls(
            metric=metric,
            facts=recorded.get("facts") or {},
            num_lists=sum(_num_lists(item.judgments) for item in once),
            supports=supports,
            num_folds=len(once),
        )

    @property
    def is_order_only(self) -> bool:
        """Whether the check by replay is rejected, so that no size of a difference is claimed."""
        return bool(self.facts.get("is_rejected"))

    @property
    def units(self) -> str:
        """What intervals count as independent: queries or users."""
        return "users" if self.facts.get("cluster") == "user" else "queries"

    def against_claims(self) -> dict[str, str]:
        """Returns label -> why the pairs of a row carry no claim, for the rows with a reason."""
        setting = str(self.facts.get("propensity"))
        estimator, _, _ = setting.partition(":")
        reason = _NO_CLAIM.get(estimator)
        if parse_metric(self.metric)[0] == "clipped_clicks":
            reason = "clipped weights are biased: claim clicks, and show this metric beside it"
        if reason:
            return dict.fromkeys(self.supports, reason)
        lacks = {}
        for label, support in self.supports.items():
            lack = self._lack_of(support)
            if lack:
                lacks[label] = lack
        return lacks

    def _lack_of(self, support: Support) -> str:
        """Returns why an estimate is not enough for a claim; empty if it is."""
        if support.largest_share > LARGEST_SHARE:
            return (
                f"one click carries {percent(support.largest_share)} of an estimate, more than "
                f"{percent(LARGEST_SHARE)}: log more lists"
            )
        on_model = self._lack_of_shown(support.modelled_share)
        if on_model:
            return on_model
        if support.effective_queries >= FEWEST_QUERIES:
            return ""
        remedy = "log more of them"
        if self.num_folds == 1:
            remedy = "test more of them (cv=5 -m)"
        return (
            f"the effective number of {self.units} is {support.effective_queries:.0f}, below "
            f"{FEWEST_QUERIES}: {remedy}"
        )

    def _lack_of_shown(self, modelled_share: float) -> str:
        """Returns why too much of an estimate is of documents that were never shown; empty if it is not."""
        carries = f"carries {percent(modelled_share)} of an estimate"
        if modelled_share and not self.facts["has_features"]:
            return (
                f"the mean attraction of the shown documents {carries}, for documents that were never shown, "
                "because the log has no features: add them (data.documents=FILE), or log lists that show "
                "these documents"
            )
        if modelled_share <= LARGEST_MODELLED_SHARE:
            return ""
        return (
            f"a model of documents that were never shown {carries}, more than "
            f"{percent(LARGEST_MODELLED_SHARE)}: log lists that show them"
        )

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


def _largest_share(support: Support) -> float:
    return support.largest_share


def _by_repeat(items: Sequence[EvaluatedRun]) -> list[list[EvaluatedRun]]:
    """Returns the test sets of each repeat of a cross-validation: each of them has all clicks."""
    return [*grouped(items, lambda item: item.cell.repeat).values()]


def _support(
    items: Sequence[EvaluatedRun], metric: str, convention: Convention
) -> Support:
    ranked = [(item.judgments, item.scores) for item in items]
    keys = np.concatenate([item.query_keys for item in items])
    return support_of(ranked, metric, convention, keys)
