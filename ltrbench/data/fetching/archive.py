"""The `fetch` node of a YAML in conf/data: where a published archive is, and how to check and unpack it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from ltrbench.errors import ConfigError, require

ARCHIVE_ENDINGS = (".zip", ".tar.gz", ".tgz")
"""Endings of the archives that can be unpacked."""


@dataclass(kw_only=True)
class PublishedArchive:
    """The archive of a published data set.

    Args:
        file: name of the archive below the data folder; it ends in .zip, .tar.gz or .tgz.
        size: size of the archive in bytes.
        sha256: SHA-256 of the archive, 64 hexadecimal digits.
        into: folder below the data folder into which the archive is unpacked.
        max_unpacked_gb: maximum size of the unpacked files in GB (10^9 bytes), at most 10^6; a larger
            archive is refused.
        licence: the licence, in one sentence.
        page: the page of the publisher, with the licence and the download.
        must_accept: whether the publisher requires that the licence is accepted before the download.
        url: address of the archive; None: not known.
        verified: whether a download from `url` has been checked; other addresses are printed, not used.

    Raises:
        ConfigError: A value is not of this form, or `verified` is set without an address.
    """

    file: str
    size: int
    sha256: str
    into: str
    max_unpacked_gb: float
    licence: str
    page: str
    must_accept: bool = True
    url: str | None = None
    verified: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w[\w.-]*", self.file) or not self.file.endswith(ARCHIVE_ENDINGS):
            raise ConfigError(
                f"data.fetch.file is '{self.file}'; it must be a file name without folders that ends in "
                f"{', '.join(ARCHIVE_ENDINGS)}."
            )
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise ConfigError(
                f"data.fetch.sha256 is '{self.sha256}'; it must be 64 hexadecimal digits in lower case, as "
                "sha256sum prints them."
            )
        if not is_inside(self.into):
            raise ConfigError(
                f"data.fetch.into is '{self.into}'; it must be a relative folder without .. below the data "
                "folder."
            )
        require("data.fetch.size", self.size, at_least=1)
        require("data.fetch.max_unpacked_gb", self.max_unpacked_gb, above=0, at_most=1e6)
        if self.verified and self.url is None:
            raise ConfigError(
                "data.fetch.verified is true, but data.fetch.url is not set; set the address, or "
                "verified: false."
            )


def is_inside(path: str) -> bool:
    r"""Returns whether a path of an archive or a YAML is relative and stays inside the folder it starts in.

    Backslashes, control characters and drive letters are refused, because other systems would read them as
    parts of a path.

    >>> [is_inside(path) for path in ("Fold1/train.txt", "./a", "", "/a", "a/../b", r"a\b", "C:a", "a\n")]
    [True, True, False, False, False, False, False, False]
    """
    pure = PurePosixPath(path)
    return (
        bool(pure.parts)
        and not pure.is_absolute()
        and ".." not in pure.parts
        and not re.search(r"[\\\x00-\x1f\x7f]|^[A-Za-z]:", path)
    )
