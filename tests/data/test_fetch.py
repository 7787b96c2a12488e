"""`data fetch`: a published data set arrives whole, once, and only from an address that may be used."""

from __future__ import annotations

import contextlib
import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from messages import naming
from omegaconf import OmegaConf

from ltrbench.cli import main
from ltrbench.data.sources import PublishedArchive, unpack_archive
from ltrbench.errors import DataError

FOLDS = {
    f"Fold{fold}/{part}.txt": f"{fold} qid:{part} 1:1\n".encode() * 1000 for fold in (1, 2) for part in "ab"
}
Fetch = Callable[..., int]


class Loopback(ThreadingHTTPServer):
    """Serves `content` at /file, its first bytes at /broken, and endless bytes at /endless."""

    daemon_threads = True

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = content
        self.requests = 0

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{path}"


class _Handler(BaseHTTPRequestHandler):
    server: Loopback

    def do_GET(self) -> None:
        self.server.requests += 1
        content = {"/page": b"<html>", "/absent": b""}.get(self.path, self.server.content)
        self.send_response(404 if self.path == "/absent" else 200)
        if self.path != "/endless":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:300] if self.path == "/broken" else content)
        with contextlib.suppress(OSError):  # the client has had enough
            while self.path == "/endless":
                self.wfile.write(content)
        self.close_connection = True

    def log_message(self, *arguments: Any) -> None:
        del arguments


def packed(file: Path, contents: Mapping[str, bytes]) -> Path:
    """Writes files into a zip or tar.gz archive."""
    if file.suffix == ".zip":
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in contents.items():
                archive.writestr(name, content)
    else:
        with tarfile.open(file, "w:gz") as archive:
            for name, content in contents.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return file


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """Serves a data set of two folds."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Loopback(packed(tmp_path / "published.zip", FOLDS).read_bytes()) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def fetch(server: Loopback, tmp_path: Path) -> Fetch:
    """Runs `data fetch folds` in the folder data; fields of `fetch` in its YAML can be changed."""

    def run(*words: str, **fields: object) -> int:
        archive = {
            "file": "folds.zip",
            "size": len(server.content),
            "sha256": hashlib.sha256(server.content).hexdigest(),
            "into": "FOLDS",
            "licence": "Free of any terms.",
            "page": "https://example.com/folds",
            "must_accept": False,
            "url": server.url("file"),
            "verified": True,
        }
        data = {
            "defaults": ["_five_folds", "_self_"],
            "name": "folds",
            "num_folds": 2,
            "train": "${.root}/FOLDS/Fold${.fold}/a.txt",
            "test": "${.root}/FOLDS/Fold${.fold}/b.txt",
            "obtain": "See the page.",
            "fetch": {key: value for key, value in (archive | fields).items() if value != "absent"},
        }
        (tmp_path / "conf/data").mkdir(parents=True, exist_ok=True)
        OmegaConf.save(OmegaConf.create(data), tmp_path / "conf/data/folds.yaml")
        options = ["--config-dir", str(tmp_path / "conf"), "--root", str(tmp_path / "data")]
        return main(["data", "fetch", "folds", *options, *words])

    return run


def refuses(capsys: pytest.CaptureFixture[str], *parts: str) -> bool:
    """Returns whether the message of the last command has every part."""
    error = capsys.readouterr().err
    return all(part in error for part in parts)


def below(folder: Path) -> dict[str, bytes]:
    """The files below a folder, and their contents."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_a_data_set_arrives_in_its_folder_and_is_not_fetched_again(
    fetch: Fetch, server: Loopback, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetch() == 0
    assert below(tmp_path / "data/FOLDS") == FOLDS
    assert {path.name for path in (tmp_path / "data").iterdir()} == {"FOLDS", "folds.zip"}
    out, progress = capsys.readouterr()
    assert progress.count(" MB") == 1  # a line for each megabyte at most
    assert all(
        part in out for part in ("Free of any terms.", "https://example.com/folds", server.url("file"))
    )
    assert fetch() == 0
    out = capsys.readouterr().out
    assert all(part in out for part in ("data=folds", "4 files", str(tmp_path / "data")))
    assert server.requests == 1


@pytest.mark.parametrize(
    ("path", "fields", "parts"),
    [
        ("absent", {}, ["404", "--url"]),
        ("page", {}, ["6 bytes", "data.fetch.size", "--url"]),
        ("endless", {}, ["bytes", "data.fetch.size"]),
        ("broken", {}, ["IncompleteRead", "--url"]),
        ("file", {"sha256": "0" * 64}, ["0" * 64, "data.fetch.sha256", "Repeat", "--url"]),
    ],
)
def test_an_address_that_leads_to_something_else_leaves_nothing(
    fetch: Fetch,
    server: Loopback,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    path: str,
    fields: dict[str, object],
    parts: list[str],
) -> None:
    assert fetch(url=server.url(path), **fields) == 2
    assert refuses(capsys, *parts)
    assert list((tmp_path / "data").iterdir()) == []


def test_a_licence_that_must_be_accepted_is_accepted_by_an_option(
    fetch: Fetch, server: Loopback, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([], ["--url", server.url("file")]):
        assert fetch(*words, must_accept=True) == 2
        printed = capsys.readouterr()
        assert "Free of any terms." in printed.out
        assert all(part in printed.err for part in ("https://example.com/folds", "--accept-licence"))
    assert server.requests == 0
    assert fetch("--accept-licence", must_accept=True) == 0


def test_an_archive_that_the_user_downloaded_is_checked_and_unpacked(
    fetch: Fetch, server: Loopback, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    file = tmp_path / "data/folds.zip"
    for content in (server.content[:-1], bytes(len(server.content))):
        file.write_bytes(content)
        assert fetch() == 2
        assert refuses(capsys, str(file), "data.fetch.s", "Remove")
        assert file.read_bytes() == content
    file.write_bytes(server.content)
    assert fetch(verified=False, must_accept=True) == 0
    assert below(tmp_path / "data/FOLDS") == FOLDS
    assert server.requests == 0


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_an_archive_is_unpacked_inside_its_folder_and_existing_files_are_kept(
    tmp_path: Path, name: str
) -> None:
    archive = PublishedArchive(file=name, size=1, sha256="", into="a", licence="Free.", page="p")
    file = packed(tmp_path / name, FOLDS)
    (tmp_path / "root/a/Fold1").mkdir(parents=True)
    (tmp_path / "root/a/Fold1/a.txt").write_bytes(b"mine")
    written = unpack_archive(archive, file, tmp_path / "root", [tmp_path / "root/a/Fold2/b.txt"])
    assert [path.name for path in written] == ["b.txt", "a.txt", "b.txt"]
    assert below(tmp_path / "root/a") == FOLDS | {"Fold1/a.txt": b"mine"}
    with pytest.raises(DataError, match=naming("c.txt", name, "data.fetch.into")):
        unpack_archive(archive, file, tmp_path / "root", [tmp_path / "root/a/c.txt"])
    before = below(tmp_path)
    packed(file, {"../../out": b"x"})
    with contextlib.suppress(DataError):
        unpack_archive(archive, file, tmp_path / "root", [])
    assert before.keys() == {path for path in below(tmp_path) if not path.endswith("a/out")}


# conf/data
