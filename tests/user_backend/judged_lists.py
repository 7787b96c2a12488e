"""Judged lists, as lines of JSON: {"query": ..., "judged": [{"features": [...], "grade": ...}, ...]}."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ltrbench.data import RankingDataset, Splits
from ltrbench.data.sources import SplitSource
from ltrbench.errors import DataError


@dataclass(kw_only=True)
class JudgedLists(SplitSource):
    """A file of JSON lines, one per query.

    Args:
        path: path of the file.
        highest: highest label; a document with a higher grade gets this label.
    """

    path: str
    highest: int = 3

    def load(self) -> Splits:
        lines = [json.loads(line) for line in Path(self.path).read_text().splitlines()]
        if not lines:
            raise DataError(f"{self.path} is empty; pass at least two queries.")
        judged = [document for line in lines for document in line["judged"]]
        sizes = [len(line["judged"]) for line in lines]
        grades = np.array([document["grade"] for document in judged])
        dataset = RankingDataset(
            features=np.array(
                [document["features"] for document in judged], np.float32
            ),
            labels=np.minimum(grades, self.highest),
            query_start=np.concatenate([[0], np.cumsum(sizes)]),
            query_ids=np.array([line["query"] for line in lines]),
        )
        return self.complete(dataset)
