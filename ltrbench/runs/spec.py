"""`RunSpec`: what a command asks of one run, from the composed configuration to the record.

The command line composes it, the plan of a sweep stores it, `ltrbench.config.build_experiment` builds the
ranker and the data source that it names, and result.json records it. A run from Python has an empty one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any


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

    def with_settings(self, **settings: Any) -> RunSpec:
        """Returns the spec with other values of some settings."""
        return replace(self, settings={**self.settings, **settings})

    def choice(self, group: str) -> str:
        """Returns the name of the YAML chosen in a group; "None" without one."""
        return str(self.choices.get(group))
