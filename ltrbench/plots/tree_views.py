"""The trees of a model as text, as JSON, and as a picture.

In all three a document goes to the left branch (the upper one in text and picture) if its value is at most
the threshold. The value of a leaf is before shrinkage: multiplied by the weight of the tree, it is added to
the score.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ltrbench.errors import ConfigError
from ltrbench.models.trees import Ensemble, InnerNode, Leaf, Node, WeightedTree
from ltrbench.plots import short_name

_LARGEST = float(np.finfo(np.float32).max)


def as_nested(ensemble: Ensemble) -> list[dict[str, Any]]:
    """Returns one record per tree: its nested nodes, with its weight in the record of the root.

    An initial score that is not 0 is added as a last tree with one leaf, so that the leaf values times the
    weights always sum to the score.
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
        **({"zero": "missing"} if node.zero_missing else {}),
        "left": _record(node.left),
        "right": _record(node.right),
    }


def as_lines(ensemble: Ensemble, feature_names: Sequence[str]) -> Iterator[str]:
    """Yields the lines of all trees.

    >>> tree = InnerNode(0, 0.5, True, left=Leaf(-0.25), right=Leaf(1.0))
    >>> print(*as_lines(Ensemble((WeightedTree(0.1, tree),)), ["bm25"]), sep="\\n")
    tree 1, weight 0.1
    bm25 <= 0.5 or missing
    |- yes: -0.25
    `- no:  +1
    """
    if ensemble.base_score != 0:
        yield f"initial score {_number(ensemble.base_score)}"
        yield ""
    for number, tree in enumerate(ensemble.trees):
        if number > 0:
            yield ""
        yield _title(number, tree)
        yield from _lines(tree.root, feature_names)


def _lines(node: Node, feature_names: Sequence[str], first: str = "", margin: str = "") -> Iterator[str]:
    """Yields the line of a node, which begins with `first`, and of its descendants, which begin with
    `margin`."""
    yield f"{first}{_words(node, feature_names)}"
    if isinstance(node, InnerNode):
        yield from _lines(node.left, feature_names, f"{margin}|- yes: ", f"{margin}|  ")
        yield from _lines(node.right, feature_names, f"{margin}`- no:  ", f"{margin}   ")


def _title(number: int, tree: WeightedTree) -> str:
    return f"tree {number + 1}, weight {tree.weight:.6g}"


def _words(node: Node, feature_names: Sequence[str]) -> str:
    """Returns the condition of a node, or the value of a leaf."""
    if isinstance(node, Leaf):
        return _number(node.value)
    name = feature_names[node.feature]
    name = f"feature {name}" if name.isdigit() else name  # LETOR features have only numbers
    if node.threshold == _LARGEST and not node.zero_missing:
        return f"{name} is not missing"
    words = f"{name} <= {node.threshold:.6g}"
    if node.zero_missing:
        return f"{words} or 0 or missing" if node.missing_left else f"{words} and not 0"
    return f"{words} or missing" if node.missing_left else words


def _number(value: float) -> str:
    return f"{value:+.6g}"


# The picture: the root is on the left, with one row per leaf; lengths are in inches.

MOST_LEAVES = 1000
_DPI = 150
_ROW, _MARGIN = 0.22, 0.25
_LETTER, _BRANCH = 0.0675, 0.4  # width of a letter; distance from the text of a node to its children
_GAP = 0.05  # between text and a line
_FONT: dict[str, Any] = {"family": "DejaVu Sans Mono", "fontsize": 8, "va": "center", "parse_math": False}
_LONGEST_FEATURE, _LONGEST_TITLE = 40, 180  # characters
_LINES = "#777777"
_RAISES, _LOWERS = "#0072B2", "#D55E00"  # Okabe and Ito's blue and vermilion, for positive and other values


@dataclass(frozen=True)
class _Place:
    """A node in the picture: its text, the left end and row of the text, and the places of its children."""

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
    """Draws the trees, one below the other, to a PNG file.

    Raises:
        ConfigError: The trees have more than `MOST_LEAVES` leaves.
    """
    _refuse_many_leaves(ensemble)
    names = [short_name(name, _LONGEST_FEATURE) for name in feature_names]
    rows = itertools.count(3)
    headings = [
        (0, short_name(title, _LONGEST_TITLE)),
        (1, "The upper branch is yes. Leaf values are to be multiplied by the weight of the tree."),
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
            f"the {len(ensemble.trees)} trees have {num_leaves} leaves, but a picture can show at most "
            f"{MOST_LEAVES}; draw fewer trees with --first, or use the text output."
        )


def _num_leaves(node: Node) -> int:
    return 1 if isinstance(node, Leaf) else _num_leaves(node.left) + _num_leaves(node.right)


def _placed(node: Node, names: Sequence[str], x: float, rows: Iterator[int]) -> _Place:
    """Places each leaf in the next row, and an inner node in the middle between its children."""
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
    """Yields lines from the text of an inner node to a fork in the middle, and from the fork to its
    children."""
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
