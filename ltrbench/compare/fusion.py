"""Fusion: finished runs ranked as one, and set beside them in the table.

    rrf        sum over runs of 1 / (k + rank)                      reciprocal-rank fusion
    zscore     sum over runs of (score - mean) / sd                 CombSUM, within the query
    minmax     sum over runs of (score - min) / (max - min)         CombSUM, within the query
    learned    weighted sum of z-scores, the weights from valid     coordinate ascent

Runs are fused within a cell (data set, fold, fingerprints) and seed. Test labels are not looked at: weights
come from the validation set alone.

A further method is one more entry in `METHODS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.cells import by_data, by_label
from ltrbench.compare.derived import Origin, Place, derived_run, place_of
from ltrbench.compare.imported import IMPORTED
from ltrbench.data import Judgments
from ltrbench.errors import ConfigError, ResultError, did_you_mean
from ltrbench.metrics import DEFAULT, Convention, evaluate, rank
from ltrbench.results import FINISHED, Run, ScoredSplit
from ltrbench.shapes import Scores

RRF_K = 60.0
RRF, LEARNED = "rrf", "learned"

FUSED = "fused"
"""What stands for the parameters of a run that is made of others."""

Part = NDArray[np.float64]
"""(D,), what a run adds to the fused scores; of M runs, (M, D)."""

# Coordinate ascent: how finely a share is tried, from where else it starts, and when it gives up.
_SHARES = np.linspace(0.0, 1.0, 21)
_RESTARTS = 2
_MOST_ROUNDS = 10


@dataclass(frozen=True)
class Fusing:
    """What is asked for.

    Attributes:
        methods: of `METHODS`.
        of: models or row labels to be fused; empty: all.
        rrf_k: k of reciprocal-rank fusion: the larger, the less the first ranks stand out.
        metric: what weights are learned for.
        convention: what that is computed under.
        seed: of the starts and the order in which weights are learned.

    Raises:
        ConfigError: on an unknown method, none, or a k that is not a number of 0 or more.
    """

    methods: tuple[str, ...]
    of: tuple[str, ...] = ()
    rrf_k: float = RRF_K
    metric: str = "ndcg@10"
    convention: Convention = DEFAULT
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.methods:
            raise ConfigError(f"no way of fusing is named; known are {', '.join(METHODS)}.")
        for method in self.methods:
            if method not in METHODS:
                raise ConfigError(
                    f"unknown way of fusing '{method}'{did_you_mean(method, METHODS)} Known are "
                    f"{', '.join(METHODS)}."
                )
        if not 0 <= self.rrf_k < np.inf:
            raise ConfigError(f"k of reciprocal-rank fusion is {self.rrf_k}; it must be 0 or more, as 60.")


def reciprocal_ranks(judgments: Judgments, scores: Scores, k: float = RRF_K) -> Part:
    """(D,), 1 / (k + r) for the document at rank r of its query, from 1 (Cormack, Clarke and Buettcher, 2009,
    "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods", SIGIR).

    Tied documents share the mean of their ranks, so that the order of the rows says nothing. A score of minus
    infinity, of a document that was not retrieved, adds nothing, as in the paper.
    """
    ranking = rank(judgments, scores)
    ranks = np.empty(len(scores))
    ranks[ranking.order] = ranking.tie_mean(ranking.ranks.astype(np.float64) + 1.0)
    return np.where(np.isneginf(scores), 0.0, 1.0 / (k + ranks))


def z_scores(judgments: Judgments, scores: Scores) -> Part:
    """(D,), (s - mean) / sd over the documents of the query; 0 where all are tied."""
    finite, start = _finite(judgments, scores), judgments.query_start[:-1]
    sizes = judgments.query_sizes
    centred = finite - np.repeat(np.add.reduceat(finite, start) / sizes, sizes)
    deviations = np.sqrt(np.add.reduceat(centred**2, start) / sizes)
    return _over(centred, np.repeat(deviations, sizes), ~_is_tied(judgments, finite))


def min_max(judgments: Judgments, scores: Scores) -> Part:
    """(D,), (s - min) / (max - min) over the documents of the query; 0 where all are tied."""
    finite, start = _finite(judgments, scores), judgments.query_start[:-1]
    sizes = judgments.query_sizes
    lowest, highest = np.minimum.reduceat(finite, start), np.maximum.reduceat(finite, start)
    risen = finite - np.repeat(lowest, sizes)
    return _over(risen, np.repeat(highest - lowest, sizes), ~_is_tied(judgments, finite))


def _finite(judgments: Judgments, scores: Scores) -> Part:
    """Infinite scores become the lowest and highest finite ones of their query, or 0 where there are none.

    So a document that was not retrieved adds as much as the last one that was (Fox and Shaw, 1994, give it
    nothing, which with min-max is the same).
    """
    given = np.asarray(scores, dtype=np.float64)
    if np.isfinite(given).all():
        return given
    start, sizes = judgments.query_start[:-1], judgments.query_sizes
    lowest = np.minimum.reduceat(np.where(np.isfinite(given), given, np.inf), start)
    highest = np.maximum.reduceat(np.where(np.isfinite(given), given, -np.inf), start)
    none = np.isinf(lowest)
    low, high = (np.repeat(np.where(none, 0.0, ends), sizes) for ends in (lowest, highest))
    # Where all are infinite, the two ends still differ.
    high = np.where(np.repeat(none, sizes), 1.0, high)
    return np.where(np.isneginf(given), low, np.where(np.isposinf(given), high, given))


def _is_tied(judgments: Judgments, scores: Part) -> NDArray[np.bool_]:
    """(D,), whether all documents of the query have one score: rounding must not order them."""
    start, sizes = judgments.query_start[:-1], judgments.query_sizes
    same = np.minimum.reduceat(scores, start) == np.maximum.reduceat(scores, start)
    return np.repeat(same, sizes)


def _over(values: Part, by: Part, where: NDArray[np.bool_]) -> Part:
    return np.divide(values, by, out=np.zeros_like(values), where=where & (by > 0))


class _Method(NamedTuple):
    """What one run's scores add, (D,), under what was asked for; and how a table says it."""

    part: Callable[[Judgments, Scores, Fusing], Part]
    words: str


METHODS = {
    RRF: _Method(
        lambda judgments, scores, fusing: reciprocal_ranks(judgments, scores, fusing.rrf_k),
        "reciprocal-rank fusion with k = {rrf_k:g}",
    ),
    "zscore": _Method(
        lambda judgments, scores, _: z_scores(judgments, scores), "the sum of z-scores within the query"
    ),
    "minmax": _Method(
        lambda judgments, scores, _: min_max(judgments, scores),
        "the sum of scores brought to 0..1 within the query",
    ),
    LEARNED: _Method(
        lambda judgments, scores, _: z_scores(judgments, scores),
        "the sum of z-scores within the query, weighted for {metric} on valid by coordinate ascent",
    ),
}


def learn_weights(
    judgments: Judgments, parts: Part, metric: str, convention: Convention = DEFAULT, seed: int = 0
) -> NDArray[np.float64]:
    """(M,), weights of 0 or more that add up to 1, under which the weighted sum reaches the highest metric.

    Coordinate ascent (Metzler and Croft, 2007, "Linear feature-based models for information retrieval",
    Information Retrieval 10): one weight at a time is tried at shares of 0, 0.05, ..., 1, the others keeping
    their proportions, and moved where the metric rises, until a round moves none. It starts from equal
    weights, and from random ones for other maxima; of equals the first is kept, so that equal weights stay
    where no others are better.

    Args:
        judgments: of the validation set.
        parts: (M, D), on it.

    Raises:
        ConfigError: where no query of the validation set counts.
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
    """One weight at a share of the whole, the others in proportion; alike where they were all 0.

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


class _Group(NamedTuple):
    """The runs that are fused together: label -> run, of one cell and seed."""

    place: Place
    seed: int
    members: Mapping[str, Run]


class _Fused(NamedTuple):
    group: _Group
    weights: NDArray[np.float64]
    scored: Mapping[str, ScoredSplit]


def fuse(runs: Sequence[Run], fusing: Fusing) -> list[Run]:
    """The fused runs, held in memory: for each data set and method one in each cell and seed.

    Raises:
        ConfigError: where a named model is not there, fewer than two are, or weights cannot be learned.
        ResultError: where the models have no cell in common.
    """
    finished = [run for run in runs if run.result.status == FINISHED]
    _check_members(finished, fusing.of)
    made: list[Run] = []
    for group in by_data(finished).values():
        members = _members(by_label(group), fusing.of)
        if len(members) >= 2:
            for method in fusing.methods:
                made += _fuse_on(members, method, fusing)
    if not made:
        raise ConfigError("there is nothing to fuse: give runs of at least two models on one data set.")
    return made


def _check_members(runs: Sequence[Run], wanted: Sequence[str]) -> None:
    known = [label for group in by_data(runs).values() for label in by_label(group)]
    known += [run.result.model for run in runs]
    for name in wanted:
        if name not in known:
            rows = ", ".join(dict.fromkeys(known))
            raise ConfigError(
                f"no finished run of '{name}' to fuse{did_you_mean(name, known)} There are {rows}."
            )


def _members(rows: Mapping[str, list[Run]], wanted: Sequence[str]) -> dict[str, list[Run]]:
    return {
        label: own
        for label, own in rows.items()
        if not wanted or label in wanted or own[0].result.model in wanted
    }


def _fuse_on(members: Mapping[str, Sequence[Run]], method: str, fusing: Fusing) -> list[Run]:
    groups, lacking = _groups(members)
    if not groups:
        raise ResultError(f"{', '.join(members)} have no cell in common to be fused in. {' '.join(lacking)}")
    fused = [_fuse_group(group, method, fusing) for group in groups]
    name = f"{method}({' + '.join(members)})"
    notes = [
        f"Made of the scores of {', '.join(members)} within each cell and seed: "
        f"{METHODS[method].words.format(rrf_k=fusing.rrf_k, metric=fusing.metric)}."
    ]
    if method == LEARNED:
        notes.append(_weights_in_words(list(members), fused))
    return [_as_run(name, (*notes, *lacking), item, method, fusing) for item in fused]


def _groups(members: Mapping[str, Sequence[Run]]) -> tuple[list[_Group], list[str]]:
    """What can be fused, and a sentence for each member that lacks a cell or a seed.

    A member with one run in a cell, such as one whose scores were imported, is in the fusion of every seed.
    """
    places = list(dict.fromkeys(place_of(run) for own in members.values() for run in own))
    groups, lacking = [], []
    for place in places:
        found = {label: [run for run in own if place_of(run) == place] for label, own in members.items()}
        absent = [label for label, own in found.items() if not own]
        if absent:
            lacking.append(f"{', '.join(absent)} has no run {_where(place)}, where nothing is fused.")
            continue
        of_seeds = [run.result.seed for own in found.values() if len(own) > 1 for run in own]
        for seed in dict.fromkeys(of_seeds or [next(iter(found.values()))[0].result.seed]):
            chosen = {label: _of_seed(own, seed) for label, own in found.items()}
            whole = {label: run for label, run in chosen.items() if run is not None}
            if len(whole) == len(members):
                groups.append(_Group(place, seed, whole))
            else:
                without = ", ".join(label for label in members if label not in whole)
                lacking.append(f"{without} has no run of seed {seed} {_where(place)}: it is not fused there.")
    return groups, lacking


def _of_seed(own: Sequence[Run], seed: int) -> Run | None:
    if len(own) == 1:
        return own[0]
    return next((run for run in own if run.result.seed == seed), None)


def _where(place: Place) -> str:
    name, fold, *_ = place
    return f"on {name}{'' if fold is None else f', fold {fold}'}"


def _fuse_group(group: _Group, method: str, fusing: Fusing) -> _Fused:
    splits = ["test", *(["valid"] if all(map(_has_valid, group.members.values())) else [])]
    if method == LEARNED and "valid" not in splits:
        without = next(label for label, run in group.members.items() if not _has_valid(run))
        raise ConfigError(
            f"weights are learned on valid, of which {without} has no scores {_where(group.place)}. Import "
            "them with {split} in the name of its file, fuse others with --fuse-of, or fuse by zscore."
        )
    members = {split: [run.scored(split) for run in group.members.values()] for split in splits}
    parts = {
        split: np.stack([METHODS[method].part(item.judgments, item.scores, fusing) for item in own])
        for split, own in members.items()
    }
    weights = np.ones(len(group.members))
    if method == LEARNED:
        valid = members["valid"][0].judgments
        weights = learn_weights(valid, parts["valid"], fusing.metric, fusing.convention, fusing.seed)
    scored = {
        split: ScoredSplit(own[0].judgments, weights @ parts[split], own[0].file_rows)
        for split, own in members.items()
    }
    return _Fused(group, weights, scored)


def _has_valid(run: Run) -> bool:
    return any(name.startswith("valid/") for name in run.result.metrics)


def _weights_in_words(labels: Sequence[str], fused: Sequence[_Fused]) -> str:
    columns = np.stack([item.weights for item in fused]).T.tolist()
    shares = [
        f"{label} {fmean(own):.2f}" + (f" ({min(own):.2f} to {max(own):.2f})" if min(own) < max(own) else "")
        for label, own in zip(labels, columns, strict=True)
    ]
    mean = f", mean over {len(fused)} cells and seeds" if len(fused) > 1 else ""
    return f"Weights{mean}: {', '.join(shares)}."


def _word(run: Run) -> str:
    """What names the run to the verb `compare`."""
    if run.held is None or run.result.params != IMPORTED:
        return str(run.path)
    _, name, pattern, *_ = run.result.overrides
    return f"{name}={pattern}"


def _as_run(name: str, notes: tuple[str, ...], fused: _Fused, method: str, fusing: Fusing) -> Run:
    members = fused.group.members
    like = next(iter(members.values()))
    k = ("--rrf-k", f"{fusing.rrf_k:g}") if method == RRF else ()
    origin = Origin(
        model=name,
        params=FUSED,
        path=Path(name),
        notes=notes,
        overrides=("compare", *map(_word, members.values()), "--metric", fusing.metric, "--fuse", method, *k),
        settings={
            "fusion": {
                "method": method,
                "k": fusing.rrf_k if method == RRF else None,
                "weights": dict(zip(members, fused.weights.tolist(), strict=True)),
            }
        },
    )
    # On the set that its weights were chosen by, a fusion's figure would flatter it.
    reported = ("test",) if method == LEARNED else ("valid", "test")
    return derived_run(origin, like, fused.scored, fused.group.seed, reported)
