"""Provenance of results: settings, versions, machine and commit.

Versions, machine and commit are read once per process: they describe the code that the process has imported,
and a sweep of a thousand runs would otherwise start git two thousand times.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from ltrbench import __version__

_CHANGES = ("status", "--porcelain", "--untracked-files=no", "--")
_CODE = ((":(top,exclude)results",), (":(top)results/*.py",))
"""Paths whose changes mark the commit: everything but results/, and the code in results/."""
_ALWAYS = ("numpy", "scipy", "numba", "hydra-core")
_ALTERNATIVES = {"xgboost": ("xgboost-cpu",)}
"""Other distributions of the same package."""


def versions(packages: Iterable[str] = ()) -> dict[str, str]:
    """Returns the versions of Python, ltrbench, its core dependencies and the given distributions.

    The version of a distribution that is not installed is "absent"; xgboost may be installed as xgboost-cpu.
    """
    installed = {"python": platform.python_version(), "ltrbench": __version__}
    return installed | {name: _version(name) for name in (*_ALWAYS, *packages)}


@functools.cache
def _version(name: str) -> str:
    for distribution in (name, *_ALTERNATIVES.get(name, ())):
        with contextlib.suppress(PackageNotFoundError):
            return version(distribution)
    return "absent"


def machine() -> dict[str, str | int]:
    """Returns system, processor and number of cores of this machine."""
    return {"system": platform.platform(), "cpu": _cpu_name(), "cores": os.cpu_count() or 1}


def commit() -> str | None:
    """Returns the git commit of the current folder, with "-dirty" if files differ; None outside git.

    Changes below results/ other than of code are ignored: `make results` writes files there that no later
    study reads. A process reads the commit of a folder once, because a later commit does not change the code
    that it has imported.
    """
    return _commit_of(Path.cwd())


@functools.cache
def _commit_of(folder: Path) -> str | None:
    head = _git(folder, "rev-parse", "HEAD")
    if head is None:
        return None
    return f"{head}-dirty" if any(_git(folder, *_CHANGES, *paths) for paths in _CODE) else head


def without_password(text: str) -> str:
    """Returns the text with the passwords of addresses masked, because results are published.

    >>> without_password("http://me:secret@host:5000")
    'http://me:***@host:5000'
    """
    return re.sub(r"(://[^\s:/@]*):[^\s/@]+@", r"\1:***@", text)


def described(instance: Any) -> dict[str, Any]:
    """Returns the class and the constructor arguments of a dataclass object, as JSON values.

    Returns:
        "class": dotted name, as in `_target_` of a YAML file; "fields": fields of the constructor with their
        values. An array is given by type, shape and digest, a data set by its fingerprint.

    >>> from ltrbench.rankers.single_feature import SingleFeatureRanker
    >>> described(SingleFeatureRanker(seed=3))["fields"]
    {'seed': 3, 'num_threads': 0, 'metric': 'ndcg@10'}
    """
    return {"class": _dotted(type(instance)), "fields": _fields(instance)}


def _fields(instance: Any) -> dict[str, Any]:
    declared = _declared(type(instance))
    values = {item.name: getattr(instance, item.name) for item in fields(instance) if item.init}
    # The class of a dataclass is recorded with its fields, unless the annotation names it.
    annotated = {name for name, value in values.items() if type(value) in declared.get(name, ())}
    return {
        name: _fields(value) if name in annotated and is_dataclass(value) else plain(value)
        for name, value in values.items()
    }


def _declared(kind: type[Any]) -> dict[str, tuple[Any, ...]]:
    """Returns field -> classes in its annotation; empty if annotations cannot be resolved."""
    try:
        hints = get_type_hints(kind)
    except (NameError, TypeError, AttributeError):
        return {}
    return {name: get_args(hint) or (hint,) for name, hint in hints.items()}


def plain(value: Any) -> Any:
    """Returns the value of a setting as a JSON value, with passwords of addresses masked; NaN is None.

    >>> plain((Path("a"), math.inf, np.float32(0.5), {"b": math.nan}))
    ['a', 'inf', 0.5, {'b': None}]
    """
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, (str, Path)):
        return without_password(str(value))
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, np.ndarray):
        return _describe_array(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    return _plain_object(value)


def _plain_object(value: Any) -> Any:
    fingerprint = getattr(value, "fingerprint", None)
    if isinstance(fingerprint, str):
        return {"fingerprint": fingerprint}
    if is_dataclass(value) and not isinstance(value, type):
        return {"_target_": _dotted(type(value)), **_fields(value)}
    if isinstance(value, functools.partial):
        return plain({"_target_": value.func, "args": value.args, **value.keywords})
    if hasattr(value, "__qualname__"):
        return _dotted(value)
    if "__repr__" not in _defined(value):
        return _dotted(type(value))
    # Memory addresses differ between processes.
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(value))


def _defined(value: Any) -> set[str]:
    """Returns the names that the classes of an object define, without those of `object`."""
    return {name for kind in type(value).__mro__[:-1] for name in vars(kind)}


def _describe_array(array: NDArray[Any]) -> str:
    # The bytes of an object array are memory addresses.
    content = json.dumps(plain(array.tolist())).encode() if array.dtype.hasobject else array.tobytes()
    digest = hashlib.blake2b(content, digest_size=8).hexdigest()
    return f"{array.dtype} array of shape {array.shape}, digest {digest}"


def _dotted(named: Any) -> str:
    return f"{named.__module__}.{named.__qualname__}"


@functools.cache
def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
