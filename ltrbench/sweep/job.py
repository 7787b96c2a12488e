"""A job of a sweep: what to run, and in which folder; stored in the sweep's folder as plan/NUMBER.json.

Its key is everything that its figures depend on. Two jobs with equal keys give the same metrics. A finished
job is therefore not run again, and a finished job whose key has changed is not compared with the others.

    settings   the resolved configuration, without settings that cannot change a figure
    data       fingerprint of each split
    code       digests of the code that computes: of ltrbench, and of a user's modules with backends or data
               sources; plug-ins with metrics are among the versions
    versions   library -> version

The code of searches and the version of Optuna belong to the keys of jobs whose settings a search chooses. The
key of a trial has neither: its figures depend on its settings, not on what proposed them.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import TypeAdapter, ValidationError

import ltrbench
from ltrbench.config import Config, find_class
from ltrbench.data import Splits
from ltrbench.errors import ResultError
from ltrbench.experiment.run import Experiment, settings_without_seed
from ltrbench.metrics.evaluation import plugin_versions
from ltrbench.provenance import plain, versions, without_password
from ltrbench.runs.record import SETTINGS_OF_COMMAND, of_job
from ltrbench.search.base import Search
from ltrbench.untrusted import Count, Name, read_json

_FORMAT = 1
_REMEDY = (
    "Delete the file and the folder of its run, and run the command that started the sweep again with the "
    "same hydra.sweep.dir"
)

PLAN_FOLDER, COMPARISON_FOLDER, TRIALS_FOLDER = "plan", "comparison", "trials"
"""Folders in the folder of a sweep; only trials of a search have folders in the last one."""

_OF_DATA = ("train", "valid", "test", "root", "obtain", "feature_names", "published", "fetch", "cache")
"""Settings of a data set that name its files, describe or cache it; the fingerprints cover their content."""

_FOLDER = Path(ltrbench.__file__).parent

_COMPUTING = (
    *(
        "compilation.py",
        "shapes.py",
        "data",
        "distributed",
        "experiment",
        "measure.py",
        "models",
        "metrics",
        "native",
        "provenance.py",
        "rankers",
    ),
    # The intervals of importances.
    "statistics/paired.py",
)
"""Files and folders of ltrbench whose code determines the figures of a run."""

_SEARCHING = ("search", "statistics/claims.py", "sweep/searching.py")
"""Files and folders of ltrbench whose code determines what a search chooses and records."""

_CODE_OF_SEARCH, _PACKAGE_OF_SEARCH = "ltrbench.search", "optuna"
"""The parts of `JobKey.code` and `JobKey.versions` that only jobs with a search have."""

_LONGEST = 100
"""Maximum number of characters of a value in a difference."""


@dataclass(frozen=True)
class JobKey:
    """Everything that the figures of a job depend on; the docstring of the module explains the parts."""

    settings: Mapping[str, Any]
    data: Mapping[str, str]
    code: Mapping[str, str]
    versions: Mapping[str, str]

    @functools.cached_property
    def digest(self) -> str:
        """The key as 32 hexadecimal digits."""
        return digest_of([self.settings, self.data, self.code, self.versions])

    def differences(self, earlier: JobKey) -> list[str]:
        """Returns one text per difference, such as `versions.lightgbm: 4.6.0 -> 4.7.0`."""
        return [
            f"{place}: {before} -> {after}"
            for name in ("settings", "data", "code", "versions")
            for place, before, after in _changes(getattr(earlier, name), getattr(self, name), name)
        ]


def _changes(before: Any, after: Any, place: str) -> Iterator[tuple[str, str, str]]:
    """Yields (place, earlier value, new value) of each difference between two JSON values."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted({*before, *after}):
            yield from _changes(before.get(name, "absent"), after.get(name, "absent"), f"{place}.{name}")
    elif digest_of(before) != digest_of(after):
        yield place, _short(before), _short(after)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def digest_of(value: Any) -> str:
    """Returns 32 hexadecimal digits that identify a JSON value."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


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
        key: everything that its figures depend on.
        training: digest of everything that its training depends on, except the seed.
        is_trial: whether the job is a trial of a search.
        same_training: folder of the job whose training is copied, because only a seed without effect differs;
            None: the job trains.
    """

    number: Count
    folder: Name
    overrides: Sequence[str]
    choices: Mapping[str, str | None]
    settings: Mapping[str, Any]
    swept: Mapping[str, Sequence[str]] = field(default_factory=dict)
    flags: Sequence[str] = ()
    sweep: str
    started_in: str
    chdir: bool = False
    environment: Sequence[str] = ()
    key: JobKey
    training: str = ""
    is_trial: bool = False
    same_training: str | None = None

    @property
    def digest(self) -> str:
        """The digest of the key, which the run of this job records."""
        return self.key.digest

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
    """Returns numbers of jobs, which are in order, as text.

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
    texts = [f"{each[0]} to {each[-1]}" if len(each) > 2 else ", ".join(map(str, each)) for each in ranges]
    return f"job{'s' if len(numbers) > 1 else ''} {', '.join(texts)}"


def as_text(job: Job) -> str:
    """Returns the content of plan/NUMBER.json, without passwords."""
    record = {"format": _FORMAT, **asdict(job)}
    return without_password(json.dumps(record, indent=1, default=str)) + "\n"


def read_job(path: Path) -> Job:
    """Reads plan/NUMBER.json.

    Raises:
        ResultError: The file is damaged, or another version of ltrbench wrote it.
    """
    record = read_json(path, _REMEDY, finite=False)
    version = record.pop("format", None) if isinstance(record, dict) else None
    try:
        job: Job = TypeAdapter(Job).validate_python(record)
        reason = None if version == _FORMAT else f"format is {version!r}; {_FORMAT} was expected"
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ResultError(
            f"{path}: {'.'.join(map(str, first['loc']))} is {first['input']!r}: {first['msg']}. {_REMEDY}."
        ) from None
    absent = [item.name for item in fields(Config) if item.name not in job.settings]
    if absent or str(job.number) != path.stem:
        reason = f"settings lack {', '.join(absent)}" if absent else f"number is {job.number}"
    elif mistake := mistake_in_folder(job.folder, job.is_trial):
        reason = f"folder is {job.folder!r}, which {mistake}"
    if reason is not None:
        raise ResultError(f"{path}: {reason}. {_REMEDY}.")
    return job


def mistake_in_folder(folder: str, is_trial: bool = False) -> str | None:
    """Returns why a job cannot have this folder, relative to the folder of the sweep; None if it can.

    >>> mistake_in_folder("model=native/0") is None
    True
    >>> mistake_in_folder("../0")
    'is outside the sweep'
    """
    parts = PurePosixPath(folder).parts
    if folder.startswith("/") or ".." in parts:
        return "is outside the sweep"
    if not parts or not folder.isprintable():
        return "is not the name of a subfolder"
    if is_trial:
        return None if parts[0] == TRIALS_FOLDER else f"is not in {TRIALS_FOLDER}, like those of other trials"
    if parts[0] in (PLAN_FOLDER, COMPARISON_FOLDER, TRIALS_FOLDER):
        return f"is reserved for the {parts[0]} of the sweep"
    return None


# ---- Computes the key of a job.


def key_of(
    experiment: Experiment, settings: Mapping[str, Any], choices: Mapping[str, Any], splits: Splits | str
) -> JobKey:
    """Returns the key of a job.

    Args:
        settings: the resolved configuration.
        choices: config group -> name of the chosen YAML.
        splits: the data; the error message if the data cannot be loaded.
    """
    code = _code_of(type(experiment.ranker), type(experiment.source))
    packages = [*experiment.ranker.packages]
    if settings["search"] is not None:
        search = find_class(str(settings["search"]["_target_"]), Search, "search")
        code = {**code, _CODE_OF_SEARCH: _code_of_search(search)}
        packages.append(_PACKAGE_OF_SEARCH)
    return JobKey(
        settings=effective_settings(settings, choices, experiment.is_trial),
        data=_fingerprints(splits),
        code=code,
        versions=versions(packages) | plugin_versions(),
    )


def key_of_trial(key: JobKey, settings: Mapping[str, Any], choices: Mapping[str, Any]) -> JobKey:
    """Returns the key of a trial of a job.

    Args:
        key: the key of the job.
        settings: the settings of the trial.
        choices: config group -> name of the chosen YAML.
    """
    return JobKey(
        settings=effective_settings(settings, choices, is_trial=True),
        data=key.data,
        code={name: digest for name, digest in key.code.items() if name != _CODE_OF_SEARCH},
        versions={name: number for name, number in key.versions.items() if name != _PACKAGE_OF_SEARCH},
    )


def effective_settings(
    settings: Mapping[str, Any], choices: Mapping[str, Any], is_trial: bool = False
) -> dict[str, Any]:
    """Returns the settings without those that have no effect on a figure, with the names of their YAMLs."""
    kept = {name: value for name, value in settings.items() if name not in SETTINGS_OF_COMMAND}
    kept["data"] = {name: value for name, value in settings["data"].items() if name not in _OF_DATA}
    names = {group: str(choices[group]) for group in ("model", "params", "data") if group in choices}
    return dict(plain({**kept, "names": names, "trial": is_trial}))


def _fingerprints(splits: Splits | str) -> dict[str, str]:
    if isinstance(splits, str):
        return {"error": splits}
    return {name: split.fingerprint for name, split in splits}


def training_digest(experiment: Experiment, key: JobKey) -> str:
    """Returns a digest of everything that a training depends on, except its seed."""
    return digest_of([settings_without_seed(experiment), key.data, key.code, key.versions])


@functools.cache
def _code_of(*classes: type) -> dict[str, str]:
    """Returns "ltrbench" or module -> digest of the code that computes the figures of these classes."""
    return {"ltrbench": _package_digest(_FOLDER, _COMPUTING), **_code_of_users(*classes)}


def _code_of_search(search: type[Search]) -> str:
    """Returns a digest of the code of searches, and of a user's module with the class of a search."""
    return digest_of([_package_digest(_FOLDER, _SEARCHING), _code_of_users(search)])


def _code_of_users(*classes: type) -> dict[str, str]:
    """Returns module -> digest of the modules outside of ltrbench that define these classes."""
    modules = {kind.__module__ for built in classes for kind in built.__mro__}
    files = {name: getattr(sys.modules.get(name), "__file__", None) for name in sorted(modules)}
    return {
        name: _digest(Path(file))
        for name, file in files.items()
        # The classes of the standard library, such as ABC, are part of the version of Python.
        if file
        and _FOLDER not in Path(file).parents
        and name.partition(".")[0] not in sys.stdlib_module_names
    }


@functools.cache
def _package_digest(folder: Path, names: tuple[str, ...]) -> str:
    files = sorted(file for name in names for file in _python_files(folder / name))
    return digest_of([[file.relative_to(folder).as_posix(), _digest(file)] for file in files])


def _python_files(path: Path) -> Iterator[Path]:
    return path.rglob("*.py") if path.is_dir() else iter([path])


def _digest(file: Path) -> str:
    return hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest()
