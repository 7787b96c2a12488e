"""Trees as a checkpoint of treelite, which other tools compile (TL2cgen) or evaluate on GPUs (FIL of RAPIDS).

The model is built node by node with treelite's model builder, not with its importers for LightGBM and
XGBoost: the builder takes models of all backends, with the comparison, thresholds and leaf values as they
are in the ensemble. Thresholds and leaf values have one dtype, that of the ensemble's scores, because float64
thresholds and float32 leaf values cannot be combined. Comparisons of float32 features are exact in both.

treelite's evaluator (GTIL) sums the trees in their order and adds its base score at the end. The ensemble's
sum begins with the base score, so it is written as a first tree of one leaf, and treelite's is 0. Then the
scores are equal bit for bit. treelite has no zeros that count as missing; such splits are expanded.

A checkpoint is a binary file without code: treelite reads numbers and strings from it, and no pickle. But it
does not check the numbers, such as the index of a child or the length of an array: damaged bytes crashed the
process in 3 of 20 trials. Read only checkpoints from a trusted source. ltrbench reads only those that it has
written itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

try:
    import treelite
    from treelite.model_builder import (
        Metadata,
        ModelBuilder,
        PostProcessorFunc,
        TreeAnnotation,
    )
except ImportError as error:
    raise ImportError(
        "the target treelite needs treelite: pip install 'ltrbench[treelite]'"
    ) from error

import numpy as np

from ltrbench.models.trees import (
    Ensemble,
    FlatTree,
    WeightedTree,
    base_score_as_tree,
    codes_of,
    flat,
    float32_thresholds,
    of_words,
    weighted_values,
    without_zero_missing,
)
from ltrbench.shapes import Features, Scores
from ltrbench.shipping.target import Engine, Export, ShippedModel, Target


def write_treelite(ensemble: Ensemble, feature_names: Sequence[str]) -> bytes:
    """Returns the content of a checkpoint: a learning-to-rank model with one output.

    Args:
        feature_names: F names, stored in the model's attributes.

    Raises:
        ConfigError: Zeros count as missing values, and the expanded splits would be too many.
    """
    ensemble = without_zero_missing(ensemble)
    trees = base_score_as_tree(ensemble).trees
    # treelite's JSON parser refuses lone surrogates.
    names = [
        name.encode("utf-8", "backslashreplace").decode() for name in feature_names
    ]
    zeros = [0] * len(trees)
    builder = ModelBuilder(
        threshold_type=ensemble.score_dtype,
        leaf_output_type=ensemble.score_dtype,
        metadata=Metadata(
            num_feature=len(feature_names),
            task_type="kLearningToRank",
            average_tree_output=False,
            num_target=1,
            num_class=[1],
            leaf_vector_shape=(1, 1),
        ),
        tree_annotation=TreeAnnotation(len(trees), zeros, zeros),
        postprocessor=PostProcessorFunc(name="identity"),
        base_scores=[0.0],
        attributes={"feature_names": names},
    )
    for tree in trees:
        _add_tree(builder, tree, ensemble)
    content: bytes = builder.commit().serialize_bytes()
    return content


def _add_tree(builder: Any, weighted: WeightedTree, ensemble: Ensemble) -> None:
    tree = flat(weighted.root)
    values = weighted_values(tree, weighted.weight, ensemble.score_dtype).tolist()
    thresholds, comparison = _thresholds(tree, ensemble)
    builder.start_tree()
    for node, is_leaf in enumerate(tree.is_leaf.tolist()):
        builder.start_node(node)
        feature = int(tree.feature[node])
        sides: dict[str, Any] = {"default_left": bool(tree.missing_left[node])}
        sides["left_child_key"] = int(tree.left[node])
        sides["right_child_key"] = int(tree.right[node])
        if is_leaf:
            builder.leaf(values[node])
        elif np.isnan(tree.threshold[node]):
            codes = codes_of(of_words(tree.categories[node]))
            builder.categorical_test(
                feature, category_list=codes, category_list_right_child=False, **sides
            )
        else:
            builder.numerical_test(
                feature, thresholds[node], opname=comparison, **sides
            )
        builder.end_node()
    builder.end_tree()


def _thresholds(tree: FlatTree, ensemble: Ensemble) -> tuple[list[float], str]:
    """Returns the thresholds in the dtype of the scores, and how values are compared with them."""
    if (ensemble.threshold_dtype, ensemble.score_dtype) == ("float64", "float32"):
        return float32_thresholds(tree.threshold, ensemble.comparison).astype(
            np.float64
        ).tolist(), "<="
    return tree.threshold.tolist(), ensemble.comparison


_FILE = "model.treelite"
_REQUEST = f"""\
import treelite

model = treelite.Model.deserialize("{_FILE}")
scores = treelite.gtil.predict(model, features)[:, 0, 0]
"""


@dataclass
class TreeliteTarget(Target):
    """A checkpoint of treelite."""

    name: ClassVar[str] = "treelite"
    holds_categories: ClassVar[bool] = True

    def export(self, model: ShippedModel) -> Export:
        content = write_treelite(model.trees(self.name), model.feature_names)
        notes = (
            f"Written by treelite {treelite.__version__}; treelite 4.0 and newer read it.",
            "A checkpoint holds no code, but treelite does not check its numbers: a damaged or hostile file "
            "can crash the process that reads it.",
        )
        return Export(files={_FILE: content}, request=_REQUEST, notes=notes)

    def engine(self, model: ShippedModel, export: Export) -> Engine:
        loaded = treelite.Model.deserialize_bytes(export.files[_FILE])
        dtype = str(loaded.output_type)

        def scores(features: Features) -> Scores:
            rows = np.ascontiguousarray(features, dtype=dtype)
            predicted: Scores = treelite.gtil.predict(loaded, rows, nthread=1)[:, 0, 0]
            return predicted

        return Engine(
            scores,
            name="treelite GTIL",
            version=str(treelite.__version__),
            score_dtype=dtype,
        )
