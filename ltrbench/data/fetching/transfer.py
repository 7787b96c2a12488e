"""Downloads a file by HTTP. What has arrived stays in the partial file, and the next attempt continues it.

Only http and https are followed, over a limited number of redirects. Passwords of ~/.netrc are not sent.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from http import HTTPStatus
from io import FileIO
from urllib.parse import urljoin, urlsplit

import requests
import urllib3
from requests.utils import get_auth_from_url

from ltrbench.errors import DataError
from ltrbench.measure.provenance import without_password

OnArrival = Callable[[int, int], None]
"""Called with the number of bytes that have arrived and the size of the file."""

MAX_REDIRECTS = 5
ATTEMPTS = 3
"""Number of consecutive attempts without a new byte after which a download ends."""

_BLOCK = 1 << 16  # bytes; a broken connection loses at most one block
_TIMEOUT = (30.0, 60.0)  # seconds to connect, and without a byte


class _Interrupted(Exception):  # noqa: N818  # an event that the next attempt may overcome
    """The connection broke or the server is busy."""


def download(
    url: str, part: FileIO, size: int, on_arrival: OnArrival, pause: Callable[[float], None] = time.sleep
) -> None:
    """Appends the missing bytes of a file to `part`, which is open for appending.

    Args:
        size: size of the whole file in bytes; the server must announce the same.
        pause: waits for a number of seconds before another attempt.

    Raises:
        DataError: The address is not http or https, leads to another file, or cannot be read to the end. What
            has arrived stays in `part`.
        OSError: `part` cannot be written.
    """
    failures = 0
    while (start := part.tell()) < size:
        try:
            _continue(url, part, size, on_arrival)
        except _Interrupted as interruption:
            failures = 0 if part.tell() > start else failures + 1
            if failures == ATTEMPTS:
                raise DataError(
                    f"{without_password(url)}: {interruption}. {part.tell()} of {size} bytes have arrived; "
                    "repeat the command to continue from there, or pass another address with --url."
                ) from None
            pause(2.0**failures)


def _continue(url: str, part: FileIO, size: int, on_arrival: OnArrival) -> None:
    """Appends the bytes that one connection delivers.

    Raises:
        _Interrupted: The connection broke before the end.
    """
    start = part.tell()
    try:
        with requests.Session() as session, _response(session, url, start) as response:
            # A server that ignores Range begins at the first byte.
            position = start if _is_rest(response, url, start, size) else 0
            while position <= size and (block := response.raw.read(_BLOCK, decode_content=False)):
                _append(part, block[max(start - position, 0) :][: size - part.tell()])
                position += len(block)
                on_arrival(part.tell(), size)
    except ValueError as error:
        raise DataError(
            f"{without_password(url)} cannot be used as an address ({error}); pass another one with --url."
        ) from None
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        raise _Interrupted(f"the connection failed ({_cause(error)})") from None
    if position > size:
        raise DataError(
            f"{without_password(url)} has more than the {size} bytes of data.fetch.size; it is another file. "
            "Look for the address in the page of the publisher, and pass it with --url."
        )
    if position < size:
        raise _Interrupted("the server ended the connection early")


def _cause(error: Exception) -> str:
    """Returns the kind of an error, such as NameResolutionError, which requests wraps in another one."""
    wrapped = error.args[0] if error.args else None
    return type(getattr(wrapped, "reason", None) or error).__name__


def _append(part: FileIO, block: bytes) -> None:
    while block:
        block = block[part.write(block) :]


def _response(session: requests.Session, url: str, start: int) -> requests.Response:
    """Returns the response after redirects to a request for the bytes from `start` on."""
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    address = url
    for _ in range(MAX_REDIRECTS + 1):
        if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).hostname:
            source = "" if address == url else f", to which {without_password(url)} redirects,"
            raise DataError(
                f"The address {without_password(address)}{source} is not http:// or https://; pass another "
                "one with --url."
            )
        response = _get(session, address, headers)
        if not response.is_redirect:
            return response
        response.close()
        address = urljoin(address, response.headers["Location"])
    raise DataError(
        f"{without_password(url)} redirects more than {MAX_REDIRECTS} times; open it in a browser, and pass "
        "the address at which it ends with --url."
    )


def _get(session: requests.Session, address: str, headers: dict[str, str]) -> requests.Response:
    """Returns the response of an address, which may be a redirect.

    Raises:
        DataError: A file of certificates that the environment names does not exist.
    """
    auth = get_auth_from_url(address)
    try:
        return session.get(
            address,
            headers=headers,
            # A function that adds nothing keeps requests from sending a password of ~/.netrc.
            auth=auth if any(auth) else lambda request: request,
            stream=True,
            allow_redirects=False,
            timeout=_TIMEOUT,
        )
    except requests.RequestException:  # also an OSError
        raise
    except OSError as error:
        raise DataError(
            f"{without_password(address)} cannot be read: {error}. Check the environment variables "
            "REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE."
        ) from None


def _is_rest(response: requests.Response, url: str, start: int, size: int) -> bool:
    """Returns whether a response begins at byte `start`; if not, it begins at the first byte.

    Raises:
        _Interrupted: The server is busy.
        DataError: The response is an error, or belongs to a file of another size.
    """
    status, headers = response.status_code, response.headers
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise _Interrupted(f"the server answers {status} {response.reason}")
    if status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
        raise DataError(
            f"{without_password(url)} answers {status} {response.reason}; look for the address in the page "
            "of the publisher, and pass it with --url."
        )
    announced = headers.get("Content-Length")
    if status == HTTPStatus.PARTIAL_CONTENT:
        extent = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", headers.get("Content-Range", ""))
        if extent is None or int(extent[1]) != start:
            raise DataError(
                f"{without_password(url)} answers a request for the bytes from {start} on with "
                f"Content-Range {headers.get('Content-Range')!r}; pass another address with --url."
            )
        announced = extent[2]
    if announced is not None and announced != str(size):
        raise DataError(
            f"{without_password(url)} leads to a file of {announced} bytes "
            f"({headers.get('Content-Type', 'of unknown type')}), but data.fetch.size is {size}; it is "
            "another file. Look for the address in the page of the publisher, and pass it with --url."
        )
    return status == HTTPStatus.PARTIAL_CONTENT
