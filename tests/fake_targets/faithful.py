"""A target whose format is JSON and whose engine sums in float32; it can be broken on purpose."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

import numpy as np

from ltrbench.models.trees import Ensemble, InnerNode, Leaf, Node, WeightedTree, ensemble_scores, rebuilt
from ltrbench.shapes import Features
from ltrbench.shipping.target import (
    MISSING_VALUES,
    CheckRequests,
    CheckRows,
    Engine,
    Export,
    Linear,
    ShippedModel,
    Target,
)

FLIP: Final = "flip"
SHIFT: Final = "shift"
MISSING_RIGHT: Final = "missing_right"
HALF: Final = "half"
"""Values of `fault`."""


@dataclass(frozen=True)
class FaithfulTarget(Target):
    """Writes an ensemble as JSON.

    Args:
        offset: added to all scores, which is declared.
        fault: what the engine does wrong: empty, flip, shift, missing_right or half.
        limit: whether missing values are declared as a limit.
        is_verified: whether there is an evaluator.
    """

    name: ClassVar[str] = "faithful"

    offset: float = 0.0
    fault: Literal["", "flip", "shift", "missing_right", "half"] = ""
    limit: bool = False
    is_verified: bool = True

    def export(self, model: ShippedModel) -> Export:
        scorer = model.scorer
        content: dict[str, Any] = (
            {"weights": scorer.weights.tolist()} if isinstance(scorer, Linear) else self._content(scorer)
        )
        return Export(
            files={"model.json": json.dumps(content).encode()},
            request="curl -T model.json http://localhost/",
            offset=self.offset,
            notes=("A note.",),
            limits={MISSING_VALUES: "Missing values go right."} if self.limit else {},
        )

    def _content(self, ensemble: Ensemble) -> dict[str, Any]:
        return {
            "base": ensemble.base_score + self.offset,
            "comparison": ensemble.comparison,
            "dtype": ensemble.threshold_dtype,
            "trees": [[tree.weight, _nested(tree.root)] for tree in ensemble.trees],
        }

    def engine(self, model: ShippedModel, export: Export) -> Engine | None:
        if not self.is_verified:
            return None
        content = json.loads(export.files["model.json"])
        if "weights" in content:
            weights = np.array(content["weights"], dtype=np.float32)

            def linear(features: Features) -> Any:
                return np.nan_to_num(features, nan=0.0) @ weights

            return Engine(linear, "Faithful", score_dtype="float32")
        ensemble = broken(_ensemble(content), self.fault)

        def scores(features: Features) -> Any:
            return ensemble_scores(ensemble, features)

        return Engine(scores, "Faithful", score_dtype=ensemble.score_dtype, is_in_order=False)

    def check_requests(self, model: ShippedModel, export: Export, rows: CheckRows) -> CheckRequests | None:
        content = json.dumps(dict(rows.values())).encode()
        return CheckRequests(
            {"check.json": content}, "curl -T check.json", ("A note on rows.",), {}, "curl -X DELETE"
        )


def broken(ensemble: Ensemble, fault: str) -> Ensemble:
    """Returns the ensemble with an error of conversion; with "" unchanged."""
    if fault == FLIP:
        return replace(ensemble, comparison="<" if ensemble.comparison == "<=" else "<=")
    changes: Any = {
        SHIFT: lambda node: replace(node, threshold=float(np.float32(node.threshold) + np.float32(1e-6))),
        MISSING_RIGHT: lambda node: replace(node, missing_left=False),
    }.get(fault, lambda node: node)
    value_of = (lambda value: float(np.float16(value))) if fault == HALF else (lambda value: value)
    trees = tuple(WeightedTree(tree.weight, rebuilt(tree.root, changes, value_of)) for tree in ensemble.trees)
    return replace(ensemble, trees=trees)


def _nested(root: Node) -> list[Any]:
    if isinstance(root, Leaf):
        return [root.value]
    kept = [root.feature, root.threshold, root.missing_left, root.zero_missing]
    return [*kept, _nested(root.left), _nested(root.right)]


def _node(content: list[Any]) -> Node:
    if len(content) == 1:
        return Leaf(content[0])
    feature, threshold, missing_left, zero_missing, left, right = content
    return InnerNode(feature, threshold, missing_left, _node(left), _node(right), zero_missing)


def _ensemble(content: dict[str, Any]) -> Ensemble:
    return Ensemble(
        trees=tuple(WeightedTree(weight, _node(root)) for weight, root in content["trees"]),
        base_score=content["base"],
        comparison=content["comparison"],
        threshold_dtype=content["dtype"],
        score_dtype="float32",
    )
