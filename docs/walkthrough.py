"""Writes the text of the verb `walkthrough`, ltrbench/cli/walkthrough.md: `python docs/walkthrough.py`.

The text explains LambdaMART on ten documents, from their labels to the second iteration. `walkthrough.txt` is
the template, with a name in braces for each number, table and function. This file computes the values with
the engine functions that the text names, so no number is typed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.metrics import evaluate
from ltrbench.metrics.conventions import Ties
from ltrbench.native import Tree
from ltrbench.native.bins import bin_features
from ltrbench.native.boosting import BINNINGS, BoostingSettings, boost
from ltrbench.native.growing import Grower, OpenLeaf, build_histogram, by_deviance
from ltrbench.native.histogram import quantise, task_of
from ltrbench.native.objectives.lambdas import lambdas
from ltrbench.native.objectives.pairs import (
    PairLambdas,
    PairSettings,
    logistic,
    pair_lambdas,
)
from ltrbench.native.reference import Settings, best_split, histograms, round_to_units
from ltrbench.native.splitting import (
    Split,
    SplitSettings,
    choose,
    newton_step,
    split_terms,
)
from ltrbench.native.team import ALONE
from ltrbench.rankers.native import NativeRanker, pairs_of
from ltrbench.shapes import Scores
from ltrbench.tables import Table

ROOT = Path(__file__).resolve().parents[1]

LABELS = (0, 0, 0, 1, 1, 0, 1, 1, 0, 0)
FEATURE_VALUES = {
    1: (
        0.002736,
        0.025992,
        0.001368,
        0.188782,
        0.077975,
        0.075239,
        0.079343,
        0.147743,
        0.058824,
        0.071135,
    ),
    5: (
        0.002736,
        0.027360,
        0.001368,
        0.195622,
        0.086183,
        0.077975,
        0.084815,
        0.147743,
        0.058824,
        0.073871,
    ),
}
"""RankLib's worked example, query 1830: feature number -> its values."""
TUTORIAL_THRESHOLD = np.float32(0.058824)
"""The threshold at which the tutorials split feature 1."""

DIALECTS = {
    name: pairs_of(NativeRanker.from_preset(name))
    for name in ("native", "lightgbm", "xgboost", "ranklib", "pyltr")
}
DIALECT = DIALECTS["ranklib"]
"""The lambdas of Burges, 2010, unchanged; with ten documents its truncation excludes no pair."""
SETTINGS = BoostingSettings(
    num_leaves=2,  # a tree with one split can be computed by hand
    binning="equal_width",  # with so few values, every value is a threshold
    split_criterion="least_squares",
    objective=DIALECT,
    splits=SplitSettings(min_docs_in_leaf=1, min_sum_hessian=0.0),
)
NAMED = (
    *(boost, evaluate, pair_lambdas, lambdas, bin_features, quantise, build_histogram),
    *(best_split, by_deviance, choose, newton_step, Grower, PairSettings),
)
"""Functions and classes that the text names."""
WIDTH = 100  # columns

ValueOfDocument = NDArray[np.float64]  # (10,), one value per document
DocumentMask = NDArray[np.bool_]  # (10,), True for the selected documents


@dataclass(frozen=True, eq=False)
class Walk:
    """Trees, scores and lambdas that the engine computed for the ten documents.

    Attributes:
        data: one query with ten documents.
        trees: one per iteration.
        scores: (10,) each: before the first tree, and after each tree.
        pairs: the lambdas of all pairs at each of these scores.
    """

    data: RankingDataset
    trees: list[Tree]
    scores: list[Scores]
    pairs: list[PairLambdas]

    def metric(self, name: str, scores: Scores) -> float:
        convention = replace(DIALECT.convention, ties=Ties(DIALECT.ties))
        return evaluate(self.data, scores, [name], convention).means[name]


def walk() -> Walk:
    """Fits the ten documents and records the scores and lambdas of every iteration."""
    data = RankingDataset(
        features=np.array(list(FEATURE_VALUES.values()), dtype=np.float32).T.copy(),
        labels=np.array(LABELS, dtype=np.float64),
        query_start=np.array([0, len(LABELS)]),
    )
    scores: list[Scores] = [np.zeros(len(LABELS))]

    def keep(num_trees: int, train_scores: Scores, *_: object) -> bool:
        del num_trees
        scores.append(train_scores)
        return False

    trees = boost(data, SETTINGS, on_iteration=keep).forest.trees()
    return Walk(
        data,
        trees,
        scores,
        [pair_lambdas(data.labels, each, DIALECT) for each in scores],
    )


def walkthrough() -> str:
    """Returns the whole text as Markdown."""
    walked = walk()
    template = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    functions = {item.__name__: _location(item) for item in NAMED}
    filled = template.format(
        **functions,
        **_of_ranking(walked),
        **_of_lambdas(walked),
        **_of_histogram(walked),
        **_of_cuts(walked),
        **_of_leaves(walked),
        **_of_second_iteration(walked),
    )
    return "\n\n".join(map(_wrapped, filled.rstrip().split("\n\n")))


def _wrapped(block: str) -> str:
    """Wraps a paragraph to WIDTH after the values are filled in; leaves headings, formulas and tables as
    is."""
    if block.startswith(("#", " ", "|")):
        return block
    return textwrap.fill(block, WIDTH, break_long_words=False, break_on_hyphens=False)


def _location(item: Callable[..., object]) -> str:
    return f"`{item.__name__}` in `{item.__module__.replace('.', '/')}.py`"


# One function per part of the text. Each returns name in braces -> value.


def _of_ranking(walked: Walk) -> dict[str, Any]:
    data, pairs = walked.data, walked.pairs[0]
    relevant = int(np.flatnonzero(data.labels)[0])
    exchanged = -pairs.ranks.astype(np.float64)
    exchanged[[0, relevant]] = exchanged[[relevant, 0]]
    columns = {
        "label": _cells(data.labels, 0),
        **{
            f"feature {number}": _cells(data.features[:, f], 6)
            for f, number in enumerate(FEATURE_VALUES)
        },
        "score": _cells(walked.scores[0]),
        "rank r": _cells(pairs.ranks, 0),
        "gain G": _cells(pairs.gains, 0),
        "discount D": _cells(pairs.discounts),
    }
    return {
        "documents": _by_document(columns),
        "dcg": walked.metric("dcg", walked.scores[0]),
        "ideal_dcg": walked.metric("dcg", data.labels),
        "ndcg": [walked.metric("ndcg", scores) for scores in walked.scores],
        "deltas": _pairs_table(data.labels, pairs.delta, with_sums=False),
        "ndcg_exchanged": walked.metric("ndcg", exchanged),
    }


def _of_lambdas(walked: Walk) -> dict[str, Any]:
    first_two = list(zip(walked.scores[:2], walked.pairs[:2], strict=True))
    labels = walked.data.labels
    return {
        "sigma": DIALECT.sigma,
        "lambdas_of_pairs": [
            _pairs_table(labels, np.abs(pairs.lambda_matrix)) for _, pairs in first_two
        ],
        "lambdas_of_documents": [
            _lambdas_table(labels, scores, pairs) for scores, pairs in first_two
        ],
        "sum_of_lambdas": abs(walked.pairs[0].gradients.sum()),
    }


def _of_histogram(walked: Walk) -> dict[str, Any]:
    pairs, rule = walked.pairs[0], BINNINGS[SETTINGS.binning]
    binned = bin_features(
        walked.data.features, SETTINGS.max_bins, np.random.default_rng(0), rule
    )
    quantised = quantise(pairs.gradients, pairs.hessians)
    histogram = np.empty(binned.num_bins.sum(), dtype=np.int64)
    rows, terms = (
        np.arange(len(LABELS), dtype=np.uint32),
        split_terms(SETTINGS.splits, quantised),
    )
    build_histogram(task_of(binned, quantised), binned.layout, terms, rows, histogram)
    sums = histogram[
        : binned.num_bins[0] - 1
    ]  # without the bin for missing values, which is empty
    pushes, hessians = (
        -quantised.gradient_unit * (sums >> 32),
        quantised.hessian_unit * (sums & 0xFFFFFFFF),
    )
    columns = {
        "bin": [str(number) for number in range(len(sums))],
        "values up to": [*_cells(binned.thresholds[0, : len(sums) - 1], 6), "any"],
        "lambda": _cells(pushes),
        "hessian": _cells(hessians),
        "lambda so far": _cells(np.cumsum(pushes)),
        "hessian so far": _cells(np.cumsum(hessians)),
    }
    return {"histogram": _table(columns), "unit_of_lambda": quantised.gradient_unit}


class Cut(NamedTuple):
    """A split of one feature, with its gains for the first tree.

    Attributes:
        threshold: the largest value on the left side.
        left: (10,), True for the documents on the left side.
        mean_left: mean lambda of the left side.
        mean_right: mean lambda of the right side.
        error_left: sum of squared differences between the lambdas of the left side and their mean.
        error_right: the same for the right side.
        least_squares: gain by least squares.
        newton: gain by the Newton criterion, to second order.
    """

    threshold: np.float32
    left: DocumentMask
    mean_left: float
    mean_right: float
    error_left: float
    error_right: float
    least_squares: float
    newton: float


def cuts_of(walked: Walk, feature: int) -> list[Cut]:
    """Returns all splits of one feature of FEATURE_VALUES, in ascending order of threshold."""
    values = walked.data.features[:, list(FEATURE_VALUES).index(feature)]
    return [
        _cut(walked.pairs[0], values <= threshold, threshold)
        for threshold in np.sort(values)[:-1]
    ]


def _cut(pairs: PairLambdas, left: DocumentMask, threshold: np.float32) -> Cut:
    flat, lambdas_of_rows = np.ones(len(left)), -pairs.gradients
    of_counts, of_hessians = (
        _gain(pairs, left, each) for each in (flat, pairs.hessians)
    )
    quantised = quantise(pairs.gradients, flat)
    split = Split(of_counts, 0, 0, missing_left=False)
    sides = [
        OpenLeaf(0, np.flatnonzero(side).astype(np.uint32), split)
        for side in (left, ~left)
    ]
    error_left, error_right = (
        -by_deviance(side, quantised, ALONE)[0] for side in sides
    )
    return Cut(
        threshold,
        left,
        float(lambdas_of_rows[left].mean()),
        float(lambdas_of_rows[~left].mean()),
        error_left,
        error_right,
        of_counts,
        of_hessians,
    )


def _gain(pairs: PairLambdas, left: DocumentMask, hessians: ValueOfDocument) -> float:
    """Returns the gain of the only split of a feature with two bins: bin 0 for the left side, bin 1 for the
    right side."""
    bins = np.where(left, 0, 1)[:, None]
    rounded = round_to_units(pairs.gradients, 2**31), round_to_units(hessians, 2**32)
    (whole_g, g_unit), (whole_h, h_unit) = rounded
    # The last bin is for missing values.
    sums = histograms(
        bins, np.stack([whole_g, whole_h, np.ones(len(left))]), num_bins=3
    )
    split = best_split(sums, np.array([g_unit, h_unit]), Settings(min_docs_in_leaf=1))
    assert split is not None  # every split has a positive gain when the lambdas differ
    return split.gain


def tutorial_cut(walked: Walk) -> Cut:
    return next(
        cut for cut in cuts_of(walked, 1) if cut.threshold == TUTORIAL_THRESHOLD
    )


def best_cut(walked: Walk, feature: int) -> Cut:
    return max(cuts_of(walked, feature), key=lambda cut: cut.least_squares)


class OneCut(NamedTuple):
    """A tree with one split; the feature is a key of FEATURE_VALUES."""

    feature: int
    threshold: np.float32
    gain: float
    value_left: float
    value_right: float


def one_cut(tree: Tree) -> OneCut:
    feature, values = list(FEATURE_VALUES)[tree.feature[0]], tree.value
    return OneCut(
        feature,
        tree.threshold[0],
        tree.gain[0],
        values[tree.left[0]],
        values[tree.right[0]],
    )


def _of_cuts(walked: Walk) -> dict[str, Any]:
    cuts, tutorial = cuts_of(walked, 1), tutorial_cut(walked)
    disputed = _disputed(cuts)
    columns = {
        "threshold": _cells([cut.threshold for cut in cuts], 6),
        "left": [str(np.count_nonzero(cut.left)) for cut in cuts],
        "mean left": _cells([cut.mean_left for cut in cuts]),
        "mean right": _cells([cut.mean_right for cut in cuts]),
        "error left": _cells([cut.error_left for cut in cuts], 4),
        "error right": _cells([cut.error_right for cut in cuts], 4),
        "least squares": _cells([cut.least_squares for cut in cuts]),
        "Newton": _cells([cut.newton for cut in cuts]),
    }
    return {
        "cuts": _table(columns),
        "tutorial": tutorial,
        "tutorial_left": _documents(tutorial.left),
        "tutorial_right": _documents(~tutorial.left),
        "best": best_cut(walked, 1),
        "best_of_feature_5": best_cut(walked, 5),
        "first_tree": one_cut(walked.trees[0]),
        "disputed": disputed,
        "disputed_documents": _documents(disputed[0].left ^ disputed[1].left),
        "num_leaves": SETTINGS.num_leaves,
    }


def _disputed(cuts: Sequence[Cut]) -> tuple[Cut, Cut]:
    """Returns the first pair of splits such that least squares prefers the first and Newton the second."""
    return next(
        (a, b)
        for a in cuts
        for b in cuts
        if a.least_squares > b.least_squares and a.newton < b.newton
    )


def leaf_values(walked: Walk, left: DocumentMask, leaf_value: str) -> list[float]:
    """Returns the values of the left and the right leaf of a tree with the given split."""
    data = RankingDataset(
        features=np.where(left, 0, 1).astype(np.float32)[:, None],
        labels=walked.data.labels,
        query_start=walked.data.query_start,
    )
    tree = boost(
        data, replace(SETTINGS, num_trees=1, leaf_value=leaf_value)
    ).forest.trees()[0]
    return [float(tree.value[tree.left[0]]), float(tree.value[tree.right[0]])]


def _of_leaves(walked: Walk) -> dict[str, Any]:
    pairs, cuts = walked.pairs[0], [best_cut(walked, 1), tutorial_cut(walked)]
    sides = [side for cut in cuts for side in (cut.left, ~cut.left)]
    columns = {
        "feature 1": [
            f"{sign} {cut.threshold:.6f}" for cut in cuts for sign in ("up to", "above")
        ],
        "documents": [_documents(side) for side in sides],
        "sum of lambda": _cells([-pairs.gradients[side].sum() for side in sides]),
        "sum of hessian": _cells([pairs.hessians[side].sum() for side in sides]),
        "mean lambda": _cells(
            [value for cut in cuts for value in leaf_values(walked, cut.left, "mean")]
        ),
        "Newton step": _cells(
            [value for cut in cuts for value in leaf_values(walked, cut.left, "newton")]
        ),
    }
    new = {
        "label": _cells(walked.data.labels, 0),
        "value": _cells(walked.scores[1] / SETTINGS.learning_rate),
        "score": _cells(walked.scores[1]),
        "rank r": _cells(walked.pairs[1].ranks, 0),
    }
    return {
        "leaves": _table(columns),
        "learning_rate": SETTINGS.learning_rate,
        "new_scores": _by_document(new),
    }


def _of_second_iteration(walked: Walk) -> dict[str, Any]:
    scores = walked.scores[1]
    distance = scores.max() - scores.min()
    shown = (0, 1, 2, 10, 100)
    pushes = [np.maximum(-walked.pairs[k].gradients, 0.0).sum() for k in shown]
    history = {
        "trees": [str(k) for k in shown],
        "NDCG": _cells([walked.metric("ndcg", walked.scores[k]) for k in shown]),
        "score, relevant": _cells([walked.scores[k].max() for k in shown]),
        "score, irrelevant": _cells([walked.scores[k].min() for k in shown]),
        "sum of positive lambda": _cells(pushes),
    }
    dialects = {
        name: _cells(
            -pair_lambdas(walked.data.labels, walked.scores[0], settings).gradients
        )
        for name, settings in DIALECTS.items()
    }
    return {
        "distance": distance,
        "p": float(logistic(distance, DIALECT.sigma)),
        "second_tree": one_cut(walked.trees[1]),
        "history": _table(history),
        "dialects": _by_document(dialects),
    }


# Tables.


def _pairs_table(
    labels: ValueOfDocument, matrix: NDArray[np.float64], with_sums: bool = True
) -> str:
    """Returns the part of a symmetric (10, 10) matrix that is not 0: irrelevant by relevant documents."""
    relevant, irrelevant = np.flatnonzero(labels), np.flatnonzero(labels == 0)
    block = matrix[np.ix_(irrelevant, relevant)]
    ends = ["pushed up"] if with_sums else []
    columns = {"document": [*(str(row + 1) for row in irrelevant), *ends]}
    for row, cells in zip(relevant, block.T, strict=True):
        columns[f"with {row + 1}"] = _cells(
            [*cells, *([cells.sum()] if with_sums else [])]
        )
    if with_sums:
        columns["pushed down"] = [*_cells(block.sum(axis=1)), ""]
    return _table(columns)


def _lambdas_table(labels: ValueOfDocument, scores: Scores, pairs: PairLambdas) -> str:
    columns = {
        "label": _cells(labels, 0),
        "score": _cells(scores),
        "rank r": _cells(pairs.ranks, 0),
        "lambda": _cells(-pairs.gradients),
        "hessian": _cells(pairs.hessians),
    }
    return _by_document(columns)


def _by_document(columns: dict[str, list[str]]) -> str:
    return _table({"document": [str(row + 1) for row in range(len(LABELS))], **columns})


def _table(columns: dict[str, list[str]]) -> str:
    return Table.of(list(columns), zip(*columns.values(), strict=True)).markdown()


def _cells(values: Sequence[Any] | NDArray[Any], digits: int = 3) -> list[str]:
    # z: no minus sign on a value that rounds to 0.
    return [f"{value:z.{digits}f}" for value in np.asarray(values, dtype=np.float64)]


def _documents(rows: DocumentMask) -> str:
    """Returns the numbers of the selected documents, counted from 1 as in the text."""
    return " ".join(str(row + 1) for row in np.flatnonzero(rows))


if __name__ == "__main__":
    (ROOT / "ltrbench/cli/walkthrough.md").write_text(
        f"{walkthrough()}\n", encoding="utf-8"
    )
