from __future__ import annotations

from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pytest
from library_cases import CUTOFFS, at_cutoffs, judged_queries, row_weights, tied_scores
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.metrics import evaluate, preset
from ltrbench.metrics.conventions import TableGain
from ltrbench.shapes import Scores

PARAMETERS = {
    "objective": "lambdarank",
    "metric": ["ndcg", "map"],
    "eval_at": list(CUTOFFS),
    "num_leaves": 4,
    "min_data_in_bin": 1,
    "num_threads": 1,
    "verbosity": -1,
}


def as_lightgbm(
    data: RankingDataset,
    weights: NDArray[np.float64] | None = None,
    scores: Scores | None = None,
    reference: lgb.Dataset | None = None,
) -> lgb.Dataset:
    return lgb.Dataset(
        data.features,
        label=data.labels,
        group=data.query_sizes,
        weight=weights,
        init_score=scores,
        reference=reference,
    )


def reported(booster: lgb.Booster, data: lgb.Dataset) -> tuple[Scores, dict[str, float]]:
    """Returns the current scores of a data set, and LightGBM's values for them."""
    seen: list[Scores] = []

    def keep(scores: Scores, _: lgb.Dataset) -> tuple[str, float, bool]:
        seen.append(scores.copy())
        return "scores", 0.0, True

    figures = {figure[1]: figure[2] for figure in booster.eval(data, "valid", keep)}
    del figures["scores"]
    return seen[0], figures


@pytest.mark.parametrize("weighted", [False, True])
def test_lightgbms_figures_at_every_iteration_are_ours_under_its_preset(weighted: bool) -> None:
    train, valid = judged_queries(1, weighted=weighted), judged_queries(2, weighted=weighted)
    train_set = as_lightgbm(train, row_weights(train))
    valid_set = as_lightgbm(valid, row_weights(valid), reference=train_set)
    booster = lgb.Booster(PARAMETERS, train_set)
    booster.add_valid(valid_set, "valid")
    for _ in range(8):
        booster.update()
        scores, figures = reported(booster, valid_set)
        ours = evaluate(valid, scores, at_cutoffs("ndcg", "map"), preset("lightgbm")).means
        assert ours == pytest.approx(figures, rel=0, abs=1e-9)


def test_a_table_of_gains_is_lightgbms_label_gain() -> None:
    data, gains = judged_queries(4), (0.0, 1.0, 5.0, 6.0, 20.0)
    train_set = as_lightgbm(data, scores=tied_scores(data))
    booster = lgb.Booster({**PARAMETERS, "metric": "ndcg", "label_gain": list(gains)}, train_set)
    scores, figures = reported(booster, train_set)
    convention = replace(preset("lightgbm"), gain=TableGain(gains))
    ours = evaluate(data, scores, at_cutoffs("ndcg"), convention).means
    # LightGBM has one table of label gains per process: restore the default for the next booster.
    lgb.Booster(PARAMETERS, as_lightgbm(data).construct())
    assert ours == pytest.approx(figures, rel=0, abs=1e-9)
