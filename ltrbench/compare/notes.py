"""Notes under the table: each has a group, a term of the glossary, and one sentence.

A note is made where its fact is computed: `Note(ON_COSTS, "threads", "Threads: 2.")`. Its term is a heading
of ltrbench/glossary.md. `by_group` returns the notes in the order in which every output shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ltrbench.tables import listed

ON_CLAIMS, ON_CONVENTIONS, ON_BACKENDS = "Claims", "Conventions", "Differences between backends"
ON_COSTS, ON_DATA = "Costs", "Data and runs"
GROUPS = (ON_CLAIMS, ON_CONVENTIONS, ON_BACKENDS, ON_COSTS, ON_DATA)
"""The headings of the groups, in the order in which they are shown."""


@dataclass(frozen=True)
class Note:
    """A note under the table.

    Attributes:
        group: One of `GROUPS`.
        term: Heading of the glossary entry that explains the note.
        sentence: The note itself, without the subject.
        subject: Label of the model that the note is about; empty if it is about all of them.
    """

    group: str
    term: str
    sentence: str
    subject: str = ""

    def __str__(self) -> str:
        """Returns the note as one line of text, such as "xgboost: min_docs_in_leaf is not applied."."""
        return f"{self.subject}: {self.sentence}" if self.subject else self.sentence


def by_group(notes: Iterable[Note]) -> dict[str, list[Note]]:
    """Returns group -> its notes, without empty groups; notes with one subject and term are joined, and
    equal notes about several subjects as well.

    >>> joined = by_group([Note(ON_DATA, "b", "One.", "native"), Note(ON_CLAIMS, "a", "Two."),
    ...                    Note(ON_DATA, "b", "Three.", "native"), Note(ON_DATA, "c", "Four.", "native"),
    ...                    Note(ON_DATA, "c", "Four.", "random")])
    >>> {group: [str(note) for note in notes] for group, notes in joined.items()}
    {'Claims': ['Two.'], 'Data and runs': ['native: One. Three.', 'native and random: Four.']}
    """
    notes = list(dict.fromkeys(notes))
    groups = {group: [note for note in notes if note.group == group] for group in GROUPS}
    return {group: _joined(of_group) for group, of_group in groups.items() if of_group}


def _joined(notes: Sequence[Note]) -> list[Note]:
    joined: dict[tuple[str, str, str], Note] = {}
    for note in notes:
        # Notes about all models stay apart: they have no subject to be joined under.
        key = (note.subject, note.term, "" if note.subject else note.sentence)
        first = joined.get(key)
        text = note.sentence if first is None else f"{first.sentence} {note.sentence}"
        joined[key] = Note(note.group, note.term, text, note.subject)
    alike: dict[tuple[str, str, bool], list[Note]] = {}
    for note in joined.values():
        alike.setdefault((note.term, note.sentence, bool(note.subject)), []).append(note)
    return [replace(notes[0], subject=listed([note.subject for note in notes])) for notes in alike.values()]
