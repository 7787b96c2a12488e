"""Files of scores of any system, told by their content, and matched to the documents of a split.

    one score a line     in the order of the data's rows
    RankLib's -score     query index score: by query, in the order of its rows
    a TREC run           query Q0 document rank score tag: by query and document

A fourth is a class with `read` and `match`, and a line in `_kind`.
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
    """The scores of a split's documents, (D,), and what a reader of their figures must know."""

    scores: Scores
    notes: tuple[str, ...] = ()


class ScoreFile(Protocol):
    """A file of scores that was read.

    Attributes:
        queries: that its lines name, of which there may be more than a split has; none where they name none.
    """

    @property
    def queries(self) -> Collection[str]: ...

    def match(self, judgments: Judgments, file_rows: NDArray[np.int64] | None, split: str) -> Matched:
        """The scores of these documents.

        Args:
            file_rows: (D,), the row of each document in what was read, from 0; None: as they stand.
            split: what messages call the documents, such as "test of fold 1".

        Raises:
            DataError: where the file does not score them.
        """
        ...


def read_score_file(path: Path) -> ScoreFile:
    """Reads a file of scores, plain or compressed (gz, bz2, xz, zst).

    Raises:
        DataError: where it cannot be read, or is of no known kind.
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
        f"{path}:{number}: {quote(first)} is the beginning of no file of scores. Known are one score a line, "
        f"RankLib's -score '{SCORE_LINE}', and a TREC run '{RUN_LINE}', without a header."
    )


@dataclass(frozen=True, eq=False)
class _ScoresOfRows:
    path: Path
    scores: Scores
    queries = ()

    def match(self, judgments: Judgments, file_rows: NDArray[np.int64] | None, split: str) -> Matched:
        if len(self.scores) != judgments.num_documents:
            raise DataError(
                f"{self.path}: holds {len(self.scores)} scores, but {split} has {judgments.num_documents} "
                "documents. Give a line a document, in the order of the data's rows, and no header."
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
        # The rows of a query keep their order where a reader brings them together, so that file_rows says
        # nothing more.
        scores: list[float] = []
        for query, size in zip(judgments.query_ids.tolist(), judgments.query_sizes.tolist(), strict=True):
            of_query = self.scores.get(query, [])
            if len(of_query) != size:
                raise DataError(
                    f"{self.path}: holds {len(of_query)} scores of query {query!r}, which has {size} "
                    f"documents in {split}. Score the same file with RankLib's -rank FILE -score FILE."
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
        # What was not retrieved ranks behind all that was, whatever the scores are.
        scores = np.array([-np.inf if score is None else score for score in known])
        notes = []
        if missing:
            empty = sum(not documents for documents in retrieved)
            notes.append(
                f"{missing} of {judgments.num_documents} documents of {split} were not retrieved, and rank "
                f"last, tied; {empty} of {judgments.num_queries} queries have none that was."
            )
        total = sum(map(len, retrieved))
        unjudged = total + missing - judgments.num_documents
        if unjudged:
            notes.append(f"{unjudged} of {total} retrieved documents are not in {split} and were left out.")
        return Matched(scores, tuple(notes))

    def _stranger(self, judgments: Judgments, names: NDArray[np.str_], split: str) -> str:
        query, documents = next(iter(self.run.items()))
        return (
            f"{self.path}: names no document of {split}. It begins with document "
            f"{next(iter(documents))!r} of query {query!r}, {split} with {str(names[0])!r} of "
            f"{str(judgments.query_ids[0])!r}. Write the ids that `export RUN --format qrels` gives."
        )
