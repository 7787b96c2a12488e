"""From runs to rows: each model's metrics, and its paired difference to the baseline, query by query.

A table holds the runs of one data set with one way of splitting it. Its rows are models; where runs of a
model have different settings, a row is a model with its settings. The runs of a row are arranged in cells:
what was trained on and judged (fold and fingerprints). Runs in one cell differ in their seed; their per-query
values are averaged first, so that a query counts once. Only the cells that every row has are counted. Every
value is computed anew from the stored raw scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ltrbench.data.sources import Published
from ltrbench.errors import ConfigError, ResultError, did_you_mean
from ltrbench.metrics import Evaluation, evaluate, parse_metric
from ltrbench.results import FINISHED, Run, RunResult
from ltrbench.shapes import PerQuery

Cell = tuple[int | None, str, str | None, str]
"""The fold, and the fingerprints of train, valid and test."""

CONFIDENCE = 0.95

# What does not tell two rows of a model apart, and what every fold of a data set has of its own.
_NOT_A_SETTING = ("_target_", "seed")
_OF_A_FOLD = ("fold", "train", "valid", "test")


@dataclass(frozen=True, eq=False)
class Judged:
    """A run with what its raw scores are worth on test; `query_ids` (Q,) names the queries of the
    evaluation, `weights` (Q,) are theirs, 1 where all count alike."""

    run: Run
    cell: Cell
    query_ids: NDArray[np.str_]
    weights: PerQuery
    evaluation: Evaluation


@dataclass(frozen=True)
class Row:
    """One model, with one set of settings, on one data set.

    Attributes:
        label: the model's name, with the settings that tell it from other rows of the same model.
        judged: its runs, in order, with their evaluations.
        metrics: name -> mean over cells of the mean over queries; None where no query counts.
        difference: mean over cells of the mean over paired queries of (this - baseline) in the comparison's
            metric; None for the baseline and where there is no common cell.
        interval: its 95 % interval, Student's t; None where a cell has fewer than two queries.
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
    tables = _by_data(finished)
    _check_baseline(finished, baseline)
    failures = [_failure(run) for run in runs if run.result.status != FINISHED]
    # A failure may have happened before its data was known, so that each stands under the first table.
    return [
        _compare_on(name, group, chosen, baseline, failures if number == 0 else [])
        for number, (name, group) in enumerate(tables.items())
    ]


def _compare_on(
    data: str, runs: Sequence[Run], metric: str, baseline: str | None, failures: Sequence[str]
) -> Comparison:
    groups = _by_label(runs)
    base = _find_baseline(groups, baseline)
    reported = (name for run in runs for name in _reported(run))
    names = list(dict.fromkeys([metric, *reported]))
    judged = {label: [_judge(run, names) for run in group] for label, group in groups.items()}
    counted, notes = _in_common_cells(judged)
    rows = [
        _row(label, own, None if label == base else counted[base], metric) for label, own in counted.items()
    ]
    published = runs[0].result.config.get("data", {}).get("published")
    return Comparison(
        data=data,
        metric=metric,
        baseline=base,
        rows=tuple(rows),
        notes=(*notes, *failures, *_run_notes(runs)),
        published=Published(**published) if published else None,
    )


def _by_data(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Table name -> runs: a data set's name, with those of its settings that vary where the fold does not."""
    settings = [_flatten(run.result.config.get("data", {})) for run in runs]
    places = [(str(run.result.data["name"]), run.result.data.get("fold")) for run in runs]
    tables: dict[str, list[Run]] = {}
    for run, own, place in zip(runs, settings, places, strict=True):
        rivals = [other for other, elsewhere in zip(settings, places, strict=True) if elsewhere == place]
        of_fold = _OF_A_FOLD if place[1] is not None else ()
        words = [f"data.{word}" for word in _varied(own, rivals, of_fold)]
        tables.setdefault(" ".join([place[0], *words]), []).append(run)
    return tables


def _by_label(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Row label -> runs: a model's name, with those of its settings that vary between its runs."""
    settings = [_flatten(run.result.config.get("model", {})) for run in runs]
    kinds = [(run.result.model, run.result.params) for run in runs]
    groups: dict[str, list[Run]] = {}
    for run, own, kind in zip(runs, settings, kinds, strict=True):
        rivals = [other for other, its in zip(settings, kinds, strict=True) if its == kind]
        of_model = {params for model, params in kinds if model == kind[0]}
        # Under library parameters every setting differs from the matched ones: the one word says it.
        words = [f"params={kind[1]}"] if len(of_model) > 1 and run.result.best_iteration is not None else []
        words += _varied(own, rivals, _NOT_A_SETTING)
        groups.setdefault(" ".join([kind[0], *words]), []).append(run)
    return groups


def _varied(own: dict[str, Any], rivals: Sequence[dict[str, Any]], but: Sequence[str]) -> list[str]:
    """`key=value` of those settings that are not the same in all rivals."""
    keys = sorted({key for item in rivals for key in item} - set(but))
    return [
        f"{key}={own[key]}"
        for key in keys
        if key in own and any(item.get(key) != own[key] for item in rivals)
    ]


def _flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _check_baseline(runs: Sequence[Run], wanted: str | None) -> None:
    """Raises ConfigError where no table has a row of that name."""
    labels = [label for group in _by_data(runs).values() for label in _by_label(group)]
    models = [run.result.model for run in runs]
    if wanted is not None and wanted not in (*labels, *models):
        known = list(dict.fromkeys(labels))
        raise ConfigError(
            f"no finished run of baseline '{wanted}'{did_you_mean(wanted, known)} "
            f"There are {', '.join(known)}."
        )


def _find_baseline(groups: dict[str, list[Run]], wanted: str | None) -> str:
    """The row of that label or model; the first where none is named, or this table has none of that name."""
    if wanted in groups:
        return str(wanted)
    of_model = [label for label, group in groups.items() if group[0].result.model == wanted]
    if len(of_model) > 1:
        raise ConfigError(f"baseline '{wanted}' is {len(of_model)} rows; name one: {', '.join(of_model)}.")
    return of_model[0] if of_model else next(iter(groups))


def _judge(run: Run, names: Sequence[str]) -> Judged:
    scored = run.scored("test")
    data = run.result.data
    fingerprints = [data.get(split, {}).get("fingerprint") for split in ("train", "valid", "test")]
    cell: Cell = (data.get("fold"), *fingerprints)
    evaluation = evaluate(scored.judgments, scored.scores, names)
    given = scored.judgments.query_weights
    weights = np.ones(scored.judgments.num_queries) if given is None else given
    return Judged(run, cell, scored.judgments.query_ids, weights, evaluation)


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


def _in_common_cells(judged: dict[str, list[Judged]]) -> tuple[dict[str, list[Judged]], list[str]]:
    """The runs in the cells that every row has, and what has to be said of the others."""
    cells = {label: {item.cell for item in own} for label, own in judged.items()}
    everywhere, common = set().union(*cells.values()), set.intersection(*cells.values())
    if common == everywhere:
        return judged, []
    if not common:
        return judged, ["The rows have no test set in common: each mean is over the row's own."]
    lacking = [
        f"{label} was judged on {len(own)} of {len(everywhere)} test sets; only the {len(common)} that every "
        "row has are counted."
        for label, own in cells.items()
        if len(own) < len(everywhere)
    ]
    return {label: [item for item in own if item.cell in common] for label, own in judged.items()}, lacking


def _row(label: str, judged: Sequence[Judged], base: Sequence[Judged] | None, metric: str) -> Row:
    cells = by_cell(judged)
    differences = [] if base is None else _paired_differences(cells, by_cell(base), metric)
    results = [item.run.result for item in judged]
    return Row(
        label=label,
        judged=tuple(judged),
        metrics={name: _mean_over_cells(cells, name) for name in judged[0].evaluation.means},
        difference=fmean(map(_mean_difference, differences)) if differences else None,
        interval=t_interval(differences),
        num_queries=sum(len(cell.values) for cell in differences),
        seconds=_mean_seconds(results),
        peak_memory_mb=_mean_known(result.peak_memory_mb for result in results),
        trees=_mean_known(result.best_iteration for result in results),
    )


class Paired(NamedTuple):
    """The differences of one cell: (n,) values, one a query that counts, and (n,) the queries' weights."""

    values: PerQuery
    weights: PerQuery


def _paired_differences(
    cells: dict[Cell, list[Judged]], base: dict[Cell, list[Judged]], metric: str
) -> list[Paired]:
    """The differences of each common cell."""
    differences = []
    for cell, own in cells.items():
        if cell not in base:
            continue
        values = mean_over_seeds(own, metric) - mean_over_seeds(base[cell], metric)
        counted = ~np.isnan(values)
        if counted.any():
            differences.append(Paired(values[counted], own[0].weights[counted]))
    return differences


def _mean_over_cells(cells: dict[Cell, list[Judged]], name: str) -> float | None:
    mean = fmean(fmean(item.evaluation.means[name] for item in judged) for judged in cells.values())
    return None if math.isnan(mean) else mean


def t_interval(cells: Sequence[Paired]) -> tuple[float, float] | None:
    """The 95 % interval of the mean over cells of a weighted mean difference m_c over queries.

    mean -+ t(df) sqrt(sum_c v_c) / C for C cells, with the variance of a weighted mean

        v_c = n_c / (n_c - 1) sum_i w_i^2 (d_i - m_c)^2 / (sum_i w_i)^2

    (Cochran, 1977, "Sampling Techniques", chapter 6, for a ratio), which is s_c^2 / n_c where all weights
    are alike (Student, 1908, where C = 1), and df = (sum_c v_c)^2 / sum_c(v_c^2 / (n_c - 1)) (Satterthwaite,
    1946). None where a cell has only one query. Assumes independent queries and a mean close to normal, as
    it is from some dozens of queries on.

    >>> t_interval([Paired(np.zeros(3), np.ones(3))])
    (0.0, 0.0)
    """
    sizes = np.array([len(cell.values) for cell in cells])
    if not len(sizes) or sizes.min() < 2:
        return None
    mean = fmean(map(_mean_difference, cells))
    variances = np.array([_variance_of_mean(cell) for cell in cells])
    if not variances.any():
        return mean, mean
    degrees = variances.sum() ** 2 / (variances**2 / (sizes - 1)).sum()
    # stdtrit is the quantile of Student's t; importing scipy.stats for it would take most of a second.
    quantile = float(stdtrit(degrees, (1 + CONFIDENCE) / 2))
    half = quantile * math.sqrt(variances.sum()) / len(cells)
    return mean - half, mean + half


def _mean_difference(cell: Paired) -> float:
    return float(np.average(cell.values, weights=cell.weights))


def _variance_of_mean(cell: Paired) -> float:
    deviations = cell.weights * (cell.values - _mean_difference(cell))
    n = len(deviations)
    return float(n / (n - 1) * (deviations**2).sum() / cell.weights.sum() ** 2)


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


def best_by_validation(comparison: Comparison) -> Run | None:
    """The run to use: of the row that reaches the highest mean of the metric on validation, the best.

    Test is not looked at. None where no row has a validation set.
    """
    key = f"valid/{comparison.metric}"
    reached: dict[str, dict[int, float]] = {}
    for row in comparison.rows:
        for number, item in enumerate(row.judged):
            value = item.run.result.metrics.get(key)
            if value is not None:
                reached.setdefault(row.label, {})[number] = value
    if not reached:
        return None
    best = max(reached, key=lambda label: fmean(reached[label].values()))
    number = max(reached[best], key=reached[best].__getitem__)
    return next(row for row in comparison.rows if row.label == best).judged[number].run


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
    notes.extend(f"{run.result.model} drifts: {_drift(run.result)}" for run in runs if _drift(run.result))
    return notes


def _drift(result: RunResult) -> str:
    """Where the library's own figures on its own scores are not ours; empty where they are."""
    if not result.drift.get("drifted"):
        return ""
    convention, own = result.drift["convention"], result.drift["own"]
    pairs = ", ".join(
        f"{name} {own[name]:.9f} against {ours:.9f}" for name, ours in result.drift["ours"].items()
    )
    return f"{convention} itself computes {pairs} of ours under its convention. Do not rely on either."


def _failure(run: Run) -> str:
    # The first line says what went wrong; a traceback may follow.
    reason = (run.result.error or "unknown").partition("\n")[0]
    return f"{run.result.model} failed ({run.path}): {reason}"


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
