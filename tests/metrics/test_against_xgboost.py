from __future__ import annotations

import numpy as np
import pytest
import xgboost as xgb
from library_cases import at_cutoffs, judged_queries

from ltrbench.data import RankingDataset
from ltrbench.errors import UndefinedMetricError
from ltrbench.metrics import evaluate, preset

XGBOOST_NAMES = {"ndcg": "ndcg", "map": "map", "precision": "pre"}


def as_xgboost(data: RankingDataset) -> xgb.DMatrix:
    matrix = xgb.DMatrix(data.features, label=data.labels)
    matrix.set_group(data.query_sizes)
    if data.query_weights is not None:
        matrix.set_weight(data.query_weights)
    return matrix


def name_in_xgboost(name: str, end: str) -> str:
    """`precision@5` -> `pre@5`, plus `end`; a minus gives empty queries the value 0."""
    metric, at, cutoff = name.partition("@")
    return XGBOOST_NAMES[metric] + at + cutoff + end


def reported(booster: xgb.Booster, data: xgb.DMatrix, iteration: int) -> dict[str, float]:
    """Returns XGBoost's values, with all the digits of its text."""
    _, *figures = booster.eval(data, "valid", iteration).split("\t")
    pairs = (figure.removeprefix("valid-").rsplit(":", 1) for figure in figures)
    return {name: float(value) for name, value in pairs}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("convention", ["xgboost", "xgboost-"])
@pytest.mark.parametrize(("highest", "metrics"), [(4, ["ndcg"]), (1, ["ndcg", "map", "precision"])])
def test_xgboosts_figures_at_every_iteration_are_ours_under_its_preset(
    weighted: bool, convention: str, highest: int, metrics: list[str]
) -> None:
    train = judged_queries(1, highest=highest, weighted=weighted)
    valid = judged_queries(2, highest=highest, weighted=weighted)
    names = at_cutoffs(*metrics) + metrics
    theirs = {name: name_in_xgboost(name, convention.removeprefix("xgboost")) for name in names}
    train_set, valid_set = as_xgboost(train), as_xgboost(valid)
    parameters = {
        "objective": "rank:ndcg",
        "eval_metric": list(theirs.values()),
        "lambdarank_pair_method": "topk",
        "max_depth": 2,
        "nthread": 1,
    }
    booster = xgb.Booster(parameters, [train_set, valid_set])
    for iteration in range(8):
        booster.update(train_set, iteration)
        scores = booster.predict(valid_set, output_margin=True)
        figures = reported(booster, valid_set, iteration)
        ours = evaluate(valid, scores, names, preset(convention)).means
        assert ours == pytest.approx({name: figures[theirs[name]] for name in names}, rel=0, abs=1e-6)


@pytest.mark.parametrize("name", ["map", "map@5", "precision@5"])
def test_xgboosts_binary_metrics_are_refused_on_graded_labels(name: str) -> None:
    data = judged_queries(highest=4)
    with pytest.raises(UndefinedMetricError, match=name.partition("@")[0]):
        evaluate(data, np.zeros(data.num_documents), [name], preset("xgboost"))
