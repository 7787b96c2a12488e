"""Scores and judgments in files: plain, TREC and RankLib.

Reads score files of any system, with the format detected from the content, and matches them to a split.

    one score per line   in the order of the data rows
    RankLib's -score     query index score: by query, in the order of its rows
    TREC run             query Q0 document rank score tag: by query and document

To support another format, write a class like `ScoreFile` and add a line to `read_score_file`.
"""

from __future__ import annotations

import codecs
import math
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.blocks import gather, read_blocks
from ltrbench.data.dataset import Judgments
from ltrbench.data.letor_lines import document_id, quote
from ltrbench.errors import DataError
from ltrbench.shapes import Scores

# ---- Score files of any system: one score per line, in the order of the data rows.

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


# ---- TREC files: runs (the scores of a system) and qrels (relevance judgments).
#
#     run      query Q0 document rank score tag
#     qrels    query 0 document label
#
# trec_eval ranks by the score, rounded to float32, and tied documents by descending id; it ignores the rank
# column and the order of the lines. This module therefore reads only the score. It writes ranks by the
# exact score, with ties by descending id, and writes scores with all digits, so that reading restores the
# same bits.

TrecRun = dict[str, dict[str, float]]
"""Query -> document -> score, the format of pytrec_eval and similar libraries."""

RUN_LINE = "query Q0 document rank score tag"
QRELS_LINE = "query 0 document label"
_LARGEST_LABEL = 2**31  # trec_eval stores labels in 32 bits
RUN_COLUMNS, QRELS_COLUMNS = len(RUN_LINE.split()), len(QRELS_LINE.split())


def read_trec_run(path: str | Path) -> TrecRun:
    """Reads a TREC run, plain or compressed (gz, bz2, xz, zst).

    RankLib's `-indri` files have the whole comment of a LETOR line in the document column: the document id is
    extracted from it, as from LETOR data.

    Raises:
        DataError: The file cannot be read, a line is not a line of a run, or a document occurs twice in a
            query.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "run.trec")
    ...     _ = file.write_text("q1 Q0 a 1 2.5 bm25\\nq1 Q0 b 2 -1 bm25\\n")
    ...     read_trec_run(file)
    {'q1': {'a': 2.5, 'b': -1.0}}
    """
    run: TrecRun = {}
    for number, columns in _lines(Path(path)):
        if len(columns) < RUN_COLUMNS:
            raise DataError(f"{path}:{number}: {_columns(columns)} Write a run as '{RUN_LINE}'.")
        query, *_ = columns
        middle, score = columns[2:-3], parse_score(columns[-2])
        document = _text(middle[0]) if len(middle) == 1 else document_id(b" ".join(middle))
        documents = run.setdefault(_text(query), {})
        if score is None:
            raise DataError(
                f"{path}:{number}: the score is {quote(columns[-2])}, which is not a number. Write a run as "
                f"'{RUN_LINE}'."
            )
        if document in documents:
            raise DataError(
                f"{path}:{number}: document {document!r} occurs twice in query {_text(query)!r}. Keep one "
                "line with its score."
            )
        documents[document] = score
    return run


def read_qrels(path: str | Path) -> Judgments:
    """Reads TREC qrels, plain or compressed (gz, bz2, xz, zst), and groups the documents by query.

    Raises:
        DataError: The file cannot be read or is empty, a line is not a line of qrels, a label is not a whole
            number of 0 or more, or a document is judged twice in a query.
    """
    queries, documents, labels, places = [], [], [], []
    judged: set[tuple[str, str]] = set()
    for number, columns in _lines(Path(path)):
        where = f"{path}:{number}"
        if len(columns) != QRELS_COLUMNS:
            raise DataError(f"{where}: {_columns(columns)} Write qrels as '{QRELS_LINE}'.")
        query, document = _text(columns[0]), _text(columns[2])
        if (query, document) in judged:
            raise DataError(
                f"{where}: document {document!r} is judged twice in query {query!r}. Keep one of the lines."
            )
        judged.add((query, document))
        queries.append(query)
        documents.append(document)
        labels.append(_label(columns[3], where))
        places.append(where)
    if not queries:
        raise DataError(f"{path}: the file is empty. Write qrels as '{QRELS_LINE}', one line per document.")
    gathered = gather(queries, sort_queries=True, place=places.__getitem__)
    return Judgments(
        labels=gathered.take(np.array(labels)),
        query_start=gathered.query_start,
        query_ids=gathered.query_ids,
        document_ids=gathered.take(np.array(documents)),
    )


def trec_run_lines(judgments: Judgments, scores: Scores, names: NDArray[np.str_], tag: str) -> Iterator[str]:
    """Yields the lines of a run: queries in the order of the data, documents by descending score.

    Args:
        scores: (D,).
        names: (D,), document names; see `document_names`.
        tag: name of the system; blanks are replaced by '_'.

    Raises:
        DataError: A query id contains a blank.

    >>> judgments = Judgments(labels=[0, 2, 1], query_start=[0, 3])
    >>> scores = np.array([0.5, 0.25, 0.5])
    >>> print(*trec_run_lines(judgments, scores, np.array(["a", "b", "c"]), "bm25"), sep="", end="")
    1 Q0 c 1 0.5 bm25
    1 Q0 a 2 0.5 bm25
    1 Q0 b 3 0.25 bm25
    """
    words = _query_words(judgments)
    tag = "_".join(tag.split()) or "-"
    # lexsort sorts in ascending order, so the numbers of the names are negated for descending ids.
    _, number_of_name = np.unique(names, return_inverse=True)
    order = np.lexsort((-number_of_name, -scores.astype(np.float64), judgments.query_of_document))
    # The text of a Python float restores the same bits, also if the score is a float32.
    texts = [repr(score) for score in scores[order].tolist()]
    places = zip(
        judgments.query_of_document[order].tolist(),
        names[order].tolist(),
        judgments.ranks_of_rows,
        texts,
        strict=True,
    )
    for query, document, rank, text in places:
        yield f"{words[query]} Q0 {document} {rank + 1} {text} {tag}\n"


def qrels_lines(judgments: Judgments, names: NDArray[np.str_]) -> Iterator[str]:
    """Yields the lines of qrels, in the order of the data.

    Args:
        names: (D,), document names; see `document_names`.

    Raises:
        DataError: A label is fractional or too large, or a query id contains a blank.
    """
    if not judgments.has_whole_labels:
        row = int((judgments.labels != np.floor(judgments.labels)).argmax())
        raise DataError(
            f"labels[{row}] is {judgments.labels[row]:g}; labels in qrels must be whole numbers, because "
            "trec_eval ignores fractions. Map the labels to 0, 1, 2, ..."
        )
    large = int(judgments.labels.argmax())
    if judgments.labels[large] >= _LARGEST_LABEL:
        raise DataError(
            f"labels[{large}] is {judgments.labels[large]:g}; labels in qrels must be below 2^31, the limit "
            "of trec_eval. Map the labels to 0, 1, 2, ..."
        )
    words = _query_words(judgments)
    labels = judgments.labels.astype(np.int64).tolist()
    for query, document, label in zip(
        judgments.query_of_document.tolist(), names.tolist(), labels, strict=True
    ):
        yield f"{words[query]} 0 {document} {label}\n"


def document_names(
    judgments: Judgments, file_rows: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.str_], str]:
    """Returns the (D,) document names for TREC files: the ids, or else row numbers of the source, from 1.

    Row numbers follow the order of the split's files, so that they are the same in every run on these data.

    Args:
        file_rows: (D,), row of each document in its source, from 0; None: same order as the source.

    Returns:
        The names, and the reason why they are row numbers; an empty string if they are ids.

    >>> document_names(Judgments(labels=[0, 1], query_start=[0, 2], document_ids=["a", "a"]))
    (array(['1', '2'], dtype='<U21'), "document 'a' occurs twice in query '1'")
    """
    reason = _why_no_ids(judgments)
    if not reason and judgments.document_ids is not None:
        return judgments.document_ids, ""
    rows = np.arange(judgments.num_documents) if file_rows is None else file_rows
    return (rows + 1).astype(np.str_), reason


def _why_no_ids(judgments: Judgments) -> str:
    if judgments.document_ids is None:
        return "the data has no document ids"
    ids = judgments.document_ids.tolist()
    bad = next((document for document in ids if len(document.split()) != 1), None)
    if bad is not None:
        return f"document id {bad!r} is not one word"
    distinct, numbers = np.unique(judgments.document_ids, return_inverse=True)
    keys, first = np.unique(judgments.query_of_document * len(distinct) + numbers, return_index=True)
    if len(keys) == len(ids):
        return ""
    row = int(np.setdiff1d(np.arange(len(ids)), first)[0])
    query = judgments.query_ids[judgments.query_of_document[row]]
    return f"document {ids[row]!r} occurs twice in query {str(query)!r}"


def _query_words(judgments: Judgments) -> list[str]:
    """Returns the (Q,) query ids, each of which must be one word."""
    words = [str(query) for query in judgments.query_ids.tolist()]
    bad = next((word for word in words if len(word.split()) != 1), None)
    if bad is not None:
        raise DataError(
            f"query_ids: {bad!r} cannot be written in a TREC file, whose columns are separated by blanks. "
            "Rename the query to one word."
        )
    return words


def _lines(path: Path) -> Iterator[tuple[int, list[bytes]]]:
    """Yields the line number and the columns of each non-empty line."""
    for text, first_line in read_blocks(path):
        for number, line in enumerate(text.split(b"\n"), first_line):
            columns = line.split()
            if columns:
                yield number, columns


def _label(token: bytes, where: str) -> int:
    if not token.isdigit():
        raise DataError(
            f"{where}: the label is {quote(token)}; it must be a whole number of 0 or more. If negative "
            "labels mean not relevant, replace them by 0; if they mean not judged, remove the lines."
        )
    return int(token)


def _columns(columns: list[bytes]) -> str:
    return f"the line {quote(b' '.join(columns))} has {len(columns)} columns."


def _text(token: bytes) -> str:
    return token.decode(errors="backslashreplace")


# ---- RankLib's files: document scores (`-score`) and metric values per query (`-idv`).
#
#     -score    query TAB index TAB score        index of the document in its query, from 0
#     -idv      NDCG@10   query   value          one line per query; the last line, `all`, has the mean
#
# (RankLib 2.x, ciir/umass/edu/eval/Evaluator.java, score and savePerRankListPerformanceFile.)

SCORE_LINE = "query index score"
SCORE_COLUMNS = len(SCORE_LINE.split())

# RankLib's names of its metrics; other metrics keep the name of this package.
_METRICS = {"ndcg": "NDCG", "dcg": "DCG", "map": "MAP", "mrr": "RR", "precision": "P", "err": "ERR"}


def parse_ranklib_scores(text: bytes, name: str) -> dict[str, list[float]]:
    """Returns query -> scores of its documents, in the order of the data rows.

    RankLib treats non-consecutive rows of a query as two lists, each numbered from 0: this function joins
    them to one query.

    Args:
        text: content of a `-score` file.
        name: name of the file in messages.

    Raises:
        DataError: A line is not `query index score`, or an index does not follow the previous one.

    >>> parse_ranklib_scores(b"q1\\t0\\t0.5\\nq1\\t1\\t-2\\nq2\\t0\\t1e-3\\n", "scores.txt")
    {'q1': [0.5, -2.0], 'q2': [0.001]}
    """
    scores: dict[str, list[float]] = {}
    last_query, last_index = b"", -1
    for number, line in enumerate(text.split(b"\n"), 1):
        columns = line.split()
        if not columns:
            continue
        score = parse_score(columns[-1])
        if len(columns) != SCORE_COLUMNS or not columns[1].isdigit() or score is None:
            raise DataError(
                f"{name}:{number}: the line is {quote(line)}; expected a line of RankLib's -score output, "
                f"'{SCORE_LINE}', with an index from 0. Check the file, or run RankLib again."
            )
        query, index = columns[0], int(columns[1])
        if index != 0 and (query, index) != (last_query, last_index + 1):
            raise DataError(
                f"{name}:{number}: index {index} of query {quote(query)} does not follow the previous line; "
                "RankLib writes indices in order, from 0. Lines are missing or reordered: run RankLib again."
            )
        scores.setdefault(query.decode(errors="backslashreplace"), []).append(score)
        last_query, last_index = query, index
    return scores


def idv_lines(metric: str, values: Iterable[tuple[str, float]], mean: float) -> Iterator[str]:
    """Yields the lines of a file in the format of `-idv`.

    Args:
        metric: name of the metric, such as ndcg@10.
        values: (query, value) of each query.
        mean: mean over the queries.

    >>> print(*idv_lines("ndcg@10", [("q1", 0.5), ("q2", 1.0)], 0.75), sep="", end="")
    NDCG@10   q1   0.5
    NDCG@10   q2   1.0
    NDCG@10   all   0.75
    """
    word, at, cutoff = metric.partition("@")
    name = f"{_METRICS.get(word, word)}{at}{cutoff}"
    for query, value in [*values, ("all", mean)]:
        yield f"{name}   {query}   {value!r}\n"


@dataclass(frozen=True, eq=False)
class Matched:
    """Scores of a split's documents, (D,), and notes on their interpretation."""

    scores: Scores
    notes: tuple[str, ...] = ()


class ScoreFile(Protocol):
    """Parsed score file.

    Attributes:
        queries: query ids in the file, possibly more than in a split; empty if the format has none.
    """

    @property
    def queries(self) -> Collection[str]: ...

    def match(self, judgments: Judgments, file_rows: NDArray[np.int64] | None, split: str) -> Matched:
        """Returns the scores of the documents.

        Args:
            file_rows: (D,), row of each document in its source, from 0; None: same order as the source.
            split: name of the documents in messages, such as "test of fold 1".

        Raises:
            DataError: The file does not have scores for these documents.
        """
        ...


def read_score_file(path: Path) -> ScoreFile:
    """Reads a score file, plain or compressed (gz, bz2, xz, zst).

    Raises:
        DataError: The file cannot be read, or its format is unknown.
    """
    text = b"".join(block for block, _ in read_blocks(path)).removeprefix(codecs.BOM_UTF8)
    lines = enumerate(text.split(b"\n"), 1)
    number, first = next(((number, line) for number, line in lines if line.strip()), (1, b""))
    columns = first.split()
    if len(columns) == 1:
        return _ScoresOfRows(path, parse_scores(text, str(path)))
    if len(columns) == SCORE_COLUMNS and columns[1].isdigit():
        return _ScoresOfLists(path, parse_ranklib_scores(text, str(path)))
    if len(columns) >= RUN_COLUMNS:
        return _ScoresOfDocuments(path, read_trec_run(path))
    raise DataError(
        f"{path}:{number}: the first line is {quote(first)}, which is not a known format of scores. Write "
        f"one score per line, RankLib's -score '{SCORE_LINE}', or a TREC run '{RUN_LINE}', without a header."
    )


@dataclass(frozen=True, eq=False)
class _ScoresOfRows:
    path: Path
    scores: Scores
    queries = ()

    def match(self, judgments: Judgments, file_rows: NDArray[np.int64] | None, split: str) -> Matched:
        if len(self.scores) != judgments.num_documents:
            raise DataError(
                f"{self.path}: the file has {len(self.scores)} scores, but {split} has "
                f"{judgments.num_documents} documents. Write one score per line, in the order of the data "
                "rows, without a header. If the test set is a part of its file (data.test_share, cv), "
                f"write the query in each line, as in '{SCORE_LINE}' or '{RUN_LINE}'."
            )
        return Matched(self.scores if file_rows is None else self.scores[file_rows])


@dataclass(frozen=True, eq=False)
class _ScoresOfLists:
    path: Path
    scores: dict[str, list[float]]

    @property
    def queries(self) -> Collection[str]:
        return self.scores.keys()

    def match(self, judgments: Judgments, file_rows: NDArray[np.int64] | None, split: str) -> Matched:
        # Grouping by query keeps the order of the rows within a query, so that file_rows is not needed.
        scores: list[float] = []
        for query, size in zip(judgments.query_ids.tolist(), judgments.query_sizes.tolist(), strict=True):
            of_query = self.scores.get(query, [])
            if len(of_query) != size:
                raise DataError(
                    f"{self.path}: the file has {len(of_query)} scores of query {query!r}, which has {size} "
                    f"documents in {split}. Score the same data with RankLib's -rank FILE -score FILE."
                )
            scores.extend(of_query)
        return Matched(np.array(scores))


@dataclass(frozen=True, eq=False)
class _ScoresOfDocuments:
    path: Path
    run: TrecRun

    @property
    def queries(self) -> Collection[str]:
        return self.run.keys()

    def match(self, judgments: Judgments, file_rows: NDArray[np.int64] | None, split: str) -> Matched:
        names, _ = document_names(judgments, file_rows)
        retrieved = [self.run.get(query, {}) for query in judgments.query_ids.tolist()]
        known = [
            retrieved[query].get(document)
            for query, document in zip(judgments.query_of_document.tolist(), names.tolist(), strict=True)
        ]
        missing = known.count(None)
        if missing == judgments.num_documents:
            raise DataError(self._stranger(judgments, names, split))
        # Documents that were not retrieved rank below all others, whatever the scores.
        scores = np.array([-np.inf if score is None else score for score in known])
        notes = []
        if missing:
            empty = sum(not documents for documents in retrieved)
            notes.append(
                f"{missing} of {judgments.num_documents} documents of {split} were not retrieved and are "
                f"ranked last, tied; {empty} of {judgments.num_queries} queries have no retrieved document."
            )
        total = sum(map(len, retrieved))
        unjudged = total + missing - judgments.num_documents
        if unjudged:
            notes.append(f"{unjudged} of {total} retrieved documents are not in {split} and were ignored.")
        return Matched(scores, tuple(notes))

    def _stranger(self, judgments: Judgments, names: NDArray[np.str_], split: str) -> str:
        query, documents = next(iter(self.run.items()))
        return (
            f"{self.path}: the file contains no document of {split}. Its first document is "
            f"{next(iter(documents))!r} of query {query!r}; the first document of {split} is "
            f"{str(names[0])!r} of query {str(judgments.query_ids[0])!r}. Use the ids that `export RUN "
            "--format qrels` writes."
        )
