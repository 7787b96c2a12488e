"""Linear models: weights of the features, fitted by coordinate ascent on a metric or by gradients of a loss.

    score of a document = sum over the features of weight_f t(x_f)

t is the scaling. A constant shift of all scores changes no ranking, so that the centre of the standardised
features is left out. A missing value counts as the training median, plus the weight of an indicator if the
training data had missing values of the feature.

Shapes: D documents, F features, C columns of the fit: the scaled features, then indicators of missing values.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import threads
from ltrbench.data import RankingDataset
from ltrbench.data.features import as_array
from ltrbench.errors import ConfigError, DataError, ResultError, UndefinedMetricError
from ltrbench.metrics import DEFAULT, evaluate, parse_metric, preset
from ltrbench.native.boosting import four_documents
from ltrbench.native.objectives.base import Objective, ObjectiveData, name_or_objective
from ltrbench.native.objectives.lambdarank import RankNet
from ltrbench.native.objectives.lambdas import prepare
from ltrbench.native.objectives.listnet import ListNet
from ltrbench.native.objectives.squared_error import SquaredError, for_warm_up
from ltrbench.rankers.base import (
    Finding,
    Ranker,
    Severity,
    check_features,
    check_fitted,
    moments,
    refuse,
    resolve_threads,
    uneven_scales,
)
from ltrbench.rankers.estimator import takes_tables
from ltrbench.rankers.library import COPY_OR_FIT_AGAIN, read_model, write_model
from ltrbench.settings import check_effects, setting
from ltrbench.shapes import Features, Scores, Values
from ltrbench.untrusted import load_npz

log = logging.getLogger("ltrbench")

_FILE = "linear.npz"
_LEAST_DECREASE = 1e-12
"""Relative decrease of the loss at which L-BFGS ends, with features of different scales."""
_NUM_KNOTS = 1000
"""Number of training values of a feature between which ranks are interpolated."""
_NONLINEAR = ("rank", "log1p")
"""Scalings that are not linear."""

_SOFTMAX = "softmax_loss"
_BY_GRADIENT = {"method": ("gradient",)}
_BY_ASCENT = {"method": ("coordinate_ascent",)}


Columns = NDArray[np.float64]  # (C, D)
Flags = NDArray[np.bool_]  # (C,), whether a weight must not be negative
# Training metric of (D,) scores; NaN if no query counts.
Measure = Callable[[Scores], float]


class _Model(NamedTuple):
    """A fitted model.

    Attributes:
        weights: (F,), per unit of t(x).
        missing: (F,), what a missing value adds to the score.
        coefficients: (F,), change of the score by one standard deviation of t(x) in the training data.
        knots: (F, 2, K), training values in ascending order, and their ranks from 0 to 1; K is 0 without
            scaling=rank.
    """

    weights: Values
    missing: Values
    coefficients: Values
    knots: NDArray[np.float64]


class _ScaledTraining:
    """The columns of a fit, and the model of their weights.

    Attributes:
        columns: (C, D), scaled features without missing values, then an indicator for each feature with some.
        is_constant: (C,).
    """

    def __init__(self, features: Features, scaling: str) -> None:
        is_missing = np.isnan(features)
        scaled: list[Values] = []
        knots: list[NDArray[np.float64]] = []
        medians: list[float] = []
        for column, is_missing_in_column in zip(features.T, is_missing.T, strict=True):
            known = _known(column)
            median = np.array([np.median(known)], dtype=np.float32)
            knots_of_column = _knots(known, scaling)
            filled = np.where(is_missing_in_column, median, column)
            scaled.append(_scaled(filled, knots_of_column, scaling))
            knots.append(knots_of_column)
            medians += _scaled(median, knots_of_column, scaling).tolist()
        self._has_indicator = is_missing.any(axis=0)
        self._knots = np.array(knots)
        self._medians = np.array(medians)
        indicators = is_missing.T[self._has_indicator]
        self.columns = np.concatenate([np.stack(scaled), indicators])
        self.is_constant = np.ptp(self.columns, axis=1) == 0
        self._deviations = self.columns.std(axis=1)
        self._unit = np.ones(len(self.columns))
        if scaling == "standard":
            self._unit = np.where(self.is_constant, 1.0, self._deviations)
            means = self.columns.mean(axis=1, keepdims=True)
            self.columns = (self.columns - means) / self._unit[:, None]

    def model(self, fitted: Values) -> _Model:
        """Returns the model of (C,) weights of the columns."""
        num_features = len(self._medians)
        weights, of_indicators = np.split(fitted / self._unit, [num_features])
        missing = weights * self._medians
        missing[self._has_indicator] += of_indicators
        deviations = np.where(self.is_constant, 0.0, self._deviations)
        coefficients = weights * deviations[:num_features]
        return _Model(weights, missing, coefficients, self._knots)


def _known(column: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns the values that are not missing; one 0 if all are."""
    known = column[~np.isnan(column)]
    if known.size:
        return known
    return np.zeros(1, dtype=np.float32)


def _knots(known: NDArray[np.float32], scaling: str) -> NDArray[np.float64]:
    """Returns (2, K) values, and their ranks: the share of values below, plus half of the equal ones."""
    if scaling != "rank":
        return np.empty((2, 0))
    values, counts = np.unique(known.astype(np.float64), return_counts=True)
    ranks = (np.cumsum(counts) - counts / 2) / len(known)
    positions = np.linspace(0, len(values) - 1, _NUM_KNOTS)
    chosen = positions.astype(np.int64)
    return np.stack([values, ranks])[:, chosen]


def _scaled(
    values: NDArray[np.float32], knots: NDArray[np.float64], scaling: str
) -> Values:
    """Returns t(x) of (D,) values of a feature; standard scaling is part of the weights."""
    x = values.astype(np.float64)
    if scaling == "log1p":
        logs = np.log1p(np.abs(x))
        return np.asarray(np.sign(x) * logs)
    if scaling == "rank":
        return np.interp(x, *knots)
    return x


# ---- Coordinate ascent: maximises a ranking metric by one weight at a time.
#
# Metzler and Croft, 2007, "Linear feature-based models for information retrieval", Information Retrieval 10,
# as in RankLib's CoorAscent.java (codelibs/ranklib, commit 0cc17c81574469ef7d2d7df0e0e387038a55b969). A pass
# begins with equal weights and visits all features in a random order. For a feature with the weight w it
# tries
#
#     w + t,  w - t,  0        for t = d, 3 d, 7 d, ... (each step is `step_scale` times the one before)
#
# and keeps the value with the highest metric of the first of these three directions that increases the
# metric. d is 0.001, or step_base |w| if |w| is below 0.002. Then the weights are divided by the sum of their
# absolute values. Passes end when no weight but one improves the metric, or after a pass if the metric has
# increased by less than `tolerance` since the beginning. Restarts differ in the order of the features; the
# best is kept.
#
# The dialect `ranklib` repeats three errors of RankLib. For a small weight the second direction is the first
# again, because the sign of d is lost. In the third direction RankLib computes the metric of the scores
# before the weight became 0. If all directions fail, it then adds w x to the scores once more, so that the
# metric is no longer that of the weights. RankLib chooses the restart by validation data if it has some.

_FIRST_STEP = 0.001


def ascended(
    columns: Columns, measure: Measure, settings: LinearRanker, is_nonnegative: Flags
) -> Values:
    """Returns the (C,) weights of the best restart."""
    rng = np.random.default_rng(settings.seed)
    restarts = []
    for _ in range(settings.restarts):
        restart = _Restart(columns, measure, settings, is_nonnegative)
        restart.ascend(rng)
        restarts.append(restart)
    return max(restarts, key=attrgetter("value")).weights


class _Change(NamedTuple):
    """A change of a weight, and that of its factor in the scores, which `ranklib` takes for another one."""

    of_weight: float
    in_scores: float


class _Restart:
    """A restart of the ascent.

    Attributes:
        weights: (C,).
        value: the training metric that was computed for them.
    """

    def __init__(
        self,
        columns: Columns,
        measure: Measure,
        settings: LinearRanker,
        is_nonnegative: Flags,
    ) -> None:
        self._columns = columns
        self._measure = measure
        self._settings = settings
        self._is_nonnegative = is_nonnegative
        # In float32 as in RankLib.
        share = np.float32(1) / np.float32(len(columns))
        self.weights = np.full(len(columns), share, dtype=np.float64)
        self._scores = np.einsum("cd,c->d", columns, self.weights)
        self.value = measure(self._scores)

    def ascend(self, rng: np.random.Generator) -> None:
        start = self.value
        num_columns = len(self._columns)
        num_failed = 0
        while num_failed < max(num_columns - 1, 1):
            for column in rng.permutation(num_columns).tolist():
                num_failed += 1
                if self._improve(column):
                    num_failed = 0
            if self.value - start < self._settings.tolerance:
                break

    def _improve(self, column: int) -> bool:
        """Changes a weight in the first direction that increases the metric; returns whether there is one."""
        weight = float(self.weights[column])
        for direction in _directions(weight, self._settings):
            change = self._best_change(column, direction)
            if change is not None:
                self._apply(column, change)
                return True
        if self._settings.dialect == "ranklib":
            self._scores = self._scores + weight * self._columns[column]
        return False

    def _best_change(self, column: int, direction: Sequence[_Change]) -> _Change | None:
        """Returns the change with the highest metric, which is the new value; None if none increases it."""
        weight = float(self.weights[column])
        lowest = 0.0 if self._is_nonnegative[column] else -np.inf
        size_of_others = np.abs(self.weights).sum() - abs(weight)
        best = None
        for change in direction:
            new = weight + change.of_weight
            if new < lowest or size_of_others + abs(new) == 0:
                continue
            scores = self._scores + change.in_scores * self._columns[column]
            value = self._measure(scores)
            if value > self.value:
                self.value = value
                best = change
        return best

    def _apply(self, column: int, change: _Change) -> None:
        self.weights[column] += change.of_weight
        size = np.abs(self.weights).sum()
        self.weights = self.weights / size
        scores = self._scores + change.in_scores * self._columns[column]
        self._scores = scores / size


def _directions(weight: float, settings: LinearRanker) -> Iterator[list[_Change]]:
    """Yields the changes of a weight in each direction."""
    is_ranklib = settings.dialect == "ranklib"
    for sign in (1, -1):
        step = sign * _FIRST_STEP
        if weight and abs(step) > 0.5 * abs(weight):
            step = settings.step_base * abs(weight)
            if not is_ranklib:
                step = step * sign
        factors = float(settings.step_scale) ** np.arange(settings.iterations)
        steps = np.cumsum(step * factors).tolist()
        yield [_Change(step, step) for step in steps]
    yield [_Change(-weight, 0.0 if is_ranklib else -weight)]


# ---- Gradients: the loss of an objective, plus the penalty, which L-BFGS minimises.


@dataclass(frozen=True, kw_only=True)
class _PenalisedLoss:
    """The loss over all queries plus l2 / 2 times the sum of squared weights.

    Attributes:
        columns: (C, D).
        unit: (C,), unit of each variable: the weights are the variables times their units.
        gradients: returns the (D,) gradients of the loss by scores.
    """

    columns: Columns
    unit: Values
    objective: Objective
    data: ObjectiveData
    gradients: Callable[[Values], Values]
    l2: float
    seed: int

    def with_gradient(self, variables: Values) -> tuple[float, Values]:
        """Returns the loss and its (C,) gradient by the variables."""
        weights = variables * self.unit
        # einsum instead of BLAS, whose sums depend on the number of threads.
        scores = np.einsum("cd,c->d", self.columns, weights)
        loss = self.objective.loss(scores, self.data, self.seed)
        gradients = self.gradients(scores)
        if not np.isfinite(loss + gradients.sum()):
            largest = np.abs(weights).max()
            raise DataError(
                f"the loss {self.objective} is {loss} at weights of up to {largest:.3g}. Set "
                "model.scaling=standard, or a larger model.l2."
            )
        by_weights = np.einsum("cd,d->c", self.columns, gradients) + self.l2 * weights
        penalty = 0.5 * self.l2 * float(weights @ weights)
        return loss + penalty, by_weights * self.unit


def _gradients_of(
    objective: Objective, train: RankingDataset, data: ObjectiveData, seed: int
) -> Callable[[Values], Values]:
    """Returns a function of (D,) scores: the (D,) gradients of the loss."""
    if not isinstance(objective, RankNet):
        return lambda scores: objective.gradients(scores, data, seed)[0]
    # All pairs, as in its loss.
    pairs = prepare(train, objective.pairs(train.num_documents))
    return lambda scores: pairs(scores, None, np.random.default_rng(seed))[0]


@dataclass(kw_only=True)
class LinearRanker(Ranker):
    """Scores documents by a weighted sum of their features."""

    method: str = setting("gradient", choices=("gradient", "coordinate_ascent"))
    """gradient: minimises the loss of an objective; coordinate_ascent: maximises a metric (RankLib)."""
    scaling: str = setting("standard", choices=("none", "standard", "rank", "log1p"))
    """Scaling of features: none, standard (training variance 1), rank (in the training data) or log1p.
    log1p is sign(x) log(1 + |x|); rank is the share of training values below."""
    missing: str = setting("impute", choices=("impute", "refuse"))
    """Missing values: impute (training median, and a further feature that indicates them) or refuse."""
    nonnegative: bool = False
    """Whether no weight of a feature may be negative; indicators of missing values may be."""

    objective: str | Objective = setting(
        _SOFTMAX, refuse=name_or_objective(_SOFTMAX), only_with=_BY_GRADIENT
    )
    """gradient: any objective with a loss, such as softmax_loss or hinge (ranking SVM)."""
    l2: float = setting(1.0, at_least=0, only_with=_BY_GRADIENT)
    """gradient: penalty l2 / 2 times the sum of squared weights, added to the loss of all queries."""
    max_iterations: int = setting(500, at_least=1, only_with=_BY_GRADIENT)
    """gradient: maximum number of iterations of L-BFGS."""

    metric: str = setting("ndcg@10", only_with=_BY_ASCENT)
    """coordinate_ascent: metric that is maximised on the training data."""
    restarts: int = setting(5, at_least=1, only_with=_BY_ASCENT)
    """coordinate_ascent: number of restarts, which differ in the order of the features (RankLib's -r)."""
    iterations: int = setting(25, at_least=1, only_with=_BY_ASCENT)
    """coordinate_ascent: number of steps in each direction (RankLib's -i)."""
    step_base: float = setting(0.05, above=0, only_with=_BY_ASCENT)
    """coordinate_ascent: first step for a weight below 0.002, as a share of the weight."""
    step_scale: float = setting(2.0, above=1, only_with=_BY_ASCENT)
    """coordinate_ascent: factor of each step after the first."""
    tolerance: float = setting(0.001, at_least=0, only_with=_BY_ASCENT)
    """coordinate_ascent: a restart ends if a pass leaves the metric less than this above its start."""
    dialect: str = setting(
        "ltrbench", choices=("ltrbench", "ranklib"), only_with=_BY_ASCENT
    )
    """coordinate_ascent: ltrbench, or ranklib, with RankLib's three errors and its convention of metrics."""

    unchecked: ClassVar[tuple[str, ...]] = ("metric",)

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_metric(self.metric)
        check_effects(self, {"method": self.method})
        if not _loss(self.objective).is_loss:
            raise ConfigError(
                f"objective is {self.objective}, which has no loss that L-BFGS could minimise. Choose one "
                "with a loss, such as model.objective=softmax_loss or hinge, or ranknet with "
                "normalize_distance=false and normalize_query=false, or maximise a metric by "
                "model.method=coordinate_ascent. A class of your own must define loss_of_query."
            )
        self._model: _Model | None = None

    @takes_tables
    def fit(self, train: RankingDataset, *_: object, **__: object) -> Self:
        refuse(self, train)
        training = _ScaledTraining(as_array(train.features), self.scaling)
        weights = np.zeros(len(training.columns))
        # RankLib divides by the sum over all weights, those of constant features included.
        fitted = np.flatnonzero(~training.is_constant | (self.dialect == "ranklib"))
        if fitted.size:
            fit = self._by_gradient if self.method == "gradient" else self._by_ascent
            with threads(resolve_threads(self.num_threads)):
                is_nonnegative = (fitted < train.num_features) & self.nonnegative
                weights[fitted] = fit(train, training.columns[fitted], is_nonnegative)
        self._model = training.model(weights)
        return self

    def _by_ascent(
        self, train: RankingDataset, columns: Columns, is_nonnegative: Flags
    ) -> Values:
        convention = preset("ranklib") if self.dialect == "ranklib" else DEFAULT
        # Queries without a value do not change the mean.
        values = evaluate(
            train, np.zeros(train.num_documents), [self.metric], convention
        )
        counted = np.flatnonzero(~np.isnan(values.per_query[self.metric]))
        if 0 < len(counted) < train.num_queries:
            columns = columns[:, np.isin(train.query_of_document, counted)]
            train = train.take_queries(counted)

        def measure(scores: Scores) -> float:
            return evaluate(train, scores, [self.metric], convention).means[self.metric]

        return ascended(columns, measure, self, is_nonnegative)

    def _by_gradient(
        self, train: RankingDataset, columns: Columns, is_nonnegative: Flags
    ) -> Values:
        from scipy.optimize import minimize  # a second to import

        objective = _loss(self.objective)
        data = ObjectiveData.of(train)
        # Centred, as with an intercept. Only the loss of mart changes if all scores are shifted; that of a
        # user's class may, too.
        if isinstance(objective, SquaredError):
            means = np.average(columns, axis=1, weights=data.weights)
            columns = columns - means[:, None]
        unit = np.ones(len(columns))
        options: dict[str, Any] = {"maxiter": self.max_iterations}
        if self.scaling == "none":
            unit = self._units(columns, objective, data)
            options["ftol"] = _LEAST_DECREASE
        loss = _PenalisedLoss(
            columns=columns,
            unit=unit,
            objective=objective,
            data=data,
            gradients=_gradients_of(objective, train, data, self.seed),
            l2=self.l2,
            seed=self.seed,
        )
        bounds = [(0 if is_bounded else None, None) for is_bounded in is_nonnegative]
        result = minimize(
            loss.with_gradient,
            np.zeros(len(columns)),
            jac=True,
            bounds=bounds,
            options=options,
        )
        if not result.success:
            remedy = "set a larger model.max_iterations"
            if result.nit < self.max_iterations:
                remedy = "the loss may not be smooth (lambdaloss), or needs a larger model.l2"
            log.warning(
                "linear: L-BFGS did not converge in %d iterations. Its last weights are kept; %s.",
                result.nit,
                remedy,
            )
        return np.asarray(result.x) * unit

    def _units(
        self, columns: Columns, objective: Objective, data: ObjectiveData
    ) -> Values:
        """Returns (C,) units of the weights in which the loss with its penalty bends alike in all directions.

        With weights w_c = unit_c v_c L-BFGS minimises over v. Where features have different scales, it would
        otherwise end far from the optimum, because a step decreases the loss by less than its limit.
        """
        zeros = np.zeros(columns.shape[1])
        _, hessians = objective.gradients(zeros, data, self.seed)
        # A shift of all scores does not bend the loss.
        bend = hessians.sum() * columns.var(axis=1) + self.l2
        bends = bend > 0
        units = 1.0 / np.sqrt(np.where(bends, bend, 1.0))
        return np.where(bends, units, 1.0)

    def predict(self, features: object) -> NDArray[np.float64]:
        model = check_fitted(self._model)
        given = check_features(features, len(model.weights))
        scores = np.zeros(len(given))
        is_used = (model.weights != 0) | (model.missing != 0)
        # One feature at a time: the bits of a matrix product depend on the number of rows.
        for feature in np.flatnonzero(is_used):
            knots = model.knots[feature]
            values = _scaled(given[:, feature], knots, self.scaling)
            is_missing = np.isnan(values)
            if self.refuses_missing and is_missing.any():
                raise DataError(
                    f"feature {self.feature_names[feature]} has {int(is_missing.sum())} missing values, but "
                    "missing is refuse. Fill them, or train with model.missing=impute."
                )
            of_values = model.weights[feature] * values
            scores += np.where(is_missing, model.missing[feature], of_values)
        return scores

    @property
    def refuses_missing(self) -> bool:
        return self.as_fitted().missing == "refuse"

    @property
    def weights(self) -> NDArray[np.float64]:
        """(F,), weights of the features as they are: scores are weights times features, up to a constant.

        Raises:
            ConfigError: The scaling is rank or log1p, so that scores are no weighted sum of the features.
        """
        scaling = self.as_fitted().scaling
        if scaling in _NONLINEAR:
            raise ConfigError(
                f"scaling is {scaling}, but formats of linear models weight the features themselves. "
                "Use the verb serve; or train with model.scaling=standard or none, and use --to "
                "elasticsearch, opensearch, solr or vespa."
            )
        return check_fitted(self._model).weights

    def importance(self) -> dict[str, NDArray[np.float64]]:
        model = check_fitted(self._model)
        coefficients = {"coefficient": model.coefficients}
        if self.scaling in _NONLINEAR:
            return coefficients
        return {**coefficients, "weight": model.weights}

    def findings(self, train: RankingDataset | None) -> Iterator[Finding]:
        unmatched = (
            "A linear model; the shared parameters and early stopping do not apply."
        )
        yield Finding(Severity.UNMATCHED, unmatched)
        if train is None:
            return
        has_weights = train.query_weights is not None
        if self.method == "gradient":
            try:
                _loss(self.objective).check(train.labels, train.query_start)
            except (DataError, UndefinedMetricError) as error:
                yield Finding(Severity.REFUSED, str(error))
        has_one_weight = self.method != "gradient" or _loss(self.objective).has_pairs
        varies = has_one_weight and train.document_weights is not None
        if varies or (self.dialect == "ranklib" and has_weights):
            yield Finding(
                Severity.REFUSED,
                "the training set has weights that the metric or ranknet ignores: they vary within a query, "
                "or dialect is ranklib. Set model.objective=softmax_loss and model.method=gradient, or read "
                "the data without weights.",
            )
        features = as_array(train.features)
        names = train.feature_names
        missing = np.isnan(features).mean(axis=0)
        if missing.any():
            severity = Severity.REFUSED
            if self.missing == "impute":
                severity = Severity.CAUTION
            most = names[missing.argmax()]
            yield Finding(
                severity,
                f"Features with missing values: {np.count_nonzero(missing)}, with most in "
                f"{most} ({missing.max():.1%}). model.missing=impute scores them by the "
                "training median and an indicator, model.missing=refuse refuses them.",
            )
        if self.scaling == "none":
            yield from uneven_scales(moments(features)[1], names)

    def seed_matters(self, num_documents: int) -> bool:
        return self.method == "coordinate_ascent" or _loss(self.objective).draws

    def warm_up(self) -> None:
        """Compiles the objective, or loads it if this machine has compiled it."""
        if self.method == "gradient":
            replace(self, objective=for_warm_up(_loss(self.objective))).fit(
                four_documents()
            )

    def save(self, folder: Path) -> None:
        content = io.BytesIO()
        np.savez(content, **check_fitted(self._model)._asdict())
        write_model(folder, self, _FILE, content.getvalue())

    @classmethod
    def load(cls, folder: Path) -> Self:
        ranker, content = read_model(folder, cls, _FILE)
        arrays = load_npz(folder / _FILE, content, remedy=COPY_OR_FIT_AGAIN)
        try:
            ranker._model = _Model(**arrays)
            num_features = len(ranker._model.missing)
            ranker.predict(np.zeros((1, num_features), dtype=np.float32))
        except (TypeError, ValueError, IndexError, DataError) as error:
            reason = f"is not a saved linear model ({error}). {COPY_OR_FIT_AGAIN}."
            raise ResultError(f"{folder / _FILE} {reason}") from None
        return ranker


def _loss(objective: str | Objective) -> Objective:
    if isinstance(objective, Objective):
        return objective
    return ListNet(targets="labels")
