"""Checks of the model that a run has just saved: it must load without running code, and give the same scores.

It is loaded in the process of the run, while unpickling raises. Another process would take seconds to import
the libraries, in every job of a sweep; tests/rankers/test_conformance.py does load every backend's model in
one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ResultError
from ltrbench.rankers.base import Ranker
from ltrbench.shapes import Features
from ltrbench.untrusted.unpickling import pickles_in, unpickling_raises

_REMEDY = (
    "Save arrays with numpy.savez, settings as JSON, or the model in its library's own format, as "
    "docs/tasks/adding-a-backend.md shows."
)


class SavedModelError(ResultError):
    """What a ranker's `save` wrote is not what its contract asks for."""


def check_saved(ranker: Ranker, folder: Path, features: Features, scores: NDArray[np.floating[Any]]) -> None:
    """Loads what a ranker saved into a folder, while unpickling raises, and predicts again.

    `predict` may unpickle, because numba does so when it compiles a function. A `predict` that reads a pickle
    of the folder late is found by the bytes of the files, before `load`.

    Args:
        features: (D, F), of documents to which the ranker has given `scores`, (D,).

    Raises:
        SavedModelError: where the folder holds a pickle, does not load, or predicts other scores.
    """
    name = type(ranker).__name__
    for path in pickles_in(folder):
        raise SavedModelError(
            f"{name}.save wrote a pickle into {_place(path, folder)}, and a pickle may run code when it is "
            f"loaded. {_REMEDY}"
        )
    with unpickling_raises() as tried:
        try:
            loaded = type(ranker).load(folder)
        except Exception as error:
            if tried():
                raise _unpickles(name, folder) from None
            raise SavedModelError(
                f"{name}.load cannot read what {name}.save wrote ({type(error).__name__}: {error}). Mend "
                "them, or the model of the run cannot be used."
            ) from error
    if tried():
        raise _unpickles(name, folder)
    try:
        again = loaded.predict(features)
    except Exception as error:
        raise SavedModelError(
            f"{name}.predict fails on what {name}.load read ({type(error).__name__}: {error}). Mend save or "
            "load, or the model of the run cannot be used."
        ) from error
    if not np.array_equal(again, scores, equal_nan=True):
        raise SavedModelError(
            f"{name}.load gives other scores than the ranker that was saved: "
            f"{_difference(again, scores)}. Save all that predict needs, to the last bit."
        )


def _unpickles(name: str, folder: Path) -> SavedModelError:
    files = ", ".join(_place(path, folder) for path in sorted(folder.rglob("*")) if path.is_file())
    return SavedModelError(
        f"{name}.load unpickles what {name}.save wrote into {files}, and a pickle may run code when it is "
        f"loaded. {_REMEDY}"
    )


def _place(path: Path, folder: Path) -> str:
    """Within the run, because the folder is a temporary one."""
    return str(Path(folder.name) / path.relative_to(folder))


def _difference(again: NDArray[np.floating[Any]], scores: NDArray[np.floating[Any]]) -> str:
    if np.shape(again) != scores.shape:
        return f"shape {np.shape(again)} instead of {scores.shape}"
    row = int(np.flatnonzero(~((again == scores) | (np.isnan(again) & np.isnan(scores))))[0])
    return f"{again[row]!s} instead of {scores[row]!s} for document {row}"
