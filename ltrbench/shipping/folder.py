"""Writes and reads the folder of a shipped model.

    the files of the target     the first is the model
    upload.txt                  the request, command or code that loads it
    README.md                   how to upload and check it, names of features, limits
    check_rows.json             documents with expected scores
    check_...                   the same rows as requests of a server, named in README.md
    certificate.json            what was compared, and the verdict

The folder of a refused model has certificate.json only.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ltrbench.disk import DISK_REMEDIES, delete_abandoned, flush
from ltrbench.errors import ConfigError, ResultError
from ltrbench.shipping.certificate.record import REFUSED
from ltrbench.untrusted.reading import read_json

CERTIFICATE_FILE = "certificate.json"
CHECK_FILE = "check_rows.json"
README_FILE = "README.md"
UPLOAD_FILE = "upload.txt"

_REMEDY = "Copy the folder again from its source, or ship the model again"


def json_bytes(value: Any) -> bytes:
    """Returns JSON without NaN, with a line for each value and a newline at the end."""
    return (json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()


def check_free(folder: Path) -> None:
    """Checks before anything is computed that the folder can be written.

    Raises:
        ConfigError: It exists and is not empty; the certificate of a refused model may be replaced.
    """
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir():
        raise ConfigError(f"--output {folder} is a file; name a new folder.")
    names = sorted(path.name for path in folder.iterdir())
    if names and not (names == [CERTIFICATE_FILE] and _is_refused(folder)):
        raise ConfigError(
            f"--output {folder} already contains {', '.join(names[:3])}; name a new folder, or delete it."
        )


def _is_refused(folder: Path) -> bool:
    try:
        content = read_json(folder / CERTIFICATE_FILE)
    except ResultError:
        return False
    return isinstance(content, dict) and content.get("status") == REFUSED


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes all files to a folder that `check_free` accepts; it appears when it is complete.

    Raises:
        ConfigError: The folder is not free.
        ResultError: The disk does not allow it.
    """
    check_free(folder)
    prefix = f".{folder.name}.partial-"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        delete_abandoned(folder.parent, f"{prefix}*")
        staging = Path(tempfile.mkdtemp(dir=folder.parent, prefix=prefix))
        try:
            staging.chmod(0o755)
            for name, content in files.items():
                (staging / name).write_bytes(content)
            flush(staging)
            (folder / CERTIFICATE_FILE).unlink(missing_ok=True)  # of a refused model
            staging.rename(folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        remedy = DISK_REMEDIES.get(error.errno or 0, "Choose another folder")
        raise ResultError(f"{folder} cannot be written: {error.strerror}. {remedy}.") from error


def read_shipped(folder: Path, name: str) -> dict[str, Any]:
    """Reads certificate.json or check_rows.json of a shipped model.

    Raises:
        ResultError: The folder has no such file, or it is not a JSON object.
    """
    path = folder / name
    if not path.exists():
        raise ResultError(f"{folder} is not the folder of a shipped model: it has no {name}. {_REMEDY}.")
    content = read_json(path, _REMEDY)
    if not isinstance(content, dict):
        raise ResultError(f"{path} is not a JSON object. {_REMEDY}.")
    return content
