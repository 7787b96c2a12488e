"""`data fetch`: a published data set arrives whole, once, and only from an address that may be used."""

from __future__ import annotations

import functools
import hashlib
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from messages import naming
from omegaconf import OmegaConf

from ltrbench.cli import main
from ltrbench.data.sources import PublishedArchive, unpack_archive
from ltrbench.errors import DataError

FOLDS = {
    f"Fold{fold}/{part}.txt": f"{fold} qid:{part} 1:1\n".encode() * 1000
    for fold in (1, 2)
    for part in "ab"
}
Fetch = Callable[..., int]


def packed(file: Path, contents: Mapping[str, bytes]) -> Path:
    """Writes files into an archive, whose name ends in .zip or .tar.gz."""
    with TemporaryDirectory() as folder:
        for name, content in contents.items():
            Path(folder, name).parent.mkdir(exist_ok=True)
            Path(folder, name).write_bytes(content)
        base, _, ending = str(file).partition(".")
        shutil.make_archive(base, {"zip": "zip", "tar.gz": "gztar"}[ending], folder)
    return file


def below(folder: Path) -> dict[str, bytes]:
    """The files below a folder, and their contents."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """The archive of a data set of two folds, in a folder of its publisher."""
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "page").write_text("<html>")
    return packed(tmp_path / "published" / "folds.zip", FOLDS)


@pytest.fixture
def server(published: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server of the publisher's folder."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    handler = functools.partial(
        SimpleHTTPRequestHandler, directory=str(published.parent)
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def fetch(published: Path, server: str, tmp_path: Path) -> Fetch:
    """Runs `data fetch folds` in the folder data; fields of `fetch` in its YAML can be changed."""
    content = published.read_bytes()

    def run(*words: str, **fields: object) -> int:
        archive = {
            "file": "folds.zip",
            "size": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
            "into": "FOLDS",
            "licence": "Free of any terms.",
            "page": "https://example.com/folds",
            "must_accept": False,
            "url": f"{server}/folds.zip",
            "verified": True,
        }
        data = {
            "defaults": ["_five_folds", "_self_"],
            "name": "folds",
            "num_folds": 2,
            "train": "${.root}/FOLDS/Fold${.fold}/a.txt",
            "test": "${.root}/FOLDS/Fold${.fold}/b.txt",
            "obtain": "See the page.",
            "fetch": archive | fields,
        }
        (tmp_path / "conf/data").mkdir(parents=True, exist_ok=True)
        OmegaConf.save(OmegaConf.create(data), tmp_path / "conf/data/folds.yaml")
        options = [
            "--config-dir",
            str(tmp_path / "conf"),
            "--root",
            str(tmp_path / "data"),
        ]
        return main(["data", "fetch", "folds", *options, *words])

    return run


def test_a_data_set_arrives_in_its_folder_and_is_not_fetched_again(
    fetch: Fetch, published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetch() == 0
    assert below(tmp_path / "data/FOLDS") == FOLDS
    assert {path.name for path in (tmp_path / "data").iterdir()} == {
        "FOLDS",
        "folds.zip",
    }
    out, _ = capsys.readouterr()
    assert all(
        part in out
        for part in ("Free of any terms.", "https://example.com/folds", "/folds.zip")
    )
    published.unlink()
    assert fetch() == 0
    out = capsys.readouterr().out
    assert all(
        part in out for part in ("data=folds", "4 files", str(tmp_path / "data"))
    )


@pytest.mark.parametrize(
    ("path", "fields", "parts"),
    [
        ("absent", {}, ["404", "--url"]),
        ("page", {}, ["6 bytes", "data.fetch.size", "--url"]),
        (
            "folds.zip",
            {"sha256": "0" * 64},
            ["0" * 64, "data.fetch.sha256", "Repeat", "--url"],
        ),
    ],
)
def test_an_address_that_leads_to_something_else_leaves_nothing(
    fetch: Fetch,
    server: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    path: str,
    fields: dict[str, object],
    parts: list[str],
) -> None:
    assert fetch(url=f"{server}/{path}", **fields) == 2
    error = capsys.readouterr().err
    assert all(part in error for part in parts)
    assert list((tmp_path / "data").iterdir()) == []


def test_a_licence_that_must_be_accepted_is_accepted_by_an_option(
    fetch: Fetch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetch(must_accept=True) == 2
    printed = capsys.readouterr()
    assert "Free of any terms." in printed.out
    assert all(
        part in printed.err
        for part in ("https://example.com/folds", "--accept-licence")
    )
    assert not (tmp_path / "data").exists()
    assert fetch("--accept-licence", must_accept=True) == 0


def test_an_archive_that_the_user_downloaded_is_checked_and_unpacked(
    fetch: Fetch, published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    file, content = tmp_path / "data/folds.zip", published.read_bytes()
    file.write_bytes(content[:-1])
    assert fetch() == 2
    error = capsys.readouterr().err
    assert all(part in error for part in (str(file), "data.fetch.size", "Remove"))
    file.write_bytes(content)
    assert fetch(url=None, verified=False, must_accept=True) == 0
    assert below(tmp_path / "data/FOLDS") == FOLDS


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_an_archive_is_unpacked_inside_its_folder_and_existing_files_are_kept(
    tmp_path: Path, name: str
) -> None:
    archive = PublishedArchive(
        file=name, size=1, sha256="", into="a", licence="Free.", page="p"
    )
    file = packed(tmp_path / name, FOLDS)
    (tmp_path / "root/a/Fold1").mkdir(parents=True)
    (tmp_path / "root/a/Fold1/a.txt").write_bytes(b"mine")
    written = unpack_archive(
        archive, file, tmp_path / "root", [tmp_path / "root/a/Fold2/b.txt"]
    )
    assert [path.name for path in written] == ["b.txt", "a.txt", "b.txt"]
    assert below(tmp_path / "root/a") == FOLDS | {"Fold1/a.txt": b"mine"}
    with pytest.raises(DataError, match=naming("c.txt", name, "data.fetch.into")):
        unpack_archive(archive, file, tmp_path / "root", [tmp_path / "root/a/c.txt"])
