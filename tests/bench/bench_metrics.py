"""Benchmark of the evaluator on one core: its time, and the ratio to NDCG in LightGBM and XGBoost.

    python tests/bench/bench_metrics.py [--queries 30000] [--documents 120] [--repeats 5]

Each library computes NDCG@10 of the same scores. Its value must equal ours under the library's preset, so
that the times are of the same work. The times of the libraries include scoring with one stump, which both
require.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from bench_jobs import median_seconds, options

from ltrbench.compilation import threads
from ltrbench.data import Judgments
from ltrbench.metrics import evaluate, preset, warm_up_metrics

NAME = "ndcg@10"


def lightgbm_of(judgments: Judgments, scores: np.ndarray) -> Callable[[], float]:
    parameters = {
        "objective": "lambdarank",
        "metric": "ndcg",
        "eval_at": [10],
        "num_threads": 1,
        "verbosity": -1,
    }
    data = lgb.Dataset(
        np.zeros((len(scores), 1), dtype=np.float32),
        label=judgments.labels,
        group=judgments.query_sizes,
        init_score=scores,
        params=parameters,
    )
    booster = lgb.Booster(parameters, data)
    return lambda: float(booster.eval_train()[0][2])


def ltrbench_of(judgments: Judgments, scores: np.ndarray) -> Callable[[], float]:
    return lambda: evaluate(judgments, scores, [NAME]).means[NAME]


def evaluate_next(unused: Iterator[Judgments], scores: np.ndarray) -> float:
    """Returns the value on judgments that were not evaluated before."""
    return evaluate(next(unused), scores, [NAME]).means[NAME]


def xgboost_of(judgments: Judgments, scores: np.ndarray) -> Callable[[], float]:
    data = xgb.DMatrix(
        np.zeros((len(scores), 1), dtype=np.float32),
        label=judgments.labels,
        group=judgments.query_sizes,
        base_margin=scores,
        nthread=1,
    )
    booster = xgb.Booster(
        {"objective": "rank:ndcg", "eval_metric": NAME, "nthread": 1, "base_score": 0},
        [data],
    )
    return lambda: float(booster.eval(data).rpartition(":")[2])


def main() -> None:
    arguments = options(__doc__, queries=30_000, documents=120, repeats=5)
    with threads(1):
        bench(arguments.queries, arguments.documents, arguments.repeats)


def bench(num_queries: int, num_docs: int, repeats: int) -> None:
    """Prints times for this number of queries and documents per query, with few and with many ties."""
    rng = np.random.default_rng(0)
    num_documents = num_queries * num_docs
    # The shares of grades are those of MSLR-WEB30K.
    labels = rng.choice(5, num_documents, p=[0.515, 0.325, 0.133, 0.019, 0.008]).astype(
        np.float64
    )
    query_start = np.arange(0, num_documents + 1, num_docs)
    warm_up_metrics()
    for what, decimals in (("few ties", 6), ("many ties", 2)):
        scores = np.round(rng.normal(size=num_documents), decimals)
        fresh = [
            Judgments(labels=labels, query_start=query_start) for _ in range(repeats)
        ]
        judgments = fresh[0]
        first = median_seconds(partial(evaluate_next, iter(fresh), scores), repeats)
        later = median_seconds(ltrbench_of(judgments, scores), repeats)
        print(f"{NAME} of {num_queries:,} queries x {num_docs}, {what}, one core:")
        print(
            f"  ltrbench: first call, with the ideal ranking: {first:.3f} s; later calls: {later:.3f} s"
        )
        for name, theirs in (("lightgbm", lightgbm_of), ("xgboost", xgboost_of)):
            call = theirs(judgments, scores)
            time, value = median_seconds(call, repeats), call()
            ours = evaluate(judgments, scores, [NAME], preset(name)).means[NAME]
            print(
                f"  {name}: {time:.3f} s; ltrbench / {name}: first call {first / time:.2f}, later calls "
                f"{later / time:.2f}; values differ by {abs(value - ours):.0e}"
            )


if __name__ == "__main__":
    main()
