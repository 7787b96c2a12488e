"""One run: load, warm up, fit on the clock, predict on the clock, evaluate, write, mirror.

Nothing in here knows Hydra: an `Experiment` is a ranker, a data source and a few choices, and can be built by
hand. Every backend goes through the same steps, with the same evaluator and the same clock.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset, Splits, TrainingResample
from ltrbench.data.sources import DataSource
from ltrbench.errors import ConfigError, DataError, LtrbenchError, TrackingError, UndefinedMetricError
from ltrbench.experiment.reuse import copy_training, run_to_reuse
from ltrbench.measure import provenance
from ltrbench.measure.clock import Stopwatch, now
from ltrbench.measure.memory import MemoryMeter
from ltrbench.metrics import (
    DEFAULT,
    Evaluation,
    evaluate,
    has_relevant_document,
    improvement,
    parse_metric,
    preset,
    warm_up_metrics,
)
from ltrbench.metrics.plugins import plugin_versions
from ltrbench.rankers import BoostingRanker, Iteration, Ranker
from ltrbench.rankers.base import OF_EVERY_RANKER, SHARED, resolve_threads
from ltrbench.rankers.capabilities import (
    SupportsLibraryMetrics,
    SupportsWarmUp,
    clean_copy_of,
    departures_of,
)
from ltrbench.rankers.models.importance import ImportanceSettings, importances
from ltrbench.rankers.models.saved import SavedModelError, check_saved
from ltrbench.results import (
    FAILED,
    FINISHED,
    NO_PARAMETERS,
    OWN,
    LearningCurve,
    Run,
    RunResult,
    ScoredSplit,
    check_readable,
    claim,
    read_run,
    write_run,
)
from ltrbench.shapes import PerQuery, Scores
from ltrbench.tables import figure
from ltrbench.tracking import NoTracking, Tracker

log = logging.getLogger("ltrbench")

# XGBoost prints its metrics with an error of about 5e-7.
DRIFT_TOLERANCE = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-9}
# The libraries keep weights, and add them up, in float32.
DRIFT_TOLERANCE_OF_WEIGHTS = 1e-6

MONITORED, CLEAN = "monitored", "clean"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What one run does.

    Attributes:
        model: the name that tables show, that of the YAML in conf/model.
        ranker: unfitted.
        source: where train, valid and test come from.
        resample: of the training queries, which it trains on instead; None: on all of them.
        metrics: what valid and test are judged by, such as ndcg@10; the ndcg ones make the learning curve,
            or the first where there is none.
        params: which shared parameters the ranker was given, "matched" or "library", with their values in
            `config`; "own": it has settings of its own.
        importance: which importances of the features are taken, and how; None: none.
        timing: "monitored", or "clean" for one more fit without any evaluator at the chosen number of trees.
        overrides: the settings of the command that made this run; None: it is made from Python.
        sweep: the name of the sweep that it belongs to; None alone.
        swept: the settings in which the jobs of that sweep differ, with all of their values.
        config: the configuration of the command, for the record; the fields of `ranker` and `source` are
            recorded without it.

    Raises:
        ConfigError: on an unknown metric or timing.
    """

    model: str
    ranker: Ranker
    source: DataSource
    resample: TrainingResample | None = None
    metrics: tuple[str, ...] = ("ndcg@1", "ndcg@5", "ndcg@10", "map", "mrr")
    params: str = OWN
    importance: ImportanceSettings | None = field(default_factory=ImportanceSettings)
    timing: str = MONITORED
    overrides: tuple[str, ...] | None = None
    sweep: str | None = None
    swept: Mapping[str, Sequence[str]] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.metrics:
            raise ConfigError("metrics is empty; name at least one, as in metrics=[ndcg@10].")
        for name in self.metrics:
            parse_metric(name)
        if self.timing not in (MONITORED, CLEAN):
            raise ConfigError(f"timing is '{self.timing}'; it must be '{MONITORED}' or '{CLEAN}'.")


class CurveRecorder:
    """Evaluates train and valid after each iteration, and its out-of-bag improvement where it left documents
    out; `on_iteration` of a fit."""

    def __init__(self, splits: Splits, names: tuple[str, ...]) -> None:
        self.curve = LearningCurve()
        self._splits = splits
        self.names = names
        self._before: Scores | None = None

    def __call__(self, iteration: Iteration) -> None:
        train, valid = self._splits.train, self._splits.valid
        self.curve.iterations.append(iteration.number)
        self._append("train", evaluate(train, iteration.train_scores, self.names).means)
        if valid is not None and iteration.valid_scores is not None:
            self._append("valid", evaluate(valid, iteration.valid_scores, self.names).means)
        if iteration.left_out is not None:
            self._append("oob", self._improvement(iteration, iteration.left_out))
        self._before = iteration.train_scores

    def _improvement(self, iteration: Iteration, left_out: NDArray[np.int64]) -> Mapping[str, float]:
        before = np.zeros(len(iteration.train_scores)) if iteration.number == 1 else self._before
        if before is None:
            # The fit continues from a model, whose scores nobody has shown.
            return dict.fromkeys(self.names, np.nan)
        return improvement(self._splits.train, left_out, before, iteration.train_scores, self.names)

    def _append(self, kind: str, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.curve.values.setdefault(f"{kind}/{name}", []).append(value)


@dataclass(frozen=True)
class Progress:
    """How far a fit has come, in figures of the learning curve.

    Attributes:
        iteration: iterations so far.
        num_iterations: how many there will be at the most; None where the ranker does not say.
        metric: what the figures are of: early stopping's metric, or the curve's first where it has not that.
        train: its value on train.
        valid: its value on valid; None without a validation set.
        best: the highest of valid so far; None where there is none.
        best_iteration: where that was, the earliest of equals.
        out_of_bag: what the last iteration brought on what it left out; None where it left out nothing.
        seconds: since the fit began.
        finished: True once, with the figures of the last iteration, when the fit is over.
    """

    iteration: int
    num_iterations: int | None
    metric: str
    train: float
    valid: float | None
    best: float | None
    best_iteration: int | None
    out_of_bag: float | None
    seconds: float
    finished: bool = False


OnProgress = Callable[[Progress], None]


class _Reporter:
    """`on_iteration` of a fit that lets a recorder record, and reports what it recorded."""

    def __init__(self, recorder: CurveRecorder, ranker: Ranker, report: OnProgress) -> None:
        rule = ranker.early_stopping if isinstance(ranker, BoostingRanker) else None
        self._recorder, self._report = recorder, report
        self._metric = rule.metric if rule and rule.metric in recorder.names else recorder.names[0]
        self._num_iterations = ranker.num_trees if isinstance(ranker, BoostingRanker) else None
        self._best: tuple[float, int] | None = None
        self._last: Progress | None = None
        # Only shown: what a run reports is taken by a Stopwatch.
        self._began = time.perf_counter()

    def __call__(self, iteration: Iteration) -> None:
        self._recorder(iteration)
        valid = self._latest("valid")
        if valid is not None and valid > (self._best[0] if self._best else -np.inf):
            self._best = valid, iteration.number
        best, best_iteration = self._best or (None, None)
        self._last = Progress(
            iteration=iteration.number,
            num_iterations=self._num_iterations,
            metric=self._metric,
            train=self._recorder.curve.values[f"train/{self._metric}"][-1],
            valid=valid,
            best=best,
            best_iteration=best_iteration,
            out_of_bag=self._latest("oob"),
            seconds=time.perf_counter() - self._began,
        )
        self._report(self._last)

    def _latest(self, kind: str) -> float | None:
        values = self._recorder.curve.values.get(f"{kind}/{self._metric}")
        return values[-1] if values else None

    def finish(self) -> None:
        """Reports the last iteration once more, as the last."""
        if self._last is not None:
            self._report(replace(self._last, seconds=time.perf_counter() - self._began, finished=True))


def run(
    experiment: Experiment,
    folder: Path,
    tracker: Tracker | None = None,
    on_progress: OnProgress | None = None,
    earlier: Mapping[str, Run] | None = None,
) -> Run:
    """Runs an experiment into a folder and mirrors it to an opened tracker.

    A failure is recorded in the folder and the tracker as well, and raised. A saved model that does not load
    without pickle, or then gives other scores, is a failure too: all of the run is kept but the model.

    Args:
        on_progress: called after each iteration of a fit. It is called on the clock, so that it has to be
            quick.
        earlier: folder, in that of the sweep, -> finished run of the same command. Where one of them differs
            in a seed that changes nothing, this run does not train but copies it (`RunResult.reused`).

    Raises:
        LtrbenchError: on a mistake in the data or the settings; ResultError where the folder is taken.
    """
    mirror = tracker or NoTracking()
    begun = _begin(experiment)
    check_readable(begun)
    with claim(folder):
        try:
            with mirror.watching():
                done = _trained_or_copied(experiment, begun, folder, on_progress, earlier or {})
        except SavedModelError:
            _mirror(mirror, read_run(folder))
            raise
        except BaseException as error:
            failed = replace(begun, status=FAILED, finished=now(), error=_describe(error))
            _mirror(mirror, write_run(folder, failed))
            raise
    log.info("%s: %s", experiment.model, _verdict(done.result, experiment.metrics))
    _mirror(mirror, done)
    return done


def _trained_or_copied(
    experiment: Experiment,
    begun: RunResult,
    folder: Path,
    on_progress: OnProgress | None,
    earlier: Mapping[str, Run],
) -> Run:
    reused = run_to_reuse(experiment.ranker, experiment.resample, begun, earlier)
    if reused is None:
        return _measure(experiment, begun, folder, on_progress)
    log.info("%s: the seed changes nothing; the training of job %s is reused", experiment.model, reused)
    return copy_training(reused, earlier[reused], begun, folder)


def _mirror(tracker: Tracker, done: Run) -> None:
    try:
        tracker.log(done)
    except TrackingError as error:
        # Nothing is lost: the folder is the truth, and can be mirrored again.
        log.warning("%s stands in its folder but was not tracked: %s", done.path, error)


def _begin(experiment: Experiment) -> RunResult:
    """What is known before anything runs."""
    ranker = experiment.ranker
    record = provenance.described(ranker)
    params, own_settings = _parameters(experiment, record["fields"])
    return RunResult(
        status=FAILED,
        model=experiment.model,
        ranker=record,
        source=provenance.described(experiment.source),
        params=params,
        own_settings=own_settings,
        seed=ranker.seed,
        data={"name": experiment.source.name},
        convention=DEFAULT.describe(),
        threads=resolve_threads(ranker.num_threads),
        unmatched=departures_of(ranker),
        overrides=experiment.overrides,
        sweep=experiment.sweep,
        swept=experiment.swept,
        started_in=str(Path.cwd()),
        started=now(),
        commit=provenance.commit(),
        versions=provenance.versions(ranker.packages) | plugin_versions(),
        machine=provenance.machine(),
        config={
            "metrics": list(experiment.metrics),
            "importance": provenance.plain(experiment.importance),
            "timing": experiment.timing,
            **experiment.config,
        },
    )


def _parameters(experiment: Experiment, fields: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """`params` and `own_settings` of the result, from the fields of the ranker."""
    if experiment.ranker.is_yardstick:
        return NO_PARAMETERS, {}
    shared = None if experiment.params == OWN else experiment.config.get("params", {})
    settings = _own_settings(fields, shared, " ".join(departures_of(experiment.ranker)))
    takes_any = _has_all_shared(fields) and any(name not in settings for name in shared or SHARED)
    return (experiment.params if takes_any else OWN), settings


def _has_all_shared(fields: Mapping[str, Any]) -> bool:
    """Whether a class with these fields takes the shared parameters, and not a few of the same names."""
    return all(name in fields for name in SHARED)


def _own_settings(
    fields: Mapping[str, Any], shared: Mapping[str, Any] | None, unmatched: str
) -> dict[str, Any]:
    """The settings that a ranker has instead of the shared parameters; see `RunResult.own_settings`.

    Args:
        shared: the values of the shared parameters; None where the ranker was given none.
        unmatched: the sentences of `departures_of`; a parameter that they name is explained there.
    """
    if not _has_all_shared(fields):
        return {name: value for name, value in fields.items() if name not in OF_EVERY_RANKER}
    accepted = {name: fields[name] for name in SHARED}
    if shared is None:
        return {name: value for name, value in accepted.items() if value is not None}
    return {
        name: value
        for name, value in accepted.items()
        if name in shared and value != shared[name]
        if value is not None or not re.search(rf"\b{name}\b", unmatched)
    }


def _measure(experiment: Experiment, begun: RunResult, folder: Path, on_progress: OnProgress | None) -> Run:
    ranker, seconds = experiment.ranker, _Seconds()
    with seconds.taking("load"):
        splits, drawn = _load(experiment)
    _check_stopping(ranker, splits)
    log.info("%s: fitting on %s, %d threads", experiment.model, _size(splits.train), begun.threads)
    with seconds.taking("warm_up"):
        warm_up_metrics(experiment.metrics)
        if isinstance(ranker, SupportsWarmUp):
            ranker.warm_up()
    curve, peak_memory_mb = _fit(experiment, splits, seconds, on_progress)
    with seconds.taking("predict"):
        test_scores = ranker.predict(splits.test.features)
    summary = ranker.summary
    seconds["monitor"] = summary.monitor_seconds if summary else 0.0
    if experiment.timing == CLEAN:
        seconds["fit_clean"] = _fit_clean(ranker, splits)
    scored = _scored(ranker, splits, test_scores)
    evaluations = {
        split: evaluate(item.judgments, item.scores, experiment.metrics) for split, item in scored.items()
    }
    with seconds.taking("importances"):
        of_features = importances(ranker, splits, experiment.importance, ranker.seed)
    result = replace(
        begun,
        status=FINISHED,
        data=_describe_data(experiment.source, splits) | drawn,
        metrics=_flatten(evaluations),
        seconds=seconds,
        peak_memory_mb=peak_memory_mb,
        best_iteration=summary.num_trees if summary else None,
        drift=check_drift(ranker, scored["test"], splits.test, experiment.metrics),
        finished=now(),
    )
    per_query: Mapping[str, PerQuery] = evaluations["test"].per_query
    parts = (scored, per_query, curve, of_features, splits.test)
    try:
        return write_run(
            folder,
            result,
            ranker,
            *parts,
            check_model=lambda saved: check_saved(ranker, saved, splits.test.features, test_scores),
        )
    except SavedModelError as error:
        # The fit may have taken hours: all is kept but the model.
        write_run(folder, replace(result, status=FAILED, error=str(error)), None, *parts)
        raise


def _load(experiment: Experiment) -> tuple[Splits, dict[str, Any]]:
    """The splits, and what `RunResult.data` says of the resample that takes the place of train, if any."""
    splits = experiment.source.load()
    if experiment.resample is None:
        return splits, {}
    whole = splits.train
    drawn = experiment.resample.describe() | {"train": whole.fingerprint, "queries": whole.num_queries}
    return replace(splits, train=experiment.resample.of(whole)), {"resample": drawn}


class _Seconds(dict[str, float]):
    """What was done -> the seconds that it took."""

    @contextlib.contextmanager
    def taking(self, kind: str) -> Iterator[None]:
        watch = Stopwatch()
        with watch:
            yield
        self[kind] = watch.seconds


def _fit(
    experiment: Experiment, splits: Splits, seconds: _Seconds, on_progress: OnProgress | None
) -> tuple[LearningCurve, float | None]:
    """Fits on the clock; the learning curve, and how far memory rose, MB."""
    ranker, memory = experiment.ranker, MemoryMeter()
    recorder = CurveRecorder(splits, _of_curve(experiment.metrics))
    watcher = recorder if on_progress is None else _Reporter(recorder, ranker, on_progress)
    with memory, seconds.taking("fit"):
        ranker.fit(splits.train, splits.valid, watcher)
    if isinstance(watcher, _Reporter):
        watcher.finish()
    return recorder.curve, memory.rise_mb


def _scored(ranker: Ranker, splits: Splits, test_scores: Scores) -> dict[str, ScoredSplit]:
    """Test's scores, which were taken on the clock, and valid's where there is a validation set."""
    test, valid = splits.test, splits.valid
    scored = {"test": ScoredSplit(test, test_scores, test.query_keys, test.file_rows)}
    if valid is not None:
        scored["valid"] = ScoredSplit(
            valid, ranker.predict(valid.features), valid.query_keys, valid.file_rows
        )
    return scored


def check_drift(
    ranker: Ranker, scored: ScoredSplit, test: RankingDataset, names: tuple[str, ...]
) -> dict[str, Any]:
    """Holds the library's own figures against ours under its convention, on the same scores; see RunResult.

    A drift is a warning and a mark, never a failure: the run's own figures do not depend on it.
    """
    if not isinstance(ranker, SupportsLibraryMetrics):
        return {}
    convention = ranker.library_convention
    try:
        theirs = ranker.library_metrics(test, scored.scores, names)
    except Exception as error:
        # Whatever a foreign library raises here must not cost the run that it only checks.
        log.warning("The figures of %s could not be checked: %s", convention, error)
        # Its first line, because a stack of C++ may follow.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return {"convention": convention, "drifted": False, "error": reason}
    ours: dict[str, float] = {}
    for name in theirs:
        # What the convention does not define on these data is not held against anything.
        with contextlib.suppress(UndefinedMetricError):
            ours |= evaluate(test, scored.scores, [name], preset(convention)).means
    tolerance = DRIFT_TOLERANCE[np.dtype(ranker.score_dtype)]
    if test.query_weights is not None:
        tolerance = max(tolerance, DRIFT_TOLERANCE_OF_WEIGHTS)
    drifted = [name for name in ours if not abs(theirs[name] - ours[name]) <= tolerance]
    for name in drifted:
        log.warning(
            "%s drifts: %s itself computes %.9f, ltrbench %.9f",
            name,
            convention,
            theirs[name],
            ours[name],
        )
    unchecked = [name for name in names if name not in ours]
    return {
        "convention": convention,
        "own": theirs,
        "ours": ours,
        "unchecked": unchecked,
        "drifted": bool(drifted),
    }


def _check_stopping(ranker: Ranker, splits: Splits) -> None:
    """A rule of stopping without anything to look at would pass for a fit that was stopped by it."""
    if not isinstance(ranker, BoostingRanker) or ranker.early_stopping is None:
        return
    if splits.valid is None:
        raise ConfigError(
            "early_stopping is set, but there is no validation set to stop by; set data.valid_share, or "
            "early_stopping=null."
        )
    if not has_relevant_document(splits.valid).any():
        raise DataError(
            "early_stopping is set, but no query of the validation set has a relevant document (a label of 1 "
            "or more); give another with data.valid, or early_stopping=null."
        )


def _of_curve(metrics: tuple[str, ...]) -> tuple[str, ...]:
    """Some of the metrics, because each is evaluated at every iteration."""
    return tuple(name for name in metrics if name.startswith("ndcg")) or metrics[:1]


def _fit_clean(ranker: Ranker, splits: Splits) -> float:
    clean, watch = clean_copy_of(ranker), Stopwatch()
    with watch:
        clean.fit(splits.train)
    return watch.seconds


def _flatten(evaluations: Mapping[str, Evaluation]) -> dict[str, float | None]:
    return {
        f"{split}/{name}": None if np.isnan(value) else value
        for split, evaluation in evaluations.items()
        for name, value in evaluation.means.items()
    }


def _describe_data(source: DataSource, splits: Splits) -> dict[str, Any]:
    fold = getattr(source, "fold", None)
    # A user's source may mean something else by it, which is recorded among its fields.
    described: dict[str, Any] = {"name": source.name, "fold": fold if isinstance(fold, int) else None}
    for name, split in splits:
        described[name] = {
            "fingerprint": split.fingerprint,
            "queries": split.num_queries,
            "documents": split.num_documents,
            "features": split.num_features,
            "queries_without_relevant_document": float(np.mean(~has_relevant_document(split))),
        }
    described["train"]["feature_names"] = list(splits.train.feature_names)
    return described


def _size(dataset: RankingDataset) -> str:
    documents, queries = f"{dataset.num_documents:,} documents", f"{dataset.num_queries:,} queries"
    return f"{documents} of {queries} with {dataset.num_features} features"


def _verdict(result: RunResult, metrics: tuple[str, ...]) -> str:
    values = (f"{name} {figure(result.metrics[f'test/{name}'], '.4f')}" for name in metrics)
    trees = "" if result.best_iteration is None else f", {result.best_iteration} trees"
    return f"test {', '.join(values)}{trees}, fit in {result.seconds['fit']:.2f} s"


def _describe(error: BaseException) -> str:
    if isinstance(error, LtrbenchError):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    summary = f"{type(error).__name__}: {error}"
    return f"{summary}\n\n{''.join(traceback.format_exception(error)).strip()}"
