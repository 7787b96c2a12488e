"""Where a number comes from: versions, machine and commit, as every result carries them."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ltrbench import __version__

_CHANGES = ("status", "--porcelain", "--untracked-files=no", "--", ":(top,exclude)results")
_ALWAYS = ("numpy", "scipy", "numba", "hydra-core")


def versions(packages: Iterable[str] = ()) -> dict[str, str]:
    """Python, ltrbench, what every run uses, and the given distributions -> version, "absent" where not
    installed."""
    found = {"python": platform.python_version(), "ltrbench": __version__}
    for name in (*_ALWAYS, *packages):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def machine() -> dict[str, str | int]:
    """What the seconds of a run were taken on."""
    return {"system": platform.platform(), "cpu": _cpu_name(), "cores": os.cpu_count() or 1}


def commit() -> str | None:
    """The git commit of the current folder, "-dirty" behind it where the folder differs; None outside git.

    What differs below results/ does not count: `make results` writes there what the next study does not read.
    """
    head = _git("rev-parse", "HEAD")
    if head is None:
        return None
    return f"{head}-dirty" if _git(*_CHANGES) else head


def without_password(text: str) -> str:
    """The text with the password of each address in it masked: a result is shown to others.

    >>> without_password("http://me:secret@host:5000")
    'http://me:***@host:5000'
    """
    return re.sub(r"(://[^\s:/@]*):[^\s/@]+@", r"\1:***@", text)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
