"""Feature importances of a fitted model that can be compared across backends.

    split               number of splits on the feature, as a share of all splits
    gain                gain of the feature's splits in training, as a share of the gain of all splits
    shap                mean absolute SHAP value of the feature over test documents, as a share of the sum
                        over features (Lundberg et al., 2020, "From Local Explanations to Global
                        Understanding with Explainable AI for Trees")
    permutation_within  decrease of a metric on the test set when the feature's values are shuffled within
                        each query
    permutation_across  the same, shuffled across all documents (Breiman, 2001, "Random Forests", section 10)
    drop_column         decrease of the metric when the model is fitted again without the feature

and of linear models:

    coefficient         change of the score by one standard deviation of the scaled feature
    weight              change of the score by one unit of the feature, if scaling is linear

The first three come from the model, if it has them. They are shares because the libraries use different units
(XGBoost's gain is half of LightGBM's at equal parameters). The others are in units of the metric, need only
scores, and have a confidence interval: the kinds with the suffixes `_low` and `_high`.

The kinds of linear models are signed. Over n trainings they have the interval mean -+ t(n - 1) s of one
training, with the standard deviation s of the trainings.

A feature that is constant within each query has an importance of exactly 0 when it is shuffled within
queries, although trees may use it together with other features.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments, RankingDataset, Splits, sample_queries
from ltrbench.data.features import SparseRows, rows_of_block
from ltrbench.errors import ConfigError, require, require_choice
from ltrbench.metrics import evaluate, parse_metric
from ltrbench.metrics.functions import are_built_in
from ltrbench.rankers.base import Ranker, resolve_threads
from ltrbench.shapes import PerQuery, Scores, Values

SPLIT = "split"
GAIN = "gain"
SHAP = "shap"
WITHIN = "permutation_within"
ACROSS = "permutation_across"
DROP_COLUMN = "drop_column"
COEFFICIENT = "coefficient"
WEIGHT = "weight"

SHARES = (SPLIT, GAIN, SHAP)
"""Kinds that sum to 1 over the features."""
FALLS = (WITHIN, ACROSS, DROP_COLUMN)
"""Kinds in units of the metric, with a confidence interval."""
OF_LINEAR = (COEFFICIENT, WEIGHT)
"""Kinds of linear models, which are recorded with every setting."""
IMPORTANCE_KINDS = (WITHIN, ACROSS, SHAP, GAIN, SPLIT, DROP_COLUMN)
"""Kinds that `importance.kinds` selects."""
ALL_KINDS = (*IMPORTANCE_KINDS, *OF_LINEAR)
"""All kinds, in the order of display; features are sorted by the first available kind."""
MORE_KINDS = (
    "Gain and splits depend on how each library grows trees, so they do not compare libraries. "
    "importance=full also computes permutation importances and SHAP."
)
"""What to do where only gain and splits were recorded."""
NAMES = {
    WITHIN: "permutation within queries",
    ACROSS: "permutation across queries",
    SHAP: "mean |SHAP|",
    GAIN: "gain",
    SPLIT: "splits",
    DROP_COLUMN: "dropping the column",
    COEFFICIENT: "coefficient per standard deviation",
    WEIGHT: "weight per unit",
}
"""Names of the kinds in tables and sentences."""
LOW = "_low"
HIGH = "_high"

MOST_LISTED = 10_000
"""Number of features above which a run records only the features with an importance."""

Falls = Values
"""(F, Q), decrease of a metric per feature and query; NaN for queries that the metric skips."""

_GROUP_BYTES = 1 << 28
"""Maximum memory of the features that are shuffled together."""
_BYTES_PER_SCORE = 16
"""A value of at most 8 bytes and a float64 score."""

FeatureValues = NDArray[np.floating[Any]]
"""Values of features in their dtype: float32 or, for models that compare such numbers, float64."""
Shuffle = Callable[[FeatureValues, Judgments, np.random.Generator], FeatureValues]
"""Takes the (D,) values of a feature and returns them in another order."""


@dataclass
class ImportanceSettings:
    """Settings of the feature importances.

    Attributes:
        kinds: kinds from IMPORTANCE_KINDS. drop_column fits the model again for each feature that it uses.
        metric: metric whose decrease is measured.
        repeats: number of shuffles per feature, which are averaged.
        max_queries: maximum number of test queries that are shuffled; a sample of a larger test set.
        max_documents: maximum number of test documents for SHAP; a sample of a larger test set.
        drop_column_seeds: number of seeds for the fits of drop_column, which are averaged; the seeds are
            those of the model and the following ones.

    Raises:
        ConfigError: a kind or the metric is unknown, or a number is not positive.
    """

    kinds: list[str] = field(default_factory=lambda: [SPLIT, GAIN])
    metric: str = "ndcg@10"
    repeats: int = 3
    max_queries: int = 2000
    max_documents: int = 1000
    drop_column_seeds: int = 1

    def __post_init__(self) -> None:
        for kind in self.kinds:
            require_choice("importance.kinds", kind, IMPORTANCE_KINDS)
        parse_metric(self.metric)
        for name in ("repeats", "max_queries", "max_documents", "drop_column_seeds"):
            require(f"importance.{name}", getattr(self, name), at_least=1)


@dataclass(frozen=True, eq=False)
class Importances:
    """Importances of F features.

    Attributes:
        feature_names: (F,) names. Of more than MOST_LISTED features, a run lists those with an importance
            other than 0.
        values: kind -> (F,) values; NaN if not available.
        is_part: whether further features have the importance 0.

    Raises:
        ConfigError: the number of values of a kind differs from the number of features.
    """

    feature_names: tuple[str, ...]
    values: Mapping[str, Values]
    is_part: bool = False

    def __post_init__(self) -> None:
        for kind, values in self.values.items():
            if len(values) != len(self.feature_names):
                raise ConfigError(
                    f"importance '{kind}' has {len(values)} values for {len(self.feature_names)} features; "
                    "the ranker's importance() must return one value per feature."
                )

    @property
    def kinds(self) -> tuple[str, ...]:
        """The available kinds, in the order of ALL_KINDS."""
        return tuple(kind for kind in ALL_KINDS if kind in self.values)

    def listed(self) -> Importances:
        """Returns the features with an importance if there are more than MOST_LISTED features, otherwise all
        features."""
        if len(self.feature_names) <= MOST_LISTED:
            return self
        nonzero = [np.nan_to_num(values) != 0 for values in self.values.values()]
        has_one = np.any(nonzero, axis=0)
        features = np.flatnonzero(has_one)
        if not features.size:
            features = np.zeros(1, dtype=np.intp)  # a table has a row
        names = tuple(self.feature_names[feature] for feature in features)
        values = {kind: values[features] for kind, values in self.values.items()}
        return Importances(names, values, is_part=True)


def importances(
    ranker: Ranker, splits: Splits, settings: ImportanceSettings | None, seed: int
) -> Importances:
    """Computes the importances of a fitted ranker.

    Args:
        splits: the metric is computed on test; train and valid are used only for the fits of drop_column.
        settings: None: no importances are computed.
        seed: seed of samples and shuffles.
    """
    if settings is None:
        return Importances(splits.test.feature_names, {})
    of_model = ranker.importance()
    values = {}
    for kind in (SPLIT, GAIN):
        if kind in settings.kinds and kind in of_model:
            values[kind] = shares(of_model[kind])
    values |= {kind: of_model[kind] for kind in OF_LINEAR if kind in of_model}
    if SHAP in settings.kinds:
        counted = ranker.counted_on(splits.train)
        values |= _shap(counted, splits.test, settings.max_documents, seed)
    share = min(1.0, settings.max_queries / splits.test.num_queries)
    sample = sample_queries(splits.test, share, seed)
    for kind in SHUFFLES:
        if kind in settings.kinds:
            sample = sample.in_memory(keep_sparse=True)
            values |= _permutation(kind, ranker, sample, settings, seed)
    if DROP_COLUMN in settings.kinds:
        falls = drop_column_falls(ranker, splits, settings)
        values |= _with_interval(DROP_COLUMN, falls, splits.test.query_weights)
    return Importances(splits.test.feature_names, values)


def by_size(kind: str, values: Values) -> NDArray[np.intp]:
    """Returns the indices of the (F,) values of a kind in descending order; of signed kinds, of the absolute
    value."""
    # NaN sorts last.
    sizes = np.abs(values) if kind in OF_LINEAR else values
    return np.argsort(-sizes, kind="stable")


def shares(values: Values) -> Values:
    """Returns values as shares of their sum; values with a sum of 0 are returned unchanged."""
    total = values.sum()
    return values / total if total > 0 else values


def _shap(
    ranker: Ranker, test: RankingDataset, max_documents: int, seed: int
) -> dict[str, Values]:
    """Returns the SHAP shares under their kind; empty if the ranker has no contributions."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(test.num_documents)[:max_documents]
    total = np.zeros(test.num_features)
    sample = np.sort(rows)
    size = rows_of_block(test.num_features)
    for first in range(0, len(sample), size):
        rows_of_part = sample[first : first + size]
        contributions = ranker.contributions(test.features[rows_of_part])
        if contributions is None:
            return {}
        of_features = np.abs(contributions[:, :-1])
        total += of_features.sum(axis=0)
    return {SHAP: shares(total / len(sample))}


def within_queries(
    values: FeatureValues, judgments: Judgments, rng: np.random.Generator
) -> FeatureValues:
    """Shuffles the values within each query."""
    sizes = np.diff(judgments.query_start)
    # NumPy sorts integers of 16 bits in linear time.
    dtype = np.min_scalar_type(len(sizes))
    query = np.repeat(np.arange(len(sizes), dtype=dtype), sizes)
    return values[np.lexsort((rng.random(len(values)), query))]


def across_queries(
    values: FeatureValues, judgments: Judgments, rng: np.random.Generator
) -> FeatureValues:
    """Shuffles the values across all documents."""
    del judgments
    return rng.permutation(values)


SHUFFLES: Mapping[str, Shuffle] = {WITHIN: within_queries, ACROSS: across_queries}


def _permutation(
    kind: str,
    ranker: Ranker,
    test: RankingDataset,
    settings: ImportanceSettings,
    seed: int,
) -> dict[str, Values]:
    """Returns the permutation importances under their kind, with their interval."""
    features = np.arange(test.num_features)
    if len(features) > MOST_LISTED:  # (F, Q) values would take gigabytes
        features = features[_used(ranker, len(features))]
    names = (kind, kind + LOW, kind + HIGH)
    values = {name: np.zeros(test.num_features) for name in names}
    if features.size:
        falls = permutation_falls(
            ranker, test, SHUFFLES[kind], settings, seed, features
        )
        for name, each in _with_interval(kind, falls, test.query_weights).items():
            values[name][features] = each
    return values


def permutation_falls(
    ranker: Ranker,
    test: RankingDataset,
    shuffle: Shuffle,
    settings: ImportanceSettings,
    seed: int,
    features: NDArray[np.intp],
) -> Falls:
    """Computes the metric on the test set minus the metric with one of n features shuffled, averaged over
    repeats.

    Args:
        features: (n,), columns of the features.
    """
    scores = ranker.predict_lists(test.features, test.query_start)
    whole = _per_query(test, scores, settings.metric)
    no_falls = np.zeros((len(features), 1))
    falls = np.where(np.isnan(whole), np.nan, no_falls)
    if np.isnan(whole).all():
        return falls

    def shuffle_into(values_of_repeats: FeatureValues, feature: np.intp) -> None:
        # One generator per feature, so that its result does not depend on the other features in use.
        rng = np.random.default_rng([seed, int(feature)])
        values = np.ascontiguousarray(test.features[:, feature])
        for others in values_of_repeats:
            others[:] = shuffle(values, test, rng)

    def add_falls(index: np.intp, scores_of_repeats: NDArray[np.floating[Any]]) -> None:
        for new_scores in scores_of_repeats:
            fall = whole - _per_query(test, new_scores, settings.metric)
            falls[index] += fall / settings.repeats

    bytes_of_feature = _BYTES_PER_SCORE * settings.repeats * test.num_documents
    size = max(_GROUP_BYTES // bytes_of_feature, 1)
    used = np.flatnonzero(_used(ranker, test.num_features)[features])
    shape = (min(size, len(used)), settings.repeats, test.num_documents)
    all_values = np.empty(shape, dtype=test.features.dtype)
    with ThreadPoolExecutor(_threads_of_metric(ranker, settings.metric)) as pool:
        for first in range(0, len(used), size):
            group = used[first : first + size]
            values = all_values[: len(group)]
            list(pool.map(shuffle_into, values, features[group]))
            new_scores = scores_with(ranker, test, scores, features[group], values)
            list(pool.map(add_falls, group, new_scores))
    return falls


def _threads_of_metric(ranker: Ranker, metric: str) -> int:
    if are_built_in([metric]):
        return resolve_threads(ranker.num_threads)
    return 1


def scores_with(
    ranker: Ranker,
    test: RankingDataset,
    scores: Scores,
    columns: NDArray[np.intp],
    values: FeatureValues,
) -> NDArray[np.floating[Any]]:
    """Returns (C, n, D) scores: scores[c, i] are those of `predict` if feature columns[c] had the values
    values[c, i].

    The ranker predicts copies of the documents in which the value differs: of their stored values, if it
    reads sparse features, or of a block of rows at a time. A list-wise ranker predicts whole queries.

    Args:
        scores: (D,), scores of the documents as they are.
    """
    features = test.features
    new_scores = np.empty(values.shape, dtype=scores.dtype)
    size = rows_of_block(features.shape[1])
    reads_sparse = ranker.reads_blocks or ranker.reads_sparse
    for c, column in enumerate(columns.tolist()):
        before = features[:, column]
        for i, new in enumerate(values[c]):
            if ranker.is_listwise:
                copy = np.array(features)
                copy[:, column] = new
                new_scores[c, i] = ranker.predict_lists(copy, test.query_start)
                continue
            rows = np.flatnonzero(new != before)
            new_scores[c, i] = scores
            if isinstance(features, SparseRows) and reads_sparse:
                copies: Any = features.with_column(rows, column, new[rows])
                new_scores[c, i, rows] = ranker.predict(copies)
                continue
            for first in range(0, len(rows), size):
                part = rows[first : first + size]
                block = features[part]
                block[:, column] = new[part]
                new_scores[c, i, part] = ranker.predict(block)
    return new_scores


def drop_column_falls(
    ranker: Ranker, splits: Splits, settings: ImportanceSettings
) -> Falls:
    """Computes the metric on the test set minus the metric of a ranker trained without a feature, averaged
    over seeds.

    The column is set to 0 instead of removed, so that settings that name features stay valid. The decrease is
    0 for a feature that the fits with all features do not use.
    """
    test = splits.test
    others = [replace(ranker, seed=seed) for seed in _seeds(ranker, settings)[1:]]
    fitted = [ranker, *(each.fit(splits.train, splits.valid) for each in others)]
    uses = [_used(each, test.num_features) for each in fitted]
    used = np.any(uses, axis=0)
    values = [_on(test, each, settings.metric) for each in fitted]
    before = np.mean(values, axis=0)
    no_falls = np.zeros((len(used), 1))
    falls = np.where(np.isnan(before), np.nan, no_falls)
    for feature in np.flatnonzero(used):
        after = _mean_without(feature, ranker, splits, settings)
        falls[feature] = before - after
    return falls


def _seeds(ranker: Ranker, settings: ImportanceSettings) -> range:
    return range(ranker.seed, ranker.seed + settings.drop_column_seeds)


def _mean_without(
    feature: np.intp, ranker: Ranker, splits: Splits, settings: ImportanceSettings
) -> PerQuery:
    """Returns the (Q,) metric on the test set of a ranker trained without a feature, averaged over seeds."""
    train = without_features(splits.train, feature)
    test = without_features(splits.test, feature)
    valid = None
    if splits.valid is not None:
        valid = without_features(splits.valid, feature)
    values = []
    for seed in _seeds(ranker, settings):
        fitted = replace(ranker, seed=seed).fit(train, valid)
        values.append(_on(test, fitted, settings.metric))
    mean: PerQuery = np.mean(values, axis=0)
    return mean


def without_features(
    dataset: RankingDataset, columns: np.intp | NDArray[np.intp]
) -> RankingDataset:
    """Returns a copy of the data set in which some features are 0."""
    features = np.array(dataset.features)
    features[:, columns] = 0.0
    return replace(dataset, features=features)


def _used(ranker: Ranker, num_features: int) -> NDArray[np.bool_]:
    """Returns (F,), whether a feature may affect the scores: a feature without splits needs no prediction."""
    splits = ranker.importance().get(SPLIT)
    if splits is None:
        return np.ones(num_features, dtype=np.bool_)
    return splits > 0


def _on(test: RankingDataset, ranker: Ranker, metric: str) -> PerQuery:
    scores = ranker.predict_lists(test.features, test.query_start)
    return _per_query(test, scores, metric)


def _per_query(judged: RankingDataset, scores: Scores, metric: str) -> PerQuery:
    return evaluate(judged, scores, [metric]).per_query[metric]


def _with_interval(
    kind: str, falls: Falls, query_weights: Values | None
) -> dict[str, Values]:
    """Returns the mean over the Q queries that count, and Student's 95 % interval: mean -+ t(Q - 1) SE.

    The interval is for this model on other queries of the same distribution. The repeats of a query are
    therefore averaged first, because more repeats give no information about other queries (model-PFI in
    Molnar et al., 2023, "Relating the Partial Dependence Plot and Permutation Feature Importance to the Data
    Generating Process"). The interval is NaN if only one query counts.
    """
    # Imported here because the import takes half a second, which --help does not need.
    from scipy.special import stdtrit

    from ltrbench.statistics import PairedSample
    from ltrbench.statistics.paired import CONFIDENCE

    weights = np.ones(falls.shape[1]) if query_weights is None else query_weights
    has_value = ~np.isnan(falls).any(axis=0)
    counted = (weights > 0) & has_value
    if not counted.any():
        unknown = np.full(len(falls), np.nan)
        return dict.fromkeys((kind, kind + LOW, kind + HIGH), unknown)
    sample = PairedSample.of(falls[:, counted], weights[counted])
    quantile = stdtrit(sample.num_queries - 1, (1 + CONFIDENCE) / 2)
    return _interval(kind, sample.means, quantile * sample.standard_errors)


def _interval(kind: str, means: Values, half: Values) -> dict[str, Values]:
    """Returns means under their kind, and the ends of their intervals, whose half-width is given."""
    values = {kind: means}
    values[kind + LOW] = means - half
    values[kind + HIGH] = means + half
    return values


def averaged(folds: Iterable[Sequence[Importances]]) -> Importances:
    """Returns the mean over folds of the mean over each fold's runs, which differ in their seeds.

    A kind is left out if a run does not have it or has values that are not finite; all kinds are left out if
    the runs differ in their features, unless each lists a part of them. The half-width of an interval is the
    mean over the seeds of a fold, which share their test queries, and sqrt(sum of squares) / J over the J
    folds, which have different ones.
    """
    given = [list(runs) for runs in folds]
    runs = in_common(list(itertools.chain.from_iterable(given)))
    remaining = iter(runs)
    cells = [[next(remaining) for _ in cell] for cell in given]
    names = runs[0].feature_names
    if any(run.feature_names != names for run in runs):
        return Importances((), {})
    values: dict[str, Values] = {}
    for kind in runs[0].kinds:
        if not _all_finite(runs, kind):
            continue
        means = np.mean([_mean_of(cell, kind) for cell in cells], axis=0)
        if kind in OF_LINEAR and len(runs) > 1:
            values |= _interval(kind, means, _spread(runs, kind))
        elif _all_finite(runs, kind + HIGH):
            highs = [_mean_of(cell, kind + HIGH) for cell in cells]
            centres = [_mean_of(cell, kind) for cell in cells]
            halves = np.array(highs) - np.array(centres)
            half = np.sqrt(np.square(halves).sum(axis=0)) / len(cells)
            values |= _interval(kind, means, half)
        else:
            values[kind] = means
    return Importances(names, values, runs[0].is_part)


def _all_finite(runs: Sequence[Importances], kind: str) -> bool:
    """Returns whether all runs have a kind, with finite values."""
    values = [run.values.get(kind) for run in runs]
    return all(each is not None and np.isfinite(each).all() for each in values)


def _spread(runs: Sequence[Importances], kind: str) -> Values:
    """Returns half the width of the interval of one training: t(n - 1) times the standard deviation."""
    from scipy.special import stdtrit

    from ltrbench.statistics.paired import CONFIDENCE

    values = [run.values[kind] for run in runs]
    deviations = np.std(values, axis=0, ddof=1)
    quantile = stdtrit(len(runs) - 1, (1 + CONFIDENCE) / 2)
    return np.asarray(quantile * deviations)


def in_common(several: Sequence[Importances]) -> list[Importances]:
    """Returns the importances with the same features in the same order where that is possible.

    If each lists only a part of the features, these are those that any of them lists. Otherwise the order is
    that of the first one, and importances of other features are returned unchanged.
    """
    if all(each.is_part for each in several):
        return aligned(several)
    first = {name: number for number, name in enumerate(several[0].feature_names)}
    ordered = []
    for each in several:
        has_same = set(each.feature_names) == set(first)
        ordered.append(_filled(each, first) if has_same else each)
    return ordered


def aligned(several: Sequence[Importances]) -> list[Importances]:
    """Returns the importances of all features that any of them has, in the order of the first ones.

    The importance of a feature that one does not have is NaN; if it lists only a part of its features, 0.
    """
    names = dict.fromkeys(
        itertools.chain.from_iterable(each.feature_names for each in several)
    )
    index = {name: number for number, name in enumerate(names)}
    return [_filled(each, index) for each in several]


def _filled(part: Importances, index: Mapping[str, int]) -> Importances:
    """Returns importances of the features in `index`, in its order; see `aligned` for those it lacks."""
    indices = [index[name] for name in part.feature_names]
    absent = 0.0 if part.is_part else np.nan
    values = {kind: np.full(len(index), absent) for kind in part.values}
    for kind, of_part in part.values.items():
        values[kind][indices] = of_part
    return Importances(tuple(index), values, part.is_part)


def _mean_of(runs: Sequence[Importances], kind: str) -> Values:
    mean: Values = np.mean([run.values[kind] for run in runs], axis=0)
    return mean
