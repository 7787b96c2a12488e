"""Validation curves of many settings: drawn from a search space, fitted once, and kept in files.

A fit with fewer trees is the beginning of a fit with more trees. A search that ends fits early can therefore
be replayed from the curves, without training again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

import ltrbench.native
from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError
from ltrbench.measure.provenance import described, versions
from ltrbench.metrics import evaluate
from ltrbench.rankers import BoostingRanker, EarlyStopping, Iteration
from ltrbench.search.space import Range, Value

Curve = NDArray[np.float64]
"""(n,), the value on validation after each of the n iterations that early stopping allowed."""


def drawn_settings(space: Mapping[str, Range], number: int, seed: int) -> list[dict[str, Value]]:
    """Returns random settings: independent draws from every range, uniform on its scale."""
    rng = np.random.default_rng(seed)
    return [{name: _drawn(values, rng) for name, values in space.items()} for _ in range(number)]


def _drawn(values: Range, rng: Generator) -> Value:
    if values.values is not None:
        value: Value = values.values[rng.integers(len(values.values))]
        return value
    assert values.low is not None  # Range has checked it
    assert values.high is not None
    # Each whole number has the interval up to the next one.
    low, high = float(values.low), float(values.high + values.is_integer)
    drawn = math.exp(rng.uniform(math.log(low), math.log(high))) if values.log else rng.uniform(low, high)
    return min(int(drawn), int(values.high)) if values.is_integer else min(float(drawn), float(values.high))


def stopping_rule(ranker: BoostingRanker) -> EarlyStopping:
    """Returns the rule of early stopping of a model.

    Raises:
        ConfigError: The model has none.
    """
    if ranker.early_stopping is None:
        raise ConfigError("the model has early_stopping=null; the study needs early stopping.")
    return ranker.early_stopping


def curve_of(ranker: BoostingRanker, train: RankingDataset, valid: RankingDataset, folder: Path) -> Curve:
    """Returns the curve of a model; it is fitted only if `folder` does not have its curve yet."""
    path = folder / f"{_key(ranker, train, valid)}.npz"
    if path.is_file():
        with np.load(path) as stored:
            return np.asarray(stored["curve"], dtype=np.float64)
    metric, values = stopping_rule(ranker).metric, list[float]()

    def record(iteration: Iteration) -> None:
        assert iteration.valid_scores is not None  # every fit has a validation set
        values.append(evaluate(valid, iteration.valid_scores, [metric]).means[metric])

    ranker.fit(train, valid, record)
    curve = np.array(values)
    folder.mkdir(parents=True, exist_ok=True)
    # Renamed when complete: an interrupted study must not leave half a curve.
    partial = path.with_suffix(".partial.npz")
    np.savez(partial, curve=curve)
    partial.rename(path)
    return curve


def _key(ranker: BoostingRanker, train: RankingDataset, valid: RankingDataset) -> str:
    """Returns a digest of everything that the curve depends on."""
    content: list[Any] = [described(ranker), train.fingerprint, valid.fingerprint]
    content += [versions(ranker.packages), _code_of_engine()]
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


@functools.cache
def _code_of_engine() -> str:
    files = sorted(Path(ltrbench.native.__file__).parent.rglob("*.py"))
    return hashlib.blake2b(b"".join(file.read_bytes() for file in files), digest_size=16).hexdigest()
