"""Reads score files of any system, with the format detected from the content, and matches them to a split.

    one score per line   in the order of the data rows
    RankLib's -score     query index score: by query, in the order of its rows
    TREC run             query Q0 document rank score tag: by query and document

To support another format, write a class like `ScoreFile` and add a line to `read_score_file`.
"""

from __future__ import annotations

import codecs
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.dataset import Judgments
from ltrbench.data.formats.compression import read_blocks
from ltrbench.data.formats.letor.line import quote
from ltrbench.data.formats.ranklib import SCORE_COLUMNS, SCORE_LINE, parse_ranklib_scores
from ltrbench.data.formats.scores import parse_scores
from ltrbench.data.formats.trec import RUN_COLUMNS, RUN_LINE, TrecRun, document_names, read_trec_run
from ltrbench.errors import DataError
from ltrbench.shapes import Scores


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
                "rows, without a header."
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
