"""From runs to rows: each model's metrics, and its paired difference to the baseline, query by query.

Runs of a data set are arranged in cells: what was judged (fold and fingerprint of test). Runs of one model in
one cell differ in their seed; their per-query values are averaged first, so that a query counts once. A
difference to the baseline is taken over the queries of the cells that both have. Every value is computed anew
from the stored raw scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ltrbench.data.sources import Published
from ltrbench.errors import ConfigError, ResultError, did_you_mean
from ltrbench.metrics import Evaluation, evaluate, parse_metric
from ltrbench.results import FINISHED, Run, RunResult
from ltrbench.shapes import PerQuery

Cell = tuple[int | None, str]
"""The fold and the fingerprint of test."""

CONFIDENCE = 0.95

# Settings that make another cell or name the model, and so do not tell two rows apart.
_NOT_IN_LABEL = ("model", "seed", "data", "experiment", "hydra", "tracking")


@dataclass(frozen=True, eq=False)
class Judged:
    """A run with what its raw scores are worth on test; `query_ids` (Q,) names the queries of the
    evaluation."""

    run: Run
    cell: Cell
    query_ids: NDArray[np.str_]
    evaluation: Evaluation


@dataclass(frozen=True)
class Row:
    """One model, with one set of settings, on one data set.

    Attributes:
        label: the model's name, with the settings that tell it from other rows of the same model.
        judged: its runs, in order, with their evaluations.
        metrics: name -> mean over cells of the mean over queries; None where no query counts.
        difference: mean over paired queries of (this - baseline) in the comparison's metric; None for the
            baseline and where there is no common cell.
        interval: 95 % interval of that difference, Student's t over queries; None for fewer than two.
        num_queries: how many queries the difference was taken over.
        seconds: kind -> mean over runs.
        peak_memory_mb, trees: mean over the runs that have one; None where none has.
    """

    label: str
    judged: tuple[Judged, ...]
    metrics: dict[str, float | None]
    difference: float | None
    interval: tuple[float, float] | None
    num_queries: int
    seconds: dict[str, float]
    peak_memory_mb: float | None
    trees: float | None


@dataclass(frozen=True)
class Comparison:
    """The rows of one data set.

    Attributes:
        data: the name of the data set.
        metric: what differences are taken in.
        baseline: the label of the row that the others are compared to.
        notes: what a reader of the numbers must know: skipped queries, failures, what could not be matched.
        published: what others reported on the data set; None where its YAML names nothing.
    """

    data: str
    metric: str
    baseline: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    published: Published | None = None


def compare(runs: Sequence[Run], metric: str | None = None, baseline: str | None = None) -> list[Comparison]:
    """Compares finished runs, a Comparison for each data set.

    Args:
        metric: such as ndcg@10; by default the ndcg with the largest cutoff that the runs report.
        baseline: a row's label or a model's name; by default the first model.

    Raises:
        ConfigError: on an unknown metric or baseline.
        ResultError: where no run is finished.
    """
    finished = [run for run in runs if run.result.status == FINISHED]
    if not finished:
        raise ResultError(f"there is no finished run to compare. {'; '.join(_failure(run) for run in runs)}")
    chosen = metric or _default_metric(finished)
    parse_metric(chosen)
    by_data: dict[str, list[Run]] = {}
    for run in runs:
        by_data.setdefault(str(run.result.data["name"]), []).append(run)
    comparisons = [_compare_on(name, group, chosen, baseline) for name, group in by_data.items()]
    return [comparison for comparison in comparisons if comparison is not None]


def _compare_on(data: str, runs: Sequence[Run], metric: str, baseline: str | None) -> Comparison | None:
    """The comparison on one data set; None where none of its runs is finished."""
    finished = [run for run in runs if run.result.status == FINISHED]
    if not finished:
        return None
    groups = _by_label(finished)
    base = _find_baseline(groups, baseline)
    reported = (name for run in finished for name in _reported(run))
    names = list(dict.fromkeys([metric, *reported]))
    judged = {label: [_judge(run, names) for run in group] for label, group in groups.items()}
    rows = [
        _row(label, own, None if label == base else judged[base], metric) for label, own in judged.items()
    ]
    failures = [_failure(run) for run in runs if run.result.status != FINISHED]
    notes = [*_cell_notes(judged, base), *failures, *_run_notes(finished)]
    published = finished[0].result.config.get("data", {}).get("published")
    return Comparison(
        data, metric, base, tuple(rows), tuple(notes), Published(**published) if published else None
    )


def _by_label(runs: Sequence[Run]) -> dict[str, list[Run]]:
    settings = [_settings(run) for run in runs]
    keys = sorted({key for item in settings for key in item})
    varied = [key for key in keys if len({item.get(key) for item in settings}) > 1]
    groups: dict[str, list[Run]] = {}
    for run, item in zip(runs, settings, strict=True):
        words = [run.result.model, *(f"{key}={item[key]}" for key in varied if key in item)]
        groups.setdefault(" ".join(words), []).append(run)
    return groups


def _settings(run: Run) -> dict[str, str]:
    """The run's own settings that may tell its row from another, with their values."""
    pairs = (override.lstrip("+").partition("=") for override in run.result.overrides)
    return {
        key: value
        for key, _, value in pairs
        if key.startswith("model.") or key.partition(".")[0] not in _NOT_IN_LABEL
    }


def _find_baseline(groups: dict[str, list[Run]], wanted: str | None) -> str:
    if wanted is None:
        return next(iter(groups))
    for label, group in groups.items():
        if wanted in (label, group[0].result.model):
            return label
    raise ConfigError(
        f"no finished run of baseline '{wanted}'{did_you_mean(wanted, groups)} There are {', '.join(groups)}."
    )


def _judge(run: Run, names: Sequence[str]) -> Judged:
    scored = run.scored("test")
    cell = (run.result.data.get("fold"), str(run.result.data["test"]["fingerprint"]))
    evaluation = evaluate(scored.judgments, scored.scores, names)
    return Judged(run, cell, scored.judgments.query_ids, evaluation)


def by_cell(judged: Sequence[Judged]) -> dict[Cell, list[Judged]]:
    """The runs of one model, those that differ in their seed only together."""
    cells: dict[Cell, list[Judged]] = {}
    for item in judged:
        cells.setdefault(item.cell, []).append(item)
    return cells


def mean_over_seeds(judged: Sequence[Judged], metric: str) -> PerQuery:
    """(Q,), so that a query counts once however many seeds there are."""
    seeds = np.stack([item.evaluation.per_query[metric] for item in judged])
    means: PerQuery = seeds.mean(axis=0)
    return means


def _row(label: str, judged: Sequence[Judged], base: Sequence[Judged] | None, metric: str) -> Row:
    cells = by_cell(judged)
    differences = np.array([]) if base is None else _paired_differences(cells, by_cell(base), metric)
    results = [item.run.result for item in judged]
    return Row(
        label=label,
        judged=tuple(judged),
        metrics={name: _mean_over_cells(cells, name) for name in judged[0].evaluation.means},
        difference=float(differences.mean()) if differences.size else None,
        interval=t_interval(differences),
        num_queries=differences.size,
        seconds=_mean_seconds(results),
        peak_memory_mb=_mean_known(result.peak_memory_mb for result in results),
        trees=_mean_known(result.best_iteration for result in results),
    )


def _paired_differences(
    cells: dict[Cell, list[Judged]], base: dict[Cell, list[Judged]], metric: str
) -> PerQuery:
    common = [
        mean_over_seeds(own, metric) - mean_over_seeds(base[cell], metric)
        for cell, own in cells.items()
        if cell in base
    ]
    differences = np.concatenate(common) if common else np.array([])
    paired: PerQuery = differences[~np.isnan(differences)]
    return paired


def _mean_over_cells(cells: dict[Cell, list[Judged]], name: str) -> float | None:
    mean = fmean(fmean(item.evaluation.means[name] for item in judged) for judged in cells.values())
    return None if math.isnan(mean) else mean


def t_interval(differences: PerQuery) -> tuple[float, float] | None:
    """The 95 % interval of a mean difference, mean -+ t(n - 1) s / sqrt(n); Student, 1908. None for n < 2.

    Assumes independent queries and a mean that is close to normal, as it is from some dozens of queries on.

    >>> t_interval(np.array([0.0, 0.0, 0.0]))
    (0.0, 0.0)
    """
    if len(differences) < 2:
        return None
    mean = float(differences.mean())
    # stdtrit is the quantile of Student's t; importing scipy.stats for it would take most of a second.
    quantile = float(stdtrit(len(differences) - 1, (1 + CONFIDENCE) / 2))
    half = quantile * float(differences.std(ddof=1)) / math.sqrt(len(differences))
    return mean - half, mean + half


def _mean_seconds(results: Sequence[RunResult]) -> dict[str, float]:
    kinds = dict.fromkeys(kind for result in results for kind in result.seconds)
    return {kind: fmean(item.seconds[kind] for item in results if kind in item.seconds) for kind in kinds}


def _mean_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _reported(run: Run) -> list[str]:
    return [name.removeprefix("test/") for name in run.result.metrics if name.startswith("test/")]


def _default_metric(runs: Sequence[Run]) -> str:
    names = _reported(runs[0])
    ndcgs = [name for name in names if parse_metric(name)[0] == "ndcg"]
    return max(ndcgs, key=lambda name: parse_metric(name)[1] or math.inf) if ndcgs else names[0]


def _cell_notes(judged: dict[str, list[Judged]], base: str) -> list[str]:
    cells = {label: {item.cell for item in own} for label, own in judged.items()}
    everywhere = set().union(*cells.values())
    return [
        f"{label} was judged on {len(own)} of {len(everywhere)} test sets: its means are over those, "
        f"its difference over those it shares with {base}."
        for label, own in cells.items()
        if len(own) < len(everywhere)
    ]


def _run_notes(runs: Sequence[Run]) -> list[str]:
    convention = runs[0].result.convention
    share = fmean(run.result.data["test"]["queries_without_relevant_document"] for run in runs)
    threads = ", ".join(str(count) for count in sorted({run.result.threads for run in runs}))
    params = ", ".join(sorted({run.result.params for run in runs}))
    notes = [
        f"Convention {convention['name']}: {convention['gain'].replace('_', ' ')}, ties count with their "
        f"expected value; the {100 * share:.1f} % of test queries without a relevant document are skipped.",
        f"Threads: {threads}. Parameters: {params}. Fit includes its evaluator.",
    ]
    for model in dict.fromkeys(run.result.model for run in runs):
        own = [run.result for run in runs if run.result.model == model]
        sentences = dict.fromkeys(sentence for result in own for sentence in result.unmatched)
        notes.extend(f"{model}: {sentence}" for sentence in sentences)
    return notes


def _failure(run: Run) -> str:
    reason = (run.result.error or "unknown").splitlines()
    return f"{run.result.model} failed ({run.path}): {reason[-1] if reason else 'unknown'}"


def as_json(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """The comparison as one object: the metric, a record a run, and a record a row.

    A run's metrics hold what it recorded ("test/ndcg@10", "valid/ndcg@10") and, under their bare names, what
    was computed on test for this comparison.
    """
    rows = [(comparison, row) for comparison in comparisons for row in comparison.rows]
    return {
        "metric": comparisons[0].metric,
        "runs": [_run_record(comparison, row, item) for comparison, row in rows for item in row.judged],
        "rows": [
            {
                "data": comparison.data,
                "label": row.label,
                "baseline": comparison.baseline,
                "metrics": row.metrics,
                "difference": row.difference,
                "interval": row.interval,
                "num_queries": row.num_queries,
            }
            for comparison, row in rows
        ],
        "notes": [note for comparison in comparisons for note in comparison.notes],
    }


def _run_record(comparison: Comparison, row: Row, judged: Judged) -> dict[str, Any]:
    result = judged.run.result
    computed = {name: None if math.isnan(mean) else mean for name, mean in judged.evaluation.means.items()}
    return {
        "model": result.model,
        "label": row.label,
        "data": comparison.data,
        "fold": result.data.get("fold"),
        "seed": result.seed,
        "metrics": {**result.metrics, **computed},
        "seconds": dict(result.seconds),
        "peak_memory_mb": result.peak_memory_mb,
        "best_iteration": result.best_iteration,
        "path": str(judged.run.path),
    }
