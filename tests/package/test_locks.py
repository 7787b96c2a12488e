"""The locks: what `make setup` installs for users, and what the targets of developers add."""

from __future__ import annotations

from importlib.metadata import distribution
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from paths import ROOT

USERS, DEVELOPERS = "requirements.lock", "requirements-dev.lock"
MOST_MEGABYTES = 1100
FIRST_PLATFORM, *OTHER_PLATFORMS = [
    {"sys_platform": system, "python_version": python, "python_full_version": f"{python}.7"}
    for system in ("linux", "darwin")
    for python in ("3.11", "3.12", "3.13")
]


def lines(lock: str) -> list[str]:
    """Returns one line per version: the requirement, its marker and its hashes."""
    text = (ROOT / lock).read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]


def pinned(lock: str, platform: dict[str, str] = FIRST_PLATFORM) -> dict[str, str]:
    """Returns distribution -> version that a lock installs on a platform."""
    requirements = [Requirement(line.split(" --hash")[0]) for line in lines(lock)]
    return {
        item.name: str(item.specifier)
        for item in requirements
        if item.marker is None or item.marker.evaluate(dict(platform))
    }


@pytest.mark.parametrize("lock", [USERS, DEVELOPERS])
def test_a_lock_has_a_hash_for_every_version_and_no_address(lock: str) -> None:
    assert lines(lock)
    assert [line for line in lines(lock) if "--hash=sha256:" not in line or "://" in line] == []


@pytest.mark.parametrize("platform", [FIRST_PLATFORM, *OTHER_PLATFORMS])
def test_developers_have_what_users_have_in_the_same_versions(platform: dict[str, str]) -> None:
    assert pinned(USERS, platform).items() <= pinned(DEVELOPERS, platform).items()


def test_users_get_nothing_for_other_backends_for_gpus_or_for_developers() -> None:
    others = {
        "catboost",
        "onnx",
        "onnxruntime",
        "treelite",
        "dask",
        "plotly",
        "playwright",
        "mkdocs",
        "pytest",
    }
    installed = pinned(USERS)
    assert others.isdisjoint(installed)
    assert others <= pinned(DEVELOPERS).keys()
    assert not any(name.startswith("nvidia") for name in pinned(DEVELOPERS))
    assert "xgboost-cpu" in installed
    assert "xgboost" not in installed


def test_what_users_get_has_at_most_1100_megabytes() -> None:
    files = {Path(str(file.locate())) for name in pinned(USERS) for file in distribution(name).files or ()}
    modules = (path for path in files if path.suffix == ".py" and "tests" not in path.parts)
    files |= {Path(cache_from_source(str(path))) for path in modules}
    occupied = sum(512 * path.stat().st_blocks for path in files if path.exists())
    assert occupied < MOST_MEGABYTES * 2**20
