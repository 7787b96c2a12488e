"""Chapters as one HTML page, with its style and its script in it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ltrbench.compare.output.report.parts import Chapter
from ltrbench.tables.numbers import EN_DASH
from ltrbench.untrusted.escaping import visible

_HERE = Path(__file__).parent


def _seen(value: object) -> object:
    """Text without control characters, which browsers show in no way; what is markup already stays."""
    return visible(value, lines=True) if isinstance(value, str) and not isinstance(value, Markup) else value


def render_page(title: str, chapters: Sequence[Chapter]) -> str:
    """Returns the page. Every text is escaped; its policy allows only its own script, and no fetching."""
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
        dash=EN_DASH,
        style=Markup((_HERE / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
    )
