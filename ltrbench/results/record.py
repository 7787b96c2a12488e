"""What result.json holds: its fields, their types, and what every reader of a run relies on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Annotated, Any, TypedDict

from ltrbench.data.training_resamples import KINDS
from ltrbench.errors import ConfigError
from ltrbench.results.files import RESULT_FILE
from ltrbench.untrusted.records import Amount, Count, Must, Name, mistake, types_of

FORMAT = 1
FINISHED, FAILED = "finished", "failed"
OWN, NO_PARAMETERS = "own", "none"
"""What `RunResult.params` says of a ranker that takes no shared parameter, and of a yardstick."""
IMPORTED, FUSED = "imported", "fused"
"""What it says of a run made of a score file, and of one made of the scores of several runs."""

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
    """A split of the data, as `RunResult.data` describes it."""

    fingerprint: Name
    queries: Count
    documents: Count
    features: Count
    queries_without_relevant_document: Amount
    feature_names: Sequence[str]


class ResampleRecord(TypedDict):
    """The resample of the training queries that a run trained on.

    Attributes:
        kind: "bootstrap" or "subsample".
        share: queries drawn, as a share of the training queries; 1 for a bootstrap.
        number: of resamples.
        index: which of them, counted from one.
        seed: which queries are drawn.
        train: fingerprint of the whole training set, before resampling.
        queries: number of its queries.
    """

    kind: Annotated[str, Must(f"one of {', '.join(KINDS)}", KINDS.__contains__)]
    share: Annotated[float, Must("above 0 and at most 1", lambda share: 0 < share <= 1)]
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
    """`RunResult.convention`, as far as it is read."""

    name: Name
    ties: str
    no_relevant: str


class DriftRecord(TypedDict, total=False):
    """`RunResult.drift`; a figure is None where no query counts."""

    convention: str
    own: Mapping[str, float | None]
    ours: Mapping[str, float | None]
    unchecked: Sequence[str]
    drifted: bool
    error: str


class PublishedRecord(TypedDict):
    """The figures that others reported on a data set."""

    source: str
    figures: Mapping[str, Mapping[str, float]]


class _DataSettings(TypedDict, total=False):
    published: PublishedRecord | None


RankerRecord = TypedDict("RankerRecord", {"class": Name, "fields": Mapping[str, Any]}, total=False)
"""`RunResult.ranker`, as far as it is read."""
SourceRecord = TypedDict("SourceRecord", {"class": Name, "fields": _DataSettings}, total=False)
"""`RunResult.source`, likewise."""


class _ImportanceSettings(TypedDict, total=False):
    metric: str | None


class _TrackingSettings(TypedDict, total=False):
    uri: str | None


class ConfigRecord(TypedDict, total=False):
    """`RunResult.config`, as far as it is read."""

    model: Mapping[str, Any]
    data: _DataSettings
    importance: _ImportanceSettings | None
    tracking: _TrackingSettings


def _is_moment(text: str) -> bool:
    try:
        return not text or datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


Moment = Annotated[str, Must("a date and time with its time zone, or nothing,", _is_moment)]
Status = Annotated[str, Must(f"'{FINISHED}' or '{FAILED}'", (FINISHED, FAILED).__contains__)]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What was run and what came out of it, as result.json holds it.

    `read_run` holds a file against the annotations below: a new field needs nothing more.

    Attributes:
        status: "finished" or "failed".
        model: the name of its YAML in conf/model.
        ranker: "class", as a YAML's `_target_` names it, and "fields", the settings that it was fitted with.
            Empty where nothing was fitted, as with imported scores.
        source: the same of the data source.
        params: which set of shared parameters it took, "matched" or "library"; "own" where it took none of
            them, "none" for a yardstick.
        own_settings: the settings that it had instead of the shared parameters; all of its own where its
            class does not have every shared parameter.
        data: name and fold, and for each split its fingerprint, documents, queries, features, and the share
            of queries without a relevant document; for train its feature_names as well. Where it trained on
            a resample of the training queries, train describes that, and "resample" which one it is.
        metrics: "test/ndcg@10" -> mean over the queries that count; None where no query counts.
        convention: what the metrics were computed under.
        seconds: wall time of load, warm_up, fit (with the evaluator), monitor (the evaluator's part of fit),
            predict (test), importances, and fit_clean (a fit without any evaluator) where it was asked for.
        peak_memory_mb: how far resident memory rose during fit, MB; None where the system does not tell.
        best_iteration: trees kept; None for a model without trees.
        threads: how many the ranker was given.
        unmatched: where the backend departs from the shared parameters.
        notes: what else a reader of its figures must know, such as where scores were imported from.
        overrides: the command's settings that made this run; None where it was made from Python.
        sweep: the name of the sweep that it is a job of; None of a single run.
        swept: the settings in which the jobs of its sweep differ, with all of their values.
        reused: the folder, in that of the sweep, of the run whose training this run reuses, because they
            differ in a seed that changes nothing: scores, model, times and importances are a copy of that
            run's, and `started` and `finished` are when it was copied. None where it trained itself.
        versions: package -> version, of what the run used. Of a plug-in: the name of its module -> its
            version where it states one, and the hash of its source file.
        started_in: the folder that the command was started in, which relative paths in `settings` start from.
        config: the configuration of the command, with everything resolved; `settings` says what ran.
        error: why it failed; None where it did not.
        drift: the backend's library's own figures of test against ours under its convention: "convention",
            "own" and "ours" by metric, those "unchecked", "drifted", and "error" where the library failed.
            Empty without any.
    """

    status: Status
    model: Name
    params: Name
    seed: int
    ranker: Annotated[Mapping[str, Any], RankerRecord] = field(default_factory=dict)
    source: Annotated[Mapping[str, Any], SourceRecord] = field(default_factory=dict)
    own_settings: Mapping[str, Any] = field(default_factory=dict)
    data: Annotated[Mapping[str, Any], DataRecord] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    convention: Annotated[Mapping[str, Any], ConventionRecord] = field(default_factory=dict)
    seconds: Mapping[str, Amount] = field(default_factory=dict)
    peak_memory_mb: float | None = None
    best_iteration: Count | None = None
    threads: Count = 0
    unmatched: Sequence[str] = ()
    notes: Sequence[str] = ()
    overrides: Sequence[str] | None = None
    sweep: str | None = None
    swept: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reused: str | None = None
    started_in: str = ""
    started: Moment = ""
    finished: Moment = ""
    commit: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    config: Annotated[Mapping[str, Any], ConfigRecord] = field(default_factory=dict)
    drift: Annotated[Mapping[str, Any], DriftRecord] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """`config`, but "model" and "data" are the ranker and the data source that ran: their fields, and
        their classes as `_target_`. The one place to read a run's settings from."""
        ran = {"model": self.ranker, "data": self.source}
        # Both are empty where nothing was fitted.
        return {**self.config} | {
            key: {"_target_": record["class"], **record["fields"]} for key, record in ran.items() if record
        }

    @property
    def command(self) -> tuple[str, ...] | None:
        """The words of the command that makes the run again; None where it was made from Python."""
        return None if self.overrides is None else ("python", "-m", "ltrbench", *self.overrides)

    @property
    def total_seconds(self) -> float:
        """Wall time of what was timed, without warm-up; 0 where nothing was."""
        # Warm-up is mostly compiling, once per machine; `monitor` is a part of `fit`.
        return sum(time for kind, time in self.seconds.items() if kind not in ("warm_up", "monitor"))

    @property
    def importance_metric(self) -> str | None:
        """What falls where a feature is shuffled or dropped; None where nothing was, or it is not known."""
        metric = (self.config.get("importance") or {}).get("metric")
        return None if metric is None else str(metric)


def result_as_json(result: RunResult) -> dict[str, Any]:
    """Returns what result.json holds of a result: null where a number is none, which JSON does not have."""
    return {"format": FORMAT, **_without_nan(asdict(result))}


def check_readable(result: RunResult) -> None:
    """Checks before a run that its record can be read afterwards: a user's class may hold what it cannot.

    Raises:
        ConfigError: with the field that is of another type than readers expect.
    """
    values = json.loads(json.dumps(result_as_json(result), default=str))
    reason = _mistyped({name: values[name] for name in types_of(RunResult)})
    if reason:
        raise ConfigError(f"the run could not be read again: in its {RESULT_FILE} {reason}.")


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def reason_to_refuse(values: Mapping[str, Any]) -> str | None:
    """Returns what is wrong with the fields that a result.json holds, by field; None where nothing is."""
    return _mistyped(values) or _incomplete(values)


def _mistyped(values: Mapping[str, Any]) -> str | None:
    """The first value that is not of the type that the annotations of RunResult declare."""
    declared = types_of(RunResult)
    return next(filter(None, (mistake(value, declared[name], name) for name, value in values.items())), None)


_NEEDED = ("status", "model", "params", "seed", "data.name")
_NEEDED_OF_FINISHED = (
    *("data.train.fingerprint", "data.train.features", "data.test.fingerprint"),
    *("data.test.queries_without_relevant_document", "convention.name", "convention.gain"),
)


def _incomplete(values: Mapping[str, Any]) -> str | None:
    """The first value that every reader of a run relies on and that is not there."""
    needed = _NEEDED + (_NEEDED_OF_FINISHED if values.get("status") == FINISHED else ())
    if "valid" in values.get("data", ()):
        needed += ("data.valid.fingerprint",)
    # Both are empty where nothing was fitted.
    needed += tuple(
        f"{name}.{key}" for name in ("ranker", "source") if values.get(name) for key in ("class", "fields")
    )
    for place in needed:
        inner: Any = values
        for key in place.split("."):
            if key not in inner:
                return f"it is incomplete: it has no {place}"
            inner = inner[key]
    if values["status"] == FINISHED and not any(map(_is_of_test, values.get("metrics", ()))):
        return "it is incomplete: it has no metrics of test"
    train, drift = values["data"].get("train", {}), values.get("drift", {})
    if len(train.get("feature_names", ())) not in (0, train.get("features")):
        return f"data.train has {train.get('features')} features and {len(train['feature_names'])} names"
    if drift and not ("convention" in drift and drift.get("ours", {}).keys() <= drift.get("own", {}).keys()):
        return "drift has no convention, or lacks figures of it"
    return None


def _is_of_test(metric: str) -> bool:
    return metric.startswith("test/")
