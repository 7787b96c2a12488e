"""The report: one HTML file with everything that a comparison found; it needs no network and no other file.

    write             comparisons in, report.html out
    parts.py          sections, tables, figures: what a page is made of
    numbers.py        how every number is written
    svg.py            matplotlib's figures, inlined in the page's colours
    page.html.j2      the page, with page.css and page.js in it

A theme is a file with a function from `Shown` to a `Section`, or None where there is nothing to show; a new
one is such a function and its name in `SECTIONS`. Numbers come from the comparison's records: what is
computed here is the same scores by other cutoffs and under other conventions, and what the queries' values
say of risk and of slices.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ltrbench.compare.analysis.across import Across
from ltrbench.compare.analysis.next_step import next_step
from ltrbench.compare.analysis.slices import ATTRIBUTES, Slice
from ltrbench.compare.analysis.slices import slices as by_attribute
from ltrbench.compare.analysis.verdict import verdict
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.output.report import (
    aa,
    conventions,
    costs,
    curves,
    data_card,
    datasets,
    distribution,
    folds,
    hyperparameters,
    importances,
    leaderboard,
    numbers,
    pairs,
    power,
    provenance,
    queries,
    risk,
)
from ltrbench.compare.output.report.page import render
from ltrbench.compare.output.report.parts import Bullets, Chapter, Code, Part, Prose, Section
from ltrbench.compare.output.report.shown import Shown

__all__ = ["write"]


_DRAWS = 2_000
"""Of the bootstrap in a slice that nobody asked for: enough for the third digit of an interval's width."""


def _notes(shown: Shown) -> Section | None:
    notes = shown.comparison.notes
    return Section("notes", "Notes", "", [Bullets(notes)]) if notes else None


SECTIONS: Sequence[Callable[[Shown], Section | None]] = (
    leaderboard.section,
    pairs.section,
    folds.section,
    aa.section,
    power.section,
    distribution.section,
    queries.section,
    risk.section,
    queries.slices,
    curves.cutoffs,
    curves.learning,
    costs.section,
    conventions.section,
    importances.section,
    hyperparameters.section,
    data_card.section,
    data_card.published,
    _notes,
)
"""In the order in which they are read."""


def write(
    comparisons: Sequence[Comparison],
    path: Path,
    slices: Mapping[str, Sequence[Slice]] | None = None,
    across: Across | None = None,
    command: str = "",
) -> None:
    """Writes the report of comparisons, one a data set.

    Args:
        slices: data -> those of its queries that were asked for; the attributes that every data set has are
            added where they are missing.
        across: the comparison over data sets; None with a single one.
        command: that makes the report again; empty where there is none to tell.
    """
    chapters = [
        _chapter(comparison, f"data-{number}", (slices or {}).get(comparison.data, ()))
        for number, comparison in enumerate(comparisons, start=1)
    ]
    if across is not None:
        chapters.append(datasets.chapter(across, comparisons[0].metric))
    chapters.append(provenance.chapter(comparisons, command))
    names = ", ".join(comparison.data for comparison in comparisons)
    path.write_text(render(f"{names}: {comparisons[0].metric}", chapters), encoding="utf-8")


def _chapter(comparison: Comparison, name: str, given: Sequence[Slice]) -> Chapter:
    shown = Shown(
        comparison, name, [*given, *_unasked_slices(comparison, {item.attribute for item in given})]
    )
    found = (section(shown) for section in SECTIONS)
    return Chapter(
        name=name,
        title=comparison.data,
        verdict=verdict(comparison) if len(comparison.rows) > 1 else "",
        facts=_facts(comparison),
        sections=[section for section in found if section is not None],
        next_step=_next_step(comparison),
    )


def _next_step(comparison: Comparison) -> list[Part]:
    step = next_step(comparison)
    if step is None:
        return []
    return [Prose(step.sentence), *([Code(step.command)] if step.command else [])]


def _unasked_slices(comparison: Comparison, asked: Collection[str]) -> list[Slice]:
    """By the attributes that every data set has and nobody asked for, with fewer draws."""
    settings = replace(comparison.settings, num_draws=min(comparison.settings.num_draws, _DRAWS))
    missing = [attribute for attribute in ATTRIBUTES if attribute not in asked]
    return by_attribute(replace(comparison, settings=settings), missing)


def _facts(comparison: Comparison) -> list[tuple[str, str]]:
    results = [run.result for row in comparison.rows for run in row.runs]
    folds = {result.data.get("fold") for result in results} - {None}
    queries = comparison.queries
    counts = {
        "models": len(comparison.rows),
        "queries": None if queries is None else queries.num_distinct,
        "folds": len(folds) or None,
        "runs": len(results),
    }
    said = [("metric", comparison.metric), ("convention", comparison.settings.convention.name)]
    trainings = ("trainings", ", ".join(dict.fromkeys(comparison.replicates.values())))
    known = [(name, numbers.count(value)) for name, value in counts.items() if value is not None]
    return [*said, *known, trainings]
