"""Score files: every line is one score, or the line is named."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltrbench.data.formats.scores import read_scores
from ltrbench.errors import DataError


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_scores_printed_in_full_read_back_as_they_were(scores: list[float]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        text = "".join(f"{score!r}\n" for score in scores)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        np.testing.assert_array_equal(read_scores("-", len(scores)), scores)


@pytest.mark.parametrize("text", ["1\n-2.5\n3e2\n", "1\n-2.5\n3e2", "1\r\n -2.5 \r\n3e2\r\n"])
def test_ends_of_lines_and_blanks_around_a_score_do_not_matter(tmp_path: Path, text: str) -> None:
    (tmp_path / "scores.txt").write_bytes(text.encode())
    assert read_scores(tmp_path / "scores.txt", 3).tolist() == [1.0, -2.5, 300.0]


def test_a_compressed_file_reads_as_the_plain_one(tmp_path: Path) -> None:
    (tmp_path / "scores.txt.gz").write_bytes(gzip.compress(b"1\n2\n"))
    assert read_scores(tmp_path / "scores.txt.gz", 2).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1\nbest\n3\n", "scores.txt:2: 'best' is not a number"),
        (b"1\n2\nNaN\n", "scores.txt:3: 'NaN' is not a number"),
        (b"1\n1_000\n3\n", "scores.txt:2: '1_000' is not a number"),
        (b"1\n\n3\n", "scores.txt:2: the line is empty"),
        (b"1\n2\n3\n\n", "scores.txt:4: the line is empty"),
        (b"q1 0 0.5\n2\n3\n", "scores.txt:1: 'q1 0 0.5' holds 3 columns"),
        (b"score,query\n", "scores.txt:1: 'score,query' holds 2 columns"),
        (b"\x00\x01\xff\n2\n3\n", "scores.txt:1: the line is not text"),
        (b"1\n2\n", "scores.txt: holds 2 scores, but the data has 3 documents"),
        (b"1\n2\n3\n4\n", "scores.txt: holds 4 scores, but the data has 3 documents"),
        (b"", "scores.txt: holds 0 scores, but the data has 3 documents"),
        # The second of its writing is in a gz file, and so in the test's name: no two workers would agree.
        (
            gzip.compress(b"1\n2\n3\n", mtime=0)[:-9],
            "scores.txt:1: somewhere after this line the gz file is damaged",
        ),
    ],
)
def test_what_is_not_a_score_a_document_is_named_with_its_line(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "scores.txt").write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_scores(tmp_path / "scores.txt", 3)
    assert str(tmp_path / message.partition(":")[0]) in str(caught.value)
    assert message in str(caught.value)


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no\.txt: there is no such file"):
        read_scores(tmp_path / "no.txt", 3)


def test_a_byte_order_mark_is_no_part_of_the_first_score(tmp_path: Path) -> None:
    (tmp_path / "scores.txt").write_bytes(b"\xef\xbb\xbf0.5\n-inf\n")
    assert read_scores(tmp_path / "scores.txt", 2).tolist() == [0.5, -np.inf]


def test_a_score_that_a_double_cannot_hold_is_refused(tmp_path: Path) -> None:
    (tmp_path / "scores.txt").write_text("0.5\n1e400\n")
    with pytest.raises(DataError, match=r"scores\.txt:2: '1e400' is larger than a double can hold"):
        read_scores(tmp_path / "scores.txt", 2)
