"""RankLib's model files of LambdaMART and MART.

After header lines that start with ## comes XML:

    <ensemble><tree id="1" weight="0.1"><split> ... </split></tree> ... </ensemble>

A split is `<feature>` (a number from 1), `<threshold>` and two splits, or it is a leaf with `<output>`. A
value goes left if it is at most the threshold; a missing value is 0. Outputs, thresholds and weights are
float32. RankLib multiplies and adds in float64 and rounds the sum to float32 after each tree, where an
`Ensemble` rounds the product too: scores can differ in their last bits.

RankLib takes the nodes of the XML by their position, where white space would count. It removes line ends and
the indentation of lines, so each element starts on a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn
from xml.parsers import expat

import numpy as np

from ltrbench.errors import ResultError
from ltrbench.models import ReadModel
from ltrbench.models.float32 import LONGEST_NUMBER, at_most_trees, float32_texts, parse_float32, trimmed
from ltrbench.models.trees import MOST_LEVELS, Ensemble, FlatTree, InnerNode, Leaf, Node, WeightedTree

LARGEST_FEATURE_ID: Final = 1_000_000
"""Maximum feature id of a file, because memory for features is allocated up to it."""
_MOST_BYTES: Final = 512 * 2**20

_HEADERS = ("LAMBDAMART", "MART")
_SIDES = ("left", "right")
_MOST_INDENTED = 30
_REMEDY = "Save the model again with RankLib's option -save"


def write_ranklib_xml(ensemble: Ensemble, offset: float = 0.0) -> bytes:
    """Returns the model as RankLib saves a LambdaMART model; outputs contain the weights of the trees.

    Args:
        offset: a constant that a last tree adds to all scores.

    Raises:
        ConfigError: A leaf value, the base score or the offset is beyond float32.
    """
    parts: list[str] = []
    most_leaves = number = 0
    for number, tree in enumerate(at_most_trees(ensemble, offset), start=1):
        lines = "\n".join(_lines(tree))
        parts.append(f'\t<tree id="{number}" weight="1.0">\n{lines}\n\t</tree>\n')
        most_leaves = max(most_leaves, int(tree.is_leaf.sum()))
    header = f"## LambdaMART\n## No. of trees = {number}\n## No. of leaves = {most_leaves}\n\n"
    return f"{header}<ensemble>\n{''.join(parts)}</ensemble>\n".encode("ascii")


def read_ranklib_xml(content: bytes, path: Path) -> ReadModel:
    """Reads a model of LambdaMART or MART, with feature f of the file as feature f - 1.

    The weights of the trees are separate from their leaf values. `num_features` is the highest number of a
    feature, because the file has neither names nor the number of features.

    Args:
        path: file of the content, used in messages only.

    Raises:
        ResultError: The content is not such a model.
    """
    if len(content) > _MOST_BYTES:
        _refuse(path, f"it has {len(content):,} bytes; the maximum is {_MOST_BYTES:,}")
    lines = re.split(rb"\r\n|\r|\n", content)
    _check_header(lines[0], path)
    reader = _Reader()
    try:
        # Blank lines in place of comments keep the line numbers of messages.
        reader.parse(b"\n".join(b"" if line.lstrip().startswith(b"#") else line for line in lines))
    except (ValueError, expat.ExpatError) as error:
        _refuse(path, f"line {reader.line}: {error}")
    trees = tuple(reader.trees)
    if not trees:
        _refuse(path, "it has no trees")
    ensemble = Ensemble(trees, threshold_dtype="float32", score_dtype="float32")
    return ReadModel(ensemble, (), reader.largest_id)


def _lines(tree: FlatTree) -> Iterator[str]:
    """Yields the lines of a tree, written from top to bottom, so that its depth is not limited."""
    is_leaf, features = tree.is_leaf.tolist(), tree.feature.tolist()
    children_to_come: list[int] = []  # of each split above the node

    def indented(line: str) -> str:
        return "\t" * min(2 + len(children_to_come), _MOST_INDENTED) + line

    for node, number in enumerate(float32_texts(np.where(tree.is_leaf, tree.value, tree.threshold))):
        side = f' pos="{_SIDES[2 - children_to_come[-1]]}"' if children_to_come else ""
        yield indented(f"<split{side}>")
        if not is_leaf[node]:
            children_to_come.append(2)
            yield indented(f"<feature> {features[node] + 1} </feature>")
            yield indented(f"<threshold> {number} </threshold>")
            continue
        yield indented(f"\t<output> {number} </output>")
        yield indented("</split>")
        while children_to_come:
            children_to_come[-1] -= 1
            if children_to_come[-1]:
                break
            children_to_come.pop()
            yield indented("</split>")


def _check_header(line: bytes, path: Path) -> None:
    """Raises ResultError if the first line does not name an algorithm whose models are one ensemble."""
    shown = ascii(line[:60].decode("ascii", "backslashreplace"))
    name = line.removeprefix(b"## ").strip().decode("ascii", "replace")
    if name.upper() in _HEADERS:
        return
    if line.startswith(b"## "):
        reason = f"its first line is {shown}, but only models of LambdaMART and MART can be read"
        _refuse(path, reason, "Train one of them with -ranker 6 or -ranker 0")
    _refuse(path, f"its first line is {shown}, not ## LambdaMART or ## MART")


def _refuse(path: Path, reason: str, remedy: str = _REMEDY) -> NoReturn:
    raise ResultError(f"{path} cannot be read as a model of RankLib: {reason}. {remedy}.")


@dataclass(slots=True)
class _Open:
    """An element whose end has not been read.

    Attributes:
        node: number of its node in the tree, for a split.
        children: names of its child elements so far.
    """

    name: str
    node: int = -1
    text: str = ""
    children: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _OpenTree:
    """The nodes of a tree so far, each before its children; a leaf has no children.

    Attributes:
        numbers: text of the threshold or output of each node.
    """

    weight: str
    features: list[int] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    children: list[list[int]] = field(default_factory=list)

    def add_node(self) -> int:
        self.features.append(-1)
        self.numbers.append("")
        self.children.append([])
        return len(self.numbers) - 1

    def weighted(self) -> WeightedTree:
        """Returns the tree.

        Raises:
            ValueError: A number is not a finite float32.
        """
        numbers = parse_float32([self.weight, *self.numbers])
        if not np.isfinite(numbers).all():
            raise ValueError("a number of the tree that ends here is not finite as float32")
        weight, *values = numbers.astype(np.float64).tolist()
        nodes: list[Node] = []  # from the last node to the first: children come before their parent
        for number in range(len(values) - 1, -1, -1):
            value, children = values[number], self.children[number]
            if not children:
                nodes.append(Leaf(value))
                continue
            left, right = (nodes[len(values) - 1 - child] for child in children)
            nodes.append(InnerNode(self.features[number], value, value >= 0.0, left, right))
        return WeightedTree(weight, nodes[-1])


class _Reader:
    """Reads the XML element by element, without recursion, and with the nodes of one tree at a time."""

    def __init__(self) -> None:
        self.trees: list[WeightedTree] = []
        self.largest_id = 0
        self._open: list[_Open] = []
        self._tree = _OpenTree("")
        self._parser = expat.ParserCreate("utf-8")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._add_text
        self._parser.StartDoctypeDeclHandler = _refuse_markup("a DOCTYPE")
        self._parser.EntityDeclHandler = _refuse_markup("an entity")
        self._parser.CommentHandler = _refuse_markup("a comment")
        self._parser.ProcessingInstructionHandler = _refuse_markup("a processing instruction")
        self._parser.StartCdataSectionHandler = _refuse_markup("a CDATA section")

    @property
    def line(self) -> int:
        return self._parser.CurrentLineNumber

    def parse(self, content: bytes) -> None:
        self._parser.Parse(content, True)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        allowed = _allowed_children(self._open[-1]) if self._open else ("ensemble",)
        if name not in allowed:
            place = f"inside <{self._open[-1].name}>" if self._open else "at the top"
            expected = " or ".join(f"<{each}>" for each in allowed) or "no further element"
            raise ValueError(f"<{name[:60]}> {place}; expected is {expected}")
        element = _Open(name)
        if name == "tree":
            if "weight" not in attributes:
                raise ValueError("<tree> has no weight")
            self._tree = _OpenTree(attributes["weight"])
        elif name == "split":
            element.node = self._add_split(attributes)
        if self._open:
            self._open[-1].children.append(name)
        self._open.append(element)
        if len(self._open) > MOST_LEVELS + 4:
            raise ValueError(f"a tree has more than {MOST_LEVELS:,} levels")

    def _add_split(self, attributes: dict[str, str]) -> int:
        """Returns the number of a new node, which is a child of the open split, if there is one."""
        node, parent = self._tree.add_node(), self._open[-1].node
        if parent >= 0:
            side = _SIDES[len(self._tree.children[parent])]
            if attributes.get("pos", side) != side:
                raise ValueError(f'pos="{attributes["pos"][:60]}" where the {side} split belongs')
            self._tree.children[parent].append(node)
        return node

    def _end(self, name: str) -> None:
        element = self._open.pop()
        if name == "tree":
            _check_complete(element, "split")
            self.trees.append(self._tree.weighted())
        elif name == "split":
            is_leaf = element.children[:1] == ["output"]
            _check_complete(element, *(["output"] if is_leaf else ["feature", "threshold", "split", "split"]))
        elif name == "feature":
            self._tree.features[self._open[-1].node] = self._id(element.text) - 1
        elif name in ("threshold", "output"):
            self._tree.numbers[self._open[-1].node] = element.text

    def _add_text(self, text: str) -> None:
        element = self._open[-1]
        if element.name in ("feature", "threshold", "output"):
            element.text += text
            if len(element.text) > LONGEST_NUMBER:
                raise ValueError(f"the text of <{element.name}> is longer than {LONGEST_NUMBER} characters")
        elif element.name not in _IGNORED and trimmed(text):
            raise ValueError(f"the text {trimmed(text)[:60]!a} inside <{element.name}>")

    def _id(self, text: str) -> int:
        number = trimmed(text)
        digits = number.lstrip("0") if number.isascii() and number.isdigit() else ""
        if not 0 < len(digits) <= len(str(LARGEST_FEATURE_ID)) or int(digits) > LARGEST_FEATURE_ID:
            raise ValueError(f"the feature {number[:60]!a} is not a number from 1 to {LARGEST_FEATURE_ID:,}")
        self.largest_id = max(self.largest_id, int(digits))
        return int(digits)


_IGNORED = ("psuedoResponse", "sum", "sqSum")
"""Statistics of the training data, after the children of a split, in models of a fork (RankyMcRankFace)."""


def _allowed_children(parent: _Open) -> tuple[str, ...]:
    """Returns the names that the next child element of an element may have."""
    match parent.name, parent.children:
        case "ensemble", _:
            return ("tree",)
        case "tree", []:
            return ("split",)
        case "split", []:
            return ("feature", "output")
        case "split", ["feature"]:
            return ("threshold",)
        case "split", ["feature", "threshold"] | ["feature", "threshold", "split"]:
            return ("split",)
        case "split", [*_, "split" | "output"]:
            return ("psuedoResponse",)
        case "psuedoResponse", _:
            return ("sum", "sqSum")
    return ()


def _check_complete(element: _Open, *names: str) -> None:
    if element.children[: len(names)] != [*names]:
        missing = names[min(len(element.children), len(names) - 1)]
        raise ValueError(f"<{element.name}> ends without <{missing}>")


def _refuse_markup(name: str) -> Callable[..., None]:
    def refuse(*_: object) -> None:
        raise ValueError(f"{name}, which is not part of a model")

    return refuse
