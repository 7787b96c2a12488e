"""Downloads: nothing that has arrived is lost, and only the announced file is written."""

from __future__ import annotations

import random
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest
from loopback import Loopback, serving
from messages import naming

from ltrbench.data.fetch import ATTEMPTS, MAX_REDIRECTS, download
from ltrbench.errors import DataError


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """Serves 200,000 random bytes, without a proxy."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(random.Random(0).randbytes(200_000)) as server:
        yield server


def downloaded(url: str, part: Path, size: int) -> bytes:
    """Downloads without waiting between attempts, and returns the content of `part`."""
    with FileIO(part, "ab") as output:
        download(url, output, size, lambda arrived, size: None, pause=lambda seconds: None)
    return part.read_bytes()


def test_a_file_arrives_whole_and_its_progress_is_reported(server: Loopback, tmp_path: Path) -> None:
    arrived: list[int] = []
    with FileIO(tmp_path / "part", "ab") as output:
        download(server.url("file"), output, 200_000, lambda count, size: arrived.append(count))
    assert (tmp_path / "part").read_bytes() == server.content
    assert arrived == sorted(arrived)
    assert arrived[-1] == 200_000


@pytest.mark.parametrize("path", ["file", "whole"])
@pytest.mark.parametrize("start", [1, 65_536, 199_999])
def test_a_partial_file_is_continued(server: Loopback, tmp_path: Path, path: str, start: int) -> None:
    (tmp_path / "part").write_bytes(b"#" * start)
    # The bytes that were there are not downloaded again.
    assert downloaded(server.url(path), tmp_path / "part", 200_000) == b"#" * start + server.content[start:]
    assert server.ranges == [f"bytes={start}-"]


def test_a_complete_file_needs_no_server(tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(b"done")
    assert downloaded("http://127.0.0.1:1/file", tmp_path / "part", 4) == b"done"


@pytest.mark.parametrize("path", ["file", "whole"])
def test_a_broken_connection_is_continued_where_it_broke(server: Loopback, tmp_path: Path, path: str) -> None:
    server.breaks = [0, 1000, 70_000, 150_000]
    assert downloaded(server.url(path), tmp_path / "part", 200_000) == server.content
    assert server.ranges[:3] == [None, None, "bytes=1000-"]


def test_after_attempts_without_a_new_byte_what_has_arrived_is_kept(server: Loopback, tmp_path: Path) -> None:
    server.breaks = [5000, *[0] * ATTEMPTS]
    with pytest.raises(DataError, match=naming(server.url("file"), "5000 of 200000 bytes", "repeat")):
        downloaded(server.url("file"), tmp_path / "part", 200_000)
    assert (tmp_path / "part").read_bytes() == server.content[:5000]
    assert downloaded(server.url("file"), tmp_path / "part", 200_000) == server.content


def test_a_busy_server_is_asked_again(server: Loopback, tmp_path: Path) -> None:
    server.busy = ATTEMPTS - 1
    assert downloaded(server.url("file"), tmp_path / "part", 200_000) == server.content
    server.busy = ATTEMPTS
    with pytest.raises(DataError, match=naming("503", "0 of 200000 bytes")):
        downloaded(server.url("file"), tmp_path / "other", 200_000)


def test_a_few_redirects_are_followed(server: Loopback, tmp_path: Path) -> None:
    assert downloaded(server.url(f"hops/{MAX_REDIRECTS}"), tmp_path / "part", 200_000) == server.content
    address = server.url(f"hops/{MAX_REDIRECTS + 1}")
    with pytest.raises(DataError, match=naming(address, f"{MAX_REDIRECTS} times", "--url")):
        downloaded(address, tmp_path / "other", 200_000)


@pytest.mark.parametrize("away", ["file:///etc/passwd", "ftp://127.0.0.1/file", "gopher://x", "data:,x"])
def test_a_redirect_to_another_scheme_is_refused(server: Loopback, tmp_path: Path, away: str) -> None:
    server.away = away
    with pytest.raises(DataError, match=naming(away, server.url("away"), "https://", "--url")):
        downloaded(server.url("away"), tmp_path / "part", 200_000)
    assert (tmp_path / "part").read_bytes() == b""


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "/etc/passwd", "", "http://[", "http://a b/", "http://.x/"]
)
def test_what_is_no_address_is_refused_at_once(tmp_path: Path, url: str) -> None:
    with pytest.raises(DataError, match=naming(url, "--url")):
        downloaded(url, tmp_path / "part", 4)


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("absent", ["404", "page", "--url"]),
        ("page", ["6 bytes", "text/html", "data.fetch.size is 200000", "--url"]),
        ("endless", ["more than", "200000 bytes", "data.fetch.size"]),
    ],
)
def test_another_file_is_refused(server: Loopback, tmp_path: Path, path: str, parts: list[str]) -> None:
    with pytest.raises(DataError, match=naming(server.url(path), *parts)):
        downloaded(server.url(path), tmp_path / "part", 200_000)
    assert (tmp_path / "part").stat().st_size <= 200_000


def test_a_file_of_another_size_is_refused_before_a_byte_is_written(server: Loopback, tmp_path: Path) -> None:
    for size in (199_999, 200_001):
        with pytest.raises(DataError, match=naming("200000 bytes", f"data.fetch.size is {size}")):
            downloaded(server.url("file"), tmp_path / "part", size)
    assert (tmp_path / "part").read_bytes() == b""


def test_a_rest_that_begins_elsewhere_is_refused(server: Loopback, tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(b"#" * 1000)
    with pytest.raises(DataError, match=naming("from 1000 on", "bytes 999-199999/200000", "--url")):
        downloaded(server.url("shifted"), tmp_path / "part", 200_000)
    assert (tmp_path / "part").read_bytes() == b"#" * 1000


def test_a_password_is_sent_only_if_the_address_has_it_and_never_shown(
    server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    downloaded(server.url("file"), tmp_path / "part", 200_000)
    assert server.passwords == [None]
    address = server.url("absent").replace("//", "//me:secret@")
    with pytest.raises(DataError, match=naming("//me:***@", "404")) as caught:
        downloaded(address, tmp_path / "other", 200_000)
    assert "secret" not in str(caught.value)
    assert server.passwords[1] is not None
    server.away = server.url("file")
    downloaded(server.url("away").replace("//", "//me:secret@"), tmp_path / "third", 200_000)
    assert server.passwords[-1] is None
