"""Reads a model file of another library, with the format detected from the content.

    LightGBM   text of Booster.save_model: begins with a line `tree`
    RankLib    text of -save: begins with `## `, or with the XML itself
    XGBoost    JSON or UBJSON of Booster.save_model: begins with `{`

To support another format, add a line to `_FORMATS`. Nothing in a file is executed: a pickle is refused by
its first bytes, before anything reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import ParseError

from ltrbench.errors import ResultError
from ltrbench.models import ReadModel
from ltrbench.models.lightgbm_files import read_lightgbm_text
from ltrbench.models.ranklib_file import read_ranklib_xml
from ltrbench.models.xgboost_files import read_xgboost
from ltrbench.untrusted import check_regular, read_bytes

MOST_MODEL_BYTES = 2**30
"""Maximum size of a model file."""

OF_LIGHTGBM, OF_RANKLIB, OF_XGBOOST = "LightGBM", "RankLib", "XGBoost"

SUPPORTED = (
    "Supported are LightGBM's text (booster.save_model('model.txt')), XGBoost's JSON and UBJSON "
    "(booster.save_model('model.json') or 'model.ubj'), and RankLib's tree ensembles (-save model.txt)"
)

_HEAD = 4096
"""Number of bytes that decide the format."""


@dataclass(frozen=True)
class _Format:
    """A supported format: its library, how a file begins, its file ending, and its reader."""

    library: str
    beginning: re.Pattern[bytes]
    ending: str
    read: Callable[[bytes], ReadModel]


_FORMATS = (
    _Format(OF_LIGHTGBM, re.compile(rb"tree\s*\n"), ".txt", read_lightgbm_text),
    _Format(OF_RANKLIB, re.compile(rb"## |\s*<(?:\?xml|!|ensemble)"), ".txt", read_ranklib_xml),
    _Format(OF_XGBOOST, re.compile(rb"\{[\s\"}]"), ".json", read_xgboost),
    _Format(OF_XGBOOST, re.compile(rb"\{"), ".ubj", read_xgboost),
)

_OTHERS = {
    "a pickle, which may run code when it is loaded": re.compile(rb"\x80[\x02-\x05]|\(?[cd][\w.]*\n"),
    "an archive, such as those of joblib, PyTorch and NumPy": re.compile(rb"PK\x03\x04|\x93NUMPY|\x89HDF"),
    "a CatBoost model": re.compile(rb"CBM1"),
    "XGBoost's old binary format": re.compile(rb"binf|bs64"),
    "a dump of trees, without the base score and the types of a model": re.compile(
        rb"\[\s*[\[{]|booster\[\d+\]:|\{\s*\"name\"\s*:\s*\"tree\"|\{\s*\"nodeid\""
    ),
    "an ONNX model or another protocol buffer": re.compile(rb"\x08[\x01-\x20][\x12\x1a\x22\x2a\x3a]"),
}
"""Other kinds of model files -> how they begin."""


@dataclass(frozen=True)
class ModelFile:
    """A model file of another library.

    Attributes:
        path: for messages.
        library: "LightGBM", "RankLib" or "XGBoost".
        ending: usual ending of the names of such files.
        content: the bytes of the file.
        model: what it contains.
    """

    path: Path
    library: str
    ending: str
    content: bytes
    model: ReadModel


def is_model_file(path: Path) -> bool:
    """Returns whether a file begins as a model file does, supported or not; False if it cannot be read."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except (OSError, ResultError):
        return False
    return any(beginning.match(head) for beginning in (*(f.beginning for f in _FORMATS), *_OTHERS.values()))


def read_model_file(path: Path, remedy: str = "Check the path of the model file") -> ModelFile:
    """Reads a model file of LightGBM, XGBoost or RankLib.

    Args:
        remedy: what to do if the file cannot be read, for messages.

    Raises:
        ResultError: The file cannot be read, has an unsupported format, or is not complete.
    """
    content = read_bytes(path, remedy, MOST_MODEL_BYTES)
    other = next((name for name, beginning in _OTHERS.items() if beginning.match(content)), None)
    kind = next((kind for kind in _FORMATS if kind.beginning.match(content)), None)
    if other is not None or kind is None:
        unknown = f"of an unknown format; it begins with {content[:12]!r}" if content else "empty"
        raise ResultError(
            f"{path} cannot be imported: it is {other or unknown}. {SUPPORTED}; save the model in one of "
            "these formats with its library."
        )
    try:
        model = kind.read(content)
    except (ValueError, KeyError, IndexError, TypeError, RecursionError, ParseError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error).partition("\n")[0]
        raise ResultError(
            f"{path} is no complete model file of {kind.library}: {reason}. {SUPPORTED}; save the "
            "model again."
        ) from error
    return ModelFile(path, kind.library, kind.ending, content, model)
