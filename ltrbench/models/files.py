"""Model files of RankLib, and of other libraries with the format detected from the content.

    LightGBM   text of Booster.save_model: begins with a line `tree`
    RankLib    text of -save: begins with `## `, or with the XML itself
    XGBoost    JSON or UBJSON of Booster.save_model: begins with `{`

To support another format, add a line to `_FORMATS`. Nothing in a file is executed: a pickle is refused by
its first bytes, before anything reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ltrbench.errors import ResultError
from ltrbench.models import ReadModel
from ltrbench.models.lightgbm_files import read_lightgbm_text
from ltrbench.models.trees import (
    Ensemble,
    FlatTree,
    InnerNode,
    Leaf,
    Node,
    WeightedTree,
    base_score_as_tree,
    categorical_features,
    float32_texts,
    float32_trees,
    nested_text,
    parse_float32,
    tree_of,
    used_features,
)
from ltrbench.models.xgboost_files import read_xgboost
from ltrbench.untrusted import read_bytes

# ---- RankLib's model files of LambdaMART and MART.
#
# After header lines that start with ## comes XML:
#
#     <ensemble><tree id="1" weight="0.1"><split> ... </split></tree> ... </ensemble>
#
# A split is `<feature>` (a number from 1), `<threshold>` and two splits, or it is a leaf with `<output>`. A
# value goes left if it is at most the threshold; a missing value is 0. Outputs, thresholds and weights are
# float32. RankLib multiplies and adds in float64 and rounds the sum to float32 after each tree, where an
# `Ensemble` rounds the product too: scores can differ in their last bits.
#
# RankLib takes the nodes of the XML by their position (feature, threshold, left, right; or output), where
# white space would count. It removes line ends and the indentation of lines, so each element starts on a
# line. The first line names the algorithm. Sources: codelibs/ranklib, src/main/java/ciir/umass/edu/:
#     learning/RankerFactory.java, commit 0ef0614a4f139d3e077c649bdd04dfd632fa3d32;
#     parsing/ModelLineProducer.java, commit 378a17db3ddca1af7583989a39a6ebfcc1d3cd1b.


_MOST_INDENTED = 30


def write_ranklib_xml(ensemble: Ensemble) -> bytes:
    """Returns the model as RankLib saves a LambdaMART model; outputs contain the weights of the trees.

    Raises:
        ConfigError: A leaf value or the base score is beyond float32.
    """
    parts: list[str] = []
    most_leaves = number = 0
    for number, tree in enumerate(
        float32_trees(base_score_as_tree(ensemble), "<="), start=1
    ):
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
    uncommented = [line for line in lines if not line.lstrip().startswith(b"#")]
    root = ElementTree.fromstring(b"\n".join(uncommented))
    trees = []
    for tree in root:
        weight = parse_float32(tree.attrib["weight"])
        trees.append(WeightedTree(weight, tree_of(tree[0], _node)))
    ensemble = Ensemble(tuple(trees), score_dtype="float32")
    largest = max(used_features(ensemble), default=-1)
    return ReadModel(ensemble, (), 1 + largest)


def _node(split: ElementTree.Element) -> Node:
    if split[0].tag == "output":
        return Leaf(parse_float32(split[0].text or ""))
    feature = int(split[0].text or "") - 1
    threshold = parse_float32(split[1].text or "")
    left: Any = split[2]
    right: Any = split[3]
    return InnerNode(feature, threshold, threshold >= 0, left, right)


def _nested(tree: FlatTree) -> str:
    """Returns the XML of a tree."""
    numbers = float32_texts(np.where(tree.is_leaf, tree.value, tree.threshold))
    is_leaf = tree.is_leaf.tolist()
    features = tree.feature.tolist()
    sides = ["", *[' pos="left"'] * (len(is_leaf) - 1)]
    for node in tree.right[~tree.is_leaf].tolist():
        sides[node] = ' pos="right"'

    def indented(depth: int) -> str:
        return "\t" * min(depth + 2, _MOST_INDENTED)

    def text_of(node: int, depth: int) -> str:
        tabs = indented(depth)
        inner = indented(depth + 1)
        begin = f"{tabs}<split{sides[node]}>\n"
        if is_leaf[node]:
            return (
                f"{begin}{tabs}\t<output> {numbers[node]} </output>\n{tabs}</split>\n"
            )
        return (
            f"{begin}{inner}<feature> {features[node] + 1} </feature>\n"
            f"{inner}<threshold> {numbers[node]} </threshold>\n"
        )

    return nested_text(
        is_leaf, text_of, between="", end=lambda depth: f"{indented(depth)}</split>\n"
    )


# ---- Detects the format of a file, and reads it.

MOST_MODEL_BYTES = 2**30
"""Maximum size of a model file."""

OF_LIGHTGBM = "LightGBM"
OF_RANKLIB = "RankLib"
OF_XGBOOST = "XGBoost"

SUPPORTED = (
    "Supported are LightGBM's text (booster.save_model('model.txt')), XGBoost's JSON and UBJSON "
    "(booster.save_model('model.json') or 'model.ubj'), and RankLib's tree ensembles (-save model.txt)"
)

_HEAD = 4096
"""Number of bytes that decide the format."""


@dataclass(frozen=True)
class _Format:
    """A supported format: its library, how a file begins, its file ending, and its reader."""

    library: str
    beginning: re.Pattern[bytes]
    ending: str
    read: Callable[[bytes], ReadModel]


_FORMATS = (
    _Format(OF_LIGHTGBM, re.compile(rb"tree\s*\n"), ".txt", read_lightgbm_text),
    _Format(
        OF_RANKLIB,
        re.compile(rb"## |\s*<(?:\?xml|!|ensemble)"),
        ".txt",
        read_ranklib_xml,
    ),
    _Format(OF_XGBOOST, re.compile(rb"\{[\s\"}]"), ".json", read_xgboost),
    _Format(OF_XGBOOST, re.compile(rb"\{"), ".ubj", read_xgboost),
)

_OTHERS = {
    "a pickle, which may run code when it is loaded": re.compile(
        rb"\x80[\x02-\x05]|\(?[cd][\w.]*\n"
    ),
    "an archive, such as those of joblib, PyTorch and NumPy": re.compile(
        rb"PK\x03\x04|\x93NUMPY|\x89HDF"
    ),
    "a CatBoost model": re.compile(rb"CBM1"),
    "XGBoost's old binary format": re.compile(rb"binf|bs64"),
    "a dump of trees, without the base score and the types of a model": re.compile(
        rb"\[\s*[\[{]|booster\[\d+\]:|\{\s*\"name\"\s*:\s*\"tree\"|\{\s*\"nodeid\""
    ),
    "an ONNX model or another protocol buffer": re.compile(
        rb"\x08[\x01-\x20][\x12\x1a\x22\x2a\x3a]"
    ),
}
"""Other kinds of model files -> how they begin."""


@dataclass(frozen=True)
class ModelFile:
    """A model file of another library.

    Attributes:
        path: for messages.
        library: "LightGBM", "RankLib" or "XGBoost".
        ending: usual ending of the names of such files.
        content: the bytes of the file.
        model: what it contains.
    """

    path: Path
    library: str
    ending: str
    content: bytes
    model: ReadModel

    @property
    def reads_float64(self) -> bool:
        """Whether the model compares float64 features, as LightGBM does."""
        return self.model.trees.threshold_dtype == "float64"


def is_model_file(path: Path) -> bool:
    """Returns whether a file begins as a model file does, supported or not; False if it cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    beginnings = [known.beginning for known in _FORMATS]
    beginnings += _OTHERS.values()
    return any(beginning.match(head) for beginning in beginnings)


def read_model_file(
    path: Path, remedy: str = "Check the path of the model file"
) -> ModelFile:
    """Reads a model file of LightGBM, XGBoost or RankLib.

    Args:
        remedy: what to do if the file cannot be read, for messages.

    Raises:
        ResultError: The file cannot be read, has an unsupported format, is not complete, or splits by
            categories of which it has only codes.
    """
    content = read_bytes(path, remedy, MOST_MODEL_BYTES)
    kind = _format_of(content)
    if isinstance(kind, str):
        raise ResultError(
            f"{path} cannot be imported: it is {kind}. {SUPPORTED}; save the model in one of these formats "
            "with its library."
        )
    try:
        model = kind.read(content)
    except (
        ValueError,
        KeyError,
        IndexError,
        TypeError,
        RecursionError,
        ElementTree.ParseError,
    ) as error:
        reason = str(error).partition("\n")[0]
        if isinstance(error, KeyError):
            reason = f"{error} is missing"
        raise ResultError(
            f"{path} is no complete model file of {kind.library}: {reason}. {SUPPORTED}; save the "
            "model again."
        ) from error
    names = model.feature_names or tuple(map(str, range(model.num_features)))
    coded = [
        names[feature]
        for feature in categorical_features(model.trees)
        if feature not in model.categories
    ]
    if coded:
        raise ResultError(
            f"{path} cannot be imported: it splits {', '.join(coded)} by sets of categories, but has only "
            "their codes. Train on a DataFrame with pandas categoricals, or here with data.categorical."
        )
    return ModelFile(path, kind.library, kind.ending, content, model)


def _format_of(content: bytes) -> _Format | str:
    """Returns the format of a model file, or in words what the file is instead."""
    for name, beginning in _OTHERS.items():
        if beginning.match(content):
            return name
    for kind in _FORMATS:
        if kind.beginning.match(content):
            return kind
    if not content:
        return "empty"
    return f"of an unknown format; it begins with {content[:12]!r}"
