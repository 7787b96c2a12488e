"""Written files restore the same data with the default reader options, or writing is an error."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_cases import data_sets

from ltrbench.data import RankingDataset, read_letor
from ltrbench.data.letor import write_letor
from ltrbench.errors import DataError

NAMES = st.text(max_size=8)


@given(data=data_sets(), absent=st.sampled_from([0.0, math.nan]), ending=st.sampled_from(["", ".gz", ".zst"]))
@settings(deadline=None, max_examples=50)
def test_letor_text_is_read_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, data: RankingDataset, absent: float, ending: str
) -> None:
    file = tmp_path_factory.mktemp("written") / f"train.txt{ending}"
    data = data.with_fields(query_ids=[f"ä{number}" for number in range(data.num_queries)], document_ids=None)
    write_letor(data, file)
    assert read_letor(file, absent=absent).fingerprint == data.fingerprint


def one_document(**fields: object) -> RankingDataset:
    return RankingDataset(features=[[1.0]], labels=[0], query_start=[0, 1], **fields)  # type: ignore[arg-type]


ODD_NAMES = st.sampled_from(
    ["docid = x", "docid=", "a b", " a", "a\nb", "", "#", "a#", "\x00", "\udc80", "\u00a0", "a" * 2000]
)


@pytest.mark.parametrize("field", ["query_ids", "document_ids"])
@given(name=NAMES | ODD_NAMES)
@settings(deadline=None, max_examples=80)
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
