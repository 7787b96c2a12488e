"""Results, and the files that hold them."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap

from docs.pages import ROOT


def committed_table(path: str) -> str:
    """Returns a table of results/, without its headings, which would be the page's."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    shown = (f"**{line.lstrip('# ')}**" if line.startswith("## ") else line for line in lines[1:])
    return "\n".join(shown).strip()


def listing(module: str) -> str:
    """Returns the first indented block of a module's docstring: its files and what they hold."""
    docstring = inspect.getdoc(importlib.import_module(module)) or ""
    (block, *_) = re.findall(r"(?:^    .+\n)+", docstring, re.MULTILINE)
    return f"```text\n{textwrap.dedent(block)}```"
