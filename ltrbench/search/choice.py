"""The choice after a search: trials from their run folders, the trial with the highest value, its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from math import nan
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Splits
from ltrbench.data.dataset import num_shared
from ltrbench.errors import ResultError
from ltrbench.metrics import evaluate
from ltrbench.runs import FINISHED, Run
from ltrbench.runs.reading import COMPLETE, PARTIAL, PRUNED, UNSUCCESSFUL, TrialRow
from ltrbench.runs.record import SearchRecord
from ltrbench.search.base import Proposal, Search, SearchedModel, Trial, Value
from ltrbench.statistics import Interval, PairedSample, winner_intervals
from ltrbench.tables import listed

_RECORDED_APART = ("space", "seed", "metric", "choose")
"""Settings of a search that are no part of `SearchRecord.budget`."""


def trial_of(proposal: Proposal, runs: Sequence[Run], metric: str) -> Trial:
    """Returns a trial that has ended.

    Args:
        runs: one run per fold, at least one; the trial failed if one of them did.
        metric: metric on validation.
    """
    values = [run.result.metrics.get(f"valid/{metric}") for run in runs]
    known = [value for value in values if value is not None]
    finished = all(run.result.status == FINISHED for run in runs)
    curves = [_best_so_far(run, metric) for run in runs]
    return Trial(
        proposal=proposal,
        value=fmean(known) if finished and len(known) == len(runs) else None,
        iterations=sum(len(run.learning_curve().iterations) for run in runs),
        seconds=sum(run.result.seconds.get("fit", 0.0) for run in runs),
        curve=_mean_curve(curves, proposal.minimum),
        is_pruned=any(_is_pruned(curve, proposal.minimum) for curve in curves),
    )


def _best_so_far(run: Run, metric: str) -> dict[int, float]:
    """Returns number of trees -> highest value on validation so far; empty if there is no such curve."""
    curve = run.learning_curve()
    values = np.array(curve.values.get(f"valid/{metric}", []))
    return dict(zip(curve.iterations, np.fmax.accumulate(values).tolist(), strict=False))


def _mean_curve(curves: Sequence[Mapping[int, float]], minimum: Mapping[int, float]) -> dict[int, float]:
    """Returns the mean over folds; it ends with the first pruned fold, and is empty if a fold has no curve.

    A fold that early stopping ended keeps its last value.
    """
    if not all(curves):
        return {}
    longest = max(curves, key=len)
    end = min((max(curve) for curve in curves if _is_pruned(curve, minimum)), default=max(longest))
    return {
        number: fmean(curve.get(number, curve[max(curve)]) for curve in curves)
        for number in longest
        if number <= end
    }


def _is_pruned(curve: Mapping[int, float], minimum: Mapping[int, float]) -> bool:
    last = max(curve, default=0)
    return last in minimum and curve[last] < minimum[last]


def chosen(trials: Sequence[Trial], reason: str = "") -> Trial:
    """Returns the complete trial with the highest value, the one with the lowest number in case of ties.

    Args:
        reason: why the first trial failed, for the error; empty if unknown.

    Raises:
        ResultError: no trial is complete.
    """
    complete = [trial for trial in trials if trial.is_complete]
    if not complete:
        num_failed = sum(trial.value is None for trial in trials)
        raise ResultError(
            f"the search has no trial to choose: {num_failed} of {len(trials)} trials failed, and no other "
            "was trained on all folds with all trees."
            + (f" The first failure: {reason.rstrip('.')}." if reason else "")
            + " Repeat the command after the repair; finished trials are kept."
        )
    return max(complete, key=lambda trial: (trial.value, -trial.proposal.number))


def rows(
    trials: Sequence[Trial], winner: Trial, runs: Mapping[int, Sequence[Run]], metric: str, seed: int = 0
) -> list[TrialRow]:
    """Returns the rows of trials.csv.

    Args:
        winner: the trial of `chosen`.
        runs: number of each complete trial -> its runs, one per fold in the same order.
        metric: metric on validation.
        seed: random seed of the bootstrap of the intervals.

    Raises:
        ResultError: a run has no scores of validation.
    """
    complete = [trial.proposal.number for trial in trials if trial.is_complete]
    sample = _on_validation([runs[number] for number in complete], metric)
    of_complete = winner_intervals(sample, complete.index(winner.proposal.number), seed=seed)
    intervals = dict(zip(complete, of_complete, strict=True))
    return [_row(trial, intervals.get(trial.proposal.number)) for trial in trials]


def _on_validation(runs_of_trials: Sequence[Sequence[Run]], metric: str) -> PairedSample:
    """Returns values (T, Q) of complete trials under the default convention; the folds are strata."""
    judgments = [run.scored("valid").judgments for run in runs_of_trials[0]]
    values: list[NDArray[np.float64]] = []
    weights: list[NDArray[np.float64]] = []
    for fold, judged in enumerate(judgments):
        evaluations = [
            evaluate(judged, runs[fold].scored("valid", judged).scores, [metric]) for runs in runs_of_trials
        ]
        weighting = evaluations[0].weightings[metric]
        of_fold = np.stack([weighting.rescaled(item.per_query[metric]) for item in evaluations])
        counted = ~np.isnan(of_fold).any(axis=0)
        values.append(of_fold[:, counted])
        weights.append(weighting.weights[counted])
    strata = np.repeat(np.arange(len(weights)), [len(of_fold) for of_fold in weights])
    return PairedSample.of(np.concatenate(values, axis=1), np.concatenate(weights), strata)


def _row(trial: Trial, interval: Interval | None) -> TrialRow:
    state = PRUNED if trial.is_pruned else PARTIAL
    if trial.is_complete:
        state = COMPLETE
    elif trial.value is None:
        state = UNSUCCESSFUL
    return TrialRow(
        trial=trial.proposal.number,
        state=state,
        value=nan if trial.value is None else trial.value,
        iterations=trial.iterations,
        seconds=trial.seconds,
        low=nan if interval is None else interval.low,
        high=nan if interval is None else interval.high,
        settings={name: as_text(value) for name, value in trial.proposal.settings.items()},
    )


def as_text(value: Value) -> str:
    """Returns a value as on the command line.

    >>> as_text(None), as_text(True), as_text(0.1)
    ('null', 'true', '0.1')
    """
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def record(
    name: str,
    search: Search,
    model: SearchedModel,
    trials: Sequence[Trial],
    winner: Trial,
    importance: Mapping[str, float],
) -> SearchRecord:
    """Returns the record of a search.

    Args:
        name: name of its YAML in conf/search.
        model: the model that was searched.
        trials: all trials.
        winner: the trial of `chosen`.
        importance: setting -> share of the variance that it explains; empty if unknown.
    """
    return SearchRecord(
        name=name,
        seed=search.seed,
        metric=search.metric,
        choose=search.choose,
        budget={
            item.name: getattr(search, item.name)
            for item in fields(search)
            if item.name not in _RECORDED_APART
        },
        space={setting: str(values) for setting, values in model.space.items()},
        trials=len(trials),
        failed=sum(trial.value is None for trial in trials),
        iterations=sum(trial.iterations for trial in trials),
        seconds=sum(trial.seconds for trial in trials),
        chosen=winner.proposal.number,
        settings=dict(winner.proposal.settings),
        default=dict(model.default),
        importance=dict(importance),
    )


def leak(data: Mapping[str, Splits]) -> str:
    """Returns which validation queries are test queries of other folds, in a sentence; empty if none are.

    A setting that is chosen by the validation of all folds has then seen test data. Queries are compared by
    content.

    Args:
        data: name of each fold -> its splits.
    """
    tests: dict[str, list[str]] = {}
    for name, splits in data.items():
        for other, of_other in data.items():
            if other != name and splits.valid is not None:
                common = num_shared(splits.valid.query_keys, of_other.test.query_keys)
                if common:
                    tests.setdefault(name, []).append(f"{common} test queries of {other}")
    parts = [f"the validation set of {name} contains {listed(others)}" for name, others in tests.items()]
    if not parts:
        return ""
    sentence = "; ".join(parts)
    return f"{sentence[0].upper()}{sentence[1:]}."
