"""Glossary: the terms of a comparison, read from glossary.md beside this file.

An entry is a heading `## term` and one to four sentences: the meaning, and what to do about it. Reports, the
tables in Markdown, the verb `glossary` and the documentation all read that file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ltrbench.errors import ConfigError, did_you_mean

GLOSSARY_FILE = "glossary.md"
"""Name of the file in this package, and of the extract beside a table in Markdown."""

_ENTRY = re.compile(r"^## (?P<term>.+)\n+(?P<text>(?:(?!## ).*\n?)+)", re.MULTILINE)


@cache
def glossary() -> dict[str, str]:
    """Returns term -> text, in the order of the file."""
    content = Path(__file__).with_name(GLOSSARY_FILE).read_text(encoding="utf-8")
    return {entry["term"]: " ".join(entry["text"].split()) for entry in _ENTRY.finditer(content)}


def anchor(term: str) -> str:
    """Returns the anchor of a term, the same in the report, in mkdocs and on GitHub.

    >>> anchor("better, tied, worse")
    'better-tied-worse'
    """
    return re.sub(r"[^\w-]", "", term.lower().replace(" ", "-"))


def find_term(text: str) -> str:
    """Returns the term that the text names, in any case, with spaces or as an anchor.

    Raises:
        ConfigError: The glossary has no such term; the message suggests the closest one.

    >>> find_term("Simultaneous-Interval")
    'simultaneous interval'
    """
    terms = {anchor(term): term for term in glossary()}
    wanted = anchor(text.strip())
    if wanted not in terms:
        closest = did_you_mean(text.lower(), glossary())
        raise ConfigError(
            f"the glossary has no term '{text}'{closest} `python -m ltrbench glossary` lists all terms."
        )
    return terms[wanted]


def extract(terms: Iterable[str]) -> str:
    """Returns the entries of some terms as Markdown, each once, in the order of the glossary."""
    wanted = set(terms)
    entries = [f"## {term}\n\n{text}\n" for term, text in glossary().items() if term in wanted]
    return "\n".join(["# Glossary\n", *entries])
