"""Folder of the YAML configuration, and the settings of one YAML, read without Hydra."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import errno
import importlib
import importlib.util
import inspect
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import yaml  # type: ignore[import-untyped]

from ltrbench.errors import ConfigError


def conf_dir() -> Path:
    """Returns the folder of the YAML configuration: inside the package in a wheel, beside it in a
    checkout."""
    package = Path(__file__).resolve().parent
    inside = package / "conf"
    if inside.is_dir():
        return inside
    return package.parent / "conf"


def models() -> list[str]:
    """Returns the names of the YAMLs in conf/model, without the bases, such as _boosting."""
    return sorted(path.stem for path in conf_dir().glob("model/[!_]*.yaml"))


def backends() -> list[str]:
    """Returns the models that name a class of their own; the others are settings of one of these."""
    names = []
    for model in models():
        text = (conf_dir() / "model" / f"{model}.yaml").read_text(encoding="utf-8")
        if "_target_" in yaml.safe_load(text):
            names.append(model)
    return names


def settings_in(group: str, name: str) -> dict[str, Any]:
    """Returns the settings of conf/GROUP/NAME.yaml, including those that its `defaults` name.

    Interpolated values, `${...}`, are left out: only a composed configuration resolves them.
    """
    path = conf_dir() / group / f"{name}.yaml"
    # Registered by `ltrbench.config`, with interpolated values only.
    if not path.exists():
        return {}
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    settings: dict[str, Any] = {}
    for base in content.pop("defaults", ["_self_"]):
        if isinstance(base, dict):
            ((key, choice),) = base.items()
            part = key.removeprefix("override ")
            settings |= (
                {part: settings_in(f"{group}/{part}", choice)}
                if choice != "none"
                else {}
            )
        else:
            settings |= content if base == "_self_" else settings_in(group, base)
    literal = {}
    for key, value in settings.items():
        is_interpolation = str(value).startswith("${")
        if not is_interpolation:
            literal[key] = value
    return literal


# ---- Imports of modules that the user names: a backend, a data source, or a plug-in with metrics.

_only: Path | None = None


def search_current_folder() -> None:
    """Adds the current folder to the import path, where it stays after the process changes its folder.

    Inside `searching_only`, adds nothing.
    """
    # `python -m` puts the current folder on the path; an installed entry point does not.
    here = str(Path.cwd())
    if _only is None and not {"", here} & set(sys.path):
        sys.path.insert(0, here)


@contextlib.contextmanager
def searching_only(folder: Path) -> Iterator[None]:
    """Adds a folder to the import path; inside the block the current folder is not searched.

    For a process that changes into a folder that a file names: no code may be loaded from there.
    """
    global _only
    before = _only
    _only = folder
    paths = [str(folder) if path == "" else path for path in sys.path]
    sys.path[:] = paths
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        _only = before


def modules_folder() -> Path:
    """Returns the folder that is searched for modules of the user."""
    return Path.cwd() if _only is None else _only


def import_user_module(name: str) -> ModuleType:
    """Imports an installed module or a module in the current folder."""
    search_current_folder()
    return importlib.import_module(name)


def files_of_module(name: str) -> dict[str, Path]:
    """Returns module -> source file, of an imported module and of the modules in `modules_folder` that it
    imports, these import, and so on; empty for a module without a file.

    Installed packages are left out: their versions are recorded.
    """
    source = getattr(sys.modules.get(name), "__file__", None)
    if source is None or not Path(source).is_file():
        return {}
    folder = modules_folder()
    files = {name: Path(source)}
    if _file_below(folder, name) is None:
        return files
    waiting = [name]
    while waiting:
        importing = waiting.pop()
        for imported in _imports(importing, files[importing]):
            file = _file_below(folder, imported)
            if file is not None and imported not in files:
                files[imported] = file
                waiting.append(imported)
    return files


def _file_below(folder: Path, module: str) -> Path | None:
    """Returns the source file of a module in a folder; None without one, or for a module of ltrbench."""
    parts = module.split(".")
    if parts[0] == __name__.partition(".")[0]:
        return None
    path = folder.joinpath(*parts)
    candidates = [path.with_name(f"{path.name}.py"), path / "__init__.py"]
    return next(filter(Path.is_file, candidates), None)


def _imports(module: str, file: Path) -> set[str]:
    """Returns the names in the import statements of a file, of which some may be no modules, and their
    packages."""
    package = module
    if file.name != "__init__.py":
        package = module.rpartition(".")[0]
    names: list[str] = []
    # The import of a module that cannot be read raises the error.
    with contextlib.suppress(SyntaxError, ImportError):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                names.extend(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                source = "." * node.level + (node.module or "")
                base = importlib.util.resolve_name(source, package)
                names.extend(f"{base}.{alias.name}" for alias in node.names)
    imported: set[str] = set()
    for name in names:
        imported.update(itertools.accumulate(name.split("."), "{}.{}".format))
    return imported


# ---- Durable files, and remedies for errors of the disk.

DISK_REMEDIES = {
    errno.ENOSPC: "Free space on its disk",
    errno.EDQUOT: "Free space within your quota",
    errno.EFBIG: "Raise the limit on the size of files (ulimit -f)",
    errno.EROFS: "Mount its disk for writing",
    errno.EACCES: "Change its permissions",
    errno.EPERM: "Change its permissions",
    errno.EEXIST: "Move the file in its place",
    errno.ENOTDIR: "Move the file in its place",
}
"""Number of an OSError -> what a user can do about a folder that cannot be written."""


def find_class(target: str, kind: type[Any], key: str) -> type[Any]:
    """Imports the class that a `_target_` names; its module may be in the current folder.

    Raises:
        ConfigError: It cannot be imported, or is not a dataclass derived from `kind`.
    """
    module_name, _, class_name = target.rpartition(".")
    try:
        target_class = getattr(import_user_module(module_name), class_name)
    except Exception as error:
        remedy = ""
        if module_name.startswith("results."):
            remedy = (
                " The studies of ltrbench run in a checkout of it, in its top folder."
            )
        raise ConfigError(
            f"{key}._target_ is '{target}', which cannot be imported: {error}.{remedy}"
        ) from error
    reason = ""
    if not (isinstance(target_class, type) and issubclass(target_class, kind)):
        reason = "is not derived from it"
    elif abstract := sorted(getattr(target_class, "__abstractmethods__", ())):
        reason = f"does not define {', '.join(abstract)}"
    elif "__dataclass_fields__" not in vars(target_class):
        types = map(str, inspect.get_annotations(target_class).values())
        if not dataclasses.is_dataclass(target_class) or any(
            "ClassVar" not in name for name in types
        ):
            reason = "has no @dataclass(kw_only=True) above the class"
    if reason:
        raise ConfigError(
            f"{key}._target_ is '{target}', which must be a dataclass derived from {kind.__name__}, but "
            f"{reason}."
        )
    return cast(type[Any], target_class)


def flush(folder: Path) -> None:
    """Waits until the content of all files below a folder is on the disk."""
    # Without fdatasync, a file may be empty after a power failure although its new name is on the disk.
    synchronize = getattr(os, "fdatasync", os.fsync)
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                synchronize(file.fileno())
