"""Rows that were not trained here: fused runs, and scores and models of other programs.

    rrf        sum over runs of 1 / (k + rank)                      reciprocal-rank fusion
    zscore     sum over runs of (score - mean) / sd                 CombSUM, within the query
    minmax     sum over runs of (score - min) / (max - min)         CombSUM, within the query
    greedy     weighted sum of z-scores, the weights from valid     selection with replacement

Runs are fused within a cell (data set, fold, fingerprints), resample and seed. Labels of test are not used. A
further method is one more entry in `FUSION_METHODS`.

ranx 0.3.21 (MIT) is not used: it ranks tied documents in the order of their rows, a score of minus infinity
makes zscore and minmax of its query nan, and importing it sets numba's threading layer for the whole process,
including the native engine.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.cells import (
    DataCell,
    Replicate,
    cell_of,
    first_by,
    grouped,
    replicate_of,
    rows_by_table,
)
from ltrbench.compare.fairness import stopped_on_test
from ltrbench.compare.remarks import Kind, Remark
from ltrbench.data import Judgments, Splits
from ltrbench.data.features import AnyFeatures, row_blocks
from ltrbench.data.score_files import document_names, read_score_file
from ltrbench.errors import ConfigError, DataError, ResultError, require, require_choice
from ltrbench.metrics import DEFAULT, Convention, evaluate, rank, upside_down
from ltrbench.metrics.evaluation import is_plugin_version
from ltrbench.metrics.functions import is_metric, parse_metric
from ltrbench.models.files import OF_XGBOOST, is_model_file, read_model_file
from ltrbench.models.trees import splits_of, used_features
from ltrbench.rankers.base import check_saved
from ltrbench.rankers.importance import DROP_COLUMN, ImportanceSettings, importances
from ltrbench.rankers.imported import ImportedRanker, match_features
from ltrbench.rankers.library import model_digest
from ltrbench.runs.origin import Ensemble, Final, Fused, Imported, Origin
from ltrbench.runs.record import (
    FINISHED,
    NO_PARAMETERS,
    Run,
    RunResult,
    ScoredSplit,
    naming,
    refuse_trial,
)
from ltrbench.runs.writing import claim, write_run
from ltrbench.shapes import Scores
from ltrbench.tables import listed

log = logging.getLogger("ltrbench")

# ---- Parts of a fused score: each run contributes a part that is comparable within a query.
#
# The fused score of a document is the weighted sum of its parts (CombSUM with equal weights: Fox and Shaw,
# 1994, "Combination of multiple searches", TREC-2). D is the number of documents, M the number of runs.

RRF_K = 60.0  # the value of the paper

FusionPart = NDArray[np.float64]
"""(D,), contribution of a run to the fused scores; (M, D) for M runs."""


def reciprocal_ranks(
    judgments: Judgments, scores: Scores, k: float = RRF_K
) -> FusionPart:
    """Returns 1 / (k + r) for the document at rank r of its query, counted from 1, (D,).

    Source: Cormack, Clarke and Buettcher (2009), "Reciprocal rank fusion outperforms Condorcet and individual
    rank learning methods", SIGIR. Tied documents get the mean of their ranks, so that the order of the rows
    has no influence. A score of minus infinity (not retrieved) contributes 0, as in the paper.
    """
    ranking = rank(judgments, scores)
    ranks = np.empty(len(scores))
    ranks_from_1 = ranking.ranks.astype(np.float64) + 1.0
    ranks[ranking.order] = ranking.tie_mean(ranks_from_1)
    return np.where(np.isneginf(scores), 0.0, 1.0 / (k + ranks))


def z_scores(judgments: Judgments, scores: Scores) -> FusionPart:
    """Returns (s - mean) / sd over the documents of the query, (D,); 0 if all are tied."""
    finite = _finite(judgments, scores)
    start = judgments.query_start[:-1]
    sizes = judgments.query_sizes
    means = np.add.reduceat(finite, start) / sizes
    centred = finite - np.repeat(means, sizes)
    variances = np.add.reduceat(centred**2, start) / sizes
    return _scaled(judgments, finite, centred, np.sqrt(variances))


def min_max(judgments: Judgments, scores: Scores) -> FusionPart:
    """Returns (s - min) / (max - min) over the documents of the query, (D,); 0 if all are tied."""
    finite = _finite(judgments, scores)
    start = judgments.query_start[:-1]
    lowest = np.minimum.reduceat(finite, start)
    highest = np.maximum.reduceat(finite, start)
    risen = finite - np.repeat(lowest, judgments.query_sizes)
    return _scaled(judgments, finite, risen, highest - lowest)


def _finite(judgments: Judgments, scores: Scores) -> FusionPart:
    """Replaces infinite scores by the lowest or highest finite score of the query, by 0 or 1 without one.

    A document that was not retrieved thus contributes as much as the last retrieved one. Fox and Shaw (1994)
    give it 0, which is the same for min-max.
    """
    given = np.asarray(scores, dtype=np.float64)
    start = judgments.query_start[:-1]
    is_finite = np.isfinite(given)
    lowest = np.minimum.reduceat(np.where(is_finite, given, np.inf), start)
    highest = np.maximum.reduceat(np.where(is_finite, given, -np.inf), start)
    has_no_finite = np.isinf(lowest)
    lowest = np.where(has_no_finite, 0.0, lowest)
    highest = np.where(has_no_finite, 1.0, highest)
    sizes = judgments.query_sizes
    return given.clip(np.repeat(lowest, sizes), np.repeat(highest, sizes))


def _scaled(
    judgments: Judgments,
    scores: FusionPart,
    values: FusionPart,
    by_query: NDArray[np.float64],
) -> FusionPart:
    """Returns values / by_query; 0 in a query whose documents are tied: rounding must not order them."""
    start = judgments.query_start[:-1]
    lowest = np.minimum.reduceat(scores, start)
    highest = np.maximum.reduceat(scores, start)
    tied = lowest == highest
    by = np.repeat(np.where(tied, 0.0, by_query), judgments.query_sizes)
    zeros = np.zeros_like(values)
    scaled: FusionPart = np.divide(values, by, out=zeros, where=by > 0)
    return scaled


def _ranked_last(scores: Scores) -> Scores:
    """Returns the scores, (D,), with minus infinity for documents that were not retrieved (NaN)."""
    return np.where(np.isnan(scores), -np.inf, scores)


def _summed(weights: NDArray[np.float64], parts: FusionPart) -> FusionPart:
    # einsum instead of BLAS, whose rounding would order tied documents by their row.
    summed: FusionPart = np.einsum("m,md->d", weights, parts)
    return summed


def select_greedily(
    judgments: Judgments,
    parts: FusionPart,
    metric: str,
    convention: Convention = DEFAULT,
    size: int = 25,
) -> NDArray[np.float64]:
    """Returns the shares of the runs among the draws of a greedy selection with replacement, (M,).

    Each draw adds the run with which the mean of the parts has the highest metric; ties take the first run.
    Of the ensembles after 1, 2, ... draws, the first one with the highest metric counts: no run alone is
    better on these judgments. Source: Caruana, Niculescu-Mizil, Crew and Ksikes (2004), "Ensemble selection
    from libraries of models", ICML, without bagging and sorted initialisation.

    Args:
        judgments: Judgments of the validation set.
        parts: (M, D), parts on the validation set.
        size: Number of draws.

    Raises:
        ConfigError: No query of the validation set counts.
    """

    def reached(weights: NDArray[np.float64]) -> float:
        return evaluate(judgments, _summed(weights, parts), [metric], convention).means[
            metric
        ]

    if np.isnan(reached(np.ones(len(parts)))):
        raise ConfigError(
            f"weights cannot be learned: no query of the validation set counts in {metric}. Fuse by zscore."
        )
    drawn = np.zeros(len(parts))
    best = np.zeros(len(parts))
    highest = -math.inf
    for number in range(1, size + 1):
        with_one_more = [drawn + one for one in np.eye(len(parts))]
        values = [reached(draws / number) for draws in with_one_more]
        chosen = int(np.argmax(values))
        drawn[chosen] += 1
        if values[chosen] > highest:
            best = drawn / number
            highest = values[chosen]
    return best


# ---- Derived runs: other scores on the test set of an existing run, without training.
#
# A derived run is evaluated on the same stored judgments, in the same cell (data set, fold, fingerprints),
# and has no times, memory or trees.


def reported_metrics(run: Run) -> list[str]:
    """Returns the known metrics that a run reports on test, such as ndcg@10."""
    return [name for name in _names_of(run.result) if is_metric(name)]


def unknown_metrics(results: Sequence[RunResult]) -> list[Remark]:
    """Returns a remark on unknown metrics of runs, from plug-ins that are not loaded; empty without any."""
    names = dict.fromkeys(itertools.chain.from_iterable(map(_names_of, results)))
    unknown = [name for name in names if not is_metric(name)]
    if not unknown:
        return []
    # The name of the plug-in is only shown: no code is loaded because a folder names it.
    modules = set[str]()
    for result in results:
        versions = result.versions.items()
        modules.update(name for name, text in versions if is_plugin_version(text))
    return [Remark.of(Kind.PLUGIN_METRICS, metrics=unknown, modules=sorted(modules))]


def _names_of(result: RunResult) -> list[str]:
    return [
        name.removeprefix("test/")
        for name in result.metrics
        if name.startswith("test/")
    ]


def derived_run(
    path: Path,
    like: Run,
    scored: Mapping[str, ScoredSplit],
    *,
    model: str,
    origin: Origin,
    notes: Sequence[str],
    overrides: Sequence[str],
    params: str = NO_PARAMETERS,
    model_settings: Mapping[str, Any] | None = None,
    num_trees: int | None = None,
) -> Run:
    """Returns a run held in memory, with the data of `like`, evaluated by the metrics that `like` reports.

    Args:
        path: Path in messages.
        scored: "test", and "valid" if it has scores. If a document has none (NaN), the metrics are None:
            they are not defined under the default convention.
        overrides: Words of the command that makes it again.
    """
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    config = {
        "data": like.result.settings.get("data", {}),
        "model": model_settings or {},
    }
    result = RunResult(
        status=FINISHED,
        model=model,
        params=params,
        origin=origin,
        seed=like.result.seed,
        data=like.result.data,
        metrics=_means_of(scored, like),
        convention=DEFAULT.describe(),
        notes=tuple(notes),
        overrides=tuple(overrides),
        started_in=str(Path.cwd()),
        started=now,
        finished=now,
        best_iteration=num_trees,
        config=config,
    )
    return Run(path, result, held=scored)


def _means_of(scored: Mapping[str, ScoredSplit], like: Run) -> dict[str, float | None]:
    """Returns "test/ndcg@10" and others -> mean, for the metrics that a run reports; None if not defined."""
    names = reported_metrics(like)
    means: dict[str, float | None] = {}
    for split, item in scored.items():
        if np.isnan(item.scores).any():
            means |= {f"{split}/{name}": None for name in names}
            continue
        with naming(like):
            evaluation = evaluate(item.judgments, item.scores, names)
        for name, mean in evaluation.means.items():
            means[f"{split}/{name}"] = None if np.isnan(mean) else mean
    return means


def default_metric(runs: Sequence[Run]) -> str:
    """Returns the ndcg with the largest cutoff that the first run reports; otherwise its first metric.

    Raises:
        ConfigError: None of the metrics that it reports is known.
    """
    names = reported_metrics(runs[0])
    if not names:
        reason = "it reports no metric."
        for remark in unknown_metrics([runs[0].result]):
            reason = remark.note.sentence
        raise ConfigError(
            f"{runs[0].path}: {reason} Or name a metric with --metric, such as ndcg@10."
        )
    ndcgs = [name for name in names if parse_metric(name)[0] == "ndcg"]
    if ndcgs:
        cutoffs = {name: parse_metric(name)[1] or math.inf for name in ndcgs}
        return max(ndcgs, key=cutoffs.__getitem__)
    return names[0]


RRF = "rrf"
GREEDY = "greedy"

FUSION_METHODS: dict[str, tuple[Callable[..., FusionPart], str]] = {
    RRF: (reciprocal_ranks, "reciprocal-rank fusion with k = {k:g}"),
    "zscore": (z_scores, "the sum of z-scores within the query"),
    "minmax": (min_max, "the sum of scores scaled to 0..1 within the query"),
    GREEDY: (
        z_scores,
        "the mean of z-scores within the query, over {size} draws with replacement for {metric} on valid",
    ),
}
"""Name -> the part of one run, given judgments and scores, and k for rrf; and the description in a note."""


@dataclass(frozen=True)
class Fusing:
    """Settings of a fusion.

    Attributes:
        methods: Names in `FUSION_METHODS`.
        of: Models or row labels to fuse; empty for all.
        rrf_k: k of reciprocal-rank fusion; a larger k gives the first ranks less weight.
        metric: Metric of the greedy selection.
        convention: Convention of this metric.
        size: Number of draws of the greedy selection.

    Raises:
        ConfigError: A method is unknown, or k is not a number of 0 or more.
    """

    methods: tuple[str, ...]
    of: tuple[str, ...] = ()
    rrf_k: float = RRF_K
    metric: str = "ndcg@10"
    convention: Convention = DEFAULT
    size: int = 25

    def __post_init__(self) -> None:
        for method in self.methods:
            require_choice("fusion method", method, FUSION_METHODS)
        require("k of reciprocal-rank fusion", self.rrf_k, at_least=0)


def fuse(runs: Sequence[Run], fusing: Fusing) -> list[Run]:
    """Returns fused runs held in memory: for each data set and method one per cell and seed.

    Rows and their labels are those of a comparison of the runs.

    Raises:
        ConfigError: A named model has no run, fewer than two models have, or weights cannot be learned.
        ResultError: The models have no common cell.
    """
    tables = list(rows_by_table(runs).values())
    known = list(itertools.chain.from_iterable(tables))
    known.extend(run.result.model for run in runs if run.result.is_compared)
    for name in fusing.of:
        require_choice("model to fuse", name, dict.fromkeys(known))
    made: list[Run] = []
    for table in tables:
        members = {}
        for label, of_row in table.items():
            names = {label, of_row[0].result.model}
            if not fusing.of or names & {*fusing.of}:
                members[label] = of_row
        if len(members) < 2:
            continue
        for method in fusing.methods:
            # The weights of a greedy selection belong to trainings.
            groups, lacking = _groups(members, shares_runs=method != GREEDY)
            for like, of_label in groups:
                made.append(_fused(method, like, of_label, lacking, fusing))
    if not made:
        raise ConfigError(
            "there is nothing to fuse: give runs of at least two models on one data set."
        )
    return made


_Group = tuple[Run, dict[str, Run]]
"""The first run with the resample and seed of a fused run; and label -> run of each of its members."""


def _groups(
    members: Mapping[str, Sequence[Run]], shares_runs: bool
) -> tuple[list[_Group], list[str]]:
    """Returns the groups to fuse, and a sentence for each member that lacks a run.

    A member with one run in a cell is in the fusion of every replicate if it was imported or `shares_runs`.
    """
    groups: list[_Group] = []
    lacking: dict[str, dict[str, list[Replicate]]] = {}
    all_runs = itertools.chain.from_iterable(members.values())
    for cell in dict.fromkeys(map(cell_of, all_runs)):
        runs_here = {}
        for label, runs in members.items():
            runs_here[label] = [run for run in runs if cell_of(run) == cell]
        replicates = _replicates(list(runs_here.values()), shares_runs)
        for replicate, like in replicates.items():
            group: dict[str, Run] = {}
            for label, runs in runs_here.items():
                run = _run_of(replicate, runs, shares_runs)
                if run is not None:
                    group[label] = run
            if len(group) == len(members):
                groups.append((like, group))
            for label in members.keys() - group.keys():
                of_label = lacking.setdefault(label, {})
                of_label.setdefault(_name_of(like), []).append(replicate)
    sentences = [
        _about_lacking(label, lacking[label]) for label in members if label in lacking
    ]
    if not groups:
        raise ResultError(
            f"{', '.join(members)} have no common cell, and cannot be fused. {' '.join(sentences)}"
        )
    return groups, sentences


def _about_lacking(label: str, lacking: Mapping[str, Sequence[Replicate]]) -> str:
    """Returns a sentence on a member without runs, given name of a cell -> replicates."""
    names = grouped(lacking, lambda name: tuple(lacking[name]))
    places = []
    for replicates, of_replicates in names.items():
        missing = listed(list(map(str, replicates)))
        places.append(f"{missing} on {listed(of_replicates)}")
    return f"{label} has no run with {'; '.join(places)}: not fused there."


def _replicates(
    runs_of_member: Sequence[Sequence[Run]], shares_runs: bool
) -> dict[Replicate, Run]:
    """Returns replicate -> its first run in a cell, of the members without a run for every replicate.

    Without such a member there is one: that of the first run.
    """
    runs: list[Run] = []
    for of_member in runs_of_member:
        if not _is_shared(of_member, shares_runs):
            runs += of_member
    if not runs:
        runs = list(itertools.chain.from_iterable(runs_of_member))[:1]
    return first_by(runs, replicate_of)


def _run_of(replicate: Replicate, runs: Sequence[Run], shares_runs: bool) -> Run | None:
    """Returns the run of a member in a cell that is fused as this replicate; None without one."""
    if _is_shared(runs, shares_runs):
        return runs[0]
    of_replicate = [run for run in runs if replicate_of(run) == replicate]
    return of_replicate[-1] if of_replicate else None


def _is_shared(runs: Sequence[Run], shares_runs: bool) -> bool:
    """Returns whether the only run of a member in a cell is fused in every replicate."""
    if len(runs) != 1:
        return False
    return shares_runs or isinstance(runs[0].result.origin, Imported)


def _name_of(run: Run) -> str:
    """Returns the data set and the fold of a run."""
    cell = cell_of(run)
    return f"{cell.data} {cell.words}".rstrip()


def _fused(
    method: str,
    like: Run,
    members: Mapping[str, Run],
    lacking: Sequence[str],
    fusing: Fusing,
) -> Run:
    """Returns the fused run of one group of runs."""
    if method == GREEDY:
        return _ensemble(like, members, lacking, fusing)
    _, words = FUSION_METHODS[method]
    name = f"{method}({' + '.join(members)})"
    note = (
        f"Fused from the scores of {', '.join(members)} within each cell and seed: "
        f"{words.format(k=fusing.rrf_k)}."
    )
    options = []
    if method == RRF:
        options = ["--rrf-k", f"{fusing.rrf_k:g}"]
    splits = ["test"]
    if all(map(has_valid, members.values())):
        splits = ["valid", "test"]
    weights = np.ones(len(members))
    scored = {}
    for split in splits:
        first, parts = _parts(method, members, split, fusing.rrf_k)
        scored[split] = replace(first, scores=_summed(weights, parts))
    origin = Fused(
        method=method, members=[*members], is_imported=_has_imported(members)
    )
    return derived_run(
        Path(name),
        like,
        scored,
        model=name,
        origin=origin,
        notes=[note, *lacking],
        overrides=_words_of_fusion(method, members, options),
    )


def _ensemble(
    like: Run, members: Mapping[str, Run], lacking: Sequence[str], fusing: Fusing
) -> Run:
    """Returns the ensemble whose weights are selected on the validation set, without metrics of this set.

    Raises:
        ConfigError: A member has no scores of the validation set, or this set is the test set.
    """
    _require_valid(like, members)
    first, parts = _parts(GREEDY, members, "valid")
    weights = select_greedily(
        first.judgments, parts, fusing.metric, fusing.convention, fusing.size
    )
    first, parts = _parts(GREEDY, members, "test")
    scored = {"test": replace(first, scores=_summed(weights, parts))}
    _, words = FUSION_METHODS[GREEDY]
    words = words.format(metric=fusing.metric, size=fusing.size)
    shares = dict(zip(members, weights.tolist(), strict=True))
    origin = Ensemble(
        weights=shares,
        runs={label: str(run.path) for label, run in members.items()},
        is_imported=_has_imported(members),
    )
    name = f"{GREEDY}({' + '.join(members)})"
    options = ["--metric", fusing.metric, "--convention", fusing.convention.name]
    fused = derived_run(
        Path(name),
        like,
        scored,
        model=name,
        origin=origin,
        notes=[f"Fused within each cell and seed: {words}.", *lacking],
        overrides=_words_of_fusion(GREEDY, members, options),
        model_settings={"metric": fusing.metric, "size": fusing.size},
    )
    return _with_times(fused, like, members, shares)


def _require_valid(like: Run, members: Mapping[str, Run]) -> None:
    for label, run in members.items():
        if not has_valid(run):
            raise ConfigError(
                f"weights are learned on valid, and {label} has no scores of it on {_name_of(like)}. "
                "Import them with {split} in the file name, choose models without it (--fuse-of, or "
                "--models of ensemble), or use compare --fuse zscore."
            )
    if stopped_on_test([like.result]):
        raise ConfigError(
            f"the validation set of {like.path} is its test set, which no selection may see. Give data.valid "
            "other queries."
        )


def _parts(
    method: str, members: Mapping[str, Run], split: str, rrf_k: float = RRF_K
) -> tuple[ScoredSplit, FusionPart]:
    """Returns a split with the scores of the first member, and the parts of all members, (M, D)."""
    part, _ = FUSION_METHODS[method]
    options = {"k": rrf_k} if method == RRF else {}
    of_split = [run.scored(split) for run in members.values()]
    parts = [
        part(item.judgments, _ranked_last(item.scores), **options) for item in of_split
    ]
    return of_split[0], np.stack(parts)


def _has_imported(members: Mapping[str, Run]) -> bool:
    return any(run.result.origin.is_imported for run in members.values())


def _words_of_fusion(
    method: str, members: Mapping[str, Run], options: Sequence[str]
) -> list[str]:
    """Returns the words of the command that fuses the runs again."""
    # The path of a run in memory is the file of its scores.
    sources = []
    for run in members.values():
        source = str(run.path)
        if run.held is not None:
            source = f"{run.result.model}={source}"
        sources.append(source)
    return ["compare", *sources, "--fuse", method, *options]


def _with_times(
    fused: Run,
    like: Run,
    members: Mapping[str, Run],
    shares: Mapping[str, float],
) -> Run:
    """Adds to an ensemble the sums of the times of the runs that it needs."""
    all_runs = list(members.values())
    drawn = [run for label, run in members.items() if shares[label]]
    seconds = {}
    for kind, runs in {"fit": all_runs, "predict": drawn}.items():
        if all(kind in run.result.seconds for run in runs):
            seconds[kind] = sum(run.result.seconds[kind] for run in runs)
    result = replace(
        fused.result,
        seconds=seconds,
        shared_machine=any(run.result.shared_machine for run in all_runs),
        machine=like.result.machine,
        threads=like.result.threads,
    )
    return replace(fused, result=result)


def write_ensembles(
    runs: Sequence[Run], folder: Path, fusing: Fusing, overrides: Sequence[str]
) -> list[Run]:
    """Selects an ensemble in each cell and writes it as a run in a folder `folder`/0, `folder`/1, ...

    Args:
        runs: Of several runs with one seed of a row in a cell, the last one counts.
        folder: Its name is the name of the row.
        overrides: Words of the command.

    Raises:
        ConfigError, ResultError: As `fuse`; or the folder exists, or a model has its name.
    """
    models = {run.result.model for run in runs}
    if folder.exists() or folder.name in models:
        raise ConfigError(
            f"{folder} exists, or {folder.name} is a model. Choose another --name, or delete the folder."
        )
    made = []
    for number, run in enumerate(fuse(runs, fusing)):
        result = replace(run.result, model=folder.name, overrides=tuple(overrides))
        made.append(write_derived(replace(run, result=result), folder / str(number)))
    return made


def write_derived(run: Run, folder: Path, **files: Any) -> Run:
    """Writes a run that is held in memory to a folder, with further files for `write_run`."""
    test = run.scored("test")
    per_query = evaluate(test.judgments, test.scores, reported_metrics(run)).per_query
    return write_run(folder, run.result, scored=run.held, per_query=per_query, **files)


def has_valid(run: Run) -> bool:
    """Returns whether a run has scores of the validation set."""
    return any(name.startswith("valid/") for name in run.result.metrics)


# ---- Imported runs: scores or a model of any other system, on the data of an existing run.
#
# The trees of a model are applied to the data of the run, which are loaded again. A written run has the
# model: it can predict, be shown as trees, and be shipped.

_PLACEHOLDERS = ("data", "fold", "seed", "split", "split_seed")


class LoadSplits(Protocol):
    """Loads the data of a run again, with float64 features if they are `exact`; called only for models."""

    def __call__(self, run: Run, /, *, exact: bool = False) -> Splits: ...


@dataclass(frozen=True)
class Import:
    """A system, and its file of scores or its model.

    The name of the file may contain `{data}`, `{fold}`, `{split_seed}` (of a cross-validation), `{seed}` and
    `{split}`, which are replaced by those of an existing run. With `{split}` the scores of the validation set
    are read as well, if the file exists, so that weights can be learned on them.

    Attributes:
        name: Name in tables.
        pattern: Path of the file, with or without placeholders.
        features: "names", "numbers" or "positions", see `match_features`; None: chosen from the model.

    Raises:
        ConfigError: The name is missing, or the file name has an unknown placeholder or an open brace.

    >>> str(Import("ranklib", "scores/{fold}.txt"))
    'ranklib=scores/{fold}.txt'
    """

    name: str
    pattern: str
    features: str | None = None

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.pattern:
            raise ConfigError(
                f"{self}: expected a name and a file, as in ranklib=scores.txt."
            )
        known = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
        try:
            self.pattern.format(**dict.fromkeys(_PLACEHOLDERS, 0))
        except (KeyError, ValueError, IndexError) as error:
            raise ConfigError(
                f"{self}: {error}; known placeholders, in braces: {known}."
            ) from None

    def __str__(self) -> str:
        return f"{self.name}={self.pattern}"

    def file(self, like: Run, split: str) -> Path:
        """Returns the file with the scores of a split for the data of a run."""
        cell = cell_of(like)
        seed = like.result.seed
        return Path(
            self.pattern.format(
                data=cell.data,
                fold=cell.fold,
                split_seed=cell.repeat,
                seed=seed,
                split=split,
            )
        )


def import_runs(
    system: Import,
    runs: Sequence[Run],
    load_splits: LoadSplits,
) -> list[Run]:
    """Returns the runs of a system, held in memory: one per cell with a file.

    If the file name has no `{seed}`, a cell has one run, however many seeds there are.

    Raises:
        ResultError: No run is finished.
        DataError: No file exists, or a file does not match the documents of its split.
    """
    finished = [run for run in runs if run.result.is_compared]
    by_seed = "{seed" in system.pattern

    def cell_and_seed(run: Run) -> tuple[DataCell, int | bool]:
        return cell_of(run), by_seed and run.result.seed

    of_cells = list(first_by(finished, cell_and_seed).values())
    if not of_cells:
        raise ResultError(
            f"{system}: there is no finished run, and so no judgments to evaluate the scores with."
        )
    existing = [like for like in of_cells if system.file(like, "test").exists()]
    if not existing:
        raise DataError(
            f"{system.file(of_cells[0], 'test')}: there is no such file (in {Path.cwd()}), and none for "
            f"any other run. Check the path in {system}."
        )
    fingerprints: dict[Path, str] = {}
    imported = []
    warnings = []
    for like in existing:
        folder = Path(system.name, like.path.name)
        if is_model_file(system.file(like, "test")):
            imported.append(_of_model(system, like, folder, load_splits)[0])
            continue
        run, warning = _of_scores(system, like, folder, fingerprints)
        imported.append(run)
        if warning:
            warnings.append(warning)
    if warnings:
        alike = ""
        if len(existing) > 1:
            alike = f" So in {len(warnings)} of {len(existing)} test sets; these are the values of the first."
        log.warning("%s%s", warnings[0], alike)
    return imported


def import_like(
    system: Import,
    like: Run,
    folder: Path,
    load_splits: LoadSplits,
) -> Run:
    """Writes the scores or the model of a system as a run with the data of `like` into a folder.

    Raises:
        ResultError: The folder already holds a run, `like` is not finished or a trial, or the file is a model
            of an unsupported format.
        DataError: The file does not exist, does not match the documents or leaves out some of them, or the
            data differ from those of the run or lack features of the model.
    """
    if like.result.status != FINISHED:
        raise ResultError(
            f"{like.path} failed and has no judgments; name a finished run."
        )
    refuse_trial(like, "judgments of test")
    if isinstance(like.result.origin, Final):
        raise ResultError(
            f"{like.path} is a final model, trained on all labelled queries, and has no test set. Name a run "
            f"from which it was chosen, such as {like.result.origin.settings}."
        )
    ranker = None
    splits = None
    if is_model_file(system.file(like, "test")):
        run, ranker, splits = _of_model(system, like, folder, load_splits)
    else:
        run, _ = _of_scores(system, like, folder, {})
        _refuse_incomplete(system, like, run)
    with claim(folder, options="--output DIR"):
        if ranker is None or splits is None:
            return write_derived(run, folder)
        features = splits.test.features
        scores = ranker.predict(features)
        settings = _importance_settings(like)
        return write_derived(
            run,
            folder,
            ranker=ranker,
            importances=importances(ranker, splits, settings, ranker.seed),
            example=splits.test,
            check_model=lambda saved: check_saved(ranker, saved, features, scores),
        )


def _refuse_incomplete(system: Import, like: Run, run: Run) -> None:
    """Raises DataError if a document has no score: the metrics of a run folder are not defined then."""
    test = run.scored("test")
    (missing,) = np.nonzero(np.isnan(test.scores))
    number = len(missing)
    if number:
        first = missing[0]
        judgments = test.judgments
        query = judgments.query_of_document[first]
        query_id = str(judgments.query_ids[query])
        ids = judgments.document_ids
        if ids is None:
            ids, _ = document_names(judgments, test.file_rows)
        document = str(ids[first])
        raise DataError(
            f"{run.path}: {number} documents of test of {_name_of(like)} have no score, such as "
            f"document {document!r} of query {query_id!r}, so that the "
            "metrics of a run folder are not defined. Give every document a score, or compare the file: "
            f"python -m ltrbench compare {like.path} {system} --convention trec_eval."
        )


def _of_scores(
    system: Import,
    like: Run,
    folder: Path,
    fingerprints: dict[Path, str],
) -> tuple[Run, str]:
    """Returns the run of a score file, and its note that the order may be upside down; empty without one.

    Args:
        folder: Output folder in the command of the run.
        fingerprints: File -> fingerprint of the documents that it was used for; extended.

    Raises:
        ConfigError: The system says how to match features, which only a model has.
        DataError: A file without query ids in its lines is used for two different sets of documents.
    """
    if system.features is not None:
        file = system.file(like, "test")
        raise ConfigError(
            f"--features {system.features} is about models, but {file} has scores. "
            "Leave it out."
        )
    splits = ["test"]
    names_split = "{split}" in system.pattern
    if names_split and has_valid(like) and system.file(like, "valid").exists():
        splits = ["test", "valid"]
    scored = {}
    notes = [
        "Its scores were imported; it was not trained or timed here. It is not known which data trained it: "
        "queries of this test set among them would make its metrics too high."
    ]
    for split in splits:
        scored_split, of_split = _scores_of(system, like, split, fingerprints)
        scored[split] = scored_split
        notes.extend(of_split)
    test = scored["test"]
    warning = upside_down(test.judgments, test.scores, default_metric([like]))
    if warning:
        warning = f"{system.file(like, 'test')}: {warning}"
        notes.append(warning)
    return _imported(system, like, folder, scored, notes), warning


def _scores_of(
    system: Import, like: Run, split: str, fingerprints: dict[Path, str]
) -> tuple[ScoredSplit, list[str]]:
    """Returns a split with the scores of a file, and notes on them; arguments as those of `_of_scores`."""
    of_like = like.scored(split)
    path = system.file(like, split)
    name = f"{split} of {_name_of(like)}"
    file = read_score_file(path, _columns_of_ids(like))
    fingerprint = str(like.result.data.get(split, {}).get("fingerprint"))
    if not file.queries and fingerprints.setdefault(path, fingerprint) != fingerprint:
        raise DataError(
            f"{path}: its lines have no query ids, so that it cannot hold the scores of several sets, "
            f"among them {name}. Write one file per set, with {{data}}, {{fold}}, {{split_seed}} or "
            "{split} in its name."
        )
    matched = file.match(of_like.judgments, of_like.file_rows, name)
    scored = replace(of_like, scores=matched.scores, unjudged=matched.unjudged)
    return scored, [f"{path}: {note}" for note in matched.notes]


def _columns_of_ids(like: Run) -> dict[str, str]:
    """Returns "query_id" and "document_id" -> column of the table of a run, if its source names it."""
    fields = like.result.source.get("fields", {})
    named = {"query_id": fields.get("query"), "document_id": fields.get("document")}
    return {use: str(column) for use, column in named.items() if column is not None}


def _imported(
    system: Import,
    like: Run,
    folder: Path,
    scored: Mapping[str, ScoredSplit],
    notes: list[str],
    *,
    has_model: bool = False,
    **about: Any,
) -> Run:
    """Returns `derived_run` of a system, with the command that writes it into a folder."""
    words = ["import", system.name, system.pattern]
    words += ["--like", str(like.path), "--output", str(folder)]
    if system.features is not None:
        words += ["--features", system.features]
    file = system.file(like, "test")
    return derived_run(
        file,
        like,
        scored,
        model=system.name,
        origin=Imported(file=str(file), has_model=has_model),
        notes=notes,
        overrides=words,
        **about,
    )


def _of_model(
    system: Import,
    like: Run,
    folder: Path,
    load_splits: LoadSplits,
) -> tuple[Run, ImportedRanker, Splits]:
    """Applies a model to the data of a run, loaded again.

    Raises:
        ResultError: The file is not a supported model.
        DataError: The data differ from those of the run, or lack features of the model.
    """
    file = read_model_file(system.file(like, "test"))
    splits = load_splits(like, exact=file.reads_float64)
    check_fingerprints(like, splits)
    test = splits.test
    matched = match_features(file, test.feature_names, system.features)
    ranker = ImportedRanker.of(
        file, matched.columns, test.num_features, test.feature_names, test.categories
    )
    ranker.dates = test.dates
    ranker.encoded = test.encoded
    num_trees = len(ranker.trees().trees)
    scored = {}
    for name, split in splits:
        if name != "train":
            scores = ranker.predict(split.features)
            scored[name] = ScoredSplit(split, scores, split.query_keys, split.file_rows)
    notes = [
        f"Its model ({file.library}, {num_trees} trees) was imported from {file.path}; it was not trained or "
        "timed here.",
        matched.sentence,
        "It may have been trained on queries of this test set, which would make its metrics too high; "
        "compare it on queries that are newer than its training data.",
    ]
    notes.extend(_of_days(ranker))
    if file.library == OF_XGBOOST:
        notes.extend(_of_absent_features(ranker, like, test.features))
    if file.reads_float64 and test.features.dtype == np.float32:
        notes.append(
            f"The features of these data are float32, but {file.library} compares float64: a value between a "
            "threshold and the next float32 may go to the other side."
        )
    settings = {
        "_target_": f"{ImportedRanker.__module__}.{ImportedRanker.__qualname__}",
        "library": file.library,
        "file": str(file.path),
        "digest": model_digest(file.content),
        "features": matched.way,
    }
    run = _imported(
        system,
        like,
        folder,
        scored,
        notes,
        has_model=True,
        model_settings=settings,
        num_trees=num_trees,
    )
    return run, ranker, splits


def _of_days(ranker: ImportedRanker) -> Iterator[str]:
    """Yields a note for each feature of dates that an imported model uses."""
    names = {ranker.feature_names[column] for column in used_features(ranker.trees())}
    for name, first_day in ranker.dates.items():
        if name in names:
            yield (
                f"The model reads {name} as days since {first_day} (data.dates). If it was trained on other "
                "numbers, such as seconds, its scores are wrong: import it on a run without data.dates."
            )


def _of_absent_features(
    ranker: ImportedRanker, like: Run, features: AnyFeatures
) -> Iterator[str]:
    """Yields a note if zeros of LETOR text may be absent features, which XGBoost itself reads as missing."""
    if like.result.reading.get("absent") != 0:
        return
    parted = set()
    for split in splits_of(ranker.trees()):
        zero_left = split.threshold > 0
        if split.missing_left != zero_left:
            parted.add(split.feature)
    columns = sorted(parted)
    blocks = (block for _, block in row_blocks(features))
    if not all(block[:, columns].all() for block in blocks):
        yield (
            "An absent feature of the LETOR file is 0 here (data.absent=0), but XGBoost reads it as missing, "
            f"and {len(columns)} features of the model treat these differently. If the lines omit features, "
            "the scores are not those of XGBoost: import the model on a run with data.absent=nan."
        )


def check_fingerprints(
    like: Run,
    splits: Splits,
    names: Sequence[str] = ("valid", "test"),
    otherwise: str = "name a run on the new data",
) -> None:
    """Raises DataError if a loaded split is not that of the run.

    Args:
        names: the splits to check.
        otherwise: what to do instead of restoring the files, for the message.
    """
    for name, split in splits:
        before = like.result.fingerprint(name)
        if name in names and split.fingerprint != before:
            raise DataError(
                f"the {name} set of {like.path} has changed since the run: its fingerprint was {before}, and "
                f"is {split.fingerprint} now. Restore its files, or {otherwise}."
            )


def _importance_settings(like: Run) -> ImportanceSettings | None:
    """Returns the settings of the importances of a run, without those that need a fit; None without any."""
    recorded: Any = like.result.config.get("importance")
    if recorded is None:
        return None
    given = {name: value for name, value in recorded.items() if name != "_target_"}
    settings = ImportanceSettings(**given)
    without_fit = [kind for kind in settings.kinds if kind != DROP_COLUMN]
    return replace(settings, kinds=without_fit)
