"""RankingDatasets written as LETOR text and in LightGBM's form, for `read_letor` and for other systems.

Every feature of a document is written, zeros too and a missing one as `nan`: so the file says the same
whatever its reader takes an absent feature for. Numbers are the shortest that read back as the same float.
What stands at a path before is replaced as a whole, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ltrbench.data.dataset import RankingDataset
from ltrbench.data.formats.compression import write_whole
from ltrbench.data.formats.letor.lightgbm import ENDINGS, companion
from ltrbench.data.formats.letor.line import LONGEST_ID, document_id, is_text
from ltrbench.errors import DataError

_BLOCK_DOCUMENTS = 4096  # so many rows are text at a time


def write_letor(dataset: RankingDataset, path: str | Path) -> None:
    """Writes what `read_letor(path)` reads back: same fingerprint, same document ids.

    Weights stand after the labels, document ids in comments, positions in FILE.position beside the file. The
    features are numbered from one; their names are not kept. Packed as the ending says: .gz, .bz2, .xz, .zst.

    Raises:
        DataError: where an id cannot stand in a line, a FILE.query or FILE.weight of another data set lies
            beside the file, or the folder cannot be written to.

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
    """Writes LightGBM's form: no qid, and FILE.query, FILE.weight and FILE.position beside the file.

    Features are numbered from zero, as LightGBM counts: `read_letor(path, first_index=0)` reads the same data
    back, but for the ids of queries and documents, which this form has no place for.

    Raises:
        DataError: where a FILE.weight or FILE.position of another data set lies beside the file, or the
            folder cannot be written to.

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
    """The documents' weights; empty where the data set has none."""
    if dataset.query_weights is None:
        return []
    return [_number(weight) for weight in dataset.weight_of_document.tolist()]


def _positions(dataset: RankingDataset) -> dict[str, list[bytes]]:
    """What goes into FILE.position, under its ending."""
    if dataset.positions is None:
        return {}
    return {".position": [b"%d" % position for position in dataset.positions.tolist()]}


def _check_beside(path: Path, beside: dict[str, list[bytes]]) -> None:
    for ending in ENDINGS:
        other = companion(path, ending)
        if ending not in beside and other.exists():
            raise DataError(
                f"{other}: lies there already and would be read as part of {path}, which has no such file. "
                "Write to another path, or remove it."
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
    """A line a document: its label, its head (what stands before the features), its features, its comment."""
    indices = [b" %d:" % (first_index + column) for column in range(dataset.num_features)]
    for start in range(0, dataset.num_documents, _BLOCK_DOCUMENTS):
        # NumPy's text of a float32 is the shortest that is nearest to it, and to no other float32.
        texts = dataset.features[start : start + _BLOCK_DOCUMENTS].astype(np.bytes_).tolist()
        for row, values in enumerate(texts, start):
            features = b"".join(index + value for index, value in zip(indices, values, strict=True))
            yield _number(float(dataset.labels[row])) + heads[row] + features + comments[row] + b"\n"


def _number(value: float) -> bytes:
    """The shortest text of a double; a grade without a fraction, as other systems want it.

    >>> _number(2.0), _number(0.1)
    (b'2', b'0.1')
    """
    return repr(value).removesuffix(".0").encode()


def _query_token(query: str) -> bytes:
    token = _encoded(query)
    is_word = token.split() == [token] and b"#" not in token and is_text(token)
    if not is_word or token.decode() != query or len(token) > LONGEST_ID:
        raise DataError(
            f"query_ids: {query!r} cannot stand in a line of LETOR text, where an id is a word of at most "
            f"{LONGEST_ID} bytes without blanks and '#'. Rename the query, or write a table."
        )
    return token


def _comment(document: str) -> bytes:
    """The comment from which the document's id is read back."""
    if not document:
        return b""
    text = _encoded(document)
    for comment in (b" docid = " + text, b" " + text):
        if is_text(text) and document_id(comment) == document:
            return b" #" + comment
    raise DataError(
        f"document_ids: {document!r} cannot stand in a comment of LETOR text, which is one line of at most "
        f"{LONGEST_ID} bytes. Rename the document, or write a table."
    )


def _encoded(name: str) -> bytes:
    # A lone surrogate is not text in any encoding; as an escape it fails the test of what it reads back as.
    return name.encode(errors="backslashreplace")
