"""Benchmark of objectives: time of a fit of `native` relative to lambdarank, and to CatBoost with this loss.

    python tests/bench/bench_objectives.py [--documents 222000] [--leaves 31] [--trees 50] [--threads 1]
    [--repeats 3]

The fits alternate, so that all are affected by slow periods of the machine, and kernels are compiled before.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bench_fit import medians
from bench_jobs import make_dataset, options

from ltrbench.native.objectives.approx_ndcg import ApproxNDCG
from ltrbench.native.objectives.lambdaloss import LambdaLoss
from ltrbench.native.objectives.listmle import ListMLE
from ltrbench.native.objectives.listnet import ListNet
from ltrbench.native.objectives.query_softmax import QuerySoftMax
from ltrbench.native.objectives.stochastic_rank import StochasticRank
from ltrbench.native.objectives.yetirank import YetiRank
from ltrbench.rankers.catboost import CatBoostRanker
from ltrbench.rankers.native import NativeRanker


def main() -> None:
    arguments = options(__doc__, documents=222_000, leaves=31, trees=50, threads=1, repeats=3)
    train, few = make_dataset(arguments.documents, seed=0), make_dataset(2_000, seed=0)
    shared = {"num_trees": arguments.trees, "num_leaves": arguments.leaves, "num_threads": arguments.threads}
    rankers: dict[str, Any] = {"lambdarank": NativeRanker(**shared)}
    for kind in (YetiRank, StochasticRank, QuerySoftMax):
        rankers[kind.__name__] = NativeRanker(**shared, objective=kind())
        theirs = CatBoostRanker(**shared, learning_rate=0.1, loss=kind.__name__)
        rankers[f"CatBoost {kind.__name__}"] = theirs
    for objective in (
        *(LambdaLoss(), LambdaLoss(variant="rax"), LambdaLoss(variant="allrank", weighting="ndcg1")),
        *(ListNet(), ListNet(targets="labels"), ListMLE(), ApproxNDCG(temperature=0.1)),
    ):
        rankers[str(objective)] = NativeRanker(**shared, objective=objective)
    for ranker in rankers.values():
        ranker.fit(few)
    taken = medians({name: partial(ranker.fit, train) for name, ranker in rankers.items()}, arguments.repeats)
    for name, value in taken.items():
        print(f"{name}: {value / taken['lambdarank']:.2f} of lambdarank")


if __name__ == "__main__":
    main()
