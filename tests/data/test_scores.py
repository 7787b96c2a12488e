"""Score files: every line is one score, otherwise the error names the line."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import naming

from ltrbench.data.score_files import read_scores
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


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"1\nbest\n3\n", [":2:", "'best'", "not a number"]),
        (b"1\n2\nNaN\n", [":3:", "'NaN'", "not a number"]),
        (b"1\n1_000\n3\n", [":2:", "'1_000'", "not a number"]),
        (b"1\n\n3\n", [":2:", "empty", "Add the score"]),
        (b"1\n2\n3\n\n", [":4:", "empty", "remove"]),
        (b"q1 0 0.5\n2\n3\n", [":1:", "'q1 0 0.5'", "3 columns", "Keep"]),
        (b"score,query\n", [":1:", "'score,query'", "2 columns", "Keep"]),
        (b"\x00\x01\xff\n2\n3\n", [":1:", "not text", "Check the path"]),
        (b"1\n2\n", [":", "2 scores", "3 documents", "one score"]),
        (b"1\n2\n3\n4\n", [":", "4 scores", "3 documents", "one score"]),
        (b"", [":", "0 scores", "3 documents", "one score"]),
        # mtime=0, because a gz file contains its time of writing, and workers must agree on the test's name.
        (gzip.compress(b"1\n2\n3\n", mtime=0)[:-9], [":1:", "gz", "damaged"]),
    ],
)
def test_what_is_not_a_score_a_document_is_named_with_its_line(
    tmp_path: Path, content: bytes, parts: list[str]
) -> None:
    (tmp_path / "scores.txt").write_bytes(content)
    place, *others = parts
    with pytest.raises(DataError, match=naming(f"{tmp_path / 'scores.txt'}{place}", *others)):
        read_scores(tmp_path / "scores.txt", 3)
