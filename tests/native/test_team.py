"""A fit of several members gives the model of one process, byte for byte.

The members are threads; tests/distributed fits on processes.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_cases import COMPILED, make_dataset
from numpy.typing import NDArray
from test_categories import make_categorical

from ltrbench.data import RankingDataset
from ltrbench.data.features import SparseRows
from ltrbench.native.bins import EQUAL_WIDTH, QUANTILE, ThresholdRule, bin_features
from ltrbench.native.objectives.lambdarank import LambdaRank, RankNet
from ltrbench.native.sparse import takes_less_memory
from ltrbench.native.team import ALONE, Placement, Team
from ltrbench.rankers.base import Monitor
from ltrbench.rankers.native import NativeRanker

pytestmark = COMPILED

Deal = list[NDArray[np.int64]]


def with_positions(data: RankingDataset) -> RankingDataset:
    positions = np.arange(data.num_documents) - np.repeat(
        data.query_start[:-1], data.query_sizes
    )
    return replace(data, positions=positions)


# A run shards its training set after its weights are scaled.
DATA = with_positions(make_dataset(0, weighted=True)).with_mean_weight_one()


def round_robin(num_queries: int, size: int) -> Deal:
    return [np.arange(rank, num_queries, size) for rank in range(size)]


def uneven(num_queries: int, size: int) -> Deal:
    """Returns the queries of members of whom all but the first have one query."""
    single = [np.array([3 * rank]) for rank in range(1, size)]
    return [
        np.setdiff1d(np.arange(num_queries), np.concatenate([[], *single])),
        *single,
    ]


def saved(ranker: NativeRanker) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        ranker.save(Path(folder))
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def make_ranker(settings: dict[str, Any]) -> NativeRanker:
    small = {
        "num_trees": 5,
        "num_leaves": 7,
        "min_docs_in_leaf": 5,
        "learning_rate": 0.3,
    }
    return NativeRanker(
        **{**small, "early_stopping": None, "num_threads": 1, **settings}
    )


def fit_together(
    team: Team,
    settings: dict[str, Any],
    shard: RankingDataset,
    queries: NDArray[np.int64],
) -> dict[str, bytes]:
    placement = Placement.among(team, queries, shard.query_sizes)
    ranker = make_ranker(settings)
    start = ranker._model_to_continue(shard)
    ranker.fit_member(shard, placement, None, Monitor(None, None), start=start)
    ranker.feature_names, ranker.categories = (
        shard.feature_names,
        shard.categories,
    )  # as `fit` sets them
    return saved(ranker)


def shards_of(
    data: RankingDataset, deal: Deal
) -> list[tuple[RankingDataset, NDArray[np.int64]]]:
    return [(data.take_queries(queries), queries) for queries in deal]


def assert_same_models(
    settings: dict[str, Any],
    deal: Deal,
    data: RankingDataset = DATA,
) -> None:
    alone = saved(make_ranker(settings).fit(data))
    fits = [(settings, *shard) for shard in shards_of(data, deal)]
    for model in run_together(fit_together, fits):
        assert model == alone


SETTINGS: list[dict[str, Any]] = [
    {},
    {"growth": "by_deviance"},
    {"growth": "depth_wise", "max_depth": 3},
    {"cut_without_gain": True, "num_leaves": 31},
    {"document_counts": "by_hessian", "equal_cuts": "highest"},
    {"min_docs_in_leaf": 1, "num_leaves": 64},
    {"binning": "equal_width", "max_bins": 20},
    {"max_bins": 1000},
    {"split_criterion": "least_squares", "leaf_value": "mean"},
    {"l1": 0.5, "l2": 1.0, "max_delta_step": 0.5, "monotone": {"1": 1, "2": -1}},
    {"queries_per_tree": 0.5, "documents_per_tree": 0.5, "resample_every": 2},
    {"features_per_tree": 0.5, "features_per_split": 0.5},
    {"goss_top_rate": 0.2, "goss_other_rate": 0.1},
    {"drop_rate": 0.5, "drop_by_weight": True},
    {"objective": "xendcg", "truncation": None},
    {"objective": "mart", "truncation": None},
    {"objective": RankNet(pairs_per_document=2), "truncation": None},
    {
        "objective": LambdaRank(metric="map@5", relevance_threshold=2),
        "truncation": None,
    },
    {
        "objective": LambdaRank(
            ties="worst",
            float32_scores=True,
            float32_sums=True,
            float32_norm=True,
        ),
    },
    {"position_bias": "additive", "position_bias_l2": 0.1},
    {"position_bias": "propensity", "truncation": 3},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_fit_of_several_members_supports_a_setting(settings: dict[str, Any]) -> None:
    for deal in (round_robin(DATA.num_queries, 2), uneven(DATA.num_queries, 3)):
        assert_same_models(settings, deal)


@pytest.mark.parametrize(
    "bias", [{"position_bias": "additive"}, {"position_bias": "propensity"}]
)
def test_members_continue_a_saved_model(bias: dict[str, Any], tmp_path: Path) -> None:
    make_ranker({"num_trees": 2, "truncation": 4, **bias}).fit(DATA).save(tmp_path)
    settings = {"warm_start": str(tmp_path), "truncation": 4, **bias}
    assert_same_models(settings, round_robin(DATA.num_queries, 3))


def test_members_count_positions_from_the_lowest_one_of_all() -> None:
    positions = DATA.ranks_of_rows + 1 + DATA.query_of_document % 3
    data = replace(DATA, positions=positions)
    settings = {"position_bias": "propensity", "truncation": 4}
    assert_same_models(settings, round_robin(data.num_queries, 3), data)


def test_members_fit_categorical_features() -> None:
    data = make_categorical(0, num_queries=60)
    for settings in (
        {"min_docs_in_leaf": 20},
        {"l1": 0.1},
        {"document_counts": "by_hessian"},
    ):
        assert_same_models(settings, round_robin(data.num_queries, 3), data)


def test_members_with_sparse_features_fit_the_model_of_sparse_bins() -> None:
    rng = np.random.default_rng(0)
    features = np.where(
        rng.random((DATA.num_documents, 40)) < 0.03,
        rng.normal(size=(DATA.num_documents, 40)),
        0,
    )
    sparse: Any = SparseRows.of(features.astype(np.float32))
    assert takes_less_memory(sparse)  # a fit in one process has sparse bins
    data = replace(
        DATA, features=sparse, feature_names=tuple(f"f{i}" for i in range(40))
    )
    assert_same_models({}, round_robin(data.num_queries, 2), data)


def bins_together(
    team: Team, rule: ThresholdRule, shard: RankingDataset, queries: NDArray[np.int64]
) -> tuple[bytes, NDArray[np.uint64], NDArray[np.int64]]:
    placement = Placement.among(team, queries, shard.query_sizes)
    binned = bin_features(shard.features, 20, np.random.default_rng(1), rule, placement)
    return binned.thresholds.tobytes(), binned.words, placement.rows


RULES = [
    *(QUANTILE._replace(sample_size=size) for size in (None, 50, 100_000)),
    EQUAL_WIDTH,
]


@pytest.mark.parametrize("rule", RULES, ids=["all", "50", "100000", "equal_width"])
def test_bins_are_chosen_from_the_same_sample(rule: ThresholdRule) -> None:
    features, rng = np.asarray(DATA.features).copy(), np.random.default_rng(0)
    # The threshold of equal widths is the zero that comes first, of either sign.
    features[:, 6:] = rng.choice([-0.0, 0.0, 1.0], size=features[:, 6:].shape)
    data = replace(DATA, features=features)
    thresholds, words, _ = bins_together(ALONE, rule, data, np.arange(data.num_queries))
    tasks = [
        (rule, *shard) for shard in shards_of(data, round_robin(data.num_queries, 3))
    ]
    for of_member, words_here, rows in run_together(bins_together, tasks):
        assert of_member == thresholds
        np.testing.assert_array_equal(words_here, words[rows])


class ThreadTeam:
    """A `Team` whose members are threads, of which one runs at a time, until it exchanges values."""

    def __init__(self, rank: int, meeting: Meeting) -> None:
        self.rank = rank
        self.size = meeting.size
        self._meeting = meeting

    def total(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        assert values.dtype == np.int64
        return np.asarray(np.sum(self._exchanged("total", values), axis=0))

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        assert values.dtype == np.float64
        return np.asarray(np.max(self._exchanged("largest", values), axis=0))

    def joined(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        assert values.ndim == 1
        return [array.copy() for array in self._exchanged("joined", values)]

    def _exchanged(self, kind: str, values: NDArray[Any]) -> list[NDArray[Any]]:
        return self._meeting.exchanged(self.rank, kind, values)


class Meeting:
    """What the members of a fit exchange.

    Attributes:
        size: number of members.
        turn: held by the member that runs.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.turn = threading.Lock()
        self._everyone = threading.Barrier(size)
        self._kinds = [""] * size
        self._values: list[NDArray[Any]] = [np.empty(0)] * size

    def exchanged(
        self, rank: int, kind: str, values: NDArray[Any]
    ) -> list[NDArray[Any]]:
        """Returns the values of all members by rank, when all have made the same call."""
        self._kinds[rank] = kind
        # A copy, as a message between processes is: the member may overwrite its array in its turn.
        self._values[rank] = values.copy()
        self.turn.release()
        try:
            self._everyone.wait()
            kinds = set(self._kinds)
            of_all = list(self._values)
            # Before any of them makes its next call.
            self._everyone.wait()
        finally:
            self.turn.acquire()
        assert kinds == {kind}, kinds
        return of_all

    def attend(
        self, rank: int, function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> Any:
        """Returns what the function returns for a member, when all members have ended."""
        with self.turn:
            try:
                result = function(ThreadTeam(rank, self), *arguments)
                self.exchanged(rank, "end", np.empty(0))
            except BaseException:
                self._everyone.abort()
                raise
        return result


def run_together(
    function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]
) -> list[Any]:
    """Calls function(team, *arguments) on one member for each tuple; returns the results by rank."""
    meeting = Meeting(len(arguments))
    with ThreadPoolExecutor(meeting.size) as threads:
        fits = [
            threads.submit(meeting.attend, rank, function, of_member)
            for rank, of_member in enumerate(arguments)
        ]
    errors = [error for fit in fits if isinstance(error := fit.exception(), Exception)]
    if errors:
        raise ExceptionGroup("errors of members", errors)
    return [fit.result() for fit in fits]
