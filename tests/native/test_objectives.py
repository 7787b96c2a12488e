"""The contract of every objective in conf/model/objective, and trees of CatBoost for losses without noise.

A YAML is enough for a new objective to be tested. Properties that it does not have are in the sets below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml  # type: ignore[import-untyped]
from composed_jobs import composed
from engine_cases import COMPILED, dataset, query
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming
from numpy.typing import NDArray

from docs.pages import ROOT, titled_files
from ltrbench.cli.launch import flags_and_overrides
from ltrbench.compilation import threads
from ltrbench.data import RankingDataset
from ltrbench.data.synthetic import make_synthetic
from ltrbench.errors import ConfigError, DataError
from ltrbench.folders import conf_dir, find_class, settings_in
from ltrbench.metrics import evaluate
from ltrbench.native.objectives.base import Objective, ObjectiveData, prepare_objective
from ltrbench.native.objectives.cross_entropy import CrossEntropy
from ltrbench.native.objectives.hinge import Hinge
from ltrbench.native.objectives.lambdaloss import LambdaLoss
from ltrbench.native.objectives.listmle import ListMLE
from ltrbench.native.objectives.listnet import ListNet
from ltrbench.native.objectives.query_kernels import for_each_query
from ltrbench.native.objectives.query_rmse import QueryRMSE
from ltrbench.native.objectives.query_softmax import QuerySoftMax
from ltrbench.native.objectives.yetirank import MODES, YetiRank
from ltrbench.native.team import Alone, Placement
from ltrbench.rankers.base import Ranker
from ltrbench.rankers.native import NativeRanker


def _objectives() -> Iterator[tuple[str, Objective]]:
    for path in sorted(conf_dir().glob("model/objective/[a-z]*.yaml")):
        given = {
            key: value
            for key, value in yaml.safe_load(path.read_text()).items()
            if key != "defaults"
        }
        if (target := given.pop("_target_", "???")) != "???":
            kind = find_class(target, Objective, path.stem)
            for changed in [
                REQUIRED.get(path.stem, {}),
                *OTHER_SETTINGS.get(path.stem, []),
            ]:
                yield path.stem, kind(**{**given, **changed})


REQUIRED = {"approx_ndcg": {"temperature": 1.0}}
"""Settings without a default."""

OTHER_SETTINGS: dict[str, list[dict[str, Any]]] = {
    "approx_ndcg": [{"temperature": 0.1}],
    "lambdarank": [
        {"metric": "map", "normalize_query": False},
        {"metric": "err@2", "ties": "worst"},
    ],
    "lambdaloss": [
        {"variant": "rax", "weighting": "dcg2", "truncation": 2, "sigma": 2.0},
        {"variant": "allrank", "weighting": "ndcg1", "truncation": 3},
    ],
    "query_softmax": [{"softmax_lambda": 0.0, "beta": 2.0}],
    "ranknet": [{"normalize_distance": False, "normalize_query": False, "sigma": 2.0}],
    "stochastic_rank": [{"dialect": "catboost", "sigma": 0.5}],
    "yetirank": [
        {"mode": "NDCG", "noise": "Gauss"},
        {"mode": "ERR", "num_neighbors": None},
    ],
}
"""Settings to test besides the defaults."""

NOT_THE_SECOND_DERIVATIVE = {"query_rmse", "approx_ndcg"}
"""Objectives whose hessian is not the second derivative of the loss."""
NOT_ZERO_SUM = {"mart"}
"""Objectives whose gradients do not sum to 0 in a query."""

CASES = [
    pytest.param(name, objective, id=str(objective))
    for name, objective in _objectives()
]
LOSSES = [
    pytest.param(name, objective, id=str(objective))
    for name, objective in _objectives()
    if objective.is_loss
]
every_objective = pytest.mark.parametrize(("name", "objective"), CASES)


def with_accepted_labels(objective: Objective, data: RankingDataset) -> RankingDataset:
    """Returns the data with grades from 0 to 4, or the probabilities that the objective needs instead."""
    try:
        objective.check(data.labels, data.query_start)
    except DataError:
        return replace(data, labels=data.labels / 4)
    return data


def made_up(
    objective: Objective, seed: int, spread: float = 2.0
) -> tuple[RankingDataset, NDArray[np.float64]]:
    """Returns queries of 1 to 6 documents, with weights, and scores of which some are tied."""
    rng = np.random.default_rng(seed)
    sizes = [1, *rng.integers(1, 7, 5)]
    grades, features = rng.integers(0, 5, sum(sizes)), rng.normal(size=(sum(sizes), 3))
    data = with_accepted_labels(
        objective, dataset(features, grades, sizes, rng.uniform(0.5, 2.0, 6))
    )
    return data, np.round(rng.normal(size=sum(sizes)) * spread, rng.integers(0, 3))


@pytest.mark.parametrize(
    "objective",
    [objective for _, objective in _objectives() if not objective.is_loss],
    ids=str,
)
def test_an_objective_without_a_loss_raises(objective: Objective) -> None:
    data, scores = made_up(objective, 5)
    with pytest.raises(NotImplementedError):
        objective.loss(scores, ObjectiveData.of(data), 7)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "objective"), LOSSES)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_gradients_are_the_derivative_of_the_loss_and_hessians_the_second(
    name: str, objective: Objective, seed: int
) -> None:
    data, scores = made_up(objective, seed)
    if isinstance(
        objective, LambdaLoss | Hinge
    ):  # without ties, no step changes ranks or reaches a kink
        scores -= 3.1e-4 * np.arange(len(scores))
    fixed, step = ObjectiveData.of(data), 1e-5
    steps = step * np.eye(len(scores))

    def gradients(at: NDArray[np.float64]) -> NDArray[np.float64]:
        return objective.gradients(at, fixed, 7)[0]

    rise = [
        objective.loss(scores + e, fixed, 7) - objective.loss(scores - e, fixed, 7)
        for e in steps
    ]
    bend = [
        (gradients(scores + e) - gradients(scores - e))[i] for i, e in enumerate(steps)
    ]
    g, h = objective.gradients(scores, fixed, 7)
    size = 1e-6 * (1 + np.abs(g).max() + np.abs(h).max())
    assert np.isfinite(objective.loss(1000 * scores, fixed, 7))
    np.testing.assert_allclose(g, np.array(rise) / (2 * step), rtol=1e-6, atol=size)
    if isinstance(objective, QuerySoftMax):  # whose regularisation is not in its loss
        relevance = np.add.reduceat(
            fixed.weights * fixed.labels, fixed.query_start[:-1]
        )
        h = h - objective.beta * objective.softmax_lambda * np.repeat(
            relevance, data.query_sizes
        )
    if name not in NOT_THE_SECOND_DERIVATIVE:
        np.testing.assert_allclose(h, np.array(bend) / (2 * step), rtol=1e-5, atol=size)


@every_objective
@pytest.mark.parametrize("spread", [1.0, 1e3])
def test_a_document_of_weight_0_has_a_loss_and_no_hessian_without_a_gradient(
    name: str, objective: Objective, spread: float
) -> None:
    grades = np.tile([2.0, 0.0, 1.0, 3.0], 3)
    data = with_accepted_labels(
        objective, dataset(np.zeros((12, 1)), grades, [4, 4, 4], np.ones(3))
    )
    weights = np.array([0.0, 1, 1, 2, 1, 0, 1, 2, 1, 1, 2, 0])
    fixed = ObjectiveData.of(data)._replace(weights=weights)
    scores = spread * np.array([3.0, 1, 2, 0, 1, 4, 2, 0, 1, 0, 2, 5])
    g, h = objective.gradients(scores, fixed, 7)
    assert np.isfinite(g).all()
    assert (h >= 0).all()
    assert not h[(weights == 0) & (g == 0)].any()
    if objective.is_loss:
        assert np.isfinite(objective.loss(scores, fixed, 7))


@every_objective
def test_gradients_depend_on_the_query_alone(name: str, objective: Objective) -> None:
    data, scores = made_up(objective, 1)
    whole, order = ObjectiveData.of(data), np.array([4, 0, 5, 3, 2, 1])
    expected = objective.gradients(scores, whole, 3)
    with threads(1):
        alone = objective.gradients(scores, whole, 3)
    rows, shuffled = whole.take(order)
    for every, single, part in zip(
        expected, alone, objective.gradients(scores[rows], shuffled, 3), strict=True
    ):
        np.testing.assert_array_equal(single, every)
        np.testing.assert_array_equal(part, every[rows])
    if name not in NOT_ZERO_SUM:
        sums = np.add.reduceat(expected[0], whole.query_start[:-1])
        np.testing.assert_allclose(sums, 0, atol=1e-9 * (1 + np.abs(expected[0]).max()))
    other_seeds = (objective.gradients(scores, whole, seed) for seed in range(4, 12))
    assert objective.draws != all(
        np.array_equal(expected, other) for other in other_seeds
    )
    doubled = objective.gradients(scores, whole._replace(weights=2 * whole.weights), 3)
    np.testing.assert_allclose(doubled, 2 * np.array(expected), rtol=1e-9, atol=1e-12)


@every_objective
def test_gradients_do_not_change_the_data(name: str, objective: Objective) -> None:
    # Objectives of ltrbench see the data of the fit itself, not a copy.
    data, scores = made_up(objective, 1)
    whole = ObjectiveData.of(data)
    seen = objective.data_of_iteration(whole, np.random.default_rng(0))
    objective.gradients(scores, seen, 3)
    for array, expected in zip(whole, ObjectiveData.of(data), strict=True):
        np.testing.assert_array_equal(array, expected)


class _OneOfTwo(Alone):
    size = 2


@every_objective
def test_two_workers_and_samples_of_queries_see_the_gradients_of_one_process(
    name: str, objective: Objective
) -> None:
    data, scores = made_up(objective, 2)
    g, h = prepare_objective(objective, data)(scores, None, np.random.default_rng(5))
    for queries in (np.array([0, 3, 4]), np.array([1, 2, 5])):
        rows = np.isin(data.query_of_document, queries)
        sampled = prepare_objective(objective, data)(
            scores, queries, np.random.default_rng(5)
        )
        np.testing.assert_array_equal(sampled, [g * rows, h * rows])
        others = np.setdiff1d(np.arange(data.num_queries), queries)
        by_rank = np.concatenate([queries, others])
        placement = Placement(_OneOfTwo(), queries, data.query_sizes, by_rank)
        worker = prepare_objective(objective, data.take_queries(queries), placement)
        draws = placement.draws(np.random.default_rng(5))
        np.testing.assert_array_equal(
            worker(scores[rows], None, draws), [g[rows], h[rows]]
        )


@every_objective
def test_gradients_are_finite_for_distant_scores_and_for_queries_without_relevance(
    name: str, objective: Objective
) -> None:
    data, scores = made_up(objective, 3, spread=1e3)
    prepare_objective(objective, data)(
        scores, None, np.random.default_rng(0)
    )  # raises ConfigError if not
    irrelevant = ObjectiveData.of(data)._replace(labels=np.zeros(data.num_documents))
    assert np.isfinite(objective.gradients(scores, irrelevant, 0)).all()
    for far in (
        5e-324,
        1e308,
        np.inf,
    ):  # compiled code does not write outside its arrays
        with np.errstate(all="ignore"):
            objective.gradients(
                np.where(np.arange(len(scores)) % 2, far, -far), irrelevant, 0
            )


@COMPILED
@every_objective
def test_native_fits_saves_and_loads_every_objective(
    name: str, objective: Objective, tmp_path: Path
) -> None:
    data, _ = made_up(objective, 4)
    ranker = NativeRanker(objective=objective, num_trees=2, min_docs_in_leaf=1).fit(
        data
    )
    ranker.save(tmp_path)
    loaded = NativeRanker.load(tmp_path)
    assert loaded.objective == objective
    np.testing.assert_array_equal(
        loaded.predict(data.features), ranker.predict(data.features)
    )


@pytest.mark.slow
@COMPILED
@every_objective
def test_trees_rank_documents_that_they_have_not_seen(
    name: str, objective: Objective
) -> None:
    data = make_synthetic(num_queries=120, seed=1)
    train, test = (
        data.take_queries(np.arange(80)),
        data.take_queries(np.arange(80, 120)),
    )
    ranker = NativeRanker(objective=objective, num_trees=20).fit(
        with_accepted_labels(objective, train)
    )
    trained = ranker.predict(test.features)
    untrained = np.random.default_rng(0).random(test.num_documents)
    before, after = (
        evaluate(test, scores, ["ndcg@10"]).means["ndcg@10"]
        for scores in (untrained, trained)
    )
    assert after > before + 0.2  # measured: from 0.25 to between 0.55 and 0.64


# ---- LightGBM and XGBoost: the same objective trains them.


@pytest.mark.slow
@pytest.mark.parametrize(
    "base", [QuerySoftMax, CrossEntropy, ListMLE, YetiRank, LambdaLoss]
)
def test_native_lightgbm_and_xgboost_see_the_same_gradients(base: Any) -> None:
    pytest.importorskip("lightgbm")
    pytest.importorskip("xgboost")
    from ltrbench.rankers.lightgbm import LightGBMRanker
    from ltrbench.rankers.xgboost import XGBoostRanker

    seen: list[NDArray[np.float64]] = []

    @dataclass(kw_only=True)
    class Noisy(base):  # type: ignore[misc]
        draws = True

        def gradients(self, scores: Any, data: ObjectiveData, seed: int) -> Any:
            labels = data.labels + np.random.default_rng(seed).random(len(scores))
            computed = super().gradients(scores, data._replace(labels=labels), seed)
            seen.append(np.array(computed))
            return computed

    rng = np.random.default_rng(0)
    features = rng.integers(0, 2, (200, 3))  # so that all choose the same bins
    labels = rng.integers(0, 2, 200) + features.sum(axis=1)
    data = dataset(features, labels, [10] * 20, rng.uniform(0.5, 2.0, 20))
    shared: dict[str, Any] = {
        "num_trees": 2,
        "num_leaves": 4,
        "l2": 1.0,
        "learning_rate": 0.5,
        "seed": 3,
    }
    every = []
    for kind in (NativeRanker, LightGBMRanker, XGBoostRanker):
        min_docs: dict[str, Any] = (
            {} if kind is XGBoostRanker else {"min_docs_in_leaf": 1}
        )
        ranker = kind(objective=Noisy(), **shared, **min_docs)
        seen.clear()
        scores = ranker.fit(data).predict(data.features)
        every.append((*seen, scores))
        assert ranker.seed_matters(len(features))
    for first, second, scores in every[1:]:
        np.testing.assert_array_equal(first, every[0][0])
        np.testing.assert_allclose(
            second, every[0][1], rtol=0, atol=1e-5
        )  # float32 scores of XGBoost
        np.testing.assert_allclose(scores, every[0][2], rtol=0, atol=1e-5)


@for_each_query
def _unknown_name(
    s: Any, labels: Any, w: Any, seed: int, query: int, margin: Any, g: Any, h: Any
) -> None:
    g[0] = slak  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("computed", "named"),
    [
        (
            lambda n: (np.full(n, np.nan), np.ones(n)),
            ("gradient nan", "row 0", "query", "Correct"),
        ),
        (
            lambda n: (np.zeros(n), np.full(n, -1.0)),
            ("hessian -1", "row 0", "not negative"),
        ),
        (lambda n: (np.zeros(n - 1), np.ones(n)), ("(19,)", "shape (20,)", "Correct")),
        (lambda n: np.zeros(n), ("ndarray", "two arrays")),
        (lambda n: (np.full(n, "a"), np.ones(n)), ("<U1 (20,)", "numbers", "Correct")),
        (
            lambda n: [n][1],
            ("gradients", "test_objectives.py:", "IndexError", "Correct"),
        ),
        pytest.param(
            lambda n: _unknown_name(
                np.zeros(n), ObjectiveData.of(query([1.0] * n)), 0, 0
            ),
            ("gradients", "test_objectives.py:", "'slak'", "Correct"),
            marks=COMPILED,
        ),
    ],
)
def test_wrong_gradients_of_a_plugin_are_refused_in_the_first_iteration(
    computed: Callable[[int], Any], named: tuple[str, ...]
) -> None:
    class Wrong(QueryRMSE):
        def gradients(self, scores: Any, data: ObjectiveData, seed: int) -> Any:
            return computed(len(scores))

    with pytest.raises(ConfigError, match=naming("Wrong", *named)):
        NativeRanker(objective=Wrong(), num_trees=1).fit(query([1.0] * 20))
    # The values may be correct for the labels of the user.
    NativeRanker(objective=Wrong(), position_bias="additive").warm_up()
    pytest.importorskip("xgboost")
    from ltrbench.rankers.xgboost import XGBoostRanker

    XGBoostRanker(objective=Wrong()).warm_up()


def test_an_objective_that_changes_its_arrays_does_not_change_the_training_set() -> (
    None
):
    class Changes(QueryRMSE):
        def gradients(self, scores: Any, data: ObjectiveData, seed: int) -> Any:
            computed = super().gradients(scores, data, seed)
            for array in (scores, *data):
                array[:] = 0
            return computed

    data, _ = made_up(QueryRMSE(), 4)
    rankers = [
        NativeRanker(objective=o, num_trees=3, min_docs_in_leaf=1)
        for o in (QueryRMSE(), Changes())
    ]
    expected, actual = (ranker.fit(data).predict(data.features) for ranker in rankers)
    np.testing.assert_array_equal(actual, expected)


def test_the_example_of_the_documentation_is_hinge_with_a_margin_of_1() -> None:
    example: dict[str, Any] = {"__name__": __name__}
    exec(
        titled_files((ROOT / "docs/tasks/adding-an-objective.md").read_text())[
            "my_loss.py"
        ],
        example,
    )
    one, other = example["SquaredHinge"](), Hinge()
    data, scores = made_up(other, 5)
    fixed = ObjectiveData.of(data)
    np.testing.assert_array_equal(
        one.gradients(scores, fixed, 0), other.gradients(scores, fixed, 0)
    )
    assert one.is_loss
    assert one.loss(scores, fixed, 0) == other.loss(scores, fixed, 0)


@for_each_query
def _raising(
    s: Any, labels: Any, w: Any, seed: int, query: int, number: Any, g: Any, h: Any
) -> None:
    if query == number:
        raise ValueError("of a query")


@pytest.mark.parametrize("number", [0, 7])
def test_an_error_of_one_query_ends_the_fit(number: int) -> None:
    data = make_synthetic(8, 0)
    with threads(2), pytest.raises(ValueError, match="of a query"):
        _raising(np.zeros(data.num_documents), ObjectiveData.of(data), 0, number)


def test_scores_that_are_too_large_name_the_remedy() -> None:
    data, objective = (
        query([1.0] * 20),
        prepare_objective(QueryRMSE(), query([1.0] * 20)),
    )
    with pytest.raises(
        ConfigError, match=naming("Scores reach 1e+308", "learning_rate", "l2")
    ):
        objective(np.full(data.num_documents, 1e308), None, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (
            "model/objective=listnet model.objective=ranknet",
            ("objective=listnet", "objective=ranknet"),
        ),
        (
            "model/objective=lambdarank model.objective=ranknet",
            ("objective=lambdarank", "objective=ranknet"),
        ),
        (
            "model=lightgbm model/objective=ranknet model.truncation=9",
            ("truncation is 9", "RankNet"),
        ),
        (
            "model=catboost model/objective=yetirank",
            ("CatBoost", "model/objective", "model.loss=YetiRank"),
        ),
        (
            "model=random model/objective=yetirank",
            ("Random", "Leave out model/objective"),
        ),
        (
            "model/objective=listnet params.truncation=10",
            ("truncation is 10", "ListNet", "lambdarank"),
        ),
        (
            "model/objective=listnet model.truncation=10",
            ("truncation is 10", "ListNet", "lambdarank"),
        ),
        (
            "model.objective=LambdaLoss",
            ("LambdaLoss", "xendcg", "model/objective=NAME", "lambdaloss"),
        ),
        (
            "model.objective=yetirank model.objective.mode=NDCG",
            ("mode=NDCG", "model/objective=yetirank"),
        ),
        (
            "model.objective.sigma=3 model.objective=ranknet",
            ("objective.sigma=3", "model/objective=ranknet"),
        ),
        (
            "model/objective=yetirank model.objective.mode=ndcg",
            ("mode is 'ndcg'", "'NDCG'"),
        ),
        (
            "model/objective=lambdaloss model.truncation=9",
            ("truncation is 9", "objective.truncation=9"),
        ),
        (
            "model/objective=listnet model.position_bias=propensity",
            ("objective=lambdarank", "ListNet"),
        ),
    ],
)
def test_a_chosen_objective_that_would_not_be_trained_is_refused(
    words: str, named: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError, match=naming(*named)):
        composed(*flags_and_overrides(words.split())[1])


@pytest.mark.parametrize("library", ["native", "lightgbm", "xgboost"])
def test_rankers_take_the_name_of_an_objective_and_set_its_settings(
    library: str,
) -> None:
    pytest.importorskip({"native": "numba"}.get(library, library))
    kind: Any = find_class(settings_in("model", library)["_target_"], Ranker, "model")
    ranker = kind(objective="softmax_loss")
    assert ranker.objective == ListNet(targets="labels")
    ranker.set_params(
        objective="lambdaloss", objective__weighting="dcg2", objective__variant="rax"
    )
    assert ranker.objective == LambdaLoss(weighting="dcg2", variant="rax")
    for wrong, named in (
        ({"objective": "ListNt"}, ("'ListNt'", "'listnet'")),
        ({"objective": ListNet}, ("class", "objective=ListNet()")),
        ({"objective__weight": "dcg2"}, ("LambdaLoss", "'weighting'")),
        ({"num_trees__x": 1}, ("num_trees", "'x'")),
    ):
        with pytest.raises(ConfigError, match=naming(*named)):
            ranker.set_params(**wrong)


@pytest.mark.parametrize(
    ("by_name", "by_yaml"),
    [
        ("model.objective=mart params.truncation=null", "model/objective=mart"),
        (
            "model/objective=none model.objective=xendcg model.truncation=null",
            "model/objective=xendcg",
        ),
    ],
)
def test_the_name_of_an_objective_is_that_of_its_yaml(
    by_name: str, by_yaml: str
) -> None:
    one, other = (
        composed(*flags_and_overrides(words.split())[1]).ranker
        for words in (by_name, by_yaml)
    )
    assert one == other


def test_truncation_is_refused_with_another_objective() -> None:
    named = naming("truncation", "QueryRMSE", "lambdarank")
    with pytest.raises(ConfigError, match=named):
        NativeRanker(objective=QueryRMSE(), truncation=3)


# ---- CatBoost: its leaves, with Newton steps by our gradients, give its scores.


YETIRANK = "YetiRank:noise=No;permutations=1"


@pytest.mark.parametrize("query_weights", [[1.0, 1.0, 1.0], [1.0, 2.0, 0.5]])
@pytest.mark.parametrize(
    ("loss", "objective"),
    [
        ("QueryRMSE", QueryRMSE()),
        ("QuerySoftMax", QuerySoftMax()),
        ("QuerySoftMax:lambda=0.1;beta=2", QuerySoftMax(softmax_lambda=0.1, beta=2.0)),
        *((f"{YETIRANK};mode={m}", YetiRank(mode=m, noise="No")) for m in MODES),
        *(
            (
                f"{YETIRANK};mode={m};num_neighbors=-1;top=3",
                YetiRank(mode=m, noise="No", num_neighbors=None, top=3),
            )
            for m in MODES[1:]
        ),
        *(
            (
                f"{YETIRANK};mode={m};dcg_type=Exp",
                YetiRank(mode=m, noise="No", dcg_type="Exp"),
            )
            for m in ("DCG", "NDCG")
        ),
        (f"{YETIRANK};decay=0.5", YetiRank(noise="No", decay=0.5)),
    ],
)
def test_three_trees_agree_with_catboost(
    loss: str, objective: Objective, query_weights: list[float]
) -> None:
    catboost = pytest.importorskip("catboost")
    features = np.array(
        [[int(bit) for bit in f"{number:03b}"] for number in (0, 2, 4, 6, 1, 5, 7, 7)]
    )
    grades = np.array([0, 2, 1, 0, 3, 0, 1, 2])
    data = with_accepted_labels(
        objective, dataset(features, grades, [3, 1, 4], np.array(query_weights))
    )
    groups = {
        "group_id": data.query_of_document,
        "group_weight": data.weight_of_document,
    }
    pool = catboost.Pool(data.features, data.labels, **groups)
    plain = {
        **{
            "loss_function": loss,
            "iterations": 3,
            "depth": 3,
            "learning_rate": 1,
            "l2_leaf_reg": 0,
        },
        **{
            "boosting_type": "Plain",
            "bootstrap_type": "No",
            "random_strength": 0,
            "thread_count": 1,
        },
        **{"leaf_estimation_method": "Newton", "leaf_estimation_iterations": 1},
        **{"boost_from_average": False, "verbose": False, "allow_writing_files": False},
    }
    model = catboost.CatBoost(plain).fit(pool)
    scores = np.zeros(data.num_documents)
    # CatBoost moves the leaves of YetiRank to a mean of 0; its weights of pairs are float32.
    moves, atol = (1.0, 1e-6) if isinstance(objective, YetiRank) else (0.0, 1e-9)
    for tree, leaf in enumerate(model.calc_leaf_indexes(pool).T.astype(np.int64)):
        g, h = (
            np.bincount(leaf, part)
            for part in objective.gradients(scores, ObjectiveData.of(data), 0)
        )
        scores = scores - np.divide(g, h, out=np.zeros_like(g), where=h > 0)[leaf]
        difference = model.predict(pool, ntree_end=tree + 1) - scores
        np.testing.assert_allclose(
            difference, moves * difference.mean(), rtol=0, atol=atol
        )
