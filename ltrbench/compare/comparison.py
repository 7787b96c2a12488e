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
from scipy.special import stdtrit

from ltrbench.errors import ConfigError, ResultError, did_you_mean
from ltrbench.metrics import Evaluation, evaluate, parse_metric
from ltrbench.results import FINISHED, Run
from ltrbench.shapes import PerQuery

Cell = tuple[int | None, str]
CONFIDENCE = 0.95

# Settings that make another cell or name the model, and so do not tell two rows apart.
_NOT_IN_LABEL = ("model", "seed", "data", "experiment", "hydra", "tracking")


@dataclass(frozen=True)
class Row:
    """One model, with one set of settings, on one data set.

    Attributes:
        label: the model's name, with the settings that tell it from other rows of the same model.
        runs: its runs, in order.
        metrics: name -> mean over cells of the mean over queries; None where no query counts.
        difference: mean over paired queries of (this - baseline) in the comparison's metric; None for the
            baseline and where there is no common cell.
        interval: 95 % interval of that difference, Student's t over queries; None for fewer than two.
        num_queries: how many queries the difference was taken over.
        seconds: kind -> mean over runs.
        peak_memory_mb, trees: mean over the runs that have one; None where none has.
    """

    label: str
    runs: tuple[Run, ...]
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
    """

    data: str
    metric: str
    baseline: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


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
        reasons = "; ".join(_failure(run) for run in runs)
        raise ResultError(f"there is no finished run to compare. {reasons}")
    chosen = metric or _default_metric(finished)
    parse_metric(chosen)
    names = list(dict.fromkeys(str(run.result.data["name"]) for run in finished))
    return [
        _compare_on(
            name, [run for run in finished if run.result.data["name"] == name], runs, chosen, baseline
        )
        for name in names
    ]


def _compare_on(
    data: str, finished: list[Run], everything: Sequence[Run], metric: str, baseline: str | None
) -> Comparison:
    groups = _by_label(finished)
    base = _find_baseline(groups, baseline)
    reported = list(dict.fromkeys(name for run in finished for name in _reported(run)))
    names = list(dict.fromkeys([metric, *reported]))
    cells = {label: _cells(group, names) for label, group in groups.items()}
    rows = [
        _row(label, groups[label], cells[label], None if label == base else cells[base], metric, names)
        for label in groups
    ]
    failures = [
        run for run in everything if run.result.status != FINISHED and run.result.data["name"] == data
    ]
    notes = [*_cell_notes(cells, base), *map(_failure, failures), *_run_notes(finished)]
    return Comparison(data, metric, base, tuple(rows), tuple(notes))


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
    """The run's own settings, without those that a table does not tell rows apart by."""
    pairs = (override.lstrip("+").partition("=") for override in run.result.overrides)
    return {
        key: value for key, _, value in pairs if key.partition(".")[0] not in _NOT_IN_LABEL or _is_field(key)
    }


def _is_field(key: str) -> bool:
    return key.startswith("model.")


def _find_baseline(groups: dict[str, list[Run]], wanted: str | None) -> str:
    if wanted is None:
        return next(iter(groups))
    for label, group in groups.items():
        if wanted in (label, group[0].result.model):
            return label
    raise ConfigError(
        f"no finished run of baseline '{wanted}'{did_you_mean(wanted, groups)} There are {', '.join(groups)}."
    )


def _cells(runs: Sequence[Run], names: Sequence[str]) -> dict[Cell, list[Evaluation]]:
    cells: dict[Cell, list[Evaluation]] = {}
    for run in runs:
        scored = run.scored("test")
        cell = (run.result.data.get("fold"), str(run.result.data["test"]["fingerprint"]))
        cells.setdefault(cell, []).append(evaluate(scored.judgments, scored.scores, names))
    return cells


def _row(
    label: str,
    runs: Sequence[Run],
    cells: dict[Cell, list[Evaluation]],
    base: dict[Cell, list[Evaluation]] | None,
    metric: str,
    names: Sequence[str],
) -> Row:
    differences = np.array([]) if base is None else _paired_differences(cells, base, metric)
    return Row(
        label=label,
        runs=tuple(runs),
        metrics={name: _number(_mean_over_cells(cells, name)) for name in names},
        difference=float(differences.mean()) if differences.size else None,
        interval=t_interval(differences),
        num_queries=differences.size,
        seconds=_mean_seconds(runs),
        peak_memory_mb=_mean_known(run.result.peak_memory_mb for run in runs),
        trees=_mean_known(run.result.best_iteration for run in runs),
    )


def _paired_differences(
    cells: dict[Cell, list[Evaluation]], base: dict[Cell, list[Evaluation]], metric: str
) -> PerQuery:
    common = [
        _per_query(cells[cell], metric) - _per_query(base[cell], metric) for cell in cells if cell in base
    ]
    differences = np.concatenate(common) if common else np.array([])
    paired: PerQuery = differences[~np.isnan(differences)]
    return paired


def _per_query(evaluations: Sequence[Evaluation], metric: str) -> PerQuery:
    """(Q,), the mean over seeds."""
    seeds = np.stack([evaluation.per_query[metric] for evaluation in evaluations])
    means: PerQuery = seeds.mean(axis=0)
    return means


def _mean_over_cells(cells: dict[Cell, list[Evaluation]], name: str) -> float:
    return fmean(
        fmean(evaluation.means[name] for evaluation in evaluations) for evaluations in cells.values()
    )


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


def _mean_seconds(runs: Sequence[Run]) -> dict[str, float]:
    kinds = dict.fromkeys(kind for run in runs for kind in run.result.seconds)
    return {
        kind: fmean(run.result.seconds[kind] for run in runs if kind in run.result.seconds) for kind in kinds
    }


def _mean_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _reported(run: Run) -> list[str]:
    return [name.removeprefix("test/") for name in run.result.metrics if name.startswith("test/")]


def _default_metric(runs: Sequence[Run]) -> str:
    names = _reported(runs[0])
    ndcgs = [name for name in names if parse_metric(name)[0] == "ndcg"]
    return max(ndcgs, key=lambda name: parse_metric(name)[1] or math.inf) if ndcgs else names[0]


def _cell_notes(cells: dict[str, dict[Cell, list[Evaluation]]], base: str) -> list[str]:
    notes = []
    everywhere = {cell for item in cells.values() for cell in item}
    for label, own in cells.items():
        if len(own) < len(everywhere):
            notes.append(
                f"{label} was judged on {len(own)} of {len(everywhere)} test sets: its means are over those, "
                f"its difference over those it shares with {base}."
            )
    return notes


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
    """The comparison as one object: the metric, a record a run, and a record a row."""
    rows = [(comparison, row) for comparison in comparisons for row in comparison.rows]
    return {
        "metric": comparisons[0].metric,
        "runs": [
            {
                "model": run.result.model,
                "label": row.label,
                "data": comparison.data,
                "fold": run.result.data.get("fold"),
                "seed": run.result.seed,
                "metrics": dict(run.result.metrics),
                "seconds": dict(run.result.seconds),
                "peak_memory_mb": run.result.peak_memory_mb,
                "best_iteration": run.result.best_iteration,
                "path": str(run.path),
            }
            for comparison, row in rows
            for run in row.runs
        ],
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
