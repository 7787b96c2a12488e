"""The Ranker contract, tested for every YAML in conf/model and for a user's backends outside the package.

A YAML is enough for a new backend to be tested; no new test is needed.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from composed_jobs import composer
from messages import naming
from numpy.typing import NDArray
from paths import USER_BACKEND
from scipy.sparse import csr_array

from ltrbench.config import build, build_experiment, resolved
from ltrbench.data import RankingDataset
from ltrbench.data.features import FeatureMatrix
from ltrbench.errors import ConfigError, DataError, LtrbenchError
from ltrbench.folders import conf_dir
from ltrbench.measure import described
from ltrbench.metrics import evaluate
from ltrbench.models.trees import ensemble_scores
from ltrbench.rankers import BoostingRanker, Iteration, Ranker
from ltrbench.rankers.base import (
    Finding,
    Severity,
    concerns_of,
    departures_of,
    refuse,
    trees_of,
)
from ltrbench.rankers.importance import OF_LINEAR
from ltrbench.rankers.random import RandomRanker
from ltrbench.runs.spec import RunSpec

pytestmark = pytest.mark.slow  # fits of every backend


def _names(folder: Path) -> list[str]:
    return sorted(
        path.stem
        for path in folder.glob("model/*.yaml")
        if not path.stem.startswith("_")
    )


YAMLS = [*_names(conf_dir()), *_names(USER_BACKEND / "conf")]
# The presets of the native engine differ by settings alone; RankLib's differ most.
MODELS = [
    name for name in YAMLS if not name.startswith("native_") or name == "native_ranklib"
]


WITHOUT_STOPPING = "early_stopping=null"
SMALLER = {
    "coordinate_ascent": ("model.restarts=2", "model.iterations=5"),
    "mlp": ("model.num_epochs=15", "model.width=32", "model.schedule=cosine"),
    "dasalc_like": (
        "model.num_epochs=10",
        "model.width=16",
        "model.num_blocks=1",
        "model.dropout=0",
    ),
    "random_forest": ("model.num_trees=20",),
}
"""Settings with which a model shows the same in less time."""


@pytest.fixture(autouse=True)
def _user_module_in_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(USER_BACKEND))


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make(model: str, *overrides: str) -> Ranker:
    return build(composed(model, *overrides), "model", Ranker)


@cache
def composed(model: str, *overrides: str) -> Any:
    """Returns a configuration, which no test changes."""
    smaller = SMALLER.get(model, ())
    words = [f"model={model}", "params.num_trees=15", *smaller, *overrides]
    return composer(f"file://{USER_BACKEND / 'conf'}").composed(words)[0]


def make_data(
    seed: int, num_queries: int = 60, num_features: int = 8
) -> RankingDataset:
    """Returns queries of 1 to 30 documents with labels that depend on some features, and with the cases that
    are difficult for a backend."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 31, num_queries)
    sizes[:3] = 1  # single-document queries
    query_start = np.concatenate([[0], np.cumsum(sizes)])
    features = rng.normal(size=(query_start[-1], num_features)).astype(np.float32)
    features[:, 3] = 1.5  # a constant feature
    features[:, 4] = np.round(features[:, 4])  # few values
    features[rng.random(len(features)) < 0.2, 5] = np.nan  # missing values
    utility = (
        features[:, 0]
        + 0.7 * features[:, 1] * (features[:, 4] > 0)
        + 0.3 * rng.normal(size=len(features))
    )
    labels = np.digitize(utility, [0.3, 1.0, 1.8, 2.5]).astype(np.float64)
    for query in range(
        3, 8
    ):  # queries whose labels are all equal, with and without a relevant document
        labels[query_start[query] : query_start[query + 1]] = query % 2
    return RankingDataset(features=features, labels=labels, query_start=query_start)


TRAIN, VALID, TEST = make_data(1), make_data(2), make_data(3)


@pytest.fixture(scope="module")
def fitted() -> Iterator[dict[str, Ranker]]:
    """Each model, fitted once with the settings of its YAML, for tests that do not change it."""
    sys.path.insert(0, str(USER_BACKEND))
    yield {name: make(name).fit(TRAIN, VALID) for name in MODELS}
    sys.path.remove(str(USER_BACKEND))


def test_it_beats_random(model: str, fitted: dict[str, Ranker]) -> None:
    if model == "random":
        pytest.skip("random is the baseline")
    assert fitted[model].score(TEST) > fitted["random"].score(TEST) + 0.05


def test_scores_are_one_finite_number_per_document_in_the_declared_dtype(
    model: str, fitted: dict[str, Ranker]
) -> None:
    scores = fitted[model].predict(TEST.features)
    assert scores.shape == (TEST.num_documents,)
    assert scores.dtype == fitted[model].score_dtype
    assert np.isfinite(scores).all()


def _table(
    data: RankingDataset, rows: NDArray[np.int64] | slice = slice(None)
) -> tuple[Any, Any, Any]:
    """Returns features by name, labels and query ids of rows."""
    names = [f"f{number}" for number in range(data.num_features)]
    queries = data.query_ids[data.query_of_document]
    return (
        pd.DataFrame(data.features, columns=names).iloc[rows],
        data.labels[rows],
        queries[rows],
    )


def test_a_table_gives_the_bits_of_its_data_set_and_its_columns_are_found_by_name(
    model: str, fitted: dict[str, Ranker], tmp_path: Path
) -> None:
    expected = fitted[model].predict(TEST.features)
    numbered = pd.DataFrame(TEST.features).assign(qid="q1")
    assert_same_bits(fitted[model].predict(numbered), expected)
    # Every query is scattered; its documents stay in order.
    frame, labels, qid = _table(
        TRAIN, np.lexsort((TRAIN.query_of_document, TRAIN.ranks_of_rows))
    )
    ranker: Any = make(model)
    assert ranker.fit(frame, labels, qid=qid, valid=_table(VALID)) is ranker
    other = _table(TEST)[0].iloc[:, ::-1].assign(brand="x", qid=0)
    np.testing.assert_array_equal(ranker.predict(other), expected)
    ranker.save(tmp_path)
    loaded: Any = type(ranker).load(tmp_path)
    assert loaded.feature_names == ranker.feature_names == tuple(frame.columns)
    np.testing.assert_array_equal(loaded.predict(other), expected)
    with_queries = other.assign(qid=_table(TEST)[2])
    in_lists = fitted[model].predict_lists(TEST.features, TEST.query_start)
    assert (
        loaded.score(with_queries, TEST.labels)
        == evaluate(TEST, in_lists, ["ndcg@10"]).means["ndcg@10"]
    )
    with pytest.raises(DataError, match=naming("'f0'")):
        loaded.predict(other.drop(columns=["f0", "f3"]))
    for kind in (np.asarray, csr_array):
        again: Any = make(model)
        again.fit(
            kind(TRAIN.features), TRAIN.labels, group=TRAIN.query_sizes, valid=VALID
        )
        np.testing.assert_array_equal(again.predict(kind(TEST.features)), expected)


def test_the_same_seed_gives_the_same_scores_on_any_number_of_threads_and_the_input_is_not_changed(
    model: str, fitted: dict[str, Ranker]
) -> None:
    before = (TRAIN.fingerprint, VALID.fingerprint)
    train, valid = (
        replace(item, features=item.features.copy()) for item in (TRAIN, VALID)
    )
    features = TEST.features.copy()
    again = replace(make(model), num_threads=1).fit(train, valid).predict(features)
    assert (train.fingerprint, valid.fingerprint) == before
    assert_same_bits(features, TEST.features)
    assert_same_bits(again, fitted[model].predict(TEST.features))


def test_if_the_seed_does_not_matter_another_seed_gives_the_same_scores(
    model: str, fitted: dict[str, Ranker]
) -> None:
    ranker = fitted[model]
    if ranker.seed_matters(TRAIN.num_documents):
        pytest.skip("another seed may give other scores")
    other = replace(make(model), seed=1).fit(TRAIN, VALID)
    assert_same_bits(other.predict(TEST.features), ranker.predict(TEST.features))


def test_features_that_are_not_one_array_give_the_same_scores(
    model: str, fitted: dict[str, Ranker]
) -> None:
    # A run passes arrays to a user's backend that does not read blocks.
    if not (
        fitted[model].reads_blocks
        or type(fitted[model]).__module__.startswith("ltrbench.")
    ):
        pytest.skip("a user's backend that does not read blocks")
    queries = np.arange(TRAIN.num_queries)[::-1]
    matrix = TRAIN.take_queries(queries)
    assert isinstance(matrix.features, FeatureMatrix)
    by_blocks, whole = (
        make(model).fit(train, VALID) for train in (matrix, matrix.in_memory())
    )
    for features in (matrix.features, TEST.features):
        assert_same_bits(
            by_blocks.predict(features), whole.predict(np.asarray(features))
        )


def test_the_score_of_a_document_does_not_depend_on_its_batch(
    model: str, fitted: dict[str, Ranker]
) -> None:
    if fitted[model].is_listwise:
        pytest.skip("tests/rankers/test_mlp.py tests it")
    together = fitted[model].predict(TEST.features)
    assert_same_bits(
        fitted[model].predict_lists(TEST.features, TEST.query_start), together
    )
    alone = np.concatenate(
        [fitted[model].predict(TEST.features[row : row + 1]) for row in range(40)]
    )
    backwards = fitted[model].predict(TEST.features[::-1])[::-1]
    assert_same_bits(alone, together[:40])
    assert_same_bits(backwards, together)


def test_a_saved_model_is_loaded_without_pickle_and_is_the_same(
    model: str,
    fitted: dict[str, Ranker],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a saved model was unpickled")

    saved = fitted[model]
    saved.save(tmp_path)
    # Before the refusal, because numba keeps compiled code in pickles.
    scores = saved.predict(TEST.features)
    importance = saved.importance()
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    loaded = type(saved).load(tmp_path)
    assert_same_bits(loaded.predict(TEST.features), scores)
    assert loaded == saved
    if isinstance(loaded, BoostingRanker):
        assert loaded.summary == saved.summary
    for kind, values in importance.items():
        assert_same_bits(loaded.importance()[kind], values)


_VALUES: tuple[Any, ...] = (
    *(1, 2, 3, 7, 0.5, True, False),
    *("none", "log1p", "attention", "additive", "map", "lossguide", "Lossguide"),
)


def _set_other(ranker: Ranker, name: str) -> None:
    """Sets a setting to another value, if any of _VALUES is valid."""
    before = ranker.get_params()[name]
    for value in _VALUES:
        if value == before:
            continue
        with contextlib.suppress(LtrbenchError, TypeError, ValueError, AttributeError):
            ranker.set_params(**{name: value})
            return


def test_settings_that_are_changed_after_a_fit_wait_for_the_next_one(
    model: str, fitted: dict[str, Ranker], tmp_path: Path
) -> None:
    ranker = pickle.loads(pickle.dumps(fitted[model]))
    for name in ranker.get_params():
        _set_other(ranker, name)
    assert ranker.seed != fitted[model].seed
    assert ranker.is_listwise == fitted[model].is_listwise
    lists = (TEST.features, TEST.query_start)
    scores = fitted[model].predict_lists(*lists)
    assert_same_bits(ranker.predict_lists(*lists), scores)
    importance = fitted[model].importance()
    for kind, values in ranker.importance().items():
        assert_same_bits(values, importance[kind])
    ranker.save(tmp_path)
    loaded = type(ranker).load(tmp_path)
    assert_same_bits(loaded.predict_lists(*lists), scores)
    assert replace(loaded, num_threads=0) == replace(fitted[model], num_threads=0)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(([0.5], [1], [0, 1]), id="one document"),
        pytest.param(([0.5, 0.1, 0.7], [0, 0, 0], [0, 3]), id="nothing relevant"),
        pytest.param(([0.5, 0.5, 0.5], [0, 1, 2], [0, 3]), id="equal features"),
        pytest.param(
            ([0.5, 0.1, 0.7], [2, 1, 0], [0, 1, 2, 3]), id="single-document queries"
        ),
    ],
)
def test_it_survives(
    model: str, data: tuple[list[float], list[int], list[int]]
) -> None:
    features, labels, query_start = data
    tiny = RankingDataset(
        features=np.array(features, dtype=np.float32)[:, None],
        labels=np.array(labels, dtype=np.float64),
        query_start=np.array(query_start),
    )
    # Early stopping refuses a validation set without a relevant document.
    has_metric = bool(tiny.labels.any())
    ranker = make(model) if has_metric else make(model, WITHOUT_STOPPING)
    scores = ranker.fit(tiny, tiny if has_metric else None).predict(tiny.features)
    assert np.isfinite(scores).all()


def test_wrong_features_an_unfitted_model_and_an_empty_folder_are_refused(
    model: str, fitted: dict[str, Ranker], tmp_path: Path
) -> None:
    with pytest.raises(LtrbenchError, match="fit"):
        make(model).predict(TEST.features)
    wrong: Any = {"seed": "0"}
    with pytest.raises(ConfigError, match=naming("seed", "'0'", "a whole number")):
        replace(make(model), **wrong)
    with pytest.raises(LtrbenchError, match=str(tmp_path)):
        type(fitted[model]).load(tmp_path)
    with pytest.raises(LtrbenchError, match="8 features"):
        fitted[model].predict(TEST.features[:, :5])


def test_a_table_without_rows_has_no_scores_but_needs_every_column(
    model: str, fitted: dict[str, Ranker]
) -> None:
    ranker = fitted[model]
    empty = pd.DataFrame(TEST.features[:0]).assign(qid="")
    sparse = csr_array(TEST.features[:0].astype(np.float64))
    for table in (TEST.features[:0], sparse, empty):
        scores = ranker.predict(table)
        assert scores.shape == (0,)
        assert scores.dtype == ranker.score_dtype
    contributions: Callable[[Any], NDArray[Any] | None] = ranker.contributions
    of_empty = contributions(empty)
    if contributions(TEST.features[:1]) is not None:
        assert of_empty is not None
        assert of_empty.shape == (0, 9)
    else:
        assert contributions(pd.DataFrame(TEST.features).assign(qid="")) is None
    with pytest.raises(DataError, match="8 features"):
        ranker.predict(empty.drop(columns=3))


NO_FEATURES: list[tuple[Any, tuple[str, ...]]] = [
    (
        TEST.features[:2].tolist(),
        ("list", "(documents, 8)", "np.asarray(features, dtype=np.float32)"),
    ),
    (pd.DataFrame(np.c_[TEST.features[:2], [0, 1]]), ("9 columns", "8 features")),
    (TEST, ("RankingDataset", "dataset.features")),
    (TEST.features[0], ("(8,)", "8 features", "features.reshape(1, 8)")),
    (TEST.features[:2].astype(object), ("object", "astype(np.float32)")),
    (
        TEST.features[:2].astype(float) * [1, 1, 1, 1e300, 1, 1, 1, 1],
        ("range of float32", "3.4e38"),
    ),
]


def test_a_wrong_type_of_features_is_named_with_the_expected_shape_and_the_remedy(
    model: str, fitted: dict[str, Ranker]
) -> None:
    ranker = fitted[model]
    methods: list[Callable[[Any], object]] = [ranker.predict]
    if ranker.contributions(TEST.features[:1]) is not None:
        methods.append(ranker.contributions)
    for features, fragments in NO_FEATURES:
        for method in methods:
            with pytest.raises(DataError, match=naming(*fragments)):
                method(features)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.bool_])
def test_any_numbers_are_scored_as_their_float32(
    model: str, fitted: dict[str, Ranker], dtype: type[np.generic]
) -> None:
    given = np.abs(np.nan_to_num(TEST.features)).astype(dtype) + np.zeros(1, dtype)
    if dtype is np.float64:
        given += np.float64(1e-9)  # which float32 rounds away
        given[0, 0] = np.nan
    ranker = fitted[model]
    assert_same_bits(ranker.predict(given), ranker.predict(given.astype(np.float32)))
    contributions = ranker.contributions(given)
    if contributions is not None:
        expected = ranker.contributions(given.astype(np.float32))
        assert expected is not None
        assert_same_bits(contributions, expected)


def test_importances_are_one_number_per_feature_and_0_for_a_constant_feature(
    model: str, fitted: dict[str, Ranker]
) -> None:
    for kind, values in fitted[model].importance().items():
        assert kind in ("split", "gain", *OF_LINEAR)
        assert values.shape == (TRAIN.num_features,)
        assert kind in OF_LINEAR or (values >= 0).all()
        assert values.any() == (
            model != "random"
        )  # the only model that needs no feature
        assert values[3] == 0


def test_the_trees_sum_up_to_its_scores(model: str, fitted: dict[str, Ranker]) -> None:
    # The training documents, and documents with missing values in features that had none in training.
    features = np.concatenate(
        [TRAIN.features, np.where(TEST.features > 1, np.nan, TEST.features)]
    )
    if not isinstance(fitted[model], BoostingRanker):
        with pytest.raises(
            ConfigError,
            match=naming(type(fitted[model]).__name__, "trees", "model=native"),
        ):
            trees_of(fitted[model])
        return
    expected = fitted[model].predict(features)
    np.testing.assert_array_equal(
        ensemble_scores(fitted[model].trees(), features), expected
    )
    summed = ensemble_scores(trees_of(fitted[model]), features)
    np.testing.assert_allclose(
        summed, expected, rtol=1e-5 if expected.dtype == np.float32 else 1e-12
    )


def test_the_contributions_of_features_and_the_expected_score_add_up_to_the_raw_score(
    model: str, fitted: dict[str, Ranker]
) -> None:
    features = np.concatenate(
        [TRAIN.features, np.where(TEST.features > 1, np.nan, TEST.features)]
    )
    ranker = fitted[model]
    contributions = ranker.contributions(features)
    if contributions is None:
        # CatBoost's contributions do not sum to scores in trees that are not symmetric, as with num_leaves.
        assert not isinstance(ranker, BoostingRanker) or model == "catboost"
        return
    assert contributions.shape == (len(features), TRAIN.num_features + 1)
    assert contributions.dtype == np.float64
    expected = ranker.predict(features)
    rounding = 1e-5 if expected.dtype == np.float32 else 1e-10
    np.testing.assert_allclose(
        contributions.sum(axis=1), expected, rtol=rounding, atol=rounding
    )
    assert (contributions[:, -1] == contributions[0, -1]).all()
    for feature, splits in enumerate(ranker.importance()["split"]):
        assert (splits == 0) == (not contributions[:, feature].any())


def test_boosting_stops_by_validation_and_keeps_the_best_iteration(
    model: str, fitted: dict[str, Ranker]
) -> None:
    if not isinstance(fitted[model], BoostingRanker):
        pytest.skip(f"{model} is not boosted")
    ranker = make(
        model,
        "params.num_trees=60",
        "early_stopping.patience=5",
        "early_stopping.metric=ndcg@5",
    )
    values: list[float] = []

    def record(iteration: Iteration) -> None:
        assert iteration.number == len(values) + 1
        assert iteration.train_scores.shape == (TRAIN.num_documents,)
        assert iteration.valid_scores is not None
        values.append(
            evaluate(VALID, iteration.valid_scores, ["ndcg@5"]).means["ndcg@5"]
        )

    ranker.fit(TRAIN, VALID, record)
    best = int(np.argmax(values)) + 1  # the earliest of equals
    assert ranker.summary is not None
    assert ranker.summary.num_trees == best
    assert ranker.summary.num_iterations == len(values) == min(best + 5, 60)
    kept = evaluate(VALID, ranker.predict(VALID.features), ["ndcg@5"]).means["ndcg@5"]
    assert kept == pytest.approx(values[best - 1], abs=1e-9)


def _with_categories(data: RankingDataset) -> RankingDataset:
    """Returns the data set with categories as the feature with few values."""
    features = data.features.copy()
    features[:, 4] = np.clip(features[:, 4] + 2, 0, 4)
    return replace(data, features=features, categories={"5": tuple("abcde")})


@pytest.mark.parametrize("read", [_with_categories, lambda data: data])
def test_the_scores_of_a_curve_are_those_of_the_model_saved_at_that_iteration(
    model: str, read: Callable[[RankingDataset], RankingDataset], tmp_path: Path
) -> None:
    ranker = make(model)
    if ranker.iterations_field is None:
        pytest.skip(f"{model} has no iterations")
    train, valid = read(TRAIN), read(VALID)
    iterations: list[Iteration] = []
    ranker.fit(train, valid, iterations.append)
    for iteration in (iterations[0], iterations[4]):
        at_iteration = ranker.with_iterations(iteration.number).fit(train)
        folder = tmp_path / str(iteration.number)
        at_iteration.save(folder)
        saved = type(ranker).load(folder)
        for data, scores in (
            (train, iteration.train_scores),
            (valid, iteration.valid_scores),
        ):
            assert scores is not None
            expected: Any = saved.predict_lists(data.features, data.query_start)
            np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", YAMLS)
def test_every_yaml_can_be_built_as_an_experiment(model: str) -> None:
    config = composed(model)
    choices: dict[str, str | None] = {"model": model, "params": "matched"}
    spec = RunSpec(settings=resolved(config), choices=choices, overrides=())
    experiment = build_experiment(spec)
    assert experiment.model == model
    # A run records the settings of the YAML.
    settings = dict(experiment.spec.settings["model"])
    recorded = described(experiment.ranker)
    assert recorded["class"] == settings.pop("_target_")
    assert settings.items() <= recorded["fields"].items()


def assert_same_bits(left: NDArray[Any], right: NDArray[Any]) -> None:
    assert left.dtype == right.dtype
    np.testing.assert_array_equal(left, right)


def test_weights_that_vary_within_a_query_are_learned_from_or_refused(
    model: str,
) -> None:
    plain = make_data(1)
    varied = replace(
        plain,
        document_weights=np.tile([1.0, 2.0], plain.num_documents)[
            : plain.num_documents
        ],
    )
    ranker = make(model, WITHOUT_STOPPING)
    concerns = concerns_of(ranker, varied)
    if any(
        sentence.startswith("Refused: ") and "weight" in sentence
        for sentence in concerns
    ):
        with pytest.raises(DataError, match="weight"):
            ranker.fit(varied)
        return
    scores = ranker.fit(varied).predict(plain.features)
    if isinstance(ranker, BoostingRanker):
        unweighted = make(model, WITHOUT_STOPPING).fit(plain).predict(plain.features)
        assert not np.array_equal(scores, unweighted)


def test_the_unit_of_the_weights_changes_no_score(model: str) -> None:
    weights = np.ones(TRAIN.num_queries)
    unit, tiny = (replace(TRAIN, query_weights=weights * by) for by in (1, 2.0**-20))
    scores = make(model).fit(tiny, VALID).predict(TEST.features)
    assert_same_bits(scores, make(model).fit(unit, VALID).predict(TEST.features))


def test_positions_are_used_or_a_caution_says_that_they_are_not(model: str) -> None:
    shown = replace(TRAIN, positions=TRAIN.ranks_of_rows)
    ranker = make(model)
    if ranker.is_yardstick:
        return
    new = {*concerns_of(ranker, shown)} - {*concerns_of(ranker, TRAIN)}
    assert any("debias=weights" in text or "model." in text for text in new)


def test_the_severity_of_a_finding_decides_its_effect() -> None:
    class Choosy(RandomRanker):
        def findings(self, train: RankingDataset | None) -> Iterator[Finding]:
            yield Finding(Severity.UNMATCHED, "It has no leaves.")
            if train is not None:
                yield Finding(Severity.CAUTION, "Ties are broken.")
                yield Finding(Severity.REFUSED, "Labels are missing.")
                yield Finding(Severity.REFUSED, "Features are missing.")

    assert departures_of(Choosy()) == ("It has no leaves.",)
    assert concerns_of(Choosy(), TRAIN) == (
        "Refused: Labels are missing.",
        "Refused: Features are missing.",
        "Ties are broken.",
    )
    with pytest.raises(DataError, match=naming("Labels are missing.")):
        refuse(Choosy(), TRAIN)


def test_a_clean_fit_gives_the_kept_model(
    model: str, fitted: dict[str, Ranker]
) -> None:
    clean = fitted[model].clean_copy().fit(TRAIN)
    assert_same_bits(clean.predict(TEST.features), fitted[model].predict(TEST.features))
