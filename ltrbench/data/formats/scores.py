"""Score files of any system: one score per line, in the order of the data rows."""

from __future__ import annotations

import codecs
import math
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.formats.compression import read_blocks
from ltrbench.errors import DataError

STANDARD_INPUT = "-"


def read_scores(path: str | Path, num_documents: int) -> NDArray[np.float64]:
    """Reads a score file with one number per line; higher scores rank earlier.

    Args:
        path: the file, plain or compressed (gz, bz2, xz, zst); "-" is standard input, uncompressed.
        num_documents: D, required number of lines.

    Returns:
        (D,) the scores. Infinite scores are valid: they rank first or last.

    Raises:
        DataError: The file cannot be read, a line is not one number, or the number of lines is not D.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "scores.txt")
    ...     _ = file.write_text("0.5\\n-1e-3\\n2\\n")
    ...     read_scores(file, 3).tolist()
    [0.5, -0.001, 2.0]
    """
    name = "standard input" if str(path) == STANDARD_INPUT else str(path)
    scores = parse_scores(_read(path), name)
    if len(scores) != num_documents:
        raise DataError(
            f"{name}: the file has {len(scores)} scores, but the data has {num_documents} documents. Write "
            "one score per line, in the order of the data rows, without a header."
        )
    return scores


def parse_scores(text: bytes, name: str) -> NDArray[np.float64]:
    """Parses the text of a score file, one score per line.

    Args:
        name: name of the file in messages.

    Raises:
        DataError: A line is not one number.
    """
    lines = text.removeprefix(codecs.BOM_UTF8).split(b"\n")
    if not lines[-1].strip():
        lines.pop()
    return np.array([_score(line, name, number) for number, line in enumerate(lines, 1)], dtype=np.float64)


def parse_score(token: bytes) -> float | None:
    """Returns the score in a text, which may be infinite; None if the text is not a score.

    >>> parse_score(b"1e-3"), parse_score(b"-inf"), parse_score(b"1e400"), parse_score(b"nan")
    (0.001, -inf, None, None)
    """
    try:
        score = float(token)
    except ValueError:
        return None
    if math.isfinite(score):
        return None if b"_" in token else score  # 1_000 is valid in Python only
    # float() turns 1e400 into infinity, although the text is a finite number beyond double.
    return score if b"inf" in token.lower() else None


def _read(path: str | Path) -> bytes:
    if str(path) == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    return b"".join(text for text, _ in read_blocks(Path(path)))


def _score(line: bytes, name: str, number: int) -> float:
    score = parse_score(line)
    if score is None:
        raise DataError(f"{name}:{number}: {_fault(line)}")
    return score


def _fault(line: bytes) -> str:
    text = line.decode("utf-8", "replace").strip()
    if not text:
        return (
            "the line is empty; every line must have the score of one document. Add the score, or remove it."
        )
    if not text.replace("\t", " ").isprintable() or "\ufffd" in text:
        return "the line is not text; expected a file with one score per line. Check the path."
    shown = repr(text if len(text) <= 40 else text[:40] + "...")
    columns = len(text.replace(",", " ").split())
    if columns > 1:
        return (
            f"{shown} has {columns} columns; expected one score per line. Keep only the column of the "
            "scores, in the order of the data rows."
        )
    if columns == 1 and text.lower().lstrip("+-")[:1].isdigit() and "_" not in text and "e" in text.lower():
        return f"{shown} exceeds the range of a double; rescale the scores."
    return (
        f"{shown} is not a number; expected one score per line. For a document without a score, write a "
        "value below all other scores."
    )
