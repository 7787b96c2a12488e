from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from engine_cases import COMPILED, make_dataset
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.native import boosting
from ltrbench.native.boosting import (
    BoostingSettings,
    DartSettings,
    SamplingSettings,
    boost,
)
from ltrbench.native.forest import Forest, add_scores, plant
from ltrbench.native.objectives.lambdas import prepare
from ltrbench.native.objectives.pairs import NATIVE
from ltrbench.native.splitting import SplitSettings
from ltrbench.rankers.native import NativeRanker
from ltrbench.shapes import Scores

SMALL = BoostingSettings(
    num_trees=6, num_leaves=6, splits=SplitSettings(min_docs_in_leaf=3)
)
SAMPLED = replace(
    SMALL,
    sampling=SamplingSettings(
        queries_per_tree=0.7, documents_per_tree=0.8, features_per_tree=0.6
    ),
)
# learning_rate=0.5: GOSS starts with the third tree.
GOSS = replace(
    SMALL,
    learning_rate=0.5,
    sampling=SamplingSettings(goss_top_rate=0.3, goss_other_rate=0.2),
)
DART = replace(SMALL, num_trees=12, dart=DartSettings(drop_rate=0.5))


def learn(data: RankingDataset, settings: BoostingSettings) -> Forest:
    return boost(data, settings).forest


def scores_of(forest: Forest, data: RankingDataset) -> NDArray[np.float64]:
    scores = np.zeros(data.num_documents)
    add_scores(forest, data.features, scores)
    return scores


@COMPILED
def test_one_two_and_four_threads_give_the_same_bits_where_each_loop_has_work_for_them() -> (
    None
):
    # The maximum number of threads is fixed when numba starts: by default, the number of processors.
    script = """
import numba
from engine_cases import make_dataset
from ltrbench.compilation import threads
from ltrbench.native.boosting import BoostingSettings, boost
# A larger data set than in the other tests, so that there is work for several threads.
data = make_dataset(0, num_queries=400, num_features=100)
for num_threads in (1, 2, 4):
    with threads(num_threads):
        assert numba.get_num_threads() == num_threads
        forest = boost(data, BoostingSettings(num_trees=3)).forest
    print(hash(b"".join(array.tobytes() for array in forest.nodes)), len(forest.nodes.feature))
"""
    environment = os.environ | {"NUMBA_NUM_THREADS": "4", "PYTHONHASHSEED": "0"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    run = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    one, two, four = run.stdout.splitlines()
    assert one == two == four
    assert int(one.split()[1]) > 100


@pytest.mark.parametrize("settings", [SMALL, SAMPLED, GOSS, DART])
def test_scores_on_the_way_are_those_of_the_trees_so_far(
    settings: BoostingSettings,
) -> None:
    train, valid, seen = make_dataset(2), make_dataset(3), []

    def watch(
        iteration: int,
        train_scores: Scores,
        valid_scores: Scores | None,
        left_out: NDArray[np.int64] | None,
    ) -> bool:
        seen.append((iteration, train_scores, valid_scores))
        return False

    ensemble = boost(train, settings, valid.features, watch)
    assert [iteration for iteration, _, _ in seen] == list(
        range(1, ensemble.num_trees + 1)
    )
    for iteration, train_scores, valid_scores in seen:
        np.testing.assert_array_equal(
            train_scores, scores_of(ensemble.first(iteration), train)
        )
        np.testing.assert_array_equal(
            valid_scores, scores_of(ensemble.first(iteration), valid)
        )


def test_dart_learns_each_tree_as_if_the_dropped_ones_were_not_there() -> None:
    train = make_dataset(2)
    ensemble = boost(train, DART)
    objective, rng = prepare(train, NATIVE), np.random.default_rng(0)
    num_dropped = []
    for number in range(1, ensemble.num_trees):
        before, after = ensemble.first(number), ensemble.first(number + 1)
        # A tree was dropped if its weight changed.
        others = np.where(after.weights[:-1] == before.weights, before.weights, 0.0)
        num_dropped.append(np.count_nonzero(others == 0.0))
        scores = scores_of(replace(before, weights=others), train)
        gradients, hessians = objective(scores, None, rng)
        tree = after.trees()[-1]
        values = scores_of(plant([tree], [1.0]), train)
        for value in np.unique(values):
            here = values == value
            assert value == pytest.approx(
                -gradients[here].sum() / hessians[here].sum(), rel=1e-9
            )
    assert 0 in num_dropped
    assert max(num_dropped) > 2
    np.testing.assert_array_equal(
        ensemble.forest.weights, ensemble.first(ensemble.num_trees).weights
    )


@pytest.mark.parametrize("split_criterion", ["newton", "least_squares"])
@pytest.mark.parametrize("leaf_value", ["newton", "mean"])
def test_a_leaf_takes_its_step_and_the_tree_the_learning_rate(
    split_criterion: str, leaf_value: str
) -> None:
    data = make_dataset(6)
    splits = SplitSettings(min_docs_in_leaf=3, l2=0.5, max_delta_step=0.4)
    fields: Any = {
        "split_criterion": split_criterion,
        "leaf_value": leaf_value,
        "splits": splits,
    }
    scores = scores_of(learn(data, replace(SMALL, num_trees=1, **fields)), data)
    rng = np.random.default_rng(0)
    gradients, hessians = prepare(data, NATIVE)(np.zeros(data.num_documents), None, rng)
    for score in np.unique(scores):
        here = scores == score
        weight = hessians[here].sum() if leaf_value == "newton" else here.sum()
        step = -gradients[here].sum() / (weight + 0.5)
        assert score == pytest.approx(0.1 * np.clip(step, -0.4, 0.4), rel=1e-9)


WARM_RUN = """
import sys
from dataclasses import replace
import numpy as np
from numba.core.registry import CPUDispatcher
from ltrbench.data import RankingDataset
from ltrbench.data.synthetic import make_synthetic
from ltrbench.metrics import evaluate, warm_up_metrics
from ltrbench.native.objectives.lambdarank import LambdaRank
from ltrbench.rankers.base import EarlyStopping
from ltrbench.rankers.native import NativeRanker

modules = [sys.modules[name] for name in sorted(sys.modules) if name.startswith("ltrbench")]
kernels = {value for module in modules for value in vars(module).values() if isinstance(value, CPUDispatcher)}

def specialisations():
    return sum(len(kernel.signatures) for kernel in kernels)

data = make_synthetic(num_queries=20)
data = replace(data, positions=data.ranks_of_rows)
warm_up_metrics()
for fields in (
    {},
    {"documents_per_tree": 0.5, "features_per_tree": 0.5, "queries_per_tree": 0.5, "drop_rate": 0.5},
    {"learning_rate": 0.5, "goss_top_rate": 0.2, "goss_other_rate": 0.2},
    {"objective": LambdaRank(sigma=1), "l2": 1},
    {"max_delta_step": 1, "min_split_gain": 1, "min_sum_hessian": 1},
    {"growth": "depth_wise"}, {"l1": 1.0, "features_per_split": 0.5},
    {"objective": LambdaRank(metric="map")}, {"objective": "xendcg"}, {"objective": "mart"},
    {"position_bias": "propensity"},
):
    ranker = NativeRanker(num_trees=2, early_stopping=EarlyStopping(), **fields)
    ranker.warm_up()
    before = specialisations()
    ranker.fit(data, data)
    evaluate(data, ranker.predict(data.features), ["ndcg@10", "map", "mrr", "precision@10"])
    assert before > 5 and specialisations() == before, fields
codes = np.arange(data.num_documents) % 6
mixed = RankingDataset(
    features=np.column_stack([data.features, codes]), labels=data.labels, query_start=data.query_start,
    categories={str(data.num_features + 1): tuple("abcdef")},
)
for growth in ("best_first", "depth_wise"):
    ranker = NativeRanker(num_trees=2, growth=growth, early_stopping=EarlyStopping())
    ranker.warm_up()
    ranker.warm_up_categories()
    before = specialisations()
    ranker.fit(mixed, mixed).predict(mixed.features)
    assert specialisations() == before, growth
"""


def test_a_fit_after_the_warm_up_needs_no_further_specialisation_of_a_kernel() -> None:
    subprocess.run([sys.executable, "-c", WARM_RUN], check=True)


def test_the_second_process_starts_once_and_the_warm_up_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = []

    class Process:
        def communicate(self) -> None:
            events.append("waited")

        def terminate(self) -> None:
            pass

    def start(code: str) -> Process:
        assert "compile_growth()" in code
        events.append("started")
        return Process()

    monkeypatch.setattr(boosting, "is_cached", lambda kernel: False)
    monkeypatch.setattr(boosting, "compiling_process", start)
    boosting._growth_process.cache_clear()
    NativeRanker(num_threads=1).begin_warm_up()
    assert not events
    ranker = NativeRanker(num_threads=2)
    ranker.begin_warm_up()
    ranker.begin_warm_up()
    ranker.warm_up()
    boosting._growth_process.cache_clear()
    assert events == ["started", "waited"]
