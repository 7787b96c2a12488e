"""A comparison as one JSON object: what --json prints, and comparison.json holds. null, never NaN."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ltrbench.compare.analysis.across import across
from ltrbench.compare.analysis.methods import family_of
from ltrbench.compare.analysis.next_step import next_step
from ltrbench.compare.analysis.slices import Slice, interactions
from ltrbench.compare.analysis.verdict import claim_with_scope, verdict
from ltrbench.compare.comparison import Comparison, Row
from ltrbench.compare.pairing.cells import Judged
from ltrbench.compare.pairing.pairs import OverFolds, Pair
from ltrbench.metrics.plugins import plugin_versions
from ltrbench.statistics import Interval


def as_json(
    comparisons: Sequence[Comparison], slices: Mapping[str, Sequence[Slice]] | None = None
) -> dict[str, Any]:
    """The metric, a record a run, a record a row, and a record a pair of the family that was asked for.

    A run's metrics hold what it recorded ("test/ndcg@10", "valid/ndcg@10") and, under their bare names, what
    was computed on test for this comparison, under its convention.

    Args:
        slices: data -> its slices.
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
                "next_step": _or_none(next_step(comparison)),
            }
            for comparison in comparisons
        ],
        "draws": {"number": first.settings.num_draws, "seed": first.settings.seed},
        "verdicts": {comparison.data: verdict(comparison) for comparison in comparisons},
        "runs": [_run_record(comparison, row, item) for comparison, row in rows for item in row.judged],
        "rows": [_row_record(comparison, row) for comparison, row in rows],
        "claimed_metrics": [first.metric, *first.declared],
        "rope": first.settings.rope,
        "pairs": [_pair_record(comparison, pair) for comparison in comparisons for pair in comparison.claims],
        "slices": [
            {"data": data, **asdict(item)} for data, found in (slices or {}).items() for item in found
        ],
        "interactions": [
            {"data": item.data, **asdict(tested)}
            for item in comparisons
            for tested in interactions(item, (slices or {}).get(item.data, ()))
        ],
        "across_data_sets": _or_none(across(comparisons)),
        "notes": [note for comparison in comparisons for note in comparison.notes],
    }


def figures(comparisons: Sequence[Comparison]) -> dict[str, float]:
    """What each row comes to over its folds and seeds, such as "native/ndcg@10", by flat names.

    The difference to the baseline stands beside its interval and its Holm-adjusted p-value.
    """
    found: dict[str, float | None] = {}
    for comparison in comparisons:
        place = f"{comparison.data}/" if len(comparisons) > 1 else ""
        for row in comparison.rows:
            found |= {f"{place}{row.label}/{name}": value for name, value in row.metrics.items()}
            if row.to_baseline is not None:
                against = f"{place}{row.label}/{comparison.metric} minus {comparison.baseline}"
                low, high = _ends(row.to_baseline.interval) or (None, None)
                found |= {against: row.to_baseline.difference, f"{against} low": low, f"{against} high": high}
                found[f"{against} p Holm"] = row.to_baseline.p_adjusted["holm"]["randomisation"]
    return {name: value for name, value in found.items() if value is not None}


def claims(comparisons: Sequence[Comparison]) -> dict[str, str]:
    """Pair -> claim and scope: "native vs lightgbm, ndcg@10" -> "better (these trained models)"."""
    return {
        f"{f'{comparison.data}: ' if len(comparisons) > 1 else ''}{pair.a} vs {pair.b}, {pair.metric}": (
            claim_with_scope(pair)
        )
        for comparison in comparisons
        for pair in comparison.claims
    }


def _run_record(comparison: Comparison, row: Row, judged: Judged) -> dict[str, Any]:
    result = judged.run.result
    computed = {name: None if math.isnan(mean) else mean for name, mean in judged.evaluation.means.items()}
    return {
        "model": result.model,
        "ranker": dict(result.ranker),
        "params": result.params,
        "own_settings": dict(result.own_settings),
        "label": row.label,
        "data": comparison.data,
        "fold": result.data.get("fold"),
        "resample": result.data.get("resample"),
        "seed": result.seed,
        "fingerprints": dict(zip(("train", "valid", "test"), judged.cell[1:], strict=True)),
        "metrics": {**result.metrics, **computed},
        "seconds": dict(result.seconds),
        "peak_memory_mb": result.peak_memory_mb,
        "best_iteration": result.best_iteration,
        "versions": dict(result.versions),
        "commit": result.commit,
        "path": str(judged.run.path),
    }


def _row_record(comparison: Comparison, row: Row) -> dict[str, Any]:
    pair = row.to_baseline
    return {
        "data": comparison.data,
        "label": row.label,
        "trainings": comparison.replicates[row.label],
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
    said = pair.statistics
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
        "inference": None if pair.inference is None else asdict(pair.inference),
        "models_interval": _ends(said.interval),
        "models_interval_method": None if said.interval is None else said.interval.method,
        "p_value": dict(said.p_values),
        "p_adjusted": {name: dict(values) for name, values in pair.p_adjusted.items()},
        "effect_size": said.effect_size,
        "wins": said.wins,
        "ties": said.ties,
        "losses": said.losses,
        "num_queries": said.num_queries,
        "note": said.note,
        "over_folds": _fold_record(pair.over_folds),
        "power": asdict(pair.power),
    }


def _fold_record(found: OverFolds | None) -> dict[str, Any] | None:
    return None if found is None else asdict(found)


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _or_none(found: Any) -> dict[str, Any] | None:
    return None if found is None else asdict(found)
