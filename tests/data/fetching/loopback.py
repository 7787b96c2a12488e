"""An HTTP server on the loopback address that serves one file, and misbehaves on request."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Loopback(ThreadingHTTPServer):
    """Serves `content`.

    Paths:
        /file: the content, with Range.
        /whole: the content from its first byte, whatever the request asks for.
        /endless: more and more bytes without a Content-Length.
        /shifted: one byte too many for a Range.
        /page: a short page.
        /hops/N: N redirects, then /file.
        /away: a redirect to `away`.
        anything else: 404.

    Attributes:
        breaks: bytes after which each of the next responses breaks off.
        busy: number of the next requests that are answered with 503.
        ranges: the header Range of each request for the file.
        passwords: the header Authorization of each request.
    """

    daemon_threads = True

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = content
        self.breaks: list[int] = []
        self.busy = 0
        self.away = ""
        self.ranges: list[str | None] = []
        self.passwords: list[str | None] = []

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{path}"


@contextlib.contextmanager
def serving(content: bytes) -> Iterator[Loopback]:
    with Loopback(content) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Loopback

    def do_GET(self) -> None:
        self.server.passwords.append(self.headers["Authorization"])
        if self.server.busy:
            self.server.busy -= 1
            self.send_error(503)
        elif self.path.startswith("/hops/"):
            hops = int(self.path.removeprefix("/hops/"))
            self._redirect(f"/hops/{hops - 1}" if hops > 1 else "/file")
        elif self.path == "/away":
            self._redirect(self.server.away)
        elif self.path in ("/file", "/shifted", "/whole"):
            self._send_content()
        elif self.path == "/endless":
            self._send_endlessly()
        elif self.path == "/page":
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", "6")
            self.end_headers()
            self.wfile.write(b"<html>")
        else:
            self.send_error(404)

    def _redirect(self, location: str) -> None:
        self.send_response(302)
        self.send_header("Location", location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send_content(self) -> None:
        content, given = self.server.content, self.headers["Range"]
        self.server.ranges.append(given)
        begin = re.fullmatch(r"bytes=(\d+)-", given or "")
        if begin and self.path != "/whole":
            start = int(begin[1]) - (self.path == "/shifted")
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            content = content[start:]
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: self.server.breaks.pop(0)] if self.server.breaks else content)
        # Also ends a response that is shorter than announced.
        self.close_connection = True

    def _send_endlessly(self) -> None:
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):  # the client has had enough
            while True:
                self.wfile.write(self.server.content)

    def log_message(self, *arguments: Any) -> None:
        del arguments
