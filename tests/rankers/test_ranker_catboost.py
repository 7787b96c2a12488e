"""CatBoost's adapter: it passes its parameters on, monitors scores, and refuses unsupported settings."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import catboost as cb
import numpy as np
import pytest
from messages import naming
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, DataError, ResultError
from ltrbench.metrics import evaluate
from ltrbench.rankers import EarlyStopping, Iteration
from ltrbench.rankers.capabilities import concerns_of, departures_of
from ltrbench.rankers.catboost import LARGE_QUERY_SIZE, CatBoostRanker
from ltrbench.rankers.native import NativeRanker

METRIC = "ndcg@10"

LOSSES: dict[str, dict[str, Any]] = {
    "LambdaMart": {"num_leaves": 15, "learning_rate": 0.1, "l2": 0.0, "truncation": 30},
    "YetiRank": {"loss": "YetiRank", "num_leaves": 15, "learning_rate": 0.1, "l2": 0.0},
}
both = pytest.mark.parametrize("fields", LOSSES.values(), ids=LOSSES)


def graded(seed: int = 0, num_queries: int = 60, **more: Any) -> RankingDataset:
    rng = np.random.default_rng(seed)
    query_start = np.concatenate([[0], np.cumsum(rng.integers(5, 40, num_queries))])
    features = rng.normal(size=(query_start[-1], 5)).astype(np.float32)
    labels = np.clip(np.round(features[:, 0] + rng.normal(size=len(features))), 0, 3)
    return RankingDataset(features=features, labels=labels, query_start=query_start, **more)


def scores_of(data: RankingDataset, **fields: Any) -> NDArray[np.floating[Any]]:
    return fitted(data, **fields).predict(data.features)


def fitted(data: RankingDataset, **fields: Any) -> CatBoostRanker:
    return CatBoostRanker(**{"num_trees": 6, "num_threads": 1, **fields}).fit(data)


def dataset(features: Any, labels: Any, query_start: Any) -> RankingDataset:
    return RankingDataset(features=features, labels=labels, query_start=query_start)


class Curve:
    """Records the scores passed to `on_iteration`."""

    def __init__(self) -> None:
        self.train: list[NDArray[Any]] = []
        self.valid: list[NDArray[Any] | None] = []

    def __call__(self, iteration: Iteration) -> None:
        assert iteration.number == len(self.train) + 1
        self.train.append(iteration.train_scores)
        self.valid.append(iteration.valid_scores)


def test_by_default_the_adapter_trains_the_model_of_catboost_itself() -> None:
    weights = np.linspace(0.5, 2.0, 60)
    data = graded(query_weights=weights)
    pool = cb.Pool(
        data.features,
        label=data.labels,
        group_id=data.query_of_document,
        group_weight=weights[data.query_of_document],
    )
    model = cb.CatBoost(
        {"loss_function": "YetiRank", "iterations": 6, "random_seed": 0, "thread_count": 1}
        | {"allow_writing_files": False, "logging_level": "Silent"}
    ).fit(pool)

    np.testing.assert_array_equal(scores_of(data), model.predict(data.features))


@pytest.mark.parametrize(
    ("fields", "of_native"),
    [
        ({}, {}),
        ({"learning_rate": 0.5}, {"learning_rate": 0.5}),
        ({"truncation": 3}, {"truncation": 3}),
        ({"sigma": 2.0}, {"sigma": 2.0}),
        ({"norm": False}, {"normalize_distance": False, "normalize_query": False}),
    ],
    ids=str,
)
def test_with_only_one_possible_split_lambdamart_equals_native(
    fields: dict[str, Any], of_native: dict[str, Any]
) -> None:
    """The gradients, the hessians and the steps are the same; only the choice of splits differs."""
    plain = graded()
    data = replace(plain, features=(plain.features[:, :1] > 0.3).astype(np.float32), feature_names=())
    shared: dict[str, Any] = {
        "num_trees": 5,
        "num_leaves": 2,
        "learning_rate": 0.1,
        "truncation": 30,
        "l2": 0.0,
        "max_bins": 255,
    }
    unbounded = {"min_docs_in_leaf": 1, "min_sum_hessian": 0.0}
    native = NativeRanker(**{**shared, **unbounded, **of_native}).fit(data).predict(data.features)
    # CatBoost stores the learning rate in float32.
    np.testing.assert_allclose(scores_of(data, **{**shared, **fields}), native, rtol=1e-6)


@both
def test_both_losses_learn(fields: dict[str, Any]) -> None:
    train, test = graded(0), graded(1)
    scores = fitted(train, **fields, num_trees=30).predict(test.features)
    backwards = evaluate(test, -test.features[:, 0].astype(np.float64), [METRIC]).means[METRIC]
    ideal = evaluate(test, test.features[:, 0].astype(np.float64), [METRIC]).means[METRIC]
    assert evaluate(test, scores, [METRIC]).means[METRIC] > 0.9 * ideal > backwards


def test_the_loss_is_lambdamart_unless_no_shared_parameter_is_set() -> None:
    data, shared = graded(), LOSSES["LambdaMart"]
    np.testing.assert_array_equal(scores_of(data, **shared), scores_of(data, **shared, loss="LambdaMart"))
    np.testing.assert_array_equal(scores_of(data), scores_of(data, loss="YetiRank"))


def test_catboosts_lambdamart_steps_in_the_wrong_direction_with_l2_so_l2_is_refused() -> None:
    data = graded()
    pool = cb.Pool(data.features, label=data.labels, group_id=data.query_of_document)
    quiet = {"allow_writing_files": False, "logging_level": "Silent", "thread_count": 1, "random_seed": 0}
    settings = {"loss_function": "LambdaMart:metric=NDCG", "iterations": 6, **quiet}

    def agreement(l2: float) -> float:
        scores = cb.CatBoost({**settings, "l2_leaf_reg": l2}).fit(pool).predict(data.features)
        return float(np.corrcoef(scores, data.labels)[0, 1])

    assert agreement(0.0) > 0.3
    assert agreement(100.0) < -0.3


@pytest.mark.parametrize(
    "fields",
    [
        {"truncation": 2},
        {"sigma": 2.0},
        {"norm": False},
        {"exponential_gain": False},
        {"num_leaves": 5},
        {"learning_rate": 0.5},
        {"max_bins": 4},
        {"depth": 2},
        {"num_leaves": None, "grow_policy": "SymmetricTree"},
        {"num_leaves": None, "grow_policy": "Depthwise"},
        {"score_function": "Cosine"},
        {"random_strength": 2.0},
        {"subsample": 0.5},
        {"bootstrap_type": "Bayesian"},
        {"bootstrap_type": "MVS", "subsample": 0.5},
        {"rsm": 0.5},
        {"extra": {"min_data_in_leaf": 100}},
    ],
    ids=str,
)
def test_every_parameter_arrives(fields: dict[str, Any]) -> None:
    data = graded()
    usual = LOSSES["LambdaMart"]
    assert not np.array_equal(scores_of(data, **{**usual, **fields}), scores_of(data, **usual))


@pytest.mark.parametrize("fields", [{"permutations": 2}, {"decay": 0.5}, {"l2": 5.0}, {"seed": 1}], ids=str)
def test_every_parameter_of_yetirank_arrives(fields: dict[str, Any]) -> None:
    data, usual = graded(), LOSSES["YetiRank"]
    assert not np.array_equal(scores_of(data, **{**usual, **fields}), scores_of(data, **usual))


def test_max_bins_is_the_maximum_number_of_bins() -> None:
    data = graded()
    one_feature = replace(data, features=data.features[:, :1], feature_names=())
    scores = scores_of(one_feature, num_leaves=31, max_bins=4)
    assert len(np.unique(scores)) == 4


def test_a_tree_has_num_leaves_leaves() -> None:
    importance = fitted(graded(), num_trees=3, num_leaves=7).importance()
    assert importance["split"].sum() == 3 * (7 - 1)
    oblivious = fitted(graded(), num_trees=3, grow_policy="SymmetricTree", depth=4).importance()
    assert oblivious["split"].sum() == 3 * 4


def test_only_symmetric_trees_explain_their_scores() -> None:
    data = graded()
    ranker = fitted(data, num_trees=3, grow_policy="SymmetricTree", depth=4)
    contributions = ranker.contributions(data.features)
    assert contributions is not None
    np.testing.assert_allclose(contributions.sum(axis=1), ranker.predict(data.features), rtol=1e-10)
    assert fitted(data, num_trees=3, num_leaves=7).contributions(data.features) is None


def test_l2_is_added_to_hessians_that_the_weights_scale() -> None:
    weights = np.linspace(0.5, 2.0, 60)
    usual = LOSSES["YetiRank"]
    once = scores_of(graded(query_weights=weights), **{**usual, "l2": 5.0})
    fourfold = scores_of(graded(query_weights=4 * weights), **{**usual, "l2": 20.0})
    np.testing.assert_allclose(fourfold, once, rtol=1e-6)
    unscaled = scores_of(graded(query_weights=4 * weights), **{**usual, "l2": 5.0})
    assert np.abs(unscaled - once).max() > 1e-3


def test_yetirank_follows_the_queries_that_weigh_more() -> None:
    data = graded()
    second = data.query_of_document >= 30  # with labels reversed against the first half
    labels = np.where(second, 3 - data.labels, data.labels)
    for heavy, sign in ((1, 1), (30, -1)):
        weights = np.where(np.arange(60) < 30, 30 / heavy, heavy)
        scores = scores_of(replace(data, labels=labels, query_weights=weights), **LOSSES["YetiRank"])
        assert sign * np.corrcoef(scores, data.features[:, 0])[0, 1] > 0.5


def test_lambdamart_accepts_only_equal_weights() -> None:
    usual = LOSSES["LambdaMart"]
    alike = scores_of(graded(query_weights=np.full(60, 3.0)), **usual)
    np.testing.assert_array_equal(alike, scores_of(graded(), **usual))
    with pytest.raises(
        DataError, match=naming("query_weights[1] is 2.0", "query_weights[0]", "loss=YetiRank")
    ):
        scores_of(graded(query_weights=np.arange(1.0, 61.0)), **usual)


@both
def test_the_monitor_gets_the_scores_of_the_current_trees(fields: dict[str, Any]) -> None:
    train, valid = graded(0), graded(1)
    valid = replace(valid, features=np.where(valid.features < -1.5, np.nan, valid.features))
    curve = Curve()
    ranker = CatBoostRanker(**fields, num_trees=6).fit(train, valid, curve)
    np.testing.assert_array_equal(curve.train[-1], ranker.predict(train.features))
    np.testing.assert_array_equal(curve.valid[-1], ranker.predict(valid.features))
    first = CatBoostRanker(**fields, num_trees=1).fit(train)
    np.testing.assert_array_equal(curve.train[0], first.predict(train.features))

    alone = Curve()
    CatBoostRanker(**fields, num_trees=2).fit(train, None, alone)
    np.testing.assert_array_equal(alone.train[-1], curve.train[1])
    assert alone.valid == [None, None]


@pytest.mark.parametrize("fields", [*LOSSES.values(), {}], ids=[*LOSSES, "symmetric"])
def test_stopping_early_ends_the_fit_and_keeps_the_best_trees_in_memory_and_on_disk(
    fields: dict[str, Any], tmp_path: Path
) -> None:
    train, valid = graded(0, num_queries=20), graded(1, num_queries=20)
    curve = Curve()
    ranker = CatBoostRanker(
        **{**fields, "learning_rate": 0.3}, num_trees=200, early_stopping=EarlyStopping(METRIC, 5)
    ).fit(train, valid, curve)
    values = [evaluate(valid, scores, [METRIC]).means[METRIC] for scores in curve.valid if scores is not None]
    best = int(np.argmax(values))

    assert ranker.summary is not None
    assert (ranker.summary.num_trees, ranker.summary.num_iterations) == (best + 1, len(values))
    assert len(values) == best + 1 + 5 < 200
    np.testing.assert_array_equal(ranker.predict(valid.features), curve.valid[best])
    ranker.save(tmp_path)
    loaded = CatBoostRanker.load(tmp_path)
    assert loaded == ranker
    np.testing.assert_array_equal(loaded.predict(valid.features), curve.valid[best])
    np.testing.assert_array_equal(loaded.importance()["split"], ranker.importance()["split"])
    clean = ranker.clean_copy().fit(train)
    np.testing.assert_array_equal(clean.predict(valid.features), curve.valid[best])


def test_validation_documents_that_are_all_alike_are_scored_as_predicted() -> None:
    valid = dataset(np.full((3, 5), 0.7), [0, 1, 0], [0, 3])
    curve = Curve()
    ranker = CatBoostRanker(num_trees=3, num_leaves=4, early_stopping=EarlyStopping(METRIC, 5))
    ranker.fit(graded(), valid, curve)
    np.testing.assert_array_equal(curve.valid[0], ranker.predict(valid.features))


def test_an_error_in_on_iteration_is_raised_unchanged() -> None:
    def fail(iteration: Iteration) -> None:
        raise ZeroDivisionError(f"at {iteration.number}")

    with pytest.raises(ZeroDivisionError, match=r"^at 1$"):
        CatBoostRanker(num_trees=5).fit(graded(), None, fail)


@pytest.mark.parametrize(
    "fields",
    [
        *LOSSES.values(),
        {},
        {**LOSSES["LambdaMart"], "subsample": 0.5, "rsm": 0.5, "random_strength": 1.0},
    ],
    ids=[*LOSSES, "symmetric", "sampled"],
)
def test_the_number_of_threads_changes_no_bit(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Three threads even on fewer cores.
    monkeypatch.setattr("ltrbench.rankers.library.resolve_threads", lambda num_threads: num_threads)
    train = graded(num_queries=300)
    one, two, three = (scores_of(train, **fields, num_threads=threads) for threads in (1, 2, 3))
    np.testing.assert_array_equal(two, one)
    np.testing.assert_array_equal(three, one)


def test_a_missing_value_is_treated_as_lower_than_every_other() -> None:
    data = graded()
    ranker = fitted(data, **LOSSES["LambdaMart"])
    missing, low = data.features.copy(), data.features.copy()
    missing[:, 0], low[:, 0] = np.nan, -1e30
    np.testing.assert_array_equal(ranker.predict(missing), ranker.predict(low))


@both
@pytest.mark.parametrize("value", [0.5, np.nan])
def test_features_that_do_not_vary_give_every_document_one_score(
    fields: dict[str, Any], value: float
) -> None:
    data = dataset(np.full((10, 2), value), [0, 1] * 5, [0, 10])
    for valid in (None, data):
        scores = CatBoostRanker(**fields, num_trees=3, early_stopping=EarlyStopping(METRIC, 1)).fit(
            data, valid
        )
        assert len(np.unique(scores.predict(np.vstack([data.features, np.eye(2, dtype=np.float32)])))) == 1


def test_grades_beyond_a_doubles_exponent_are_named() -> None:
    data = dataset(np.eye(3), [0, 1024, 1], [0, 3])
    with pytest.raises(DataError, match=naming("labels[1]", 1024.0, 1023, "exponential_gain=false")):
        scores_of(data, num_leaves=4)
    assert np.isfinite(scores_of(data, num_leaves=4, exponential_gain=False)).all()


def test_a_query_with_too_many_pairs_for_the_memory_is_a_caution_of_yetirank_only() -> None:
    size = LARGE_QUERY_SIZE + 1
    data = dataset(np.zeros((size, 1)), np.zeros(size), [0, size])
    (caution,) = concerns_of(CatBoostRanker(loss="YetiRank"), data)
    assert all(part in caution for part in (str(size), "0.4 GB", "loss=LambdaMart"))
    assert concerns_of(CatBoostRanker(loss="LambdaMart"), data) == ()


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({"min_docs_in_leaf": 20}, ("min_docs_in_leaf is 20", "Set min_docs_in_leaf=null")),
        ({"min_sum_hessian": 1e-3}, ("min_sum_hessian is 0.001", "CatBoost", "null or 0")),
        ({"min_split_gain": 1.0}, ("min_split_gain is 1.0", "CatBoost", "null or 0")),
        ({"max_delta_step": 1.0}, ("max_delta_step is 1.0", "CatBoost", "null or 0")),
        ({"max_bins": 65537}, ("max_bins", 65537, 65536)),
        ({"l2": 1.0}, ("l2 is 1.0", "LambdaMart", "Set l2=0", "loss=YetiRank")),
        (
            {"loss": "YetiRank", "truncation": 30},
            ("truncation is 30", "loss=YetiRank", "set truncation=null"),
        ),
        ({"loss": "YetiRank", "sigma": 2.0}, ("sigma is 2.0", "set sigma=1.0", "the other loss")),
        ({"loss": "LambdaMart", "decay": 0.5}, ("decay is 0.5", "set decay=null", "the other loss")),
        ({"loss": "QueryRMSE"}, ("loss", "'QueryRMSE'", "LambdaMart", "YetiRank")),
        (
            {"num_leaves": 31, "grow_policy": "SymmetricTree"},
            ("num_leaves is 31", "SymmetricTree", "to null"),
        ),
        ({"grow_policy": "lossguide"}, ("'lossguide'", "SymmetricTree", "Depthwise", "Lossguide")),
        (
            {"subsample": 0.5, "bootstrap_type": "No"},
            ("subsample is 0.5", "bootstrap_type=No", "Set bootstrap_type=Bernoulli"),
        ),
        ({"depth": 17}, ("depth", 17, 16)),
        ({"extra": {"eta": 0.1}}, ("extra.eta", "set the field learning_rate")),
        ({"extra": {"thread_count": 1}}, ("extra.thread_count", "set the field num_threads")),
        ({"extra": {"eval_metric": "NDCG"}}, ("extra.eval_metric", "CatBoost", "set metrics")),
        ({"extra": {"save_snapshot": True}}, ("extra.save_snapshot", "files", "remove it")),
        ({"extra": {"task_type": "GPU"}}, ("extra.task_type", "GPU", 1023, "remove it")),
        ({"extra": {"boosting_type": "Ordered"}}, ("extra.boosting_type", "shuffles", "remove it")),
        (
            {"extra": {"leaf_estimation_method": "Gradient"}},
            ("extra.leaf_estimation_method", "LambdaMart", "Newton", "remove it"),
        ),
        ({"extra": {"model_size_regg": 1}}, ("extra.model_size_regg", "CatBoost", "'model_size_reg'")),
    ],
    ids=str,
)
def test_an_unsupported_setting_is_refused_with_the_remedy(
    fields: dict[str, Any], parts: tuple[object, ...]
) -> None:
    with pytest.raises(ConfigError, match=naming(*parts)):
        CatBoostRanker(**fields)


def test_a_value_of_extra_that_catboost_refuses_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=naming("CatBoost", "extra", "{'model_size_reg': 'much'}")):
        scores_of(graded(), extra={"model_size_reg": "much"})


def test_minimums_of_0_are_accepted_and_have_no_effect() -> None:
    data, usual = graded(), LOSSES["LambdaMart"]
    zeros = {"min_split_gain": 0.0, "max_delta_step": 0.0, "min_sum_hessian": 0.0}
    np.testing.assert_array_equal(scores_of(data, **usual, **zeros), scores_of(data, **usual))


def test_differences_of_catboost_are_reported_when_they_apply() -> None:
    (sentence,) = departures_of(CatBoostRanker(num_trees=3))
    assert all(part in sentence for part in ("CatBoost", "defaults", "shared parameters"))
    (sentence,) = departures_of(CatBoostRanker(num_trees=3, loss="LambdaMart"))
    assert "l2 is 0" in sentence
    plain = CatBoostRanker(**LOSSES["LambdaMart"])
    other = CatBoostRanker(**LOSSES["YetiRank"], subsample=0.5)
    assert len(departures_of(other)) == len(departures_of(plain)) + 2
    assert any("min_docs_in_leaf" in sentence for sentence in departures_of(plain))


def test_a_file_that_is_not_a_model_is_refused(tmp_path: Path) -> None:
    fitted(graded()).save(tmp_path)
    (tmp_path / "model.cbm").write_bytes(b"another content")
    with pytest.raises(ResultError, match=naming(tmp_path / "model.cbm", "Copy the folder", "fit again")):
        CatBoostRanker.load(tmp_path)


def test_a_fit_writes_no_files_and_prints_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    CatBoostRanker(num_trees=2, early_stopping=EarlyStopping(METRIC, 1)).fit(graded(0), graded(1), Curve())
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_without_catboost_the_extra_is_named() -> None:
    code = "import sys; sys.modules['catboost'] = None; import ltrbench.rankers.catboost"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "pip install 'ltrbench[catboost]'" in done.stderr
