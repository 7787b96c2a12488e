"""New data against the training data of a run: drift of the features and of the model, and a metric.

`monitor` returns every measure with its interval; `ltrbench.statistics.drift` defines the distances. A
measure is past its threshold if its whole interval is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.views import Chapter, Section
from ltrbench.data import RankingDataset
from ltrbench.data.dataset import Judgments
from ltrbench.data.features import as_array
from ltrbench.errors import ConfigError, DataError
from ltrbench.metrics import evaluate
from ltrbench.models.trees import Ensemble, FlatTree, leaf_sums, leaves_of
from ltrbench.shapes import Features, Scores
from ltrbench.statistics.drift import (
    Estimate,
    Multipliers,
    category_bins,
    equal_frequency_bins,
    kolmogorov_smirnov,
    psi,
    simultaneous,
)
from ltrbench.tables import Table, TableCell, TableColumn, TableRow, format_interval, share

FEWEST_QUERIES = 20  # of new data: intervals over fewer are too narrow
FIRST = 10
RARE_LEAF, RARE_DOCUMENTS = 0.001, 30

READING = (
    "All intervals hold together with a probability of 95 %; they are computed over queries. A measure is "
    "past a threshold if its whole interval is. then: the value in training, of a metric on test."
)
ABOUT_MODEL = (
    f"rare: share of documents in leaves that at most {RARE_DOCUMENTS}, or {share(RARE_LEAF)}, of the "
    f"training documents reached. overlap: common share of the first {FIRST} documents by the two models. "
    "fall: the metric on test, less its value now."
)
ABOUT_FEATURES = (
    "psi: population stability index. ks: Kolmogorov-Smirnov distance. missing: share of missing values. "
    "unseen: share of documents with a category that training does not have."
)
UNLABELLED = "The data have no labels: nothing is claimed about the quality of the rankings."


@dataclass(frozen=True)
class Measure:
    """A measure of new data, with its simultaneous interval.

    Attributes:
        name: psi, ks, missing, unseen, rare, overlap, fall, or the name of a metric.
        feature: name of the feature; "model" for a measure of the model.
        then: value in training, or of a metric on test; None if there is none.
        limit: threshold, a minimum of overlap and a maximum of the others; None if none is set.
    """

    name: str
    feature: str
    value: float
    low: float
    high: float
    then: float | None = None
    limit: float | None = None

    @property
    def is_past(self) -> bool:
        """Whether the whole interval is past the threshold."""
        if self.limit is None:
            return False
        return bool(self.high < self.limit if self.name == "overlap" else self.low > self.limit)

    def __str__(self) -> str:
        sign = "<" if self.name == "overlap" else ">"
        interval = format_interval(self.low, self.high, ".3g")
        return f"{self.name} of {self.feature} {self.value:.3g} {interval} {sign} {self.limit:g}"


def monitor(
    train: RankingDataset,
    new: RankingDataset,
    scores: Scores,
    limits: Mapping[str, float],
    *,
    trees: Ensemble | None = None,
    other: Scores | None = None,
    metric: str = "ndcg@10",
    tested: tuple[Judgments, Scores] | None = None,
    seed: int = 0,
) -> list[Measure]:
    """Returns the measures of new data.

    Args:
        train, new: features in the same order; the categories of `new` begin with those of training.
        scores: (D,), of the new documents.
        limits: name of a measure -> threshold.
        trees: trees of the model; None without trees.
        other: (D,), scores of a second model; None without one.
        metric: metric if a label is above 0.
        tested: judgments and scores of the test set of the run; None if it has none.

    Raises:
        DataError: The new data have fewer than 20 queries.
        ConfigError: A threshold is set for a measure that these data do not have.
    """
    if new.num_queries < FEWEST_QUERIES:
        raise DataError(
            f"the new data have {new.num_queries} queries, but intervals over queries need {FEWEST_QUERIES}; "
            "give the data of a longer time."
        )
    before, after = Multipliers.of(train.query_start, seed), Multipliers.of(new.query_start, seed + 1)
    then, now = as_array(train.features), as_array(new.features)
    estimates: dict[tuple[str, str], tuple[Estimate | None, float | None]] = {}
    for name, old, values in zip(train.feature_names, then.T, now.T, strict=True):
        is_category = name in train.categories
        bins = (category_bins if is_category else equal_frequency_bins)(old, values)
        estimates["psi", name] = psi(*bins, before, after), None
        if not is_category:
            estimates["ks", name] = kolmogorov_smirnov(old, values, before, after), None
        is_missing = np.isnan(values)
        estimates["missing", name] = after.mean(is_missing), float(np.isnan(old).mean())
        if is_category:
            estimates["unseen", name] = after.mean(~np.isin(values, old) & ~is_missing), None
    if trees is not None:
        shares = _shares_in_rare_leaves(trees, then, without_unseen(new, train.categories))
        estimates["rare", "model"] = after.mean(shares[len(then) :]), float(shares[: len(then)].mean())
    if other is not None and (new.query_sizes > FIRST).any():
        overlap = np.where(new.query_sizes > FIRST, _overlap(new, scores, other), np.nan)
        estimates["overlap", "model"] = after.mean_of_queries(overlap), None
    if new.labels.any():
        quality = _quality(new, scores, metric, after)
        if tested is not None:
            test = _quality(*tested, metric, Multipliers.of(tested[0].query_start, seed + 2))
            fall = Estimate(test.value - quality.value, test.noise - quality.noise)
            estimates["fall", "model"] = fall, None
        estimates[metric, "model"] = quality, None if tested is None else test.value
    known = {key: (estimate, old) for key, (estimate, old) in estimates.items() if estimate is not None}
    if missing := [name for name in limits if name not in {key[0] for key in known}]:
        raise ConfigError(
            f"the threshold {limits[missing[0]]:g} of {missing[0]} has no value to check: unseen needs "
            "features with categories, rare a model with trees, overlap a second model (--against) and "
            f"queries of more than {FIRST} documents, fall labels and a run with test scores. Remove "
            "the threshold."
        )
    ends = simultaneous([estimate for estimate, _ in known.values()])
    return [
        Measure(
            *(name, feature, estimate.value),
            low if name in ("fall", metric) else max(low, 0.0),
            high,
            old,
            limits.get(name),
        )
        for ((name, feature), (estimate, old)), (low, high) in zip(known.items(), ends, strict=True)
    ]


def without_unseen(data: RankingDataset, categories: Mapping[str, Sequence[str]]) -> Features:
    """Returns the (D, F) features as a model reads them: an unseen category is a missing value."""
    features = np.array(as_array(data.features))
    for name, known in categories.items():
        column = features[:, data.feature_names.index(name)]
        column[column >= len(known)] = np.nan
    return features


def _shares_in_rare_leaves(trees: Ensemble, then: Features, now: Features) -> Scores:
    """Returns for each document, then and now, the share of trees in which it reaches a rare leaf."""

    def is_rare(tree: FlatTree, weight: float) -> NDArray[np.float64]:
        del weight
        leaves = leaves_of(tree, then, trees.comparison, trees.threshold_dtype)
        counts = np.bincount(leaves, minlength=len(tree.feature))
        return (counts <= max(RARE_LEAF * len(then), RARE_DOCUMENTS)) / len(trees.trees)

    both = np.concatenate([then, now])
    return leaf_sums(trees, both, np.zeros(len(both)), is_rare)


def _overlap(data: Judgments, scores: Scores, other: Scores) -> NDArray[np.float64]:
    """Returns the (Q,) common shares of the first documents by two scores; ties in the order of the rows."""
    is_first = np.zeros((2, data.num_documents), dtype=np.bool_)
    for row, each in zip(is_first, (scores, other), strict=True):
        row[np.lexsort((-each, data.query_of_document))[data.ranks_of_rows < FIRST]] = True
    return np.add.reduceat(is_first.all(axis=0), data.query_start[:-1], dtype=np.float64) / FIRST


def _quality(judgments: Judgments, scores: Scores, metric: str, multipliers: Multipliers) -> Estimate:
    values = evaluate(judgments, scores, [metric]).per_query[metric]
    return multipliers.mean_of_queries(values, judgments.query_weights)


def as_chapter(title: str, new: RankingDataset, measures: Sequence[Measure]) -> Chapter:
    """Returns what the page and the terminal show."""
    past, checked = (
        [item for item in measures if item.is_past],
        [item for item in measures if item.limit is not None],
    )
    answer = f"Past a threshold: {'; '.join(map(str, past))}." if past else "No measure is past a threshold."
    if not checked:
        answer = "No threshold is set: these are the measures only."
    facts = [("queries", f"{new.num_queries:,}"), ("documents", f"{new.num_documents:,}")]
    of_model = [item for item in measures if item.feature == "model"]
    of_features = [item for item in measures if item.feature != "model"]
    sections = [
        Section(name.lower(), name, lead, [_table(items)])
        for name, lead, items in (
            ("Model", ABOUT_MODEL, of_model),
            ("Features", ABOUT_FEATURES, of_features),
        )
        if items
    ]
    quality = [] if new.labels.any() else [UNLABELLED]
    return Chapter("monitor", title, sections, [answer, *quality, READING], facts)


def _table(measures: Sequence[Measure]) -> Table:
    """Returns a row for each feature, by the lower end of the PSI, and a column for each measure."""
    cells = {
        (item.feature, item.name): TableCell(
            item.value,
            note=format_interval(item.low, item.high, ".3f")
            + ("" if item.then is None else f" then {item.then:.3f}"),
            emphasis="worse" * item.is_past,
        )
        for item in measures
    }
    names = list(dict.fromkeys(item.name for item in measures))
    first = dict.fromkeys(
        item.feature
        for item in sorted(measures, key=lambda item: (item.name != "psi", -item.low, -item.value))
    )
    rows: list[TableRow] = [[row, *(cells.get((row, name), TableCell()) for name in names)] for row in first]
    columns = [TableColumn(name, ".3f", with_notes=True) for name in names]
    return Table([TableColumn("", left=True), *columns], rows)
