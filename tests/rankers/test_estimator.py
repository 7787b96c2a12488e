"""Rankers in the hands of scikit-learn: its checks of estimators, clones, searches and cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn
from messages import naming
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import _num_samples

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, DataError
from ltrbench.rankers import EarlyStopping
from ltrbench.rankers.estimator import dataset_of
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.linear import LinearRanker
from ltrbench.rankers.mlp import MlpRanker
from ltrbench.rankers.native import NativeRanker

# The checks know no queries: these rankers take all rows as one.


def _of_one_query(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, X, y=None: method(self, X, y, group=[_num_samples(X)])  # noqa: N803


class _Native(NativeRanker): ...


class _LightGBM(LightGBMRanker): ...


KINDS = (_Native, _LightGBM)
for kind in KINDS:
    for name in ("fit", "score"):
        setattr(kind, name, _of_one_query(getattr(kind, name)))

BY_DESIGN = {
    "check_dont_overwrite_parameters": "summary, feature_names and categories are set without an underscore",
    "check_do_not_raise_errors_in_init_or_set_params": "values are checked where they are set",
    "check_estimators_unfitted": "a ConfigError, because ltrbench does not need scikit-learn",
    "check_complex_data": "NumPy warns of imaginary parts",
    "check_dtype_object": "predict refuses arrays of objects",
    "check_n_features_in_after_fitting": "another wording of the message",
    "check_fit2d_predict1d": "another wording of the message",
    "check_requires_y_none": "another wording of the message",
    "check_estimators_empty_data_messages": "another wording of the message",
}
WARM_START = "warm_start of native names a model, but scikit-learn sets it to False"
OF_LIGHTGBM = {
    **BY_DESIGN,
    "check_parameters_default_constructible": "the default of extra is a new dict",
}
OF_NATIVE = {
    **BY_DESIGN,
    "check_no_attributes_set_in_init": "position_factors is set without an underscore",
    "check_fit_idempotent": WARM_START,
    "check_fit_check_is_fitted": WARM_START,
    "check_n_features_in": WARM_START,
}

with warnings.catch_warnings():
    warnings.filterwarnings(
        "ignore", ".*does not inherit from `sklearn.base.BaseEstimator`"
    )
    checks: Any = parametrize_with_checks(
        [kind(num_trees=3, num_threads=1) for kind in KINDS],
        expected_failed_checks=lambda ranker: (
            OF_NATIVE if isinstance(ranker, NativeRanker) else OF_LIGHTGBM
        ),
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*Error occurred during set_params:UserWarning")
@checks  # type: ignore[untyped-decorator]
def test_it_passes_the_checks_of_scikit_learn(
    estimator: Any, check: Callable[..., None]
) -> None:
    check(estimator)


RNG = np.random.default_rng(3)
X = pd.DataFrame(RNG.normal(size=(300, 4)), columns=list("abcd"))
Y = np.digitize(X["a"] + 0.3 * RNG.normal(size=300), [0.5, 1.5])
QID = np.repeat([f"q{number}" for number in range(30)], 10)
SMALL: Any = LightGBMRanker(
    num_trees=5, num_leaves=4, min_docs_in_leaf=5, num_threads=1
)


@pytest.mark.parametrize("routed", [True, False])
def test_searches_and_cross_validation_score_the_queries_of_each_fold(
    routed: bool,
) -> None:
    grid, folds = {"learning_rate": [1e-9, 0.3]}, GroupKFold(3)
    with sklearn.config_context(enable_metadata_routing=routed):
        if routed:
            search = GridSearchCV(SMALL, grid, cv=folds).fit(X, Y, groups=QID, qid=QID)
            scores = cross_val_score(
                SMALL, X, Y, cv=folds, params={"groups": QID, "qid": QID}
            )
        else:  # the queries are a column, which is no feature
            table = X.assign(qid=QID)
            search = GridSearchCV(SMALL, grid, cv=folds).fit(table, Y, groups=QID)
            scores = cross_val_score(SMALL, table, Y, cv=folds, groups=QID)
    assert search.best_params_ == {"learning_rate": 0.3}
    assert search.best_estimator_.feature_names == tuple("abcd")
    expected = [
        clone(SMALL)
        .fit(X.iloc[train], Y[train], qid=QID[train])
        .score(X.iloc[test], Y[test], qid=QID[test])
        for train, test in folds.split(X, Y, QID)
    ]
    np.testing.assert_array_equal(scores, expected)


def test_columns_of_roles_are_no_features_and_a_table_is_fitted_like_its_data_set() -> (
    None
):
    table = X.assign(
        query_id=QID,
        document_id=np.arange(300),
        weight=np.repeat(RNG.integers(1, 9, 30), 10),
        position=np.tile(np.arange(10), 30),
        label=Y,
    )
    data = RankingDataset.from_frame(table)
    same = dataset_of(table, Y)
    assert same.fingerprint == data.fingerprint
    assert same.document_ids is not None
    assert dataset_of(table, Y, like=data).fingerprint == data.fingerprint
    other_weights = dataset_of(table, Y, sample_weight=np.ones(300))
    assert other_weights.query_weights is not None
    assert set(other_weights.query_weights) == {1.0}
    listed = RankingDataset.from_frame(table, features=["a", "position"])
    of_listed = dataset_of(table, Y, like=listed)
    assert of_listed.feature_names == ("a", "position")
    assert of_listed.positions is None
    search: Any = GridSearchCV(
        SMALL, {"learning_rate": [1e-9, 0.3]}, cv=GroupKFold(3)
    ).fit(table, Y, groups=QID)
    assert search.best_estimator_.feature_names == tuple("abcd")
    expected = clone(SMALL).set_params(learning_rate=0.3).fit(data)
    np.testing.assert_array_equal(
        search.best_estimator_.predict(table), expected.predict(data.features)
    )


def test_categories_are_read_alike_in_fit_and_predict_and_travel_with_the_model(
    tmp_path: Path,
) -> None:
    brands, sizes = (
        np.array(["x", "y", "z"])[RNG.integers(0, 3, 300)],
        RNG.integers(0, 5, 300),
    )
    table = X.assign(brand=brands, size=pd.Categorical(sizes))
    ranker = clone(SMALL).fit(
        table.assign(qid=pd.Categorical(QID)), Y, categorical=["brand"]
    )
    named = table.assign(label=Y, query_id=QID)
    data = RankingDataset.from_frame(named, categorical=["brand"])
    assert ranker.categories == data.categories
    ranker.save(str(tmp_path / "new" / "model"))
    loaded: Any = LightGBMRanker.load(str(tmp_path / "new" / "model"))  # type: ignore[arg-type]
    for each in (ranker, loaded):
        np.testing.assert_array_equal(
            each.predict(named), clone(SMALL).fit(data).predict(data.features)
        )
    with pytest.raises(DataError, match=naming("'b'", "did you mean", "'B'")):
        loaded.predict(named.rename(columns={"b": "B"}))
    numbered = X.set_axis(range(4), axis=1)
    clone(SMALL).fit(numbered, Y, qid=QID).save(tmp_path)
    np.testing.assert_array_equal(
        LightGBMRanker.load(tmp_path).predict(numbered),
        clone(SMALL).fit(X, Y, qid=QID).predict(X),
    )
    with pytest.raises(TypeError, match="qid"):
        ranker.fit(data, qid=QID)
    with pytest.raises(TypeError, match=naming("query", "qid=", "group=")):
        ranker.fit(table, Y, query=QID)
    unseen, missing = (
        loaded.predict(table.assign(brand=brand)) for brand in ("new", None)
    )
    np.testing.assert_array_equal(unseen, missing)


def test_a_table_of_pyarrow_is_read_by_the_names_of_its_columns() -> None:
    shuffled = np.random.default_rng(0).permutation(300)
    frame = X.assign(qid=QID, label=Y).iloc[shuffled].reset_index(drop=True)
    labels = Y[shuffled]
    table = pa.table(frame)
    ranker: Any = clone(SMALL).fit(frame, labels)
    of_table: Any = clone(SMALL).fit(table, labels, valid=(table, labels))
    assert of_table.feature_names == ranker.feature_names == tuple("abcd")
    np.testing.assert_array_equal(of_table.predict(frame), ranker.predict(frame))
    reversed_columns = table.select(table.column_names[::-1])
    assert ranker.score(reversed_columns, labels) == ranker.score(frame, labels)


def test_arguments_of_a_table_are_refused_beside_a_data_set() -> None:
    data = dataset_of(X, Y, qid=QID)
    calls: list[tuple[Callable[..., Any], dict[str, Any]]] = [
        (LinearRanker().fit, {"sample_weight": np.ones(300)}),
        (LinearRanker().fit, {"y": Y, "valid": data}),
        (SMALL.fit, {"misspelt": 3}),
        (LinearRanker().fit(data).score, {"y": Y}),
        (LinearRanker().fit(data).score, {"misspelt": 3}),
    ]
    for call, arguments in calls:
        with pytest.raises(TypeError, match=naming(next(iter(arguments)))):
            call(data, **arguments)


@pytest.mark.parametrize("dtype", ["str", "category"])
def test_a_list_wise_model_refuses_rows_without_a_query(dtype: str) -> None:
    ranker: Any = MlpRanker(context="attention", num_blocks=1, width=8, num_epochs=1)
    ranker.fit(X, Y, qid=QID)
    ids: Any = pd.Series([*QID[:-1], None], dtype=dtype)
    for method in (ranker.predict, ranker.contributions):
        with pytest.raises(DataError, match=naming("row 300", "qid")):
            method(X.assign(qid=ids))


@pytest.mark.parametrize("name", [int, str])
def test_columns_numbered_from_0_are_features_without_names_by_their_position(
    name: type[Any],
) -> None:
    features = X.to_numpy()
    frame = X.set_axis([*map(name, range(4))], axis=1).assign(qid=QID)
    ranker: Any = clone(SMALL).fit(features, Y, qid=QID)
    np.testing.assert_array_equal(ranker.predict(frame), ranker.predict(features))
    np.testing.assert_array_equal(
        ranker.contributions(frame[frame.columns[::-1]]),
        ranker.contributions(features),
    )
    assert ranker.score(frame, Y) == ranker.score(features, Y, qid=QID)
    from_1 = X.set_axis([*map(name, range(1, 5))], axis=1)
    np.testing.assert_array_equal(ranker.predict(from_1), ranker.predict(features))
    with_label = frame.assign(**{"4": Y})
    with_label.columns = [*map(name, range(4)), "qid", name(4)]
    readers: list[Callable[[], Any]] = [
        lambda: ranker.predict(with_label),
        lambda: ranker.contributions(with_label),
        lambda: ranker.score(with_label, Y),
        lambda: ranker.fit(features, Y, qid=QID, valid=(with_label, Y)),
    ]
    for read in readers:
        with pytest.raises(
            DataError, match=naming("5 columns", "4 features", "1, ...")
        ):
            read()


@pytest.mark.parametrize("kind", ["ISO 8601", "number", "typed"])
def test_dates_become_days_since_the_earliest_in_fit_and_in_predict(
    kind: str, tmp_path: Path
) -> None:
    days = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(300) % 60, unit="D")
    written = {
        "ISO 8601": days.strftime("%Y-%m-%d"),
        "number": days.strftime("%Y%m%d").astype(int),
        "typed": days,
    }
    table = X.assign(day=written[kind])
    ranker: Any = clone(SMALL).fit(table, Y, qid=QID, dates=["day"])
    in_days = X.assign(day=np.arange(300) % 60)
    expected: Any = clone(SMALL).fit(in_days, Y, qid=QID).predict(in_days)
    assert ranker.dates == {"day": "2026-01-01"}
    ranker.save(tmp_path / "model")
    loaded: Any = LightGBMRanker.load(tmp_path / "model")
    for each in (ranker, loaded):
        np.testing.assert_array_equal(each.predict(table), expected)
        np.testing.assert_array_equal(each.predict(table[60:90]), expected[60:90])
    of_valid = clone(SMALL).fit(table, Y, valid=(table, Y, QID), qid=QID, dates=["day"])
    np.testing.assert_array_equal(of_valid.predict(table), expected)
    with pytest.raises(DataError, match=naming("dates", "DataFrame")):
        dataset_of(X.to_numpy(), Y, qid=QID, dates=["day"])


@pytest.mark.parametrize(
    ("kind", "fewer", "more"),
    [
        (NativeRanker, {"num_trees": 3}, {"num_trees": 5}),
        (MlpRanker, {"num_epochs": 2, "width": 8}, {"num_epochs": 2, "width": 8}),
    ],
)
def test_a_model_continues_on_dates_that_are_counted_from_its_first_day(
    kind: Any, fewer: dict[str, Any], more: dict[str, Any], tmp_path: Path
) -> None:
    days = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(300) // 10, unit="D")
    table = X.assign(qid=QID, day=days)
    first = kind(**fewer).fit(table, Y, dates=["day"])
    first.save(tmp_path)
    newer = table[100:]
    continued = kind(**more, warm_start=str(tmp_path))
    named = naming("warm_start", "day", "2026-01-01", "2026-01-11", "data.dates")
    with pytest.raises(DataError, match=named):
        continued.fit(newer, Y[100:], dates=["day"])
    assert continued.fit(newer, Y[100:], dates=first.dates).dates == first.dates


def test_a_repr_names_what_differs_and_parameters_are_checked_before_one_is_set() -> (
    None
):
    ranker = NativeRanker(
        num_trees=7, monotone={1: -1}, early_stopping=EarlyStopping(patience=3)
    )
    assert eval(repr(ranker)) == ranker == clone(ranker)
    assert repr(NativeRanker(seed=0)) == "NativeRanker()"
    with pytest.raises(ConfigError, match=naming("num_leaves", "1")):
        ranker.set_params(num_trees=9, num_leaves=1)
    with pytest.raises(ConfigError, match=naming("num_leavs", "num_leaves")):
        ranker.set_params(num_leavs=9)
    assert ranker.set_params(num_trees=9).get_params()["num_trees"] == 9
    linear: Any = LinearRanker().fit(X, Y, qid=QID)
    unscaled: Any = LinearRanker(scaling="log1p").fit(X, Y, qid=QID)
    refitted: Any = linear.set_params(scaling="log1p").fit(X, Y, qid=QID)
    np.testing.assert_array_equal(refitted.predict(X), unscaled.predict(X))


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"qid": QID, "group": [300]}, ("qid=", "group=")),
        ({}, ("qid=", "group=")),
        ({"qid": QID[:-1]}, ("qid", "(299,)", "300")),
        ({"qid": [*QID[:-1], None]}, ("row 300", "qid", "nan")),
        ({"group": [10] * 29}, ("group", "290", "300")),
        ({"group": [-10] + [10] * 31}, ("group", "-10", "whole number")),
        ({"group": [10.9] * 30}, ("group", "10.9", "whole number")),
        ({"qid": QID, "y": Y[:5]}, ("y", "(5,)", "300")),
        ({"qid": QID, "X": X.assign(a="x")}, ("'a'", "'x'", "categorical")),
        ({"qid": QID, "X": X.to_dict("list")}, ("dict", "pandas.DataFrame(table)")),
        ({"qid": QID, "X": X.to_records()}, ("recarray", "pandas.DataFrame(table)")),
    ],
)
def test_a_table_without_clear_queries_labels_or_numbers_is_refused(
    columns: dict[str, Any], named: tuple[str, ...]
) -> None:
    with pytest.raises(DataError, match=naming(*named)):
        dataset_of(**{"X": X, "y": Y, **columns})
