"""Metrics from outside the package: a plug-in is a module that decorates functions with `metric`.

Only the user names a plug-in: on the command line, in a YAML file or by an import. The plug-ins recorded in a
run folder are displayed and never imported.
"""

from __future__ import annotations

import hashlib
import logging
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path

from ltrbench.errors import ConfigError, LtrbenchError, did_you_mean
from ltrbench.metrics.functions import METRICS
from ltrbench.user_modules import import_user_module

log = logging.getLogger("ltrbench")

_PACKAGE = __name__.partition(".")[0]
_HASH = "sha256:"
_loaded: set[str] = set()


def load_plugins(modules: Sequence[str], option: str) -> None:
    """Imports modules and registers the metrics they define. Each module is imported once.

    Args:
        option: setting or option that names the modules, for messages: "plugins" or "--plugin".

    Raises:
        ConfigError: If a module does not exist, or its import fails; the message gives file and line.
    """
    for name in modules:
        if name not in _loaded:
            _load(name, option)
            _loaded.add(name)


def plugin_versions() -> dict[str, str]:
    """Returns module -> version and hash of the source file, for each plug-in with metrics."""
    modules = sorted({metric.function.__module__ for metric in METRICS.values()})
    return {name: _version(name) for name in modules if not _is_part_of(_PACKAGE, name)}


def is_plugin_version(version: str) -> bool:
    """Returns whether a version in a result was written by `plugin_versions`."""
    return _HASH in version


def _load(name: str, option: str) -> None:
    if not all(part.isidentifier() for part in name.split(".")):
        module = Path(name).stem
        example = f", such as {module}" if module.isidentifier() else ""
        raise ConfigError(
            f"{option}: '{name}' is not a module name. Give an importable name{example}; the module must be "
            "in the current folder or installed."
        )
    before = dict(METRICS)
    try:
        import_user_module(name)
    except (Exception, SystemExit) as error:
        METRICS.clear()
        METRICS.update(before)
        raise ConfigError(f"{option}: {_what_failed(name, error)}") from error
    defines_some = any(_is_part_of(name, metric.function.__module__) for metric in METRICS.values())
    if before == METRICS and not defines_some:
        log.warning(
            "%s: the module %s defines no metric. Decorate its functions with @metric(NAME) from "
            "ltrbench.metrics, or remove the module.",
            option,
            name,
        )


def _what_failed(name: str, error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name and _is_part_of(error.name, name):
        here = [path.stem for path in Path.cwd().glob("*.py")]
        return (
            f"no module '{error.name}' in the current folder or the environment"
            f"{did_you_mean(error.name, here)} Start in the folder of {error.name}.py, or install the module."
        )
    # Other errors need their type: the text of KeyError is only 'a'.
    reason = str(error) if isinstance(error, LtrbenchError) else f"{type(error).__name__}: {error}"
    return f"the module '{name}' cannot be imported, {_place(error)}: {reason}"


def _place(error: BaseException) -> str:
    """Returns the file and line of the user's code where an import failed."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    not_ours = str(Path(__file__).parents[1])
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<frozen", not_ours))
        and not frame.filename.endswith("importlib/__init__.py")
    ]
    paths = sysconfig.get_paths()
    libraries = tuple(paths[kind] for kind in ("stdlib", "purelib", "platlib"))
    of_user = [frame for frame in frames if not frame.filename.startswith(libraries)]
    last = [*frames, *of_user][-1:]  # an installed module has frames in libraries only
    return f"{last[0].filename}:{last[0].lineno}" if last else "before its first line"


def _version(name: str) -> str:
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    stated = getattr(sys.modules.get(name.partition(".")[0]), "__version__", None)
    source = "no source file"  # a notebook's cells
    if file is not None and Path(file).is_file():
        source = f"{_HASH}{hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]}"
    return source if stated is None else f"{stated} {source}"


def _is_part_of(package: str, module: str) -> bool:
    return module == package or module.startswith(f"{package}.")
