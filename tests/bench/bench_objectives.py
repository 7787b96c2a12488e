"""Benchmark of objectives: time of a fit of `native` relative to lambdarank, and to CatBoost with this loss.

    python tests/bench/bench_objectives.py [--documents 222000] [--leaves 31] [--trees 50] [--threads 1]
    [--repeats 3]

The fits alternate, so that all are affected by slow periods of the machine, and kernels are compiled before.
CatBoost takes one Newton step per leaf, as native does.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from bench_fit import medians
from bench_jobs import Row, make_dataset, options

from ltrbench.data import RankingDataset
from ltrbench.native.objectives.approx_ndcg import ApproxNDCG
from ltrbench.native.objectives.lambdaloss import LambdaLoss
from ltrbench.native.objectives.lambdarank import RankNet
from ltrbench.native.objectives.listmle import ListMLE
from ltrbench.native.objectives.listnet import ListNet
from ltrbench.native.objectives.query_rmse import QueryRMSE
from ltrbench.native.objectives.query_softmax import QuerySoftMax
from ltrbench.native.objectives.stochastic_rank import StochasticRank
from ltrbench.native.objectives.yetirank import YetiRank
from ltrbench.rankers import Ranker
from ltrbench.rankers.catboost import CatBoostRanker
from ltrbench.rankers.native import NativeRanker

NEWTON = {
    "leaf_estimation_method": "Newton",
    "extra": {"leaf_estimation_iterations": 1},
}

SHARED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "YetiRank": ({"objective": YetiRank()}, {"loss": "YetiRank"}),
    "YetiRank NDCG": (
        {"objective": YetiRank(mode="NDCG")},
        {"loss": "YetiRank", "mode": "NDCG"},
    ),
    "StochasticRank": ({"objective": StochasticRank()}, {"loss": "StochasticRank"}),
    "QuerySoftMax": ({"objective": QuerySoftMax()}, {"loss": "QuerySoftMax", **NEWTON}),
    "QueryRMSE": ({"objective": QueryRMSE()}, {"loss": "QueryRMSE", **NEWTON}),
    "PairLogit": (
        {
            "objective": RankNet(normalize_distance=False, normalize_query=False),
            "truncation": 10_000,
        },
        {"loss": "PairLogit", **NEWTON},
    ),
}
"""Loss -> settings of native and of CatBoost."""

LIMIT = 0.6  # of CatBoost's time

GOALS = {"LambdaLoss": (LambdaLoss(), 1.1), "YetiRank": (YetiRank(), 1.4)}
GOALS |= {"RankNet": (RankNet(), 0.9)}
"""Name -> objective, and the goal for its time relative to lambdarank."""


def rows() -> Iterator[Row]:
    """Yields the rows of the table of all benchmarks."""
    train = make_dataset(222_000, seed=0)
    few = make_dataset(2_000, seed=0)
    shared = {"num_trees": 50, "num_leaves": 31, "num_threads": 1}
    rankers = {"lambdarank": NativeRanker(**shared)}
    for name, (objective, _) in GOALS.items():
        rankers[name] = NativeRanker(**shared, objective=objective)
    for ranker in rankers.values():
        ranker.fit(few)
    fits = {name: partial(fit, name, ranker, train) for name, ranker in rankers.items()}
    taken = medians(fits, 3)
    for name, (_, goal) in GOALS.items():
        yield Row(f"{name} / lambdarank", taken[name] / taken["lambdarank"], goal)


def main() -> None:
    arguments = options(
        __doc__, documents=222_000, leaves=31, trees=50, threads=1, repeats=3
    )
    train, few = make_dataset(arguments.documents, seed=0), make_dataset(2_000, seed=0)
    shared = {
        "num_trees": arguments.trees,
        "num_leaves": arguments.leaves,
        "num_threads": arguments.threads,
    }
    rankers: dict[str, Ranker] = {"lambdarank": NativeRanker(**shared)}
    for loss, (of_native, of_catboost) in SHARED.items():
        rankers[loss] = NativeRanker(**shared, **of_native)
        rankers[f"CatBoost {loss}"] = CatBoostRanker(
            **shared, learning_rate=0.1, **of_catboost
        )
    for objective in (
        *(
            LambdaLoss(),
            LambdaLoss(variant="rax"),
            LambdaLoss(variant="allrank", weighting="ndcg1"),
        ),
        *(ListNet(), ListNet(targets="labels"), ListMLE(), ApproxNDCG(temperature=0.1)),
    ):
        rankers[str(objective)] = NativeRanker(**shared, objective=objective)
    for ranker in rankers.values():
        ranker.fit(few)
    fits = {name: partial(fit, name, ranker, train) for name, ranker in rankers.items()}
    taken = medians(fits, arguments.repeats)
    for name, value in taken.items():
        print(f"{name}: {value / taken['lambdarank']:.2f} of lambdarank")
    for loss in SHARED:
        print(
            f"{loss}: native / CatBoost {taken[loss] / taken[f'CatBoost {loss}']:.2f} (limit {LIMIT})"
        )


def fit(name: str, ranker: Ranker, train: RankingDataset) -> None:
    print(f"fitting {name}", flush=True)
    ranker.fit(train)


if __name__ == "__main__":
    main()
