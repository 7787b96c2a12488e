from __future__ import annotations

import pytest
from catboost.utils import eval_metric
from library_cases import at_cutoffs, judged_queries, row_weights, tied_scores

from ltrbench.data import RankingDataset
from ltrbench.metrics import evaluate, preset

CATBOOST_NAMES = {
    "ndcg": "NDCG",
    "dcg": "DCG",
    "map": "MAP",
    "mrr": "MRR",
    "precision": "PrecisionAt",
    "recall": "RecallAt",
    "err": "ERR",
    "auc": "QueryAUC",
}


def reported(data: RankingDataset, name: str, *options: str) -> float:
    """Returns CatBoost's value of a metric; `ndcg@5` is `NDCG:top=5` there."""
    metric, _, cutoff = name.partition("@")
    settings = [f"top={cutoff}"] * bool(cutoff) + list(options)
    requested = CATBOOST_NAMES[metric] + ":" * bool(settings) + ";".join(settings)
    queries, weights = data.query_of_document, row_weights(data)
    (value,) = eval_metric(data.labels, tied_scores(data), requested, group_id=queries, group_weight=weights)
    return float(value)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", ["ndcg", "dcg", "map", "mrr", "precision", "recall"])
def test_catboosts_figures_on_graded_labels_are_ours_under_its_preset(metric: str, weighted: bool) -> None:
    data = judged_queries(weighted=weighted)
    names = [*at_cutoffs(metric), metric]
    ours = evaluate(data, tied_scores(data), names, preset("catboost")).means
    # CatBoost keeps labels and weights in float32.
    assert ours == pytest.approx({name: reported(data, name) for name in names}, rel=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_catboosts_figures_on_binary_labels_are_ours_under_its_preset(weighted: bool) -> None:
    data = judged_queries(highest=1, weighted=weighted)
    names = [*at_cutoffs("err"), "err", "auc"]
    ours = evaluate(data, tied_scores(data), names, preset("catboost")).means
    assert ours == pytest.approx({name: reported(data, name) for name in names}, rel=1e-6)
