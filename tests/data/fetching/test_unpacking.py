"""Archives: what is unpacked stays in its folder, and an archive that is refused leaves nothing behind."""

from __future__ import annotations

import gzip
import os
import runpy
import shutil
import stat
import tarfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from archives import FILES, packed, packed_tar, tar_member, zip_member
from hypothesis import given
from hypothesis import strategies as st
from messages import naming
from paths import ROOT

from ltrbench.data import fetch
from ltrbench.data.fetch import MAX_MEMBERS, Unpacked, unpack
from ltrbench.errors import DataError

FORMS = pytest.mark.parametrize("name", ["data.zip", "data.tar.gz", "data.tgz"])
OUTSIDE = ["/etc/passwd", "../out", "a/../../out", "..", "a\\..\\out", "C:/out", "a\nb", "//out", "./../out"]
"""Paths of members that are not inside the folder, on some system."""


def below(folder: Path) -> dict[str, bytes]:
    """The files below a folder, and their contents."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def refused(file: Path, *parts: object, max_bytes: int = 10**6) -> None:
    """Checks that an archive is refused with a message that names it, and that nothing is left of it."""
    root = file.parent / "root"
    shutil.rmtree(root, ignore_errors=True)
    with pytest.raises(DataError, match=naming(file.name, *parts)):
        unpack(file, root / "data", max_bytes)
    assert list(root.rglob("*")) == []
    assert {path.name for path in file.parent.iterdir()} == {file.name, "root"}


@FORMS
def test_the_files_of_an_archive_are_unpacked(tmp_path: Path, name: str) -> None:
    unpacked = unpack(packed(tmp_path / name, FILES), tmp_path / "root/data", 10**6)
    assert below(tmp_path / "root/data") == FILES
    assert unpacked == Unpacked(tuple(sorted(tmp_path / "root/data" / path for path in FILES)), ())
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["data"]


@FORMS
def test_existing_files_are_kept(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "data"
    (folder / "Fold1").mkdir(parents=True)
    (folder / "Fold1/test.txt").write_text("mine")
    (folder / "README").symlink_to(tmp_path / "elsewhere")
    unpacked = unpack(packed(tmp_path / name, FILES), folder, 10**6)
    assert unpacked.kept == (folder / "Fold1/test.txt", folder / "README")
    assert below(folder) == {"Fold1/train.txt": FILES["Fold1/train.txt"], "Fold1/test.txt": b"mine"}
    assert not (tmp_path / "elsewhere").exists()


@FORMS
def test_a_folder_in_the_way_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/Fold1").write_text("a file")
    with pytest.raises(DataError, match=naming(name, tmp_path / "data/Fold1", "--root")):
        unpack(packed(tmp_path / name, FILES), tmp_path / "data", 10**6)
    assert below(tmp_path / "data") == {"Fold1": b"a file"}


@FORMS
def test_an_expected_file_that_is_not_in_the_archive_is_named(tmp_path: Path, name: str) -> None:
    expected = [PurePosixPath("Fold1/train.txt"), PurePosixPath("Fold1/vali.txt")]
    with pytest.raises(DataError, match=naming(name, "Fold1/vali.txt", "Fold1/test.txt", "data.fetch.into")):
        unpack(packed(tmp_path / name, FILES), tmp_path / "root/data", 10**6, expected)
    assert below(tmp_path / "root") == {}


@pytest.mark.parametrize("path", OUTSIDE)
@FORMS
def test_a_path_outside_the_folder_is_refused(tmp_path: Path, name: str, path: str) -> None:
    refused(packed(tmp_path / name, {"first": b"1", path: b"2"}), repr(path))


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE]
)
@pytest.mark.parametrize("target", ["/etc", "first"])
def test_links_and_devices_in_a_tar_archive_are_refused(tmp_path: Path, kind: bytes, target: str) -> None:
    link = tar_member("Fold1", type=kind, linkname=target)
    through = tar_member("Fold1/train.txt", size=4)
    first = (tar_member("first", size=1), b"1")
    refused(packed_tar(tmp_path / "data.tar.gz", [first, (link, b""), (through, b"text")]), "'Fold1'")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO, stat.S_IFSOCK])
def test_links_and_devices_in_a_zip_archive_are_refused(tmp_path: Path, kind: int) -> None:
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("first", b"1")
        archive.writestr(zip_member("Fold1", kind), "/etc")
    refused(tmp_path / "data.zip", "'Fold1'")


@FORMS
def test_a_second_file_of_the_same_path_is_refused(tmp_path: Path, name: str) -> None:
    refused(packed(tmp_path / name, {"same": b"1", "./same": b"2"}), "two members", "'./same'")


@FORMS
def test_a_file_that_is_also_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    refused(packed(tmp_path / name, {"a": b"1", "a/b": b"2"}), "two members", "'a/b'")
    refused(packed(tmp_path / name, {"a/b": b"1", "a": b"2"}), "two members", "'a'")


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    members = [(tar_member("a", size=1), b"1"), (tar_member("a", type=tarfile.DIRTYPE), b"")]
    for order in (members, members[::-1]):
        refused(packed_tar(tmp_path / "data.tar.gz", order), "two members", "'a'")


@FORMS
def test_a_name_that_is_too_long_is_refused_and_shown_shortened(tmp_path: Path, name: str) -> None:
    long = "x" * 300
    refused(packed(tmp_path / name, {long: b"1"}), "too long", f"'{'x' * 80}...'")
    with pytest.raises(DataError) as caught:
        unpack(packed(tmp_path / name, {f"../{long}": b"1"}), tmp_path / "root/data", 10**6)
    assert long not in str(caught.value)


@FORMS
def test_a_link_in_the_place_of_a_folder_is_not_followed(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "data").mkdir()
    link = tmp_path / "data/Fold1"
    link.symlink_to(tmp_path / "outside")
    with pytest.raises(DataError, match=naming(link, tmp_path / "outside", name, "remove", "--root")):
        unpack(packed(tmp_path / name, FILES), tmp_path / "data", 10**6)
    assert list((tmp_path / "outside").iterdir()) == []
    assert list((tmp_path / "data").iterdir()) == [link]


@FORMS
def test_the_folder_itself_may_be_a_link_to_another_disk(tmp_path: Path, name: str) -> None:
    disk = tmp_path / "disk"
    (disk / "data").mkdir(parents=True)
    (tmp_path / "root").mkdir()
    (tmp_path / "root/data").symlink_to(disk / "data")
    moved = os.rename

    def rename(source: Path, target: Path) -> None:
        assert source.resolve().is_relative_to(disk)  # else the system refuses to move it
        moved(source, target)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "rename", rename)
        unpack(packed(tmp_path / name, FILES), tmp_path / "root/data", 10**6)
    assert below(disk / "data") == FILES
    assert [path.name for path in disk.iterdir()] == ["data"]


@FORMS
def test_an_archive_that_expands_beyond_the_limit_is_refused(tmp_path: Path, name: str) -> None:
    file = packed(tmp_path / name, {"small": b"1", "bomb": b"\0" * 10**7})
    assert file.stat().st_size < 10**5
    refused(file, "'bomb'", max_bytes=10**7)
    refused(packed(tmp_path / name, {str(number): b"\0" * 1000 for number in range(11)}), max_bytes=10**4)
    unpack(file, tmp_path / "data", 10**5)


@FORMS
def test_more_members_than_any_data_set_has_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert MAX_MEMBERS == 10_000
    monkeypatch.setattr(fetch, "MAX_MEMBERS", 10)
    refused(packed(tmp_path / name, {str(number): b"" for number in range(11)}), "more than 10")


@pytest.mark.parametrize(
    ("member", "parts"),
    [
        ({"name": "hole", "pax_headers": {"GNU.sparse.map": "0,1", "GNU.sparse.size": "9"}}, ["'hole'"]),
        ({"name": "a", "pax_headers": {"comment": "x" * 2 * 10**6}}, ["header", "1 MB"]),
        ({"name": "a", "pax_headers": {"size": "-512"}}, []),
        ({"name": "a", "pax_headers": {"size": str(10**15)}}, []),
    ],
    ids=["sparse file", "header that fills the memory", "negative size", "petabyte"],
)
def test_a_tar_archive_that_nobody_should_publish_is_refused(
    tmp_path: Path, member: dict[str, Any], parts: list[str]
) -> None:
    refused(packed_tar(tmp_path / "data.tar.gz", [(tar_member(**member), b"")]), *parts, max_bytes=10**9)


@pytest.mark.parametrize(
    ("name", "size", "old", "new"),
    [
        ("a#/../b", 1, b"a#/../b", b"a\0/../b"),
        ("#/name", 1, b"#/name", b"\0/name"),
        ("bomb", 10**6, (10**6).to_bytes(4, "little"), (100).to_bytes(4, "little")),
    ],
    ids=["zero byte", "no name", "too few bytes declared"],
)
def test_a_zip_archive_whose_records_are_false_is_refused(
    tmp_path: Path, name: str, size: int, old: bytes, new: bytes
) -> None:
    file = packed(tmp_path / "data.zip", {name: b"\0" * size})
    file.write_bytes(file.read_bytes().replace(old, new))
    refused(file)


def test_a_compression_that_demands_gigabytes_and_a_password_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "data.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("Fold1", b"1")
    refused(tmp_path / "data.zip", "'Fold1'", "method 14", "deflate")
    content = bytearray(packed(tmp_path / "data.zip", {"secret": b"1"}).read_bytes())
    content[content.index(b"PK\1\2") + 8] |= 1
    content[6] |= 1
    (tmp_path / "data.zip").write_bytes(content)
    refused(tmp_path / "data.zip", "secret")


@FORMS
def test_a_truncated_archive_is_refused(tmp_path: Path, name: str) -> None:
    whole = packed(tmp_path / name, {"noise": os.urandom(5000), "more": os.urandom(5000)}).read_bytes()
    for length in (0, 1, 10, 1000, len(whole) // 2, len(whole) - 600):
        (tmp_path / name).write_bytes(whole[:length])
        refused(tmp_path / name, name)


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    for content in (b"<html>", gzip.compress(b"text"), gzip.compress(b"text" * 1000)):
        (tmp_path / "data.tar.gz").write_bytes(content)
        refused(tmp_path / "data.tar.gz", "download it again")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=naming("data.zip", tmp_path / "file", "--root")):
        unpack(packed(tmp_path / "data.zip", FILES), tmp_path / "file/data", 10**6)


def test_too_little_space_is_named_before_a_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(DataError, match=naming("'Fold1/train.txt'", "1200 bytes", "1 bytes free", "--root")):
        unpack(packed(tmp_path / "data.zip", FILES), tmp_path / "root/data", 10**6)
    assert below(tmp_path / "root") == {}


@pytest.mark.parametrize("name", ["data.zip", "data.tar.gz"])
@given(
    edits=st.lists(
        st.tuples(st.integers(0, 10**6), st.binary(min_size=1, max_size=8)), min_size=1, max_size=5
    )
)
def test_a_damaged_archive_is_unpacked_in_its_folder_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, edits: list[tuple[int, bytes]]
) -> None:
    file = packed(tmp_path_factory.mktemp("fuzz") / "plain.zip", FILES)
    if name == "data.tar.gz":
        # The edits are made in the tar archive, which gzip's checksum would protect.
        file = packed(file.with_name(name), FILES)
        damaged = gzip.compress(edited(gzip.decompress(file.read_bytes()), edits))
    else:
        damaged = edited(file.read_bytes(), edits)
    file.write_bytes(damaged)
    before = {path.name for path in file.parent.iterdir()}
    try:
        unpacked = unpack(file, file.parent / "data", 10**6)
    except DataError:
        assert {path.name for path in file.parent.iterdir()} == before
    else:
        assert all(path.resolve().is_relative_to(file.parent / "data") for path in unpacked.written)
        assert {path.name for path in file.parent.iterdir()} <= before | {"data"}


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_hostile_members_with_correct_checksums_are_unpacked_in_their_folder_or_refused(
    tmp_path: Path,
) -> None:
    fuzz = runpy.run_path(str(ROOT / "tests/fuzz/fuzz_archives.py"))
    outcomes = set()
    for number in range(100):
        folder = tmp_path / str(number)
        folder.mkdir()
        outcomes.add(fuzz["outcome"](*fuzz["make_case"](0, number), folder))
    assert outcomes == {"unpacked", "refused"}


def edited(content: bytes, edits: list[tuple[int, bytes]]) -> bytes:
    for place, replacement in edits:
        start = place % len(content)
        content = content[:start] + replacement + content[start + len(replacement) :]
    return content
