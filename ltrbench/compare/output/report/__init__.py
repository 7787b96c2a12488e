"""The report: one HTML file with everything that a comparison shows; it needs no network and no other file.

    shown          what the sections of a data set are made from
    sections       what stands in the report: a file a section, found by itself
    data_sets      the chapter over all data sets
    provenance     the chapter on what made the runs
    parts          what a section is made of: tables, drawings, paragraphs, lists, commands
    svg            matplotlib's figures, inlined in the page's colours
    page           chapters as one page
    page.html.j2   its template
    page.css       its style
    page.js        its script, which sorts tables

`write_report` takes comparisons and writes report.html. Numbers come from the comparison's records: what is
computed here is the same scores by other cutoffs and under other conventions, and what the queries' values
show of risk and of slices.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ltrbench.compare.analysis.across import Across
from ltrbench.compare.analysis.next_step import next_step
from ltrbench.compare.analysis.slices import ATTRIBUTES, Slice, slices
from ltrbench.compare.analysis.verdict import verdict
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.output.report.data_sets import data_sets_chapter
from ltrbench.compare.output.report.page import render_page
from ltrbench.compare.output.report.parts import Chapter, Code, PagePart, Prose
from ltrbench.compare.output.report.provenance import provenance_chapter
from ltrbench.compare.output.report.sections import sections_by_place
from ltrbench.compare.output.report.shown import Shown
from ltrbench.tables import numbers

__all__ = ["write_report"]


_DRAWS = 2_000
"""Of the bootstrap in a slice that nobody asked for: enough for the third digit of an interval's width."""


def write_report(
    comparisons: Sequence[Comparison],
    path: Path,
    slices_by_data: Mapping[str, Sequence[Slice]] | None = None,
    across: Across | None = None,
    command: str = "",
) -> None:
    """Writes the report of comparisons, one a data set.

    Args:
        slices_by_data: data -> those of its queries that were asked for; the attributes that every data set
            has are added where they are missing.
        across: the comparison over data sets; None with a single one.
        command: that makes the report again; empty where there is none to tell.
    """
    chapters = [
        _chapter(comparison, f"data-{number}", (slices_by_data or {}).get(comparison.data, ()))
        for number, comparison in enumerate(comparisons, start=1)
    ]
    if across is not None:
        chapters.append(data_sets_chapter(across, comparisons[0].metric))
    chapters.append(provenance_chapter(comparisons, command))
    names = ", ".join(comparison.data for comparison in comparisons)
    path.write_text(render_page(f"{names}: {comparisons[0].metric}", chapters), encoding="utf-8")


def _chapter(comparison: Comparison, name: str, given: Sequence[Slice]) -> Chapter:
    shown = Shown(
        comparison, name, [*given, *_missing_slices(comparison, {item.attribute for item in given})]
    )
    made = (make(shown) for make in sections_by_place().values())
    return Chapter(
        name=name,
        title=comparison.data,
        verdict=verdict(comparison) if len(comparison.rows) > 1 else "",
        facts=_facts(comparison),
        sections=[section for section in made if section is not None],
        next_step=_next_step(comparison),
    )


def _next_step(comparison: Comparison) -> list[PagePart]:
    step = next_step(comparison)
    if step is None:
        return []
    return [Prose(step.sentence), *([Code(step.command)] if step.command else [])]


def _missing_slices(comparison: Comparison, given: Collection[str]) -> list[Slice]:
    """By the attributes that every data set has and nobody asked for, with fewer draws."""
    settings = replace(comparison.settings, num_draws=min(comparison.settings.num_draws, _DRAWS))
    missing = [attribute for attribute in ATTRIBUTES if attribute not in given]
    return slices(replace(comparison, settings=settings), missing)


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
    return [
        ("metric", comparison.metric),
        ("convention", comparison.settings.convention.name),
        *((name, numbers.count(value)) for name, value in counts.items() if value is not None),
        ("trainings", ", ".join(dict.fromkeys(comparison.replicates.values()))),
    ]
