"""How loops are compiled: the decorators, and a watch on when compilation happens.

`kernel` compiles a function with numba on its first call and caches the machine code on disk, so that a
machine compiles once. numba compiles anew where a kernel's own file has changed; here it does so, too, where
one has changed from which that file imports kernels, because these may be part of the machine code.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import numba
import numpy as np
from numba.core import event
from numba.core.cpu_options import ParallelOptions
from numba.core.dispatcher import Dispatcher

config: Any = numba.config  # its settings are made at import, unseen by a type checker

ONLY_PRANGE: Any = ParallelOptions(  # type: ignore[no-untyped-call]
    {
        "prange": True,
        "comprehension": False,
        "reduction": False,
        "inplace_binop": False,
        "setitem": False,
        "numpy": False,
        "stencil": False,
        "fusion": False,
    }
)
"""Parallel options of every kernel: numba parallelises the loops that use prange, and nothing else.

An object and not the dict itself: numba empties a dict when it first compiles with it, and then compiles
every later kernel with all options on. With these options a prange body cannot compile an array expression,
such as `a[i:j] - b[i:j]`: pass the slices to a kernel that the body calls.
"""

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compiles a function for one thread; it runs without the interpreter's lock."""
    return _compile(function, parallel=False)


def parallel_kernel(function: Function) -> Function:
    """Compiles a function whose `prange` is shared out among threads, over independent outputs only."""
    return _compile(function, parallel=True)


def inlined_kernel(function: Function) -> Function:
    """Like `kernel`, for a step of one kernel only: put in place of its call, and compiled as part of it."""
    return _compile(function, parallel=False, inline="always")


def _compile(function: Function, *, parallel: bool, inline: Literal["never", "always"] = "never") -> Function:
    if config.DISABLE_JIT:  # to debug: NumPy's scalars would then warn where compiled code does not
        return np.errstate(all="ignore")(function)
    # Without fastmath, and so without reordered sums, results have the same bits whatever the vector width.
    # With NumPy's error model a division by zero gives inf or NaN as in the reference, and does not keep
    # loops scalar.
    decorate = numba.njit(
        cache=True,
        nogil=True,
        fastmath=False,
        error_model="numpy",
        parallel=ONLY_PRANGE if parallel else False,
        inline=inline,
    )
    try:
        compiled = decorate(function)
    except RuntimeError:
        # Neither the package's folder nor the user's cache can be written, as in a read-only container.
        config.CACHE_DIR = str(_temporary_cache())
        compiled = decorate(function)
    _stamp_with_imported(compiled)
    return cast(Function, compiled)


def is_cached(function: Callable[..., object]) -> bool:
    """Whether the disk holds machine code of a kernel as its files are now; so, too, where none is needed."""
    return not isinstance(function, Dispatcher) or bool(_cache_file(function)._load_index())


def _stamp_with_imported(compiled: Any) -> None:
    """Puts the stamps of the kernels that a kernel's file imports behind that of the file.

    Their own have those that they import behind them. The cache holds machine code under its stamp, and loads
    none of another.
    """
    module = compiled.__module__
    kernels = [value for value in compiled.py_func.__globals__.values() if isinstance(value, Dispatcher)]
    imported = [_cache_file(other)._source_stamp for other in kernels if other.__module__ != module]
    cache_file = _cache_file(compiled)
    cache_file._source_stamp = (cache_file._source_stamp, *imported)


def _cache_file(compiled: Any) -> Any:
    return compiled._cache._cache_file


def _temporary_cache() -> Path:
    """A folder in the system's temporary one; private, because what is cached there is run."""
    owner = os.getuid() if hasattr(os, "getuid") else 0
    shared = Path(tempfile.gettempdir()) / f"ltrbench-numba-{owner}"
    try:
        shared.mkdir(mode=0o700, exist_ok=True)
        status = shared.lstat()
    except OSError:
        return Path(tempfile.mkdtemp(prefix="ltrbench-numba-"))
    is_private = shared.is_dir() and not shared.is_symlink() and status.st_mode & 0o077 == 0
    if is_private and (not hasattr(os, "getuid") or status.st_uid == owner):
        return shared
    return Path(tempfile.mkdtemp(prefix="ltrbench-numba-"))


class _FirstCompilation(event.Listener):
    def __init__(self, announce: Callable[[], None]) -> None:
        self.announce = announce
        self.announced = False

    def on_start(self, event: event.Event) -> None:
        if not self.announced:
            self.announced = True
            self.announce()

    def on_end(self, event: event.Event) -> None:
        pass


@contextmanager
def announcing_compilation(announce: Callable[[], None]) -> Iterator[None]:
    """Calls `announce` once if a kernel is compiled inside the block, and not if all come from the cache."""
    with event.install_listener("numba:compile", _FirstCompilation(announce)):
        yield


@contextmanager
def threads(num_threads: int) -> Iterator[None]:
    """Runs the parallel kernels of the block on so many threads, or on as many as numba was started with."""
    before = numba.get_num_threads()
    numba.set_num_threads(min(num_threads, config.NUMBA_NUM_THREADS))
    try:
        yield
    finally:
        numba.set_num_threads(before)
