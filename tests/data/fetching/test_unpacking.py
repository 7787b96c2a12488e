"""Archives are unpacked inside their folder, or refused as a whole."""

from __future__ import annotations

import stat
import tarfile
from pathlib import Path, PurePosixPath

import pytest
from archives import FILES, packed, packed_tar, tar_member
from messages import naming

from ltrbench.data.fetch import unpack
from ltrbench.errors import DataError

NAMES = pytest.mark.parametrize("name", ["data.zip", "data.tar.gz"])


def below(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@NAMES
def test_the_files_of_an_archive_are_unpacked_and_existing_files_are_kept(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "root/data"
    (folder / "Fold1").mkdir(parents=True)
    (folder / "README").write_bytes(b"mine")
    unpacked = unpack(packed(tmp_path / name, FILES), folder, 10**6)
    assert below(tmp_path / "root") == {f"data/{path}": content for path, content in FILES.items()} | {
        "data/README": b"mine"
    }
    assert unpacked.kept == (folder / "README",)
    assert all(not stat.S_IMODE(path.stat().st_mode) & 0o111 for path in unpacked.written)


@NAMES
@pytest.mark.parametrize("path", ["../out", "/tmp/ltrbench-out", "a/../../out"])
def test_a_path_outside_the_folder_is_refused(tmp_path: Path, name: str, path: str) -> None:
    file = packed(tmp_path / name, FILES | {path: b"x"})
    with pytest.raises(DataError, match=naming(name, repr(path), "not inside", "refused")):
        unpack(file, tmp_path / "root/data", 10**6)
    assert below(tmp_path) == {name: file.read_bytes()}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    members = [(tar_member("a", type=kind, linkname="/etc"), b"")]
    with pytest.raises(DataError, match=naming("'a'", "neither", "folder")):
        unpack(packed_tar(tmp_path / "data.tar.gz", members), tmp_path / "data", 10**6)
    assert not (tmp_path / "data").exists()


@NAMES
def test_an_archive_with_too_many_bytes_or_without_an_expected_file_is_refused(
    tmp_path: Path, name: str
) -> None:
    file = packed(tmp_path / name, FILES)
    with pytest.raises(DataError, match=naming(name, "1000 bytes", "'Fold1/train.txt'")):
        unpack(file, tmp_path / "data", 1000)
    with pytest.raises(DataError, match=naming(name, "Fold1/vali.txt", "Fold1/test.txt", "data.fetch.into")):
        unpack(file, tmp_path / "data", 10**6, [PurePosixPath("Fold1/vali.txt")])
    assert below(tmp_path) == {name: file.read_bytes()}


@NAMES
def test_a_truncated_archive_or_another_file_is_refused(tmp_path: Path, name: str) -> None:
    content = packed(tmp_path / name, FILES).read_bytes()
    for damaged in (content[:-30], b"<html>", b""):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(DataError, match=naming(name, "damaged", "download it again")):
            unpack(tmp_path / name, tmp_path / "data", 10**6)
        assert not (tmp_path / "data").exists()
