from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import pytrec_eval
from library_cases import CUTOFFS, at_cutoffs, judged_queries, rows_of_queries, tied_scores
from messages import naming

from ltrbench.data import RankingDataset
from ltrbench.errors import UndefinedMetricError
from ltrbench.metrics import evaluate, preset
from ltrbench.shapes import PerQuery, Scores

TREC_NAMES = {
    "ndcg": "ndcg",
    "map": "map",
    "mrr": "recip_rank",
    **{f"ndcg@{k}": f"ndcg_cut_{k}" for k in CUTOFFS},
    **{f"map@{k}": f"map_cut_{k}" for k in CUTOFFS},
    **{f"precision@{k}": f"P_{k}" for k in CUTOFFS},
    **{f"recall@{k}": f"recall_{k}" for k in CUTOFFS},
}


def reported(data: RankingDataset, scores: Scores) -> dict[str, PerQuery]:
    """Returns the values of trec_eval for every query."""
    judgments, run = {}, {}
    assert data.document_ids is not None
    for query, rows in zip(data.query_ids.tolist(), rows_of_queries(data), strict=True):
        documents = data.document_ids[rows].tolist()
        judgments[query] = dict(zip(documents, data.labels[rows].astype(int).tolist(), strict=True))
        run[query] = dict(zip(documents, scores[rows].tolist(), strict=True))
    cutoffs = ",".join(map(str, CUTOFFS))
    measures = {re.sub(r"_\d+$", f".{cutoffs}", name) for name in TREC_NAMES.values()}
    figures = pytrec_eval.RelevanceEvaluator(judgments, measures).evaluate(run)
    return {
        name: np.array([figures[query][theirs] for query in data.query_ids.tolist()])
        for name, theirs in TREC_NAMES.items()
    }


@pytest.mark.parametrize("highest", [1, 4])
def test_trec_evals_figures_are_ours_under_its_preset(highest: int) -> None:
    data = judged_queries(highest=highest)
    scores = tied_scores(data)
    ours = evaluate(data, scores, list(TREC_NAMES), preset("trec_eval"))
    for name, theirs in reported(data, scores).items():
        np.testing.assert_allclose(ours.per_query[name], theirs, rtol=0, atol=1e-9, err_msg=name)
        assert ours.means[name] == pytest.approx(theirs.mean(), rel=0, abs=1e-9)


def test_scores_that_float32_cannot_tell_apart_are_tied_as_in_trec_eval() -> None:
    data = judged_queries()
    scores = tied_scores(data) + 1e-9 * np.arange(data.num_documents)
    ours = evaluate(data, scores, at_cutoffs("ndcg"), preset("trec_eval"))
    theirs = reported(data, scores)
    for name, values in ours.per_query.items():
        np.testing.assert_allclose(values, theirs[name], rtol=0, atol=1e-9, err_msg=name)


def test_trec_evals_preset_needs_document_ids() -> None:
    nameless = replace(judged_queries(), document_ids=None)
    with pytest.raises(UndefinedMetricError, match=naming("document ids", "# docid = ID")):
        evaluate(nameless, tied_scores(nameless), ["ndcg@10"], preset("trec_eval"))
