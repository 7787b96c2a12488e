"""Reads tables as one frame each: the simple implementation that reading by blocks must agree with."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data import tables as package
from ltrbench.data.blocks import check_some_weight, gather, read_blocks
from ltrbench.data.letor_lines import LONGEST_ID
from ltrbench.data.table_files import (
    _REMEDY,
    SplitColumns,
    _remedy,
    not_a_number,
    number_of_text,
    split_columns,
)
from ltrbench.data.tables import FrameTable
from ltrbench.errors import DataError


class WholeTable(FrameTable):
    """All rows of a table; see FrameTable."""

    def texts(self, column: str) -> list[str]:
        texts = [text for piece in self._pieces(column) for text in piece]
        longest = max(map(len, texts))
        if longest > LONGEST_ID:
            row = [len(text) for text in texts].index(longest)
            raise DataError(
                f"{self.place(row)}: column '{column}' has an id of {longest} characters; the maximum is "
                f"{LONGEST_ID}. Use a shorter id, or check which column contains the ids."
            )
        return texts

    def ids(self, column: str) -> NDArray[np.str_]:
        return np.array(self.texts(column))


class WholeCsv(WholeTable):
    """All rows of a CSV file as text, read by Python's csv module."""

    lines: list[int]

    def place(self, row: int) -> str:
        return f"{self.name}:{self.lines[row]}"

    def numbers(self, column: str, remedy: str) -> NDArray[np.float64]:
        numbers = np.empty(self.num_rows)
        for row, cell in enumerate(self.frame[column]):
            try:
                numbers[row] = number_of_text(cell)
            except ValueError:
                raise not_a_number(self.place(row), column, cell, remedy) from None
        return numbers


def read_csv(path: Path) -> WholeCsv:
    text = b"".join(text for text, _ in read_blocks(path)).decode()
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[tuple[int, list[str]]] = []
    end = 0
    try:
        for row in reader:
            if row and rows and len(row) != len(rows[0][1]):
                raise DataError(
                    f"{path}:{end + 1}: the row has {len(row)} cells, but the header has {len(rows[0][1])} "
                    f"columns. {_remedy(row, rows[0][1])}"
                )
            rows += [(end + 1, row)] if row else []
            end = reader.line_num
    except csv.Error as error:
        raise DataError(
            f"{path}:{end + 1}: the row that starts on this line cannot be parsed ({error}). Close every "
            "quote, and double a quote inside a quoted cell."
        ) from None
    frame = pd.DataFrame([row for _, row in rows[1:]], columns=rows[0][1], dtype=object)
    table = WholeCsv(str(path), frame)
    object.__setattr__(table, "lines", [line for line, _ in rows[1:]])
    return table


def read_parquet(path: Path) -> WholeTable:
    frame = pyarrow.parquet.read_table(path).replace_schema_metadata(None).to_pandas(ignore_metadata=True)
    return WholeTable(str(path), frame)


def read_in_one_frame(
    paths: Sequence[Path], roles: Mapping[str, str | None], *, sort_queries: bool, whole_labels: bool
) -> tuple[RankingDataset, SplitColumns]:
    tables = [read_parquet(path) if path.suffix == ".parquet" else read_csv(path) for path in paths]
    columns = package._find_columns(tables[0], roles, ())
    chosen = package._find_features(tables[0], columns, None, None, None)
    places = [partial(table.place, row) for table in tables for row in range(table.num_rows)]

    def of_role(role: str, read: Any) -> NDArray[Any] | None:
        if role not in columns:
            return None
        return gathered.take(np.concatenate([read(table, columns[role]) for table in tables]))

    queries = [query for table in tables for query in package._queries(table, columns["query"])]
    gathered = gather(queries, sort_queries, lambda row: places[row]())
    weights = of_role("weight", package._weights)
    if weights is not None:
        check_some_weight(weights, gathered, lambda row: places[row]())
    parts: dict[str, Any] = {
        "labels": of_role("label", partial(package._labels, whole_labels=whole_labels)),
        "document_ids": of_role("document", WholeTable.ids),
        "document_weights": weights,
        "positions": of_role("position", package._positions),
        "features": gathered.take(np.concatenate([features_of(table, chosen) for table in tables])),
    }
    dataset = RankingDataset(
        query_start=gathered.query_start,
        query_ids=gathered.query_ids,
        file_rows=gathered.file_rows,
        feature_names=tuple(chosen),
        **parts,
    )
    return dataset, split_columns(tables, columns)


def features_of(table: WholeTable, chosen: Sequence[str]) -> NDArray[np.float32]:
    features = np.empty((table.num_rows, len(chosen)), dtype=np.float32)
    for number, column in enumerate(chosen):
        values = table.numbers(column, _REMEDY)
        with np.errstate(over="ignore", invalid="ignore"):
            features[:, number] = values
        infinite = np.flatnonzero(np.isinf(features[:, number]))
        if infinite.size:
            raise DataError(
                f"{table.place(int(infinite[0]))}: column '{column}' is {values[infinite[0]]}; features must "
                "be finite in float32. Rescale the feature, and leave missing values empty."
            )
    return features
