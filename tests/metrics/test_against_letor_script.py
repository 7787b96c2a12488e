"""The preset letor4 against a plain implementation of LETOR 4.0's evaluation script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp2, log2

import pytest
from library_cases import CUTOFFS, judged_queries, rows_of_queries, tied_scores

from ltrbench.data import RankingDataset
from ltrbench.metrics import evaluate, preset
from ltrbench.shapes import Scores


def ranked_labels(data: RankingDataset, scores: Scores) -> list[list[float]]:
    """Returns the labels of each query by descending score; tied documents in row order."""
    by_query = ((data.labels[rows].tolist(), scores[rows].tolist()) for rows in rows_of_queries(data))
    return [
        [labels[row] for row in sorted(range(len(labels)), key=lambda row: -scores[row])]
        for labels, scores in by_query
    ]


def letor_dcg(ranked: Sequence[float], k: int) -> float:
    """Returns DCG: positions from 1; the first two have weight 1, position p > 2 has weight 1 / log2(p)."""
    gains = (exp2(label) - 1.0 for label in ranked[:k])
    return sum(gain / (1.0 if position <= 2 else log2(position)) for position, gain in enumerate(gains, 1))


def letor_ndcg(ranked: Sequence[float], k: int) -> float:
    ideal = letor_dcg(sorted(ranked, reverse=True), k)
    return letor_dcg(ranked, k) / ideal if len(ranked) >= k and ideal > 0 else 0.0


def letor_mean_ndcg(ranked: Sequence[float]) -> float:
    return sum(letor_ndcg(ranked, k) for k in range(1, len(ranked) + 1)) / len(ranked)


def letor_precision(ranked: Sequence[float], k: int) -> float:
    return sum(label >= 1 for label in ranked[:k]) / k


def letor_average_precision(ranked: Sequence[float]) -> float:
    found = [position for position, label in enumerate(ranked, 1) if label >= 1]
    return sum(nth / position for nth, position in enumerate(found, 1)) / max(len(found), 1)


def script_says(data: RankingDataset, scores: Scores) -> dict[str, float]:
    ranked = ranked_labels(data, scores)

    def mean(metric: Callable[..., float], *cutoff: int) -> float:
        return sum(metric(labels, *cutoff) for labels in ranked) / len(ranked)

    return {
        **{f"ndcg@{k}": mean(letor_ndcg, k) for k in CUTOFFS},
        **{f"precision@{k}": mean(letor_precision, k) for k in CUTOFFS},
        "mean_ndcg": mean(letor_mean_ndcg),
        "map": mean(letor_average_precision),
    }


@pytest.mark.parametrize("highest", [1, 2, 4])
def test_the_preset_follows_the_scripts_rules(highest: int) -> None:
    data = judged_queries(highest=highest)
    expected = script_says(data, tied_scores(data))
    ours = evaluate(data, tied_scores(data), list(expected), preset("letor4")).means
    assert ours == pytest.approx(expected, rel=0, abs=1e-12)
