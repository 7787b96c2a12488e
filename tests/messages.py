"""What a message must name: tests hold values, places and remedies, and leave the sentence free."""

from __future__ import annotations

import re


def naming(*parts: object) -> str:
    """Returns a pattern for `pytest.raises(..., match=...)` that finds every part, in any order.

    A part is a value, a place or a remedy: `naming("train.txt", "line 3", -1, "data.first_index=0")`.

    Raises:
        ValueError: A part has more than three words without a digit or a symbol, which is wording.
    """
    for part in map(str, parts):
        if len(part.split()) > 3 and re.fullmatch(r"[A-Za-z ,']+", part):
            raise ValueError(
                f"{part!r} is wording; a test holds what a message must name, one part each."
            )
    # Anchored: without a match, a search would start again at each character.
    return r"(?s)\A" + "".join(f"(?=.*{re.escape(str(part))})" for part in parts)
