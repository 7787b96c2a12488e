"""Section "Notes": the notes of the table by group, each with a link to the glossary."""

from __future__ import annotations

from ltrbench.compare.analysis.methods import all_notes
from ltrbench.compare.notes import by_group
from ltrbench.compare.output.report.parts import GroupedNotes, Section
from ltrbench.compare.output.report.sections import section
from ltrbench.compare.output.report.shown import Shown


@section(place=180)
def notes_section(shown: Shown) -> Section | None:
    """Returns the notes by group; None if there are none."""
    groups = by_group(all_notes(shown.comparison))
    parts = [GroupedNotes(group, notes) for group, notes in groups.items()]
    return Section("notes", "Notes", "", parts) if parts else None
