"""Fusion: several finished runs combined into one ranking, as a further row of the table.

    rrf        sum over runs of 1 / (k + rank)                      reciprocal-rank fusion
    zscore     sum over runs of (score - mean) / sd                 CombSUM, within the query
    minmax     sum over runs of (score - min) / (max - min)         CombSUM, within the query
    learned    weighted sum of z-scores, the weights from valid     coordinate ascent

Runs are fused within a cell (data set, fold, fingerprints), resample and seed. Test labels are not used:
weights come from the validation set. `fused_scores.py` computes the contribution of a run to a fused score.

A further method is one more entry in `FUSION_METHODS`.

ranx 0.3.21 (MIT) is not used. Compared with it on MQ2008 (fold 1, native and LightGBM with 30 trees, 2,874
documents), minmax is identical and zscore differs by at most 4e-15, but rrf differs for 1,588 documents: ranx
ranks tied documents in the order of their rows, so that reversing the rows changes 1,360 fused scores. With
ranx, a score of minus infinity makes zscore and minmax of its query nan, and has a rank in rrf. Importing it
sets numba's threading layer for the whole process, including the native engine. It needs 12 packages (49 MB)
that ltrbench does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.grouping import DataCell, GroupedRuns, Replicate, cell_of, group_runs, replicate_of
from ltrbench.compare.scores.derived import Origin, derived_run
from ltrbench.compare.scores.fused_scores import (
    RRF_K,
    FusionPart,
    learn_weights,
    min_max,
    reciprocal_ranks,
    z_scores,
)
from ltrbench.data import Judgments
from ltrbench.errors import ConfigError, ResultError, did_you_mean
from ltrbench.metrics import DEFAULT, Convention
from ltrbench.results import FINISHED, FUSED, IMPORTED, Run, ScoredSplit
from ltrbench.shapes import Scores

RRF, LEARNED = "rrf", "learned"


@dataclass(frozen=True)
class Fusing:
    """Settings of a fusion.

    Attributes:
        methods: Names in `FUSION_METHODS`.
        of: Models or row labels to fuse; empty for all.
        rrf_k: k of reciprocal-rank fusion; a larger k gives the first ranks less weight.
        metric: Metric for learned weights.
        convention: Convention of this metric.
        seed: Seed of the starting points and the order of coordinate ascent.

    Raises:
        ConfigError: There is no method, a method is unknown, or k is not a number of 0 or more.
    """

    methods: tuple[str, ...]
    of: tuple[str, ...] = ()
    rrf_k: float = RRF_K
    metric: str = "ndcg@10"
    convention: Convention = DEFAULT
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.methods:
            raise ConfigError(f"no fusion method is named; known methods: {', '.join(FUSION_METHODS)}.")
        for method in self.methods:
            if method not in FUSION_METHODS:
                raise ConfigError(
                    f"unknown fusion method '{method}'{did_you_mean(method, FUSION_METHODS)} Known methods: "
                    f"{', '.join(FUSION_METHODS)}."
                )
        if not 0 <= self.rrf_k < np.inf:
            raise ConfigError(
                f"k of reciprocal-rank fusion is {self.rrf_k}; it must be 0 or more, such as 60."
            )


class _Method(NamedTuple):
    """A fusion method: the part of one run, (D,), and its description in a note."""

    part: Callable[[Judgments, Scores, Fusing], FusionPart]
    words: str


FUSION_METHODS = {
    RRF: _Method(
        lambda judgments, scores, fusing: reciprocal_ranks(judgments, scores, fusing.rrf_k),
        "reciprocal-rank fusion with k = {rrf_k:g}",
    ),
    "zscore": _Method(
        lambda judgments, scores, _: z_scores(judgments, scores), "the sum of z-scores within the query"
    ),
    "minmax": _Method(
        lambda judgments, scores, _: min_max(judgments, scores),
        "the sum of scores scaled to 0..1 within the query",
    ),
    LEARNED: _Method(
        lambda judgments, scores, _: z_scores(judgments, scores),
        "the sum of z-scores within the query, weighted for {metric} on valid by coordinate ascent",
    ),
}


class _Group(NamedTuple):
    """The runs that are fused together: label -> run, in one cell and replicate.

    Attributes:
        like: The run whose data the fused run takes: the first one with that resample and seed.
    """

    place: DataCell
    like: Run
    members: Mapping[str, Run]


class _Fused(NamedTuple):
    group: _Group
    weights: NDArray[np.float64]
    scored: Mapping[str, ScoredSplit]


def fuse(runs: Sequence[Run], fusing: Fusing) -> list[Run]:
    """Returns fused runs held in memory: for each data set and method one per cell and seed.

    Raises:
        ConfigError: A named model has no run, fewer than two models have, or weights cannot be learned.
        ResultError: The models have no common cell.
    """
    finished = [run for run in runs if run.result.status == FINISHED]
    tables = group_runs(finished)
    _check_members(tables, fusing.of)
    made: list[Run] = []
    for table in tables:
        members = _members(table.rows, fusing.of)
        if len(members) >= 2:
            for method in fusing.methods:
                made += _fuse_on(members, method, fusing)
    if not made:
        raise ConfigError("there is nothing to fuse: give runs of at least two models on one data set.")
    return made


def _check_members(tables: Sequence[GroupedRuns], wanted: Sequence[str]) -> None:
    known = [label for table in tables for label in table.rows]
    known += [run.result.model for table in tables for run in table.runs]
    for name in wanted:
        if name not in known:
            rows = ", ".join(dict.fromkeys(known))
            raise ConfigError(
                f"no finished run of '{name}' to fuse{did_you_mean(name, known)} The rows are {rows}."
            )


def _members(rows: Mapping[str, list[Run]], wanted: Sequence[str]) -> dict[str, list[Run]]:
    return {
        label: runs
        for label, runs in rows.items()
        if not wanted or label in wanted or runs[0].result.model in wanted
    }


def _fuse_on(members: Mapping[str, Sequence[Run]], method: str, fusing: Fusing) -> list[Run]:
    groups, lacking = _groups(members)
    if not groups:
        raise ResultError(
            f"{', '.join(members)} have no common cell, and cannot be fused. {' '.join(lacking)}"
        )
    fused = [_fuse_group(group, method, fusing) for group in groups]
    name = f"{method}({' + '.join(members)})"
    notes = [
        f"Fused from the scores of {', '.join(members)} within each cell and seed: "
        f"{FUSION_METHODS[method].words.format(rrf_k=fusing.rrf_k, metric=fusing.metric)}."
    ]
    if method == LEARNED:
        notes.append(_weights_in_words(list(members), fused))
    return [_as_run(name, (*notes, *lacking), item, method, fusing) for item in fused]


def _groups(members: Mapping[str, Sequence[Run]]) -> tuple[list[_Group], list[str]]:
    """Returns the groups to fuse, and a sentence for each member that lacks a cell or a seed.

    A member with one run in a cell, such as imported scores, is in the fusion of every replicate.
    """
    places = list(dict.fromkeys(cell_of(run) for runs in members.values() for run in runs))
    groups, lacking = [], []
    for place in places:
        runs_here = {label: [run for run in runs if cell_of(run) == place] for label, runs in members.items()}
        absent = [label for label, runs in runs_here.items() if not runs]
        if absent:
            lacking.append(f"{', '.join(absent)} has no run {_where(place)}; nothing is fused there.")
            continue
        several = [run for runs in runs_here.values() if len(runs) > 1 for run in runs]
        first: dict[Replicate, Run] = {}
        for run in several or [next(iter(runs_here.values()))[0]]:
            first.setdefault(replicate_of(run), run)
        for replicate, like in first.items():
            chosen = {label: _of_replicate(runs, replicate) for label, runs in runs_here.items()}
            whole = {label: run for label, run in chosen.items() if run is not None}
            if len(whole) == len(members):
                groups.append(_Group(place, like, whole))
            else:
                without = ", ".join(label for label in members if label not in whole)
                lacking.append(
                    f"{without} has no run with {replicate} {_where(place)}; nothing is fused for it."
                )
    return groups, lacking


def _of_replicate(runs: Sequence[Run], replicate: Replicate) -> Run | None:
    if len(runs) == 1:
        return runs[0]
    return next((run for run in runs if replicate_of(run) == replicate), None)


def _where(place: DataCell) -> str:
    return f"on {place.data}{'' if place.fold is None else f', fold {place.fold}'}"


def _fuse_group(group: _Group, method: str, fusing: Fusing) -> _Fused:
    splits = ["test", *(["valid"] if all(map(_has_valid, group.members.values())) else [])]
    if method == LEARNED and "valid" not in splits:
        without = next(label for label, run in group.members.items() if not _has_valid(run))
        raise ConfigError(
            f"weights are learned on valid, and {without} has no scores of it {_where(group.place)}. Import "
            "them with {split} in the file name, fuse other models with --fuse-of, or use --fuse zscore."
        )
    members = {split: [run.scored(split) for run in group.members.values()] for split in splits}
    parts = {
        split: np.stack(
            [FUSION_METHODS[method].part(item.judgments, item.scores, fusing) for item in scored_splits]
        )
        for split, scored_splits in members.items()
    }
    weights = np.ones(len(group.members))
    if method == LEARNED:
        valid = members["valid"][0].judgments
        weights = learn_weights(valid, parts["valid"], fusing.metric, fusing.convention, fusing.seed)
    scored = {
        split: replace(scored_splits[0], scores=weights @ parts[split])
        for split, scored_splits in members.items()
    }
    return _Fused(group, weights, scored)


def _has_valid(run: Run) -> bool:
    return any(name.startswith("valid/") for name in run.result.metrics)


def _weights_in_words(labels: Sequence[str], fused: Sequence[_Fused]) -> str:
    columns = np.stack([item.weights for item in fused]).T.tolist()
    shares = [
        f"{label} {fmean(weights):.2f}"
        + (f" ({min(weights):.2f} to {max(weights):.2f})" if min(weights) < max(weights) else "")
        for label, weights in zip(labels, columns, strict=True)
    ]
    mean = f", mean over {len(fused)} cells and seeds" if len(fused) > 1 else ""
    return f"Weights{mean}: {', '.join(shares)}."


def _word(run: Run) -> str:
    """Returns the argument of the verb `compare` for the run."""
    if run.held is None or run.result.params != IMPORTED or run.result.overrides is None:
        return str(run.path)
    _, name, pattern, *_ = run.result.overrides
    return f"{name}={pattern}"


def _as_run(name: str, notes: tuple[str, ...], fused: _Fused, method: str, fusing: Fusing) -> Run:
    members = fused.group.members
    like = fused.group.like
    k = ("--rrf-k", f"{fusing.rrf_k:g}") if method == RRF else ()
    # Learned weights depend on both.
    found_by = (
        ("--convention", fusing.convention.name, "--seed", str(fusing.seed)) if method == LEARNED else ()
    )
    origin = Origin(
        model=name,
        params=FUSED,
        path=Path(name),
        notes=notes,
        overrides=(
            "compare",
            *map(_word, members.values()),
            "--metric",
            fusing.metric,
            "--fuse",
            method,
            *k,
            *found_by,
        ),
        settings={
            "fusion": {
                "method": method,
                "k": fusing.rrf_k if method == RRF else None,
                "weights": dict(zip(members, fused.weights.tolist(), strict=True)),
            }
        },
    )
    # On the set that its weights were chosen by, its metric would be too high.
    reported = ("test",) if method == LEARNED else ("valid", "test")
    return derived_run(origin, like, fused.scored, like.result.seed, reported)
