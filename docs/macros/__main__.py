"""Writes the filled text of the pages anew: `make pages`."""

from __future__ import annotations

from docs.macros import refill
from docs.pages import pages

for path in pages():
    before = path.read_text(encoding="utf-8")
    after = refill(before)
    if after != before:
        path.write_text(after, encoding="utf-8")
        print(f"{path.name} has changed")
