"""Reads a model file of another library, with the format detected from the content.

    LightGBM   text of Booster.save_model: begins with a line `tree`
    RankLib    text of -save: begins with `## `, or with the XML itself
    XGBoost    JSON or UBJSON of Booster.save_model: begins with `{`

To support another format, add a line to `_FORMATS`. Nothing in a file is executed: a pickle is refused by
its first bytes, before anything reads it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from ltrbench.errors import ResultError
from ltrbench.models import ReadModel
from ltrbench.models.lightgbm_files import read_lightgbm_text
from ltrbench.models.ranklib_file import read_ranklib_xml
from ltrbench.models.trees import Ensemble, Leaf, nodes_of
from ltrbench.models.xgboost_files import read_xgboost_json
from ltrbench.untrusted import check_regular, read_bytes

MOST_MODEL_BYTES = 2**30
"""Maximum size of a model file."""

OF_LIGHTGBM, OF_RANKLIB, OF_XGBOOST = "LightGBM", "RankLib", "XGBoost"

SUPPORTED = (
    "Supported are LightGBM's text (booster.save_model('model.txt')), XGBoost's JSON and UBJSON "
    "(booster.save_model('model.json') or 'model.ubj'), and RankLib's tree ensembles (-save model.txt)"
)

_REMEDY = "Check the path of the model file"
_HEAD = 4096
"""Number of bytes that decide the format."""
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class _Format:
    """A supported format: its library, how a file begins, its file ending, and its reader."""

    library: str
    beginning: re.Pattern[bytes]
    ending: str
    read: Callable[[bytes, Path], ReadModel]


_FORMATS = (
    _Format(OF_LIGHTGBM, re.compile(rb"tree\s*\n"), ".txt", read_lightgbm_text),
    _Format(OF_RANKLIB, re.compile(rb"## |\s*<(?:\?xml|!|ensemble)"), ".txt", read_ranklib_xml),
    _Format(OF_XGBOOST, re.compile(rb"\{[\s\"}]"), ".json", read_xgboost_json),
    _Format(OF_XGBOOST, re.compile(rb"\{"), ".ubj", read_xgboost_json),
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
            head = _head(file.read(_HEAD))
    except (OSError, ResultError):
        return False
    return any(kind.beginning.match(head) for kind in _FORMATS) or _other(head) is not None


def read_model_file(path: Path, remedy: str = _REMEDY) -> ModelFile:
    """Reads a model file of LightGBM, XGBoost or RankLib.

    Args:
        remedy: what to do if the file cannot be read, for messages.

    Raises:
        ResultError: The file cannot be read, has an unsupported format, or its model is invalid.
    """
    content = read_bytes(path, remedy, MOST_MODEL_BYTES)
    head = _head(content[:_HEAD])
    other = _other(head)
    if other is not None:
        _refuse(path, f"it is {other}")
    kind = next((kind for kind in _FORMATS if kind.beginning.match(head)), None)
    if kind is None:
        _refuse(path, f"its format is unknown; it begins with {head[:12]!r}" if head else "it is empty")
    model = kind.read(content, path)
    if not math.isfinite(_largest_score(model.trees)):
        _refuse(path, "the largest leaf values of its trees have a sum that is not finite")
    return ModelFile(path, kind.library, kind.ending, content, model)


def _largest_score(ensemble: Ensemble) -> float:
    """Returns a bound of the absolute scores, in the dtype of the sum; infinite or NaN if a score may be."""
    dtype = np.dtype(ensemble.score_dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.abs(dtype.type(ensemble.base_score))
        for tree in ensemble.trees:
            leaves = [node.value for node in nodes_of(tree.root) if isinstance(node, Leaf)]
            total += np.abs(np.array(leaves).astype(dtype) * dtype.type(tree.weight)).max()
    return float(total)


def _head(content: bytes) -> bytes:
    return content.removeprefix(_BOM)


def _other(head: bytes) -> str | None:
    """Returns the name of an unsupported kind of model file, or None."""
    return next((name for name, beginning in _OTHERS.items() if beginning.match(head)), None)


def _refuse(path: Path, reason: str) -> NoReturn:
    raise ResultError(
        f"{path} cannot be imported: {reason}. {SUPPORTED}; save the model in one of these formats with its "
        "library."
    )
