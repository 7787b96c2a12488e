"""Mutates archives of a data set, and checks that each is unpacked inside its folder or refused.

    python tests/fuzz/fuzz_archives.py [--seed 1] [--count 5000] [--number 17]

A case is a zip archive, or a tar.gz archive in one of three formats. Some have members that nobody should
publish, and in most of them bytes are changed, removed, repeated or moved. In half of the tar archives the
checksums of the headers are corrected afterwards, so that changed headers are read. Prints the numbers of
archives that were unpacked and refused, and every case with another exception than DataError, with a file
outside its folder, with a link, or with too many bytes; the exit code is 1 if there is one. `--number 17`
repeats a case.
"""

from __future__ import annotations

import argparse
import faulthandler
import gzip
import io
import stat
import sys
import tarfile
import tempfile
import traceback
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np

from ltrbench.data.fetch import unpack
from ltrbench.errors import DataError

Rng = np.random.Generator

FILES = {"Fold1/train.txt": b"1 qid:1 1:2\n" * 100, "Fold1/test.txt": b"0 qid:2 1:3\n", "README": b""}
NAMES = (
    *("../out", "/tmp/out", "a/../../out", "Fold1", "Fold1/train.txt", "FOLD1/TEST.TXT", "a\\b", "C:a", "."),
    *("x" * 300, "d/" * 60 + "f", "\u00e9", "a\udcff", "", "./README"),
)
TYPES = (
    *(tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE),
    *(tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE),
)
MODES = (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR, stat.S_IFIFO, 0)
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
MAX_BYTES = 100_000
BLOCK = 512  # bytes of a header of a tar archive


def make_case(seed: int, number: int) -> tuple[str, bytes]:
    """Returns the name and the content of an archive."""
    rng = np.random.default_rng([seed, number])
    if rng.random() < 0.5:
        return "data.zip", _mutated(rng, _zip(rng))
    content = _mutated(rng, _tar(rng))
    if rng.random() < 0.5:
        content = _with_checksums(content)
    packed = gzip.compress(content, compresslevel=1, mtime=0)
    return "data.tar.gz", _mutated(rng, packed) if rng.random() < 0.1 else packed


def _zip(rng: Rng) -> bytes:
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w") as archive:
        for name, content in _members(rng):
            info = zipfile.ZipInfo(name.encode(errors="replace").decode())
            info.external_attr = (MODES[rng.integers(len(MODES))] if rng.random() < 0.1 else 0) << 16
            archive.writestr(info, content, COMPRESSIONS[rng.integers(len(COMPRESSIONS))])
    return output.getvalue()


def _tar(rng: Rng) -> bytes:
    output = io.BytesIO()
    form = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)[rng.integers(3)]
    with tarfile.open(fileobj=output, mode="w", format=form, errors="surrogateescape") as archive:
        for name, content in _members(rng):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            if rng.random() < 0.1:
                info.type, info.linkname = TYPES[rng.integers(len(TYPES))], NAMES[rng.integers(len(NAMES))]
            try:
                archive.addfile(info, io.BytesIO(content))
            except ValueError:  # a name that is too long for the format
                continue
    return output.getvalue()


def _members(rng: Rng) -> list[tuple[str, bytes]]:
    members = list(FILES.items())
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        content = bytes(int(rng.choice([0, 5, 2000, 2 * MAX_BYTES])))
        members.insert(int(rng.integers(len(members) + 1)), (NAMES[rng.integers(len(NAMES))], content))
    return members


def _mutated(rng: Rng, content: bytes) -> bytes:
    for _ in range(rng.integers(5)):
        start, size = int(rng.integers(len(content) + 1)), int(rng.choice([1, 2, 4, 8, 100, BLOCK]))
        if rng.random() < 0.3:  # whole headers
            start -= start % BLOCK
        part = content[start : start + size]
        other = int(rng.integers(len(content) + 1))
        kind = rng.integers(5)
        if kind == 0:
            content = content[:start] + rng.bytes(len(part)) + content[start + size :]
        elif kind == 1:
            digits = rng.choice(list(b"0123456789-/.\0\x80\xff"), len(part)).astype(np.uint8).tobytes()
            content = content[:start] + digits + content[start + size :]
        elif kind == 2:
            content = content[:start] + content[start + size :]
        elif kind == 3:
            content = content[:other] + part + content[other:]
        elif rng.random() < 0.2:
            content = content[:start]
    return content


def _with_checksums(content: bytes) -> bytes:
    """Returns a tar archive whose blocks that look like a header have the right checksum."""
    blocks = [content[start : start + BLOCK] for start in range(0, len(content), BLOCK)]
    return b"".join(
        block[:148] + b"%06o\0 " % (sum(block) - sum(block[148:156]) + 8 * 32) + block[156:]
        if block[257:262] == b"ustar" and len(block) == BLOCK
        else block
        for block in blocks
    )


def outcome(name: str, content: bytes, folder: Path) -> str:
    """Returns "unpacked" or "refused", or what is wrong."""
    file = folder / name
    file.write_bytes(content)
    root = folder / "root"
    try:
        unpack(file, root / "data", MAX_BYTES)
    except DataError as error:
        left = [path for path in root.rglob("*") if path != root]
        return "refused" if not left and name in str(error) else f"left {left} behind: {error}"
    except Exception:
        return traceback.format_exc()
    files = list(root.rglob("*"))
    if any(path.is_symlink() or not (path.is_file() or path.is_dir()) for path in files):
        return "wrote a link or a device"
    if {path.name for path in folder.iterdir()} != {name, "root"} or any(
        path.relative_to(root).parts[0] != "data" for path in files
    ):
        return "left its folder"
    if sum(path.stat().st_size for path in files if path.is_file()) > MAX_BYTES:
        return "wrote too many bytes"
    return "unpacked"


def main() -> int:
    faulthandler.enable()
    warnings.simplefilter("ignore")  # zipfile warns of a name that is written twice
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--number", type=int, help="only this case")
    arguments = parser.parse_args()
    numbers = range(arguments.count) if arguments.number is None else [arguments.number]
    kinds: Counter[str] = Counter()
    for number in numbers:
        with tempfile.TemporaryDirectory() as folder:
            result = outcome(*make_case(arguments.seed, number), Path(folder))
        if result not in ("unpacked", "refused"):
            print(f"case {number}: {result}")
            result = "wrong"
        kinds[result] += 1
    print(", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    return int(kinds["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
