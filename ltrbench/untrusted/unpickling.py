"""Detects pickles in the files of saved models, and makes unpickling an error while a model is loaded.

Reading a pickle may run code, so no model may contain one. `pickles_in` finds the files that do, from their
bytes. `unpickling_raises` covers what it cannot detect, such as a pickle inside another format.

A pickle runs code through the functions and classes that it names. Python's unpicklers raise the audit event
pickle.find_class for every such name (PEP 578), whichever module imported them and when. The functions of
`pickle` are replaced as well, for pickles without names; a module that imported one of these functions by
name can still read such a pickle, which contains only numbers and strings. Both mechanisms apply only to the
thread that entered `unpickling_raises`: other threads unpickle as usual.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import pickletools
import re
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

_REASON = "unpickling is refused: a saved model must load without pickle"
_BEGINNING = re.compile(rb"\x80[\x02-\x05]")
"""First bytes of a pickle of protocol 2 or later; protocols 0 and 1 have no header. The length at the start
of a safetensors file may have the same bytes."""
_OBJECTS = re.compile(rb"\x93NUMPY.{1,20}'descr': '\|O'", re.DOTALL)
"""Header of a numpy array of Python objects, which are pickled."""
_HEAD = 256
_SMALL = 2**20
"""Maximum size in bytes of a file that is checked for pickle protocols 0 and 1."""


class _Guard(threading.local):
    """State of this thread: whether unpickling raises, and whether it was attempted."""

    active = False
    tried = False


_guard = _Guard()


@contextlib.contextmanager
def unpickling_raises() -> Iterator[Callable[[], bool]]:
    """Makes unpickling in this thread raise `pickle.UnpicklingError`.

    Yields a function that returns whether unpickling was attempted, in case the error is caught.

    >>> with unpickling_raises() as tried:
    ...     try:
    ...         pickle.loads(pickle.dumps([1.0]))
    ...     except pickle.UnpicklingError:
    ...         print("refused")
    refused
    >>> tried()
    True
    """
    _watch()
    before = _guard.active
    _guard.active, _guard.tried = True, False
    with contextlib.ExitStack() as replaced:
        for place, name, guarded in _entry_points():
            replaced.callback(setattr, place, name, getattr(place, name))
            setattr(place, name, guarded)
        try:
            yield lambda: _guard.tried
        finally:
            _guard.active = before


def _entry_points() -> Iterator[tuple[Any, str, Any]]:
    """Yields the functions and classes that numpy, joblib, cloudpickle and dill use, with their
    replacements."""
    # The unpickler in Python; its name is private, but other libraries derive from it.
    in_python = vars(pickle)["_Unpickler"]
    yield in_python, "load", _guarded(in_python.load)
    for module in (pickle, sys.modules["_pickle"]):
        for name in ("load", "loads"):
            yield module, name, _guarded(getattr(module, name))
        # A class, because modules imported meanwhile may derive from it.
        unpickler = vars(module)["Unpickler"]
        yield module, "Unpickler", type("Unpickler", (unpickler,), {"load": _guarded(unpickler.load)})


def _guarded(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _guard.active:
            _refuse()
        return original(*args, **kwargs)

    return call


def _refuse() -> NoReturn:
    _guard.tried = True
    raise pickle.UnpicklingError(_REASON)


@functools.cache
def _watch() -> None:
    """Adds the audit hook, which cannot be removed before the process ends."""

    def refuse_names(event: str, _: tuple[Any, ...]) -> None:
        if event == "pickle.find_class" and _guard.active:
            _refuse()

    sys.addaudithook(refuse_names)


def pickles_in(folder: Path) -> list[Path]:
    """Returns the files below a folder that are a pickle, or contain one in an archive or array."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and _holds_pickle(path)]


def _holds_pickle(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if _begins_pickled(head):
        return True
    # Invalid or encrypted archives are left to `unpickling_raises`.
    with contextlib.suppress(zipfile.BadZipFile, RuntimeError), zipfile.ZipFile(path) as archive:
        return any(_is_pickled(archive, member) for member in archive.namelist())
    return path.stat().st_size <= _SMALL and _is_old_pickle(path.read_bytes())


def _is_pickled(archive: zipfile.ZipFile, member: str) -> bool:
    with archive.open(member) as file:
        return _begins_pickled(file.read(_HEAD))


def _begins_pickled(head: bytes) -> bool:
    """Returns whether the first bytes of a file are those of a pickle, or of an array of objects."""
    return bool(_OBJECTS.match(head) or (_BEGINNING.match(head) and _is_of_operations(head)))


def _is_of_operations(head: bytes) -> bool:
    """Returns whether the bytes are valid pickle operations up to the end of the pickle or of the bytes."""
    try:
        for _ in pickletools.genops(head):
            pass
    except ValueError as error:
        # "at position" is an unknown operation; any other error is the end of the bytes.
        return not str(error).startswith("at position")
    return True


def _is_old_pickle(content: bytes) -> bool:
    """Returns whether a file is one complete pickle.

    At least three operations are required, because a short text may be two valid operations.
    """
    if not content.endswith(b"."):
        return False
    try:
        operations = [place for _, _, place in pickletools.genops(content)]
    except Exception:  # genops raises any exception on other bytes
        return False
    return len(operations) > 2 and operations[-1] == len(content) - 1
