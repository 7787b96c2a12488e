"""Written files restore the same data with the default reader options, or writing is an error."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltrbench.data import RankingDataset, read_letor
from ltrbench.data.letor import write_letor
from ltrbench.errors import DataError

VALUES = st.floats(width=32, allow_infinity=False, allow_nan=False) | st.just(math.nan) | st.just(0.0)
LABELS = st.integers(0, 4).map(float) | st.floats(0, 1e300)
NAMES = st.text(max_size=8)


@st.composite
def datasets(draw: st.DrawFn) -> RankingDataset:
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    num_documents, num_features = sum(sizes), draw(st.integers(1, 3))

    def per_document(values: st.SearchStrategy[float]) -> list[float]:
        return draw(st.lists(values, min_size=num_documents, max_size=num_documents))

    features = np.array([per_document(VALUES) for _ in range(num_features)], dtype=np.float32).T
    weights = draw(st.sampled_from(["none", "by query", "by document"]))
    by_query = draw(st.lists(st.floats(0.1, 10), min_size=len(sizes), max_size=len(sizes)))
    words = draw(st.lists(st.sampled_from(["q", "é", "a:b"]), min_size=len(sizes), max_size=len(sizes)))
    ids = [f"{word}-{number}" for number, word in enumerate(words)]
    return RankingDataset(
        features=features,
        labels=np.array(per_document(LABELS)),
        query_start=np.cumsum([0, *sizes]),
        query_ids=np.array(ids),
        query_weights=np.array(by_query) if weights == "by query" else None,
        document_weights=np.array(per_document(st.floats(0.1, 10))) if weights == "by document" else None,
        positions=np.arange(num_documents) % 3 if draw(st.booleans()) else None,
    )


@given(data=datasets(), absent=st.sampled_from([0.0, math.nan]), ending=st.sampled_from(["", ".gz", ".zst"]))
@settings(deadline=None, max_examples=100)
def test_letor_text_is_read_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, data: RankingDataset, absent: float, ending: str
) -> None:
    file = tmp_path_factory.mktemp("written") / f"train.txt{ending}"
    write_letor(data, file)
    assert read_letor(file, absent=absent).fingerprint == data.fingerprint


def one_document(**fields: object) -> RankingDataset:
    return RankingDataset(features=[[1.0]], labels=[0], query_start=[0, 1], **fields)  # type: ignore[arg-type]


ODD_NAMES = st.sampled_from(
    ["docid = x", "docid=", "a b", " a", "a\nb", "", "#", "a#", "\x00", "\udc80", "\u00a0", "a" * 2000]
)


@pytest.mark.parametrize("field", ["query_ids", "document_ids"])
@given(name=NAMES | ODD_NAMES)
@settings(deadline=None, max_examples=200)
def test_an_id_is_read_back_or_refused(
    tmp_path_factory: pytest.TempPathFactory, field: str, name: str
) -> None:
    file = tmp_path_factory.mktemp("written") / "train.txt"
    data = one_document(**{field: [name]})
    ids = getattr(data, field).tolist()
    try:
        write_letor(data, file)
    except DataError as error:
        refusal = str(error)
    else:
        again = getattr(read_letor(file), field)
        refusal = ""
        assert ([""] if again is None else again.tolist()) == ids
    assert file.exists() or f"{field}: {ids[0]!r}" in refusal
