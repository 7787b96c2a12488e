"""RankLib's model files of LambdaMART and MART.

After header lines that start with ## comes XML:

    <ensemble><tree id="1" weight="0.1"><split> ... </split></tree> ... </ensemble>

A split is `<feature>` (a number from 1), `<threshold>` and two splits, or it is a leaf with `<output>`. A
value goes left if it is at most the threshold; a missing value is 0. Outputs, thresholds and weights are
float32. RankLib multiplies and adds in float64 and rounds the sum to float32 after each tree, where an
`Ensemble` rounds the product too: scores can differ in their last bits.

RankLib takes the nodes of the XML by their position (feature, threshold, left, right; or output), where white
space would count. It removes line ends and the indentation of lines, so each element starts on a line. The
first line names the algorithm. Sources: codelibs/ranklib, src/main/java/ciir/umass/edu/:
learning/RankerFactory.java, commit 0ef0614a4f139d3e077c649bdd04dfd632fa3d32; parsing/ModelLineProducer.java
and learning/tree/Ensemble.java, commit 378a17db3ddca1af7583989a39a6ebfcc1d3cd1b.
"""

from __future__ import annotations

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
    base_score_as_tree,
    float32_texts,
    float32_trees,
    nested_text,
    nodes_of,
    parse_float32,
    tree_of,
)

_MOST_INDENTED = 30


def write_ranklib_xml(ensemble: Ensemble) -> bytes:
    """Returns the model as RankLib saves a LambdaMART model; outputs contain the weights of the trees.

    Raises:
        ConfigError: A leaf value or the base score is beyond float32.
    """
    parts: list[str] = []
    most_leaves = number = 0
    for number, tree in enumerate(float32_trees(base_score_as_tree(ensemble), "<="), start=1):
        parts.append(f'\t<tree id="{number}" weight="1.0">\n{_nested(tree)}\t</tree>\n')
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


def _nested(tree: FlatTree) -> str:
    """Returns the XML of a tree."""
    numbers = float32_texts(np.where(tree.is_leaf, tree.value, tree.threshold))
    is_leaf, features = tree.is_leaf.tolist(), tree.feature.tolist()
    sides = ["", *[' pos="left"'] * (len(is_leaf) - 1)]
    for node in tree.right[~tree.is_leaf].tolist():
        sides[node] = ' pos="right"'

    def indented(depth: int) -> str:
        return "\t" * min(depth + 2, _MOST_INDENTED)

    def text_of(node: int, depth: int) -> str:
        tabs, inner = indented(depth), indented(depth + 1)
        begin = f"{tabs}<split{sides[node]}>\n"
        if is_leaf[node]:
            return f"{begin}{tabs}\t<output> {numbers[node]} </output>\n{tabs}</split>\n"
        return (
            f"{begin}{inner}<feature> {features[node] + 1} </feature>\n"
            f"{inner}<threshold> {numbers[node]} </threshold>\n"
        )

    return nested_text(is_leaf, text_of, between="", end=lambda depth: f"{indented(depth)}</split>\n")
