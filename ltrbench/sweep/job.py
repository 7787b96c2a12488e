"""A job of a sweep: what to run, and in which folder; stored in the sweep's folder as plan/NUMBER.json."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any, TypedDict

from ltrbench.measure.provenance import without_password
from ltrbench.sweep.key import SETTINGS_OF_COMMAND, JobKey, digest_of
from ltrbench.untrusted.records import Count, Name, mistake, types_of

FORMAT = 1


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
        same_training: folder of the job whose training is copied, because only a seed without effect differs;
            None: the job trains.
    """

    number: Count
    folder: Name
    overrides: Sequence[str]
    choices: Mapping[str, Any]
    settings: Mapping[str, Any]
    swept: Mapping[str, Sequence[str]] = field(default_factory=dict)
    flags: Sequence[str] = ()
    sweep: str
    started_in: str
    chdir: bool = False
    environment: Sequence[str] = ()
    key: Annotated[Mapping[str, Any], KeyRecord]
    training: str = ""
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
        return identity_of(self.overrides)

    @property
    def settings_of_job(self) -> list[str]:
        """The overrides without those that apply to the whole command."""
        return of_job(self.overrides)


def identity_of(overrides: Iterable[str]) -> str:
    """Returns `Job.identity` of a job with these overrides."""
    return digest_of(sorted(map(without_password, of_job(overrides))))


def of_job(overrides: Iterable[str]) -> list[str]:
    """Returns the overrides without those that apply to the whole command.

    >>> of_job(["executor.workers=2", "+tracking.uri=x", "hydra.sweep.dir=s", "seed=1"])
    ['seed=1']
    """
    return [line for line in overrides if not _is_of_command(line)]


def _is_of_command(override: str) -> bool:
    name = override.lstrip("+~").partition("=")[0].replace("/", ".").partition(".")[0]
    return name in (*SETTINGS_OF_COMMAND, "hydra")


def as_record(job: Job) -> dict[str, Any]:
    """Returns the content of plan/NUMBER.json."""
    return {"format": FORMAT, **asdict(job)}


def from_record(record: Any) -> Job | str:
    """Returns the job that a plan/NUMBER.json describes, or the reason why it does not describe one."""
    if not isinstance(record, dict):
        return "it is not a JSON object"
    if record.get("format") != FORMAT:
        return (
            f"its format is {record.get('format')!r}, but this version of ltrbench reads only format {FORMAT}"
        )
    declared = types_of(Job)
    values = {item.name: record[item.name] for item in fields(Job) if item.name in record}
    missing = [item.name for item in fields(Job) if item.name not in values]
    if missing:
        return f"{missing[0]} is missing"
    reason = next(
        filter(None, (mistake(value, declared[name], name) for name, value in values.items())), None
    )
    if reason is None and set(values["key"]) != set(types_of(KeyRecord)):
        reason = f"key has the parts {', '.join(sorted(values['key']))}"
    parts = values["folder"].split("/")
    if reason is None and (values["folder"].startswith("/") or ".." in parts):
        reason = f"folder is {values['folder']!r}, which is outside the sweep"
    return Job(**values) if reason is None else reason
