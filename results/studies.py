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
        first_sentence, _, _ = str(error).partition(". ")
        return None, first_sentence.replace("|", " ")


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
    commit = measure.commit()
    packages_used = measure.versions(packages) | plugin_versions()
    fingerprints = {}
    for name, splits in (data or {}).items():
        fingerprints[name] = {split: item.fingerprint for split, item in splits}
    environment = {
        "command": command,
        "commit": commit,
        "versions": packages_used,
        "machine": measure.machine(),
        "conventions": [convention.describe() for convention in conventions],
        "fingerprints": fingerprints,
        **(findings or {}),
    }
    (folder / "environment.json").write_text(json.dumps(environment, indent=2) + "\n")
    provenance = f"`{command}`"
    if commit:  # outside git there is none
        provenance += f", commit {commit}"
    versions = [f"{name} {version}" for name, version in packages_used.items()]
    title = folder.resolve().name
    made_by = f"Made by {provenance}: {', '.join(versions)}."
    table = folder / "table.md"
    table.write_text(f"# {title}\n\n{body}\n\n{made_by}\n")
    return table
