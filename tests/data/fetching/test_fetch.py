"""`data fetch`: a published data set arrives whole, once, and only from an address that may be used."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from archives import packed
from hydra import compose, initialize_config_dir
from loopback import Loopback, serving
from messages import naming
from omegaconf import OmegaConf
from paths import CONF

from ltrbench.cli import main
from ltrbench.config import build, register_schema
from ltrbench.data.sources import DataSource, LetorFiles, PublishedArchive
from ltrbench.errors import DataError

FOLDS = {
    f"Fold{fold}/{part}.txt": f"{fold} qid:{part} 1:1\n".encode() * 1000 for fold in (1, 2) for part in "ab"
}
PUBLISHED = sorted(
    path.stem
    for path in (CONF / "data").glob("[!_]*.yaml")
    if path.stem not in ("letor", "table", "store", "synthetic")
)

Fetch = Callable[..., int]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """Serves a data set of two folds."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(packed(tmp_path / "published.zip", FOLDS).read_bytes()) as server:
        yield server


@pytest.fixture
def fetch(server: Loopback, tmp_path: Path) -> Fetch:
    """Runs `data fetch folds` in the folder data; fields of `fetch` in its YAML can be changed."""

    def run(*words: str, **fields: object) -> int:
        archive = {
            "file": "folds.zip",
            "size": len(server.content),
            "sha256": hashlib.sha256(server.content).hexdigest(),
            "into": "FOLDS",
            "max_unpacked_gb": 0.001,
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


def test_a_run_without_the_files_points_to_data_fetch(tmp_path: Path) -> None:
    archive = PublishedArchive(
        file="a.zip", size=1, sha256="0" * 64, into="a", max_unpacked_gb=1.0, licence="Free.", page="p"
    )
    source = LetorFiles(name="folds", train=f"{tmp_path}/train.txt", fetch=archive)
    with pytest.raises(
        DataError, match=naming("train.txt", "data fetch folds", "--config-dir", "data.train")
    ):
        source.load()


def test_a_wrong_checksum_leaves_nothing_that_looks_finished(
    fetch: Fetch, server: Loopback, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetch(sha256="0" * 64) == 2
    assert list((tmp_path / "data").iterdir()) == []
    digest = hashlib.sha256(server.content).hexdigest()
    assert refuses(capsys, digest, "0" * 64, "data.fetch.sha256", "Repeat", "--url")


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("absent", ["answers 404", "page of the publisher", "--url"]),
        ("page", ["6 bytes", "text/html", "data.fetch.size", "--url"]),
        ("endless", ["more than", "data.fetch.size"]),
        ("broken", ["IncompleteRead", "repeat"]),
        ("away", ["file:///etc/passwd", "--url"]),
    ],
)
def test_an_address_that_leads_to_something_else_leaves_nothing(
    fetch: Fetch,
    server: Loopback,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    path: str,
    parts: list[str],
) -> None:
    assert fetch(url=server.url(path)) == 2
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


@pytest.mark.parametrize(
    ("field", "value", "parts"),
    [
        ("file", "../folds.zip", ["'../folds.zip'", ".zip", ".tar.gz"]),
        ("file", "folds.rar", ["'folds.rar'", ".zip", ".tar.gz"]),
        ("sha256", "abc", ["'abc'", "64 hexadecimal"]),
        ("into", "../FOLDS", ["'../FOLDS'", "relative"]),
        ("into", "/FOLDS", ["'/FOLDS'", "relative"]),
        ("size", 0, ["0", "at least 1"]),
        ("size", "many", ["many", "Integer"]),
        ("max_unpacked_gb", 0, ["0", "more than 0"]),
        ("max_unpacked_gb", float("inf"), ["inf", "at most"]),
        ("url", None, ["data.fetch.verified", "verified: false"]),
        ("sha256", "absent", ["sha256"]),
        ("mirror", "x", ["mirror"]),
    ],
)
def test_a_node_that_cannot_be_used_is_named(
    fetch: Fetch,
    server: Loopback,
    capsys: pytest.CaptureFixture[str],
    field: str,
    value: object,
    parts: list[str],
) -> None:
    assert fetch(**{field: value}) == 2
    error = capsys.readouterr().err
    assert all(part in error for part in (f"data.fetch.{field}", *parts)), error
    assert server.requests == 0


# conf/data


def sources(name: str, root: Path) -> list[DataSource]:
    """Builds the source of a YAML for each of its folds."""
    register_schema()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("config", overrides=[f"data={name}", f"data.root={root}"])
    built = []
    for fold in range(1, (config.data.get("num_folds") or 1) + 1):
        if "fold" in config.data:
            config.data.fold = fold
        built.append(build(config, "data", DataSource))
    return built


@pytest.mark.parametrize("name", PUBLISHED)
def test_no_data_set_is_downloaded_from_an_address_that_has_not_been_verified(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (source, *_) = sources(name, tmp_path) if "inner" not in name else [None]
    assert main(["data", "fetch", name, "--root", str(tmp_path), "--accept-licence"]) == 2
    error = capsys.readouterr().err
    assert f"data={name}" in error
    if source is not None:
        page = source.fetch.page if source.fetch else str(getattr(source, "obtain", ""))[:40]
        assert page in error
    assert list(tmp_path.iterdir()) == []
