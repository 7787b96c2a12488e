"""Runs on the same queries and labels with other features: rows of one table, compared query by query.

`'data.ignore=[price],[]' -m` trains each model with and without a feature. The fingerprints of the data then
differ, although the queries, their documents and their labels are the same. `with_common_data` gives such
runs the fingerprints of the first of them, so that they are in one table; `feature_settings` are what
distinguishes their rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ltrbench.data import Judgments
from ltrbench.runs.record import Run

FEATURE_SETTINGS = (
    "features",
    "ignore",
    "categorical",
    "dates",
    "encode",
    "missing",
)
"""Settings of a data set that change its features alone."""

_SPLITS = ("train", "valid", "test")


def feature_settings(run: Run) -> dict[str, str]:
    """Returns the settings of the features of a run as text, such as {"ignore": "[price]"}."""
    data = run.result.settings.get("data", {})
    return {name: _as_text(data[name]) for name in FEATURE_SETTINGS if name in data}


def _as_text(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{','.join(map(str, value))}]"
    return "null" if value is None else str(value)


def with_common_data(runs: Sequence[Run]) -> list[Run]:
    """Returns the runs, those on the same judgments with other features with equal fingerprints."""
    of_split: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        of_split.setdefault(_split_of(run), []).append(run)
    unified: dict[int, Run] = {}
    for alike in of_split.values():
        first = alike[0]
        for run in alike[1:]:
            if _fingerprints(run) != _fingerprints(first) and _same(run, first):
                unified[id(run)] = _with_fingerprints(run, first)
    return [unified.get(id(run), run) for run in runs]


def _split_of(run: Run) -> tuple[object, ...]:
    """Returns what runs on the same queries have in common: the data without its features, the fold, and the
    numbers of documents and queries of each split."""
    data = run.result.data
    facts = [data.get(split, {}) for split in _SPLITS]
    sizes = [(each.get("documents"), each.get("queries")) for each in facts]
    settings = run.result.settings.get("data", {})
    others = {
        key: repr(value)
        for key, value in settings.items()
        if key not in FEATURE_SETTINGS
    }
    resample = data.get("resample", {}).get("index")
    return (
        data.get("name"),
        data.get("fold"),
        run.result.repeat,
        resample,
        *sizes,
        *sorted(others.items()),
    )


def _fingerprints(run: Run) -> list[object]:
    data = run.result.data
    return [data.get(split, {}).get("fingerprint") for split in _SPLITS]


def _same(run: Run, other: Run) -> bool:
    """Returns whether two runs differ in their features and have the same test judgments."""
    if feature_settings(run) == feature_settings(other):
        return False
    of_run = _digest(run.scored("test").judgments)
    return of_run == _digest(other.scored("test").judgments)


def _digest(judgments: Judgments) -> str:
    """Returns a digest of the queries, documents and labels, in their order."""
    digest = hashlib.blake2b(judgments.labels.tobytes())
    digest.update(judgments.query_start.tobytes())
    digest.update("\0".join(judgments.query_ids.tolist()).encode())
    if judgments.document_ids is not None:
        ids = np.asarray(judgments.document_ids).tolist()
        digest.update("\0".join(ids).encode())
    return digest.hexdigest()


def _with_fingerprints(run: Run, first: Run) -> Run:
    """Returns a run with the fingerprints of another one in its record; its files are unchanged."""
    data: dict[str, Any] = dict(run.result.data)
    for split in _SPLITS:
        if split in data and split in first.result.data:
            of_first: Mapping[str, Any] = first.result.data[split]
            data[split] = {**data[split], "fingerprint": of_first.get("fingerprint")}
    if "resample" in data and "resample" in first.result.data:
        whole = first.result.data["resample"].get("train")
        data["resample"] = {**data["resample"], "train": whole}
    return replace(run, result=replace(run.result, data=data))
