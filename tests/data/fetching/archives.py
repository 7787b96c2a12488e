"""Archives for tests, also such as nobody should publish."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILES = {"Fold1/train.txt": b"1 qid:1 1:2\n" * 100, "Fold1/test.txt": b"0 qid:2 1:3\n", "README": b""}
"""The files of a small data set."""


def packed(file: Path, contents: Mapping[str, bytes]) -> Path:
    """Writes files into a zip or tar.gz archive."""
    if file.suffix == ".zip":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in contents.items():
                archive.writestr(name, content)
    else:
        packed_tar(
            file, [(tar_member(name, size=len(content)), content) for name, content in contents.items()]
        )
    return file


def tar_member(name: str, **attributes: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for key, value in attributes.items():
        setattr(info, key, value)
    return info


def packed_tar(file: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    """Writes members into a tar.gz archive as they are."""
    with tarfile.open(file, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return file
