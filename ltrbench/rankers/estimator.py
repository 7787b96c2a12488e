"""Rankers as scikit-learn and pandas know estimators: tables as input, parameters, and a score.

`Estimator` is a base class of `Ranker`. A backend writes `fit` for a RankingDataset and `predict` for arrays;
this class makes both take DataFrames, arrays and sparse matrices of SciPy, too. Shapes: D documents, F
features, Q queries.

scikit-learn is imported only where scikit-learn itself asks, so that a ranker does not need it.
"""

from __future__ import annotations

import copy
import functools
import itertools
import json
import reprlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeVar, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.dataset import (
    ROLE_OF_NAME,
    ROLES,
    check_same_features,
    numbered,
)
from ltrbench.data.features import FeatureMatrix, SparseRows
from ltrbench.data.tables import columns_of_features, read_table, read_table_features
from ltrbench.errors import DataError, ResultError
from ltrbench.metrics import evaluate
from ltrbench.settings import changed, replaced
from ltrbench.untrusted import read_json, type_error

COLUMNS_FILE = "columns.json"
"""Names, categories and first days of the features in the folder of a model."""
MODEL_FORMAT = 1
"""Version of the files of a saved model, which columns.json holds; a reader refuses any other."""

_OF_FIT = "_settings_of_fit"
"""Attribute of a fitted ranker whose settings have changed since: name -> value in the fit."""

SCORE = "ndcg@10"
"""Metric of `Estimator.score`."""


class Estimator:
    """Base class of `Ranker` with the methods that users and functions of scikit-learn expect.

    Attributes:
        feature_names: (F,), features of the training data; set by `fit`.
        categories: categorical feature -> its categories, in the order of their codes; set by `fit`.
        dates: feature of dates -> the day from which its values are counted, in days; set by `fit`.
        encoded: one-hot encoded column -> its categories, each of which is a feature; set by `fit`.
    """

    feature_names: tuple[str, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = {}
    dates: Mapping[str, str] = {}
    encoded: Mapping[str, tuple[str, ...]] = {}
    reads_float64 = False
    """Whether the model compares float64, so that readers give it features in float64 (`exact`)."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, wrap in _WRAPPERS.items():
            method = vars(cls).get(name)
            is_abstract = getattr(method, "__isabstractmethod__", False)
            if method is not None and not is_abstract:
                setattr(cls, name, wrap(method))
        if "__repr__" not in vars(cls):
            cls.__repr__ = Estimator.__repr__  # type: ignore[method-assign]  # @dataclass would set its own

    def __repr__(self) -> str:
        """Returns the class with the parameters that differ from their defaults."""
        params = self.get_params()
        names = changed(self, type(self))
        shown = [f"{name}={params[name]!r}" for name in params if name in names]
        return f"{type(self).__name__}({', '.join(shown)})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the parameters: name -> value. None of them is an estimator."""
        del deep
        return {
            item.name: getattr(self, item.name)
            for item in fields(self)  # type: ignore[arg-type]
            if item.init
        }

    def set_params(self, **params: Any) -> Self:
        """Sets parameters, which take effect in the next `fit`; returns the ranker.

        Settings of an objective have two underscores, as in `objective__mode`.

        Raises:
            ConfigError: A parameter does not exist, or a value is invalid; no parameter is changed.
        """
        values = {}
        for name, value in params.items():
            values[name.replace("__", ".")] = value
        checked = replaced(self, values)
        if self.__sklearn_is_fitted__():
            before = self.get_params()
            del before["num_threads"]  # which changes no score
            vars(self).setdefault(_OF_FIT, before)
        for key in values:
            name = key.partition(".")[0]
            vars(self)[name] = getattr(checked, name)
        return self

    def as_fitted(self) -> Self:
        """Returns the ranker with the settings of its fit, which `set_params` may have changed since."""
        of_fit = vars(self).get(_OF_FIT)
        if of_fit is None:
            return self
        ranker = copy.copy(self)
        del vars(ranker)[_OF_FIT]
        vars(ranker).update(of_fit)
        return ranker

    def score(self, X: Any, y: Any = None, **rows: Any) -> float:  # noqa: N803
        """Returns the mean NDCG@10 over queries of a RankingDataset, or of a table as in `dataset_of`."""
        ranker: Any = self
        data = X
        if not isinstance(X, RankingDataset):
            data = dataset_of(X, y, like=ranker, **rows)
        else:
            _refuse_rows(rows if y is None else {"y": y, **rows})
            if self.feature_names:
                check_same_features("X", X, self)
        scores = ranker.predict_lists(data.features, data.query_start)
        return float(evaluate(data, scores, [SCORE]).means[SCORE])

    # ---- What scikit-learn asks of an estimator.

    @property
    def n_features_in_(self) -> int:
        """F; AttributeError before `fit`."""
        if not self.feature_names:
            raise AttributeError("the ranker is not fitted")
        return len(self.feature_names)

    def __sklearn_clone__(self) -> Self:
        # scikit-learn would require that the constructor keeps the objects that it is passed.
        return type(self)(**copy.deepcopy(self.get_params()))

    def __sklearn_is_fitted__(self) -> bool:
        return bool(self.feature_names)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        inputs = InputTags(sparse=True, categorical=True, allow_nan=True)
        return Tags(
            None, TargetTags(required=True, positive_only=True), input_tags=inputs
        )

    def get_metadata_routing(self) -> Any:
        """Returns the requests to metadata routing: the arguments of `dataset_of` in `fit` and `score`."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=self)
        for name in ("qid", "sample_weight", "categorical", "dates"):
            request.fit.add_request(param=name, alias=True)
        for name in ("qid", "sample_weight"):
            request.score.add_request(param=name, alias=True)
        return request


# ---- Methods of a backend, made to take tables, and to keep the names and categories of features.

RankerT = TypeVar("RankerT")
RankerT_co = TypeVar("RankerT_co", covariant=True)


class _FitOf(Protocol[RankerT_co]):
    @overload
    def __call__(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: Any = None,
    ) -> RankerT_co: ...

    @overload
    def __call__(
        self, train: Any, y: ArrayLike, *, valid: Any = None, **rows: Any
    ) -> RankerT_co: ...


class TakesTables(Protocol):
    """`fit` of a backend for type checkers: of a data set, or of a table with the arguments of
    `dataset_of`."""

    def __get__(self, ranker: RankerT, kind: Any = None) -> _FitOf[RankerT]: ...


def takes_tables(fit: Any) -> TakesTables:
    """Returns the method, which the class makes to take tables, typed."""
    return cast(TakesTables, fit)


def _fit_of_tables(fit: Callable[..., Any]) -> Callable[..., Any]:
    def fit_table(
        self: Any,
        train: Any,
        y: Any = None,
        on_iteration: Any = None,
        *,
        valid: Any = None,
        **rows: Any,
    ) -> Any:
        if not isinstance(train, RankingDataset):
            train = dataset_of(train, y, **rows)
        else:
            if valid is None:
                valid = y
            elif y is not None:
                rows["y"] = y
            _refuse_rows(rows)
        if valid is not None:
            if not isinstance(valid, RankingDataset):
                valid = _valid_of_tables(valid, train)
            check_same_features("valid", valid, train)
        if not self.reads_blocks:
            train = train.in_memory(self.reads_sparse)
            valid = valid and valid.in_memory(self.reads_sparse)
        # Minimum hessians and penalties would otherwise depend on the unit of the weights.
        train = train.with_mean_weight_one()
        vars(self).pop(_OF_FIT, None)
        fitted = fit(self, train, valid, on_iteration)
        self.feature_names = train.feature_names
        self.categories = train.categories
        self.dates = train.dates
        self.encoded = train.encoded
        return fitted

    functools.update_wrapper(fit_table, fit)
    del vars(fit_table)["__wrapped__"]  # its signature has no arguments of a table
    return fit_table


def _refuse_rows(rows: Collection[str]) -> None:
    """Raises TypeError if fit or score of a data set gets arguments of a table."""
    if rows:
        raise TypeError(
            f"fit and score of a RankingDataset have no argument {', '.join(rows)}: the data set itself has "
            "the labels, queries and weights. Set them there, as in RankingDataset(query_weights=...), or "
            "pass a table."
        )


def _valid_of_tables(valid: Any, train: RankingDataset) -> RankingDataset:
    """Returns the data set of (X, y) or (X, y, qid)."""
    is_sequence = isinstance(valid, tuple | list)
    if not is_sequence or len(valid) not in (2, 3):
        raise DataError(
            "valid is no pair or triple; pass valid=(X, y), or valid=(X, y, qid)."
        )
    table, labels, *qid = valid
    return dataset_of(table, labels, qid=qid[0] if qid else None, like=train)


def _of_fitted(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def of_fitted(self: Any, *arguments: Any, **more: Any) -> Any:
        return method(self.as_fitted(), *arguments, **more)

    return of_fitted


def _of_tables(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def of_table(self: Any, features: Any) -> Any:
        self = self.as_fitted()
        features = _as_frame(features)
        if hasattr(features, "tocsr"):
            features = SparseRows.from_scipy(features, exact=self.reads_float64)
        if not (_is_frame(features) and self.feature_names):
            return method(self, features)
        read = _features_of_frame(self, features)
        if not self.is_listwise:
            return method(self, read)
        # The scores of a row depend on the other rows of its query.
        query = _query_column(features)
        if query is None:
            raise DataError(
                "the DataFrame has no column qid or query_id, but a score depends on the other documents of "
                "the query. Add the column; or pass the documents of one query as an array, in the order of "
                "feature_names."
            )
        is_missing = features[query].isna().to_numpy()
        if is_missing.any():
            raise DataError(
                f"the DataFrame: row {is_missing.argmax() + 1}: column {query!r} is missing, but a score "
                "depends on the other documents of the query. Write an id, or remove the row."
            )
        scores = np.empty(len(read), self.score_dtype)
        by_query = features.groupby(query, observed=True)
        for rows in by_query.indices.values():
            of_query = method(self, read[rows])
            if of_query is None:  # the model has no contributions
                return None
            scores[rows] = of_query
        return scores

    return of_table


def _features_of_frame(ranker: Estimator, frame: Any) -> Any:
    """Returns the (D, F) features of a DataFrame in the order of the model; D may be 0."""
    named = _with_names_of(ranker, frame)
    names = columns_of_features(ranker.feature_names, ranker.encoded, named.columns)
    if not len(named) and set(names) <= set(named.columns):
        return np.empty((0, len(ranker.feature_names)), dtype=np.float32)
    return read_table_features(
        _chosen(named, names),
        features=list(names),
        categories=ranker.categories,
        dates=ranker.dates,
        encode=ranker.encoded,
        exact=ranker.reads_float64,
    )


def _with_columns(save: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(save)
    def save_with_columns(self: Any, folder: Path | str) -> None:
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        save(self.as_fitted(), folder)
        columns = {
            "format": MODEL_FORMAT,
            "feature_names": self.feature_names,
            "categories": dict(self.categories),
            "dates": dict(self.dates),
            "encoded": dict(self.encoded),
        }
        if self.feature_names:
            (folder / COLUMNS_FILE).write_text(json.dumps(columns) + "\n")

    return save_with_columns


def _knowing_columns(load: classmethod[Any, Any, Any]) -> Any:
    @functools.wraps(load.__func__)
    def load_with_columns(cls: Any, folder: Path | str) -> Any:
        folder = Path(folder)
        ranker = load.__func__(cls, folder)
        known = read_columns(folder)
        if known.feature_names:
            ranker.feature_names = known.feature_names
            ranker.categories = known.categories
            ranker.dates = known.dates
            ranker.encoded = known.encoded
        return ranker

    return classmethod(load_with_columns)


class Columns(NamedTuple):
    """What a model knows about the columns of its training data, as in `Estimator`."""

    feature_names: tuple[str, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = {}
    dates: Mapping[str, str] = {}
    encoded: Mapping[str, tuple[str, ...]] = {}


def read_columns(folder: Path) -> Columns:
    """Returns the columns in the folder of a model; empty without the file.

    Raises:
        ResultError: The file is damaged, or another version of ltrbench wrote it.
    """
    if not (path := folder / COLUMNS_FILE).exists():
        return Columns()
    columns = read_json(path)
    version = None
    if isinstance(columns, dict):
        version = columns.pop("format", None)
    if version != MODEL_FORMAT:
        raise ResultError(
            f"{path} has format {reprlib.repr(version)}; this ltrbench reads format {MODEL_FORMAT}. Load the "
            "model with the version of ltrbench that saved it."
        )
    types: dict[str, Any] = {
        "feature_names": list[str],
        "categories": dict[str, list[str]],
        "dates": dict[str, str],
        "encoded": dict[str, list[str]],
    }
    has_names = isinstance(columns, dict) and columns.keys() == types.keys()
    if not has_names or type_error(columns, types):
        raise ResultError(
            f"{path} has no names and categories of features. Copy the folder again."
        )
    return Columns(
        feature_names=tuple(columns["feature_names"]),
        categories=_as_tuples(columns["categories"]),
        dates=columns["dates"],
        encoded=_as_tuples(columns["encoded"]),
    )


def _as_tuples(lists: Any) -> dict[str, tuple[str, ...]]:
    return {name: tuple(texts) for name, texts in lists.items()}


_WRAPPERS: Mapping[str, Callable[[Any], Any]] = {
    "fit": _fit_of_tables,
    "predict": _of_tables,
    "predict_lists": _of_fitted,
    "trees": _of_fitted,
    "importance": _of_fitted,
    "contributions": _of_tables,
    "save": _with_columns,
    "load": _knowing_columns,
}


# ---- Data sets of tables.


def dataset_of(
    X: Any,  # noqa: N803
    y: ArrayLike,
    *,
    qid: ArrayLike | None = None,
    group: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    categorical: Sequence[str] = (),
    dates: Sequence[str] | Mapping[str, str] = (),
    like: Estimator | RankingDataset | None = None,
    **others: Any,
) -> RankingDataset:
    """Returns the data set of a table, its labels and its queries. Scattered rows of a query are gathered.

    A table of Polars or pyarrow is read as a DataFrame. The columns of a DataFrame with the name of a role
    (`ROLES`) are no features: they are the document ids, weights and positions, and the queries if neither
    qid nor group is passed. `like` may have such features.

    Args:
        X: (D, F), a DataFrame, a table of Polars or pyarrow, an array or a sparse matrix of SciPy.
        y: (D,), labels, 0 or more.
        qid: (D,), id of the query of each row. None: `group`, or the column qid or query_id of a DataFrame.
        group: (Q,), number of rows of each query.
        sample_weight: (D,), weights of the documents. None: the column weight of a DataFrame, if it has one.
        categorical: categorical columns of a DataFrame, besides those with the dtype `category`.
        dates: columns of dates of a DataFrame, which become days since the earliest; or column -> the first
            day, such as that of a model to continue, as in `read_table`.
        like: the training data, or the ranker fitted to them; None: X is training data.

    Raises:
        DataError: A column is missing, a value is invalid, or the queries are not known.
        TypeError: Another argument is passed.
    """
    if others:
        raise TypeError(
            f"fit and score have no argument {', '.join(others)}. Pass the query of each row as qid=, or the "
            "number of rows of each query as group=; further arguments of fit are valid=(X, y) or (X, y, "
            "qid), sample_weight, categorical and dates."
        )
    X = _as_frame(X)  # noqa: N806
    _refuse_other_tables(X)
    rows = _columns_of_rows(X, y, qid, group, sample_weight)
    columns = {f"{name} of fit or score": values for name, values in rows.items()}
    roles = zip(("label", "query", "weight"), columns, strict=False)
    options: dict[str, Any] = {"sort_queries": True, **dict(roles)}
    if not _is_frame(X):
        if categorical or dates:
            raise DataError(
                "categorical and dates name columns, but X has none; pass a DataFrame."
            )
        return _dataset_of_array(X, columns, options)
    if like is None:
        named = _with_text_names(X)
        names = [name for name in named.columns if name not in ROLE_OF_NAME]
        options["categorical"] = list(categorical)
        options["dates"] = dates if isinstance(dates, Mapping) else list(dates)
    else:
        named = _with_names_of(like, X)
        names = [*columns_of_features(like.feature_names, like.encoded, named.columns)]
        options["categories"] = like.categories
        options["dates"] = like.dates
        options["encode"] = like.encoded
    roles_of_frame = ("document", "weight", "position")
    with_roles = itertools.chain.from_iterable(ROLES[role] for role in roles_of_frame)
    frame = _chosen(named, names, set(with_roles))
    return read_table(frame.assign(**columns), features=names, **options)


def _columns_of_rows(
    X: Any,  # noqa: N803
    y: ArrayLike,
    qid: ArrayLike | None,
    group: ArrayLike | None,
    sample_weight: ArrayLike | None,
) -> dict[str, NDArray[Any]]:
    """Returns argument -> (D,): the labels, the queries and, if passed, the weights, in this order.

    Raises:
        DataError: The queries are not known, or an argument does not have a value for each row.
    """
    if qid is None and group is None:
        of_query = _query_column(X)
        if of_query is not None:
            qid = X[of_query]
    if (qid is None) == (group is None):
        raise DataError(
            "the queries are not known from one argument: pass qid=, the query of each row, or group=, the "
            "number of rows of each query; or let X be a DataFrame with a column qid or query_id. "
            "scikit-learn passes qid to score only after sklearn.set_config(enable_metadata_routing=True)."
        )
    rows = {"y": np.asarray(y)}
    if group is None:
        rows["qid"] = np.asarray(qid)
    else:
        sizes = _sizes_of(group)
        numbers = np.arange(1, len(sizes) + 1)
        rows["sum of group"] = np.repeat(numbers, sizes)
    if sample_weight is not None:
        rows["sample_weight"] = np.asarray(sample_weight)
    num_rows = _as_table(X).shape[0]
    for name, values in rows.items():
        if values.shape != (num_rows,):
            raise DataError(
                f"{name} has the shape {values.shape}, but X has {num_rows} rows."
            )
    return rows


def _as_table(X: Any) -> Any:  # noqa: N803
    """Returns a DataFrame, an array or a sparse matrix as it is, and a list of rows as an array."""
    return X if hasattr(X, "shape") else np.asarray(X)


def _dataset_of_array(
    X: Any,  # noqa: N803
    columns: Mapping[str, NDArray[Any]],
    options: Mapping[str, Any],
) -> RankingDataset:
    """Returns the data set of features without names.

    Args:
        columns: name -> (D,), columns with a role.
        options: options of `read_table`.
    """
    # Imported here, because pandas takes half a second, too long for --help.
    import pandas as pd

    # A table of the rows alone, because a sparse matrix may have millions of columns.
    alone = pd.DataFrame({**columns, "1": 0.0})
    data = read_table(alone, features=["1"], **options)
    in_order = slice(None) if data.file_rows is None else data.file_rows
    table = _as_table(X)
    if hasattr(table, "tocsr"):
        table = table.tocsr()
    features = table[in_order]
    if hasattr(features, "tocsr"):
        features = SparseRows.from_scipy(features)
    return data.with_fields(features=features, feature_names=())


def _sizes_of(group: ArrayLike) -> NDArray[np.int64]:
    """Returns the (Q,) numbers of rows of the queries; raises DataError if they are no such numbers."""
    sizes = np.asarray(group)
    are_valid = sizes.ndim == 1 and sizes.dtype.kind in "iuf"
    if are_valid:
        is_whole = sizes % 1 == 0
        are_valid = bool((is_whole & (sizes >= 1)).all())
    if not are_valid:
        raise DataError(
            f"group is {sizes.tolist()!s:.60}; pass the number of rows of each query, a whole number "
            "from 1, in the order of the rows."
        )
    return sizes.astype(np.int64)


def _with_text_names(frame: Any) -> Any:
    return frame.set_axis(frame.columns.map(str), axis=1)


def _with_names_of(like: Estimator | RankingDataset, frame: Any) -> Any:
    """Returns a DataFrame with the names of the training data, as texts.

    Features without names are "1", ..., "F". The columns of a DataFrame without names are 0, ..., F - 1, so
    that its "1" is the second feature: such columns are renamed by their position.

    Raises:
        DataError: The columns begin with 0, but their number is not F.
    """
    frame = _with_text_names(frame)
    of_model = numbered(len(like.feature_names))
    if like.feature_names != of_model or "0" not in frame.columns:
        return frame
    of_frame = [name for name in frame.columns if name.isdecimal()]
    from_0 = numbered(len(of_model), first=0)
    if sorted(of_frame) != sorted(from_0):
        count = len(of_model)
        raise DataError(
            f"the DataFrame has {len(of_frame)} columns numbered from 0, but the model has {count} features "
            "without names, numbered from 1, so it is not known which columns are the features. Pass the "
            f"columns of these {count} features only, or rename them to 1, ..., {count}."
        )
    return frame.rename(columns=dict(zip(from_0, of_model, strict=True)))


def _chosen(frame: Any, names: Collection[str], others: Collection[str] = ()) -> Any:
    """Returns the columns of a DataFrame with these names, and those of `others` that it has."""
    if not set(names) <= set(frame.columns):
        return frame  # whole, for the message about a missing column
    is_read = frame.columns.isin([*names, *others])
    return frame.loc[:, is_read]


def _query_column(X: Any) -> str | None:  # noqa: N803
    """Returns the name of the column with the queries of a DataFrame; None if there is none."""
    if _is_frame(X):
        return next((name for name in X.columns if name in ROLES["query"]), None)
    return None


def _as_frame(X: Any) -> Any:  # noqa: N803
    """Returns a table of Polars or pyarrow as a DataFrame, and anything else as it is."""
    return X.to_pandas() if hasattr(X, "to_pandas") else X


def _refuse_other_tables(X: Any) -> None:  # noqa: N803
    """Raises DataError if the columns of features have names, but are no DataFrame."""
    if isinstance(X, FeatureMatrix) or hasattr(X, "tocsr") or _is_frame(X):
        return
    fields_of_array = getattr(getattr(X, "dtype", None), "names", None)
    if isinstance(X, Mapping) or hasattr(X, "columns") or fields_of_array:
        raise DataError(
            f"the table is a {type(X).__name__}, whose columns have names, but it is no DataFrame. Pass "
            "pandas.DataFrame(table), or a table of Polars or pyarrow."
        )


def _is_frame(X: Any) -> bool:  # noqa: N803
    """Returns whether an object is a DataFrame, without the import of pandas."""
    return hasattr(X, "columns") and hasattr(X, "iloc")
