"""Backends that break one promise of the contract each: their saved models hold pickles, or other scores."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, Self

import joblib
import numpy as np
from numba import njit

from ltrbench.rankers.base import FitSummary
from ltrbench.rankers.random import RandomRanker


class Pickled(RandomRanker):
    """A pickle in a file of its own."""

    def save(self, folder: Path) -> None:
        # With an object, whose class unpickling looks up.
        (folder / "weights.bin").write_bytes(self.packed(self.__dict__ | {"summary": FitSummary()}))

    @classmethod
    def load(cls, folder: Path) -> Self:
        ranker = cls()
        ranker.__dict__.update(cls.unpacked((folder / "weights.bin").read_bytes()))
        return ranker

    @staticmethod
    def packed(content: dict[str, Any]) -> bytes:
        return pickle.dumps(content)

    @staticmethod
    def unpacked(content: bytes) -> Any:
        return pickle.loads(content)


class ObjectArray(Pickled):
    """An array of objects, which numpy pickles."""

    def save(self, folder: Path) -> None:
        np.savez(folder / "model.npz", content=np.array([self.__dict__], dtype=object))

    @classmethod
    def load(cls, folder: Path) -> Self:
        ranker = cls()
        with np.load(folder / "model.npz", allow_pickle=True) as arrays:
            ranker.__dict__.update(arrays["content"][0])
        return ranker


class Compressed(Pickled):
    """What joblib writes, whose bytes do not begin as a pickle."""

    def save(self, folder: Path) -> None:
        joblib.dump(self.__dict__, folder / "model.joblib", compress=3)

    @classmethod
    def load(cls, folder: Path) -> Self:
        ranker = cls()
        ranker.__dict__.update(joblib.load(folder / "model.joblib"))
        return ranker


class Forgetful(RandomRanker):
    """No pickle, but other scores than those of the ranker that was saved."""

    @classmethod
    def load(cls, folder: Path) -> Self:
        ranker = super().load(folder)
        ranker.seed += 1
        return ranker


class Unread(RandomRanker):
    """No pickle, but nothing that its own `load` can read."""

    @classmethod
    def load(cls, folder: Path) -> Self:
        raise NotImplementedError("to be written")


class Unusable(RandomRanker):
    """No pickle, but what was loaded cannot predict."""

    @classmethod
    def load(cls, folder: Path) -> Self:
        ranker = super().load(folder)
        ranker.seed = None  # type: ignore[assignment]
        ranker.predict = None  # type: ignore[assignment]
        return ranker


@njit
def _weighted(features, weights):  # type: ignore[no-untyped-def]
    scores = np.zeros(len(features))
    for row in range(len(features)):
        scores[row] = (features[row] * weights).sum()
    return scores


PICKLING = (Pickled, ObjectArray, Compressed)
