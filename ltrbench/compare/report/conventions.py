"""Does the claim hold under every convention? The same scores, as each library would have counted them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from ltrbench.compare.comparison import Comparison
from ltrbench.compare.evaluations import means_of
from ltrbench.compare.report import numbers
from ltrbench.compare.report.parts import CHANGED, Bullets, Cell, Column, Folded, Part, Section, Table, named
from ltrbench.compare.report.shown import Shown, measured
from ltrbench.errors import DataError, UndefinedMetricError
from ltrbench.metrics import PRESETS, Convention
from ltrbench.statistics import BETTER, WORSE

_DECIMALS = 10
"""Means that are alike to so many places are no order of models."""


_MOST_SWAPS = 4  # that are named


@dataclass(frozen=True)
class Claim:
    """The means of the rows under one convention.

    Attributes:
        means: label -> mean; empty where there is a reason.
        reason: why the metric is not defined there.
        swapped: the pairs of rows that stand in another order than under the comparison's own convention.
    """

    convention: Convention
    means: Mapping[str, float]
    reason: str
    swapped: tuple[tuple[str, str], ...]


def claims(comparison: Comparison) -> list[Claim]:
    """The comparison's own convention first, then every preset that is another."""
    own = _claim(comparison, comparison.settings.convention, {})
    others = [preset for preset in PRESETS.values() if preset != comparison.settings.convention]
    return [own, *(_claim(comparison, preset, own.means) for preset in others)]


def _claim(comparison: Comparison, convention: Convention, reference: Mapping[str, float]) -> Claim:
    try:
        found = {
            row.label: means_of(row.judged, [comparison.metric], convention)[0] for row in comparison.rows
        }
    except (UndefinedMetricError, DataError) as error:
        return Claim(convention, {}, str(error), ())
    means = {label: mean for label, mean in found.items() if mean is not None}
    swapped = tuple(
        (a, b)
        for a, b in itertools.combinations(means, 2)
        if a in reference and b in reference and _order(means, a, b) != _order(reference, a, b)
    )
    return Claim(convention, means, "", swapped)


def _order(means: Mapping[str, float], a: str, b: str) -> int:
    difference = round(means[a] - means[b], _DECIMALS)
    return (difference > 0) - (difference < 0)


def section(shown: Shown) -> Section:
    found = claims(shown.comparison)
    defined = [claim for claim in found if not claim.reason]
    lead = f"The same scores as other libraries would have counted them. {_answer(shown.comparison, defined)}"
    labels = [row.label for row in shown.rows]
    columns = [
        Column("convention", numeric=False),
        *map(Column, labels),
        Column("order of models", numeric=False),
    ]
    rows = [_cells(claim, labels, found[0]) for claim in found]
    quirks = [f"{claim.convention.name}: {quirk}" for claim in defined for quirk in claim.convention.quirks]
    parts: list[Part] = [
        Table(f"Mean {shown.comparison.metric} by convention", columns, rows, "compact"),
        Folded("What sets each convention apart", [Bullets(quirks)]),
    ]
    return Section("conventions", "Under every convention", lead, parts)


def _answer(comparison: Comparison, defined: list[Claim]) -> str:
    """Whether the order of the models changes, and that of any that are claimed to differ."""
    if len(defined) == 1:
        return f"No other convention defines {comparison.metric} on these data."
    if len(defined[0].means) < 2:
        return ""
    changed = [claim for claim in defined if claim.swapped]
    if not changed:
        return (
            f"The order of the models is the same under all {len(defined)} that define {comparison.metric}."
        )
    those = f"The order of the models changes under {', '.join(claim.convention.name for claim in changed)}"
    tested = (*comparison.pairs, *comparison.family)
    claimed = [{pair.a, pair.b} for pair in tested if pair.claim in (BETTER, WORSE)]
    lost = [claim.convention.name for claim in changed if any({*pair} in claimed for pair in claim.swapped)]
    if not lost:
        return f"{those}, but only of models that are not claimed to differ."
    return f"{those}; under {', '.join(lost)} it does of models that are claimed to differ."


def _cells(claim: Claim, labels: list[str], own: Claim) -> list[Cell]:
    name = named(claim.convention.name, "of this comparison" if claim is own else "")
    if claim.reason:
        return [name, *(Cell() for _ in labels), Cell("not defined", note=claim.reason)]
    means = [claim.means.get(label) for label in labels]
    order = _order_of_models(claim) if own.means and claim is not own else Cell()
    return [name, *(measured(mean, numbers.quality(mean)) for mean in means), order]


def _order_of_models(claim: Claim) -> Cell:
    if not claim.swapped:
        return Cell("the same", 0.0)
    swaps = ", ".join(f"{a} and {b}" for a, b in claim.swapped[:_MOST_SWAPS])
    more = len(claim.swapped) - _MOST_SWAPS
    rest = f" and {more} more" if more > 0 else ""
    return Cell(f"swaps {swaps}{rest}", float(len(claim.swapped)), emphasis=CHANGED)
