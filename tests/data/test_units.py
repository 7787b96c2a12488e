"""Units of text: all lines once, in order, on any number of threads; the first error of the file wins."""

from __future__ import annotations

import codecs
import gzip
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ltrbench.data import blocks
from ltrbench.data.blocks import for_each_unit
from ltrbench.errors import DataError

CORES = pytest.mark.parametrize("num_cores", [1, 2, 5])


@given(
    lines=st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b" ")), max_size=12),
    mark=st.booleans(),
    size=st.integers(1, 60),
    searched=st.integers(1, 9),
    num_cores=st.integers(1, 3),
    pack=st.sampled_from([bytes, gzip.compress]),
)
@settings(deadline=None, max_examples=200)
def test_units_are_all_lines_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[bytes],
    mark: bool,
    size: int,
    searched: int,
    num_cores: int,
    pack: Callable[[bytes], bytes],
) -> None:
    content = b"\n".join(lines)
    assume(not any(content.startswith(magic) for magic, _ in blocks.COMPRESSIONS.values()))
    file = tmp_path_factory.mktemp("units") / "file"
    file.write_bytes(pack(codecs.BOM_UTF8 * mark + content))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "UNIT_BYTES", size)
        patch.setattr(blocks, "_SEARCHED_BYTES", searched)
        patch.setattr(blocks, "_BLOCK_BYTES", size)
        patch.setattr(blocks, "available_cores", lambda: num_cores)
        pieces = for_each_unit(file, lambda _, text: text)
    content = content.removeprefix(codecs.BOM_UTF8) if not mark else content
    assert b"".join(pieces) == content + b"\n" * (not content.endswith(b"\n") and content != b"")
    assert all(piece.endswith(b"\n") for piece in pieces if piece)


@CORES
def test_the_first_error_of_the_file_wins_though_a_later_one_is_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_cores: int
) -> None:
    monkeypatch.setattr(blocks, "UNIT_BYTES", 20)
    monkeypatch.setattr(blocks, "available_cores", lambda: num_cores)

    def work(number: int, _: bytes) -> None:
        if number == 3:
            time.sleep(0.05)
        if number >= 3:
            raise DataError(f"unit {number}")

    (tmp_path / "file").write_bytes(b"a line of 20 bytes.\n" * 40)
    with pytest.raises(DataError, match="unit 3"):
        for_each_unit(tmp_path / "file", work)
