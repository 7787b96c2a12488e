"""Neural networks: steps against plain NumPy, attention, ONNX, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from messages import naming
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import ConfigError, DataError, DivergenceError, ResultError
from ltrbench.experiment import Experiment, run
from ltrbench.experiment.loading import Progress
from ltrbench.models.networks import initial_arrays
from ltrbench.models.trees import rounded_weights
from ltrbench.native.objectives.listnet import ListNet
from ltrbench.rankers.base import Iteration, concerns_of
from ltrbench.rankers.library import SETTINGS_FILE
from ltrbench.rankers.linear import LinearRanker
from ltrbench.rankers.mlp import MlpRanker
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.runs import read_run
from ltrbench.runs.record import FAILED
from ltrbench.shipping.certificate import CERTIFIED, certify
from ltrbench.shipping.shipment import checked_rows, readme, shipped_model
from ltrbench.shipping.targets.onnx import OnnxTarget
from ltrbench.shipping.targets.vespa import VespaTarget

pytestmark = pytest.mark.slow  # XLA compiles for seconds

SOURCE = Synthetic(name="synthetic", num_queries=40)
TRAIN = SOURCE.load().train
PLAIN: dict[str, Any] = {
    "dropout": 0.0,
    "scaling": "none",
    "num_layers": 1,
    "width": 6,
    "weight_decay": 0.03,
}
ATTENTION: dict[str, Any] = {
    "context": "attention",
    "num_blocks": 2,
    "num_heads": 2,
    "feed_forward": 8,
    "width": 8,
}


def gradients(
    arrays: Mapping[str, Any], data: RankingDataset
) -> dict[str, NDArray[np.float64]]:
    """Returns the gradients of the mean softmax loss of a network with one hidden layer."""
    x, weights = data.features.astype(np.float64), arrays["output.weight"]
    before = x @ arrays["hidden0.weight"] + arrays["hidden0.bias"]
    hidden = np.maximum(before, 0)
    scores = hidden @ weights + arrays["output.bias"]
    of_scores = np.zeros(len(x))
    for first, end in zip(data.query_start[:-1], data.query_start[1:], strict=True):
        shares = np.exp(scores[first:end]) / np.exp(scores[first:end]).sum()
        labels = data.labels[first:end]
        of_scores[first:end] = (labels.sum() * shares - labels) / data.num_queries
    of_hidden = of_scores[:, None] * weights * (before > 0)
    return {
        "hidden0.weight": x.T @ of_hidden,
        "hidden0.bias": of_hidden.sum(axis=0),
        "output.weight": hidden.T @ of_scores,
    }


def test_five_steps_are_those_of_plain_numpy() -> None:
    """AdamW of Loshchilov and Hutter, 2019, algorithm 2, with the softmax loss; all queries are one batch."""
    draws = np.random.default_rng(0)
    features = draws.normal(size=(30, 4)).astype(np.float32)
    labels, query_start = (
        draws.integers(0, 3, 30).astype(np.float64),
        np.array([0, 8, 15, 22, 30]),
    )
    data = RankingDataset(features=features, labels=labels, query_start=query_start)
    ranker = MlpRanker(objective=ListNet(targets="labels"), num_epochs=5, **PLAIN).fit(
        data
    )
    rng = np.random.default_rng([0, 0])
    start = initial_arrays(ranker.network().layers, data.num_features, rng)
    arrays = {name: each.astype(np.float64) for name, each in start.items()}
    first: dict[str, Any] = dict.fromkeys(arrays, 0.0)
    second = dict(first)
    for step in range(1, 6):
        for name, gradient in gradients(arrays, data).items():
            first[name] = 0.9 * first[name] + 0.1 * gradient
            second[name] = 0.999 * second[name] + 0.001 * gradient**2
            corrected = first[name] / (1 - 0.9**step), second[name] / (1 - 0.999**step)
            update = corrected[0] / (np.sqrt(corrected[1]) + 1e-8) + 0.03 * arrays[name]
            arrays[name] = arrays[name] - 1e-3 * update
    del arrays[
        "output.bias"
    ]  # its gradient is 0, of which AdamW makes steps by the sign of rounding
    for name in arrays:
        np.testing.assert_allclose(
            ranker.network().arrays[name], arrays[name], rtol=1e-5, atol=1e-6
        )


@pytest.fixture(scope="module")
def attentive() -> MlpRanker:
    return MlpRanker(num_epochs=2, norm="batch", latent_cross=True, **ATTENTION).fit(
        TRAIN
    )


def test_attention_depends_on_the_documents_of_the_query_and_on_nothing_else(
    attentive: MlpRanker,
) -> None:
    together = attentive.predict_lists(TRAIN.features, TRAIN.query_start)
    for query in (0, 7):
        rows = np.arange(*TRAIN.query_start[query : query + 2])
        alone = attentive.predict(TRAIN.features[rows])
        np.testing.assert_allclose(alone, together[rows], rtol=1e-5, atol=1e-6)
        order = np.random.default_rng(query).permutation(len(rows))
        permuted = attentive.predict(TRAIN.features[rows[order]])
        np.testing.assert_allclose(permuted, alone[order], rtol=1e-5, atol=1e-6)
        # Without padding, and by another library.
        plain = attentive.network().terms(TRAIN.features[rows]).sum(axis=1)
        np.testing.assert_allclose(alone, plain, rtol=1e-4, atol=1e-5)
        assert not np.allclose(
            attentive.predict(TRAIN.features[rows[1:]]), alone[1:], rtol=1e-4
        )
    frame = pd.DataFrame(
        np.asarray(TRAIN.features), columns=list(TRAIN.feature_names)
    ).assign(qid=TRAIN.query_of_document)
    two = frame.iloc[TRAIN.query_start[2] - 1 :: -1]  # two queries, backwards
    np.testing.assert_allclose(
        attentive.predict(two)[::-1], together[: len(two)], rtol=1e-5, atol=1e-6
    )
    with pytest.raises(DataError, match=naming("qid or query_id", "array")):
        attentive.predict(two.drop(columns="qid"))


@pytest.mark.parametrize("context", ["none", "attention"])
def test_a_network_is_certified_in_onnx_and_refused_by_name_elsewhere(
    context: str, attentive: MlpRanker, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        "norm": "layer",
        "input_transform": "log1p",
        "num_epochs": 2,
        "width": 16,
    }
    ranker = attentive if context == "attention" else MlpRanker(**settings).fit(TRAIN)
    trained = replace(ranker, num_epochs=1)
    experiment = Experiment(
        model=context, ranker=trained, source=SOURCE, importance=None
    )
    done = run(experiment, tmp_path / "run")
    model = replace(shipped_model(done, ranker), feature_names=TRAIN.feature_names)
    target, data = OnnxTarget(), TRAIN.take_queries(np.arange(8)).in_memory()
    export = target.export(model)
    engine = target.engine(model, export)
    certificate = certify(model, ranker.predict, data, export, engine)
    assert certificate.status == CERTIFIED, certificate.reason
    rows = checked_rows(model, target, export, engine, ranker.predict, data)[0]["rows"]
    of_query = [row for row in rows if row["query"] == str(data.query_ids[0])]
    features = data.features[: len(of_query)]
    np.testing.assert_allclose(
        [row["score"] for row in of_query],
        ranker.predict(features),
        rtol=1e-4,
        atol=1e-6,
    )
    readme_text = "\n".join(readme(model, target, export, certificate, None))
    assert ("row without a query" in readme_text) == (context == "attention")
    assert "0 of 0" not in readme_text
    with pytest.raises(ConfigError, match=naming("vespa", "neural network", "onnx")):
        VespaTarget().export(model)


class Diverging(SingleFeatureRanker):
    def fit(self, train: RankingDataset, *others: Any, **_: Any) -> Any:
        others[1](Iteration(1, np.zeros(train.num_documents)))
        raise DivergenceError("at step 2")


def test_training_that_diverges_names_step_and_remedy_and_the_run_keeps_the_curve(
    tmp_path: Path,
) -> None:
    ranker = MlpRanker(
        optimizer="sgd", learning_rate=1e30, scaling="none", num_epochs=3
    )
    named = ("step", "1e+30", "model.learning_rate=0.001", "model.scaling=standard")
    with pytest.raises(DivergenceError, match=naming(*named)):
        ranker.fit(TRAIN, TRAIN)
    with pytest.raises(
        DivergenceError, match=naming("step 2", "model.learning_rate=0.001")
    ):
        MlpRanker(learning_rate=100.0).fit(TRAIN)  # scores are large, but finite
    with pytest.raises(DivergenceError):
        run(
            Experiment(model="diverging", ranker=Diverging(), source=SOURCE),
            tmp_path / "run",
        )
    failed = read_run(tmp_path / "run")
    assert failed.result.status == FAILED
    assert list(failed.learning_curve().iterations) == [1]


def test_a_fit_starts_from_a_saved_network_with_the_same_layers(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"num_epochs": 1, "width": 6, "num_layers": 1}
    first = MlpRanker(**settings).fit(TRAIN)
    first.save(tmp_path / "run" / "model")
    # Steps of almost no length leave the arrays, and the scaling, of the first network.
    still = MlpRanker(learning_rate=1e-30, warm_start=str(tmp_path / "run"), **settings)
    other = TRAIN.with_fields(features=np.array(TRAIN.features) * np.float32(3))
    np.testing.assert_allclose(
        still.fit(other).predict(TRAIN.features), first.predict(TRAIN.features), 1e-4
    )
    saved = tmp_path / "run" / "model" / SETTINGS_FILE
    text = saved.read_text()
    saved.write_text(
        text.replace('"width": 6', '"width": 3000000')
    )  # 32.7 TiB, if it were allocated
    with pytest.raises(ResultError, match=naming("hidden0.weight", "3000000")):
        MlpRanker.load(saved.parent)
    saved.write_text(text)
    with pytest.raises(
        ConfigError, match=naming("warm_start", "model.num_layers=1", "model.norm=none")
    ):
        replace(still, num_layers=2, norm="layer").fit(TRAIN)
    seen: list[Progress] = []
    experiment = Experiment(model="mlp", ranker=still, source=SOURCE, importance=None)
    done = run(experiment, tmp_path / "done", on_progress=seen.append)
    assert [progress.iteration for progress in seen] == [0, 1, 1]  # 0: compiling
    named = naming("warm_start", tmp_path / "run", "may have learned")
    assert re.search(named, done.result.notes[0])
    again = replace(
        experiment, ranker=replace(still, warm_start=str(tmp_path / "done"))
    )
    # The data are those of its start, which started from another model.
    result = run(again, tmp_path / "again").result
    assert re.search(named, result.notes[0])
    assert result.data["leaks_from"] == str(tmp_path / "run")
    clean = replace(still, warm_start=None)
    run(replace(experiment, ranker=clean), tmp_path / "clean")
    of_clean = replace(still, warm_start=str(tmp_path / "clean"))
    assert (
        run(replace(experiment, ranker=of_clean), tmp_path / "next").result.notes == ()
    )


def test_a_feature_of_subnormal_numbers_is_named_and_the_weight_that_it_would_need() -> (
    None
):
    features, names = np.array(TRAIN.features), TRAIN.feature_names
    features[:, 0] = np.random.default_rng(0).normal(size=len(features)) * 1e-40
    with pytest.raises(DataError, match=naming(f"feature {names[0]}", "Multiply")):
        MlpRanker().fit(replace(TRAIN, features=features))
    weights = np.array([1e39, *np.zeros(len(names) - 1)])
    with pytest.raises(ConfigError, match=naming(f"weight of {names[0]}", "float32")):
        rounded_weights(weights, names)


def test_a_list_larger_than_the_memory_and_data_that_train_badly_are_named() -> None:
    features, labels = np.zeros((900, 1), dtype=np.float32), np.zeros(900)
    long = RankingDataset(
        features=features, labels=labels, query_start=np.array([0, 900])
    )
    for settings, remedy in ((ATTENTION, "context=none"), ({}, "smaller width")):
        with pytest.raises(
            DataError,
            match=naming("query 1", "900 documents", "max_memory_mb is 1", remedy),
        ):
            MlpRanker(max_memory_mb=1, **settings).fit(long)
    # Each value of a layer counts three times, as float32.
    most = int(2048 / (12 * 24_576 * (136 + 256 + 128) / 2**20))
    for size, places, num_queries in ((1_000, 1_024, 32), (20_000, 24_576, most)):
        batches = MlpRanker().batches(
            np.arange(33) * size, np.arange(32), 136, 32, names=np.arange(32)
        )
        assert next(batches)[1:] == (num_queries, places)
    features = np.array(TRAIN.features) * np.array(
        [1e6] + [1] * (TRAIN.num_features - 1), dtype=np.float32
    )
    features[0, 1] = np.nan
    apart, names = replace(TRAIN, features=features), TRAIN.feature_names
    for ranker in (MlpRanker(scaling="none"), LinearRanker(scaling="none")):
        scales = concerns_of(ranker, apart)[1]  # after that of missing values
        assert re.search(naming(f"({names[0]})", "model.scaling=standard"), scales)
    assert (
        len(concerns_of(MlpRanker(scaling="none", input_transform="log1p"), apart)) == 1
    )
