"""The engine grows the same trees as the reference, `ltrbench/native/reference.py`.

Splits must be identical: feature, threshold, direction of missing values, order of splitting, and documents
of every node. Leaf values and scores agree to 1e-9; the largest measured difference is 2e-13.

Splits can be compared exactly because the reference rounds in the same way as the engine: gradients to
integers (`round_to_units`), so that splits into the same documents have the same gain, and the gain itself
(`split_gain`), so that both or neither make a split whose exact gain is 0.

In one case the last bit of a float decides: if documents of a query have scores that are equal in theory but
come from different leaves, rounding errors determine their ranks and so the lambdas. This requires leaves of
one or two documents: of 200 synthetic data sets of up to 9 queries of up to 7 documents, 4 showed it with
min_docs_in_leaf=1, and none with 3 or 5. The data sets below are larger and have fixed seeds; 280 other fits
of such data agreed as well.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from engine_cases import COMPILED, USUAL_QUERIES, dataset
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from paths import CONF

from ltrbench.compilation import config
from ltrbench.data import RankingDataset, read_letor
from ltrbench.native import NO_FEATURE, Tree, reference
from ltrbench.native.objectives.lambdarank import LambdaRank
from ltrbench.native.reference import Model, Node, Settings
from ltrbench.rankers.native import NativeRanker

NUM_TREES = 3 if config.DISABLE_JIT else 10
# Six seeds have every pair of remainders by 2 and by 3, on which the data sets depend.
SEEDS = range(2 if config.DISABLE_JIT else 6)


def fit_engine(train: RankingDataset, settings: Settings) -> NativeRanker:
    """Fits `model=native` of conf/model/native.yaml with the hyperparameters of the reference."""
    model: Any = OmegaConf.to_container(OmegaConf.load(CONF / "model/native.yaml"))
    fields = {
        name: value
        for name, value in model.items()
        if name not in ("defaults", "_target_")
    }
    fields |= asdict(settings)
    objective = LambdaRank(sigma=fields.pop("sigma"))
    return NativeRanker(
        **fields | {"objective": objective}, early_stopping=None, num_threads=1
    ).fit(train)


def tree_of(nodes: list[Node], model: Model) -> Tree:
    """Returns a tree of the reference in the arrays of the engine."""
    numbers = range(len(nodes))
    cuts = [node.split if node.left else None for node in nodes]
    return Tree(
        feature=np.array([cut.feature if cut else NO_FEATURE for cut in cuts]),
        threshold=np.array(
            [model.thresholds[cut.feature][cut.bin] if cut else 0.0 for cut in cuts]
        ),
        left=np.array(
            [node.left or number for number, node in zip(numbers, nodes, strict=True)]
        ),
        right=np.array(
            [
                node.left + 1 if node.left else number
                for number, node in zip(numbers, nodes, strict=True)
            ]
        ),
        missing_left=np.array([cut is not None and cut.missing_left for cut in cuts]),
        gain=np.array([cut.gain if cut else 0.0 for cut in cuts]),
        value=np.array([node.value for node in nodes]),
        num_documents=np.array([len(node.rows) for node in nodes]),
        left_categories=np.empty((len(nodes), 0), dtype=np.float32),
    )


def assert_same_trees(train: RankingDataset, settings: Settings) -> Model:
    # As `fit` scales them.
    train = train.with_mean_weight_one()
    model, ranker = reference.boost(train, settings), fit_engine(train, settings)
    trees = [] if ranker._forest is None else ranker._forest.trees()
    for number, (nodes, tree) in enumerate(zip(model.trees, trees, strict=True)):
        expected_arrays = tree_of(nodes, model)._asdict()
        for name, got in tree._asdict().items():
            expected, message = (
                expected_arrays[name],
                f"{name} of the nodes of tree {number}",
            )
            if name in ("gain", "value"):
                np.testing.assert_allclose(
                    got, expected, rtol=0, atol=1e-9, err_msg=message
                )
            else:
                np.testing.assert_array_equal(got, expected, err_msg=message)
    expected_scores = reference.predict(model, train.features)
    np.testing.assert_allclose(
        ranker.predict(train.features), expected_scores, rtol=0, atol=1e-9
    )
    return model


def make_train(seed: int) -> RankingDataset:
    """Returns queries of various sizes, from one document; every fourth query has no relevant document.

    Features: continuous, integers, two values, one value, only missing, a copy of the integers, one value per
    query, continuous without missing values. With an even seed all are rounded, so that many documents and
    scores are equal.
    """
    rng = np.random.default_rng(seed)
    sizes = np.append(1, rng.integers(1, 25, USUAL_QUERIES))
    query = np.repeat(np.arange(len(sizes)), sizes)
    features = rng.normal(size=(len(query), 8))
    features[:, 1] = np.round(features[:, 1])
    features[:, 2] = features[:, 2] > 0
    features[:, 3] = 7.0
    features[:, 4] = np.nan
    features[:, 6] = rng.normal(size=len(sizes))[query]
    if seed % 2 == 0:
        features = np.round(features)
    utility = (
        features[:, 0]
        + features[:, 1] * features[:, 2]
        + rng.normal(size=len(query)) / 2
    )
    labels = np.where(query % 4 == 3, 0, np.digitize(utility, [0.0, 1.0, 2.0]))
    features[:, :7][rng.random((len(query), 7)) < 1 / 7] = np.nan
    features[:, 5] = features[:, 1]
    weights = rng.uniform(0.5, 2.0, len(sizes)) if seed % 3 else None
    train = dataset(features, labels, sizes.tolist(), weights)
    if seed % 3 == 1:
        return train
    of_documents = rng.uniform(0.2, 3.0, len(query))
    of_documents[(rng.random(len(query)) < 0.1) & (train.ranks_of_rows > 0)] = 0.0
    return replace(train, query_weights=None, document_weights=of_documents)


@pytest.mark.slow
@COMPILED
def test_the_engine_grows_the_trees_of_the_reference_on_real_data(
    letor_data: Any,
) -> None:
    train = read_letor(letor_data("MQ2008") / "Fold1/train.txt")
    model = assert_same_trees(train, Settings(num_trees=NUM_TREES))
    assert [len(nodes) for nodes in model.trees] == [2 * 31 - 1] * NUM_TREES


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(num_leaves=6, min_docs_in_leaf=5, max_bins=6, l2=1.0),
        Settings(
            num_leaves=15,
            min_docs_in_leaf=3,
            truncation=3,
            sigma=2.0,
            learning_rate=0.05,
        ),
        Settings(min_docs_in_leaf=1, min_sum_hessian=0.5, min_split_gain=0.05),
    ],
    ids=["matched", "few bins", "small leaves", "bounds"],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_engine_grows_the_trees_of_the_reference_on_made_up_data(
    seed: int, settings: Settings
) -> None:
    train = make_train(seed)
    model = assert_same_trees(train, replace(settings, num_trees=NUM_TREES))
    assert any(len(nodes) > 1 for nodes in model.trees)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1.0]))
def test_the_gain_is_the_formula_of_its_docstring(seed: int, l2: float) -> None:
    rng = np.random.default_rng(seed)
    left, right = rng.normal(size=(2, 2, 9))
    left[1], right[1] = rng.uniform(0.1, 10.0, size=(2, 9))
    expected = sum(
        sign * g**2 / (h + l2)
        for sign, (g, h) in ((1, left), (1, right), (-1, left + right))
    )
    got = reference.split_gain(left + right, left, right, l2)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)
