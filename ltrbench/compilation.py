"""Compilation: decorators that compile loops with numba, and notification of compilation.

`kernel` compiles a function on its first call. Machine code of ltrbench is cached on disk, so that each
machine compiles only once. numba recompiles a kernel if its file has changed. This module also recompiles it
if a file has changed from which the kernel's file imports other kernels, because they may be inlined. Kernels
of other modules, and those that call them, are compiled in each process: they may use code of any kind.
"""

from __future__ import annotations

import functools
import gc
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Literal, TypeVar, cast

import numba
import numpy as np
from numba.core import event
from numba.core.cpu import CPUTargetOptions
from numba.core.cpu_options import ParallelOptions
from numba.core.dispatcher import Dispatcher
from numba.core.options import TargetOptions

# Numba sets its attributes at import; type checkers do not see them.
config: Any = numba.config

ONLY_PRANGE: Any = ParallelOptions(  # type: ignore[no-untyped-call]
    {
        "prange": True,
        **dict.fromkeys(
            ("comprehension", "reduction", "inplace_binop", "setitem"), False
        ),
        **dict.fromkeys(("numpy", "stencil", "fusion"), False),
    }
)
"""Parallel options of every kernel: numba only parallelises loops over prange.

This must be an object and not a dict: numba empties a dict during the first compilation and then compiles
all later kernels with every option on. With these options, the body of a prange loop cannot contain array
expressions such as `a[i:j] - b[i:j]`; pass the slices to another kernel instead.
"""

# numba has this flag for the bodies of prange loops, and no option for it.
_of_flag: Any = TargetOptions.Mapping
CPUTargetOptions.noalias = _of_flag("noalias")

Part = tuple[int, int]
"""The items first, ..., end - 1 of a loop."""

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compiles a function for one thread; it releases the global interpreter lock."""
    return _compile(function, parallel=False)


def borrowing_kernel(function: Function) -> Function:
    """Compiles a function that creates no array, without counting the references to those of its arguments.

    Numba counts them whenever it takes an array out of a tuple, which costs more than a short step of a loop.
    """
    return _compile(function, parallel=False, counts_references=False)


def disjoint_kernel(function: Function) -> Function:
    """Compiles a `borrowing_kernel` of whose array arguments no two overlap, unless neither is written.

    LLVM then vectorises a loop over many arrays, for which its test of overlaps at run time would be long.
    """
    return _compile(function, parallel=False, counts_references=False, disjoint=True)


def parallel_kernel(function: Function) -> Function:
    """Compiles a function whose `prange` loops run on several threads; iterations must be independent.

    For loops within a kernel. Such a function takes a second more to compile [measured], so that a loop that
    Python calls is a `kernel` for `in_parts`.
    """
    return _compile(function, parallel=True)


def in_parts(
    function: Callable[..., None], num_items: int, *arguments: Any, fewest: int = 1
) -> None:
    """Calls a kernel for consecutive parts of the items, one for each of numba's threads.

    Args:
        function: `function(part, *arguments)` computes the items of a part, independently of the others.
        fewest: minimum number of items for which a thread takes less time than it costs.
    """
    if num_items == 0:
        return
    most = -(-num_items // fewest)
    num_parts = min(numba.get_num_threads(), most)
    bounds = [num_items * part // num_parts for part in range(num_parts + 1)]
    first, *others = itertools.pairwise(bounds)
    started = [_pool().submit(function, part, *arguments) for part in others]
    function(first, *arguments)
    for each in started:
        each.result()


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(config.NUMBA_NUM_THREADS, "ltrbench kernel")


if hasattr(os, "register_at_fork"):
    # A child process has none of the threads.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def inlined_kernel(function: Function) -> Function:
    """Compiles a function inlined into its caller, for a step that only one kernel uses."""
    return _compile(function, parallel=False, inline="always")


def _compile(
    function: Function,
    *,
    parallel: bool,
    inline: Literal["never", "always"] = "never",
    counts_references: bool = True,
    disjoint: bool = False,
) -> Function:
    # For debugging; unlike compiled code, NumPy scalars would issue warnings.
    if config.DISABLE_JIT:
        return np.errstate(all="ignore")(function)
    scope = function.__globals__
    kernels = [value for value in scope.values() if isinstance(value, Dispatcher)]
    is_ours = all(
        str(one.__module__).startswith("ltrbench.") for one in (function, *kernels)
    )
    # Without fastmath sums are not reordered: results have the same bits for every vector width. With
    # NumPy's error model a division by zero returns inf or NaN, as in the reference, and loops can be
    # vectorised.
    options: dict[str, Any] = {}
    if not counts_references:
        # A private option of numba, which also refuses functions that allocate memory.
        options["_nrt"] = False
    if disjoint:
        options["noalias"] = True
    decorate = numba.njit(
        cache=is_ours,
        nogil=True,
        fastmath=False,
        error_model="numpy",
        parallel=ONLY_PRANGE if parallel else False,
        inline=inline,
        **options,
    )
    try:
        compiled = decorate(function)
    except RuntimeError:
        # Neither the package's folder nor the user's cache is writable, as in a read-only container.
        config.CACHE_DIR = tempfile.mkdtemp(prefix="ltrbench-numba-")
        compiled = decorate(function)
    if is_ours:
        _stamp_with_imported(compiled, kernels)
    return cast(Function, compiled)


def is_cached(function: Callable[..., object]) -> bool:
    """Returns whether the cache has up-to-date machine code of a kernel; True if numba is disabled."""
    return not isinstance(function, Dispatcher) or bool(
        _cache_file(function)._load_index()
    )


def _stamp_with_imported(compiled: Any, kernels: list[Any]) -> None:
    """Appends the stamps of the kernels that a kernel's file imports to the kernel's stamp.

    Their stamps in turn contain those of the kernels that they import. The cache only loads machine code that
    was stored with the same stamp.
    """
    module = compiled.__module__
    imported = [
        _cache_file(other)._source_stamp
        for other in kernels
        if other.__module__ != module
    ]
    cache_file = _cache_file(compiled)
    cache_file._source_stamp = (cache_file._source_stamp, *imported)
    # numba reads the signatures of an index before it compares stamps, and fails if the class of an argument
    # no longer exists. It compares versions before.
    cache_file._version = (cache_file._version, cache_file._source_stamp)


def _cache_file(compiled: Any) -> Any:
    return compiled._cache._cache_file


class _FirstCompilation(event.Listener):
    def __init__(self, announce: Callable[[str], None]) -> None:
        self.announce = announce
        self.began: float | None = None

    def on_start(self, event: event.Event) -> None:
        if self.began is None:
            self.began = time.monotonic()
            self.announce(
                "compiling numerical code, once on this machine (plugins: in each process)"
            )

    def on_end(self, event: event.Event) -> None:
        pass


class _FewerCollections(event.Listener):
    """Collects garbage less often during a compilation.

    It creates so many objects that collections would take 6 % of its time [measured].
    """

    _OBJECTS = 50_000
    """Number of new objects after which garbage is collected; Python's default is 700."""

    def __init__(self) -> None:
        self._depth = 0
        self._before = gc.get_threshold()

    def on_start(self, event: event.Event) -> None:
        if self._depth == 0:
            self._before = gc.get_threshold()
            _, second, third = self._before
            gc.set_threshold(self._OBJECTS, second, third)
        self._depth += 1

    def on_end(self, event: event.Event) -> None:
        self._depth -= 1
        if self._depth == 0:
            gc.set_threshold(*self._before)


# Compilations of one process exclude each other; those within another are nested.
event.register("numba:compile", _FewerCollections())  # type: ignore[no-untyped-call]


@contextmanager
def announcing_compilation(announce: Callable[[str], None]) -> Iterator[None]:
    """Calls `announce` once when the block begins to compile kernels, and at its end with the seconds.

    Loading from the cache does not count.
    """
    first = _FirstCompilation(announce)
    with event.install_listener("numba:compile", first):
        yield
    if first.began is not None:
        announce(f"compiled in {time.monotonic() - first.began:.0f} s")


def compiling_process(code: str) -> subprocess.Popen[bytes]:
    """Starts a Python process that compiles kernels into the cache of this process, which then loads them.

    A thread that compiles holds the global interpreter lock most of the time. `communicate` of the process
    waits for its end. If it fails, it prints its error, and this process compiles the kernels later.
    """
    # -P and PYTHONPATH: the second process has this import path, without the working directory in addition.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    # The replacement that this process uses if the default cache is not writable.
    if config.CACHE_DIR:
        environment["NUMBA_CACHE_DIR"] = config.CACHE_DIR
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code], stdin=subprocess.PIPE, env=environment
    )


@contextmanager
def threads(num_threads: int) -> Iterator[None]:
    """Runs the parallel kernels of the block on `num_threads` threads, at most on numba's maximum."""
    before = numba.get_num_threads()
    numba.set_num_threads(min(num_threads, config.NUMBA_NUM_THREADS))
    try:
        yield
    finally:
        numba.set_num_threads(before)
