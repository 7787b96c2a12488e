"""Tables with named columns: a pandas DataFrame, CSV (plain or compressed) and Parquet, read and written.

A row is a document. The columns of `ROLES` hold its label, its query and what else is known of it; every
other column is a feature and gives the feature its name. The rows of a query stand next to each other. An
empty cell of a feature is a missing value, NaN. Rows are counted from one, without the header.

Another form of table needs a function that ends in a DataFrame; `read_table` takes that.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.compression import open_unpacked, write_whole
from ltrbench.data.dataset import RankingDataset
from ltrbench.errors import DataError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

# Role -> the names of its column, the one that `to_frame` writes first. Only label and query must be there.
ROLES = {
    "label": ("label", "relevance"),
    "query": ("query_id", "qid"),
    "document": ("document_id", "docid"),
    "weight": ("weight",),
    "position": ("position",),
}


def read_table(
    source: pd.DataFrame | str | Path | Sequence[str | Path],
    num_features: int | None = None,
    *,
    label: str | None = None,
    query: str | None = None,
    document: str | None = None,
    weight: str | None = None,
    position: str | None = None,
    features: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    sort_queries: bool = False,
    whole_labels: bool = False,
) -> RankingDataset:
    """Reads a table into a RankingDataset.

    Args:
        source: a DataFrame, or the path of a file that ends in .parquet or, plain or compressed, in .csv, or
            several paths that are one split; their rows are then counted through.
        num_features: how many features there must be; None: any number.
        label, query, document, weight, position: the column of each role; None: the name in `ROLES` that the
            table has.
        features: the columns that are features, in this order; None: all that have no role. A column listed
            here has no role unless it is given one above.
        feature_names: the features that training has: these and no others must be there, in any order.
        sort_queries: brings the rows of a query together, in the order of each query's first row.
        whole_labels: refuses labels that are not whole numbers.

    Raises:
        DataError: where the file cannot be read, a column is absent or not numeric, or a value cannot be
            used; the message names the file, the row, the column, the value and the remedy.
    """
    frame, name = _load(source, query, document)
    if frame.empty:
        raise DataError(f"{name}: the table has no rows; a data set needs at least one document.")
    given = {"label": label, "query": query, "document": document, "weight": weight, "position": position}
    columns = _find_columns(frame, name, given, features or ())
    chosen = _find_features(frame, name, columns, features, feature_names)
    if num_features is not None and len(chosen) != num_features:
        raise DataError(
            f"{name}: has {len(chosen)} feature columns, {num_features} were expected; "
            "list them in `features`."
        )
    queries = _texts(frame, name, columns["query"])
    order = _order_by_query(queries, name, columns["query"], sort_queries)
    queries, frame = queries[order], frame.iloc[order]
    first_rows = np.flatnonzero(np.concatenate([[True], queries[1:] != queries[:-1]]))
    return RankingDataset(
        features=_features(frame, name, chosen, order),
        labels=_labels(frame, name, columns["label"], order, whole_labels),
        query_start=np.append(first_rows, len(queries)),
        query_ids=queries[first_rows],
        document_ids=_texts(frame, name, columns["document"]) if "document" in columns else None,
        document_weights=_finite(frame, name, columns["weight"], order) if "weight" in columns else None,
        positions=_whole(frame, name, columns["position"], order) if "position" in columns else None,
        feature_names=tuple(chosen),
    )


def to_frame(dataset: RankingDataset) -> pd.DataFrame:
    """The data set as a DataFrame of D rows that `read_table` reads back to the same fingerprint.

    Raises:
        DataError: where a feature bears the name of a role.
    """
    # Late, because pandas takes half a second that --help does not have.
    import pandas as pd

    reserved = {names[0] for names in ROLES.values()}
    clash = sorted(reserved & set(dataset.feature_names))
    if clash:
        raise DataError(
            f"feature_names: '{clash[0]}' is what a table calls another column; rename the feature first."
        )
    weights = dataset.document_weights
    if weights is None and dataset.query_weights is not None:
        weights = dataset.query_weights[dataset.query_of_document]
    by_role = {
        "query": dataset.query_ids[dataset.query_of_document],
        "document": dataset.document_ids,
        "label": dataset.labels,
        "weight": weights,
        "position": dataset.positions,
    }
    known = {ROLES[role][0]: values for role, values in by_role.items() if values is not None}
    features = pd.DataFrame(dataset.features, columns=list(dataset.feature_names))
    return pd.concat([pd.DataFrame(known), features], axis=1)


def write_table(dataset: RankingDataset, path: str | Path) -> None:
    """Writes what `read_table` reads back: Parquet where the path ends in .parquet, otherwise CSV, compressed
    as the ending says."""
    frame = to_frame(dataset)
    if Path(path).suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        with write_whole(Path(path)) as stream:
            frame.to_csv(stream, index=False)


def _load(
    source: pd.DataFrame | str | Path | Sequence[str | Path], query: str | None, document: str | None
) -> tuple[pd.DataFrame, str]:
    """The table, and what messages call it."""
    # Late, because pandas takes half a second that --help does not have.
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        return source, "the DataFrame"
    paths = [source] if isinstance(source, (str, Path)) else list(source)
    if not paths:
        raise DataError("source: names no table; give one, or several that are one split.")
    # Ids are text: read as numbers, 007 would be 7.
    ids = [*ROLES["query"], *ROLES["document"], query, document]
    frames = [_load_file(path, {column: str for column in ids if column is not None}) for path in paths]
    for path, frame in zip(paths, frames, strict=True):
        odd = sorted(map(str, set(frame.columns) ^ set(frames[0].columns)))
        if odd:
            raise DataError(
                f"{path}: differs from {paths[0]} in the columns {', '.join(odd)}; the tables of one split "
                "must have the same ones."
            )
    whole = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    return whole, ", ".join(map(str, paths))


def _load_file(path: str | Path, types: dict[Any, Any]) -> pd.DataFrame:
    import pandas as pd

    try:
        if Path(path).suffix == ".parquet":
            return pd.read_parquet(path)
        with open_unpacked(Path(path)) as stream:
            return pd.read_csv(stream, dtype=types)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file; check the path.") from None
    # What pandas and pyarrow raise on damaged files has these bases in common.
    except (ValueError, OSError, EOFError, RuntimeError) as error:
        raise DataError(f"{path}: cannot be read as a table ({error}); mend or replace the file.") from None


def _find_columns(
    frame: pd.DataFrame, name: str, given: dict[str, str | None], features: Sequence[str]
) -> dict[str, str]:
    """Role -> its column, for the roles that the table has."""
    present = [str(column) for column in frame.columns]
    twice = sorted({column for column in present if present.count(column) > 1})
    if twice:
        raise DataError(f"{name}: the column '{twice[0]}' is there twice; rename one.")
    columns = {}
    for role, asked in given.items():
        usual = [column for column in ROLES[role] if column in present and column not in features]
        if asked is not None and asked not in present:
            raise DataError(f"{name}: has no column '{asked}' for {role}{did_you_mean(asked, present)}")
        if asked is not None or usual:
            columns[role] = asked if asked is not None else usual[0]
        elif role in ("label", "query"):
            raise DataError(
                f"{name}: has no column {' or '.join(ROLES[role])}; say which one holds it "
                f"with {role}=COLUMN."
            )
    return columns


def _find_features(
    frame: pd.DataFrame,
    name: str,
    columns: dict[str, str],
    features: Sequence[str] | None,
    feature_names: Sequence[str] | None,
) -> list[str]:
    """The feature columns, in training's order where that is given."""
    present = [str(column) for column in frame.columns]
    left = [column for column in present if column not in columns.values()]
    chosen = left if features is None else list(features)
    wanted = chosen if feature_names is None else list(feature_names)
    missing = [column for column in wanted if column not in left]
    if missing:
        raise DataError(f"{name}: has no feature column '{missing[0]}'{did_you_mean(missing[0], left)}")
    more = [column for column in chosen if column not in wanted]
    if more:
        raise DataError(
            f"{name}: has the columns {', '.join(more)}, which training does not have as features; drop "
            "them, or list the features in data.features."
        )
    if not wanted:
        raise DataError(f"{name}: has no feature column besides {', '.join(columns.values())}; add one.")
    return wanted


def _texts(frame: pd.DataFrame, name: str, column: str) -> NDArray[np.str_]:
    absent = np.flatnonzero(frame[column].isna())
    if absent.size:
        raise DataError(f"{name}: row {absent[0] + 1}: column '{column}' is empty; give each row its id.")
    return frame[column].to_numpy().astype(np.str_)


def _order_by_query(
    queries: NDArray[np.str_], name: str, column: str, sort_queries: bool
) -> NDArray[np.int64]:
    """(D,), the rows in an order that keeps each query together."""
    _, first_row, query = np.unique(queries, return_index=True, return_inverse=True)
    first_row_of_query = first_row[query]
    # First rows only ascend where no query comes back after another one.
    back = np.flatnonzero(np.diff(first_row_of_query) < 0)
    if back.size and not sort_queries:
        row = back[0] + 1
        raise DataError(
            f"{name}: row {row + 1}: query '{queries[row]}' (column '{column}') comes back after another "
            "one; its rows must stand together. Sort the table, or set data.sort_queries=true."
        )
    return np.argsort(first_row_of_query, kind="stable")


def _numbers(frame: pd.DataFrame, name: str, column: str, order: NDArray[np.int64]) -> NDArray[np.float64]:
    """(D,), a column as numbers; an empty cell is NaN."""
    import pandas as pd

    numbers = pd.to_numeric(frame[column], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = np.flatnonzero(np.isnan(numbers) & frame[column].notna().to_numpy())
    if wrong.size:
        value = frame[column].iloc[wrong[0]]
        raise DataError(
            f"{name}: row {order[wrong[0]] + 1}: column '{column}' is {value!r}, which is not a number; "
            "encode it as one, or leave the column out of `features`."
        )
    return numbers


def _finite(frame: pd.DataFrame, name: str, column: str, order: NDArray[np.int64]) -> NDArray[np.float64]:
    numbers = _numbers(frame, name, column, order)
    _refuse(~np.isfinite(numbers) | (numbers < 0), numbers, name, column, order, "a finite number, 0 or more")
    return numbers


def _whole(frame: pd.DataFrame, name: str, column: str, order: NDArray[np.int64]) -> NDArray[np.int64]:
    numbers = _finite(frame, name, column, order)
    _refuse(numbers != np.floor(numbers), numbers, name, column, order, "a whole number")
    return numbers.astype(np.int64)


def _labels(
    frame: pd.DataFrame, name: str, column: str, order: NDArray[np.int64], whole_labels: bool
) -> NDArray[np.float64]:
    labels = _finite(frame, name, column, order)
    if whole_labels:
        expected = "a whole number, because gains are exponential (or set whole_labels=false)"
        _refuse(labels != np.floor(labels), labels, name, column, order, expected)
    return labels


def _features(
    frame: pd.DataFrame, name: str, columns: list[str], order: NDArray[np.int64]
) -> NDArray[np.float32]:
    """(D, F) in the order of `columns`."""
    features = np.empty((len(frame), len(columns)), dtype=np.float32)
    for number, column in enumerate(columns):
        values = _numbers(frame, name, column, order)
        # What exceeds float32 becomes infinite, and is refused on the next line.
        with np.errstate(over="ignore"):
            features[:, number] = values
        infinite = np.isinf(features[:, number])
        _refuse(infinite, values, name, column, order, "finite in float32; leave a missing value empty")
    return features


def _refuse(
    bad: NDArray[np.bool_],
    values: NDArray[np.float64],
    name: str,
    column: str,
    order: NDArray[np.int64],
    expected: str,
) -> None:
    rows = np.flatnonzero(bad)
    if rows.size:
        raise DataError(
            f"{name}: row {order[rows[0]] + 1}: column '{column}' is {values[rows[0]]}; it must "
            f"be {expected}."
        )
