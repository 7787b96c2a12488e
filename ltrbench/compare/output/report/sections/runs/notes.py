"""What a reader of the numbers must know: skipped queries, failures, what could not be matched."""

from __future__ import annotations

from ltrbench.compare.output.report.parts import Bullets, Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.shown import Shown


@section(place=180)
def notes_section(shown: Shown) -> Section | None:
    """None where there are none."""
    notes = shown.comparison.notes
    return Section("notes", "Notes", "", [Bullets(notes)]) if notes else None
