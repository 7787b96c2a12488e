"""Golden files: lambdas, trees and metrics from the libraries.

The files are not part of the package. If a file is missing, its rows give the reason.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import numpy as np

from ltrbench.data import RankingDataset
from ltrbench.native.objectives import prepare
from ltrbench.native.objectives.dialects import PairSettings
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.native.settings import pairs_of
from ltrbench.shapes import Features, Scores
from ltrbench.studies.parity.rows import ParityRow

RANKLIB_NDCG = {1: 0.4891, 2: 0.4560, 3: 0.4821, 4: 0.5504, 5: 0.5473}
"""NDCG@10 of RankLib on the test folds of MQ2008, from its log."""

_QUERIES = "12 queries of MQ2008"
_ALL_FLOAT32 = "all computations in float32"
_OFF = {"normalize_distance": False, "normalize_query": False}
_FLOAT32 = "float32, with a resolution of 1.2e-7 between 1 and 2"
_TABLE = "LightGBM's table of p has an error of up to half a step, 1.2e-5 of the weight of a pair"


@dataclass(frozen=True)
class _Golden:
    """Lambdas in a golden file, and the settings to reproduce them."""

    file: str
    name: str
    against: str
    settings: PairSettings
    tolerance: float
    reason: str
    what: str
    keys: tuple[str, str] = ("g", "h")
    sign: float = 1.0  # -1 for pyltr, whose lambdas have the opposite sign


def _of_libraries() -> list[_Golden]:
    light, extreme = (pairs_of(NativeRanker.from_preset(name)) for name in ("lightgbm", "xgboost"))
    variants: list[tuple[str, str, PairSettings, dict[str, Any], float, str]] = [
        ("lightgbm", "LightGBM 4.7.0", light, {}, 1e-7, _FLOAT32),
        ("lightgbm", "LightGBM 4.7.0", light, {"sigmoid": "exact"}, 3e-5, _TABLE),
        ("lightgbm,norm=false", "LightGBM 4.7.0", light, _OFF, 1e-7, _FLOAT32),
        ("lightgbm,truncation=3", "LightGBM 4.7.0", light, {"truncation": 3}, 1e-7, _FLOAT32),
        ("lightgbm,sigma=2", "LightGBM 4.7.0", light, {"sigma": 2.0}, 1e-7, _FLOAT32),
        ("xgboost", "XGBoost 3.2.0", extreme, {}, 1e-6, _ALL_FLOAT32),
        ("xgboost,truncation=3", "XGBoost 3.2.0", extreme, {"truncation": 3}, 1e-6, _ALL_FLOAT32),
        (
            "xgboost,normalization=false,score_normalization=false",
            *("XGBoost 3.2.0", extreme, _OFF, 1e-6, _ALL_FLOAT32),
        ),
    ]
    return [
        _Golden(
            "lightgbm_xgboost_lambdas.json",
            *(name, against, replace(settings, **varied), tolerance, reason),
            "lambdas and hessians"
            + "".join(f", {key}={str(value).lower()}" for key, value in varied.items()),
        )
        for name, against, settings, varied, tolerance, reason in variants
    ]


def _of_pyltr() -> list[_Golden]:
    # All pairs, because pairs below rank 10 change metrics other than NDCG@10.
    pairs = replace(pairs_of(NativeRanker.from_preset("pyltr")), truncation=None)
    metrics = {"ndcg@10": "ndcg10", "ndcg@3": "ndcg3", "err@10": "err10", "map": "ap"}
    # The highest grade in the file.
    convention = replace(pairs.convention, highest_grade=2.0)
    return [
        _Golden(
            "pyltr_lambdas.json",
            *(name, "pyltr 0.2.6", replace(pairs, metric=metric, convention=convention), 1e-9),
            "float64, summed in another order",
            f"lambdas and hessians of {metric}",
            ("lambdas", "weights"),
            sign=-1.0,
        )
        for metric, name in metrics.items()
    ]


def lambda_rows(folder: Path) -> list[ParityRow]:
    """Returns the rows of the lambdas of every dialect on real queries."""
    return [_lambda_row(folder / golden.file, golden) for golden in (*_of_libraries(), *_of_pyltr())]


def _lambda_row(path: Path, golden: _Golden) -> ParityRow:
    claim = ParityRow(
        what=golden.what,
        on=_QUERIES,
        against=golden.against,
        tolerance=golden.tolerance,
        reason=golden.reason,
        difference=None,
        detail=f"file {path.name} not found",
    )
    if not path.is_file():
        return claim
    queries = json.loads(path.read_text())
    return replace(claim, difference=max(_difference(query, golden) for query in queries), detail="")


def _difference(query: dict[str, Any], golden: _Golden) -> float:
    """Returns the largest difference of a gradient or a hessian."""
    labels = np.asarray(query["labels"], dtype=np.float64)
    data = RankingDataset(
        features=np.zeros((len(labels), 1), dtype=np.float32),
        labels=labels,
        query_start=np.array([0, len(labels)]),
    )
    objective = prepare(data, golden.settings)
    gradients, hessians = objective(np.asarray(query["scores"]), None, np.random.default_rng(0))
    expected = [np.asarray(query[golden.name][key]) for key in golden.keys]
    return float(max(abs(golden.sign * gradients - expected[0]).max(), abs(hessians - expected[1]).max()))


def ranklib_trees(path: Path) -> list[ElementTree.Element]:
    """Returns the trees of a RankLib model file, which starts with a header that is not XML."""
    return ElementTree.fromstring(path.read_text().partition("\n\n")[2]).findall("tree")


def ranklib_scores(tree: ElementTree.Element, features: Features) -> Scores:
    """Returns (D,), the contribution of a RankLib tree to the scores."""
    scores = np.zeros(len(features))
    below = [(cast(ElementTree.Element, tree.find("split")), np.arange(len(features)))]
    while below:
        node, rows = below.pop()
        if node.find("output") is not None:
            scores[rows] = float(tree.get("weight", "")) * float(node.findtext("output", ""))
            continue
        feature = int(node.findtext("feature", "")) - 1  # RankLib counts from 1
        goes_left = features[rows, feature] <= np.float32(node.findtext("threshold", ""))
        below.extend(
            (child, rows[goes_left if child.get("pos") == "left" else ~goes_left])
            for child in node.findall("split")
        )
    return scores
