"""Writes the text of the verb `walkthrough`, ltrbench/cli/walkthrough.md: `python docs/walkthrough.py`.

The text explains LambdaMART on ten documents, from their labels to the second iteration. `walkthrough.txt` is
the template, with a name in braces for each number, table and function. This file computes the values with
the engine functions that the text names, so no number is typed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.metrics import evaluate
from ltrbench.metrics.conventions import Ties
from ltrbench.native import Tree
from ltrbench.native.bins import BinnedFeatures, bin_features
from ltrbench.native.boosting import BINNINGS, BoostingSettings, boost
from ltrbench.native.growing import Grower, OpenLeaf, build_histogram, by_deviance
from ltrbench.native.histogram import Quantised, quantise, task_of
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
PRINTED = ROOT / "ltrbench" / "cli" / "walkthrough.md"
"""The text that the verb prints."""

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
    boost,
    evaluate,
    pair_lambdas,
    lambdas,
    bin_features,
    quantise,
    build_histogram,
    best_split,
    by_deviance,
    choose,
    newton_step,
    Grower,
    PairSettings,
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
    values_by_feature = np.array(list(FEATURE_VALUES.values()), dtype=np.float32)
    data = RankingDataset(
        features=values_by_feature.T.copy(),
        labels=np.array(LABELS, dtype=np.float64),
        query_start=np.array([0, len(LABELS)]),
    )
    scores: list[Scores] = [np.zeros(len(LABELS))]

    def keep(num_trees: int, train_scores: Scores, *_: object) -> bool:
        del num_trees
        scores.append(train_scores)
        return False

    trees = boost(data, SETTINGS, on_iteration=keep).forest.trees()
    pairs = [pair_lambdas(data.labels, each, DIALECT) for each in scores]
    return Walk(data, trees, scores, pairs)


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
    """Wraps a paragraph to WIDTH; leaves headings, formulas and tables as is."""
    if block.startswith(("#", " ", "|")):
        return block
    return textwrap.fill(block, WIDTH, break_long_words=False, break_on_hyphens=False)


def _location(item: Callable[..., object]) -> str:
    return f"`{item.__name__}` in `{item.__module__.replace('.', '/')}.py`"


# One function per part of the text. Each returns name in braces -> value.


def _of_ranking(walked: Walk) -> dict[str, Any]:
    data = walked.data
    scores = walked.scores[0]
    pairs = walked.pairs[0]
    columns = {"label": _cells(data.labels, 0)}
    for number, values in zip(FEATURE_VALUES, data.features.T, strict=True):
        columns[f"feature {number}"] = _cells(values, 6)
    columns |= {
        "score": _cells(scores),
        "rank r": _cells(pairs.ranks, 0),
        "gain G": _cells(pairs.gains, 0),
        "discount D": _cells(pairs.discounts),
    }
    return {
        "documents": _by_document(columns),
        "dcg": walked.metric("dcg", scores),
        "ideal_dcg": walked.metric("dcg", data.labels),
        "ndcg": [walked.metric("ndcg", each) for each in walked.scores],
        "deltas": _deltas_table(data.labels, pairs),
        "ndcg_exchanged": _ndcg_after_a_swap(walked),
    }


def _ndcg_after_a_swap(walked: Walk) -> float:
    """Returns the NDCG if the first document and the first relevant one swap their initial ranks."""
    first_relevant = np.flatnonzero(walked.data.labels)[0]
    scores = -walked.pairs[0].ranks.astype(np.float64)
    scores[[0, first_relevant]] = scores[[first_relevant, 0]]
    return walked.metric("ndcg", scores)


def _of_lambdas(walked: Walk) -> dict[str, Any]:
    labels = walked.data.labels
    tables_of_pairs = []
    tables_of_documents = []
    for num_trees in (0, 1):
        scores = walked.scores[num_trees]
        pairs = walked.pairs[num_trees]
        tables_of_pairs.append(_lambdas_of_pairs_table(labels, pairs))
        tables_of_documents.append(_lambdas_table(labels, scores, pairs))
    return {
        "sigma": DIALECT.sigma,
        "lambdas_of_pairs": tables_of_pairs,
        "lambdas_of_documents": tables_of_documents,
        "sum_of_lambdas": abs(walked.pairs[0].gradients.sum()),
    }


def _of_histogram(walked: Walk) -> dict[str, Any]:
    binned = bin_features(
        walked.data.features,
        SETTINGS.max_bins,
        np.random.default_rng(0),
        BINNINGS[SETTINGS.binning],
    )
    pairs = walked.pairs[0]
    quantised = quantise(pairs.gradients, pairs.hessians)
    sums = _packed_sums(binned, quantised)
    lambdas_of_bins = -quantised.gradient_unit * (sums >> 32)
    hessians_of_bins = quantised.hessian_unit * (sums & 0xFFFFFFFF)
    thresholds = binned.thresholds[0, : len(sums) - 1]
    columns = {
        "bin": [str(number) for number in range(len(sums))],
        "values up to": [*_cells(thresholds, 6), "any"],
        "lambda": _cells(lambdas_of_bins),
        "hessian": _cells(hessians_of_bins),
        "lambda so far": _cells(np.cumsum(lambdas_of_bins)),
        "hessian so far": _cells(np.cumsum(hessians_of_bins)),
    }
    return {"histogram": _table(columns), "unit_of_lambda": quantised.gradient_unit}


def _packed_sums(binned: BinnedFeatures, quantised: Quantised) -> NDArray[np.int64]:
    """Returns the histogram of the first feature, without the bin for missing values, which is empty."""
    task = task_of(binned, quantised)
    terms = split_terms(SETTINGS.splits, quantised)
    rows = np.arange(len(LABELS), dtype=np.uint32)
    histogram = np.empty(binned.num_bins.sum(), dtype=np.int64)
    build_histogram(task, binned.layout, terms, rows, histogram)
    return histogram[: binned.num_bins[0] - 1]


@dataclass(frozen=True, eq=False)
class Cut:
    """A split of one feature, with its gains for the first tree.

    Attributes:
        threshold: the largest value on the left side.
        left: (10,), True for the documents on the left side.
        pairs: the lambdas of the first iteration.
    """

    threshold: np.float32
    left: DocumentMask
    pairs: PairLambdas

    @property
    def mean_left(self) -> float:
        """Mean lambda of the left side."""
        return -float(self.pairs.gradients[self.left].mean())

    @property
    def mean_right(self) -> float:
        return -float(self.pairs.gradients[~self.left].mean())

    @property
    def error_left(self) -> float:
        """Sum of squared differences between the lambdas of the left side and their mean."""
        return _squared_error(self.pairs, self.left)

    @property
    def error_right(self) -> float:
        return _squared_error(self.pairs, ~self.left)

    @property
    def least_squares(self) -> float:
        """Gain by least squares."""
        return _gain(self.pairs, self.left, np.ones(len(self.left)))

    @property
    def newton(self) -> float:
        """Gain by the Newton criterion, to second order."""
        return _gain(self.pairs, self.left, self.pairs.hessians)


def _squared_error(pairs: PairLambdas, side: DocumentMask) -> float:
    quantised = quantise(pairs.gradients, np.ones(len(side)))
    rows = np.flatnonzero(side).astype(np.uint32)
    any_split = Split(0.0, 0, 0, missing_left=False)  # a deviance depends on rows only
    leaf = OpenLeaf(0, rows, any_split)
    negative_deviance, _ = by_deviance(leaf, quantised, ALONE)
    return -negative_deviance


def _gain(pairs: PairLambdas, left: DocumentMask, hessians: ValueOfDocument) -> float:
    """Returns the gain of the only split of a feature with two bins: bin 0 for the left side, bin 1 for the
    right side."""
    whole_gradients, gradient_unit = round_to_units(pairs.gradients, 2**31)
    whole_hessians, hessian_unit = round_to_units(hessians, 2**32)
    terms = np.stack([whole_gradients, whole_hessians, np.ones(len(left))])
    bins = np.where(left, 0, 1)[:, None]
    sums = histograms(bins, terms, num_bins=3)  # the last bin is for missing values
    units = np.array([gradient_unit, hessian_unit])
    split = best_split(sums, units, Settings(min_docs_in_leaf=1))
    assert split is not None  # every split has a positive gain when the lambdas differ
    return split.gain


def cuts_of(walked: Walk, feature: int) -> list[Cut]:
    """Returns all splits of one feature of FEATURE_VALUES, in ascending order of threshold."""
    column = list(FEATURE_VALUES).index(feature)
    values = walked.data.features[:, column]
    thresholds = np.sort(values)[:-1]
    return [
        Cut(threshold, values <= threshold, walked.pairs[0]) for threshold in thresholds
    ]


def tutorial_cut(walked: Walk) -> Cut:
    return next(
        cut for cut in cuts_of(walked, 1) if cut.threshold == TUTORIAL_THRESHOLD
    )


def best_cut(walked: Walk, feature: int) -> Cut:
    return max(cuts_of(walked, feature), key=lambda cut: cut.least_squares)


@dataclass(frozen=True)
class OneCut:
    """A tree with one split; the feature is a key of FEATURE_VALUES."""

    _: KW_ONLY
    feature: int
    threshold: np.float32
    gain: float
    value_left: float
    value_right: float


def one_cut(tree: Tree) -> OneCut:
    return OneCut(
        feature=list(FEATURE_VALUES)[tree.feature[0]],
        threshold=tree.threshold[0],
        gain=tree.gain[0],
        value_left=tree.value[tree.left[0]],
        value_right=tree.value[tree.right[0]],
    )


def _of_cuts(walked: Walk) -> dict[str, Any]:
    cuts = cuts_of(walked, 1)
    tutorial = tutorial_cut(walked)
    disputed = _disputed(cuts)
    return {
        "cuts": _cuts_table(cuts),
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


def _cuts_table(cuts: Sequence[Cut]) -> str:
    rows = []
    for cut in cuts:
        num_left = np.count_nonzero(cut.left)
        means = _cells([cut.mean_left, cut.mean_right])
        errors = _cells([cut.error_left, cut.error_right], 4)
        gains = _cells([cut.least_squares, cut.newton])
        numbers = [str(num_left), *means, *errors, *gains]
        rows.append([f"{cut.threshold:.6f}", *numbers])
    header = [
        "threshold",
        "left",
        "mean left",
        "mean right",
        "error left",
        "error right",
        "least squares",
        "Newton",
    ]
    return Table.of(header, rows).markdown()


def _disputed(cuts: Sequence[Cut]) -> tuple[Cut, Cut]:
    """Returns the first pair of splits such that least squares prefers the first and Newton the second."""
    return next(pair for pair in permutations(cuts, 2) if _is_disputed(*pair))


def _is_disputed(a: Cut, b: Cut) -> bool:
    return a.least_squares > b.least_squares and a.newton < b.newton


def leaf_values(
    walked: Walk, left: DocumentMask, leaf_value: str
) -> tuple[float, float]:
    """Returns the values of the left and the right leaf of a tree with the given split."""
    is_right = (~left).astype(np.float32)
    data = RankingDataset(
        features=is_right[:, None],
        labels=walked.data.labels,
        query_start=walked.data.query_start,
    )
    settings = replace(SETTINGS, num_trees=1, leaf_value=leaf_value)
    (tree,) = boost(data, settings).forest.trees()
    value_left = tree.value[tree.left[0]]
    value_right = tree.value[tree.right[0]]
    return float(value_left), float(value_right)


def _of_leaves(walked: Walk) -> dict[str, Any]:
    new = {
        "label": _cells(walked.data.labels, 0),
        "value": _cells(walked.scores[1] / SETTINGS.learning_rate),
        "score": _cells(walked.scores[1]),
        "rank r": _cells(walked.pairs[1].ranks, 0),
    }
    return {
        "leaves": _leaves_table(walked),
        "learning_rate": SETTINGS.learning_rate,
        "new_scores": _by_document(new),
    }


def _leaves_table(walked: Walk) -> str:
    pairs = walked.pairs[0]
    rows = []
    for cut in (best_cut(walked, 1), tutorial_cut(walked)):
        mean_left, mean_right = leaf_values(walked, cut.left, "mean")
        step_left, step_right = leaf_values(walked, cut.left, "newton")
        of_left = _cells_of_leaf(pairs, cut.left, mean_left, step_left)
        of_right = _cells_of_leaf(pairs, ~cut.left, mean_right, step_right)
        rows.append([f"up to {cut.threshold:.6f}", *of_left])
        rows.append([f"above {cut.threshold:.6f}", *of_right])
    header = [
        "feature 1",
        "documents",
        "sum of lambda",
        "sum of hessian",
        "mean lambda",
        "Newton step",
    ]
    return Table.of(header, rows).markdown()


def _cells_of_leaf(
    pairs: PairLambdas, side: DocumentMask, mean: float, step: float
) -> list[str]:
    sum_of_lambdas = -pairs.gradients[side].sum()
    sum_of_hessians = pairs.hessians[side].sum()
    return [_documents(side), *_cells([sum_of_lambdas, sum_of_hessians, mean, step])]


def _of_second_iteration(walked: Walk) -> dict[str, Any]:
    scores = walked.scores[1]
    distance = scores.max() - scores.min()
    lambdas_by_dialect = {}
    for name, settings in DIALECTS.items():
        pairs = pair_lambdas(walked.data.labels, walked.scores[0], settings)
        lambdas_by_dialect[name] = _cells(-pairs.gradients)
    return {
        "distance": distance,
        "p": float(logistic(distance, DIALECT.sigma)),
        "second_tree": one_cut(walked.trees[1]),
        "history": _history_table(walked),
        "dialects": _by_document(lambdas_by_dialect),
    }


def _history_table(walked: Walk) -> str:
    rows = []
    for num_trees in (0, 1, 2, 10, 100):
        scores = walked.scores[num_trees]
        positive_lambdas = np.maximum(-walked.pairs[num_trees].gradients, 0.0)
        numbers = [
            walked.metric("ndcg", scores),
            scores.max(),
            scores.min(),
            positive_lambdas.sum(),
        ]
        rows.append([str(num_trees), *_cells(numbers)])
    header = [
        "trees",
        "NDCG",
        "score, relevant",
        "score, irrelevant",
        "sum of positive lambda",
    ]
    return Table.of(header, rows).markdown()


# Tables.


def _deltas_table(labels: ValueOfDocument, pairs: PairLambdas) -> str:
    """Returns the deltas that are not 0: irrelevant by relevant documents."""
    relevant = np.flatnonzero(labels)
    irrelevant = np.flatnonzero(labels == 0)
    columns = {"document": _document_numbers(irrelevant)}
    for document in relevant:
        deltas = pairs.delta[irrelevant, document]
        columns[f"with {document + 1}"] = _cells(deltas)
    return _table(columns)


def _lambdas_of_pairs_table(labels: ValueOfDocument, pairs: PairLambdas) -> str:
    """Returns the absolute lambdas of pairs, irrelevant by relevant documents, with their sums."""
    relevant = np.flatnonzero(labels)
    irrelevant = np.flatnonzero(labels == 0)
    pushes = np.abs(pairs.lambda_matrix)
    columns = {"document": [*_document_numbers(irrelevant), "pushed up"]}
    for document in relevant:
        pushes_up = pushes[irrelevant, document]
        sum_of_column = pushes_up.sum()
        columns[f"with {document + 1}"] = _cells([*pushes_up, sum_of_column])
    pushes_down = pushes[np.ix_(irrelevant, relevant)].sum(axis=1)
    columns["pushed down"] = [*_cells(pushes_down), ""]
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
    all_documents = np.arange(len(LABELS))
    return _table({"document": _document_numbers(all_documents), **columns})


def _table(columns: dict[str, list[str]]) -> str:
    rows = zip(*columns.values(), strict=True)
    return Table.of(list(columns), rows).markdown()


def _cells(values: Sequence[Any] | NDArray[Any], digits: int = 3) -> list[str]:
    numbers = np.asarray(values, dtype=np.float64)
    # z: no minus sign on a value that rounds to 0.
    return [f"{number:z.{digits}f}" for number in numbers]


def _document_numbers(rows: NDArray[np.intp]) -> list[str]:
    """Returns the numbers of documents, counted from 1 as in the text."""
    return [str(row + 1) for row in rows]


def _documents(selected: DocumentMask) -> str:
    return " ".join(_document_numbers(np.flatnonzero(selected)))


if __name__ == "__main__":
    PRINTED.write_text(f"{walkthrough()}\n", encoding="utf-8")
