"""Data sets for the tests of stores, and what a store must restore of them."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from ltrbench.data import RankingDataset
from ltrbench.data.features import SparseRows
from ltrbench.data.store import write_store

IDS = st.text(string.ascii_letters + "0 ä語\U0001f600", max_size=5)
CATEGORIES = ("", "ä \n")
FEATURES = st.floats(width=32, allow_infinity=False, allow_nan=False) | st.sampled_from(
    [0.0, -0.0, float("nan")]
)


@pytest.fixture(autouse=True, scope="module")
def without_waiting_for_the_disk() -> Iterator[None]:
    """Leaves out the flush at the end of a store, which takes most of the time of a small one.

    It applies to the modules that import it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ltrbench.data.store.flush", lambda folder: None)
        yield


def store_of(dataset: RankingDataset, folder: Path, shard_bytes: int = 10**6) -> Path:
    """Writes a store, and returns its folder."""
    write_store(folder, dataset, shard_bytes=shard_bytes)
    return folder


def dataset_with(**arrays: Any) -> RankingDataset:
    """A data set of lists or arrays."""
    return RankingDataset(**arrays)


@st.composite
def data_sets(draw: Callable[..., Any], of_table: bool = True) -> RankingDataset:
    """Small data sets with dense or sparse features, and any of the optional arrays, also those of tables."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    num_documents, num_features = sum(sizes), draw(st.integers(1, 3))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        drawn: list[Any] = draw(
            st.lists(values, min_size=num_documents, max_size=num_documents)
        )
        return drawn

    def optional(values: st.SearchStrategy[Any]) -> list[Any] | None:
        return column(values) if draw(st.booleans()) else None

    rows = st.lists(FEATURES, min_size=num_features, max_size=num_features)
    weights = draw(st.sampled_from(["none", "of queries", "of documents"]))
    names = st.lists(
        st.text("abä ", max_size=3),
        min_size=num_features,
        max_size=num_features,
        unique=True,
    )
    features = np.array(column(rows), dtype=np.float32)
    has_categories = of_table and draw(st.booleans())
    if has_categories:
        features[:, 0] = column(st.sampled_from([0.0, 1.0, np.nan]))
    taken = (
        tuple(draw(names))
        if draw(st.booleans())
        else tuple(map(str, range(1, num_features + 1)))
    )
    absent = draw(st.sampled_from([None, 0.0, -0.0, float("nan")]))
    return dataset_with(
        features=features if absent is None else SparseRows.of(features, absent),
        labels=column(st.sampled_from([0.0, 1.0, 2.0, 0.5])),
        query_start=np.concatenate([[0], np.cumsum(sizes)]),
        query_ids=draw(
            st.none()
            | st.lists(IDS, min_size=len(sizes), max_size=len(sizes), unique=True)
        ),
        document_ids=optional(IDS),
        query_weights=None
        if weights != "of queries"
        else np.arange(1.0, len(sizes) + 1) / 3,
        document_weights=None
        if weights != "of documents"
        else column(st.floats(0.25, 8)),
        positions=optional(st.integers(0, 20)),
        feature_names=taken,
        file_rows=draw(st.none() | st.permutations(range(num_documents))),
        kept={"price": column(st.floats()), "a/ä": column(IDS)}
        if of_table and draw(st.booleans())
        else {},
        categories={taken[0]: CATEGORIES} if has_categories else {},
    )


def content(dataset: RankingDataset) -> dict[str, Any]:
    """Everything in a data set, as values that can be compared; features as bits, so that NaN equals NaN."""
    values: dict[str, Any] = {
        "features": np.ascontiguousarray(dataset.features).view(np.uint32).tolist(),
        "feature_names": dataset.feature_names,
        "fingerprint": dataset.fingerprint,
        "categories": dataset.categories,
        "columns": {
            name: list(map(str, each)) for name, each in dataset.columns.items()
        },
    }
    for name in (
        *(
            "labels",
            "query_start",
            "query_ids",
            "document_ids",
            "query_weights",
            "document_weights",
        ),
        *("positions", "file_rows"),
    ):
        array = getattr(dataset, name)
        values[name] = None if array is None else array.tolist()
    return values
