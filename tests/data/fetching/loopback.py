"""An HTTP server on the loopback address that serves one file, and misbehaves on request."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Loopback(ThreadingHTTPServer):
    """Serves `content`.

    Paths:
        /file: the content.
        /broken: the first bytes of it.
        /endless: more and more bytes without a Content-Length.
        /page: a short page.
        /hops/N: N redirects, then /file.
        /away: a redirect to a local file.
        anything else: 404.

    Attributes:
        requests: number of requests.
        passwords: the header Authorization of each request.
    """

    daemon_threads = True

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = content
        self.requests = 0
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
        self.server.requests += 1
        self.server.passwords.append(self.headers["Authorization"])
        content = self.server.content
        if self.path.startswith("/hops/"):
            hops = int(self.path.removeprefix("/hops/"))
            self._redirect(f"/hops/{hops - 1}" if hops > 1 else "/file")
        elif self.path == "/away":
            self._redirect("file:///etc/passwd")
        elif self.path in ("/file", "/broken", "/page"):
            content = b"<html>" if self.path == "/page" else content
            self.send_response(200)
            self.send_header("Content-Type", "text/html" if self.path == "/page" else "application/zip")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[:300] if self.path == "/broken" else content)
            self.close_connection = True
        elif self.path == "/endless":
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):  # the client has had enough
                while True:
                    self.wfile.write(content)
        else:
            self.send_error(404)

    def _redirect(self, location: str) -> None:
        self.send_response(302)
        self.send_header("Location", location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        del arguments
