"""What the studies in this folder share: loading of data that may be absent, and the files of a study."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ltrbench import measure
from ltrbench.data import Splits
from ltrbench.data.sources import DataSource
from ltrbench.errors import DataError
from ltrbench.metrics import Convention
from ltrbench.metrics.evaluation import plugin_versions


def load_or_reason(source: DataSource) -> tuple[Splits | None, str]:
    """Returns the data and an empty text, or None and the reason why the data are not available."""
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
    """Writes table.md and environment.json, with the provenance of the numbers; returns the table's path.

    Args:
        body: content of table.md, in Markdown.
        command: command that reproduces the study.
        packages: distributions to record with their versions, in addition to those of every run.
        conventions: conventions of the metrics.
        data: name -> splits; their fingerprints are recorded.
        findings: further entries of environment.json.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made_at, used = measure.commit(), measure.versions(packages) | plugin_versions()
    environment = {
        "command": command,
        "commit": made_at,
        "versions": used,
        "machine": measure.machine(),
        "conventions": [convention.describe() for convention in conventions],
        "fingerprints": {
            name: {split: dataset.fingerprint for split, dataset in splits}
            for name, splits in (data or {}).items()
        },
        **(findings or {}),
    }
    (folder / "environment.json").write_text(json.dumps(environment, indent=2) + "\n")
    # Outside git there is no commit.
    by = f"`{command}`{f', commit {made_at}' if made_at else ''}"
    named = ", ".join(f"{name} {version}" for name, version in used.items())
    table = folder / "table.md"
    table.write_text(f"# {folder.resolve().name}\n\n{body}\n\nMade by {by}: {named}.\n")
    return table
