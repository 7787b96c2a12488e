"""The key of a job: everything that its figures depend on.

Two jobs with equal keys give the same metrics. A finished job is therefore not run again, and a finished job
whose key has changed is not compared with the others.

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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ltrbench
from ltrbench.config import find_class
from ltrbench.data import Splits
from ltrbench.experiment.run import Experiment, settings_without_seed
from ltrbench.metrics.evaluation import plugin_versions
from ltrbench.provenance import plain, versions
from ltrbench.runs.record import SETTINGS_OF_COMMAND
from ltrbench.search.base import Search

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
    """The parts of a key; the docstring of the module explains them."""

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

    def differences_in_common(self, earlier: JobKey) -> list[str]:
        """Returns the differences of code and versions that both keys record; for the keys of two jobs."""
        return [
            f"{name}.{part}: {before[part]} -> {after[part]}"
            for name, before, after in (
                ("code", earlier.code, self.code),
                ("versions", earlier.versions, self.versions),
            )
            for part in sorted(before.keys() & after.keys())
            if before[part] != after[part]
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
