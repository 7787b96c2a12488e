"""Trees as an ONNX model with one `TreeEnsemble` (ai.onnx.ml, opset 5).

    features  float32 [documents, F], NaN for missing values -> scores  [documents]

The model has one of two forms. `float64` converts the features to float64 first: thresholds and leaf values
are those of the ensemble, to the last bit. In `float32` every threshold is rounded down to float32, so that
each float32 value goes where it went before, but leaf values and sums are rounded. `float32` is exact for an
ensemble whose scores are float32 (XGBoost). The default is the form of the ensemble's scores.

Converters round thresholds to the nearest float32. Then a value that is equal to the rounded threshold, but
above the original one, goes left; with timestamps this is a large part of the documents.

onnxruntime 1.32 evaluates both forms, both comparisons, NaN, infinities, subnormal numbers and -0 as the
operator is defined. With one thread it sums the trees in their order, in the dtype of the form, so that the
scores are equal bit for bit. With more threads it adds partial sums, and the last bits of a score depend on
the size of the batch.

The base score is a first tree with equal leaves, because `TreeEnsemble` has no base score, and a sum that
starts with it has the bits of the ensemble. The operator has no trees of a single leaf; they are written as
a split with equal leaves. Nor has it zeros that count as missing: where they count as missing in all splits
on a feature, as in LightGBM, the graph replaces the zeros of this feature by NaN before the trees; other such
splits are expanded.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

try:
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper
except ImportError as error:
    raise ImportError(
        "the target onnx needs onnx and onnxruntime: pip install 'ltrbench[onnx]'"
    ) from error

import numpy as np
from numpy.typing import NDArray

from ltrbench.models.networks import Network, Steps, forward
from ltrbench.models.trees import (
    LARGEST_ZERO,
    Ensemble,
    InnerNode,
    Leaf,
    base_score_as_tree,
    flat,
    float32_thresholds,
    splits_of,
    weighted_values,
    with_splits,
    without_zero_missing,
)
from ltrbench.shapes import Features, Scores
from ltrbench.shipping.target import Engine, Export, ShippedModel, Target
from ltrbench.version import __version__

INPUT = "features"
OUTPUT = "scores"
"""Names of the input and the output of the graph."""

FloatForm = Literal["float32", "float64"]

_LEQ = 0
_LT = 1  # BRANCH_LEQ and BRANCH_LT of nodes_modes
_SUM = 1  # aggregate_function
_TREE_OPSET = 5
_OPSET = 18
_IR_VERSION = 10  # the versions of ONNX 1.16, the first release with TreeEnsemble
_TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}


def write_onnx(
    ensemble: Ensemble, feature_names: Sequence[str], name: str, form: FloatForm
) -> bytes:
    """Returns the content of an .onnx file.

    Args:
        feature_names: F names, stored as JSON in the metadata of the model.
        name: name of the graph.
        form: dtype of thresholds, leaf values and scores.

    Raises:
        ConfigError: Zeros count as missing values, and the expanded splits would be too many.
    """
    # The features on which there are splits, in all of which zeros count as missing.
    splits = list(splits_of(ensemble))
    replaced = {split.feature for split in splits if split.zero_missing}
    replaced -= {split.feature for split in splits if not split.zero_missing}
    if replaced:
        ensemble = with_splits(ensemble, partial(_without_zeros, replaced))
    ensemble = without_zero_missing(ensemble)
    constants: dict[str, NDArray[Any]] = {"axes": np.array([1])}
    nodes: list[onnx.NodeProto] = []
    values = INPUT
    if replaced:
        values = "known"
        constants |= _constants_of_zeros(replaced, len(feature_names))
        nodes += _nodes_of_zeros(values)
    nodes += [
        helper.make_node("Cast", [values], ["values"], to=_TYPES[form]),
        _trees_node(ensemble, form),
        helper.make_node("Squeeze", ["column", "axes"], [OUTPUT]),
    ]
    return _content(nodes, constants, feature_names, name, form)


def _constants_of_zeros(
    features: Collection[int], num_features: int
) -> dict[str, NDArray[Any]]:
    """Returns the constants of `_nodes_of_zeros` for the features in which zeros count as missing."""
    is_one = np.isin(np.arange(num_features), list(features))
    return {
        "largest_zero": np.array(LARGEST_ZERO, dtype=np.float32),
        "nan": np.array(np.nan, dtype=np.float32),
        "zeros_missing": is_one,
    }


def _nodes_of_zeros(output: str) -> list[onnx.NodeProto]:
    """Returns the operators that replace zeros by NaN."""
    return [
        helper.make_node("Abs", [INPUT], ["size"]),
        helper.make_node("LessOrEqual", ["size", "largest_zero"], ["is_zero"]),
        helper.make_node("And", ["is_zero", "zeros_missing"], ["is_missing"]),
        helper.make_node("Where", ["is_missing", "nan", INPUT], [output]),
    ]


def _without_zeros(features: Set[int], split: InnerNode) -> InnerNode:
    """Returns a split in which zeros do not count as missing, if it is on one of these features."""
    zero_missing = split.zero_missing and split.feature not in features
    return replace(split, zero_missing=zero_missing)


def _is_plain(letter: str) -> bool:
    return letter.isascii() and letter.isprintable()


def _content(
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, NDArray[Any]],
    feature_names: Sequence[str],
    name: str,
    form: FloatForm,
) -> bytes:
    """Returns the content of a file with these nodes."""
    shape: list[str | int | None] = ["documents", len(feature_names)]
    letters = [each if _is_plain(each) else "_" for each in name]
    tensors = []
    for name_of_tensor, value in constants.items():
        tensors.append(onnx.numpy_helper.from_array(value, name_of_tensor))
    graph = helper.make_graph(
        nodes,
        "".join(letters),
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(OUTPUT, _TYPES[form], shape[:1])],
        tensors,
    )
    opsets = [
        helper.make_opsetid("ai.onnx.ml", _TREE_OPSET),
        helper.make_opsetid("", _OPSET),
    ]
    model = helper.make_model(
        graph,
        opset_imports=opsets,
        ir_version=_IR_VERSION,
        producer_name="ltrbench",
        producer_version=__version__,
    )
    helper.set_model_props(model, {"feature_names": json.dumps(list(feature_names))})
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


# ---- Networks: the nodes that `ltrbench.models.networks.forward` computes with.


class _Value:
    """A value of the graph, with the operators of an array; `shape` has its last dimension only."""

    __array_ufunc__ = None

    def __init__(self, nodes: _Nodes, name: str, width: int) -> None:
        self.name = name
        self.shape = (width,)
        self._nodes = nodes

    def __add__(self, other: Any) -> _Value:
        return self._nodes.add("Add", self, other)

    def __sub__(self, other: Any) -> _Value:
        return self._nodes.add("Sub", self, other)

    def __mul__(self, other: Any) -> _Value:
        return self._nodes.add("Mul", self, other)

    def __truediv__(self, other: Any) -> _Value:
        return self._nodes.add("Div", self, other)

    def __matmul__(self, other: Any) -> _Value:
        return self._nodes.add("MatMul", self, other, width=other.shape[-1])


class _Nodes:
    """The functions of NumPy that a network uses, each of which adds a node."""

    _operators: ClassVar[dict[str, str]] = {
        **{
            name: name.capitalize()
            for name in ("sign", "abs", "log", "exp", "sqrt", "where", "clip")
        },
        **{"isnan": "IsNaN", "maximum": "Max"},
    }
    _reductions: ClassVar[dict[str, str]] = {
        name: f"Reduce{name.capitalize()}" for name in ("mean", "max", "sum")
    }

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, NDArray[Any]] = {}

    def add(
        self, operator: str, *inputs: Any, width: int | None = None, **attributes: Any
    ) -> _Value:
        names = [self._name_of(value) for value in inputs]
        output = f"value{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [output], **attributes))
        if width is None:
            shapes = [getattr(value, "shape", ()) for value in inputs]
            width = next(shape[-1] for shape in shapes if shape)
        return _Value(self, output, width)

    def _name_of(self, value: Any) -> str:
        """Returns the name of an input of a node; what is no value of the graph becomes a constant."""
        if isinstance(value, _Value):
            return value.name
        name = f"constant{len(self.constants)}"
        dtype = getattr(value, "dtype", np.float32)
        self.constants[name] = np.asarray(value, dtype=dtype)
        return name

    def __getattr__(self, name: str) -> Any:
        if name in self._operators:
            return partial(self.add, self._operators[name])
        return partial(self._reduce, self._reductions[name])

    def _reduce(
        self, operator: str, value: _Value, axis: int, keepdims: bool = False
    ) -> _Value:
        return self.add(operator, value, np.array([axis]), keepdims=int(keepdims))

    def reshape(self, value: _Value, shape: tuple[int, ...]) -> _Value:
        return self.add("Reshape", value, np.array(shape), width=shape[-1])

    def swapaxes(self, value: _Value, one: int, other: int) -> _Value:
        axes = [0, 1, 2]
        axes[one], axes[other] = axes[other], axes[one]
        return self.add("Transpose", value, perm=axes)


def write_network(network: Network, feature_names: Sequence[str], name: str) -> bytes:
    """Returns the content of an .onnx file for a network."""
    nodes = _Nodes()
    features = _Value(nodes, INPUT, len(feature_names))
    scores = forward(nodes, network.layers, Steps(network.arrays), features)
    nodes.nodes.append(helper.make_node("Identity", [scores.name], [OUTPUT]))
    return _content(nodes.nodes, nodes.constants, feature_names, name, "float32")


def _trees_node(ensemble: Ensemble, form: FloatForm) -> onnx.NodeProto:
    """Returns the operator; its inner nodes and its leaves are numbered over all trees."""
    columns, roots = _columns_and_roots(ensemble)
    threshold = columns.pop("splits")
    weights = columns.pop("weights")
    is_exact = form == "float64" or ensemble.threshold_dtype == "float32"
    if not is_exact:
        threshold = float32_thresholds(threshold, ensemble.comparison)
    mode = _LT if is_exact and ensemble.comparison == "<" else _LEQ
    modes = np.full(len(threshold), mode, dtype=np.uint8)
    from_array = onnx.numpy_helper.from_array
    by_node = {}
    for name, column in columns.items():
        by_node[f"nodes_{name}"] = column.astype(np.int64).tolist()
    return helper.make_node(
        "TreeEnsemble",
        ["values"],
        ["column"],
        domain="ai.onnx.ml",
        n_targets=1,
        aggregate_function=_SUM,
        tree_roots=roots,
        nodes_modes=from_array(modes, "nodes_modes"),
        nodes_splits=from_array(threshold.astype(form), "nodes_splits"),
        leaf_targetids=[0] * len(weights),
        leaf_weights=from_array(weights.astype(form), "leaf_weights"),
        **by_node,
    )


def _columns_and_roots(
    ensemble: Ensemble,
) -> tuple[dict[str, NDArray[Any]], list[int]]:
    """Returns the columns of the inner nodes of all trees and the weights of their leaves, and the roots."""
    columns: dict[str, list[NDArray[Any]]] = defaultdict(list)
    roots: list[int] = []
    num_inner = 0
    num_leaves = 0
    for weighted in base_score_as_tree(ensemble).trees:
        root = weighted.root
        if isinstance(root, Leaf):
            root = InnerNode(0, 0.0, False, root, root)
        tree = flat(root)
        is_leaf = tree.is_leaf
        inner = ~tree.is_leaf
        numbers_of_leaves = num_leaves + np.cumsum(is_leaf)
        numbers_of_inner = num_inner + np.cumsum(inner)
        numbers = np.where(is_leaf, numbers_of_leaves, numbers_of_inner) - 1
        of_nodes = {
            "featureids": tree.feature,
            "splits": tree.threshold,
            "missing_value_tracks_true": tree.missing_left,
            "truenodeids": numbers[tree.left],
            "trueleafs": is_leaf[tree.left],
            "falsenodeids": numbers[tree.right],
            "falseleafs": is_leaf[tree.right],
        }
        for name, column in of_nodes.items():
            columns[name].append(column[inner])
        values = weighted_values(tree, weighted.weight, ensemble.score_dtype)
        columns["weights"].append(values[is_leaf])
        roots.append(num_inner)
        num_inner += int(inner.sum())
        num_leaves += int(is_leaf.sum())
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    return joined, roots


_FILE = "model.onnx"
_REQUEST = f"""\
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession("{_FILE}", options, providers=["CPUExecutionProvider"])
(scores,) = session.run(["{OUTPUT}"], {{"{INPUT}": features}})  # float32 (documents, features)
"""


@dataclass
class OnnxTarget(Target):
    """An ONNX model: one TreeEnsemble operator, or the layers of a network."""

    name: ClassVar[str] = "onnx"
    holds_networks: ClassVar[bool] = True

    form: Literal["auto", "float32", "float64"] = "auto"
    """dtype of thresholds, leaf values and scores. auto: that of the model's scores, which is exact."""

    def export(self, model: ShippedModel) -> Export:
        if isinstance(model.scorer, Network):
            content = write_network(model.scorer, model.feature_names, model.name)
            notes = [
                f'The input "{INPUT}" and the output "{OUTPUT}" are float32; a missing value is NaN.'
            ]
            if model.is_listwise:
                notes.append(
                    "Score all documents of a query in one call, and no others: scores depend on them."
                )
            return Export({_FILE: content}, _REQUEST, notes=tuple(notes))
        ensemble = model.trees(self.name)
        form = ensemble.score_dtype if self.form == "auto" else self.form
        notes = [
            "The operator TreeEnsemble of ai.onnx.ml opset 5 needs onnxruntime 1.21 or newer.",
            f'The input "{INPUT}" is float32, with NaN for missing values; the output "{OUTPUT}" is {form}.',
            "With one thread onnxruntime sums the trees in order. With more threads the last bits of a score "
            "depend on the number of threads and on the size of the batch.",
        ]
        if form != ensemble.score_dtype:
            notes.append(
                f"The model sums in {ensemble.score_dtype}, so the scores differ by rounding."
            )
        content = write_onnx(ensemble, model.feature_names, model.name, form)
        return Export({_FILE: content}, _REQUEST, notes=tuple(notes))

    def engine(self, model: ShippedModel, export: Export) -> Engine:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            export.files[_FILE], options, providers=["CPUExecutionProvider"]
        )
        is_double = session.get_outputs()[0].type == "tensor(double)"

        def scores(features: Features) -> Scores:
            rows = np.ascontiguousarray(features)
            answered: Scores = session.run([OUTPUT], {INPUT: rows})[0]
            return answered

        return Engine(
            scores,
            name="onnxruntime",
            version=str(onnxruntime.__version__),
            score_dtype="float64" if is_double else "float32",
        )
