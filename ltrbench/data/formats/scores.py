"""Score files of any system: a line a document, in the order of the data's rows."""

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
    """Reads a score file: one number a line, higher is ranked earlier.

    Args:
        path: the file, plain or compressed (gz, bz2, xz, zst); "-" is standard input, plain.
        num_documents: D, how many lines there must be.

    Returns:
        (D,) the scores. An infinite score is one: it ranks first or last.

    Raises:
        DataError: where the file cannot be read, a line is not one number, or there are not D lines.

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
            f"{name}: holds {len(scores)} scores, but the data has {num_documents} documents. Give a line a "
            "document, in the order of the data's rows, and no header."
        )
    return scores


def parse_scores(text: bytes, name: str) -> NDArray[np.float64]:
    """The scores of a file's text, one a line.

    Args:
        name: what messages call the file.

    Raises:
        DataError: where a line is not one number.
    """
    lines = text.removeprefix(codecs.BOM_UTF8).split(b"\n")
    if not lines[-1].strip():
        lines.pop()
    return np.array([_score(line, name, number) for number, line in enumerate(lines, 1)], dtype=np.float64)


def parse_score(token: bytes) -> float | None:
    """The score that a text says, infinite ones too; None where it says none.

    >>> parse_score(b"1e-3"), parse_score(b"-inf"), parse_score(b"1e400"), parse_score(b"nan")
    (0.001, -inf, None, None)
    """
    try:
        score = float(token)
    except ValueError:
        return None
    if math.isfinite(score):
        return None if b"_" in token else score  # 1_000 is Python's own notation and nobody's score
    # 1e400 is not infinite but too large for a double.
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
        return "the line is empty; each line holds the score of one document. Remove it, or fill it in."
    if not text.replace("\t", " ").isprintable() or "\ufffd" in text:
        return "the line is not text; a file of one score a line was expected. Check the path."
    shown = repr(text if len(text) <= 40 else text[:40] + "...")
    columns = len(text.replace(",", " ").split())
    if columns > 1:
        return (
            f"{shown} holds {columns} columns; one score a line was expected. Keep the column of the scores "
            "only, in the order of the data's rows."
        )
    if columns == 1 and text.lower().lstrip("+-")[:1].isdigit() and "_" not in text and "e" in text.lower():
        return f"{shown} is larger than a double can hold; scale the scores down."
    return (
        f"{shown} is not a number; a score a line was expected. A document without a score needs one too: "
        "give it one below all others."
    )
