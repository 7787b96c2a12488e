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
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
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
from ltrbench.native.coordinate_ascent import AscentSettings, coordinate_ascent
from ltrbench.native.objectives.base import Objective, ObjectiveData, name_or_objective
from ltrbench.native.objectives.listnet import ListNet
from ltrbench.native.objectives.squared_error import for_warm_up
from ltrbench.rankers.base import (
    Finding,
    OnIteration,
    Ranker,
    Severity,
    check_features,
    check_fitted,
    refuse,
    resolve_threads,
)
from ltrbench.rankers.estimator import takes_tables
from ltrbench.rankers.library import COPY_OR_FIT_AGAIN, read_model, write_model
from ltrbench.settings import check_effects, part, setting
from ltrbench.shapes import Features, Values
from ltrbench.untrusted import load_npz

log = logging.getLogger("ltrbench")

_FILE = "linear.npz"
_NUM_KNOTS = 1000
"""Maximum number of training values of a feature between which ranks are interpolated."""
_WILD = 1e3
"""Ratio of standard deviations from which features count as wildly different in scale."""

_SOFTMAX = "softmax_loss"
_BY_GRADIENT = {"method": ("gradient",)}
_BY_ASCENT = {"method": ("coordinate_ascent",)}


class _Model(NamedTuple):
    """A fitted model.

    Attributes:
        weights: (F,), per unit of t(x).
        missing: (F,), what a missing value adds to the score.
        coefficients: (F,), change of the score by one standard deviation of t(x) in the training data.
        knots: (2, N), with scaling=rank: training values of the features, and their ranks from 0 to 1.
        knot_start: (F + 1,), first knot of each feature, then N.
    """

    weights: Values
    missing: Values
    coefficients: Values
    knots: NDArray[np.float64]
    knot_start: NDArray[np.int64]


class _Training:
    """The columns of a fit, and the model of their weights.

    Attributes:
        columns: (C, D), scaled features without missing values, then an indicator for each feature with some.
        is_constant: (C,).
    """

    def __init__(self, features: Features, scaling: str) -> None:
        is_missing = np.isnan(features)
        self._has_indicator = is_missing.any(axis=0)
        of_features = [_knots(column) if scaling == "rank" else np.empty((2, 0)) for column in features.T]
        self._knots = np.concatenate(of_features, axis=1)
        self._knot_start = np.cumsum([0, *(knots.shape[1] for knots in of_features)])
        columns, medians = [], []
        for column, knots in zip(features.T, of_features, strict=True):
            known = column[~np.isnan(column)]
            values = np.append(column, np.median(known) if known.size else 0.0)
            *scaled, median = _scaled(values, scaling, knots)
            columns.append(np.where(np.isnan(column), median, scaled))
            medians.append(median)
        self._medians = np.array(medians)
        self.columns = np.stack([*columns, *is_missing.T[self._has_indicator]])
        self.is_constant = np.ptp(self.columns, axis=1) == 0
        self._deviations = np.where(self.is_constant, 1.0, self.columns.std(axis=1))
        self._unit = self._deviations if scaling == "standard" else np.ones(len(self.columns))
        if scaling == "standard":
            self.columns -= self.columns.mean(axis=1, keepdims=True)
            self.columns /= self._unit[:, None]

    def model(self, fitted: Values) -> _Model:
        """Returns the model of (C,) weights of the columns."""
        weights, of_indicators = np.split(fitted / self._unit, [len(self._medians)])
        missing = weights * self._medians
        missing[self._has_indicator] += of_indicators
        coefficients = np.where(self.is_constant, 0.0, fitted / self._unit * self._deviations)[: len(weights)]
        return _Model(weights, missing, coefficients, self._knots, self._knot_start)


def _knots(column: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns (2, N) distinct values, and their ranks: share of values below, plus half of the equal ones."""
    values, counts = np.unique(column[~np.isnan(column)].astype(np.float64), return_counts=True)
    ranks = (np.cumsum(counts) - counts / 2) / max(counts.sum(), 1)
    kept = np.unique(np.linspace(0, len(values) - 1, min(_NUM_KNOTS, len(values))).astype(np.int64))
    return np.stack([values, ranks])[:, kept]


def _scaled(values: NDArray[Any], scaling: str, knots: NDArray[np.float64]) -> Values:
    """Returns t(x) of (D,) values of a feature; standard scaling is part of the weights."""
    values = values.astype(np.float64)
    if scaling == "log1p":
        return np.asarray(np.sign(values) * np.log1p(np.abs(values)))
    # A feature without any value has no knots.
    return np.interp(values, *knots) if knots.size else values


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

    objective: str | Objective = setting(_SOFTMAX, refuse=name_or_objective(_SOFTMAX), only_with=_BY_GRADIENT)
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
    slack: float = setting(0.0, at_least=0, only_with=_BY_ASCENT)
    """coordinate_ascent: penalty times the distance from equal weights (RankLib's -reg)."""
    dialect: str = setting("ltrbench", choices=("ltrbench", "ranklib"), only_with=_BY_ASCENT)
    """coordinate_ascent: ltrbench, or ranklib, with its three errors and its choice by validation.
    ranklib also keeps constant features, and computes the metric under RankLib's convention."""

    unchecked: ClassVar[tuple[str, ...]] = ("metric",)

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_metric(self.metric)
        check_effects(self, {"method": self.method})
        if not _loss(self.objective).is_loss:
            raise ConfigError(
                f"objective is {self.objective}, which has no loss that L-BFGS could minimise. Choose one "
                "with a loss, such as model.objective=softmax_loss or hinge, or maximise a metric by "
                "model.method=coordinate_ascent."
            )
        self._model: _Model | None = None

    @takes_tables
    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        refuse(self, train)
        self._model = None  # of an earlier fit
        training = _Training(as_array(train.features), self.scaling)
        is_fitted = ~training.is_constant | (self.dialect == "ranklib")
        is_nonnegative = (np.arange(len(is_fitted)) < train.num_features) & self.nonnegative

        def model_of(weights: Values) -> _Model:
            fitted = np.zeros(len(is_fitted))
            fitted[is_fitted] = weights
            return training.model(fitted)

        def choose(data: RankingDataset, weights: Values) -> float:
            self._model = model_of(weights)
            return self._measure(data, self.predict(data.features))

        weights = np.zeros(0)
        if is_fitted.any():
            columns, is_nonnegative = training.columns[is_fitted], is_nonnegative[is_fitted]
            with threads(resolve_threads(self.num_threads)):
                if self.method == "gradient":
                    weights = self._by_gradient(train, columns, is_nonnegative)
                else:
                    weights = coordinate_ascent(
                        columns,
                        partial(self._measure, train),
                        part(self, AscentSettings),
                        partial(np.random.default_rng(self.seed).permutation, len(columns)),
                        is_nonnegative,
                        partial(choose, valid) if self.dialect == "ranklib" and valid is not None else None,
                    )
        self._model = model_of(weights)
        return self

    def _measure(self, data: RankingDataset, scores: Values) -> float:
        convention = preset("ranklib") if self.dialect == "ranklib" else DEFAULT
        return evaluate(data, scores, [self.metric], convention).means[self.metric]

    def _by_gradient(
        self, train: RankingDataset, columns: NDArray[np.float64], is_nonnegative: NDArray[np.bool_]
    ) -> Values:
        from scipy.optimize import minimize  # a second to import

        objective, data = _loss(self.objective), ObjectiveData.of(train)

        # einsum instead of BLAS, whose sums depend on the number of threads.
        def loss_and_gradient(weights: Values) -> tuple[float, Values]:
            scores = np.einsum("cd,c->d", columns, weights)
            loss = objective.loss(scores, data, self.seed)
            gradients, _ = objective.gradients(scores, data, self.seed)
            if not (np.isfinite(loss) and np.isfinite(gradients).all()):
                raise DataError(
                    f"the loss {objective} is {loss} at weights of up to {np.abs(weights).max():.3g}. Set "
                    "model.scaling=standard, or a larger model.l2."
                )
            gradient = np.einsum("cd,d->c", columns, gradients) + self.l2 * weights
            return loss + 0.5 * self.l2 * float(weights @ weights), gradient

        result = minimize(
            loss_and_gradient,
            np.zeros(len(columns)),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0 if is_bounded else None, None) for is_bounded in is_nonnegative],
            options={"maxiter": self.max_iterations},
        )
        if not result.success:
            log.warning(
                "L-BFGS ended after %d iterations without convergence: %s", result.nit, result.message
            )
        return np.asarray(result.x)

    def predict(self, features: object) -> NDArray[np.float64]:
        model = check_fitted(self._model)
        given = check_features(features, len(model.weights))
        scores, is_used = np.zeros(len(given)), (model.weights != 0) | (model.missing != 0)
        # One feature at a time: the bits of a matrix product depend on the number of rows.
        for feature in np.flatnonzero(is_used):
            knots = model.knots[:, slice(*model.knot_start[feature : feature + 2])]
            values = _scaled(given[:, feature], self.scaling, knots)
            is_missing = np.isnan(values)
            if self.missing == "refuse" and is_missing.any():
                raise DataError(
                    f"feature {self.feature_names[feature]} has {int(is_missing.sum())} missing values, but "
                    "missing is refuse. Fill them, or train with model.missing=impute."
                )
            scores += np.where(is_missing, model.missing[feature], model.weights[feature] * values)
        return scores

    @property
    def weights(self) -> NDArray[np.float64]:
        """(F,), weights of the features as they are: scores are weights times features, up to a constant.

        Raises:
            ConfigError: The scaling is rank or log1p, so that scores are no weighted sum of the features.
        """
        model = check_fitted(self._model)
        if self.scaling in ("rank", "log1p"):
            raise ConfigError(
                f"scaling is {self.scaling}, but formats of linear models weight the features themselves. "
                "Train with model.scaling=standard or none, or use the verb serve."
            )
        return model.weights

    def importance(self) -> dict[str, NDArray[np.float64]]:
        model = check_fitted(self._model)
        weights = {} if self.scaling in ("rank", "log1p") else {"weight": model.weights}
        return {"coefficient": model.coefficients, **weights}

    def findings(self, train: RankingDataset | None) -> Iterator[Finding]:
        yield Finding(
            Severity.UNMATCHED, "A linear model; the shared parameters and early stopping do not apply."
        )
        if train is None:
            return
        if self.method == "gradient":
            try:
                _loss(self.objective).check(train.labels, train.query_start)
            except (DataError, UndefinedMetricError) as error:
                yield Finding(Severity.REFUSED, str(error))
        elif train.document_weights is not None or (
            self.dialect == "ranklib" and train.query_weights is not None
        ):
            yield Finding(
                Severity.REFUSED,
                "the training set has weights that the metric ignores: they vary within a query, or dialect "
                "is ranklib. Set model.method=gradient, or read the data without weights.",
            )
        yield from self._about_features(train)

    def _about_features(self, train: RankingDataset) -> Iterator[Finding]:
        features, names = as_array(train.features), train.feature_names
        missing = np.isnan(features).mean(axis=0)
        if missing.any():
            most = int(missing.argmax())
            severity = Severity.CAUTION if self.missing == "impute" else Severity.REFUSED
            yield Finding(
                severity,
                f"{np.count_nonzero(missing)} features have missing values, most of them {names[most]} "
                f"({missing[most]:.1%}); missing=impute scores them by the training median and an indicator, "
                "missing=refuse refuses them.",
            )
        with warnings.catch_warnings(action="ignore"):  # a feature without any value
            deviations = np.nanstd(features, axis=0, dtype=np.float64)
        varying = np.flatnonzero(deviations > 0)
        if self.scaling == "none" and varying.size:
            low, high = varying[np.argmin(deviations[varying])], varying[np.argmax(deviations[varying])]
            if deviations[high] > _WILD * deviations[low]:
                yield Finding(
                    Severity.CAUTION,
                    f"scaling is none, but standard deviations range from {deviations[low]:.3g} "
                    f"({names[low]}) to {deviations[high]:.3g} ({names[high]}), so few features decide. Set "
                    "model.scaling=standard.",
                )

    def seed_matters(self, num_documents: int) -> bool:
        return self.method == "coordinate_ascent" or _loss(self.objective).draws

    def warm_up(self) -> None:
        """Compiles the objective, or loads it if this machine has compiled it."""
        with threads(resolve_threads(self.num_threads)):
            replace(self, objective=for_warm_up(self.objective)).fit(four_documents())

    def save(self, folder: Path) -> None:
        content = io.BytesIO()
        np.savez(content, **check_fitted(self._model)._asdict())
        write_model(folder, self, _FILE, content.getvalue())

    @classmethod
    def load(cls, folder: Path) -> Self:
        ranker, content = read_model(folder, cls, _FILE)
        arrays = load_npz(folder / _FILE, content, remedy=COPY_OR_FIT_AGAIN)
        try:
            ranker._model = model = _Model(**arrays)
            starts, count = model.knot_start, len(model.weights)
            is_valid = (
                [array.shape for array in model[:3]] == [(count,)] * 3
                and all(array.dtype == np.float64 for array in model[:4])
                and starts.dtype == np.int64
                and starts.shape == (count + 1,)
                and model.knots.shape == (2, starts[-1])
                and starts[0] == 0
                and (np.diff(starts) >= 0).all()
            )
        except TypeError:
            is_valid = False
        if not is_valid:
            raise ResultError(f"{folder / _FILE} is not a saved linear model. {COPY_OR_FIT_AGAIN}.")
        return ranker


def _loss(objective: str | Objective) -> Objective:
    return objective if isinstance(objective, Objective) else ListNet(targets="labels")
