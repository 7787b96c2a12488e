"""RankLib: parses a model file as its parser does, and scores as its evaluator does.

The rules, with their sources, are in `RANKLIB_RULES`. RankLib takes nodes of the XML by their position, so a
file that is fine as XML may fail. What would be an exception in RankLib is a ResultError here.
D documents, F features.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ResultError
from ltrbench.models.float32 import parse_float32, trimmed
from ltrbench.models.trees import FlatTree, leaves_of
from ltrbench.native.nodes import NO_FEATURE
from ltrbench.shapes import Features
from ltrbench.shipping.target import Rule

_FILES = "codelibs/ranklib, src/main/java/ciir/umass/edu/"
_ENSEMBLE = f"{_FILES}learning/tree/Ensemble.java, commit 378a17db3ddca1af7583989a39a6ebfcc1d3cd1b"

RANKLIB_RULES: Final = (
    Rule(
        "The first line names the algorithm.",
        f"{_FILES}learning/RankerFactory.java, commit 0ef0614a4f139d3e077c649bdd04dfd632fa3d32",
    ),
    Rule(
        "Lines that start with # are dropped, and the others joined without their indentation.",
        f"{_FILES}parsing/ModelLineProducer.java, commit 378a17db3ddca1af7583989a39a6ebfcc1d3cd1b",
    ),
    Rule(
        "The children of a split are taken by position: feature, threshold, left, right; or output.",
        _ENSEMBLE,
    ),
    Rule("Thresholds, outputs and weights are float32.", _ENSEMBLE),
    Rule(
        "A value goes left if it is at most the threshold.",
        f"{_FILES}learning/tree/Split.java, commit 378a17db3ddca1af7583989a39a6ebfcc1d3cd1b",
    ),
    Rule(
        "The score starts with 0; each tree's output times its weight is added in float64, and the sum "
        "rounded to float32.",
        _ENSEMBLE,
    ),
    Rule(
        "A missing value is 0; after the last feature of a document, only with -missingZero.",
        f"{_FILES}learning/DenseDataPoint.java, commit 0cc17c81574469ef7d2d7df0e0e387038a55b969",
    ),
)

_ALGORITHMS = ("LAMBDAMART", "MART")
_LINE_END, _VISIBLE = re.compile(r"[\r\n]"), re.compile(r"[^\0- ]")
_BLANKS = "".join(map(chr, range(33)))
_LARGEST_INT = 2**31 - 1


@dataclass(frozen=True)
class RankLibForest:
    """The trees of a file, as RankLib holds them.

    Attributes:
        trees: their values are float32 outputs.
        weights: float32 weights of the trees.
    """

    trees: tuple[FlatTree, ...]
    weights: tuple[float, ...]

    def scores(self, features: Features) -> NDArray[np.float32]:
        """Returns the (D,) scores of (D, F) features; NaN is a missing value.

        Raises:
            ResultError: A split has a feature that the documents do not have.
        """
        needed = 1 + max((int(tree.feature.max()) for tree in self.trees), default=NO_FEATURE)
        if needed > features.shape[1]:
            raise ResultError(f"RankLib needs feature {needed}, but documents have {features.shape[1]}.")
        present = np.where(np.isnan(features), np.float32(0), features)
        scores = np.zeros(len(features), dtype=np.float32)
        for tree, weight in zip(self.trees, self.weights, strict=True):
            products = tree.value * weight
            scores = (scores + products[leaves_of(tree, present)]).astype(np.float32)
        return scores


def simulated_ranklib_scores(content: bytes, features: Features) -> NDArray[np.float32]:
    """Returns the (D,) scores of (D, F) features by a model file; NaN is a missing value.

    Raises:
        ResultError: RankLib would refuse the file.
    """
    return parse_ranklib(content).scores(features)


def parse_ranklib(content: bytes) -> RankLibForest:
    """Returns the trees of a model file.

    Raises:
        ResultError: RankLib would refuse the file.
    """
    try:
        text = content.decode("ascii")
        algorithm = _LINE_END.split(text, maxsplit=1)[0].replace("## ", "").strip()
        if algorithm.upper() not in _ALGORITHMS:
            raise ValueError(f"the first line names {algorithm[:60]!a}, not LambdaMART or MART")
        reader = _Reader()
        reader.parse(_joined_lines(text))
    except (ValueError, expat.ExpatError) as error:
        raise ResultError(f"RankLib would refuse the model: {error}. Export the model again.") from error
    return RankLibForest(tuple(reader.trees), tuple(reader.weights))


def _joined_lines(text: str) -> str:
    """Returns the text as ModelLineProducer joins it."""
    parts: list[str] = []
    begin = place = 0
    while line_end := _LINE_END.search(text, place):
        if text[begin] != "#":
            line = text[begin : line_end.start()].rstrip(_BLANKS)
            parts.append(line or text[begin])
        visible = _VISIBLE.search(text, line_end.start())
        # The search for the next line end starts at the third character of the line.
        begin = visible.start() if visible else len(text) - 1
        place = begin + 2
    if text[begin] != "#":
        parts.append(text[begin:])
    return "".join(parts)


@dataclass(slots=True)
class _DomNode:
    """A node of the document, as Java's DOM has it: text between elements is a node too."""

    name: str
    text: str = ""
    children: list[_DomNode] = field(default_factory=list)


class _Reader:
    """Builds the DOM of one tree at a time, and turns it into arrays."""

    def __init__(self) -> None:
        self.trees: list[FlatTree] = []
        self.weights: list[float] = []
        self._open: list[_DomNode] = []
        self._parser = expat.ParserCreate("utf-8")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = lambda text: self._add(_DomNode("#text", text))
        self._parser.CommentHandler = lambda text: self._add(_DomNode("#comment", text))
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype

    def parse(self, text: str) -> None:
        self._parser.Parse(text.encode("ascii"), True)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "tree":
            if self._open:
                raise ValueError("a tree is inside another tree")
            if "weight" not in attributes:
                raise ValueError(f"tree {len(self.trees) + 1} has no weight")
            self.weights.append(float(parse_float32([attributes["weight"]])[0]))
            self._open.append(_DomNode(name))
        elif self._open:
            node = _DomNode(name)
            self._add(node)
            self._open.append(node)

    def _end(self, name: str) -> None:
        if self._open:
            node = self._open.pop()
            if not self._open:
                self.trees.append(_as_tree(_child(node, 0)))

    def _add(self, node: _DomNode) -> None:
        if self._open:
            self._open[-1].children.append(node)

    def _refuse_doctype(self, *_: object) -> None:
        raise ValueError("it has a DOCTYPE")


def _as_tree(root: _DomNode) -> FlatTree:
    """Returns the nodes of a tree, each before its children."""
    features: list[int] = []
    numbers: list[str] = []
    children: list[list[int]] = []
    waiting: list[tuple[_DomNode, int]] = [(root, NO_FEATURE)]
    while waiting:
        node, parent = waiting.pop()
        number = len(features)
        children.append([])
        if parent >= 0:
            children[parent].append(number)
        if _child(node, 0).name.lower() == "feature":
            features.append(_whole(_text(_child(node, 0))) - 1)
            numbers.append(_text(_child(node, 1)))
            waiting += [(_child(node, 3), number), (_child(node, 2), number)]
        else:
            features.append(NO_FEATURE)
            numbers.append(_text(_child(node, 0)))
    is_leaf, values = np.array(features) == NO_FEATURE, parse_float32(numbers).astype(np.float64)
    return FlatTree(
        feature=np.array(features),
        threshold=np.where(is_leaf, 0.0, values),
        left=np.array([each[0] if each else number for number, each in enumerate(children)]),
        right=np.array([each[1] if each else number for number, each in enumerate(children)]),
        missing_left=np.zeros(len(features), dtype=np.bool_),
        zero_missing=np.zeros(len(features), dtype=np.bool_),
        value=np.where(is_leaf, values, 0.0),
    )


def _child(node: _DomNode, position: int) -> _DomNode:
    if position >= len(node.children):
        raise ValueError(f"<{node.name[:60]}> has no child at position {position}")
    return node.children[position]


def _text(node: _DomNode) -> str:
    """Returns the text that is the first child of an element."""
    first = _child(node, 0)
    if not first.name.startswith("#"):
        raise ValueError(f"<{node.name[:60]}> begins with an element, not with a text")
    return trimmed(first.text)


def _whole(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", text) or not 1 <= int(text) <= _LARGEST_INT:
        raise ValueError(f"{text[:60]!a} is not the number of a feature")
    return int(text)
