"""Rows that were not trained here: fused runs, and scores and models of other programs.

    rrf        sum over runs of 1 / (k + rank)                      reciprocal-rank fusion
    zscore     sum over runs of (score - mean) / sd                 CombSUM, within the query
    minmax     sum over runs of (score - min) / (max - min)         CombSUM, within the query
    learned    weighted sum of z-scores, the weights from valid     coordinate ascent

Runs are fused within a cell (data set, fold, fingerprints), resample and seed. Labels of test are not used. A
further method is one more entry in `FUSION_METHODS`.

ranx 0.3.21 (MIT) is not used: it ranks tied documents in the order of their rows, a score of minus infinity
makes zscore and minmax of its query nan, and importing it sets numba's threading layer for the whole process,
including the native engine.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.cells import DataCell, Replicate, cell_of, first_by, group_runs, replicate_of
from ltrbench.data import Judgments, RankingDataset, Splits
from ltrbench.data.score_files import read_score_file
from ltrbench.errors import ConfigError, DataError, ResultError, did_you_mean
from ltrbench.metrics import DEFAULT, Convention, evaluate, rank
from ltrbench.metrics.evaluation import is_metric, is_plugin_version, parse_metric
from ltrbench.models.reading import read_model_file
from ltrbench.rankers.base import check_saved
from ltrbench.rankers.importance import DROP_COLUMN, ImportanceSettings, importances
from ltrbench.rankers.imported import ImportedRanker, match_features
from ltrbench.rankers.library import model_digest
from ltrbench.runs import (
    FINISHED,
    IMPORTED,
    RESULT_FILE,
    Run,
    RunResult,
    ScoredSplit,
    claim,
    naming,
    refuse_trial,
    write_run,
)
from ltrbench.runs.record import FUSED
from ltrbench.shapes import Scores

# ---- Parts of a fused score: each run contributes a part that is comparable within a query.
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
    versions = {name: text for result in results for name, text in result.versions.items()}
    modules = sorted(name for name, text in versions.items() if is_plugin_version(text))
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


LEARNED = "learned"

FUSION_METHODS: dict[str, tuple[Callable[[Judgments, Scores, float], FusionPart], str]] = {
    "rrf": (reciprocal_ranks, "reciprocal-rank fusion with k = {k:g}"),
    "zscore": (
        lambda judgments, scores, _: z_scores(judgments, scores),
        "the sum of z-scores within the query",
    ),
    "minmax": (
        lambda judgments, scores, _: min_max(judgments, scores),
        "the sum of scores scaled to 0..1 within the query",
    ),
    LEARNED: (
        lambda judgments, scores, _: z_scores(judgments, scores),
        "the sum of z-scores within the query, weighted for {metric} on valid by coordinate ascent",
    ),
}
"""Name -> the part of one run, given judgments, scores and k; and the description in a note."""


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
        ConfigError: A method is unknown, or k is not a number of 0 or more.
    """

    methods: tuple[str, ...]
    of: tuple[str, ...] = ()
    rrf_k: float = RRF_K
    metric: str = "ndcg@10"
    convention: Convention = DEFAULT
    seed: int = 0

    def __post_init__(self) -> None:
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


def fuse(runs: Sequence[Run], fusing: Fusing) -> list[Run]:
    """Returns fused runs held in memory: for each data set and method one per cell and seed.

    Raises:
        ConfigError: A named model has no run, fewer than two models have, or weights cannot be learned.
        ResultError: The models have no common cell.
    """
    tables = group_runs([run for run in runs if run.result.status == FINISHED])
    known = [name for table in tables for name in (*table.rows, *(run.result.model for run in table.runs))]
    for name in fusing.of:
        if name not in known:
            raise ConfigError(
                f"no finished run of '{name}' to fuse{did_you_mean(name, known)} The rows are "
                f"{', '.join(dict.fromkeys(known))}."
            )
    made: list[Run] = []
    for table in tables:
        members = {
            label: of_row
            for label, of_row in table.rows.items()
            if not fusing.of or label in fusing.of or of_row[0].result.model in fusing.of
        }
        if len(members) >= 2:
            groups, lacking = _groups(members)
            made += [_fused(method, group, lacking, fusing) for method in fusing.methods for group in groups]
    if not made:
        raise ConfigError("there is nothing to fuse: give runs of at least two models on one data set.")
    return made


_Group = tuple[Run, Mapping[str, Run]]
"""The first run with the resample and seed of the fused run; and label -> run of each member."""


def _groups(members: Mapping[str, Sequence[Run]]) -> tuple[list[_Group], list[str]]:
    """Returns the groups to fuse, and a sentence for each member that lacks a run.

    A member with one run in a cell, such as imported scores, is in the fusion of every replicate.
    """
    groups: list[_Group] = []
    lacking: list[str] = []
    for cell in dict.fromkeys(cell_of(run) for runs in members.values() for run in runs):
        runs_here = {label: [run for run in runs if cell_of(run) == cell] for label, runs in members.items()}
        several = [run for runs in runs_here.values() if len(runs) > 1 for run in runs]
        one_each = [run for runs in runs_here.values() for run in runs][:1]
        for replicate, like in first_by(several or one_each, replicate_of).items():
            chosen = {label: _of_replicate(runs, replicate) for label, runs in runs_here.items()}
            whole = {label: run for label, run in chosen.items() if run is not None}
            if len(whole) == len(members):
                groups.append((like, whole))
            else:
                without = ", ".join(label for label in members if label not in whole)
                lacking.append(
                    f"{without} has no run with {replicate} {_where(cell)}; nothing is fused for it."
                )
    if not groups:
        raise ResultError(
            f"{', '.join(members)} have no common cell, and cannot be fused. {' '.join(lacking)}"
        )
    return groups, lacking


def _of_replicate(runs: Sequence[Run], replicate: Replicate) -> Run | None:
    if len(runs) == 1:
        return runs[0]
    return next((run for run in runs if replicate_of(run) == replicate), None)


def _where(cell: DataCell) -> str:
    return f"on {cell.data}{'' if cell.fold is None else f', fold {cell.fold}'}"


def _fused(method: str, group: _Group, lacking: Sequence[str], fusing: Fusing) -> Run:
    like, members = group
    part, words = FUSION_METHODS[method]
    without_valid = [label for label, run in members.items() if not _has_valid(run)]
    if method == LEARNED and without_valid:
        raise ConfigError(
            f"weights are learned on valid, and {without_valid[0]} has no scores of it "
            f"{_where(cell_of(like))}. "
            "Import them with {split} in the file name, choose models with --fuse-of, or use --fuse zscore."
        )
    scored, weights = {}, np.ones(len(members))
    for split in ("test",) if without_valid else ("valid", "test"):
        of_split = [run.scored(split) for run in members.values()]
        parts = np.stack([part(item.judgments, item.scores, fusing.rrf_k) for item in of_split])
        if method == LEARNED and split == "valid":
            judgments = of_split[0].judgments
            weights = learn_weights(judgments, parts, fusing.metric, fusing.convention, fusing.seed)
        scored[split] = replace(of_split[0], scores=weights @ parts)
    name = f"{method}({' + '.join(members)})"
    words = words.format(k=fusing.rrf_k, metric=fusing.metric)
    notes = [f"Fused from the scores of {', '.join(members)} within each cell and seed: {words}."]
    options: tuple[str, ...] = ("--rrf-k", f"{fusing.rrf_k:g}") if method == "rrf" else ()
    if method == LEARNED:
        shares = ", ".join(f"{label} {share:.2f}" for label, share in zip(members, weights, strict=True))
        notes.append(f"Weights {_where(cell_of(like))}, seed {like.result.seed}: {shares}.")
        options = ("--metric", fusing.metric, "--convention", fusing.convention.name)
    origin = Origin(
        model=name,
        params=FUSED,
        path=Path(name),
        notes=(*notes, *lacking),
        overrides=("compare", *map(_argument, members.values()), "--fuse", method, *options),
        settings={"fusion": {"method": method, "k": fusing.rrf_k if method == "rrf" else None}},
    )
    # The weights of a learned row were chosen on valid.
    return derived_run(
        origin, like, scored, like.result.seed, ("test",) if method == LEARNED else ("valid", "test")
    )


def _has_valid(run: Run) -> bool:
    return any(name.startswith("valid/") for name in run.result.metrics)


def _argument(run: Run) -> str:
    """Returns the argument of the verb `compare` for the run."""
    if run.held is None or run.result.params != IMPORTED or run.result.overrides is None:
        return str(run.path)
    _, name, pattern, *_ = run.result.overrides
    return f"{name}={pattern}"


# ---- Imported scores: any system, such as RankLib or a neural ranker, joins the table without a backend.

_PLACEHOLDERS = ("data", "fold", "seed", "split")


@dataclass(frozen=True)
class Import:
    """Name of a system, and of its score file, with or without placeholders.

    Raises:
        ConfigError: The name is missing, or the file name has an unknown placeholder or an open brace.

    >>> sorted(Import("ranklib", "scores/{split}{fold}.txt").placeholders)
    ['fold', 'split']
    """

    name: str
    pattern: str

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.pattern:
            raise ConfigError(f"{self}: expected a name and a file, as in ranklib=scores.txt.")
        unknown = sorted(self.placeholders - set(_PLACEHOLDERS))
        if unknown:
            known = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
            raise ConfigError(f"{self}: unknown placeholder {{{unknown[0]}}}; known placeholders: {known}.")

    def __str__(self) -> str:
        return f"{self.name}={self.pattern}"

    @cached_property
    def placeholders(self) -> frozenset[str]:
        try:
            return frozenset(
                name for _, name, _, _ in string.Formatter().parse(self.pattern) if name is not None
            )
        except ValueError as error:
            raise ConfigError(f"{self}: {error}; write a placeholder in braces, as in {{fold}}.") from None

    def file(self, like: RunResult, split: str) -> Path:
        """Returns the file with the scores of a split for the data of a run."""
        data = like.data
        return Path(
            self.pattern.format(data=data["name"], fold=data.get("fold"), seed=like.seed, split=split)
        )


def import_scores(system: Import, runs: Sequence[Run]) -> list[Run]:
    """Returns the runs of a system, held in memory: one per cell with a score file.

    If the file name has no `{seed}`, a cell has one run, however many seeds there are.

    Raises:
        ResultError: No run is finished.
        DataError: No file exists, or a file does not match the documents of its split.
    """
    places = first_runs_of_cells(runs, by_seed="seed" in system.placeholders)
    if not places:
        raise ResultError(
            f"{system}: there is no finished run, and so no judgments to evaluate the scores with."
        )
    scored = [like for like in places if system.file(like.result, "test").exists()]
    if not scored:
        raise DataError(
            f"{system.file(places[0].result, 'test')}: there is no such file (in {Path.cwd()}), and none for "
            f"any other run. Check the path in {system}."
        )
    return _imported_in(scored, system)


def import_like(system: Import, like: Run, folder: Path) -> Run:
    """Writes the scores as a run with the data of `like` into a folder.

    Raises:
        ResultError: The folder already holds a run, or `like` is not finished or a trial.
        DataError: The file does not exist, or does not match the documents.
    """
    if like.result.status != FINISHED:
        raise ResultError(f"{like.path} failed and has no judgments; name a finished run.")
    refuse_trial(like, "judgments of test")
    (run,) = _imported_in([like], system, folder)
    test = run.scored("test")
    per_query = evaluate(test.judgments, test.scores, reported_metrics(like)).per_query
    with claim(folder, options="--output DIR"):
        return write_run(folder, run.result, scored=run.held, per_query=per_query)


def _imported_in(places: Sequence[Run], system: Import, folder: Path | None = None) -> list[Run]:
    """Returns the runs; `folder` is the output folder in the command of a run, by default NAME/RUN.

    Raises:
        DataError: A file without query ids in its lines is used for two different sets of documents.
    """
    fingerprints: dict[Path, str] = {}
    runs = []
    for like in places:
        scored, notes = {}, []
        for split in _splits(system, like):
            place, path = like.scored(split), system.file(like.result, split)
            file = read_score_file(path)
            fingerprint = str(like.result.data.get(split, {}).get("fingerprint"))
            if not file.queries and fingerprints.setdefault(path, fingerprint) != fingerprint:
                raise DataError(
                    f"{path}: its lines have no query ids, so that it cannot hold the scores of several "
                    f"sets, among them {_name_of(split, like.result)}. Write one file per set, with "
                    f"{{fold}}, {{data}} or {split} in its name."
                )
            matched = file.match(place.judgments, place.file_rows, _name_of(split, like.result))
            scored[split] = replace(place, scores=matched.scores)
            notes += [f"{path}: {note}" for note in matched.notes]
        output = folder or Path(system.name, like.path.name)
        origin = Origin(
            model=system.name,
            params=IMPORTED,
            path=system.file(like.result, "test"),
            notes=("Its scores were imported; it was not trained or timed here.", *notes),
            overrides=_command(system.name, system.pattern, like, output),
        )
        runs.append(derived_run(origin, on_all_queries(like), scored, seed=like.result.seed))
    return runs


def _command(name: str, file: str, like: Run, folder: Path) -> tuple[str, ...]:
    return ("import", name, file, "--like", str(like.path), "--output", str(folder))


def on_all_queries(like: Run) -> Run:
    """Returns the run without its resample of the training queries, which a score file does not have."""
    data = like.result.data
    if "resample" not in data:
        return like
    resample = data["resample"]
    described = ("features", "feature_names", "first_feature")
    features = {key: data["train"][key] for key in described if key in data["train"]}
    train = {**features, "fingerprint": resample["train"], "queries": resample["queries"]}
    whole = {key: value for key, value in data.items() if key != "resample"} | {"train": train}
    return replace(like, result=replace(like.result, data=whole))


def _splits(system: Import, like: Run) -> Iterator[str]:
    yield "test"
    has_valid = any(name.startswith("valid/") for name in like.result.metrics)
    if "split" in system.placeholders and has_valid and system.file(like.result, "valid").exists():
        yield "valid"


def _name_of(split: str, like: RunResult) -> str:
    fold = like.data.get("fold")
    return f"{split} of {like.data['name']}{'' if fold is None else f' fold {fold}'}"


def first_runs_of_cells(runs: Sequence[Run], by_seed: bool) -> list[Run]:
    """Returns the first run of each cell, or of each seed in each cell."""
    finished = [run for run in runs if run.result.status == FINISHED]
    return [*first_by(finished, lambda run: (cell_of(run), by_seed and run.result.seed)).values()]


# ---- Imported models: a model file of another library becomes a run on the data of an existing run.
#
# Unlike imported scores, the run has a model: it can predict, be shown as trees, and be shipped.

MAY_HAVE_SEEN_TEST = (
    "It may have been trained on queries of this test set, which would make its metrics too high; compare it "
    "on queries that are newer than its training data."
)


@dataclass(frozen=True)
class ModelImport:
    """A model file, and how its features are matched with those of the data.

    Attributes:
        name: name in tables.
        path: the model file.
        features: "names", "numbers" or "positions", see `match_features`; None: chosen from the file.
    """

    name: str
    path: Path
    features: str | None = None


def import_model(system: ModelImport, like: Run, splits: Splits, folder: Path) -> Run:
    """Applies a model file to the data of a run, and writes a run with its scores and the model.

    Args:
        splits: the data of `like`, loaded again.

    Raises:
        ResultError: The file is not a supported model, the folder already contains a run, or `like` is not
            finished or a trial.
        DataError: The data differ from those of the run, or lack features of the model.
    """
    settings = _importance_settings(like)
    run, ranker = _applied(system, like, splits, folder)
    test = run.scored("test")
    with claim(folder, options="--output DIR"):
        return write_run(
            folder,
            run.result,
            ranker,
            run.held,
            evaluate(test.judgments, test.scores, reported_metrics(like)).per_query,
            importances=importances(ranker, splits, settings, ranker.seed),
            example=splits.test,
            check_model=lambda saved: check_saved(ranker, saved, splits.test.features, test.scores),
        )


def apply_model(system: ModelImport, like: Run, splits: Splits) -> Run:
    """Applies a model file to the data of a run; returns a run held in memory, with scores only.

    Args:
        splits: the data of `like`, loaded again.

    Raises:
        ResultError: As in `import_model`.
        DataError: As in `import_model`.
    """
    return _applied(system, like, splits, Path(system.name, like.path.name))[0]


def _applied(system: ModelImport, like: Run, splits: Splits, folder: Path) -> tuple[Run, ImportedRanker]:
    check_like(like)
    _check_fingerprints(like, splits)
    file = read_model_file(system.path)
    matched = match_features(file, splits.test.feature_names, system.features)
    ranker = ImportedRanker.of(file, matched.columns, splits.test.num_features)
    scored = {name: _scored(ranker, split) for name, split in splits if name != "train"}
    num_trees = len(ranker.trees().trees)
    way = () if system.features is None else ("--features", system.features)
    origin = Origin(
        model=system.name,
        params=IMPORTED,
        path=system.path,
        notes=(
            f"Its model ({file.library}, {num_trees} trees) was imported from {file.path}; it was not "
            "trained or timed here.",
            matched.sentence,
            MAY_HAVE_SEEN_TEST,
        ),
        overrides=(*_command(system.name, str(system.path), like, folder), *way),
        settings={
            "model": {
                "_target_": f"{ImportedRanker.__module__}.{ImportedRanker.__qualname__}",
                "library": file.library,
                "file": str(file.path),
                "digest": model_digest(file.content),
                "features": matched.way,
            }
        },
    )
    run = derived_run(origin, on_all_queries(like), scored, seed=like.result.seed)
    return replace(run, result=replace(run.result, best_iteration=num_trees)), ranker


def check_like(like: Run) -> None:
    """Checks before data are loaded that a model can be imported on the data of a run.

    Raises:
        ResultError: The run is not finished, or a trial.
    """
    if like.result.status != FINISHED:
        raise ResultError(f"{like.path} failed; name a finished run.")
    refuse_trial(like, "judgments of test")


def _scored(ranker: ImportedRanker, split: RankingDataset) -> ScoredSplit:
    return ScoredSplit(split, ranker.predict(split.features), split.query_keys, split.file_rows)


def _check_fingerprints(like: Run, splits: Splits) -> None:
    """Raises DataError if the loaded validation or test set is not that of the run."""
    recorded = like.result.data
    loaded = {name: split.fingerprint for name, split in splits if name != "train"}
    for name in ("test", "valid"):
        before, now = recorded.get(name, {}).get("fingerprint"), loaded.get(name)
        if before != now:
            raise DataError(
                f"the {name} set of {like.path} has changed since the run: its fingerprint was "
                f"{before or 'not recorded'}, and is {now or 'absent'} now. Restore its files, or name a run "
                "on the new data."
            )


def _importance_settings(like: Run) -> ImportanceSettings | None:
    """Returns the settings of the importances of a run, without those that need a fit; None if it has "
    "none."""
    recorded: Any = like.result.config.get("importance")
    if recorded is None:
        return None
    settings = ImportanceSettings(**{name: value for name, value in recorded.items() if name != "_target_"})
    return replace(settings, kinds=[kind for kind in settings.kinds if kind != DROP_COLUMN])
