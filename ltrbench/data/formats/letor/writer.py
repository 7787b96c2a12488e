"""Writes a RankingDataset as LETOR text or in LightGBM's form, for `read_letor` and for other systems.

Every feature of a document is written, including zeros, and missing values as `nan`, so that the file does
not depend on a reader's value for absent features. Numbers are written with the fewest digits that restore
the same float. An existing file is replaced completely or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ltrbench.data.dataset import RankingDataset
from ltrbench.data.features import row_blocks
from ltrbench.data.formats.compression import write_whole
from ltrbench.data.formats.letor.lightgbm import ENDINGS, companion
from ltrbench.data.formats.letor.line import LONGEST_ID, document_id, is_text
from ltrbench.errors import DataError

_BLOCK_DOCUMENTS = 4096  # rows converted to text at a time


def write_letor(dataset: RankingDataset, path: str | Path) -> None:
    """Writes LETOR text, which `read_letor(path)` restores with the same fingerprint and document ids.

    Weights follow the labels, document ids are in comments, and positions are in the companion file
    FILE.position. Feature indices start from one; feature names are not written. The extension .gz, .bz2, .xz
    or .zst selects a compression.

    Raises:
        DataError: An id cannot be written in a line, a FILE.query or FILE.weight of another data set exists,
            or the folder is not writable.

    >>> from tempfile import TemporaryDirectory
    >>> data = RankingDataset(features=[[0.5, 0], [1, 4]], labels=[2, 0], query_start=[0, 1, 2])
    >>> with TemporaryDirectory() as folder:
    ...     write_letor(data, Path(folder, "train.txt"))
    ...     print(Path(folder, "train.txt").read_text(), end="")
    2 qid:1 1:0.5 2:0.0
    0 qid:2 1:1.0 2:4.0
    """
    path = Path(path)
    beside = _positions(dataset)
    _check_beside(path, beside)
    queries = [b" qid:" + _query_token(query) for query in dataset.query_ids.tolist()]
    weights = _weights(dataset) or [b""] * dataset.num_documents
    heads = [
        (b" " + weight if weight else b"") + queries[query]
        for weight, query in zip(weights, dataset.query_of_document.tolist(), strict=True)
    ]
    ids = [""] * dataset.num_documents if dataset.document_ids is None else dataset.document_ids.tolist()
    _write(path, _lines(dataset, 1, heads, [_comment(document) for document in ids]), beside)


def write_lightgbm(dataset: RankingDataset, path: str | Path) -> None:
    """Writes LightGBM's form: no qid, with the companion files FILE.query, FILE.weight and FILE.position.

    Feature indices start from zero, as in LightGBM: `read_letor(path, first_index=0)` restores the data
    except for the ids of queries and documents, which this form cannot store.

    Raises:
        DataError: A FILE.weight or FILE.position of another data set exists, or the folder is not writable.

    >>> from tempfile import TemporaryDirectory
    >>> data = RankingDataset(features=[[0.5, 0], [1, 4]], labels=[2, 0], query_start=[0, 1, 2])
    >>> with TemporaryDirectory() as folder:
    ...     write_lightgbm(data, Path(folder, "rank.train"))
    ...     Path(folder, "rank.train").read_text(), Path(folder, "rank.train.query").read_text()
    ('2 0:0.5 1:0.0\\n0 0:1.0 1:4.0\\n', '1\\n1\\n')
    """
    path = Path(path)
    beside = {".query": [b"%d" % size for size in dataset.query_sizes], **_positions(dataset)}
    weights = _weights(dataset)
    if weights:
        beside[".weight"] = weights
    _check_beside(path, beside)
    nothing = [b""] * dataset.num_documents
    _write(path, _lines(dataset, 0, nothing, nothing), beside)


def _weights(dataset: RankingDataset) -> list[bytes]:
    """Returns the document weights as text; empty if the data set has none."""
    if dataset.query_weights is None:
        return []
    return [_number(weight) for weight in dataset.weight_of_document.tolist()]


def _positions(dataset: RankingDataset) -> dict[str, list[bytes]]:
    """Returns the lines of FILE.position by extension; empty if the data set has no positions."""
    if dataset.positions is None:
        return {}
    return {".position": [b"%d" % position for position in dataset.positions.tolist()]}


def _check_beside(path: Path, beside: dict[str, list[bytes]]) -> None:
    for ending in ENDINGS:
        other = companion(path, ending)
        if ending not in beside and other.exists():
            raise DataError(
                f"{other}: this file already exists and would be read as a companion file of {path}. Write "
                f"to another path, or remove {other.name}."
            )


def _write(path: Path, lines: Iterator[bytes], beside: dict[str, list[bytes]]) -> None:
    for ending, values in beside.items():
        with write_whole(companion(path, ending)) as stream:
            stream.write(b"".join(value + b"\n" for value in values))
    with write_whole(path) as stream:
        for line in lines:
            stream.write(line)


def _lines(
    dataset: RankingDataset, first_index: int, heads: list[bytes], comments: list[bytes]
) -> Iterator[bytes]:
    """Yields one line per document: label, head (weight and qid), features, comment."""
    indices = [b" %d:" % (first_index + column) for column in range(dataset.num_features)]
    for start, block in row_blocks(dataset.features, _BLOCK_DOCUMENTS):
        # NumPy writes the shortest text that restores the same float32.
        texts = block.astype(np.bytes_).tolist()
        for row, values in enumerate(texts, start):
            features = b"".join(index + value for index, value in zip(indices, values, strict=True))
            yield _number(float(dataset.labels[row])) + heads[row] + features + comments[row] + b"\n"


def _number(value: float) -> bytes:
    """Returns the shortest text of a double; whole numbers without a fraction, as other systems require.

    >>> _number(2.0), _number(0.1)
    (b'2', b'0.1')
    """
    return repr(value).removesuffix(".0").encode()


def _query_token(query: str) -> bytes:
    token = _encoded(query)
    is_word = token.split() == [token] and b"#" not in token and is_text(token)
    if not is_word or token.decode() != query or len(token) > LONGEST_ID:
        raise DataError(
            f"query_ids: {query!r} cannot be written as LETOR text; an id must be one word of at most "
            f"{LONGEST_ID} bytes without blanks and '#'. Rename the query, or write a table."
        )
    return token


def _comment(document: str) -> bytes:
    """Returns the comment that stores a document id."""
    if not document:
        return b""
    text = _encoded(document)
    for comment in (b" docid = " + text, b" " + text):
        if is_text(text) and document_id(comment) == document:
            return b" #" + comment
    raise DataError(
        f"document_ids: {document!r} cannot be written as a comment of LETOR text; an id must be one line of "
        f"at most {LONGEST_ID} bytes. Rename the document, or write a table."
    )


def _encoded(name: str) -> bytes:
    # A lone surrogate has no encoding; its escape fails the check that the id is restored unchanged.
    return name.encode(errors="backslashreplace")
