"""Fusion: several finished runs combined into one ranking, as a further row of the table.

    rrf        sum over runs of 1 / (k + rank)                      reciprocal-rank fusion
    zscore     sum over runs of (score - mean) / sd                 CombSUM, within the query
    minmax     sum over runs of (score - min) / (max - min)         CombSUM, within the query
    learned    weighted sum of z-scores, the weights from valid     coordinate ascent

Runs are fused within a cell (data set, fold, fingerprints), resample and seed. Test labels are not used:
weights come from the validation set. `FusionPart` is the contribution of a run to a fused score.

A further method is one more entry in `FUSION_METHODS`.

ranx 0.3.21 (MIT) is not used. Compared with it on MQ2008 (fold 1, native and LightGBM with 30 trees, 2,874
documents), minmax is identical and zscore differs by at most 4e-15, but rrf differs for 1,588 documents: ranx
ranks tied documents in the order of their rows, so that reversing the rows changes 1,360 fused scores. With
ranx, a score of minus infinity makes zscore and minmax of its query nan, and has a rank in rrf. Importing it
sets numba's threading layer for the whole process, including the native engine. It needs 12 packages (49 MB)
that ltrbench does not need.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.grouping import DataCell, GroupedRuns, Replicate, cell_of, group_runs, replicate_of
from ltrbench.data import Judgments
from ltrbench.errors import ConfigError, ResultError, did_you_mean
from ltrbench.metrics import DEFAULT, Convention, evaluate, rank
from ltrbench.metrics.evaluation import is_metric, is_plugin_version, parse_metric
from ltrbench.runs import FINISHED, FUSED, IMPORTED, RESULT_FILE, Run, RunResult, ScoredSplit, naming
from ltrbench.shapes import Scores

# ---- Parts and weights of a fused score: each run contributes a part that is comparable within a query.
#
# The fused score of a document is the weighted sum of its parts (CombSUM with equal weights: Fox and Shaw,
# 1994, "Combination of multiple searches", TREC-2). D is the number of documents, M the number of runs.

RRF_K = 60.0  # the value of the paper

FusionPart = NDArray[np.float64]
"""(D,), contribution of a run to the fused scores; (M, D) for M runs."""

# Coordinate ascent: grid of shares, number of random restarts, maximum number of rounds.
_SHARES = np.linspace(0.0, 1.0, 21)
_RESTARTS = 2
_MOST_ROUNDS = 10


def reciprocal_ranks(judgments: Judgments, scores: Scores, k: float = RRF_K) -> FusionPart:
    """Returns 1 / (k + r) for the document at rank r of its query, counted from 1, (D,).

    Source: Cormack, Clarke and Buettcher (2009), "Reciprocal rank fusion outperforms Condorcet and individual
    rank learning methods", SIGIR. Tied documents get the mean of their ranks, so that the order of the rows
    has no influence. A score of minus infinity (not retrieved) contributes 0, as in the paper.
    """
    ranking = rank(judgments, scores)
    ranks = np.empty(len(scores))
    ranks[ranking.order] = ranking.tie_mean(ranking.ranks.astype(np.float64) + 1.0)
    return np.where(np.isneginf(scores), 0.0, 1.0 / (k + ranks))


def z_scores(judgments: Judgments, scores: Scores) -> FusionPart:
    """Returns (s - mean) / sd over the documents of the query, (D,); 0 if all are tied."""
    finite, start = _finite(judgments, scores), judgments.query_start[:-1]
    sizes = judgments.query_sizes
    centred = finite - np.repeat(np.add.reduceat(finite, start) / sizes, sizes)
    deviations = np.sqrt(np.add.reduceat(centred**2, start) / sizes)
    return _over(centred, np.repeat(deviations, sizes), ~_is_tied(judgments, finite))


def min_max(judgments: Judgments, scores: Scores) -> FusionPart:
    """Returns (s - min) / (max - min) over the documents of the query, (D,); 0 if all are tied."""
    finite, start = _finite(judgments, scores), judgments.query_start[:-1]
    sizes = judgments.query_sizes
    lowest, highest = np.minimum.reduceat(finite, start), np.maximum.reduceat(finite, start)
    risen = finite - np.repeat(lowest, sizes)
    return _over(risen, np.repeat(highest - lowest, sizes), ~_is_tied(judgments, finite))


def _finite(judgments: Judgments, scores: Scores) -> FusionPart:
    """Replaces infinite scores by the lowest or highest finite score of the query, or 0 without one.

    A document that was not retrieved thus contributes as much as the last retrieved one. Fox and Shaw (1994)
    give it 0, which is the same for min-max.
    """
    given = np.asarray(scores, dtype=np.float64)
    if np.isfinite(given).all():
        return given
    start, sizes = judgments.query_start[:-1], judgments.query_sizes
    lowest = np.minimum.reduceat(np.where(np.isfinite(given), given, np.inf), start)
    highest = np.maximum.reduceat(np.where(np.isfinite(given), given, -np.inf), start)
    none = np.isinf(lowest)
    low, high = (np.repeat(np.where(none, 0.0, ends), sizes) for ends in (lowest, highest))
    # If all scores are infinite, plus and minus infinity still differ.
    high = np.where(np.repeat(none, sizes), 1.0, high)
    return np.where(np.isneginf(given), low, np.where(np.isposinf(given), high, given))


def _is_tied(judgments: Judgments, scores: FusionPart) -> NDArray[np.bool_]:
    """Returns whether all documents of the query have the same score, (D,): rounding must not order them."""
    start, sizes = judgments.query_start[:-1], judgments.query_sizes
    same = np.minimum.reduceat(scores, start) == np.maximum.reduceat(scores, start)
    return np.repeat(same, sizes)


def _over(values: FusionPart, by: FusionPart, where: NDArray[np.bool_]) -> FusionPart:
    return np.divide(values, by, out=np.zeros_like(values), where=where & (by > 0))


def learn_weights(
    judgments: Judgments, parts: FusionPart, metric: str, convention: Convention = DEFAULT, seed: int = 0
) -> NDArray[np.float64]:
    """Returns nonnegative weights with sum 1 that maximise the metric of the weighted sum, (M,).

    Coordinate ascent (Metzler and Croft, 2007, "Linear feature-based models for information retrieval",
    Information Retrieval 10): one weight at a time is tried at shares of 0, 0.05, ..., 1, with fixed
    proportions of the others, and changed if the metric increases, until a round changes none. It starts from
    equal weights and from random weights; ties keep the first, so that equal weights stay unless others are
    better.

    Args:
        judgments: Judgments of the validation set.
        parts: (M, D), parts on the validation set.

    Raises:
        ConfigError: No query of the validation set counts.
    """

    def reached(weights: NDArray[np.float64]) -> float:
        return evaluate(judgments, weights @ parts, [metric], convention).means[metric]

    rng, count = np.random.default_rng(seed), len(parts)
    best = np.full(count, 1.0 / count)
    highest = reached(best)
    if np.isnan(highest):
        raise ConfigError(
            f"weights cannot be learned: no query of the validation set counts in {metric}. Fuse by zscore."
        )
    for start in [best, *rng.dirichlet(np.ones(count), _RESTARTS)]:
        weights, value = _ascend(start, reached, rng)
        if value > highest:
            best, highest = weights, value
    return best


def _ascend(
    weights: NDArray[np.float64],
    reached: Callable[[NDArray[np.float64]], float],
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], float]:
    highest = reached(weights)
    for _ in range(_MOST_ROUNDS):
        moved = False
        for member in rng.permutation(len(weights)):
            tried = [_with_share(weights, member, share) for share in _SHARES]
            values = [reached(each) for each in tried]
            number = int(np.argmax(values))
            if values[number] > highest:
                weights, highest, moved = tried[number], values[number], True
        if not moved:
            break
    return weights, highest


def _with_share(weights: NDArray[np.float64], member: int, share: float) -> NDArray[np.float64]:
    """Returns weights with one weight at a share, and the others in proportion, or equal if all were 0.

    >>> _with_share(np.array([0.5, 0.375, 0.125]), 0, 0.0).tolist()
    [0.0, 0.75, 0.25]
    >>> _with_share(np.array([1.0, 0.0]), 0, 0.5).tolist()
    [0.5, 0.5]
    """
    others = weights.copy()
    others[member] = 0.0
    if not others.any():
        others = np.where(np.arange(len(weights)) == member, 0.0, 1.0)
    moved: NDArray[np.float64] = (1.0 - share) * others / others.sum()
    moved[member] = share
    return moved


# ---- Derived runs: other scores on the test set of an existing run, without training.
#
# A derived run is evaluated on the same stored judgments, in the same cell (data set, fold, fingerprints),
# and has no times, memory or trees.


@dataclass(frozen=True)
class Origin:
    """Name and origin of a derived run.

    Attributes:
        model: Name in tables.
        params: Kind of parameters, such as "imported".
        path: Path in messages.
        notes: Notes under the table.
        overrides: Words of the command that makes it again.
        settings: Its settings, as in `config`.
    """

    model: str
    params: str
    path: Path
    notes: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def reported_metrics(run: Run) -> list[str]:
    """Returns the known metrics that a run reports on test, such as ndcg@10.

    Raises:
        ResultError: A cutoff is invalid.
    """
    names = [name for name in _names_of(run.result) if is_metric(name)]
    try:
        for name in names:
            parse_metric(name)
    except ConfigError as error:
        raise ResultError(f"{run.path / RESULT_FILE}: {error}") from None
    return names


def unknown_metrics(results: Iterable[RunResult]) -> list[str]:
    """Returns a sentence on unknown metrics of runs, from plug-ins that are not loaded; empty without any."""
    results = list(results)
    names = dict.fromkeys(name for result in results for name in _names_of(result))
    unknown = [name for name in names if not is_metric(name)]
    if not unknown:
        return []
    # The name of the plug-in is only shown: no code is loaded because a folder names it.
    modules = sorted(
        {
            name
            for result in results
            for name, version in result.versions.items()
            if is_plugin_version(version)
        }
    )
    options = " ".join(f"--plugin {name}" for name in modules or ["MODULE"])
    return [
        f"{', '.join(unknown)}: not shown, because no metric of this name is known. A plug-in defined it "
        f"when the run was made; add {options}."
    ]


def _names_of(result: RunResult) -> list[str]:
    return [name.removeprefix("test/") for name in result.metrics if name.startswith("test/")]


def derived_run(
    origin: Origin,
    like: Run,
    scored: Mapping[str, ScoredSplit],
    seed: int,
    reported: Sequence[str] = ("valid", "test"),
) -> Run:
    """Returns a run held in memory, with the data of `like`, evaluated by the metrics that `like` reports.

    Args:
        scored: "test", and "valid" if it has scores.
        reported: Splits whose metrics the run reports.
    """
    names = reported_metrics(like)
    with naming(like):
        means = {
            f"{split}/{name}": None if np.isnan(mean) else mean
            for split, item in scored.items()
            if split in reported
            for name, mean in evaluate(item.judgments, item.scores, names).means.items()
        }
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    result = RunResult(
        status=FINISHED,
        model=origin.model,
        params=origin.params,
        seed=seed,
        data=like.result.data,
        metrics=means,
        convention=DEFAULT.describe(),
        notes=origin.notes,
        overrides=origin.overrides,
        started_in=str(Path.cwd()),
        started=now,
        finished=now,
        config={"data": like.result.settings.get("data", {}), "model": {}, **origin.settings},
    )
    return Run(origin.path, result, held=scored)


def default_metric(runs: Sequence[Run]) -> str:
    """Returns the ndcg with the largest cutoff that the first run reports; otherwise its first metric.

    Raises:
        ConfigError: None of the metrics that it reports is known.
    """
    names = reported_metrics(runs[0])
    if not names:
        reasons = unknown_metrics([runs[0].result]) or ["it reports no metric."]
        raise ConfigError(f"{runs[0].path}: {reasons[0]} Or name a metric with --metric, such as ndcg@10.")
    ndcgs = [name for name in names if parse_metric(name)[0] == "ndcg"]
    return max(ndcgs, key=lambda name: parse_metric(name)[1] or math.inf) if ndcgs else names[0]


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
