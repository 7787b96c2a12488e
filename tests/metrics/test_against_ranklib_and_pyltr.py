"""Golden outputs of RankLib and pyltr, which cannot be installed together with ltrbench."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from golden_files import golden_file

from ltrbench.data import RankingDataset, read_letor
from ltrbench.metrics import evaluate, preset

PYLTR_NAMES = {"ndcg@10": "ndcg10", "ndcg@3": "ndcg3", "err@10": "err10", "map": "ap"}


@pytest.mark.parametrize("name", PYLTR_NAMES)
def test_pyltrs_figures_of_real_queries_are_ours_under_its_preset(name: str) -> None:
    queries = json.loads(golden_file("pyltr_lambdas.json").read_text())
    labels = np.concatenate([query["labels"] for query in queries])
    data = RankingDataset(
        features=np.zeros((len(labels), 1), dtype=np.float32),
        labels=labels,
        query_start=np.cumsum([0] + [len(query["labels"]) for query in queries]),
    )
    convention = replace(preset("pyltr"), highest_grade=2.0)
    scores = np.concatenate([query["scores"] for query in queries])
    ours = evaluate(data, scores, [name], convention).per_query[name]
    theirs = [query[PYLTR_NAMES[name]]["value"] for query in queries]
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)


def test_ranklibs_ndcg_of_its_own_model_on_mq2008_is_ours_under_its_preset(
    letor_data: Callable[[str], Path],
) -> None:
    scores = np.loadtxt(golden_file("ranklib_MQ2008_Fold1_test_scores.txt"), ndmin=2)[:, -1]
    data = read_letor(letor_data("MQ2008") / "Fold1" / "test.txt")
    ours = evaluate(data, scores, ["ndcg@10"], preset("ranklib")).means["ndcg@10"]
    # RankLib prints four decimals.
    assert round(ours, 4) == 0.4891
