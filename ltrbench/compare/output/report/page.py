"""Writes chapters as one HTML page that contains its style and its script."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ltrbench.compare.output.report.parts import Chapter
from ltrbench.glossary import anchor
from ltrbench.tables.numbers import EN_DASH
from ltrbench.untrusted.escaping import visible

_HERE = Path(__file__).parent
_CODE = re.compile(r"`([^`]+)`")


def _seen(value: object) -> object:
    """Returns the text of any value with control characters escaped, which browsers do not show; markup is
    unchanged."""
    return value if isinstance(value, Markup) else visible(str(value), lines=True)


def _with_code(text: str) -> Markup:
    """Returns escaped text with `code` in backticks as code elements.

    >>> _with_code("a < `b`")
    Markup('a &lt; <code>b</code>')
    """
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def render_page(title: str, chapters: Sequence[Chapter]) -> str:
    """Returns the page. Every text is escaped; the content policy allows no requests and no other script."""
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_seen,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("page.html.j2").render(
        title=title,
        chapters=chapters,
        kind_of=lambda part: type(part).__name__.lower(),
        anchor=anchor,
        with_code=_with_code,
        dash=EN_DASH,
        style=Markup((_HERE / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
    )
