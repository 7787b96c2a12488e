"""Folder of the YAML configuration, and the settings of one YAML, read without Hydra."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]


def conf_dir() -> Path:
    """Returns the folder of the YAML configuration: inside the package in a wheel, beside it in a
    checkout."""
    package = Path(__file__).resolve().parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def settings_in(group: str, name: str) -> dict[str, Any]:
    """Returns the settings of conf/GROUP/NAME.yaml, including those inherited through its `defaults`.

    Interpolated values, `${...}`, are left out: only a composed configuration resolves them.
    """
    path = conf_dir() / group / f"{name}.yaml"
    if not path.exists():  # registered by `ltrbench.config`, with interpolated values only
        return {}
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    settings: dict[str, Any] = {}
    for base in content.pop("defaults", ["_self_"]):
        settings |= content if base == "_self_" else settings_in(group, base)
    return {key: value for key, value in settings.items() if not str(value).startswith("${")}
