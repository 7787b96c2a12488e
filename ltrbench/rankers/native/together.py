"""One native fit by several workers: every member grows the same trees from its shard of the queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ltrbench.distributed.shards import PlacedShards, held
from ltrbench.native.forest.scoring import Forest
from ltrbench.native.objectives.position_bias import Factors
from ltrbench.native.team import Placement, Team
from ltrbench.rankers.base import FitSummary, check_fitted, threads_of_workers
from ltrbench.rankers.capabilities import FitsTogether
from ltrbench.rankers.early_stopping import FitCurve, MemberMonitor

if TYPE_CHECKING:
    from ltrbench.rankers.native import NativeRanker


class FittedTogether(NamedTuple):
    """What a fit gives."""

    forest: Forest
    position_factors: Factors
    summary: FitSummary
    curve: FitCurve


def fit_together(
    ranker: NativeRanker,
    workers: FitsTogether,
    train: PlacedShards,
    valid: PlacedShards | None,
    metrics: Sequence[str],
) -> FittedTogether:
    """Fits copies of the ranker on all workers, and returns what each of them has: the arguments are those of
    `fit_distributed`."""
    keys_of_valid = (None,) * len(train.keys) if valid is None else valid.keys
    threads = threads_of_workers(workers, ranker.num_threads)
    arguments = [
        (replace(ranker, num_threads=count), *keys, tuple(metrics))
        for count, *keys in zip(threads, train.keys, keys_of_valid, strict=True)
    ]
    fitted = workers.run_team(_fit_member, arguments)[0]
    assert isinstance(fitted, FittedTogether)  # member 0 returns it
    return fitted


def _fit_member(
    team: Team, ranker: NativeRanker, key_of_train: str, key_of_valid: str | None, metrics: tuple[str, ...]
) -> FittedTogether | None:
    """Fits on a worker; every member has the same model, and member 0 returns it."""
    train, valid = held(key_of_train), None if key_of_valid is None else held(key_of_valid)
    placement = Placement.among(team, train.queries, train.dataset.query_sizes)
    monitor = MemberMonitor(ranker.early_stopping, team, train, valid, metrics)
    ranker.fit_member(train.dataset, placement, None if valid is None else valid.dataset, monitor)
    if team.rank > 0:
        return None
    assert ranker.summary is not None  # set by the fit
    forest = check_fitted(ranker._forest)
    return FittedTogether(forest, ranker.position_factors, ranker.summary, monitor.curve)
