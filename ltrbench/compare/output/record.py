"""A comparison as one JSON object: the output of --json and the content of comparison.json; null for NaN."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ltrbench.compare.analysis.across import Across, across
from ltrbench.compare.analysis.methods import family_of
from ltrbench.compare.analysis.next_step import NextStep, next_step
from ltrbench.compare.analysis.recommendation import Recommendation, recommend
from ltrbench.compare.analysis.slices import Slice, interactions
from ltrbench.compare.analysis.verdict import claim_with_scope, verdict
from ltrbench.compare.comparison import Comparison, ModelRow
from ltrbench.compare.pairing.cells import EvaluatedRun
from ltrbench.compare.pairing.pairs import OverFolds, Pair
from ltrbench.compare.pairing.searches import SearchTotals, search_totals
from ltrbench.metrics.plugins import plugin_versions
from ltrbench.statistics import Inference, Interval


def comparisons_as_json(
    comparisons: Sequence[Comparison], slices: Mapping[str, Sequence[Slice]] | None = None
) -> dict[str, Any]:
    """Returns the settings, and one record per run, row, pair of the family, slice and note.

    The metrics of a run hold the values that it recorded ("test/ndcg@10", "valid/ndcg@10") and, under their
    bare names, the values on test that were computed for this comparison under its convention.

    Args:
        slices: Data set -> its slices.
    """
    first = comparisons[0]
    rows = [(comparison, row) for comparison in comparisons for row in comparison.rows]
    return {
        "metric": first.metric,
        "convention": first.settings.convention.name,
        "convention_fields": first.settings.convention.describe(),
        "plugins": plugin_versions(),
        "family": family_of(first),
        "comparisons": [
            {
                "data": comparison.data,
                "baseline": comparison.baseline,
                "best": comparison.best,
                "family": family_of(comparison),
                "next_step": _fields(next_step(comparison)),
                "recommendation": _fields(recommend(comparison)),
            }
            for comparison in comparisons
        ],
        "draws": {"number": first.settings.num_draws, "seed": first.settings.seed},
        "verdicts": {comparison.data: verdict(comparison) for comparison in comparisons},
        "runs": [_run_record(comparison, row, item) for comparison, row in rows for item in row.evaluated],
        "rows": [_row_record(comparison, row) for comparison, row in rows],
        "claimed_metrics": [first.metric, *first.declared],
        "rope": first.settings.rope,
        "pairs": [_pair_record(comparison, pair) for comparison in comparisons for pair in comparison.claims],
        "slices": [
            {"data": data, **asdict(item)} for data, kinds in (slices or {}).items() for item in kinds
        ],
        "interactions": [
            {"data": item.data, **asdict(tested)}
            for item in comparisons
            for tested in interactions(item, (slices or {}).get(item.data, ()))
        ],
        "across_data_sets": _fields(across(comparisons)),
        "notes": [note for comparison in comparisons for note in comparison.notes],
        "note_entries": [
            {"data": comparison.data, **asdict(note)}
            for comparison in comparisons
            for note in comparison.note_entries
        ],
    }


def figures_by_name(comparisons: Sequence[Comparison]) -> dict[str, float]:
    """Returns flat name -> value, such as "native/ndcg@10" -> its mean over folds and seeds.

    Includes the difference to the baseline, its interval and its Holm-adjusted p-value.
    """
    figures: dict[str, float | None] = {}
    for comparison in comparisons:
        place = f"{comparison.data}/" if len(comparisons) > 1 else ""
        for row in comparison.rows:
            figures |= {f"{place}{row.label}/{name}": value for name, value in row.metrics.items()}
            if row.to_baseline is not None:
                against = f"{place}{row.label}/{comparison.metric} minus {comparison.baseline}"
                low, high = _ends(row.to_baseline.interval) or (None, None)
                figures |= {
                    against: row.to_baseline.difference,
                    f"{against} low": low,
                    f"{against} high": high,
                }
                figures[f"{against} p Holm"] = row.to_baseline.p_adjusted["holm"]["randomisation"]
    return {name: value for name, value in figures.items() if value is not None}


def claims(comparisons: Sequence[Comparison]) -> dict[str, str]:
    """Returns pair -> claim with scope: "native vs lightgbm, ndcg@10" -> "better (these trained models)"."""
    return {
        f"{f'{comparison.data}: ' if len(comparisons) > 1 else ''}{pair.a} vs {pair.b}, {pair.metric}": (
            claim_with_scope(pair)
        )
        for comparison in comparisons
        for pair in comparison.claims
    }


def _run_record(comparison: Comparison, row: ModelRow, evaluated: EvaluatedRun) -> dict[str, Any]:
    result = evaluated.run.result
    computed = {name: None if math.isnan(mean) else mean for name, mean in evaluated.evaluation.means.items()}
    return {
        "model": result.model,
        "ranker": dict(result.ranker),
        "params": result.params,
        "own_settings": dict(result.own_settings),
        "search": dict(result.search) or None,
        "label": row.label,
        "data": comparison.data,
        "fold": result.data.get("fold"),
        "resample": result.data.get("resample"),
        "seed": result.seed,
        "fingerprints": evaluated.cell.fingerprints,
        "metrics": {**result.metrics, **computed},
        "seconds": dict(result.seconds),
        "shared_machine": result.shared_machine,
        "peak_memory_mb": result.peak_memory_mb,
        "best_iteration": result.best_iteration,
        "versions": dict(result.versions),
        "commit": result.commit,
        "path": str(evaluated.run.path),
    }


def _row_record(comparison: Comparison, row: ModelRow) -> dict[str, Any]:
    pair = row.to_baseline
    return {
        "data": comparison.data,
        "label": row.label,
        "trainings": comparison.replicates[row.label],
        "search": _fields(search_totals(row.group)),
        "baseline": comparison.baseline,
        "metrics": dict(row.metrics),
        "interval": _ends(row.interval),
        "difference": None if pair is None else pair.difference,
        "difference_interval": None if pair is None else _ends(pair.interval),
        "scope": None if pair is None else pair.scope,
        "claim": None if pair is None else pair.claim,
        "num_queries": 0 if pair is None else pair.statistics.num_queries,
        "difference_to_best_interval": _ends(row.to_best),
        "seconds": dict(row.seconds),
        "peak_memory_mb": row.peak_memory_mb,
        "model_mb": row.model_mb,
        "trees": row.trees,
    }


def _pair_record(comparison: Comparison, pair: Pair) -> dict[str, Any]:
    statistics = pair.statistics
    return {
        "data": comparison.data,
        "a": pair.a,
        "b": pair.b,
        "metric": pair.metric,
        "scope": pair.scope,
        "claim": pair.claim,
        "reason": pair.reason,
        "difference": pair.difference,
        "interval": _ends(pair.interval),
        "interval_method": None if pair.interval is None else pair.interval.method,
        "inference": _fields(pair.inference),
        "models_interval": _ends(statistics.interval),
        "models_interval_method": None if statistics.interval is None else statistics.interval.method,
        "p_value": dict(statistics.p_values),
        "p_adjusted": {name: dict(values) for name, values in pair.p_adjusted.items()},
        "effect_size": statistics.effect_size,
        "wins": statistics.wins,
        "ties": statistics.ties,
        "losses": statistics.losses,
        "num_queries": statistics.num_queries,
        "note": statistics.note,
        "over_folds": _fields(pair.over_folds),
        "power": asdict(pair.power),
    }


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _fields(
    item: Across | NextStep | Recommendation | Inference | OverFolds | SearchTotals | None,
) -> dict[str, Any] | None:
    return None if item is None else asdict(item)
