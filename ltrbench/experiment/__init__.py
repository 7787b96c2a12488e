"""One run of a backend on a data set: load, warm up, timed fit, timed predict, evaluate, write, track.

`loading` loads each data set once per process, fits here or on workers, reports the progress of a fit, and
inspects a data set for every backend. `Study` is the base class of experiments that are not runs.

This package does not depend on Hydra: an `Experiment` is a ranker, a data source and a few choices, and can
be built in Python. Every backend takes the same steps, with the same evaluator and the same clock.
"""

from __future__ import annotations

import contextlib
import logging
import re
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ltrbench import measure
from ltrbench.data import RankingDataset, Splits, TrainingResample, click_weighted
from ltrbench.data.features import AnyFeatures, csr_of, row_blocks
from ltrbench.data.sources import DataSource
from ltrbench.distributed import Distribution
from ltrbench.errors import (
    ConfigError,
    DataError,
    LtrbenchError,
    ResultError,
    TrackingError,
    require_choice,
)
from ltrbench.experiment.data_warnings import are_clicks, warnings_of_data
from ltrbench.experiment.loading import (
    Fitter,
    OnProgress,
    label_warnings,
    load_once,
    opened_fitter,
)
from ltrbench.measure import Stopwatch, load_average, now, spare_imports
from ltrbench.metrics import (
    DEFAULT,
    Evaluation,
    evaluate,
    has_relevant_document,
    parse_metric,
)
from ltrbench.metrics.evaluation import check_defined, plugin_versions
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import (
    OF_EVERY_RANKER,
    SHARED,
    WEIGHTS,
    SavedModelError,
    cautions_of,
    check_saved,
    departures_of,
    refuse,
    resolve_threads,
)
from ltrbench.rankers.importance import MOST_LISTED, ImportanceSettings, importances
from ltrbench.runs.origin import Copied, Final, Origin, Trained, Trial
from ltrbench.runs.record import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    NO_PARAMETERS,
    OWN,
    LearningCurve,
    Run,
    RunResult,
    ScoredSplit,
    TrialRow,
    read_run,
)
from ltrbench.runs.spec import JobKey, RunSpec
from ltrbench.runs.writing import claim, copy_run, write_run
from ltrbench.settings import without_effect
from ltrbench.shapes import Scores
from ltrbench.tables import format_number
from ltrbench.tracking import NoTracking, Tracker

# ---- Reuses the training of an earlier run that differs only in a seed without effect.
#
# If a seed changes no score, a sweep over seeds would train the same model several times. Instead the model
# is trained once. Every run still has its own folder, and the origin `Copied` names the run that was trained.

_OF_EACH_JOB = (
    "seed",
    "ranker",
    "overrides",
    "config",
    "flags",
    "key",
    "search",
    "started",
)
"""Fields of `RunResult` that a copy of an earlier run does not copy."""


# ---- Determines which shared parameters a ranker uses, and which settings replace them.


def parameters_and_settings(
    ranker: Ranker, params: str, given: Mapping[str, Any], fields: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Returns `params` and `own_settings` of `RunResult`.

    Args:
        params: name of the set of shared parameters; `OWN`: none.
        given: shared parameter -> value.
        fields: name -> recorded value of each field of the ranker.
    """
    if ranker.is_yardstick:
        return NO_PARAMETERS, {}
    if not all(name in fields for name in SHARED):
        return OWN, _with_effect(ranker, fields)
    accepted = {name: fields[name] for name in SHARED}
    if params == OWN:
        set_values = {n: value for n, value in accepted.items() if value is not None}
        return OWN, set_values
    settings = {}
    # They explain the parameters that they name.
    unmatched = " ".join(departures_of(ranker))
    for name, value in accepted.items():
        if name not in given or value == given[name]:
            continue
        if value is not None or not re.search(rf"\b{name}\b", unmatched):
            settings[name] = value
    takes_any = any(name not in settings for name in given or SHARED)
    return (params if takes_any else OWN), settings


def _with_effect(ranker: Ranker, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the recorded fields of a ranker without those of every ranker, and those that another setting
    makes ineffective."""
    values = vars(ranker).items()
    chosen = {name: value for name, value in values if isinstance(value, str)}
    ineffective = {item.name for item, *_ in without_effect(ranker, chosen)}
    hidden = ineffective.union(OF_EVERY_RANKER)
    return {name: value for name, value in fields.items() if name not in hidden}


log = logging.getLogger("ltrbench")


class Destination(Protocol):
    """What models are trained for: it refuses, before a fit, what it cannot hold."""

    def check_data(self, ranker: Ranker, train: RankingDataset) -> None:
        """Raises ConfigError for a ranker that is trained on these data."""

    def caution(self, ranker: Ranker) -> str:
        """Returns why the trained model may be refused; empty if no reason is known."""


@dataclass(frozen=True)
class ChosenSettings:
    """The settings that a search chose.

    Attributes:
        record: `RunResult.search`.
        trials: the trials of the search.
    """

    record: Mapping[str, Any]
    trials: Sequence[TrialRow] = ()


MONITORED = "monitored"
CLEAN = "clean"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """The definition of one run.

    Attributes:
        model: name in tables, the name of the YAML in conf/model.
        ranker: unfitted.
        source: the source of train, valid and test.
        resample: the resample of the training queries to train on; None: all training queries.
        metrics: metrics of valid and test, such as ndcg@10. The learning curve has the ndcg metrics; if there
            is none, it has the first metric.
        params: name of the ranker's set of shared parameters, "matched" or "library", with values in
            `config`; "own": the ranker uses only settings of its own.
        importance: settings of the feature importances; None: none are computed.
        timing: "monitored", or "clean" for an additional fit without an evaluator, with the final number of
            trees.
        spec: what the command asked for, for the record; the fields of `ranker` and `source` are recorded
            independently of it.
        key: everything that the results of a job of a sweep depend on; the run fails before it trains if the
            loaded data have other fingerprints. None for other runs.
        origin: `Trained`; `Trial`, which is evaluated on the validation set only; or `Final`, which is
            trained on all labelled queries, without early stopping, and has no metrics.
        chosen: the settings that a search chose, which `ranker` has; None without a search.
        distributed: the workers that fit together; None: this process fits alone.
        debias: the correction of clicks for position bias, whose settings the ranker has; None: not named.
        notes: sentences for `RunResult.notes`.
        destination: what the model is trained for, which refuses data before the fit; None: nothing is
            refused.

    Raises:
        ConfigError: metrics is empty, a metric or the timing is unknown, or the ranker cannot be fitted on
            workers.
    """

    model: str
    ranker: Ranker
    source: DataSource
    resample: TrainingResample | None = None
    metrics: tuple[str, ...] = ("ndcg@1", "ndcg@5", "ndcg@10", "map", "mrr")
    params: str = OWN
    importance: ImportanceSettings | None = field(default_factory=ImportanceSettings)
    timing: str = MONITORED
    spec: RunSpec = field(default_factory=RunSpec)
    key: JobKey | None = None
    origin: Origin = field(default_factory=Trained)
    chosen: ChosenSettings | None = None
    distributed: Distribution | None = None
    debias: str | None = None
    notes: Sequence[str] = ()
    destination: Destination | None = None

    def __post_init__(self) -> None:
        if not self.metrics:
            raise ConfigError(
                "metrics is empty; list at least one metric, as in metrics=[ndcg@10]."
            )
        for name in self.metrics:
            parse_metric(name)
        require_choice("timing", self.timing, (MONITORED, CLEAN))
        if self.distributed is not None:
            self.ranker.check_distributed()

    @property
    def trials(self) -> Sequence[TrialRow]:
        """The trials of the search that chose the settings."""
        return () if self.chosen is None else self.chosen.trials

    @property
    def is_repeatable(self) -> bool:
        """Whether another run gives the same scores: some libraries give others on workers."""
        return self.distributed is None or self.ranker.is_repeatable_on_workers


def run(
    experiment: Experiment,
    folder: str | Path,
    tracker: Tracker | None = None,
    on_progress: OnProgress | None = None,
    trained: tuple[str, Run] | None = None,
) -> Run:
    """Runs an experiment, writes it to a folder, and logs it to an opened tracker.

    A failure is also recorded in the folder and the tracker, and raised. If the saved model cannot be loaded
    without pickle, or the loaded model gives other scores, the run has failed too: everything except the
    model is kept.

    Args:
        on_progress: called after each iteration of a fit. Its time counts as fit time, so it must be fast.
        trained: (folder, relative to the folder of the sweep, finished run in it) of a job that differs only
            in a seed without effect: the run is copied instead of training. None: the
            ranker is trained.

    Raises:
        LtrbenchError: The data or the settings are invalid.
        ResultError: The folder is already in use.
    """
    folder = Path(folder)
    mirror = tracker or NoTracking()
    # The process belongs to a command, not to a notebook.
    if experiment.spec.overrides is not None:
        spare_imports(type(experiment.ranker).__module__)
    begun = _begin(experiment)
    with claim(folder):
        try:
            if trained is None:
                plugins = experiment.spec.settings.get("plugins", ())
                with opened_fitter(experiment.distributed, plugins) as fitter:
                    done = _measure(experiment, begun, folder, on_progress, fitter)
            else:
                done = _copied(experiment, begun, folder, *trained)
        except SavedModelError:
            _mirror(mirror, read_run(folder))
            raise
        except BaseException as error:
            failed = replace(
                begun, status=FAILED, finished=now(), error=_describe(error)
            )
            reached = getattr(error, "curve", None)
            curve = LearningCurve(*reached) if reached else None
            kept = write_run(folder, failed, curve=curve, trials=experiment.trials)
            _mirror(mirror, kept)
            raise
    log.info(
        "%s: %s", experiment.model, describe_outcome(done.result, experiment.metrics)
    )
    _mirror(mirror, done)
    return done


def _copied(
    experiment: Experiment, begun: RunResult, folder: Path, name: str, earlier: Run
) -> Run:
    """Writes a run whose training is that of an earlier one, in the folder `name` of the sweep."""
    log.info("%s: the seed has no effect; job %s is reused", experiment.model, name)
    of_this_job = {field: getattr(begun, field) for field in _OF_EACH_JOB}
    origin = Copied(run=name)
    result = replace(earlier.result, **of_this_job, finished=now(), origin=origin)
    return copy_run(earlier, folder, result, experiment.trials)


def record_failure(experiment: Experiment, folder: Path, reason: str) -> Run:
    """Writes a failed run for an experiment whose process died.

    Raises:
        ResultError: The folder is in use, or contains a finished run.
    """
    begun = _begin(experiment)
    with claim(folder):
        return write_run(
            folder,
            replace(begun, finished=now(), error=reason),
            trials=experiment.trials,
        )


def _mirror(tracker: Tracker, done: Run) -> None:
    try:
        tracker.log(done)
    except TrackingError as error:
        # Nothing is lost: the folder has the complete run, and can be logged again.
        log.warning("%s is complete but was not tracked: %s", done.path, error)


def _begin(experiment: Experiment) -> RunResult:
    """Returns the fields of the result that are known before the run starts."""
    ranker = experiment.ranker
    spec = experiment.spec
    record = measure.described(ranker)
    given = spec.settings.get("params", {})
    params, own_settings = parameters_and_settings(
        ranker, experiment.params, given, record["fields"]
    )
    packages = list(ranker.packages)
    config = {
        "metrics": list(experiment.metrics),
        "importance": measure.plain(experiment.importance),
        "timing": experiment.timing,
    }
    if experiment.distributed is not None:
        packages += ["dask", "distributed"]
        config["distributed"] = measure.plain(experiment.distributed)
    config |= measure.plain(spec.settings)
    key = None
    if experiment.key is not None:
        key = experiment.key.digest
    search: Mapping[str, Any] = {}
    if experiment.chosen is not None:
        search = experiment.chosen.record
    return RunResult(
        status=FAILED,
        model=experiment.model,
        ranker=record,
        source=measure.described(experiment.source),
        params=params,
        own_settings=own_settings,
        seed=int(ranker.seed),  # a notebook may pass a NumPy number
        shared_machine=spec.shares_machine,
        data={"name": experiment.source.name},
        convention=DEFAULT.describe(),
        threads=resolve_threads(ranker.num_threads),
        unmatched=departures_of(ranker),
        overrides=spec.overrides,
        sweep=spec.sweep,
        swept=spec.swept,
        flags=tuple(spec.flags),
        key=key,
        origin=experiment.origin,
        search=search,
        notes=tuple(experiment.notes),
        started_in=str(Path.cwd()),
        started=now(),
        commit=measure.commit(),
        versions=measure.versions(packages) | plugin_versions(),
        machine=measure.machine(),
        config=config,
    )


class _Seconds(dict[str, float]):
    """Kind of time -> seconds."""

    @contextlib.contextmanager
    def taking(self, kind: str) -> Iterator[None]:
        watch = Stopwatch()
        with watch:
            yield
        self[kind] = watch.seconds


def _measure(
    experiment: Experiment,
    begun: RunResult,
    folder: Path,
    on_progress: OnProgress | None,
    fitter: Fitter,
) -> Run:
    # Imported here, because it needs numba.
    from ltrbench.compilation import announcing_compilation

    ranker = experiment.ranker
    seconds = _Seconds()
    started = replace(begun, seconds=seconds)
    fitted, curve = _load_and_fit(experiment, started, on_progress, fitter)
    splits = fitter.splits
    if isinstance(experiment.origin, Trial):
        # Of the test set only the description is recorded: no score of it may influence the choice.
        scored = _scored_valid(ranker, splits)
        result = _finished(fitted, _evaluated(scored, experiment.metrics))
        return write_run(folder, result, scored=scored, curve=curve)

    test = splits.test
    with seconds.taking("predict"):
        test_scores = ranker.predict_lists(test.features, test.query_start)
    if experiment.timing == CLEAN:
        with seconds.taking("fit_clean"):
            fitter.fit_clean(ranker)
    scored = _scored_valid(ranker, splits)
    if not isinstance(experiment.origin, Final):
        scored = {"test": _scored(test, test_scores), **scored}
    evaluations = _evaluated(scored, experiment.metrics)
    with announcing_compilation(log.info), seconds.taking("importances"):
        of_features = importances(ranker, splits, experiment.importance, ranker.seed)
    result = _finished(fitted, evaluations)
    write = partial(
        write_run,
        folder,
        scored=scored,
        per_query=evaluations["test"].per_query if "test" in evaluations else None,
        curve=curve,
        importances=of_features,
        example=test,
        trials=experiment.trials,
    )
    check = partial(
        check_saved,
        ranker,
        features=test.features,
        scores=test_scores,
        query_start=test.query_start,
    )
    try:
        return write(result, ranker=ranker, check_model=check)
    except SavedModelError as error:
        # The fit may have taken hours, so everything except the model is kept.
        write(replace(result, status=FAILED, error=str(error)))
        raise


def _scored_valid(ranker: Ranker, splits: Splits) -> dict[str, ScoredSplit]:
    """Returns the scores of the validation set under its name; empty without one."""
    valid = splits.valid
    if valid is None:
        return {}
    scores = ranker.predict_lists(valid.features, valid.query_start)
    return {"valid": _scored(valid, scores)}


def _evaluated(
    scored: Mapping[str, ScoredSplit], metrics: Sequence[str]
) -> dict[str, Evaluation]:
    return {
        split: evaluate(item.judgments, item.scores, metrics)
        for split, item in scored.items()
    }


def _finished(fitted: RunResult, evaluations: Mapping[str, Evaluation]) -> RunResult:
    metrics = _flatten(evaluations)
    return replace(fitted, status=FINISHED, metrics=metrics, finished=now())


def _load_and_fit(
    experiment: Experiment,
    begun: RunResult,
    on_progress: OnProgress | None,
    fitter: Fitter,
) -> tuple[RunResult, LearningCurve]:
    """Returns the result without metrics, and the learning curve."""
    ranker = experiment.ranker
    seconds = begun.seconds
    assert isinstance(seconds, _Seconds)
    splits, drawn = _load(experiment, seconds)
    check_splits(experiment, splits)
    of_fit = _of_fit(experiment, splits)
    fitter.prepare(ranker, of_fit)
    _warn_of_data(experiment, splits)
    on_start = [
        *cautions_of(ranker, of_fit.train),
        *_notes_on_start(experiment, splits),
    ]
    _log(experiment, logging.WARNING, on_start)
    notes = [*begun.notes, *on_start]
    num_threads = begun.threads
    if fitter.record:
        num_threads = sum(fitter.record["threads"])
        if not experiment.is_repeatable:
            another = "which is not repeatable: another fit may give other scores."
            notes.append(f"Fitted on {fitter.record['workers']} workers, {another}")
    _log(experiment, logging.INFO, _fit_in_words(of_fit, fitter, num_threads))
    load = load_average()
    if load is not None and load >= begun.threads + 1:
        _warn_of_load(_level(experiment, logging.INFO))
    with seconds.taking("warm_up"):
        fitter.warm_up(ranker)
    check_metrics(experiment.metrics, splits)
    curve, peak_memory_mb = fitter.fit(
        ranker,
        _metrics_of_curve(experiment.metrics),
        on_progress,
        seconds.taking("fit"),
    )
    seconds["monitor"] = ranker.summary.monitor_seconds if ranker.summary else 0.0
    on_end = list(_notes_on_end(ranker))
    _log(experiment, logging.WARNING, on_end)
    notes.extend(on_end)
    fitted = replace(
        begun,
        data=_record_of_data(experiment, splits, drawn),
        load=(load, load_average()),
        peak_memory_mb=peak_memory_mb,
        distributed=fitter.record,
        threads=num_threads,
        unmatched=departures_of(ranker, of_fit.train),
        notes=tuple(notes),
        best_iteration=ranker.summary.num_trees if ranker.summary else None,
    )
    return fitted, curve


def _metrics_of_curve(metrics: tuple[str, ...]) -> tuple[str, ...]:
    """Returns not all metrics, because each is evaluated at every iteration."""
    ndcgs = tuple(name for name in metrics if name.startswith("ndcg"))
    return ndcgs or metrics[:1]


def _level(experiment: Experiment, level: int) -> int:
    """Returns the level of a message; DEBUG in a search, which has hundreds of trials on the same data."""
    return logging.DEBUG if isinstance(experiment.origin, Trial) else level


def _log(experiment: Experiment, level: int, sentences: Iterable[str]) -> None:
    for sentence in sentences:
        log.log(_level(experiment, level), "%s: %s", experiment.model, sentence)


def _warn_of_data(experiment: Experiment, splits: Splits) -> None:
    """Logs the warnings of the data, unless a sweep did so when it was planned, and those of the labels."""
    if experiment.spec.sweep is None and not isinstance(experiment.origin, Final):
        level = _level(experiment, logging.WARNING)
        for text in warnings_of_data(splits):
            log.log(level, "%s: %s", experiment.source.name, text)
    of_labels = [f"training data: {text}" for text in label_warnings(splits.train)]
    _log(experiment, logging.WARNING, of_labels)


def _record_of_data(
    experiment: Experiment, splits: Splits, drawn: Mapping[str, Any]
) -> dict[str, Any]:
    data = {**describe_data(experiment.source, splits), **drawn}
    if isinstance(experiment.origin, Final):
        data = {"name": data["name"], "fold": None, "train": data["train"]}
    if experiment.debias is not None:
        data["debias"] = experiment.debias
    leak = _leak_of_start(experiment, splits)
    if leak:
        data["leaks_from"] = leak
    return data


def _of_fit(experiment: Experiment, splits: Splits) -> Splits:
    """Returns the splits with the training set of the fit, which debias=weights changes."""
    if experiment.debias != WEIGHTS:
        return splits
    weighted = splits.with_train(click_weighted(splits.train))
    if experiment.ranker.reads_blocks:
        return weighted
    return weighted.in_memory(experiment.ranker.reads_sparse)


def check_splits(experiment: Experiment, splits: Splits) -> None:
    """Raises ConfigError or DataError if the ranker refuses the training data, the model cannot be deployed,
    or validation data are needed and absent."""
    ranker = experiment.ranker
    refuse(ranker, splits.train)
    if experiment.destination is not None:
        experiment.destination.check_data(ranker, splits.train)
    if isinstance(experiment.origin, Trial):
        _check_validation(
            "a trial of a search", "run without a search (search=none)", splits
        )
    if getattr(ranker, "early_stopping", None) is not None:
        _check_validation("early_stopping", "set early_stopping=null", splits)


def check_metrics(names: Sequence[str], splits: Splits) -> None:
    """Raises the error of a metric that fails on these data, such as a plug-in's, before a fit of hours."""
    judged = splits.test if splits.valid is None else splits.valid
    evaluate(judged, np.zeros(judged.num_documents), names)
    for name in names:
        metric, k = parse_metric(name)
        check_defined(metric, k, DEFAULT.of(metric), splits.test)


def _fit_in_words(splits: Splits, fitter: Fitter, num_threads: int) -> Iterator[str]:
    """Yields what is logged before a fit.

    Args:
        num_threads: number of threads of all workers together.
    """
    if splits.num_in_gaps:
        yield f"data.gap leaves out {splits.num_in_gaps:,} queries"
    train = splits.train
    sizes = f"{train.num_documents:,} documents of {train.num_queries:,} queries"
    by = "1 thread" if num_threads == 1 else f"{num_threads} threads"
    if fitter.record:
        num_workers = fitter.record["workers"]
        by = f"{num_workers} workers with {num_threads} threads in total"
    yield f"fitting on {sizes} with {train.num_features} features, {by}"


@cache
def _warn_of_load(level: int) -> None:
    """Logs once in a process that other processes may slow down the fits; each run records its own load."""
    text = "the load average is %.1f: other processes may slow down the fits"
    log.log(level, text, load_average())


def _notes_on_start(experiment: Experiment, splits: Splits) -> Iterator[str]:
    """Yields the notes of the splits, and what may be wrong with the target and the model of `warm_start`."""
    if experiment.destination is not None:
        caution = experiment.destination.caution(experiment.ranker)
        if caution:
            yield caution
    if not isinstance(experiment.origin, Final):
        yield from splits.notes
    leak = _leak_of_start(experiment, splits)
    if leak:
        yield (
            f"The model in {leak} (warm_start) may have learned from queries of this validation and test "
            "set. Give the folder of a run with the same data settings."
        )


def _leak_of_start(experiment: Experiment, splits: Splits) -> str:
    """Returns the model, of `warm_start` or of a run before it, whose fit may have seen validation or test
    queries; empty without one."""
    start: str | None = getattr(experiment.ranker, "warm_start", None)
    if start is None or isinstance(experiment.origin, Final):
        return ""
    try:
        data = read_run(Path(start)).result.data
    except ResultError:
        return start
    for name, split in splits:
        recorded = data.get(name, {}).get("fingerprint")
        if name != "train" and recorded != split.fingerprint:
            return start
    return str(data.get("leaks_from", ""))


def _notes_on_end(ranker: Ranker) -> Iterator[str]:
    """Yields a note if early stopping ended the fit at its first tree."""
    most = getattr(ranker, "num_trees", None)
    rule = getattr(ranker, "early_stopping", None)
    num_trees = None
    if ranker.summary:
        num_trees = ranker.summary.num_trees
    if num_trees == 1 and rule is not None and most is not None and most > 1:
        yield (
            f"It has one tree of at most {most}: no later iteration raised {rule.metric} on valid. A feature "
            "that tells the label, too high a learning rate or a small validation set are the usual reasons."
        )


def _load(experiment: Experiment, seconds: _Seconds) -> tuple[Splits, dict[str, Any]]:
    """Returns the splits, with train resampled if requested, and the record of the resample for
    `RunResult.data`. The features are arrays unless the ranker reads blocks.

    `seconds["load"]` is the time that the loading took when it happened: an earlier run of this process may
    have loaded the same data.
    """
    in_memory = not experiment.ranker.reads_blocks
    keep_sparse = experiment.ranker.reads_sparse
    splits, loading = load_once(experiment.source, in_memory, keep_sparse)
    _refuse_changed(experiment, splits)
    if isinstance(experiment.origin, Final):
        splits = splits.whole().in_memory(keep_sparse) if in_memory else splits.whole()
    if experiment.resample is None:
        seconds["load"] = loading
        return splits, {}
    whole = splits.train
    drawn = experiment.resample.describe() | {
        "train": whole.fingerprint,
        "queries": whole.num_queries,
    }
    with seconds.taking("load"):
        resampled = replace(splits, train=experiment.resample.of(whole))
        resampled = resampled.in_memory(keep_sparse) if in_memory else resampled
    seconds["load"] += loading
    return resampled, {"resample": drawn}


def _refuse_changed(experiment: Experiment, splits: Splits) -> None:
    """Raises DataError if the data have changed since the job was planned."""
    if experiment.key is None:
        return
    planned = experiment.key.data
    for name, digest in splits.digests.items():
        if digest != planned.get(name):
            raise DataError(
                f"the data {experiment.source.name} have changed since this job was planned: the digest of "
                f"{name} was {planned.get(name)}, and is {digest} now. Restore the files and "
                "resume the sweep, or start a sweep on the new data in another folder (hydra.sweep.dir=...)."
            )


def _scored(dataset: RankingDataset, scores: Scores) -> ScoredSplit:
    return ScoredSplit(dataset, scores, dataset.query_keys, dataset.file_rows)


def _check_validation(purpose: str, alternative: str, splits: Splits) -> None:
    """Raises ConfigError or DataError if the validation set does not exist or no metric of it is defined.

    Args:
        purpose: what depends on the validation set, for messages.
        alternative: what to do instead of choosing another validation set.
    """
    if splits.valid is None:
        raise ConfigError(
            f"{purpose} needs validation data, but there is no validation set. Set data.valid_share (in "
            f"Python, pass valid), or {alternative}."
        )
    if not has_relevant_document(splits.valid).any():
        raise DataError(
            f"{purpose} needs validation data, but no query of the validation set has a relevant document (a "
            f"label of 1 or more). Choose another validation set with data.valid, or {alternative}."
        )


def _flatten(evaluations: Mapping[str, Evaluation]) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    for split, evaluation in evaluations.items():
        for name, value in evaluation.means.items():
            values[f"{split}/{name}"] = None if np.isnan(value) else value
    return values


def describe_data(source: DataSource, splits: Splits) -> dict[str, Any]:
    fold = getattr(source, "fold", None)
    # The `fold` of a user's source may have another meaning; it is recorded among its fields.
    described: dict[str, Any] = {
        "name": source.name,
        "fold": fold if isinstance(fold, int) else None,
    }
    if splits.rule:
        described["rule"] = splits.rule
    if splits.facts:
        described["facts"] = dict(splits.facts)
    if splits.reading:
        described["reading"] = dict(splits.reading)
    for name, split in splits:
        worst = np.minimum.reduceat(split.labels, split.query_start[:-1])
        without_relevant = float(np.mean(~has_relevant_document(split)))
        described[name] = {
            "fingerprint": split.fingerprint,
            "queries": split.num_queries,
            "documents": split.num_documents,
            "features": split.num_features,
            "queries_without_relevant_document": without_relevant,
            "queries_with_one_document": int((split.query_sizes == 1).sum()),
            "queries_with_equal_labels": int((worst == split.best_labels).sum()),
        }
        if are_clicks(split):
            described[name]["are_clicks"] = True
        if name in splits.spans:
            described[name]["span"] = list(splits.spans[name])
    train = splits.train
    first = _first_of_many(train)
    if first is None:
        described["train"]["feature_names"] = list(train.feature_names)
    else:
        described["train"]["first_feature"] = first
    described["train"]["has_missing_values"] = _has_missing_values(train.features)
    return described


def _has_missing_values(features: AnyFeatures) -> bool:
    sparse = csr_of(features)
    if sparse is None:
        return any(bool(np.isnan(block).any()) for _, block in row_blocks(features))
    has_absent = sparse.values.size < np.prod(sparse.shape)
    absent_is_missing = np.isnan(sparse.absent) and has_absent
    return bool(absent_is_missing or np.isnan(sparse.values).any())


def _first_of_many(train: RankingDataset) -> int | None:
    """Returns the first number if more than MOST_LISTED features are numbered from 0 or 1, otherwise None.

    Only this number is recorded instead of the names.
    """
    if train.num_features <= MOST_LISTED or train.feature_names[0] not in ("0", "1"):
        return None
    first = int(train.feature_names[0])
    numbers = range(first, first + train.num_features)
    is_numbered = tuple(map(str, numbers)) == tuple(train.feature_names)
    return first if is_numbered else None


def describe_outcome(result: RunResult, metrics: tuple[str, ...]) -> str:
    """Returns the metrics of test (of a trial: valid), the number of trees and the fit time of a finished
    run, for messages."""
    split = "test"
    if isinstance(result.origin, Trial):
        split = "valid"
    names = () if isinstance(result.origin, Final) else metrics
    values = [
        f"{name} {format_number(result.metrics[f'{split}/{name}'], '.4f')}"
        for name in names
    ]
    scores = "trained on all labelled queries"
    if values:
        scores = f"{split} {', '.join(values)}"
    kept = result.best_iteration
    unit = result.unit_of_iterations
    trees = ""
    if kept is not None:
        trees = f", {kept} {unit.removesuffix('s') if kept == 1 else unit}"
    return f"{scores}{trees}, fit in {result.seconds['fit']:.2f} s"


def _describe(error: BaseException) -> str:
    if isinstance(error, LtrbenchError):
        return str(error)
    if _is_interruption(error):
        return INTERRUPTED
    summary = f"{type(error).__name__}: {error}"
    return f"{summary}\n\n{''.join(traceback.format_exception(error)).strip()}"


def _is_interruption(error: BaseException) -> bool:
    """Returns whether Ctrl-C caused an error: compiled code turns it into a SystemError."""
    if isinstance(error, KeyboardInterrupt):
        return True
    cause = error.__cause__
    return (
        isinstance(error, SystemError) and cause is not None and _is_interruption(cause)
    )


# ---- Interface of a study: an experiment that is not a run. It trains, measures and writes a table.


class Study(ABC):
    """Base class of studies; a subclass is a dataclass of its settings, like a Ranker."""

    @abstractmethod
    def run(self, models: Mapping[str, Ranker], data: Mapping[str, DataSource]) -> Path:
        """Runs the study; returns the path of the table."""
