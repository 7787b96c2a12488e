"""Blocks and units of text: all lines once, in order, whatever the compression; damage is an error."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from messages import naming

from ltrbench.data import blocks, read_data
from ltrbench.data.blocks import COMPRESSIONS, for_each_unit, read_blocks, write_whole
from ltrbench.data.score_files import read_score_file
from ltrbench.errors import DataError


def pack_zst(content: bytes) -> bytes:
    return bytes(pyarrow.compress(content, "zstd", asbytes=True))


PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": pack_zst,
}
EVERY_ENDING = pytest.mark.parametrize("ending", PACK)


def content_of(path: Path) -> bytes:
    return b"".join(text for text, _ in read_blocks(path))


@pytest.fixture
def text() -> bytes:
    rng = np.random.default_rng(0)
    return b"".join(b"1 qid:1 1:%f\n" % value for value in rng.random(4000))


@EVERY_ENDING
def test_a_truncated_or_damaged_file_is_an_error_that_says_so(
    tmp_path: Path, text: bytes, ending: str
) -> None:
    packed = PACK[ending](text)
    half = len(packed) // 2
    damaged = (
        packed[:half]
        + bytes(255 - byte for byte in packed[half : half + 40])
        + packed[half + 40 :]
    )
    file = tmp_path / "train.txt"
    for content in (packed[:half], packed[:-1], packed[:8], damaged):
        file.write_bytes(content)
        with pytest.raises(
            DataError, match=naming(ending[1:], "damaged", "download")
        ) as caught:
            content_of(file)
        assert re.match(rf"{re.escape(str(file))}:\d+: ", str(caught.value))


@pytest.mark.parametrize("ending", ["", *PACK])
def test_what_is_written_is_packed_as_the_ending_says_and_read_by_its_content(
    tmp_path: Path, text: bytes, ending: str
) -> None:
    file = tmp_path / f"train.txt{ending}"
    with write_whole(file) as stream:
        stream.write(text)
    starts = [
        of
        for of, (magic, _) in COMPRESSIONS.items()
        if file.read_bytes().startswith(magic)
    ]
    assert starts == ([ending] if ending else [])
    assert content_of(file.rename(tmp_path / "train.gz")) == text


def test_a_link_and_the_mode_of_a_file_stay_when_its_content_is_replaced(
    tmp_path: Path,
) -> None:
    file = tmp_path / "scores.txt"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link = tmp_path / "link.txt"
    link.symlink_to(file)
    with write_whole(link) as stream:
        stream.write(b"new")
    assert link.is_symlink()
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # A pipe that is open for both waits for nobody.
    reader = os.open(pipe, os.O_RDWR)
    try:
        with write_whole(pipe) as stream:
            stream.write(b"new")
        assert pipe.is_fifo()
        assert os.read(reader, 10) == b"new"
    finally:
        os.close(reader)


@given(
    lines=st.lists(
        st.binary(max_size=30).map(lambda line: line.replace(b"\n", b" ")), max_size=12
    ),
    mark=st.booleans(),
    size=st.integers(1, 60),
    num_cores=st.integers(1, 3),
    pack=st.sampled_from([bytes, gzip.compress]),
)
@settings(deadline=None, max_examples=200)
def test_units_are_all_lines_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[bytes],
    mark: bool,
    size: int,
    num_cores: int,
    pack: Callable[[bytes], bytes],
) -> None:
    content = b"\n".join(lines)
    assume(
        not any(content.startswith(magic) for magic, _ in blocks.COMPRESSIONS.values())
    )
    file = tmp_path_factory.mktemp("units") / "file"
    file.write_bytes(pack(codecs.BOM_UTF8 * mark + content))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "UNIT_BYTES", size)
        patch.setattr(blocks, "_BLOCK_BYTES", size)
        patch.setattr(blocks, "available_cores", lambda: num_cores)
        pieces = for_each_unit(file, lambda _, text: text)
        numbered = list(read_blocks(file))
    content = content.removeprefix(codecs.BOM_UTF8) if not mark else content
    assert b"".join(pieces) == content + b"\n" * (
        not content.endswith(b"\n") and content != b""
    )
    assert all(piece.endswith(b"\n") for piece in pieces if piece)
    assert b"".join(text for text, _ in numbered) == content
    for text, first_line in numbered:
        assert content.split(b"\n")[first_line - 1] == text.split(b"\n")[0]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["t.csv", "t.txt"])
def test_utf_16_is_named_by_every_reader_of_text(
    tmp_path: Path, name: str, encoding: str
) -> None:
    path = tmp_path / name
    path.write_bytes("1 qid:1 1:2\n".encode(encoding))
    for read in (read_data, read_score_file):
        with pytest.raises(DataError, match=naming(name, "UTF-16", "iconv", "UTF-8")):
            read(path)
