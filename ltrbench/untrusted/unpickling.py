"""Pickles in saved models: found in their files, and refused while a model is loaded.

A pickle may run code when it is read, so that no model may hold one. `pickles_in` names the files that do,
from their bytes. `unpickling_raises` is for what it cannot see, such as a pickle inside of another format.

What of a pickle runs code is a function or class that it names. Python's own unpicklers raise the audit event
pickle.find_class for every name that they look up (PEP 578), whichever module imported them and when. The
functions of `pickle` are replaced as well, for pickles that name nothing; a module that has imported one of
them by name may still read such a pickle, which holds numbers and texts only. Both act in the thread that
entered `unpickling_raises` alone: a thread that is started meanwhile unpickles as ever.
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

_REASON = "unpickling is refused here: a saved model must load without pickle"
_BEGINNING = re.compile(rb"\x80[\x02-\x05]")
"""The protocol of a pickle; protocols 0 and 1 begin with their content. The length that a safetensors file
begins with may have the same bytes."""
_OBJECTS = re.compile(rb"\x93NUMPY.{1,20}'descr': '\|O'", re.DOTALL)
"""A numpy array of objects, which are pickled."""
_HEAD = 256
_SMALL = 2**20
"""Bytes up to which a file is tried as a pickle of protocol 0 or 1, which later versions never wrote."""


class _Guard(threading.local):
    """Whether unpickling raises in this thread, and whether it was tried."""

    active = False
    tried = False


_guard = _Guard()


@contextlib.contextmanager
def unpickling_raises() -> Iterator[Callable[[], bool]]:
    """Unpickling in this thread raises `pickle.UnpicklingError`; gives a function that says whether it was
    tried, for who catches that.

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
    """What numpy, joblib, cloudpickle and dill call or derive from, and what takes its place."""
    # The unpickler written in Python; its name is not public, but others derive from it.
    in_python = vars(pickle)["_Unpickler"]
    yield in_python, "load", _guarded(in_python.load)
    for module in (pickle, sys.modules["_pickle"]):
        for name in ("load", "loads"):
            yield module, name, _guarded(getattr(module, name))
        # A class, because what is imported meanwhile may derive from it.
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
    """Adds the audit hook, which stays for the life of the process."""

    def refuse_names(event: str, _: tuple[Any, ...]) -> None:
        if event == "pickle.find_class" and _guard.active:
            _refuse()

    sys.addaudithook(refuse_names)


def pickles_in(folder: Path) -> list[Path]:
    """The files below a folder that are, or hold in an archive or array, a pickle."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and _holds_pickle(path)]


def _holds_pickle(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if _begins_pickled(head):
        return True
    # What only ends as an archive does, or is encrypted, is left to `unpickling_raises`.
    with contextlib.suppress(zipfile.BadZipFile, RuntimeError), zipfile.ZipFile(path) as archive:
        return any(_is_pickled(archive, member) for member in archive.namelist())
    return path.stat().st_size <= _SMALL and _is_old_pickle(path.read_bytes())


def _is_pickled(archive: zipfile.ZipFile, member: str) -> bool:
    with archive.open(member) as file:
        return _begins_pickled(file.read(_HEAD))


def _begins_pickled(head: bytes) -> bool:
    """Whether the first bytes of a file are those of a pickle, or of an array that holds one."""
    return bool(_OBJECTS.match(head) or (_BEGINNING.match(head) and _is_of_operations(head)))


def _is_of_operations(head: bytes) -> bool:
    """Whether bytes are operations of a pickle up to its end, or to theirs."""
    try:
        for _ in pickletools.genops(head):
            pass
    except ValueError as error:
        # Of an unknown operation; all else that it raises is the end of the bytes.
        return not str(error).startswith("at position")
    return True


def _is_old_pickle(content: bytes) -> bool:
    """Whether a file is one pickle from its first byte to its last; a short text may pass for two of its
    operations."""
    if not content.endswith(b"."):
        return False
    try:
        operations = [place for _, _, place in pickletools.genops(content)]
    except Exception:  # whatever it raises on what is no pickle
        return False
    return len(operations) > 2 and operations[-1] == len(content) - 1
