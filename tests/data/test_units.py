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
from ltrbench.data.blocks import Text, Unit, for_each_unit
from ltrbench.errors import DataError

CORES = pytest.mark.parametrize("num_cores", [1, 2, 5])


@pytest.fixture
def small_units(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(blocks, "UNIT_BYTES", 20)
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", 20)
    return monkeypatch


def text_of(file: Path, content: bytes) -> Text:
    file.write_bytes(content)
    return Text(file, file)


def lines_of(_: int, unit: Unit) -> bytes:
    assert unit.content.tobytes() == bytes(unit.memory[: unit.size])
    return bytes(unit.memory[: unit.size])


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
    assume(not any(content.startswith(kind.magic) for kind in blocks.COMPRESSIONS))
    text = text_of(tmp_path_factory.mktemp("units") / "file", pack(codecs.BOM_UTF8 * mark + content))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "UNIT_BYTES", size)
        patch.setattr(blocks, "_SEARCHED_BYTES", searched)
        patch.setattr(blocks, "_BLOCK_BYTES", size)
        patch.setattr(blocks, "available_cores", lambda: num_cores)
        pieces, error = for_each_unit(text, lines_of)
    assert error is None
    content = content.removeprefix(codecs.BOM_UTF8) if not mark else content
    assert b"".join(pieces) == content + b"\n" * (not content.endswith(b"\n") and content != b"")
    assert all(piece.endswith(b"\n") for piece in pieces if piece)


@CORES
def test_the_first_error_of_the_file_wins_though_a_later_one_is_faster(
    tmp_path: Path, small_units: pytest.MonkeyPatch, num_cores: int
) -> None:
    small_units.setattr(blocks, "available_cores", lambda: num_cores)

    def work(number: int, unit: Unit) -> int:
        if number == 3:
            time.sleep(0.05)
        if number in (3, 4):
            raise DataError(f"unit {number}")
        return unit.size

    sizes, error = for_each_unit(text_of(tmp_path / "file", b"a line of 20 bytes.\n" * 9), work)
    assert (sizes, str(error)) == ([20, 20, 20], "unit 3")
