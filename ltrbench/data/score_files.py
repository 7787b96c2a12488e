"""Scores and judgments in files: plain, TREC and RankLib.

Reads score files of any system, with the format detected from the first line, and matches them to a split.

    one score per line   in the order of the data rows
    RankLib's -score     query index score: by query, in the order of its rows
    TREC run             query Q0 document rank score tag: by query and document
    CSV, Parquet         columns query_id, document_id and score: by query and document; the ids may also
                         have the names of the columns of the run

To support another format, write a subclass of `ScoreFile` and add a line to `read_score_file`.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.blocks import gather, read_blocks, without_compression_ending
from ltrbench.data.dataset import ROLES, Judgments, Unjudged
from ltrbench.data.impressions import QUERY_TEXT
from ltrbench.data.letor import document_id
from ltrbench.data.tables import is_parquet, read_texts
from ltrbench.errors import DataError
from ltrbench.shapes import Indices, Scores, Values

RUN_LINE = "query Q0 document rank score tag"
QRELS_LINE = "query 0 document label"
SCORE_LINE = "query index score"
RUN_COLUMNS, QRELS_COLUMNS, SCORE_COLUMNS = (
    len(line.split()) for line in (RUN_LINE, QRELS_LINE, SCORE_LINE)
)
_COLUMNS = (RUN_COLUMNS, QRELS_COLUMNS, SCORE_COLUMNS)

_STANDARD_INPUT = "-"

_Rows = Iterable[tuple[str, list[str]]]
"""Location and columns of each line that is not empty."""


def _rows(path: str | Path) -> Iterator[tuple[str, list[str]]]:
    """Yields the location and the columns of each line that is not empty, of a plain or compressed file."""
    is_standard = str(path) == _STANDARD_INPUT
    name = "standard input" if is_standard else str(path)
    blocks = read_blocks(Path(path))
    if is_standard:
        blocks = iter([(sys.stdin.buffer.read(), 1)])
    for text, first_line in blocks:
        for number, line in enumerate(text.split(b"\n"), first_line):
            columns = _columns_of(line)
            if columns:
                yield f"{name}:{number}", columns


def _columns_of(line: bytes) -> list[str]:
    # Bytes, because a text would be divided at a no-break space in an id, too.
    columns = line.split()
    # Between tabs a query may have blanks.
    by_tabs = [column.strip() for column in line.strip().split(b"\t")]
    if columns and len(by_tabs) in _COLUMNS:
        columns = by_tabs
    return [column.decode(errors="backslashreplace") for column in columns]


def _score(text: str, location: str, expected: str) -> float:
    """Returns the score in a text, which may be infinite but not NaN."""
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if math.isnan(score):
        raise DataError(
            f"{location}: the score is {text[:40]!r}, which is not a number; expected {expected}. For a "
            "document without a score, write a value below all other scores."
        )
    return score


def _format_error(location: str, columns: list[str], expected: str) -> DataError:
    line = " ".join(columns)[:60]
    return DataError(
        f"{location}: {line!r} has {len(columns)} columns; write {expected}."
    )


# ---- One score per line, in the order of the data rows.

_ONE_SCORE = "one score per line, in the order of the data rows, without a header"


def read_scores(path: str | Path, num_documents: int) -> Values:
    """Reads a score file with one number per line; higher scores rank earlier.

    Args:
        path: the file, plain or compressed (gz, bz2, xz, zst); "-" is standard input, uncompressed.
        num_documents: D, required number of scores.

    Returns:
        (D,) the scores. Infinite scores are valid: they rank first or last.

    Raises:
        DataError: The file cannot be read, a line is not one number, or the number of scores is not D.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "scores.txt")
    ...     _ = file.write_text("0.5\\n-1e-3\\n2\\n")
    ...     read_scores(file, 3).tolist()
    [0.5, -0.001, 2.0]
    """
    scores = _scores_of_lines(_rows(path))
    if len(scores) != num_documents:
        raise DataError(
            f"{path}: {len(scores)} scores for {num_documents} documents; expected {_ONE_SCORE}."
        )
    return scores


def _scores_of_lines(rows: _Rows) -> Values:
    scores = []
    for location, columns in rows:
        if len(columns) != 1:
            raise _format_error(location, columns, _ONE_SCORE)
        scores.append(_score(columns[0], location, _ONE_SCORE))
    return np.array(scores, dtype=np.float64)


# ---- TREC files: runs (the scores of a system) and qrels (relevance judgments).
#
# trec_eval ranks by the score, rounded to float32, and tied documents by descending id; it ignores the rank
# column and the order of the lines. This module therefore reads only the score. It writes ranks by the
# exact score, with ties by descending id, and writes scores with all digits, so that reading restores the
# same bits.

TrecRun = dict[str, dict[str, float]]
"""Query -> document -> score, the format of pytrec_eval and similar libraries."""


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
    return _run_of_lines(_rows(path))


_TABLE = {
    "query_id": (*ROLES["query"], "query"),
    "document_id": (*ROLES["document"], "document"),
    "score": ("score",),
}
"""Column of a table of scores -> its possible names."""


def _rows_of_table(
    path: Path, columns: Mapping[str, str]
) -> Iterator[tuple[str, list[str]]]:
    """Yields the rows of a table of scores as the columns of a TREC run.

    Args:
        columns: key of `_TABLE` -> name before its other names.
    """
    names = dict(_TABLE)
    for use, name in columns.items():
        names[use] = (name, *_TABLE[use])
    of_table = zip(*read_texts(path, names, "score"), strict=True)
    for row, (query, document, score) in enumerate(of_table, 1):
        of_run = [str(query), "Q0", str(document), "0", str(score), "table"]
        yield f"{path}: row {row}", of_run


def _name_of(words: Sequence[str]) -> str:
    """Returns the document id in several words of a line of a run."""
    return document_id(" ".join(words).encode()).decode()


def _run_of_lines(rows: _Rows, expected: str = f"a run, '{RUN_LINE}'") -> TrecRun:
    run: TrecRun = {}
    for location, columns in rows:
        if len(columns) < RUN_COLUMNS:
            raise _format_error(location, columns, expected)
        query = columns[0]
        middle = columns[2:-3]
        document = middle[0] if len(middle) == 1 else _name_of(middle)
        documents = run.setdefault(query, {})
        if document in documents:
            raise DataError(
                f"{location}: document {document!r} is twice in query {query!r}. Keep one line."
            )
        documents[document] = _score(columns[-2], location, expected)
    return run


def read_qrels(path: str | Path) -> Judgments:
    """Reads TREC qrels, plain or compressed (gz, bz2, xz, zst), and groups the documents by query.

    Raises:
        DataError: The file cannot be read or is empty, a line is not a line of qrels, a label is not a whole
            number of 0 or more, or a document is judged twice in a query.
    """
    queries = []
    documents = []
    labels = []
    judged: set[tuple[str, str]] = set()
    for location, columns in _rows(path):
        if len(columns) != QRELS_COLUMNS:
            raise _format_error(location, columns, f"qrels, '{QRELS_LINE}'")
        query, _, document, label = columns
        if (query, document) in judged:
            raise DataError(
                f"{location}: document {document!r} is twice in query {query!r}. Keep one line."
            )
        if not label.isdecimal():
            raise DataError(
                f"{location}: the label is {label!r}; write 0 or more (0: not relevant), or "
                "remove the lines if they are not judged."
            )
        judged.add((query, document))
        queries.append(query)
        documents.append(document)
        labels.append(int(label))
    if not queries:
        raise DataError(
            f"{path}: the file is empty. Write qrels as '{QRELS_LINE}', one line per document."
        )
    gathered = gather(queries, sort_queries=True, location=str)
    return Judgments(
        labels=gathered.take(np.array(labels)),
        query_start=gathered.query_start,
        query_ids=gathered.query_ids,
        document_ids=gathered.take(np.array(documents)),
    )


def trec_run_lines(
    judgments: Judgments, scores: Scores, names: NDArray[np.str_], tag: str
) -> Iterator[str]:
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
    words = _words(judgments.query_ids.tolist())
    tag = "_".join(tag.split()) or "-"
    # lexsort sorts in ascending order, so the numbers of the names are negated for descending ids.
    _, number_of_name = np.unique(names, return_inverse=True)
    keys = (-number_of_name, -scores.astype(np.float64), judgments.query_of_document)
    order = np.lexsort(keys)
    # The text of a Python float restores the same bits, also if the score is a float32.
    texts = [repr(score) for score in scores[order].tolist()]
    queries = judgments.query_of_document[order].tolist()
    ranks = judgments.ranks_of_rows
    documents = names[order].tolist()
    for query, document, rank, text in zip(
        queries, documents, ranks, texts, strict=True
    ):
        word = words[query]
        yield f"{word} Q0 {document} {rank + 1} {text} {tag}\n"


def qrels_lines(judgments: Judgments, names: NDArray[np.str_]) -> Iterator[str]:
    """Yields the lines of qrels, in the order of the data.

    Args:
        names: (D,), document names; see `document_names`.

    Raises:
        DataError: A label is fractional, or a query id contains a blank.
    """
    if not judgments.has_whole_labels:
        is_whole = judgments.labels == np.floor(judgments.labels)
        row = int(np.argmin(is_whole))
        raise DataError(
            f"labels[{row}] is {judgments.labels[row]:g}; map the labels to whole numbers, as qrels need."
        )
    words = _words(judgments.query_ids.tolist())
    queries = judgments.query_of_document.tolist()
    labels = judgments.labels.astype(np.int64).tolist()
    for query, document, label in zip(queries, names.tolist(), labels, strict=True):
        yield f"{words[query]} 0 {document} {label}\n"


def document_names(
    judgments: Judgments, file_rows: Indices | None = None
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
    reason = "the data has no document ids"
    reason = "the data has no document ids"
    if judgments.document_ids is not None:
        ids: list[str] = judgments.document_ids.tolist()
        counts = Counter(zip(judgments.query_of_document.tolist(), ids, strict=True))
        odd = [name for name in ids if len(name.split()) != 1]
        (query, name), number = counts.most_common(1)[0]
        if not odd and number == 1:
            return judgments.document_ids, ""
        query_id = str(judgments.query_ids[query])
        reason = f"document {name!r} occurs twice in query {query_id!r}"
        if odd:
            reason = f"document id {odd[0]!r} is not one word"
    rows = file_rows
    if rows is None:
        rows = np.arange(judgments.num_documents)
    return (rows + 1).astype(np.str_), reason


def _words(query_ids: list[str]) -> list[str]:
    """Returns the query ids, each of which must be one word."""
    for word in query_ids:
        if len(word.split()) != 1:
            raise DataError(
                f"query_ids: {word!r} is not one word. Use --format csv, or rename the query."
            )
    return query_ids


# ---- RankLib's files: document scores (`-score`) and metric values per query (`-idv`).
#
#     -score    query TAB index TAB score        index of the document in its query, from 0
#     -idv      NDCG@10   query   value          one line per query; the last line, `all`, has the mean
#
# (RankLib 2.x, ciir/umass/edu/eval/Evaluator.java, score and savePerRankListPerformanceFile.)

# RankLib's names of its metrics; other metrics keep the name of this package.
_METRICS = {
    "ndcg": "NDCG",
    "dcg": "DCG",
    "map": "MAP",
    "mrr": "RR",
    "precision": "P",
    "err": "ERR",
}


def _scores_of_lists(rows: _Rows) -> dict[str, list[float]]:
    """Returns query -> scores of its documents, in the order of the data rows.

    RankLib treats non-consecutive rows of a query as two lists, each numbered from 0: this function joins
    them to one query.
    """
    expected = f"RankLib's -score output, '{SCORE_LINE}', with the indices of a query in order, from 0"
    scores: dict[str, list[float]] = {}
    last = ("", -1)
    for location, columns in rows:
        if len(columns) != SCORE_COLUMNS or not columns[1].isdecimal():
            raise _format_error(location, columns, expected)
        query = columns[0]
        index = int(columns[1])
        if index != 0 and (query, index - 1) != last:
            raise _format_error(location, columns, expected)
        score = _score(columns[2], location, expected)
        scores.setdefault(query, []).append(score)
        last = (query, index)
    return scores


def idv_lines(
    metric: str, values: Iterable[tuple[str, float]], mean: float
) -> Iterator[str]:
    """Yields the lines of a file in the format of `-idv`.

    Args:
        metric: name of the metric, such as ndcg@10.
        values: (query, value) of each query.
        mean: mean over the queries.

    Raises:
        DataError: A query id contains a blank.

    >>> print(*idv_lines("ndcg@10", [("q1", 0.5), ("q2", 1.0)], 0.75), sep="", end="")
    NDCG@10   q1   0.5
    NDCG@10   q2   1.0
    NDCG@10   all   0.75
    """
    word, at, cutoff = metric.partition("@")
    name = f"{_METRICS.get(word, word)}{at}{cutoff}"
    rows = [*values, ("all", mean)]
    _words([query for query, _ in rows])
    for query, value in rows:
        yield f"{name}   {query}   {value!r}\n"


# ---- Score files of any of these formats.


@dataclass(frozen=True, eq=False)
class Matched:
    """Scores of a split's documents, (D,), NaN if not retrieved, and notes on their interpretation.

    `unjudged` are the other documents that a TREC run retrieved for queries of the split.
    """

    scores: Scores
    notes: tuple[str, ...] = ()
    unjudged: Unjudged | None = None


@dataclass(frozen=True, eq=False)
class ScoreFile(ABC):
    """Parsed score file.

    Attributes:
        queries: query ids in the file, possibly more than in a split; empty if the format has none.
    """

    path: Path
    queries: Collection[str]

    @abstractmethod
    def match(
        self, judgments: Judgments, file_rows: Indices | None, split: str
    ) -> Matched:
        """Returns the scores of the documents.

        Args:
            file_rows: (D,), row of each document in its source, from 0; None: same order as the source.
            split: name of the documents in messages, such as "test of fold 1".

        Raises:
            DataError: The file does not have scores for these documents.
        """


def read_score_file(path: Path, columns: Mapping[str, str] | None = None) -> ScoreFile:
    """Reads a score file, plain or compressed (gz, bz2, xz, zst).

    Args:
        columns: "query_id" and "document_id" -> the name that their columns have in the data, which a table
            may have, too; None: the usual names only.

    Raises:
        DataError: The file cannot be read, or its format is unknown.
    """
    ending = without_compression_ending(path).suffix.lower()
    rows = _rows(path)
    is_columnar = is_parquet(path)
    if is_columnar:
        rows = iter([(str(path), [","])])
    location, first = next(rows, (f"{path}:1", []))
    if (is_columnar or ending == ".csv") and "," in " ".join(first):
        rows_of_table = _rows_of_table(path, columns or {})
        expected = f"a table with the columns {', '.join(_TABLE)}"
        run = _run_of_lines(rows_of_table, expected)
        return _ScoresOfDocuments(path, run.keys(), run, is_table=True)
    rows = chain([(location, first)], rows)
    if len(first) == 1:
        return _ScoresOfRows(path, (), _scores_of_lines(rows))
    if len(first) == SCORE_COLUMNS and first[1].isdecimal():
        lists = _scores_of_lists(rows)
        return _ScoresOfLists(path, lists.keys(), lists)
    if len(first) >= RUN_COLUMNS:
        run = _run_of_lines(rows)
        return _ScoresOfDocuments(path, run.keys(), run)
    expected = (
        f"one score per line, RankLib's -score '{SCORE_LINE}', or a TREC run '{RUN_LINE}', "
        "without a header"
    )
    raise _format_error(location, first, expected)


def read_scores_of_documents(path: Path) -> TrecRun:
    """Reads query -> document -> score from a table or a TREC run.

    Raises:
        DataError: The file cannot be read, or its format has no ids of documents.
    """
    file = read_score_file(path)
    if isinstance(file, _ScoresOfDocuments):
        return file.run
    columns = ", ".join(_TABLE)
    raise DataError(
        f"{path}: the scores have no ids of documents; write a table with the columns {columns}, or a TREC "
        "run."
    )


@dataclass(frozen=True, eq=False)
class _ScoresOfRows(ScoreFile):
    scores: Scores

    def match(
        self, judgments: Judgments, file_rows: Indices | None, split: str
    ) -> Matched:
        num_documents = judgments.num_documents
        if len(self.scores) != num_documents:
            raise DataError(
                f"{self.path}: {len(self.scores)} scores, but {split} has {num_documents} "
                f"documents; write one score per line, or lines '{SCORE_LINE}' or '{RUN_LINE}'."
            )
        if file_rows is None:
            return Matched(self.scores)
        return Matched(self.scores[file_rows])


@dataclass(frozen=True, eq=False)
class _ScoresOfLists(ScoreFile):
    scores: dict[str, list[float]]

    def match(
        self, judgments: Judgments, file_rows: Indices | None, split: str
    ) -> Matched:
        # Grouping by query keeps the order of the rows within a query, so that file_rows is not needed.
        scores: list[float] = []
        sizes = judgments.query_sizes.tolist()
        for query, size in zip(judgments.query_ids.tolist(), sizes, strict=True):
            of_query = self.scores.get(query, [])
            if len(of_query) != size:
                raise DataError(
                    f"{self.path}: the file has {len(of_query)} scores of query {query!r}, which has {size} "
                    f"documents in {split}. Score the same data with RankLib's -rank FILE -score FILE."
                )
            scores.extend(of_query)
        return Matched(np.array(scores))


_SHOWN = 3  # maximum number of documents in a message


@dataclass(frozen=True, eq=False)
class _ScoresOfDocuments(ScoreFile):
    run: TrecRun
    is_table: bool = False

    def match(
        self, judgments: Judgments, file_rows: Indices | None, split: str
    ) -> Matched:
        ids_of_lists = self._ids_of_lists(judgments)
        retrieved = [self.run.get(query, {}) for query in ids_of_lists]
        names, notes = self._names(judgments, file_rows, retrieved)
        scores = _scores_of_names(judgments, names, retrieved)
        is_missing = np.isnan(scores)
        missing = np.count_nonzero(is_missing)
        if missing and (self.is_table or missing == judgments.num_documents):
            raise self._unknown_documents(judgments, names, is_missing, split)
        notes += _copies_in_words(judgments, names, is_missing, split)
        if missing:
            notes.append(_missing_in_words(judgments, is_missing, split))
        of_queries = dict(zip(ids_of_lists, retrieved, strict=True))
        counted = self.run if self.is_table else of_queries
        total = sum(map(len, counted.values()))
        num_unjudged = total - _num_found(judgments, names, ids_of_lists, of_queries)
        if not num_unjudged:
            return Matched(scores, tuple(notes))
        if self.is_table:
            notes.append(
                f"{num_unjudged} of {total} rows are not in {split} and were ignored."
            )
            return Matched(scores, tuple(notes))
        notes.append(
            f"{num_unjudged} of {total} retrieved documents are not in {split}. Under trec_eval they "
            "have ranks and are not relevant, or are left out with --set judged_only=true (as with "
            "trec_eval -J); other conventions ignore them."
        )
        unjudged = _unjudged(judgments, names, retrieved)
        return Matched(scores, tuple(notes), unjudged)

    def _names(
        self,
        judgments: Judgments,
        file_rows: Indices | None,
        retrieved: list[dict[str, float]],
    ) -> tuple[NDArray[np.str_], list[str]]:
        """Returns the (D,) names of the documents in the file, and notes on them.

        These are the ids. A run may have row numbers instead, as `export` writes them for ids that are
        repeated or not one word.
        """
        names, reason = document_names(judgments, file_rows)
        ids = judgments.document_ids
        if ids is None or not reason:
            return names, []
        of_ids = _scores_of_names(judgments, ids, retrieved)
        of_rows = _scores_of_names(judgments, names, retrieved)
        num_missing = np.isnan(of_ids).sum()
        rows_are_more = np.isnan(of_rows).sum() < num_missing
        if rows_are_more and not self.is_table:
            return names, [f"The documents were matched by row numbers: {reason}."]
        return ids, []

    def _ids_of_lists(self, judgments: Judgments) -> list[str]:
        """Returns the query of each list in the file: its id or, if no id is in the file and lists are
        sessions of a log of clicks, the text of its query."""
        ids: list[str] = judgments.query_ids.tolist()
        texts = judgments.kept.get(QUERY_TEXT)
        if texts is None or judgments.impressions is None:
            return ids
        if any(query in self.run for query in ids):
            return ids
        of_lists: list[str] = texts[judgments.query_start[:-1]].tolist()
        return of_lists

    def _unknown_documents(
        self,
        judgments: Judgments,
        names: NDArray[np.str_],
        is_missing: NDArray[np.bool_],
        split: str,
    ) -> DataError:
        """Returns the error for documents, (D,), that have no score."""
        rows = np.flatnonzero(is_missing)
        shown = []
        for row in rows[:_SHOWN].tolist():
            query_id = str(judgments.query_ids[judgments.query_of_document[row]])
            shown.append(f"{str(names[row])!r} of query {query_id!r}")
        first_query, documents = next(iter(self.run.items()), ("", {"": 0.0}))
        first_document = next(iter(documents))
        return DataError(
            f"{self.path}: {len(rows)} of {judgments.num_documents} documents of {split} have no score: "
            f"{', '.join(shown)}. The first document of the file is {first_document!r} of query "
            f"{first_query!r}. "
            "Use the ids that `export RUN --format csv` or qrels writes; if the data have none, name "
            "their column with data.document. A document that was not retrieved scores below all others."
        )


def _scores_of_names(
    judgments: Judgments,
    names: NDArray[np.str_],
    retrieved: Sequence[Mapping[str, float]],
) -> Scores:
    """Returns the (D,) scores of documents; NaN if they were not retrieved.

    Args:
        names: (D,), names of the documents in the file.
        retrieved: document -> score of each query.
    """
    queries = judgments.query_of_document.tolist()
    pairs = zip(queries, names.tolist(), strict=True)
    known = [retrieved[query].get(name) for query, name in pairs]
    return np.array(known, dtype=np.float64)  # None becomes NaN


def _num_found(
    judgments: Judgments,
    names: NDArray[np.str_],
    ids_of_lists: list[str],
    of_queries: Mapping[str, Mapping[str, float]],
) -> int:
    """Returns the number of retrieved documents that are judged.

    A document counts once, also if its rows are copies or sessions of one query.
    """
    queries = judgments.query_of_document.tolist()
    pairs = zip(queries, names.tolist(), strict=True)
    judged = {(ids_of_lists[query], name) for query, name in pairs}
    return sum(name in of_queries[query] for query, name in judged)


def _copies_in_words(
    judgments: Judgments,
    names: NDArray[np.str_],
    is_missing: NDArray[np.bool_],
    split: str,
) -> list[str]:
    """Returns the note on (D,) documents that repeat a retrieved document of their query."""
    rows = np.flatnonzero(~is_missing)
    queries = judgments.query_of_document[rows].tolist()
    counts = Counter(zip(queries, names[rows].tolist(), strict=True))
    (query, name), largest = counts.most_common(1)[0]
    if largest == 1:
        return []
    query_id = str(judgments.query_ids[query])
    return [
        f"{len(rows) - len(counts)} rows of {split} repeat a document of their query, such as {name!r} of "
        f"query {query_id!r}: each copy has the score of the document."
    ]


def _missing_in_words(
    judgments: Judgments, is_missing: NDArray[np.bool_], split: str
) -> str:
    """Returns the note on (D,) documents that were not retrieved."""
    note = (
        f"{is_missing.sum()} of {judgments.num_documents} documents of {split} were not retrieved, and earn "
        "nothing."
    )
    is_empty = np.logical_and.reduceat(is_missing, judgments.query_start[:-1])
    if is_empty.any():
        note += (
            f" {is_empty.sum()} of {judgments.num_queries} queries have no retrieved document; they count 0, "
            "or are left out with --set unanswered=skip."
        )
    return note


def _unjudged(
    judgments: Judgments, names: NDArray[np.str_], retrieved: list[dict[str, float]]
) -> Unjudged:
    """Returns the retrieved documents that are not in the judgments.

    Args:
        names: (D,), names of the judged documents in the file.
        retrieved: document -> score of each query.
    """
    queries: list[int] = []
    ids: list[str] = []
    scores: list[float] = []
    starts = judgments.query_start.tolist()
    for query, documents in enumerate(retrieved):
        of_query = slice(starts[query], starts[query + 1])
        judged = set(names[of_query].tolist())
        for document, score in documents.items():
            if document not in judged:
                queries.append(query)
                ids.append(document)
                scores.append(score)
    return Unjudged(
        np.array(queries, dtype=np.int64),
        np.array(ids, dtype=np.str_),
        np.array(scores),
    )
