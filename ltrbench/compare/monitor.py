"""New data against the training data of a run: drift of the features and of the model, and a metric.

`monitor` returns every measure with its interval; `ltrbench.statistics.drift` defines the distances. A
measure is past its threshold if its whole interval is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.views import Chapter, Section
from ltrbench.data import RankingDataset
from ltrbench.data.dataset import Judgments
from ltrbench.data.features import as_array
from ltrbench.data.tables import encoded_names, one_hot
from ltrbench.errors import ConfigError, DataError
from ltrbench.metrics import evaluate
from ltrbench.models.trees import Ensemble, FlatTree, leaf_sums, leaves_of
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import trees_of
from ltrbench.runs.record import ScoredSplit
from ltrbench.shapes import Features, Scores
from ltrbench.statistics.checks import AT_LEAST, AT_MOST, FAILS, Check
from ltrbench.statistics.drift import (
    Estimate,
    Sample,
    bins_of,
    kolmogorov_smirnov,
    psi,
    simultaneous,
)
from ltrbench.tables import (
    Table,
    TableCell,
    TableColumn,
    TableRow,
    format_interval,
    share,
)

FEWEST_QUERIES = 20  # of new data: intervals over fewer are too narrow
FIRST = 10
RARE_LEAF = 0.001
RARE_DOCUMENTS = 30

READING = (
    "All intervals hold together with a probability of 95 %; they are computed over queries. A measure is "
    "past a threshold if its whole interval is. before: the value in training, of a metric on test."
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


@dataclass(frozen=True)
class Measure:
    """A measure of new data, with its simultaneous interval.

    Attributes:
        name: psi, ks, missing, unseen, rare, overlap, fall, or the name of a metric.
        feature: name of the feature; "model" for a measure of the model.
        then: value in training, or of a metric on test; None if there is none.
        check: the threshold, a minimum of overlap and a maximum of the others; None if none is set.
    """

    name: str
    feature: str
    value: float
    low: float
    high: float
    then: float | None
    check: Check | None

    @property
    def is_past(self) -> bool:
        """Whether the whole interval is past the threshold."""
        return self.check is not None and self.check.state == FAILS


@dataclass(frozen=True)
class _Known:
    """A measure before its simultaneous interval is known; fields as those of `Measure`."""

    name: str
    feature: str
    estimate: Estimate
    then: float | None = None


def monitor(
    train: RankingDataset,
    models: Sequence[tuple[Ranker, RankingDataset]],
    limits: Mapping[str, float],
    metric: str = "ndcg@10",
    test: ScoredSplit | None = None,
    seed: int = 0,
) -> list[Measure]:
    """Returns the measures of new data.

    Args:
        models: the model, and optionally a second one for the overlap, each with the new data. The features
            are in the order of training, and the categories begin with those of training. A one-hot encoded
            column may be one feature with categories, here and in `train`.
        limits: name of a measure -> threshold.
        metric: metric if a label is above 0.
        test: test set of the run; None of a final model.

    Raises:
        DataError: The new data have fewer than 20 queries.
        ConfigError: A threshold is set for a measure that these data do not have.
    """
    ranker, new = models[0]
    if new.num_queries < FEWEST_QUERIES:
        raise DataError(
            f"the new data have {new.num_queries} queries, but intervals over queries need {FEWEST_QUERIES}; "
            "give the data of a longer time."
        )
    before = Sample(train.query_start, seed)
    after = Sample(new.query_start, seed + 1)
    of_train = _as_read(ranker, train)
    columns_then = _columns_like(new, ranker, train, of_train)
    known = list(_of_features(columns_then, new, before, after))
    features = [_as_read(*model) for model in models]
    scores = []
    for (model, _), read in zip(models, features, strict=True):
        scores.append(model.predict_lists(read, new.query_start))
    known.extend(_of_rare_leaves(ranker, of_train, features[0], after))
    known.extend(_of_overlap(new, scores, after))
    quality = _quality(new, scores[0], metric, after)
    if new.labels.any() and quality is not None:
        known.extend(_of_quality(metric, quality, test, seed + 2))
    _require_values(limits, known)
    return _measures_of(known, limits)


def _measures_of(known: Sequence[_Known], limits: Mapping[str, float]) -> list[Measure]:
    """Returns the measures with simultaneous intervals, and with checks of those that have a threshold."""
    intervals = simultaneous([each.estimate for each in known])
    measures = []
    for each, interval in zip(known, intervals, strict=True):
        check = _check(each.name, limits, *interval)
        measure = Measure(each.name, each.feature, *interval, each.then, check)
        measures.append(measure)
    return measures


def _columns_like(
    new: RankingDataset, ranker: Ranker, train: RankingDataset, of_train: Features
) -> list[Features]:
    """Returns the (D,) columns of the training data for the features of the new data, in their order.

    Args:
        of_train: the training data as the model reads them.
    """
    read = as_array(train.features)
    columns = dict(zip(ranker.feature_names, of_train.T, strict=True))
    for name, categories in ranker.encoded.items():
        names = encoded_names(name, categories)
        flags = np.stack([columns[each] for each in names], axis=1)
        columns[name] = _codes(flags)
    # With the categories that the model does not have.
    columns |= zip(train.feature_names, read.T, strict=True)
    return [columns[name] for name in new.feature_names]


def _codes(flags: Features) -> Features:
    """Returns the (D,) codes of a one-hot encoded column from its (D, C) features; NaN without a category."""
    codes: Features = flags.argmax(axis=1).astype(flags.dtype)
    codes[~flags.any(axis=1)] = np.nan
    return codes


def _of_features(
    columns_then: Sequence[Features],
    new: RankingDataset,
    before: Sample,
    after: Sample,
) -> Iterator[_Known]:
    """Yields the distances of each feature, and the shares of its missing and unseen values."""
    columns_now = as_array(new.features).T
    columns = zip(columns_then, columns_now, strict=True)
    for name, (then, now) in zip(new.feature_names, columns, strict=True):
        is_category = name in new.categories
        is_missing = np.isnan(now)
        bins = bins_of(then, now, is_category)
        yield _Known("psi", name, psi(*bins, before, after))
        if is_category:
            is_unseen = ~np.isin(now, then) & ~is_missing
            yield _Known("unseen", name, after.mean_of_documents(is_unseen))
        elif distance := kolmogorov_smirnov(then, now, before, after):
            yield _Known("ks", name, distance)
        missing = after.mean_of_documents(is_missing)
        missing_then = float(np.isnan(then).mean())
        yield _Known("missing", name, missing, missing_then)


def _of_rare_leaves(
    ranker: Ranker, then: Features, now: Features, after: Sample
) -> Iterator[_Known]:
    """Yields the share of rare leaves that documents reach; nothing for a model without trees."""
    with contextlib.suppress(ConfigError):
        shares = _shares_in_rare_leaves(trees_of(ranker), then, now)
        of_then, of_now = np.split(shares, [len(then)])
        rare = after.mean_of_documents(of_now)
        yield _Known("rare", "model", rare, float(of_then.mean()))


def _of_overlap(
    new: RankingDataset, scores: Sequence[Scores], after: Sample
) -> Iterator[_Known]:
    """Yields the common share of the first documents by two models, over the longer queries."""
    is_longer = new.query_sizes > FIRST
    if len(scores) < 2 or not is_longer.any():
        return
    first, second = scores[:2]
    both = _is_first(new, first) & _is_first(new, second)
    num_in_both = np.add.reduceat(both, new.query_start[:-1], dtype=np.float64)
    overlap = np.where(is_longer, num_in_both / FIRST, np.nan)
    yield _Known("overlap", "model", after.mean(overlap))


def _of_quality(
    metric: str, quality: Estimate, test: ScoredSplit | None, seed: int
) -> Iterator[_Known]:
    """Yields the metric on the new data, and its fall since the test set of the run."""
    if test is None:
        yield _Known(metric, "model", quality)
        return
    sample = Sample(test.judgments.query_start, seed)
    on_test = _quality(test.judgments, test.scores, metric, sample)
    if on_test is None:
        yield _Known(metric, "model", quality)
        return
    yield _Known(metric, "model", quality, on_test.value)
    noise = on_test.noise - quality.noise
    fall = Estimate(on_test.value - quality.value, noise, least=-np.inf)
    yield _Known("fall", "model", fall)


def _require_values(limits: Mapping[str, float], known: Sequence[_Known]) -> None:
    """Raises ConfigError if a threshold is set for a measure that these data do not have."""
    for name in limits.keys() - {each.name for each in known}:
        raise ConfigError(
            f"the threshold {limits[name]:g} of {name} has no value to check: ks needs features of numbers, "
            "unseen features with categories, rare a model with trees, overlap a second model (--against) "
            f"and queries of more than {FIRST} documents, fall labels for which the metric is defined, and a "
            "run with test scores. Remove the threshold."
        )


def _check(
    name: str, limits: Mapping[str, float], value: float, low: float, high: float
) -> Check | None:
    if name not in limits:
        return None
    sense = AT_LEAST if name == "overlap" else AT_MOST
    limit = limits[name]
    return Check(name, value, low=low, high=high, limit=limit, sense=sense)


def _as_read(ranker: Ranker, data: RankingDataset) -> Features:
    """Returns the (D, F) features as a model reads them: an unseen category is a missing value, and a one-hot
    encoded column is a feature for each category."""
    features = np.array(as_array(data.features))
    for name, categories in ranker.categories.items():
        column = features[:, data.feature_names.index(name)]
        column[column >= len(categories)] = np.nan
    encoded = {
        name: categories
        for name, categories in ranker.encoded.items()
        if name in data.feature_names
    }
    return one_hot(features, data.feature_names, encoded) if encoded else features


def _shares_in_rare_leaves(trees: Ensemble, then: Features, now: Features) -> Scores:
    """Returns for each document, then and now, the share of trees in which it reaches a rare leaf."""

    def is_rare(tree: FlatTree, _: float) -> NDArray[np.float64]:
        leaves = leaves_of(tree, then, trees.comparison, trees.threshold_dtype)
        counts = np.bincount(leaves, minlength=len(tree.feature))
        is_rare_leaf = counts <= max(RARE_LEAF * len(then), RARE_DOCUMENTS)
        return is_rare_leaf / len(trees.trees)

    both = np.concatenate([then, now])
    return leaf_sums(trees, both, np.zeros(len(both)), is_rare)


def _is_first(data: Judgments, scores: Scores) -> NDArray[np.bool_]:
    """Returns (D,), whether a document is among the first of its query; ties are in the order of the rows."""
    is_first = np.zeros(data.num_documents, dtype=np.bool_)
    order = np.lexsort((-scores, data.query_of_document))
    is_first[order[data.ranks_of_rows < FIRST]] = True
    return is_first


def _quality(
    judgments: Judgments, scores: Scores, metric: str, sample: Sample
) -> Estimate | None:
    """Returns the mean of the metric; None if it is defined for no query."""
    values = evaluate(judgments, scores, [metric]).per_query[metric]
    if np.isnan(values).all():
        return None
    return sample.mean(values, judgments.query_weights)


def as_chapter(
    title: str, new: RankingDataset, measures: Sequence[Measure], metric: str
) -> Chapter:
    """Returns what the page and the terminal show.

    Args:
        metric: the metric that was to be computed.
    """
    of_model = [item for item in measures if item.feature == "model"]
    of_features = [item for item in measures if item.feature != "model"]
    sections = []
    if of_model:
        sections.append(Section("model", "Model", ABOUT_MODEL, [_table(of_model)]))
    sections.append(
        Section("features", "Features", ABOUT_FEATURES, [_table(of_features)])
    )
    answer = [READING]
    if not new.labels.any():
        answer.insert(0, f"{metric} is not available: the data have no labels.")
    elif all(item.name != metric for item in of_model):
        answer.insert(0, f"{metric} is not available: no query of the data has it.")
    facts = [
        ("queries", f"{new.num_queries:,}"),
        ("documents", f"{new.num_documents:,}"),
    ]
    return Chapter(
        "monitor",
        title,
        sections,
        headline=_headline(measures),
        answer=answer,
        facts=facts,
    )


def _headline(measures: Sequence[Measure]) -> str:
    past = [_past_in_words(item) for item in measures if item.is_past]
    if past:
        return f"Past a threshold: {'; '.join(past)}."
    if all(item.check is None for item in measures):
        return "No threshold is set: these are the measures only."
    return "No measure is past a threshold."


def _past_in_words(measure: Measure) -> str:
    check = measure.check
    assert check is not None  # `is_past`
    sign = "<" if check.sense == AT_LEAST else ">"
    value = f"{measure.value:.3g} {format_interval(measure.low, measure.high, '.3g')}"
    return f"{measure.name} of {measure.feature} {value} {sign} {check.limit:g}"


def _table(measures: Sequence[Measure]) -> Table:
    """Returns a row for each feature, by the lower end of the PSI, and a column for each measure."""
    names = list(dict.fromkeys(item.name for item in measures))

    def psi_first(item: Measure) -> tuple[bool, float, float]:
        return item.name != "psi", -item.low, -item.value

    in_order = sorted(measures, key=psi_first)
    cells_of: dict[str, dict[str, TableCell]] = {}
    for item in in_order:
        cells_of.setdefault(item.feature, {})[item.name] = _cell(item)
    rows: list[TableRow] = []
    for feature, of_feature in cells_of.items():
        cells = [of_feature.get(name, TableCell()) for name in names]
        rows.append([feature, *cells])
    columns = [TableColumn(name, ".3f", with_notes=True) for name in names]
    return Table([TableColumn("", left=True), *columns], rows)


def _cell(measure: Measure) -> TableCell:
    note = format_interval(measure.low, measure.high, ".3f")
    if measure.then is not None:
        note += f" before {measure.then:.3f}"
    emphasis = "worse" if measure.is_past else ""
    return TableCell(measure.value, note=note, emphasis=emphasis)
