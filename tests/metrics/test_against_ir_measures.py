"""Metrics against ir-measures, which computes trec_eval's measures with other gains and thresholds."""

from __future__ import annotations

import ir_measures
import numpy as np
import pytest
from ir_measures import AP, RR, P, R, nDCG
from library_cases import judged_queries, tied_scores

from ltrbench.data import RankingDataset
from ltrbench.metrics import evaluate, preset, with_settings
from ltrbench.shapes import PerQuery, Scores

HIGHEST = 4
EXPONENTIAL = {grade: 2**grade - 1 for grade in range(HIGHEST + 1)}


def reported(data: RankingDataset, scores: Scores, measure: ir_measures.measures.Measure) -> PerQuery:
    """Returns (Q,) values of ir-measures."""
    assert data.document_ids is not None
    documents = list(zip(data.query_ids[data.query_of_document], data.document_ids, strict=True))
    qrels = [
        ir_measures.Qrel(query, document, int(label))
        for (query, document), label in zip(documents, data.labels, strict=True)
    ]
    run = [
        ir_measures.ScoredDoc(query, document, float(score))
        for (query, document), score in zip(documents, scores, strict=True)
    ]
    by_query = {item.query_id: item.value for item in ir_measures.iter_calc([measure], qrels, run)}
    return np.array([by_query.get(query, np.nan) for query in data.query_ids])


@pytest.mark.parametrize(
    ("name", "settings", "measure"),
    [
        ("ndcg@10", {}, nDCG @ 10),
        ("ndcg@5", {"gain": "exponential"}, nDCG(gains=EXPONENTIAL) @ 5),
        ("ndcg", {"gain": "[0,0,1,5,9]"}, nDCG(gains={0: 0, 1: 0, 2: 1, 3: 5, 4: 9})),
        ("map", {"relevance_threshold": "2"}, AP(rel=2)),
        ("map@5", {"relevance_threshold": "3"}, AP(rel=3) @ 5),
        ("precision@10", {"relevance_threshold": "2"}, P(rel=2) @ 10),
        ("recall@5", {"relevance_threshold": "2"}, R(rel=2) @ 5),
        ("mrr", {"relevance_threshold": "3"}, RR(rel=3)),
    ],
    ids=str,
)
def test_gains_and_thresholds_vary_as_in_ir_measures(
    name: str, settings: dict[str, str], measure: ir_measures.measures.Measure
) -> None:
    data = judged_queries(highest=HIGHEST)
    scores = tied_scores(data)
    ours = evaluate(data, scores, [name], with_settings(preset("trec_eval"), settings))
    np.testing.assert_allclose(ours.per_query[name], reported(data, scores, measure), rtol=0, atol=1e-9)
