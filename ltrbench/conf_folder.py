"""The folder of our YAMLs, and the settings of one of them, read without Hydra."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]


def conf_dir() -> Path:
    """Returns the folder of our YAMLs: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def settings_in(group: str, name: str) -> dict[str, Any]:
    """Returns the settings of conf/GROUP/NAME.yaml and of those that its `defaults` name.

    A value that refers to a key elsewhere, `${...}`, is left out: it is set by a composed configuration only.
    """
    content = yaml.safe_load((conf_dir() / group / f"{name}.yaml").read_text(encoding="utf-8"))
    settings: dict[str, Any] = {}
    for base in content.pop("defaults", ["_self_"]):
        settings |= content if base == "_self_" else settings_in(group, base)
    return {key: value for key, value in settings.items() if not str(value).startswith("${")}
