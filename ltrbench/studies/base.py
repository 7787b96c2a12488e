"""The contract of a study that is no run: it trains and measures as it needs, and leaves a table.

Its YAML is in conf/experiment and sets `study`: `what`, whose `_target_` names the class, and the `models`
and `data` that it is given.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ltrbench.data import Splits
from ltrbench.data.sources import DataSource
from ltrbench.errors import DataError
from ltrbench.measure.provenance import commit, machine, versions
from ltrbench.metrics import Convention
from ltrbench.metrics.plugins import plugin_versions
from ltrbench.rankers import Ranker


class Study(ABC):
    """A dataclass of its settings, as a Ranker is."""

    @abstractmethod
    def run(self, models: Mapping[str, Ranker], data: Mapping[str, DataSource]) -> Path:
        """Does all of it; returns the file of the table."""


def load_or_reason(source: DataSource) -> tuple[Splits | None, str]:
    """Returns the data, or None and why there is none."""
    try:
        return source.load(), ""
    except DataError as error:
        return None, str(error).split(". ")[0].replace("|", " ")


def publish_study(
    folder: Path,
    body: str,
    *,
    command: str,
    packages: Iterable[str],
    conventions: Iterable[Convention] = (),
    data: Mapping[str, Splits] | None = None,
    findings: Mapping[str, Any] | None = None,
) -> Path:
    """Writes table.md and environment.json, with what every reported number carries; returns the table.

    Args:
        body: of the table, in Markdown.
        command: what makes it again.
        packages: the distributions whose versions matter, beside those of every run.
        conventions: that its metrics were computed under.
        data: name -> splits, whose fingerprints are kept.
        findings: what else environment.json holds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made_at, used = commit(), versions(packages) | plugin_versions()
    environment = {
        "command": command,
        "commit": made_at,
        "versions": used,
        "machine": machine(),
        "conventions": [convention.describe() for convention in conventions],
        "fingerprints": {
            name: {split: dataset.fingerprint for split, dataset in splits}
            for name, splits in (data or {}).items()
        },
        **(findings or {}),
    }
    (folder / "environment.json").write_text(json.dumps(environment, indent=2) + "\n")
    # Outside git there is none.
    by = f"`{command}`{f', commit {made_at}' if made_at else ''}"
    named = ", ".join(f"{name} {version}" for name, version in used.items())
    table = folder / "table.md"
    table.write_text(f"# {folder.resolve().name}\n\n{body}\n\nMade by {by}: {named}.\n")
    return table
