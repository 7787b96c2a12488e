"""The report: one HTML file with the whole comparison; it needs no network and no other file.

    shown          the comparison as its sections need it
    sections       the sections, one per file, registered by a decorator
    data_sets      chapter on all data sets
    provenance     chapter on the runs: versions, machine, commands
    parts          classes of parts: tables, figures, paragraphs, lists, notes, commands
    svg            matplotlib figures as inline SVG in the colours of the page
    page           writes chapters as one page
    page.html.j2   template
    page.css       style
    page.js        script: sorts tables

`write_report` takes comparisons and writes report.html. Numbers come from the comparison; the sections only
compute the same scores by other cutoffs and under other conventions, and the risk and slices of the queries.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ltrbench.compare.analysis.across import Across
from ltrbench.compare.analysis.next_step import next_step
from ltrbench.compare.analysis.slices import ATTRIBUTES, Slice, slices
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.output.report.data_sets import data_sets_chapter
from ltrbench.compare.output.report.page import render_page
from ltrbench.compare.output.report.parts import Chapter, Code, Definitions, Folded, PagePart, Prose, Section
from ltrbench.compare.output.report.provenance import provenance_chapter
from ltrbench.compare.output.report.sections import sections_by_place
from ltrbench.compare.output.report.shown import Shown
from ltrbench.compare.output.tables import answer
from ltrbench.glossary import glossary
from ltrbench.tables import numbers

__all__ = ["write_report"]


_DRAWS = 2_000
"""Number of bootstrap draws in the default slices: enough for three digits of the width of an interval."""


def write_report(
    comparisons: Sequence[Comparison],
    path: Path,
    slices_by_data: Mapping[str, Sequence[Slice]] | None = None,
    across: Across | None = None,
    command: str = "",
) -> None:
    """Writes the report of comparisons, one per data set.

    Args:
        slices_by_data: Data set -> its requested slices; slices by the attributes that every data set has are
            added.
        across: Comparison over data sets; None with a single data set.
        command: Command that writes the report again; empty to leave it out.
    """
    chapters = [
        _chapter(comparison, f"data-{number}", (slices_by_data or {}).get(comparison.data, ()))
        for number, comparison in enumerate(comparisons, start=1)
    ]
    if across is not None:
        chapters.append(data_sets_chapter(across, comparisons[0].metric))
    chapters += [provenance_chapter(comparisons, command), _glossary_chapter()]
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
        answer=answer(comparison),
        facts=_facts(comparison),
        sections=[section for section in made if section is not None],
        next_step=_next_step(comparison),
        terms=("recommendation", "scope", "yardstick"),
    )


def _glossary_chapter() -> Chapter:
    entries = glossary()
    folded = Folded(f"All {len(entries)} terms", [Definitions(entries)])
    section = Section(
        "terms", "Terms", "Meaning of the columns, notes and sections of this report.", [folded]
    )
    return Chapter("glossary", "Glossary", (), (), [section])


def _next_step(comparison: Comparison) -> list[PagePart]:
    step = next_step(comparison)
    if step is None:
        return []
    return [Prose(step.sentence), *([Code(step.command)] if step.command else [])]


def _missing_slices(comparison: Comparison, given: Collection[str]) -> list[Slice]:
    """Returns the slices by the default attributes that were not requested, with fewer draws."""
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
