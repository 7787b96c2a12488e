"""The trees of a model for people and for programs: as text, as JSON, and as a picture.

All three send a document along the left branch, in text and picture the upper one, where its value is at most
the threshold. A leaf shows its value before shrinkage; times the tree's weight it is what the tree adds to a
score.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ltrbench.errors import ConfigError
from ltrbench.plots import short_name
from ltrbench.rankers.models.trees import Ensemble, InnerNode, Leaf, Node, WeightedTree

_LARGEST = float(np.finfo(np.float32).max)


def as_nested(ensemble: Ensemble) -> list[dict[str, Any]]:
    """A tree each: its nested nodes, and its weight beside those of the root.

    A score that all documents start from, where it is not 0, is a last tree, of one leaf: so the leaves'
    values times the weights always add up to the score.
    """
    trees = list(ensemble.trees)
    if ensemble.base_score != 0:
        trees.append(WeightedTree(1.0, Leaf(ensemble.base_score)))
    return [{"weight": tree.weight, **_record(tree.root)} for tree in trees]


def _record(node: Node) -> dict[str, Any]:
    if isinstance(node, Leaf):
        return {"value": node.value}
    return {
        "feature": node.feature,
        "threshold": node.threshold,
        "missing": "left" if node.missing_left else "right",
        "left": _record(node.left),
        "right": _record(node.right),
    }


def as_lines(ensemble: Ensemble, feature_names: Sequence[str]) -> Iterator[str]:
    """The lines of all trees.

    >>> tree = InnerNode(0, 0.5, True, left=Leaf(-0.25), right=Leaf(1.0))
    >>> print(*as_lines(Ensemble((WeightedTree(0.1, tree),)), ["bm25"]), sep="\\n")
    tree 1, weight 0.1
    bm25 <= 0.5 or missing
    |- yes: -0.25
    `- no:  +1
    """
    if ensemble.base_score != 0:
        yield f"every score starts from {_number(ensemble.base_score)}"
        yield ""
    for number, tree in enumerate(ensemble.trees):
        if number > 0:
            yield ""
        yield _title(number, tree)
        yield from _lines(tree.root, feature_names)


def _lines(node: Node, feature_names: Sequence[str], first: str = "", margin: str = "") -> Iterator[str]:
    """A node's line, which begins with `first`, and those of all below it, which begin with `margin`."""
    yield f"{first}{_words(node, feature_names)}"
    if isinstance(node, InnerNode):
        yield from _lines(node.left, feature_names, f"{margin}|- yes: ", f"{margin}|  ")
        yield from _lines(node.right, feature_names, f"{margin}`- no:  ", f"{margin}   ")


def _title(number: int, tree: WeightedTree) -> str:
    return f"tree {number + 1}, weight {tree.weight:.6g}"


def _words(node: Node, feature_names: Sequence[str]) -> str:
    """What a node asks, or a leaf's value."""
    if isinstance(node, Leaf):
        return _number(node.value)
    name = feature_names[node.feature]
    name = f"feature {name}" if name.isdigit() else name  # LETOR's features have numbers only
    if node.threshold == _LARGEST:
        return f"{name} is not missing"
    return f"{name} <= {node.threshold:.6g}{' or missing' if node.missing_left else ''}"


def _number(value: float) -> str:
    return f"{value:+.6g}"


# The picture: the root on the left, a row a leaf; lengths are in inches.

MOST_LEAVES = 1000
_DPI = 150
_ROW, _MARGIN = 0.22, 0.25
_LETTER, _BRANCH = 0.0675, 0.4  # the width of a letter, and the way from words to those below
_GAP = 0.05  # between words and a line
_FONT: dict[str, Any] = {"family": "DejaVu Sans Mono", "fontsize": 8, "va": "center", "parse_math": False}
_LONGEST_FEATURE, _LONGEST_TITLE = 40, 180  # characters
_LINES = "#777777"
_RAISES, _LOWERS = "#0072B2", "#D55E00"  # Okabe and Ito's blue and vermilion


@dataclass(frozen=True)
class _Place:
    """A node in the picture: its words, where they begin, in which row, and the places below it."""

    node: Node
    words: str
    x: float
    row: float
    below: tuple[_Place, ...] = ()

    @property
    def end(self) -> float:
        return self.x + _LETTER * len(self.words)

    def with_all_below(self) -> Iterator[_Place]:
        yield self
        for place in self.below:
            yield from place.with_all_below()


def draw_trees(ensemble: Ensemble, feature_names: Sequence[str], title: str, file: Path) -> None:
    """Draws the trees one below the other into a PNG file.

    Raises:
        ConfigError: where they have more leaves than a picture can show.
    """
    _refuse_many_leaves(ensemble)
    names = [short_name(name, _LONGEST_FEATURE) for name in feature_names]
    rows = itertools.count(3)
    headings = [
        (0, short_name(title, _LONGEST_TITLE)),
        (1, "The upper branch is yes; a leaf's value is to be multiplied by the weight."),
    ]
    places: list[_Place] = []
    for number, tree in enumerate(ensemble.trees):
        headings.append((next(rows), _title(number, tree)))
        places += _placed(tree.root, names, _MARGIN, rows).with_all_below()
        next(rows)
    ends = [place.end for place in places] + [_MARGIN + _LETTER * len(text) for _, text in headings]
    _write(headings, places, max(ends) + _MARGIN, 2 * _MARGIN + _ROW * next(rows), file)


def _refuse_many_leaves(ensemble: Ensemble) -> None:
    num_leaves = sum(_num_leaves(tree.root) for tree in ensemble.trees)
    if num_leaves > MOST_LEAVES:
        raise ConfigError(
            f"the {len(ensemble.trees)} trees have {num_leaves} leaves, and a picture shows {MOST_LEAVES} at "
            "the most; draw fewer with --first, or look at the text."
        )


def _num_leaves(node: Node) -> int:
    return 1 if isinstance(node, Leaf) else _num_leaves(node.left) + _num_leaves(node.right)


def _placed(node: Node, names: Sequence[str], x: float, rows: Iterator[int]) -> _Place:
    """Leaves take row after row, and an inner node the middle between the two nodes below it."""
    words = _words(node, names)
    if isinstance(node, Leaf):
        return _Place(node, words, x, next(rows))
    below = x + _LETTER * len(words) + _BRANCH
    upper = _placed(node.left, names, below, rows)
    lower = _placed(node.right, names, below, rows)
    return _Place(node, words, x, (upper.row + lower.row) / 2, (upper, lower))


def _write(
    headings: Sequence[tuple[int, str]], places: Sequence[_Place], width: float, height: float, file: Path
) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    figure = Figure((width, height), dpi=_DPI)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    for row, text in headings:
        axes.text(_MARGIN, _y(row), text, weight="bold" if row == 0 else "normal", **_FONT)
    for place in places:
        axes.text(place.x, _y(place.row), place.words, color=_colour(place.node), **_FONT)
    axes.add_collection(LineCollection(list(_branches(places)), colors=_LINES, linewidths=0.7))
    # Without matplotlib's version, so that the same trees give the same bytes.
    figure.savefig(file, format="png", metadata={"Software": None})


def _branches(places: Sequence[_Place]) -> Iterator[list[tuple[float, float]]]:
    """From the words of an inner node to a fork in the middle, and from there to the words below."""
    for place in places:
        fork = place.end + _BRANCH / 2
        for below in place.below:
            yield [
                (place.end + _GAP, _y(place.row)),
                (fork, _y(place.row)),
                (fork, _y(below.row)),
                (below.x - _GAP, _y(below.row)),
            ]


def _y(row: float) -> float:
    return _MARGIN + _ROW * (row + 0.5)


def _colour(node: Node) -> str:
    if isinstance(node, InnerNode):
        return "black"
    return _RAISES if node.value > 0 else _LOWERS
