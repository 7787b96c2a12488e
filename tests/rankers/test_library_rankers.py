"""Claims for every library adapter: early stopping, saving, and the checks of `extra`."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import naming
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, DataError, ResultError
from ltrbench.metrics import evaluate
from ltrbench.rankers import EarlyStopping, Iteration
from ltrbench.rankers.capabilities import departures_of, importance_of
from ltrbench.rankers.library import LibraryRanker
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.xgboost import XGBoostRanker

METRIC = "ndcg@10"

both = pytest.mark.parametrize("kind", [LightGBMRanker, XGBoostRanker])


def noisy(seed: int, num_queries: int = 80, grades: int = 5) -> RankingDataset:
    """Returns queries whose labels are hard to learn, so that a fit soon overfits."""
    rng = np.random.default_rng(seed)
    query_start = np.concatenate([[0], np.cumsum(rng.integers(2, 40, num_queries))])
    features = rng.normal(size=(query_start[-1], 6)).astype(np.float32)
    features[rng.random(features.shape) < 0.05] = np.nan
    signal = np.nan_to_num(features[:, 0] - features[:, 1] * features[:, 2]) + 2 * rng.normal(
        size=len(features)
    )
    labels = np.digitize(signal, np.quantile(signal, np.linspace(0.5, 0.95, grades - 1))).astype(np.float64)
    return RankingDataset(features=features, labels=labels, query_start=query_start)


class Curve:
    """Records the iterations passed to `on_iteration`."""

    def __init__(self, valid: RankingDataset) -> None:
        self.valid = valid
        self.iterations: list[int] = []
        self.train_scores: list[NDArray[Any]] = []
        self.values: list[float] = []

    def __call__(self, iteration: Iteration) -> None:
        assert iteration.valid_scores is not None
        self.iterations.append(iteration.number)
        self.train_scores.append(iteration.train_scores)
        self.values.append(evaluate(self.valid, iteration.valid_scores, [METRIC]).means[METRIC])


def stopped(kind: type[LibraryRanker], patience: int = 5) -> LibraryRanker:
    return kind(
        num_trees=60, learning_rate=0.3, early_stopping=EarlyStopping(METRIC, patience), num_threads=1
    )


@both
def test_the_kept_trees_have_the_best_validation_value(kind: type[LibraryRanker]) -> None:
    train, valid = noisy(0), noisy(1)
    curve = Curve(valid)
    ranker = stopped(kind).fit(train, valid, curve)

    assert evaluate(valid, ranker.predict(valid.features), [METRIC]).means[METRIC] == max(curve.values)


@both
def test_the_earliest_best_is_kept_and_patience_ends_the_fit(kind: type[LibraryRanker]) -> None:
    train, valid = noisy(0), noisy(1)
    curve = Curve(valid)
    summary = stopped(kind, patience=5).fit(train, valid, curve).summary

    assert summary is not None
    assert summary.num_trees == 1 + int(np.argmax(curve.values))
    assert summary.num_iterations == summary.num_trees + 5
    assert curve.iterations == list(range(1, summary.num_iterations + 1))
    assert summary.monitor_seconds > 0


@both
def test_without_a_rule_or_a_validation_set_every_tree_is_kept(kind: type[LibraryRanker]) -> None:
    train, valid = noisy(0), noisy(1)
    for ranker in (stopped(kind).fit(train), kind(num_trees=60, num_threads=1).fit(train, valid)):
        assert ranker.summary is not None
        assert (ranker.summary.num_trees, ranker.summary.num_iterations) == (60, 60)
        assert ranker.summary.monitor_seconds == 0


@both
def test_a_fit_without_a_monitor_grows_the_same_trees(kind: type[LibraryRanker]) -> None:
    train, valid = noisy(0), noisy(1)
    watched = stopped(kind).fit(train, valid, Curve(valid))
    clean = watched.clean_copy().fit(train)

    np.testing.assert_array_equal(clean.predict(valid.features), watched.predict(valid.features))


@both
def test_the_monitor_gets_the_scores_of_the_current_trees(kind: type[LibraryRanker]) -> None:
    train, valid = noisy(0), noisy(1)
    curve = Curve(valid)
    ranker = kind(num_trees=7, num_threads=1).fit(train, valid, curve)

    assert curve.train_scores[-1].dtype == ranker.score_dtype
    np.testing.assert_array_equal(curve.train_scores[-1], ranker.predict(train.features))
    # One array per call: earlier scores have not been overwritten.
    assert not np.array_equal(curve.train_scores[0], curve.train_scores[-1])


@both
@pytest.mark.parametrize("sampled", [False, True])
def test_the_number_of_threads_changes_no_bit(
    kind: type[LibraryRanker], sampled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Three threads even on fewer cores.
    monkeypatch.setattr("ltrbench.rankers.library.resolve_threads", lambda num_threads: num_threads)
    sampling: dict[str, Any] = {
        LightGBMRanker: {"bagging_fraction": 0.5, "bagging_freq": 1, "feature_fraction": 0.5},
        XGBoostRanker: {"subsample": 0.5, "colsample_bytree": 0.5},
    }[kind]
    train = noisy(0, num_queries=300)
    one, two, three = (
        kind(num_trees=8, num_threads=n, **(sampling if sampled else {})).fit(train) for n in (1, 2, 3)
    )
    np.testing.assert_array_equal(two.predict(train.features), one.predict(train.features))
    np.testing.assert_array_equal(three.predict(train.features), one.predict(train.features))


@both
def test_a_loaded_ranker_is_the_saved_one(kind: type[LibraryRanker], tmp_path: Path) -> None:
    train, valid = noisy(0), noisy(1)
    saved = stopped(kind).fit(train, valid)
    saved.save(tmp_path)
    loaded = kind.load(tmp_path)

    assert loaded == saved
    assert loaded.summary == saved.summary
    np.testing.assert_array_equal(loaded.predict(valid.features), saved.predict(valid.features))
    for name, values in importance_of(saved).items():
        np.testing.assert_array_equal(importance_of(loaded)[name], values)


@both
def test_importance_counts_the_splits_of_the_kept_trees(kind: type[LibraryRanker]) -> None:
    data = noisy(0)
    importance = importance_of(kind(num_trees=3, num_leaves=4, num_threads=1).fit(data))

    assert importance["split"].shape == importance["gain"].shape == (data.num_features,)
    assert importance["split"].sum() == 3 * (4 - 1)
    np.testing.assert_array_equal(importance["gain"] > 0, importance["split"] > 0)


@both
def test_a_folder_without_a_ranker_or_of_another_is_refused(
    kind: type[LibraryRanker], tmp_path: Path
) -> None:
    with pytest.raises(ResultError, match=naming(tmp_path / "settings.json", "model folder")):
        kind.load(tmp_path)
    kind(num_trees=1, num_threads=1).fit(noisy(0)).save(tmp_path)
    other = LightGBMRanker if kind is XGBoostRanker else XGBoostRanker
    with pytest.raises(ResultError, match=naming("settings.json", other.__name__, "Load the model")):
        other.load(tmp_path)


@both
def test_a_damaged_or_missing_model_file_is_refused(kind: type[LibraryRanker], tmp_path: Path) -> None:
    kind(num_trees=1, num_threads=1).fit(noisy(0)).save(tmp_path)
    (model,) = (path for path in tmp_path.iterdir() if path.name != "settings.json")
    model.write_bytes(model.read_bytes()[:-100])
    with pytest.raises(ResultError, match=naming(model, "Copy the folder", "fit again")):
        kind.load(tmp_path)
    model.unlink()
    with pytest.raises(ResultError, match=naming(model, "No such file")):
        kind.load(tmp_path)


@both
def test_settings_that_cannot_be_read_are_refused(kind: type[LibraryRanker], tmp_path: Path) -> None:
    kind(num_trees=1, num_threads=1).fit(noisy(0)).save(tmp_path)
    path = tmp_path / "settings.json"
    settings = json.loads(path.read_text())
    settings["ranker"]["of_a_later_version"] = 1
    path.write_text(json.dumps(settings))
    with pytest.raises(ResultError, match="of_a_later_version"):
        kind.load(tmp_path)
    path.write_text("{")
    with pytest.raises(ResultError, match=naming(path, "model folder")):
        kind.load(tmp_path)


@both
def test_a_ranker_that_is_not_fitted_is_refused(kind: type[LibraryRanker], tmp_path: Path) -> None:
    for use in (
        lambda: kind().predict(noisy(0).features),
        lambda: importance_of(kind()),
        lambda: kind().save(tmp_path),
    ):
        with pytest.raises(ConfigError, match=naming("not fitted", "call fit")):
            use()


@both
def test_documents_of_another_width_are_refused_and_none_at_all_get_no_scores(
    kind: type[LibraryRanker],
) -> None:
    ranker = kind(num_trees=1, num_threads=1).fit(noisy(0))
    with pytest.raises(DataError, match=naming("(2, 5)", "6 features")):
        ranker.predict(np.zeros((2, 5), dtype=np.float32))
    assert ranker.predict(np.zeros((0, 6), dtype=np.float32)).shape == (0,)


@both
def test_a_document_alone_scores_the_same_bits(kind: type[LibraryRanker]) -> None:
    data = noisy(0)
    ranker = kind(num_trees=10).fit(data)
    alone = [ranker.predict(data.features[row : row + 1])[0] for row in range(40)]
    np.testing.assert_array_equal(alone, ranker.predict(data.features)[:40])


@both
@pytest.mark.parametrize(
    ("features", "labels", "query_start"),
    [
        (np.zeros((10, 2)), [0, 1] * 5, [0, 10]),
        (np.full((10, 2), np.nan), [0, 1] * 5, [0, 10]),
        (np.eye(10, 2), [0] * 10, [0, 10]),
        (np.eye(10, 2), [2] * 10, [0, 3, 10]),
        (np.eye(10, 2), [0, 1] * 5, range(11)),
        (np.eye(1, 2), [1], [0, 1]),
    ],
    ids=["constant", "missing", "irrelevant", "equal", "single", "one"],
)
@pytest.mark.parametrize("watched", [False, True])
def test_data_without_information_give_finite_constant_scores(
    kind: type[LibraryRanker], features: Any, labels: Any, query_start: Any, watched: bool
) -> None:
    data = RankingDataset(features=features, labels=labels, query_start=query_start)
    ranker = kind(num_trees=3, num_threads=1, early_stopping=EarlyStopping(patience=1))
    scores = ranker.fit(data, data if watched else None).predict(data.features)

    assert np.isfinite(scores).all()
    assert len(np.unique(scores)) == 1


@both
def test_a_field_of_the_ranker_cannot_be_set_through_extra(kind: type[LibraryRanker]) -> None:
    for name, field in (
        ("learning_rate", "learning_rate"),
        ("reg_lambda", "l2"),
        ("max_leaves", "num_leaves"),
    ):
        with pytest.raises(ConfigError, match=naming(f"extra.{name}", f"set the field {field} instead")):
            kind(extra={name: 1})


@dataclass(kw_only=True)
class WideLeaves(LightGBMRanker):
    documents: int


def test_warm_up_needs_no_value_of_a_field_that_a_derived_class_adds() -> None:
    WideLeaves(documents=50, num_threads=1).warm_up()


@both
def test_a_word_that_is_no_choice_is_refused_with_the_choices(kind: type[LibraryRanker]) -> None:
    choices = {LightGBMRanker: ("lambdarank", "rank_xendcg"), XGBoostRanker: ("ndcg", "map", "pairwise")}
    with pytest.raises(ConfigError, match=naming("objective", "'regression'", *choices[kind])):
        kind(**dict[str, Any](objective="regression"))


@both
def test_without_shared_parameters_nothing_is_reported_as_matched(kind: type[LibraryRanker]) -> None:
    (sentence,) = departures_of(kind(num_trees=3))
    assert all(part in sentence for part in (kind.library, "defaults", "shared parameters"))
    assert any("learning_rate" in each for each in departures_of(kind(num_leaves=31)))


@both
def test_a_fit_refuses_data_but_looks_for_no_cautions_on_the_clock(
    kind: type[LibraryRanker], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cautions(self: LibraryRanker, train: RankingDataset) -> None:
        pytest.fail(f"{self} looks for cautions in {train}")

    monkeypatch.setattr(kind, "_cautions_in", cautions)
    kind(num_trees=1, num_threads=1).fit(noisy(1))
    with pytest.raises(DataError, match=naming("labels[0]", 40)):
        kind(num_trees=1, num_threads=1).fit(replace(noisy(1), labels=np.full(noisy(1).num_documents, 40.0)))
