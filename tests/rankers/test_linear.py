"""Linear models: coordinate ascent against RankLib's own weights, gradients against closed forms."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import run
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming
from numpy.typing import NDArray

from ltrbench.config import build, composed
from ltrbench.data import RankingDataset
from ltrbench.data.letor import write_letor
from ltrbench.errors import ConfigError, DataError, ResultError
from ltrbench.metrics import evaluate, preset
from ltrbench.native.objectives.base import ObjectiveData
from ltrbench.native.objectives.hinge import Hinge
from ltrbench.native.objectives.lambdaloss import LambdaLoss
from ltrbench.native.objectives.lambdarank import RankNet
from ltrbench.native.objectives.listnet import ListNet
from ltrbench.native.objectives.query_rmse import QueryRMSE
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import concerns_of
from ltrbench.rankers.linear import LinearRanker, ascended
from ltrbench.runs import LoadedModel
from ltrbench.serve import warm_up
from ltrbench.shapes import Scores


def made(seed: int, num_queries: int = 40) -> RankingDataset:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 16, num_queries)
    features = rng.integers(0, 1000, (sizes.sum(), 6)) / np.array(
        [1000, 1000, 1000, 1000, 100, 10]
    )
    utility = (
        features[:, 0]
        - features[:, 1]
        + 0.05 * features[:, 4]
        + rng.normal(size=len(features)) * 0.5
    )
    labels = np.digitize(utility, [0.2, 0.7, 1.2]).astype(np.float64)
    start = np.concatenate([[0], np.cumsum(sizes)])
    return RankingDataset(
        features=features.astype(np.float32), labels=labels, query_start=start
    )


UNNORMALIZED = RankNet(normalize_distance=False, normalize_query=False, sigma=2.0)


def by_ascent(**given: Any) -> LinearRanker:
    return LinearRanker(method="coordinate_ascent", **given)


class FixedOrders:
    """Pass p of a fit visits the features in the order p, p + 1, ..., modulo their number."""

    def __init__(self, *_: object) -> None:
        self.passes = -1

    def permutation(self, num_features: int) -> NDArray[np.int64]:
        self.passes += 1
        return (np.arange(num_features) + self.passes) % num_features


RANKLIB = [
    # metric, training metric, weights
    ("ndcg@10", 0.8619732224734225, [0.4288971210764336, -0.32213844597736724,
     0.045371931637430106, -0.1838988457728552, 0.0190306670259984, 6.629885099153987e-4]),
    ("map", 0.8374441161967541, [0.27569304272323547, -0.6899106973539881,
     -0.019246784594982063, 4.239351268529322e-6, 0.014158656798908223, 9.865791776176008e-4]),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "value", "weights"), RANKLIB)
def test_the_dialect_ranklib_gives_the_weights_of_ranklib(
    metric: str, value: float, weights: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figures are the output of CoorAscent.java of codelibs/ranklib, commit
    0cc17c81574469ef7d2d7df0e0e387038a55b969, for made(0), with the order of `FixedOrders` in
    getShuffledFeatures. Learning and metrics are that code; a short program replaces its reading of files,
    and Java's stable sort its MergeSorter."""
    train = made(0)
    monkeypatch.setattr(np.random, "default_rng", FixedOrders)
    ranker = by_ascent(scaling="none", dialect="ranklib", metric=metric).fit(train)
    np.testing.assert_allclose(ranker.weights, weights, rtol=1e-12)
    scores = ranker.predict(train.features)
    assert evaluate(train, scores, [metric], preset("ranklib")).means[
        metric
    ] == pytest.approx(value)


@pytest.mark.slow
@settings(max_examples=5)
@given(seed=st.integers(0, 2**32), is_bounded=st.booleans())
def test_coordinate_ascent_never_ends_below_a_metric_that_it_has_seen(
    seed: int, is_bounded: bool
) -> None:
    data, seen = made(seed, num_queries=8), [0.0]

    def measure(scores: Scores) -> float:
        seen.append(evaluate(data, scores, ["ndcg@10"]).means["ndcg@10"])
        return seen[-1]

    columns = np.ascontiguousarray(data.features.T, dtype=np.float64)
    weights = ascended(columns, measure, by_ascent(restarts=2), np.full(6, is_bounded))
    best = max(seen)
    assert measure(weights @ columns) == pytest.approx(best, abs=1e-9)
    assert np.abs(weights).sum() == pytest.approx(1)
    assert not is_bounded or (weights >= 0).all()


def test_the_gradient_method_gives_the_closed_form_of_ridge_regression() -> None:
    data, l2 = made(2), 3.0
    of_query = data.query_of_document
    z = (data.features - data.features.mean(axis=0, dtype=float)) / data.features.std(
        axis=0, dtype=float
    )
    centred = np.column_stack([z, data.labels])
    centred -= (
        np.add.reduceat(centred, data.query_start[:-1])[of_query]
        / data.query_sizes[of_query, None]
    )
    x, y = centred[:, :-1], centred[:, -1]
    expected = np.linalg.solve(x.T @ x + l2 * np.eye(6), x.T @ y)
    ranker = LinearRanker(objective=QueryRMSE(), l2=l2).fit(data)
    np.testing.assert_allclose(
        ranker.importance()["coefficient"], expected, rtol=1e-3, atol=1e-5
    )
    scores = data.features.astype(float) @ ranker.weights
    np.testing.assert_allclose(ranker.predict(data.features), scores, rtol=1e-12)
    bounded = LinearRanker(objective=QueryRMSE(), nonnegative=True).fit(data)
    assert (bounded.weights >= 0).all()
    assert (bounded.weights == 0).any()


def test_mart_gives_weighted_least_squares_with_an_intercept() -> None:
    data = made(2)
    weights = np.linspace(1, 20, data.num_queries)
    data = replace(data, features=data.features + 100, query_weights=weights)
    root = np.sqrt(weights[data.query_of_document])
    x = np.column_stack([data.features.astype(float), np.ones(data.num_documents)])
    expected = np.linalg.lstsq(x * root[:, None], data.labels * root, rcond=None)[0][
        :-1
    ]
    ranker = LinearRanker(objective="mart", l2=0.0).fit(data)
    np.testing.assert_allclose(ranker.weights, expected, rtol=1e-3, atol=1e-5)


def test_ranknet_without_its_normalisation_is_fitted_to_all_pairs_of_long_lists() -> (
    None
):
    short = made(2)
    ends = short.query_start[[0, 20, 40]]
    data = RankingDataset(
        features=short.features, labels=short.labels, query_start=ends
    )
    allrank = LambdaLoss(
        variant="allrank", weighting="ranknet", sigma=2.0
    )  # divided by log(2)
    expected = LinearRanker(objective=allrank, l2=3.0 / np.log(2.0)).fit(data).weights
    np.testing.assert_allclose(
        LinearRanker(objective=UNNORMALIZED, l2=3.0).fit(data).weights,
        expected,
        rtol=1e-3,
    )


def with_missing(data: RankingDataset) -> RankingDataset:
    features = np.array(data.features)
    features[::3, 0] = np.nan
    return replace(data, features=features)


@pytest.mark.parametrize("scaling", ["none", "standard", "rank", "log1p"])
def test_scores_of_every_scaling_survive_batches_and_files_and_a_missing_value_is_scored(
    scaling: str, tmp_path: Path
) -> None:
    data = with_missing(made(3))
    ranker = LinearRanker(scaling=scaling).fit(data)
    scores = ranker.predict(data.features)
    np.testing.assert_array_equal(ranker.predict(data.features[7:9]), scores[7:9])
    ranker.save(tmp_path)
    loaded = LinearRanker.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(data.features), scores)
    np.testing.assert_array_equal(
        loaded.importance()["coefficient"], ranker.importance()["coefficient"]
    )
    filled = np.array(data.features)
    filled[::3, 0] = np.nanmedian(data.features[:, 0])
    shift = scores - ranker.predict(filled)
    assert abs(shift[0]) > 1e-6  # the indicator
    np.testing.assert_allclose(
        shift, np.where(np.arange(len(shift)) % 3, 0.0, shift[0]), atol=1e-12
    )
    if scaling in ("rank", "log1p"):
        with pytest.raises(
            ConfigError, match=naming(f"scaling is {scaling}", "standard", "serve")
        ):
            _ = ranker.weights
    (tmp_path / "settings.json").write_text(
        (tmp_path / "settings.json").read_text().replace("rank", "ran")
    )
    with pytest.raises(ResultError):
        LinearRanker.load(tmp_path)


def test_ranks_ignore_the_scale_and_standard_scores_its_unit() -> None:
    data = made(4)
    for scaling, changed in (
        ("rank", np.sqrt(data.features)),
        ("standard", data.features * 64 + 8),
    ):
        first, other = (
            LinearRanker(scaling=scaling).fit(d)
            for d in (data, replace(data, features=changed))
        )
        np.testing.assert_allclose(
            other.importance()["coefficient"],
            first.importance()["coefficient"],
            rtol=1e-3,
            atol=1e-4,
        )


def test_a_query_of_weight_two_counts_like_two_queries() -> None:
    data = made(5, num_queries=20)
    weights = np.ones(20)
    weights[:5] = 2
    end = data.query_start[5]
    twice = RankingDataset(
        features=np.concatenate([data.features, data.features[:end]]),
        labels=np.concatenate([data.labels, data.labels[:end]]),
        query_start=np.concatenate(
            [data.query_start, data.query_start[-1] + data.query_start[1:6]]
        ),
    )
    # Weights are scaled to a mean of 1, so that 20 queries count like 20, not like 25.
    by_gradient = LinearRanker(scaling="none", l2=1.0)
    pairs = [
        (by_gradient, replace(by_gradient, l2=25 / 20)),
        (by_ascent(scaling="none", restarts=1),) * 2,
    ]
    for of_weights, of_twice in pairs:
        weighted = replace(of_weights).fit(replace(data, query_weights=weights)).weights
        np.testing.assert_allclose(
            weighted, replace(of_twice).fit(twice).weights, rtol=1e-3, atol=1e-4
        )


def test_unscaled_features_reach_the_optimum_of_scaled_ones() -> None:
    data = made(7, num_queries=40)
    scales = 10.0 ** np.linspace(-3, 5, data.num_features)
    unscaled = data.with_fields(features=(data.features * scales).astype(np.float32))
    losses = []
    for scaling in ("standard", "none"):
        ranker = LinearRanker(scaling=scaling, l2=0.0).fit(unscaled)
        scores = ranker.predict(unscaled.features)
        losses.append(
            ListNet(targets="labels").loss(scores, ObjectiveData.of(unscaled), 0)
        )
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)


def test_a_linear_model_takes_every_objective_of_the_group_that_is_a_loss() -> None:
    assert build(
        composed("model=linear", "model/objective=hinge"), "model", Ranker
    ) == LinearRanker(objective=Hinge())
    with pytest.raises(
        ConfigError, match=naming("YetiRank", "model.objective=softmax_loss")
    ):
        build(composed("model=linear", "model/objective=yetirank"), "model", Ranker)


def test_what_a_linear_model_cannot_do_is_refused_with_the_remedy() -> None:
    data = made(6)
    varied = replace(data, document_weights=np.linspace(1, 2, data.num_documents))
    for fields, named in (
        (
            {"objective": "lambdarank"},
            ("LambdaRank", "softmax_loss", "coordinate_ascent", "loss_of_query"),
        ),
        (
            {"method": "coordinate_ascent", "l2": 3.0},
            ("l2 is 3.0", "method", "gradient"),
        ),
        ({"metric": "ndgc@10", "method": "coordinate_ascent"}, ("ndgc@10", "ndcg")),
    ):
        with pytest.raises(ConfigError, match=naming(*named)):
            LinearRanker(**fields)
    for ranker, train, parts in (
        (by_ascent(), varied, ("weights", "method=gradient")),
        (
            LinearRanker(objective=UNNORMALIZED),
            varied,
            ("weights", "objective=softmax_loss"),
        ),
        (
            LinearRanker(missing="refuse"),
            with_missing(data),
            (data.feature_names[0], "missing=impute"),
        ),
    ):
        with pytest.raises(DataError, match=naming(*parts)):
            ranker.fit(train)
    ranker = LinearRanker(missing="refuse").fit(data)
    of_no_run: Any = None
    warm_up(LoadedModel("linear", data.feature_names, ranker, of_no_run), 100)
    with pytest.raises(
        DataError, match=naming(data.feature_names[0], "model.missing=impute")
    ):
        ranker.predict(with_missing(data).features)
    wild = replace(
        data, features=data.features * np.array([1, 1e5, 1, 1, 1, 1], dtype=np.float32)
    )
    (concern,) = concerns_of(LinearRanker(scaling="none"), wild)
    assert data.feature_names[1] in concern
    assert "model.scaling=standard" in concern
    assert not concerns_of(LinearRanker(), wild)


@pytest.mark.slow
def test_runs_of_a_sweep_show_cautions_about_their_data_and_intervals_of_coefficients(
    tmp_path: Path,
) -> None:
    data = made(1)
    write_letor(
        replace(
            data, features=data.features * np.array([1, 1e5, 1, 1, 1, 1], np.float32)
        ),
        tmp_path / "a.txt",
    )
    given = (
        "data=letor",
        "data.train=a.txt",
        "cv=2",
        "tracking=none",
        "hydra.sweep.dir=sweep",
        "-m",
    )
    done = run("model=linear", "model.scaling=none", *given, folder=tmp_path)
    caution = naming("scaling", "none", "e+04", "(2)", "model.scaling=standard")
    shown = " ".join(run("show", "sweep/1", folder=tmp_path).stdout.split())
    table = (tmp_path / "sweep/comparison/table.md").read_text()
    assert all(re.search(caution, text) for text in (done.stderr, shown, table))
    assert (
        table.count("model.scaling=standard") == 1
    )  # although the values differ between the folds
    assert "interval over 2 trainings" in shown
    assert re.search(
        r"\| 2 +\|.* \[.+, .+\]",
        (tmp_path / "sweep/comparison/importances.md").read_text(),
    )
