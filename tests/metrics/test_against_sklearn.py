from __future__ import annotations

import numpy as np
import pytest
from library_cases import CUTOFFS, judged_queries, mean, rows_of_queries, tied_scores
from messages import naming
from sklearn.metrics import dcg_score, ndcg_score

from ltrbench.errors import UndefinedMetricError
from ltrbench.metrics import evaluate, preset

PEERS = {"ndcg": ndcg_score, "dcg": dcg_score}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [*CUTOFFS, None])
@pytest.mark.parametrize("metric", ["ndcg", "dcg"])
def test_sklearns_figures_are_ours_under_its_preset(metric: str, k: int | None, weighted: bool) -> None:
    data = judged_queries(smallest=2, weighted=weighted)
    scores, name = tied_scores(data), metric if k is None else f"{metric}@{k}"
    per_query = np.array(
        [PEERS[metric]([data.labels[rows]], [scores[rows]], k=k) for rows in rows_of_queries(data)]
    )
    ours = evaluate(data, scores, [name], preset("sklearn"))
    np.testing.assert_allclose(ours.per_query[name], per_query, rtol=0, atol=1e-9)
    assert ours.means[name] == pytest.approx(mean(per_query, data), rel=0, abs=1e-9)


def test_a_query_of_one_document_is_refused_as_sklearn_refuses_it() -> None:
    data = judged_queries(smallest=1)
    with pytest.raises(ValueError, match="more than 1 document"):
        ndcg_score([data.labels[:1]], [[0.0]])
    with pytest.raises(UndefinedMetricError, match=naming("sklearn", "fewer than 2")):
        evaluate(data, tied_scores(data), ["ndcg@5"], preset("sklearn"))
