"""What a run is, in plain values: its settings and how they were asked for, and the key of its results.

    RunSpec   from the composed configuration to the record: the command line composes it, the plan of a sweep
              stores it, workers receive it, result.json records it
    JobKey    everything that the results of a job depend on

`ltrbench.config.build_experiment` builds the ranker, the data source and the other objects that a spec names.
A run from Python is an `Experiment` of such objects, with an empty spec.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ltrbench.measure import plain, without_password

SETTINGS_OF_ONE_COMMAND = (
    "cv_repeats",
    "looks",
    "only_trials",
    "register",
    "stop_after",
)
"""Settings of `SETTINGS_OF_COMMAND` that a command on the same experiment does not take over."""

SETTINGS_OF_COMMAND = (
    *SETTINGS_OF_ONE_COMMAND,
    "executor",
    "progress",
    "target",
    "tracking",
)
"""Settings of a whole command, which cannot change a result: a job with other values is the same job."""

_OF_FILES = (
    "train",
    "valid",
    "test",
    "root",
    "obtain",
    "feature_names",
    "fetch",
    "cache",
)
"""Settings of a data set that name its files, describe or cache it; `Splits.digests` cover their content."""

Values = Mapping[str, Any]
"""Name -> JSON value."""

_LONGEST = 100
"""Maximum number of characters of a value in a difference."""


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """What a command asks of one run.

    Attributes:
        settings: the resolved configuration.
        choices: config group -> name of the chosen YAML; None for a group without one.
        overrides: the overrides of the command for this run; None: started from Python.
        swept: each setting that differs between the jobs of the command -> all of its values.
        flags: flags of the command, such as --config-dir.
        sweep: folder of the sweep, as the command named it; None for a single run.
        started_in: folder in which the command was started; relative paths in `settings` start there.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    choices: Mapping[str, str | None] = field(default_factory=dict)
    overrides: Sequence[str] | None = None
    swept: Mapping[str, Sequence[str]] = field(default_factory=dict)
    flags: Sequence[str] = ()
    sweep: str | None = None
    started_in: str = ""

    @property
    def model(self) -> str:
        """The name in tables, that of the YAML in conf/model."""
        return self.choice("model")

    @property
    def data(self) -> str:
        """The data set in words, such as "mq2008 fold 1"."""
        settings = self.settings["data"]
        name = str(settings.get("name", self.choices.get("data")))
        fold = settings.get("fold")
        if fold is None:
            return name
        return f"{name} fold {fold}"

    @property
    def is_search(self) -> bool:
        """Whether a search chooses the settings of the run."""
        return self.settings["search"] is not None

    @property
    def shares_machine(self) -> bool:
        """Whether the command runs several jobs at a time."""
        executor = self.settings.get("executor") or {}
        target = str(executor.get("_target_", "InlineExecutor"))
        if target.endswith("InlineExecutor"):
            return False
        return bool(executor.get("workers", 2) > 1)

    def choice(self, group: str) -> str:
        """Returns the name of the YAML chosen in a group; "None" without one."""
        return str(self.choices.get(group))

    def varying(self, also: Sequence[str] = ()) -> list[str]:
        """Returns the overrides that differ from those of other jobs of the command; without any, all that do
        not apply to the whole command.

        Args:
            also: beginnings of the names of other settings that differ.
        """
        overrides = of_job(self.overrides or ())
        differing = (*self.swept, *also)
        varying = [
            line for line in overrides if line.lstrip("+~").startswith(differing)
        ]
        return varying or overrides

    def with_settings(self, **settings: Any) -> RunSpec:
        """Returns the spec with other values of some settings."""
        return replace(self, settings={**self.settings, **settings})

    def without_passwords(self) -> RunSpec:
        """Returns the spec with the passwords in its overrides masked; its settings keep them."""
        overrides = self.overrides
        if overrides is not None:
            overrides = tuple(map(without_password, overrides))
        swept = {
            key: tuple(map(without_password, values))
            for key, values in self.swept.items()
        }
        return replace(self, overrides=overrides, swept=swept)

    def key(
        self,
        data: Mapping[str, str],
        code: Mapping[str, str],
        versions: Mapping[str, str],
        *,
        is_trial: bool,
    ) -> JobKey:
        """Returns the key of a job. Its settings are those that have an effect, with the names of YAMLs.

        Args:
            data, code, versions: as in `JobKey`.
            is_trial: whether the job is a trial of a search.
        """
        settings = without(self.settings, SETTINGS_OF_COMMAND)
        settings["data"] = without(self.settings["data"], _OF_FILES)
        settings["names"] = {
            group: self.choice(group)
            for group in ("model", "params", "data")
            if group in self.choices
        }
        settings["trial"] = is_trial
        return JobKey(plain(settings), data, code, versions)


@dataclass(frozen=True)
class JobKey:
    """Everything that the results of a job depend on.

    Two jobs with equal keys give the same metrics. A finished job is therefore not run again, and a finished
    job whose key has changed is not compared with the others.

    Attributes:
        settings: the resolved configuration, without settings that cannot change a result.
        data: `Splits.digests`.
        code: digests of the code that computes: of ltrbench, and of a user's modules with backends or data
            sources; plug-ins with metrics are among the versions.
        versions: library -> version.
    """

    settings: Mapping[str, Any]
    data: Mapping[str, str]
    code: Mapping[str, str]
    versions: Mapping[str, str]

    @cached_property
    def digest(self) -> str:
        """The key as 32 hexadecimal digits."""
        return digest_of([self.settings, self.data, self.code, self.versions])

    def differences(self, earlier: JobKey) -> list[str]:
        """Returns one text per difference, such as `versions.lightgbm: 4.6.0 -> 4.7.0`."""
        texts = []
        for name in ("settings", "data", "code", "versions"):
            changes = _changes(getattr(earlier, name), getattr(self, name), name)
            for key, before, after in changes:
                texts.append(f"{key}: {before} -> {after}")
        return texts


def _changes(before: Any, after: Any, key: str) -> Iterator[tuple[str, str, str]]:
    """Yields (key, earlier value, new value) of each difference between two JSON values."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted({*before, *after}):
            value = before.get(name, "absent")
            changed = after.get(name, "absent")
            yield from _changes(value, changed, f"{key}.{name}")
    elif digest_of(before) != digest_of(after):
        yield key, _short(before), _short(after)


def _short(value: Any) -> str:
    text = str(value)
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}..."


def digest_of(value: Any) -> str:
    """Returns 32 hexadecimal digits that identify a JSON value."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def without(values: Values, names: Iterable[str]) -> dict[str, Any]:
    """Returns a mapping without some of its names."""
    kept = dict(values)
    for name in names:
        kept.pop(name, None)
    return kept


# ---- Overrides in the syntax of the command line.


def of_job(overrides: Iterable[str]) -> list[str]:
    """Returns the overrides without those that apply to the whole command.

    >>> of_job(["executor.workers=2", "+tracking.uri=x", "hydra.sweep.dir=s", "seed=1"])
    ['seed=1']
    """
    of_command = (*SETTINGS_OF_COMMAND, "hydra")
    return [line for line in overrides if first_word(line) not in of_command]


def first_word(override: str) -> str:
    """Returns the first word of the key of an override.

    >>> first_word("search.trials=3"), first_word("search/space=native"), first_word("+search=tpe")
    ('search', 'search', 'search')
    """
    key, _, _ = override.lstrip("+~").partition("=")
    return re.split(r"[./]", key)[0]
