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

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ltrbench.models import ReadModel
from ltrbench.models.trees import (
    Ensemble,
    FlatTree,
    InnerNode,
    Leaf,
    Node,
    WeightedTree,
    at_most_trees,
    float32_texts,
    nodes_of,
    parse_float32,
    tree_of,
)

_SIDES = ("left", "right")
_MOST_INDENTED = 30


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


def read_ranklib_xml(content: bytes) -> ReadModel:
    """Reads a model of LambdaMART or MART, with feature f of the file as feature f - 1.

    The weights of the trees are separate from their leaf values. A missing value goes where 0 goes.
    `num_features` is the highest number of a feature, because the file has neither names nor the number of
    features.

    Raises:
        ValueError: The file is another model.
    """
    lines = content.splitlines()
    algorithm = lines[0].removeprefix(b"## ").strip().decode(errors="replace")
    if algorithm.upper() not in ("LAMBDAMART", "MART"):
        raise ValueError(
            f"its first line is {algorithm[:60]!a}, but only models of LambdaMART and MART can be read; "
            "train one of them with -ranker 6 or -ranker 0"
        )
    root = ElementTree.fromstring(b"\n".join(line for line in lines if not line.lstrip().startswith(b"#")))
    trees = tuple(
        WeightedTree(parse_float32(tree.attrib["weight"]), tree_of(tree[0], _node)) for tree in root
    )
    numbers = (
        node.feature + 1 for tree in trees for node in nodes_of(tree.root) if isinstance(node, InnerNode)
    )
    return ReadModel(Ensemble(trees, score_dtype="float32"), (), max(numbers, default=0))


def _node(split: ElementTree.Element) -> Node:
    if split[0].tag == "output":
        return Leaf(parse_float32(split[0].text or ""))
    feature, threshold = int(split[0].text or "") - 1, parse_float32(split[1].text or "")
    left: Any = split[2]
    right: Any = split[3]
    return InnerNode(feature, threshold, threshold >= 0, left, right)


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
