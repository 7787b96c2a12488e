"""One native fit by several workers: every member grows the same trees from its shard of the queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ltrbench.distributed.shards import MemberKeys, PlacedShards, held_by_member, keys_of_members
from ltrbench.native.forest.scoring import Forest
from ltrbench.native.objectives.position_bias import Factors
from ltrbench.native.team import Placement, Team
from ltrbench.rankers.base import FitSummary, check_fitted, threads_of_workers
from ltrbench.rankers.capabilities import FitsTogether
from ltrbench.rankers.early_stopping import FitCurve, MemberMonitor

if TYPE_CHECKING:
    from ltrbench.rankers.native import NativeRanker


class FittedTogether(NamedTuple):
    """Result of a fit on workers."""

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
    """Fits a copy of the ranker on every worker, and returns the result, which is the same for all of them.

    The arguments are those of `fit_distributed`.
    """
    threads = threads_of_workers(workers, ranker.num_threads)
    arguments = [
        (replace(ranker, num_threads=count), keys, tuple(metrics))
        for count, keys in zip(threads, keys_of_members(train, valid), strict=True)
    ]
    fitted = workers.run_team(_fit_member, arguments)[0]
    assert isinstance(fitted, FittedTogether)  # member 0 returns it
    return fitted


def _fit_member(
    team: Team, ranker: NativeRanker, keys: MemberKeys, metrics: tuple[str, ...]
) -> FittedTogether | None:
    """Fits on a worker; every member has the same model, and member 0 returns it."""
    train, valid = held_by_member(keys)
    placement = Placement.among(team, train.queries, train.dataset.query_sizes)
    monitor = MemberMonitor(ranker.early_stopping, team, train, valid, metrics)
    ranker.fit_member(train.dataset, placement, None if valid is None else valid.dataset, monitor)
    if team.rank > 0:
        return None
    assert ranker.summary is not None  # set by the fit
    forest = check_fitted(ranker._forest)
    return FittedTogether(forest, ranker.position_factors, ranker.summary, monitor.curve)
