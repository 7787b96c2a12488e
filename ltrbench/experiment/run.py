"""One run: load, warm up, fit on the clock, predict on the clock, evaluate, write, mirror.

Nothing in here knows Hydra: an `Experiment` is a ranker, a data source and a few choices, and can be built by
hand. Every backend goes through the same steps, with the same evaluator and the same clock.
"""

from __future__ import annotations

import contextlib
import logging
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ltrbench.data import RankingDataset, Splits, TrainingResample
from ltrbench.data.sources import DataSource
from ltrbench.errors import ConfigError, DataError, LtrbenchError, TrackingError
from ltrbench.experiment.drift import check_drift
from ltrbench.experiment.parameters import parameters_and_settings
from ltrbench.experiment.reuse import copy_training, run_to_reuse
from ltrbench.experiment.watching import CurveRecorder, OnProgress, ProgressReporter
from ltrbench.measure import provenance
from ltrbench.measure.clock import Stopwatch, now
from ltrbench.measure.memory import MemoryMeter
from ltrbench.metrics import (
    DEFAULT,
    Evaluation,
    evaluate,
    has_relevant_document,
    parse_metric,
    warm_up_metrics,
)
from ltrbench.metrics.plugins import plugin_versions
from ltrbench.rankers import BoostingRanker, Ranker
from ltrbench.rankers.base import resolve_threads
from ltrbench.rankers.capabilities import SupportsWarmUp, clean_copy_of, departures_of
from ltrbench.rankers.models.importance import ImportanceSettings, importances
from ltrbench.rankers.models.saved import SavedModelError, check_saved
from ltrbench.results import (
    FAILED,
    FINISHED,
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
    """Returns the result as far as it is known before anything runs."""
    ranker = experiment.ranker
    record = provenance.described(ranker)
    given = experiment.config.get("params", {})
    params, own_settings = parameters_and_settings(ranker, experiment.params, given, record["fields"])
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
    watcher = recorder if on_progress is None else ProgressReporter(recorder, ranker, on_progress)
    with memory, seconds.taking("fit"):
        ranker.fit(splits.train, splits.valid, watcher)
    if isinstance(watcher, ProgressReporter):
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


def _check_stopping(ranker: Ranker, splits: Splits) -> None:
    """Without a usable validation set, early stopping would silently never apply."""
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
