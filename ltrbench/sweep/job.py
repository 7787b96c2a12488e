"""A job of a sweep: what to run, and in which folder; stored in the sweep's folder as plan/NUMBER.json."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import TypedDict

from ltrbench.provenance import without_password
from ltrbench.runs.record import of_job
from ltrbench.sweep.key import JobKey, digest_of
from ltrbench.untrusted import Count, Name, types_of, validation_error

_FORMAT = 1

PLAN_FOLDER, COMPARISON_FOLDER, TRIALS_FOLDER = "plan", "comparison", "trials"
"""Folders in the folder of a sweep; only trials of a search have folders in the last one."""

_MOST_RANGES = 10

_NOT_FINITE = {".nan": math.nan, ".inf": math.inf, "-.inf": -math.inf}
"""Numbers that JSON does not have, as YAML spells them."""


class ReplicatesRecord(TypedDict):
    """`Config.replicates`."""

    number: int | None
    kind: str
    share: float
    seed: int
    index: int | None


class SettingsRecord(TypedDict):
    """The fields of `Config`; the objects that they describe are checked when they are built."""

    model: Mapping[str, Any]
    params: Mapping[str, Any]
    data: Mapping[str, Any]
    tracking: Mapping[str, Any]
    executor: Mapping[str, Any]
    distributed: Mapping[str, Any] | None
    search: Mapping[str, Any] | None
    register: str | None
    early_stopping: Mapping[str, Any] | None
    plugins: Sequence[str]
    metrics: Sequence[str]
    importance: Mapping[str, Any] | None
    timing: str
    progress: str
    seed: int
    num_threads: int
    cv: int | None
    replicates: ReplicatesRecord | None
    study: Mapping[str, Any] | None


class ChoicesRecord(TypedDict):
    """The config groups that name a run."""

    model: str
    params: str
    data: str


class KeyRecord(TypedDict):
    """A `JobKey`."""

    settings: Mapping[str, Any]
    data: Mapping[str, str]
    code: Mapping[str, str]
    versions: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job of a sweep.

    Attributes:
        number: number of the job, from 0.
        folder: folder of its run, relative to the folder of the sweep.
        overrides: the overrides of the command for this job.
        choices: config group -> name of the chosen YAML.
        settings: the resolved configuration.
        swept: each setting that differs between the jobs of the command -> all of its values.
        flags: flags of the command, such as --config-dir.
        sweep: folder of the sweep, as the command named it.
        started_in: folder in which the command was started; relative paths in `settings` start there.
        chdir: whether the job runs in its folder, as with hydra.job.chdir=true.
        environment: names of the variables that hydra.job.env_set sets.
        key: the parts of the job's key.
        training: digest of everything that its training depends on, except the seed.
        is_trial: whether the job is a trial of a search.
        same_training: folder of the job whose training is copied, because only a seed without effect differs;
            None: the job trains.
    """

    number: Count
    folder: Name
    overrides: Sequence[str]
    choices: Annotated[Mapping[str, Any], ChoicesRecord]
    settings: Annotated[Mapping[str, Any], SettingsRecord]
    swept: Mapping[str, Sequence[str]] = field(default_factory=dict)
    flags: Sequence[str] = ()
    sweep: str
    started_in: str
    chdir: bool = False
    environment: Sequence[str] = ()
    key: Annotated[Mapping[str, Any], KeyRecord]
    training: str = ""
    is_trial: bool = False
    same_training: str | None = None

    @functools.cached_property
    def job_key(self) -> JobKey:
        """The key of the job."""
        return JobKey(**self.key)

    @functools.cached_property
    def digest(self) -> str:
        """The digest of the key, which the run of this job records."""
        return self.job_key.digest

    @functools.cached_property
    def identity(self) -> str:
        """A digest that equal jobs share, even if the code, the data or the versions have changed since."""
        return identity_of(self.overrides, self.is_trial)

    @property
    def is_search(self) -> bool:
        """Whether a search chooses the settings of the job."""
        return self.settings["search"] is not None

    @property
    def kind(self) -> str:
        """The word for the job in messages."""
        return "trial" if self.is_trial else "job"

    @property
    def settings_of_job(self) -> list[str]:
        """The overrides without those that apply to the whole command; of a trial only those that differ from
        other jobs."""
        overrides = of_job(self.overrides)
        if not self.is_trial:
            return overrides
        differing = (*self.swept, "model.")
        return [line for line in overrides if line.lstrip("+~").startswith(differing)]


def identity_of(overrides: Iterable[str], is_trial: bool = False) -> str:
    """Returns `Job.identity` of a job with these overrides."""
    return digest_of([*["trial"] * is_trial, *sorted(map(without_password, of_job(overrides)))])


def in_ranges(numbers: Sequence[int]) -> str:
    """Returns numbers of jobs, which are in order, as text; at most `_MOST_RANGES` ranges of them.

    >>> in_ranges([3, 4, 5]), in_ranges([1, 3]), in_ranges([7]), in_ranges([])
    ('jobs 3 to 5', 'jobs 1, 3', 'job 7', 'no job')
    """
    if not numbers:
        return "no job"
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    shown = ranges[:_MOST_RANGES]
    texts = [f"{each[0]} to {each[-1]}" if len(each) > 2 else ", ".join(map(str, each)) for each in shown]
    left = len(numbers) - sum(map(len, shown))
    more = f" and {left} more" if left else ""
    return f"job{'s' if len(numbers) > 1 else ''} {', '.join(texts)}{more}"


def as_record(job: Job) -> dict[str, Any]:
    """Returns the content of plan/NUMBER.json."""
    return {"format": _FORMAT, **asdict(job), "settings": _encoded(job.settings)}


def _encoded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _encoded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encoded(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    return value


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _decoded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value


def from_record(record: Any) -> Job | str:
    """Returns the job that a plan/NUMBER.json describes, or the reason why it does not describe one."""
    reason = _mistake(record)
    if reason is not None:
        return reason
    values = {item.name: record[item.name] for item in fields(Job)}
    return Job(**{**values, "settings": _decoded(values["settings"])})


def _mistake(record: Any) -> str | None:
    if not isinstance(record, dict):
        return "it is not a JSON object"
    if record.get("format") != _FORMAT:
        return f"its format is {record.get('format')!r}, but this version of ltrbench reads format {_FORMAT}"
    declared = types_of(Job)
    for name in (item.name for item in fields(Job)):
        if name not in record:
            return f"{name} is missing"
        if reason := validation_error(record[name], declared[name], name):
            return reason
    if set(record["key"]) != set(types_of(KeyRecord)):
        return f"key has the parts {', '.join(sorted(record['key']))}"
    if not Path(record["started_in"]).is_absolute():
        return f"started_in is {record['started_in']!r}; an absolute path was expected"
    reason = mistake_in_folder(record["folder"], record["is_trial"])
    return None if reason is None else f"folder is {record['folder']!r}, which {reason}"


def mistake_in_folder(folder: str, is_trial: bool = False) -> str | None:
    """Returns why a job cannot have this folder, relative to the folder of the sweep; None if it can.

    >>> mistake_in_folder("model=native/0") is None
    True
    >>> mistake_in_folder("../0")
    'is outside the sweep'
    """
    parts = folder.split("/")
    if folder.startswith("/") or ".." in parts:
        return "is outside the sweep"
    if "" in parts or "." in parts or not folder.isprintable():
        return "is not the name of a subfolder"
    if is_trial:
        return None if parts[0] == TRIALS_FOLDER else f"is not in {TRIALS_FOLDER}, like those of other trials"
    if parts[0] in (PLAN_FOLDER, COMPARISON_FOLDER, TRIALS_FOLDER):
        return f"is reserved for the {parts[0]} of the sweep"
    return None
