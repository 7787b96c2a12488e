"""A target whose format is JSON and whose engine sums in float32; it can be broken on purpose."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

import numpy as np

from ltrbench.models.trees import Ensemble, WeightedTree, base_score_as_tree, rebuilt
from ltrbench.models.xgboost_files import read_xgboost_dump, write_xgboost_dump
from ltrbench.shipping.target import (
    MISSING_VALUES,
    Arithmetic,
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
    """Writes an ensemble as XGBoost dumps it.

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
        if isinstance(scorer, Linear):
            content = json.dumps(dict(enumerate(scorer.weights.tolist()))).encode()
        else:
            trees = model.trees(self.name)
            moved = replace(trees, base_score=trees.base_score + self.offset)
            content = write_xgboost_dump(base_score_as_tree(moved), model.feature_names)
        return Export(
            files={"model.json": content},
            request="curl -T model.json http://localhost/",
            offset=self.offset,
            notes=("A note.",),
            limits={MISSING_VALUES: "Missing values go right."} if self.limit else {},
        )

    def engine(self, model: ShippedModel, export: Export) -> Engine | None:
        if not self.is_verified:
            return None
        content = json.loads(export.files["model.json"])
        if isinstance(content, dict):
            weights = {int(feature): weight for feature, weight in content.items()}
            return Arithmetic("<", missing="zero").engine(weights, "Faithful")
        indices = {name: index for index, name in enumerate(model.feature_names)}
        trees = broken(
            read_xgboost_dump(export.files["model.json"], indices), self.fault
        )
        return Arithmetic(trees.comparison).engine(trees, "Faithful", is_in_order=False)

    def check_requests(
        self, model: ShippedModel, export: Export, rows: CheckRows
    ) -> CheckRequests | None:
        content = json.dumps(dict(rows.values())).encode()
        return CheckRequests(
            {"check.json": content},
            ["curl -T check.json"],
            ("A note on rows.",),
            {},
            ["curl -X DELETE"],
        )


def broken(ensemble: Ensemble, fault: str) -> Ensemble:
    """Returns the ensemble with an error of conversion; with "" unchanged."""
    if fault == FLIP:
        return replace(
            ensemble, comparison="<" if ensemble.comparison == "<=" else "<="
        )
    changes: Any = {
        SHIFT: lambda node: replace(
            node, threshold=float(np.float32(node.threshold) + np.float32(1e-6))
        ),
        MISSING_RIGHT: lambda node: replace(node, missing_left=False),
    }.get(fault, lambda node: node)
    value_of = (
        (lambda value: float(np.float16(value)))
        if fault == HALF
        else (lambda value: value)
    )
    trees = tuple(
        WeightedTree(tree.weight, rebuilt(tree.root, changes, value_of))
        for tree in ensemble.trees
    )
    return replace(ensemble, trees=trees)
