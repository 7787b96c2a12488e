"""The fields of result.json, their types, and the fields that every run must have.

`FORMAT` is the version of the format of a run folder. A newer ltrbench reads every older format from 1 on:
fields that a format lacks get their defaults, so that every new field needs one.
tests/results/released has a run of each older format.

    1   first format
    2   adds the fields `key` and `shared_machine`
    3   adds the fields `trial`, `search` and `distributed`, and trials.csv
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Required

from pydantic import Field
from typing_extensions import TypedDict

from ltrbench.data.splits import KINDS
from ltrbench.errors import ConfigError, ResultError
from ltrbench.folders import DISK_REMEDIES
from ltrbench.untrusted import Amount, Count, Must, Name, types_of, validation_error

# ---- Overrides in the syntax of the command line: combines the overrides of many jobs into few commands.

Overrides = tuple[str, ...]


SETTINGS_OF_COMMAND = ("executor", "progress", "register", "tracking")
"""Settings of a whole command, which cannot change a figure: a job with other values is the same job."""


def of_job(overrides: Iterable[str]) -> list[str]:
    """Returns the overrides without those that apply to the whole command.

    >>> of_job(["executor.workers=2", "+tracking.uri=x", "hydra.sweep.dir=s", "seed=1"])
    ['seed=1']
    """
    return [line for line in overrides if not _is_of_command(line)]


def _is_of_command(override: str) -> bool:
    name = override.lstrip("+~").partition("=")[0].replace("/", ".").partition(".")[0]
    return name in (*SETTINGS_OF_COMMAND, "hydra")


def as_products(jobs: Iterable[Sequence[str]]) -> list[list[str]]:
    """Returns few lists of overrides that together sweep over exactly these jobs.

    >>> as_products([["model=a", "seed=2"], ["model=b", "seed=1"], ["model=b", "seed=2"]])
    [['model=a', 'seed=2'], ['model=b', 'seed=1,2']]
    """
    of_keys: dict[Overrides, list[Overrides]] = {}
    for job in jobs:
        parts = [override.partition("=") for override in job]
        keys = tuple(f"{key}{equals}" for key, equals, _ in parts)
        of_keys.setdefault(keys, []).append(tuple(value for _, _, value in parts))
    return [
        [key + ",".join(values) for key, values in zip(keys, product, strict=True)]
        for keys, rows in of_keys.items()
        for product in _products(rows)
    ]


def _products(rows: Sequence[Overrides]) -> list[list[list[str]]]:
    """Returns the values of each column, per product. First values with the same remaining rows are
    combined."""
    if not rows[0]:
        return [[]]
    rest_of_value: dict[str, list[Overrides]] = {}
    for value, *rest in rows:
        rest_of_value.setdefault(value, []).append(tuple(rest))
    values_of_rest: dict[tuple[Overrides, ...], list[str]] = {}
    for value, rests in rest_of_value.items():
        values_of_rest.setdefault(tuple(rests), []).append(value)
    return [[values, *product] for rests, values in values_of_rest.items() for product in _products(rests)]


def quoted(text: str) -> str:
    """Returns a value quoted for Hydra's grammar, if it needs quotes."""
    return text if re.fullmatch(r"[\w./:-]+", text) else "'" + text.replace("'", r"\'") + "'"


# ---- Names of the files in the folder of a run.

RESULT_FILE = "result.json"
SCORES_FILE = "scores.npz"
PER_QUERY_FILE = "per_query.csv"
CURVE_FILE = "learning_curve.csv"
IMPORTANCES_FILE = "importances.csv"
EXAMPLE_FILE = "input_example.csv"
TRIALS_FILE = "trials.csv"
MODEL_FOLDER = "model"
RUN_FILES = (
    MODEL_FOLDER,
    SCORES_FILE,
    PER_QUERY_FILE,
    CURVE_FILE,
    IMPORTANCES_FILE,
    EXAMPLE_FILE,
    TRIALS_FILE,
    RESULT_FILE,
)
"""Files of a run, in the order in which they are moved to its folder."""

RUN_REMEDY = "Run it again, or copy its folder again from its source"
"""Remedy for a file of a run that cannot be read."""

FORMAT = 3
FINISHED, FAILED = "finished", "failed"
INTERRUPTED = "interrupted"
"""`RunResult.error` of a run that Ctrl-C or SIGTERM ended; it may simply run again."""
OWN, NO_PARAMETERS = "own", "none"
"""`RunResult.params` of a ranker without shared parameters, and of a baseline (`Ranker.is_yardstick`)."""
IMPORTED, FUSED = "imported", "fused"
"""`RunResult.params` of a run made from a score file or a model file, and of a run that fuses the scores of
several runs."""

TIMES = {
    "load": "load",
    "warm_up": "warm-up",
    "fit": "fit",
    "monitor": "evaluation",
    "fit_clean": "clean fit",
    "predict": "predict",
    "importances": "importances",
}
"""Kind of time in `RunResult.seconds` -> its name in every table."""


class SplitRecord(TypedDict, total=False):
    """A split of the data in `RunResult.data`."""

    fingerprint: Required[Name]
    queries: Count
    documents: Count
    features: Count
    queries_without_relevant_document: Amount
    feature_names: Sequence[str]
    first_feature: Literal[0, 1]
    has_missing_values: bool


class ResampleRecord(TypedDict):
    """The resample of the training queries that a run trained on.

    Attributes:
        kind: "bootstrap" or "subsample".
        share: queries drawn, as a share of the training queries; 1 for a bootstrap.
        number: number of resamples.
        index: number of this resample, counted from one.
        seed: seed that draws the queries.
        train: fingerprint of the whole training set, before resampling.
        queries: number of queries of the whole training set.
    """

    kind: Literal[*KINDS]  # type: ignore[valid-type]
    share: Annotated[float, Field(gt=0, le=1)]
    number: Count
    index: Count
    seed: int
    train: Name
    queries: Count


class DataRecord(TypedDict, total=False):
    """`RunResult.data`."""

    name: Name
    fold: int | None
    resample: ResampleRecord
    train: SplitRecord
    valid: SplitRecord
    test: SplitRecord


class ConventionRecord(TypedDict, total=False):
    """`RunResult.convention`; only the fields that ltrbench reads."""

    name: Name
    ties: str
    no_relevant: str


class DriftRecord(TypedDict, total=False):
    """`RunResult.drift`; a metric is None if no query counts."""

    convention: str
    own: Mapping[str, float | None]
    ours: Mapping[str, float | None]
    unchecked: Sequence[str]
    drifted: bool
    error: str


class ShardSizes(TypedDict):
    """Sizes of the part of a split that one worker holds."""

    queries: Count
    documents: Count


class DistributedRecord(TypedDict, total=False):
    """`RunResult.distributed`: the workers that fitted together.

    Attributes:
        workers: number of workers.
        threads: number of threads of the fit of each worker.
        shards: split -> sizes of the part that each worker held.
        deterministic: whether another fit gives the same scores.
    """

    workers: Count
    threads: Sequence[Count]
    shards: Mapping[str, Sequence[ShardSizes]]
    deterministic: bool


class SearchRecord(TypedDict):
    """`RunResult.search`: the search that chose the settings of a run.

    Attributes:
        name: name of its YAML in conf/search.
        seed: random seed of the search.
        metric: metric on validation.
        choose: per_fold, overall or across, as in `ltrbench.search.Search`.
        budget: the settings of the search without space, seed, metric and choose, such as "trials".
        space: setting -> its range in words, for the settings that the model could vary.
        trials: number of trials.
        failed: number of trials that failed, among which the search could not choose.
        iterations: number of iterations fitted in all trials.
        seconds: time of the fits of all trials.
        chosen: number of the trial with the highest value.
        settings: setting -> its value in that trial.
        default: setting -> its value without the search.
        importance: setting -> share of the variance of the value that it explains; empty if unknown.
    """

    name: Name
    seed: int
    metric: Name
    choose: str
    budget: Mapping[str, Any]
    space: Mapping[str, str]
    trials: Count
    failed: Count
    iterations: Count
    seconds: Amount
    chosen: Count
    settings: Mapping[str, Any]
    default: Mapping[str, Any]
    importance: Mapping[str, Amount]


RankerRecord = TypedDict("RankerRecord", {"class": Name, "fields": Mapping[str, Any]})
"""`RunResult.ranker` and `RunResult.source`; only the fields that ltrbench reads."""


def _is_moment(text: str) -> bool:
    try:
        return not text or datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


Moment = Annotated[str, Must("an empty text or a date and time with a time zone", _is_moment)]
Status = Annotated[str, Must(f"'{FINISHED}' or '{FAILED}'", (FINISHED, FAILED).__contains__)]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The settings and results of a run, stored as result.json.

    `read_run` refuses a file whose fields do not have these types.

    Attributes:
        status: "finished" or "failed".
        model: name of its YAML in conf/model.
        ranker: "class", in the form of a YAML's `_target_`, and "fields", the settings of the fit. Empty if
            nothing was fitted, as for imported scores.
        source: the same for the data source.
        params: name of the set of shared parameters, "matched" or "library"; "own" if the ranker uses none of
            them, "none" for a baseline.
        own_settings: settings that replace the shared parameters; all settings of the ranker if its class
            lacks any shared parameter.
        data: name and fold; for each split its fingerprint, documents, queries, features, and the share of
            queries without a relevant document; for train also feature_names; instead of these,
            first_feature (0 or 1) if more than 10,000 features are numbered from it. If the run trained on a
            resample of the training queries, train describes the resample, and "resample" identifies it.
        metrics: "test/ndcg@10" -> mean over the queries that count; None if no query counts.
        convention: the convention of the metrics.
        seconds: wall time of load (a process loads the same data once; its other runs have the same time),
            warm_up, fit (including evaluation), monitor (the evaluation's part of fit), predict (test),
            importances, and fit_clean (a fit without evaluation) if requested.
        shared_machine: whether the command ran several jobs at a time. A comparison leaves out their times.
        load: load average of the machine before and after the fit; None if the system does not report it,
            empty if nothing was fitted.
        peak_memory_mb: peak increase of resident memory during fit, MB; None if the system does not report
            it, or if several workers fitted together.
        best_iteration: number of trees kept, or of an imported model; None for a model without trees.
        threads: number of threads of the ranker, on all workers together.
        unmatched: sentences on the differences between the backend and the shared parameters.
        notes: sentences on the interpretation of the metrics, such as the source of imported scores.
        overrides: the overrides of the command; None if the run was started from Python.
        sweep: name of the sweep that the run belongs to; None for a single run.
        swept: each setting that differs between the jobs of the sweep -> all of its values.
        flags: flags of the command, such as --config-dir and its folder.
        key: digest of everything that the figures of a job of a sweep depend on: settings, data, code and
            versions; None for other runs.
        reused: folder, relative to the folder of the sweep, of the run whose training was copied because
            only a seed without effect differs: scores, model, times and importances are those of that run,
            `started` and `finished` are the times of the copy. None if the run was trained.
        trial: whether the run is a trial of a search: it has no metrics and scores of test, no importances
            and no model.
        search: the search that chose the settings; empty without one. Its trials are in trials.csv.
        distributed: the workers that fitted together; empty if one process fitted alone.
        versions: package -> version, for the packages of the run. For a plug-in: module name -> its version,
            if it has one, and the hash of its source file.
        started_in: folder in which the command was started; relative paths in `settings` are relative to it.
        config: the resolved configuration of the command; `settings` has the settings that ran.
        error: reason of the failure; None if the run finished.
        drift: metrics of test computed by the backend's library and by ltrbench under the library's
            convention: "convention", "own" (library) and "ours" (ltrbench) by metric, "unchecked" metrics,
            "drifted", and "error" if the library failed. Empty if the library has no metrics.
    """

    # `read_run` checks these types, so that a new field needs no other code.
    status: Status
    model: Name
    params: Name
    seed: int
    ranker: Annotated[Mapping[str, Any], RankerRecord] = field(default_factory=dict)
    source: Annotated[Mapping[str, Any], RankerRecord] = field(default_factory=dict)
    own_settings: Mapping[str, Any] = field(default_factory=dict)
    data: Annotated[Mapping[str, Any], DataRecord] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    convention: Annotated[Mapping[str, Any], ConventionRecord] = field(default_factory=dict)
    seconds: Mapping[str, Amount] = field(default_factory=dict)
    shared_machine: bool = False
    load: Sequence[float | None] = ()
    peak_memory_mb: float | None = None
    best_iteration: Count | None = None
    threads: Count = 0
    unmatched: Sequence[str] = ()
    notes: Sequence[str] = ()
    overrides: Sequence[str] | None = None
    sweep: str | None = None
    swept: Mapping[str, Sequence[str]] = field(default_factory=dict)
    flags: Sequence[str] = ()
    key: str | None = None
    reused: str | None = None
    trial: bool = False
    search: Annotated[Mapping[str, Any], SearchRecord] = field(default_factory=dict)
    distributed: Annotated[Mapping[str, Any], DistributedRecord] = field(default_factory=dict)
    started_in: str = ""
    started: Moment = ""
    finished: Moment = ""
    commit: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    drift: Annotated[Mapping[str, Any], DriftRecord] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that ran: `config`, with "model" and "data" replaced by the fields of the ranker and
        the data source, and their classes as `_target_`. All code reads the settings of a run from here."""
        ran = {"model": self.ranker, "data": self.source}
        # Both are empty if nothing was fitted.
        return {**self.config} | {
            key: {"_target_": record["class"], **record["fields"]} for key, record in ran.items() if record
        }

    @property
    def command(self) -> tuple[str, ...] | None:
        """The words of the command that repeats the run; None if it was started from Python."""
        if self.overrides is None:
            return None
        return ("python", "-m", "ltrbench", *self.flags, *self.overrides)

    @property
    def feature_names(self) -> Sequence[str] | None:
        """(F,), names of the features of train; None if they were not recorded."""
        train = self.data.get("train", {})
        if "first_feature" in train:
            first = train["first_feature"]
            return tuple(str(number) for number in range(first, first + train["features"]))
        names: Sequence[str] | None = train.get("feature_names")
        return names

    @property
    def total_seconds(self) -> float:
        """Total wall time without warm-up; 0 if nothing was timed."""
        # Warm-up is mostly compilation, once per machine; `monitor` is part of `fit`.
        return sum(time for kind, time in self.seconds.items() if kind not in ("warm_up", "monitor"))

    @property
    def importance_metric(self) -> str | None:
        """Metric of the permutation and drop-column importances; None if there are none or it is unknown."""
        metric = (self.config.get("importance") or {}).get("metric")
        return None if metric is None else str(metric)


def result_as_json(result: RunResult) -> dict[str, Any]:
    """Returns the JSON form of a result; NaN and infinity, which JSON does not have, become null."""
    return {"format": FORMAT, **_without_nan(asdict(result))}


def check_readable(result: RunResult) -> None:
    """Checks before a run that its result.json will be readable; fields of a user's class may prevent it.

    Raises:
        ConfigError: A field has the wrong type or is missing; the message names it.
    """
    values = json.loads(json.dumps(result_as_json(result), default=str))
    reason = reason_to_refuse({name: values[name] for name in types_of(RunResult)})
    if reason:
        raise ConfigError(
            f"the {RESULT_FILE} of this run would not be readable: {reason}. Change this field."
        )


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def reason_to_refuse(values: Mapping[str, Any]) -> str | None:
    """Returns the first error in the fields of a result.json, with its field, or None."""
    for item in fields(RunResult):
        if item.name not in values:
            if item.default is item.default_factory is MISSING:
                return f"{item.name} is missing"
        elif error := validation_error(values[item.name], types_of(RunResult)[item.name], item.name):
            return error
    return _incomplete(values) if values["status"] == FINISHED else None


_NEEDED = ("data.name", "data.train.features", "data.test.fingerprint", "convention.name", "convention.gain")


def _incomplete(values: Mapping[str, Any]) -> str | None:
    """Returns the first value that a finished run needs and that is missing or inconsistent, or None."""
    is_trial = values.get("trial", False)
    split = "valid" if is_trial else "test"
    for name in (*_NEEDED, f"data.{split}.fingerprint"):
        inner: Any = values
        for key in name.split("."):
            if key not in inner:
                return f"incomplete: {name} is missing"
            inner = inner[key]
    metrics, train, drift = values.get("metrics", {}), values["data"]["train"], values.get("drift", {})
    if not any(name.startswith(f"{split}/") for name in metrics):
        return f"incomplete: the metrics of {split} are missing"
    if is_trial and any(name.startswith("test/") for name in metrics):
        return "trial is true, but there are metrics of test, and a trial is evaluated on valid only"
    if len(train.get("feature_names", ())) not in (0, train["features"]):
        return f"data.train has {train['features']} features but {len(train['feature_names'])} feature_names"
    if drift and not ("convention" in drift and drift.get("ours", {}).keys() <= drift.get("own", {}).keys()):
        return "drift has no convention, or drift.own lacks metrics of drift.ours"
    return None


# ---- Errors of the disk in the words of a user.


@contextlib.contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turns an error of the disk in the block into a message with the folder and the remedy.

    Raises:
        ResultError: The folder cannot be written.
    """
    try:
        yield
    except OSError as error:
        remedy = DISK_REMEDIES.get(error.errno or 0)
        if remedy is None:  # such as an error in `save` of a user's class
            raise
        raise ResultError(
            f"{folder} cannot be written: {error.strerror}. {remedy}, or choose another folder, and run the "
            "command again; no model and no scores were saved."
        ) from error
