"""Matplotlib figures as small inline SVG in the colours of the page."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from markupsafe import Markup

from ltrbench.compare.output.report.parts import Figure
from ltrbench.plots.drawing.panels import Page

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

PAGE = Page(width=5.0, titled=False)
"""Figure width in inches at which 8-point text is readable on a phone."""
SQUARE_PAGE = Page(width=4.0, titled=False)
"""For figures with the same scale on both axes."""
WIDE_PAGE = Page(width=7.0, titled=False)
"""For figures with several panels, which scroll on a phone."""

# Colour of the drawing -> colour of the style sheet.
_COLOURS = {
    "#000000": "currentColor",
    "#ffffff": "var(--paper)",
    "#dddddd": "var(--grid)",
    "#777777": "var(--muted)",
    "#555555": "var(--muted)",
    "#0072b2": "var(--blue)",
}
_COLOUR = re.compile("|".join(_COLOURS), re.IGNORECASE)
_FONTS = re.compile(r"font-family: [^;]*;?|(?<=px) '[^;]*")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_PLACES = ("d", "height", "points", "transform", "width", "x", "y")


def inlined(figure: Drawing, name: str, caption: str) -> Figure:
    """Returns the figure as inline SVG; its label becomes the alternative text.

    Args:
        name: Unique name of the figure in the page.
    """
    import matplotlib as mpl

    stream = io.BytesIO()
    # Text stays text, and output is deterministic: no random ids, no date, no version.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "report"}):
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(stream, format="svg", transparent=True, metadata=nothing)
    return Figure(_fitted(stream.getvalue(), name), caption, str(figure.get_label()))


def _fitted(svg: bytes, name: str) -> Markup:
    """Returns the SVG without namespaces, unused ids and invisible decimals."""
    root = ElementTree.fromstring(svg)
    referred = set(re.findall(rb'(?:href="|url\()#([\w.-]+)', svg))
    for parent in root.iter():
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        attributes = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
        if attributes.get("id", "").encode() not in referred:
            attributes.pop("id", None)
        element.attrib = {key: _attribute(key, value, name) for key, value in attributes.items()}
        element.text, element.tail = _without_blanks(element.text), _without_blanks(element.tail)
    box = root.attrib["viewBox"]
    root.attrib = {"viewBox": box, "style": f"--width: {box.split()[2]}", "aria-hidden": "true"}
    # ElementTree escapes the texts.
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _attribute(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "href":
        return f"#{name}-{value[1:]}"
    if key in _PLACES:
        return _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.1f}", " ".join(value.split()))
    if key == "style":
        value = _FONTS.sub("", css_colour(value))
    return value.replace("url(#", f"url(#{name}-")


def css_colour(text: str) -> str:
    """Returns the text with colours replaced by those of the style sheet."""
    return _COLOUR.sub(lambda colour: _COLOURS[colour[0].lower()], text)


def _without_blanks(text: str | None) -> str | None:
    return text if text and text.strip() else None
