"""The Ranker contract. `tests/rankers/test_conformance.py` tests every backend against it.

To add a backend, write one dataclass in one file (here or anywhere on the Python path) and one YAML in
conf/model whose `_target_` names it. A boosted-tree backend derives from `BoostingRanker` and inherits the
shared fields; any other backend derives from `Ranker`. The dataclass is the schema: only its fields can be
set.

Four methods are required: `fit`, `predict`, `save` and `load`. Every other method of `Ranker` has a default,
which means that the backend does not support it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.features import AnyFeatures, FeatureMatrix, as_array
from ltrbench.distributed import FitsTogether, PlacedShards, QueryShard, held
from ltrbench.errors import (
    ConfigError,
    DataError,
    DebiasingError,
    ResultError,
    did_you_mean,
)
from ltrbench.folders import find_class
from ltrbench.measure import Stopwatch, available_cores
from ltrbench.metrics import (
    Evaluation,
    evaluate,
    left_out_judgments,
    parse_metric,
    preset,
)
from ltrbench.metrics.evaluation import Weighting
from ltrbench.models.networks import Network
from ltrbench.models.trees import Ensemble, uniform
from ltrbench.native.team import ALONE, Team
from ltrbench.rankers.estimator import Estimator
from ltrbench.settings import In, check, setting
from ltrbench.shapes import Features, QueryStart, Scores
from ltrbench.tables import format_setting, listed
from ltrbench.untrusted import read_json, type_error

# ---- Early stopping and learning curves, implemented once for all backends.
#
# A backend creates a `Monitor` at the beginning of `fit`, passes it the scores after every iteration, and
# stops when `should_stop` returns True. A backend never evaluates itself, so all backends stop by the same
# rule.
#
# In a fit by several members each member has the scores of its shard only. `CurveRecorder` and `Monitor` join
# the values of the queries of all members, so that every member decides alike, by the values that one process
# would have. Every member calls `should_stop` in every iteration, because the members exchange values in it.


@dataclass(frozen=True, eq=False)
class Iteration:
    """Result of one boosting iteration.

    Attributes:
        number: number of trees after the iteration; 1 after the first.
        train_scores: (D,) scores of the training documents.
        valid_scores: (V,) scores of the validation documents; None without a validation set.
        left_out: (n,), in ascending order, the training documents that were not sampled in this iteration:
            the documents of the queries left out, or the documents left out one by one. None: no sampling.
    """

    number: int
    train_scores: Scores
    valid_scores: Scores | None = None
    left_out: NDArray[np.int64] | None = None


OnIteration = Callable[[Iteration], None]
"""Called after each iteration."""


# Not frozen, because OmegaConf makes the fields of a frozen dataclass read-only.
@dataclass
class EarlyStopping:
    """Early stopping: ends a fit when `metric` on the validation set has not improved for `patience`
    iterations, and keeps the best iteration.

    Only a strictly greater value is an improvement, so the earliest of equal iterations is kept.

    Attributes:
        metric: validation metric, such as ndcg@10.
        patience: number of iterations without improvement before the fit ends, 1 or more.
        convention: preset of the metric's convention; a library's preset stops where that library stops.
        minimum: pairs of a number of trees and a value: the fit ends there if its best value so far is below
            it. A search sets them to end trials without prospect.

    Raises:
        ConfigError: the metric or convention is unknown, or the patience is below 1.
    """

    metric: str = "ndcg@10"
    patience: int = 100
    convention: str = "default"
    # Any, because OmegaConf refuses a whole number of trees in a list of floats.
    minimum: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        check(self, "early_stopping.")
        parse_metric(self.metric)
        preset(self.convention)
        if self.patience < 1:
            raise ConfigError(
                f"early_stopping.patience is {self.patience}; set it to 1 or more, or set "
                "early_stopping=null for no early stopping."
            )


@dataclass
class Monitor:
    """Monitors one fit: calls `on_iteration` and applies early stopping.

    Attributes:
        rule: early-stopping rule; None: never stop.
        valid: validation set, which the rule needs.
        on_iteration: called with the scores of each iteration, for example for the learning curve.
        team: the members of the fit.
        queries: (Q,), numbers of the queries of `valid` in the whole validation set; None: they are all.
        best_iteration: number of trees with the best value of the rule's metric; 0 if no rule applies.
        best_value: value of the metric at `best_iteration`.
        is_pruned: whether the fit ended below the rule's minimum.
        seconds: wall time spent in the monitor, which is evaluation time and not training time.
    """

    rule: EarlyStopping | None
    valid: RankingDataset | None
    on_iteration: OnIteration | None = None
    team: Team = ALONE
    queries: NDArray[np.int64] | None = None
    best_iteration: int = 0
    best_value: float = float("-inf")
    is_pruned: bool = False
    _watch: Stopwatch = field(default_factory=Stopwatch)

    def __post_init__(self) -> None:
        if not isinstance(self.rule, EarlyStopping | None):
            raise ConfigError(
                f'early_stopping is {self.rule!r}; pass None or an object, as in EarlyStopping("ndcg@10").'
            )
        if self.rule is not None and self.valid is None:
            raise ConfigError(
                "early_stopping is set, but fit has no validation set, so that no tree would be left out. "
                "Pass valid, or set early_stopping=None."
            )

    @property
    def seconds(self) -> float:
        return self._watch.seconds

    @property
    def wants_scores(self) -> bool:
        """Whether the scores are used; if not, a backend need not compute them."""
        return self.wants_train_scores or self.rule is not None

    @property
    def wants_train_scores(self) -> bool:
        return self.on_iteration is not None

    def should_stop(
        self,
        iteration: int,
        train_scores: Scores | None,
        valid_scores: Scores | None,
        left_out: NDArray[np.int64] | None = None,
    ) -> bool:
        """Records an iteration; returns whether the fit must end.

        Args:
            iteration: number of trees after the iteration, from 1.
            train_scores: (D,) training scores; may be None if `wants_train_scores` is False.
            valid_scores: (V,) validation scores; None without a validation set.
            left_out: as in `Iteration`, from a ranker that samples.
        """
        with self._watch:
            if self.on_iteration is not None and train_scores is not None:
                self.on_iteration(
                    Iteration(iteration, train_scores, valid_scores, left_out)
                )
            return self._apply_rule(iteration, valid_scores)

    def _apply_rule(self, iteration: int, valid_scores: Scores | None) -> bool:
        if self.rule is None or self.valid is None or valid_scores is None:
            return False
        metric = self.rule.metric
        convention = preset(self.rule.convention)
        evaluation = evaluate(self.valid, valid_scores, [metric], convention=convention)
        value = evaluation.means[metric]
        if self.queries is not None:
            value = joined_means(self.team, self.queries, evaluation, [metric])[metric]
        if np.isnan(value):
            raise DataError(
                f"early stopping needs {metric} on the validation set, but no query of it has a value; most "
                "metrics need a relevant document (a label of 1 or more). Choose another validation set, or "
                "early_stopping=None."
            )
        if value > self.best_value:
            self.best_iteration = iteration
            self.best_value = value
        minima = [value for number, value in self.rule.minimum if number == iteration]
        self.is_pruned = any(self.best_value < value for value in minima)
        return self.is_pruned or iteration - self.best_iteration >= self.rule.patience


FitCurve = tuple[list[int], dict[str, list[float]]]
"""Number of trees of each recorded iteration; and "train/ndcg@10", "valid/ndcg@10", ... -> its values."""


class CurveRecorder:
    """The `on_iteration` callback that records the learning curve: the metrics of train and valid after each
    iteration, and the out-of-bag improvement if the iteration left out documents.

    Args:
        train: training queries of this member.
        valid: validation queries of this member; None: no member has any.
        names: metrics of the curve.
        team: the members of the fit, who all record the curve of the whole sets.
    """

    def __init__(
        self,
        train: QueryShard,
        valid: QueryShard | None,
        names: Sequence[str],
        team: Team = ALONE,
    ) -> None:
        self.curve: FitCurve = ([], {})
        self.names = tuple(names)
        self._train = train
        self._valid = valid
        self._team = team
        self._before: Scores | None = None

    @classmethod
    def of(
        cls, train: RankingDataset, valid: RankingDataset | None, names: Sequence[str]
    ) -> Self:
        """Returns the recorder of a fit in one process."""
        return cls(
            QueryShard.whole(train),
            None if valid is None else QueryShard.whole(valid),
            names,
        )

    def __call__(self, iteration: Iteration) -> None:
        self.curve[0].append(iteration.number)
        self._append("train", self._means(self._train, iteration.train_scores))
        if self._valid is not None and iteration.valid_scores is not None:
            self._append("valid", self._means(self._valid, iteration.valid_scores))
        if iteration.left_out is not None:
            before = self._before
            if iteration.number == 1:
                before = np.zeros(len(iteration.train_scores))
            improvement = self._improvement(iteration, iteration.left_out, before)
            self._append("oob", improvement)
        self._before = iteration.train_scores

    def _append(self, kind: str, means: Mapping[str, float]) -> None:
        for name, mean in means.items():
            self.curve[1].setdefault(f"{kind}/{name}", []).append(mean)

    def _means(self, shard: QueryShard, scores: Scores) -> dict[str, float]:
        evaluation = evaluate(shard.dataset, scores, self.names)
        return joined_means(self._team, shard.queries, evaluation, self.names)

    def _improvement(
        self, iteration: Iteration, left_out: NDArray[np.int64], before: Scores | None
    ) -> dict[str, float]:
        """Returns the out-of-bag improvement; NaN if the scores before the iteration were not reported."""
        if before is None:
            return dict.fromkeys(self.names, np.nan)
        queries: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        old: Evaluation | None = None
        new: Evaluation | None = None
        # Another member may have left out documents although this one did not.
        if left_out.size:
            chosen, judgments = left_out_judgments(self._train.dataset, left_out)
            queries = self._train.queries[chosen]
            old = evaluate(judgments, before[left_out], self.names)
            after = iteration.train_scores[left_out]
            new = evaluate(judgments, after, self.names)
        old_means = joined_means(self._team, queries, old, self.names)
        new_means = joined_means(self._team, queries, new, self.names)
        return {name: new_means[name] - old_means[name] for name in self.names}


def joined_means(
    team: Team,
    queries: NDArray[np.int64],
    evaluation: Evaluation | None,
    metrics: Sequence[str],
) -> dict[str, float]:
    """Returns the means over the queries of all members, with the bits of an evaluation in one process.

    Args:
        queries: (n,), numbers of the queries of this member in the whole data set.
        evaluation: of these queries; None: n is 0.
        metrics: names of metrics that every member has evaluated.
    """
    rows: list[NDArray[Any]] = [queries.astype(np.float64)]
    if evaluation is not None:
        for name in metrics:
            rows += [evaluation.per_query[name], *evaluation.weightings[name]]
    height = 1 + 3 * len(metrics)
    parts = team.joined(np.concatenate(rows))
    joined = np.concatenate([part.reshape(height, -1) for part in parts], axis=1)
    in_order = joined[:, np.argsort(joined[0])]
    of_metrics = in_order[1:].reshape(len(metrics), 3, -1)
    means = {}
    for name, (values, factors, weights) in zip(metrics, of_metrics, strict=True):
        means[name] = Weighting(factors, weights).mean(values)
    return means


class Severity(Enum):
    """Effect of a finding on a run."""

    REFUSED = "refused"
    """`fit` raises DataError with the sentence."""
    CAUTION = "caution"
    """`fit` accepts the data but does not handle them as a user expects; a run logs and records that."""
    UNMATCHED = "unmatched"
    """The ranker differs from the shared parameters; results record the sentence and tables print it."""


@dataclass(frozen=True)
class Finding:
    """A message for the user about a ranker, or about a ranker on a training set.

    Attributes:
        sentence: one or more sentences, printed unchanged, that name the value and the remedy.
    """

    severity: Severity
    sentence: str


def refuse(ranker: Ranker, train: RankingDataset) -> None:
    """Raises DataError with the first refusal of a training set; to be called at the start of `fit`."""
    for sentence in _sentences(ranker, train, Severity.REFUSED):
        raise DataError(sentence)


def concerns_of(ranker: Ranker, train: RankingDataset) -> tuple[str, ...]:
    """Returns the refusals and cautions about a training set: refusals first, then cautions."""
    refused = (
        f"Refused: {sentence}"
        for sentence in _sentences(ranker, train, Severity.REFUSED)
    )
    return (*refused, *cautions_of(ranker, train))


def cautions_of(ranker: Ranker, train: RankingDataset) -> tuple[str, ...]:
    """Returns the cautions about a training set."""
    return tuple(_sentences(ranker, train, Severity.CAUTION))


def departures_of(
    ranker: Ranker, train: RankingDataset | None = None
) -> tuple[str, ...]:
    """Returns the differences between the ranker and the shared parameters, one string per difference.

    Args:
        train: training set, on which a difference may depend; None: not known.
    """
    return tuple(_sentences(ranker, train, Severity.UNMATCHED))


def _on_positions(ranker: Ranker, train: RankingDataset) -> Iterator[Finding]:
    """Yields a refusal of data without the positions that a correction needs, or a caution about positions
    that are not used."""
    corrections = []
    for name, settings in ranker.debiasing.items():
        if name not in (NO_DEBIASING, WEIGHTS):
            corrections += [*settings.items()]
    without = ranker.debiasing.get(NO_DEBIASING, {})
    needing = [name for name in without if getattr(ranker, name) != without[name]]
    if needing and train.positions is None:
        name = needing[0]
        yield Finding(
            Severity.REFUSED,
            f"{name} is {getattr(ranker, name)}, but the training data have no positions. Pass "
            f"RankingDataset(positions=...), or set model.{name}={format_setting(without[name])}.",
        )
    if needing or train.positions is None or ranker.is_yardstick:
        return
    remedy = "choose model=native, or set debias=weights with data=clicks"
    if corrections:
        texts = [f"model.{name}={format_setting(value)}" for name, value in corrections]
        remedy = f"set {' or '.join(texts)}"
    yield Finding(
        Severity.CAUTION,
        f"The positions of the training data are not used; {remedy} to correct clicks for position bias.",
    )


def moments(
    features: NDArray[Any], input_transform: str = "none"
) -> NDArray[np.float32]:
    """Returns the (2, F) means and standard deviations of the finite values of features."""
    pairs: list[tuple[float, float]] = []
    for values in features.T:
        column = values[np.isfinite(values)].astype(np.float64)
        if not column.size:
            pairs.append((0, 0))
            continue
        if input_transform == "log1p":
            column = np.sign(column) * np.log1p(np.abs(column))
        varies = np.ptp(column) > 0
        pairs.append((column.mean(), column.std() if varies else 0))
    return np.array(pairs, dtype=np.float32).T.copy()


def uneven_scales(
    deviations: NDArray[np.float32], names: Sequence[str]
) -> Iterator[Finding]:
    """Yields a caution if a standard deviation is over 1,000 times another; deviations of 0 do not count."""
    order = [feature for feature in np.argsort(deviations) if deviations[feature] > 0]
    if not order:
        return
    lowest = order[0]
    highest = order[-1]
    if deviations[highest] > 1000 * deviations[lowest]:
        low = f"{deviations[lowest]:.3g} ({names[lowest]})"
        high = f"{deviations[highest]:.3g} ({names[highest]})"
        yield Finding(
            Severity.CAUTION,
            f"scaling is none, but standard deviations range from {low} to {high}: few features decide, and "
            "training may be slow or diverge. Set model.scaling=standard.",
        )


def _sentences(
    ranker: Ranker, train: RankingDataset | None, severity: Severity
) -> Iterator[str]:
    findings = [*ranker.findings(train)]
    if train is not None:
        findings += _on_positions(ranker, train)
    if train is not None and train.categories and not ranker.reads_categories:
        text = f"The codes of the categorical features {', '.join(train.categories)} are read as numbers."
        findings.append(Finding(Severity.CAUTION, text))
    return (finding.sentence for finding in findings if finding.severity is severity)


def trees_of(ranker: Ranker) -> Ensemble:
    """Returns the fitted trees in one form for all backends, see `uniform`.

    Raises:
        ConfigError: the ranker has no trees.
    """
    return uniform(ranker.trees())


FittedT = TypeVar("FittedT")
RankerT = TypeVar("RankerT", bound="Ranker")

OF_A_FINISHED_RUN = "Give the model folder of a finished run"
"""Remedy in messages about a folder that does not contain a saved ranker."""


@dataclass(frozen=True)
class FitSummary:
    """Summary of a fit.

    Attributes:
        num_trees: number of trees kept after early stopping; None for a model without trees.
        num_iterations: number of iterations run, including those that early stopping removed.
        monitor_seconds: wall time inside the evaluator during the fit.
    """

    num_trees: int | None = None
    num_iterations: int = 0
    monitor_seconds: float = 0.0


# ---- Corrections of clicks for position bias: `debias=NAME`, with the same names for every backend.

NO_DEBIASING = "none"
ADDITIVE = "additive"
PROPENSITY = "propensity"
WEIGHTS = "weights"
DEBIASING = (NO_DEBIASING, ADDITIVE, PROPENSITY, WEIGHTS)
"""none: no correction; additive: a bias term of the score for each position, learned in the fit; propensity:
weights of pairs, learned in the fit; weights: lists weighted by the examination that the data source has
estimated (`ltrbench.data.click_weighted`)."""

Debiasing = Mapping[str, Mapping[str, Any]]
"""Correction -> settings of a backend."""


@dataclass(kw_only=True)
class Ranker(ABC, Estimator):
    """Learns scores that rank the documents of each query well when sorted in descending order.

    A ranker never evaluates itself and never changes its input. The score of a document depends only on its
    features, not on the batch; that of a list-wise ranker also on the other documents of its query, and its
    last bits on the number of queries scored together (float32: relative differences of about 1e-6). The
    same seed gives the same scores.
    """

    seed: int = setting(
        0,
        at_least=0,
        lightgbm=In("seed random_seed random_state"),
        xgboost=In("seed random_state"),
        catboost=In("random_seed random_state"),
    )
    num_threads: int = setting(
        0,
        at_least=0,
        lightgbm=In("num_threads num_thread nthread nthreads n_jobs"),
        xgboost=In("nthread n_jobs"),
        catboost=In("thread_count"),
    )
    """Number of threads for `fit` and `predict`; 0: all cores available to this process."""

    summary: FitSummary | None = field(
        default=None, init=False, repr=False, compare=False
    )
    """Set by `fit`; None: the ranker is not fitted, or its model has no iterations."""

    score_dtype: ClassVar[type[np.floating[Any]]] = np.float64
    """Data type of the scores. They are stored, and compared for ties, in this type."""
    is_yardstick: ClassVar[bool] = False
    """Whether the ranker is a baseline, without parameters that could be matched with other models."""
    reads_blocks: ClassVar[bool] = False
    """Whether `fit` and `predict` read a FeatureMatrix by blocks of rows (`row_blocks`), so that the features
    need not fit into memory as one array. Otherwise a run passes arrays. A derived class with another `fit`
    or `predict` sets it again."""
    reads_sparse: ClassVar[bool] = False
    """Whether `fit` and `predict` read sparse features (`csr_of`) without an array of all cells, although
    they do not read blocks."""
    reads_categories: ClassVar[bool] = False
    """Whether `fit` splits categorical features by sets of categories; otherwise their codes are numbers."""
    unchecked: ClassVar[tuple[str, ...]] = ()
    """Fields that loading does not check, because a plug-in defines their value."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Packages whose versions are recorded in the results of this backend, such as "lightgbm"."""
    debiasing: ClassVar[Debiasing] = {NO_DEBIASING: {}, WEIGHTS: {}}
    """The corrections of clicks that the backend has, and the settings that each one sets."""
    iterations_field: ClassVar[str | None] = None
    """Field with the maximum number of iterations of a fit; None: a fit has none."""
    is_slow: ClassVar[bool] = False
    """Whether a fit takes several times as long as that of LightGBM; `auto` then trains on few queries first,
    which says whether there is time for all."""
    compiles_in_fit: ClassVar[bool] = False
    """Whether the first iteration compiles functions for the sizes of the queries, for up to a minute."""
    is_repeatable_on_workers: ClassVar[bool] = False
    """Whether two distributed fits of the same data give the same bits, on any number of workers."""

    @property
    def folders_read(self) -> Mapping[str, Path]:
        """Field -> folder with files that the fit reads: a job of a sweep whose files have changed is
        another job."""
        return {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Another fit or predict may need arrays, whatever the base class reads.
        has_arrays = bool(vars(cls).keys() & {"fit", "predict"})
        if has_arrays and "reads_blocks" not in vars(cls):
            cls.reads_blocks = False

    def __post_init__(self) -> None:
        check(self)

    @abstractmethod
    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        """Fits the ranker to the training set and returns the ranker.

        `fit(X, y, qid=ids)` and `fit(X, y, group=sizes)` fit it to a DataFrame, an array or a sparse matrix;
        the arguments are those of `ltrbench.rankers.estimator.dataset_of`, and valid=(X, y, qid).

        Args:
            valid: validation set, used for early stopping only.
            on_iteration: called after each iteration, for progress and learning curves.

        Raises:
            DataError: the ranker cannot learn from these data.
        """

    @abstractmethod
    def predict(self, features: Any) -> NDArray[np.floating[Any]]:
        """Returns (D,) scores of `score_dtype` for (D, F) features.

        Of a DataFrame, the features are found by their names, in any order; features without names, which
        are "1" to "F", may be the columns 0 to F - 1. Other columns are ignored, but a list-wise ranker takes
        the queries from a column qid or query_id, which it needs.

        Begin with `features = check_features(features, F)`: it converts arrays of any numeric type to float32
        and refuses everything else.

        Raises:
            DataError: `features` is not an array of numbers, or F differs from the training set.
        """

    @property
    def is_listwise(self) -> bool:
        """Whether the score of a document depends on the other documents of its query: for `predict`, all
        documents are those of one query."""
        return False

    def predict_lists(
        self, features: Any, query_start: QueryStart
    ) -> NDArray[np.floating[Any]]:
        """Returns (D,) scores of the documents of (Q,) queries; `query_start` is (Q + 1,)."""
        return self.predict(features)

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Writes the fitted model into an empty folder, which is created if necessary, in a format that is
        loaded without pickle and without running code."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Self:
        """Reads a model written by `save`; the loaded ranker predicts the same scores, bit for bit."""

    # ---- Optional methods. Shapes: D documents, F features.

    def warm_up(self) -> None:  # the default does nothing
        """Compiles and imports everything that `fit` and `predict` need, before the clock starts."""

    def begin_warm_up(self) -> None:
        """Begins a part of `warm_up` in another process, if that saves time; `warm_up` waits for it."""

    def warm_up_sparse(self) -> None:
        """Compiles what a fit to sparse features needs in addition to `warm_up`."""

    def warm_up_categories(self) -> None:
        """Compiles what a fit to categorical features needs in addition to `warm_up`."""

    def warm_up_member(self) -> None:
        """Compiles what a fit on several workers needs in addition to `warm_up`."""

    def clean_copy(self) -> Self:
        """Returns an unfitted copy that trains the kept model without an evaluator, for timing."""
        kept = None
        if self.summary:
            kept = self.summary.num_trees
        if kept:
            return self.with_iterations(kept)
        changes: dict[str, Any] = {}
        if self.iterations_field is not None:
            changes["early_stopping"] = None
        return replace(self, **changes)

    def with_iterations(self, number: int) -> Self:
        """Returns an unfitted copy with this number of iterations, without early stopping; a ranker without
        iterations as it is."""
        if self.iterations_field is None:
            return replace(self)
        changes: dict[str, Any] = {
            self.iterations_field: number,
            "early_stopping": None,
        }
        return replace(self, **changes)

    def seed_matters(self, num_documents: int) -> bool:
        """Returns whether another seed may give other scores; True if that is not known.

        Args:
            num_documents: number of training documents; a backend may bin a large training set on a sample.
        """
        return True

    def findings(self, train: RankingDataset | None) -> Iterator[Finding]:
        """Yields the findings about this ranker, fitted or not.

        Args:
            train: training set; None: only the findings that hold for any data.
        """
        yield from ()

    def importance(self) -> dict[str, NDArray[np.float64]]:
        """Returns kind -> (F,) values, in the library's units.

        Kinds are "split", the number of splits on a feature, and "gain", its total gain; of linear models
        "coefficient" and "weight". Kinds that the model does not have are omitted.
        """
        return {}

    def contributions(self, features: Features) -> NDArray[np.float64] | None:
        """Returns (D, F + 1) TreeSHAP values of (D, F) features; None if the model has none.

        Values are in units of the score. The last column is the expected score; each row sums to the score of
        `predict`.
        """
        return None

    def counted_on(self, train: RankingDataset) -> Ranker:
        """Returns a ranker with the same scores, whose contributions weight the branches of a tree by the
        number of training documents. Most backends do so anyway, and return themselves."""
        del train
        return self

    missing_joins_categories: ClassVar[bool] = False
    """Whether a split by a set of categories may send missing values to the side of the set."""

    @property
    def zero_is_missing(self) -> bool:
        """Whether splits send 0 where they send missing values."""
        return False

    def splits_are_readable(self, train: RankingDataset) -> bool:
        """Returns whether `trees` can return the splits of a model that is trained on these data."""
        return True

    def trees(self) -> Ensemble:
        """Returns the fitted trees in the arithmetic of the library; their weighted leaf values sum to the
        scores of `predict`.

        Raises:
            ConfigError: the ranker has no trees, or is not fitted.
        """
        raise ConfigError(
            f"{type(self).__name__} has no trees; choose a run of model=native, lightgbm, xgboost or "
            "catboost."
        )

    def network(self) -> Network | None:
        """Returns the fitted neural network; None: the ranker is no network."""
        return None

    def library_model(self) -> tuple[str, object] | None:
        """Returns the package and its model object, for tools that support the package; None: the model is
        ltrbench's own."""
        return None

    def library_parameters(self) -> dict[str, Any]:
        """Returns the settings under the names and in the units of the library or engine.

        Values that depend on the training data are given for data without weights.
        """
        return {}

    def check_debiasing(self, name: str) -> None:
        """Checks a correction of clicks that the backend has against its settings.

        Raises:
            ConfigError: A fit with these settings would ignore the correction.
        """

    def check_distributed(self) -> None:
        """Checks the settings of a distributed fit before any data is read.

        Raises:
            ConfigError: A setting, or the ranker, is not available in a distributed fit.
        """
        if type(self).fit_distributed is Ranker.fit_distributed:
            raise ConfigError(
                f"distributed is set, but {type(self).__name__} has no distributed fit. Choose model=native, "
                "model=lightgbm or model=xgboost, or fit in one process with distributed=none."
            )

    def fit_distributed(
        self,
        workers: FitsTogether,
        train: PlacedShards,
        valid: PlacedShards | None = None,
        metrics: Sequence[str] = (),
    ) -> FitCurve:
        """Fits this ranker to the shards that the workers hold; afterwards it is as after `fit`.

        The caller has refused training sets that `findings` refuses. The functions that run on the workers
        get their shards with `held(key)`.

        Args:
            valid: validation set, used for early stopping and the learning curve.
            metrics: metrics of the learning curve; empty: no scores are computed for it.

        Returns:
            The learning curve; empty without `metrics`.
        """
        raise NotImplementedError


def _refuse_other_signs(name: str, monotone: Any) -> None:
    if not isinstance(monotone, Mapping | None):
        raise ConfigError(
            f"{name} is {monotone}; write a sign for each name, such as {name}={{price: -1}}."
        )
    for feature, sign in (monotone or {}).items():
        if sign not in (-1, 0, 1):
            raise ConfigError(
                f"{name}.{feature} is {sign}; it must be 1, -1 or, for no constraint, 0."
            )


@dataclass(kw_only=True)
class BoostingRanker(Ranker):
    """The hyperparameters that all boosted-tree backends share, with one meaning everywhere. None: the
    backend's default.

    `In` gives the name of a field in a library and its conversion; the unit of a field is LightGBM's. A
    backend raises ConfigError if a field is set that it cannot apply; its YAML sets that field to null.

    XGBoost's gradients are w g and its hessians 2 w h instead of g and h, where w is the factor of the
    weights. A step -G / (H + l2) is therefore half as long, and a gain G^2 / (H + l2) is w / 2 times as
    large.
    """

    num_trees: int = setting(
        100,
        at_least=1,
        lightgbm=In(
            "num_iterations num_iteration n_iter num_tree num_trees num_round num_rounds nrounds "
            "num_boost_round n_estimators max_iter",
            is_passed=False,
        ),
        xgboost=In("num_boost_round n_estimators", is_passed=False),
        catboost=In("iterations n_estimators num_boost_round num_trees"),
    )
    """Number of boosting iterations, one tree each; early stopping may keep fewer."""
    learning_rate: float | None = setting(
        None,
        above=0,
        lightgbm=In("learning_rate shrinkage_rate eta"),
        xgboost=In("eta learning_rate", lambda value, _: 2.0 * value),
        catboost=In("learning_rate eta"),
    )
    """Learning rate (shrinkage): factor of the Newton step of every leaf."""
    num_leaves: int | None = setting(
        None,
        at_least=2,
        lightgbm=In("num_leaves num_leaf max_leaves max_leaf max_leaf_nodes"),
        xgboost=In("max_leaves", only_with={"grow_policy": ("lossguide",)}),
        catboost=In("max_leaves num_leaves", only_with={"grow_policy": ("Lossguide",)}),
    )
    """Maximum number of leaves per tree; trees are grown best-first by gain."""
    min_docs_in_leaf: int | None = setting(
        None,
        at_least=1,
        lightgbm=In(
            "min_data_in_leaf min_data_per_leaf min_data min_child_samples min_samples_leaf"
        ),
        xgboost=In(
            lacks="minimum number of documents per leaf; min_sum_hessian avoids small leaves"
        ),
        catboost=In(
            lacks="minimum number of documents per leaf; extra.min_data_in_leaf keeps small leaves from "
            "being split"
        ),
    )
    """Minimum number of documents per leaf; not available in XGBoost and CatBoost."""
    min_sum_hessian: float | None = setting(
        None,
        at_least=0,
        lightgbm=In(
            "min_sum_hessian_in_leaf min_sum_hessian_per_leaf min_sum_hessian min_hessian min_child_weight"
        ),
        xgboost=In("min_child_weight", lambda value, weight: 2.0 * weight * value),
        catboost=In(lacks="minimum sum of hessians per leaf"),
    )
    """Minimum sum of hessians per leaf, in LightGBM's units; not available in CatBoost. XGBoost's hessian is
    twice as large."""
    min_split_gain: float | None = setting(
        None,
        at_least=0,
        lightgbm=In("min_gain_to_split min_split_gain"),
        xgboost=In("gamma min_split_loss", lambda value, weight: 0.5 * weight * value),
        catboost=In(lacks="minimum gain of a split"),
    )
    """Minimum gain of a split; gain = G_L^2/(H_L + l2) + G_R^2/(H_R + l2) - G^2/(H + l2)."""
    max_delta_step: float | None = setting(
        None,
        at_least=0,
        lightgbm=In("max_delta_step max_tree_output max_leaf_output"),
        xgboost=In("max_delta_step", lambda value, _: 0.5 * value),
        catboost=In(lacks="maximum step of a leaf"),
    )
    """Maximum absolute Newton step of a leaf, before shrinkage; 0: no limit."""
    l2: float | None = setting(
        None,
        at_least=0,
        lightgbm=In("lambda_l2 reg_lambda lambda l2_regularization"),
        xgboost=In("reg_lambda lambda", lambda value, weight: 2.0 * weight * value),
        # CatBoost adds l2_leaf_reg times the mean document weight to a leaf's sum of hessians.
        catboost=In("l2_leaf_reg reg_lambda", lambda value, weight: value / weight),
    )
    """L2 penalty, added to the sum of hessians in a leaf's step -G / (H + l2), in LightGBM's units."""
    max_bins: int | None = setting(
        None,
        at_least=2,
        lightgbm=In("max_bin max_bins"),
        xgboost=In("max_bin"),
        catboost=In("border_count max_bin", lambda value, _: value - 1),
    )
    """Maximum number of bins per feature."""
    truncation: int | None = setting(
        None,
        at_least=1,
        lightgbm=In(
            "lambdarank_truncation_level", only_with={"objective": ("lambdarank",)}
        ),
        xgboost=In(
            only_with={
                "lambdarank_pair_method": ("topk",),
                "objective": ("ndcg", "map", "pairwise"),
            }
        ),
        catboost=In(only_with={"loss": ("LambdaMart",), "metric": ("NDCG", "DCG")}),
    )
    """Number of top ranks: a pair counts only if one of its documents is among them, as in LightGBM."""
    # Any, because Hydra adds no keys to a typed dictionary, and reads a name of digits as a number.
    monotone: Any = setting(
        None,
        refuse=_refuse_other_signs,
        lightgbm=In(
            "monotone_constraints mc monotone_constraint monotonic_cst", is_passed=False
        ),
        xgboost=In("monotone_constraints", is_passed=False),
        catboost=In(
            "monotone_constraints",
            is_passed=False,
            only_with={
                "loss": ("QueryRMSE", "QuerySoftMax"),
                "grow_policy": ("SymmetricTree",),
            },
        ),
    )
    """Feature name: 1 (scores must not decrease if only this feature increases) or -1 (not increase); not for
    CatBoost's LambdaMart. Monotone constraints are for known effects; splits that violate them are rejected.
    CatBoost has them for symmetric trees of QueryRMSE and QuerySoftMax only."""
    early_stopping: EarlyStopping | None = setting(
        None,
        lightgbm=In(
            "early_stopping_round early_stopping_rounds early_stopping n_iter_no_change "
            "early_stopping_min_delta first_metric_only",
            is_passed=False,
        ),
        xgboost=In("early_stopping_rounds", is_passed=False),
        catboost=In(
            "early_stopping_rounds od_type od_wait od_pval use_best_model best_model_min_trees eval_fraction",
            is_passed=False,
        ),
    )
    """Rule that ends a fit before num_trees; needs a validation set."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further parameters of the backend's library, under the library's names, passed through unchanged."""

    iterations_field: ClassVar[str | None] = "num_trees"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.monotone:
            self.monotone = {str(name): sign for name, sign in self.monotone.items()}

    def findings(self, train: RankingDataset | None) -> Iterator[Finding]:
        least = self.min_docs_in_leaf
        if train is not None and least is not None and train.num_documents < 2 * least:
            yield Finding(
                Severity.CAUTION,
                f"min_docs_in_leaf is {least}, but the training set has {train.num_documents} documents, so "
                "no tree can be split. Set params.min_docs_in_leaf to at most half that number.",
            )

    def monitor(
        self, valid: RankingDataset | None, on_iteration: OnIteration | None
    ) -> Monitor:
        """Returns the monitor that receives the scores of each iteration and decides when to stop."""
        return Monitor(self.early_stopping, valid, on_iteration)


OF_EVERY_RANKER = tuple(item.name for item in fields(Ranker))
"""The fields of `Ranker`, which are not hyperparameters."""
SHARED = tuple(
    item.name
    for item in fields(BoostingRanker)
    if item.name not in (*OF_EVERY_RANKER, "early_stopping", "extra")
)
"""The hyperparameters that conf/params sets to equal values in every backend."""


def debiased(ranker: RankerT, name: str, model: str) -> RankerT:
    """Returns a ranker with the settings of a correction.

    Args:
        name: one of DEBIASING.
        model: name of the ranker in messages.

    Raises:
        ConfigError: There is no such correction, or a setting of the ranker contradicts it.
        DebiasingError: The backend does not have it.
    """
    if name not in DEBIASING:
        raise ConfigError(
            f"debias is {name!r}{did_you_mean(name, DEBIASING)} It must be one of {', '.join(DEBIASING)}."
        )
    if name not in ranker.debiasing:
        raise DebiasingError(
            f"debias={name} is not available for model={model}, which has "
            f"{listed([f'debias={other}' for other in ranker.debiasing])}."
        )
    settings = ranker.debiasing[name]
    initial = {item.name: item.default for item in fields(ranker)}
    for key, value in settings.items():
        given = getattr(ranker, key)
        if given not in (value, initial[key]):
            raise ConfigError(
                f"model.{key} is {given}, but debias={name} sets it to {value}; leave one of them out."
            )
    try:
        corrected = replace(ranker, **settings)
        corrected.check_debiasing(name)
        return corrected
    except ConfigError as error:
        raise DebiasingError(
            f"debias={name} is not available for model={model}: {error}"
        ) from None


def resolve_threads(num_threads: int) -> int:
    """Returns the number of threads to use, at most one per available core: more threads than cores slow each
    other down, because they spin while they wait.

    >>> 1 <= resolve_threads(0) == available_cores()
    True
    """
    return min(num_threads or available_cores(), available_cores())


def fit_on_members(
    workers: FitsTogether,
    ranker: BoostingRanker,
    train: PlacedShards,
    valid: PlacedShards | None,
    metrics: Sequence[str],
    fit: Callable[..., FittedT],
    *more: Any,
) -> tuple[FittedT, FitCurve]:
    """Fits a ranker on all workers at the same time; returns what the fit on worker 0 returned, and the
    learning curve.

    Args:
        fit: called as fit(ranker, team, train, valid, monitor, *more) on each worker, with a copy of the
            ranker, the two shards that the worker holds, and its `Monitor`.
    """
    threads = threads_of_workers(workers, ranker.num_threads)
    shards = [placed.keys for placed in (train, valid) if placed]
    arguments = []
    for count, *keys in zip(threads, *shards, strict=True):
        of_worker = replace(ranker, num_threads=count)
        arguments.append((fit, of_worker, keys, tuple(metrics), *more))
    fitted: tuple[FittedT, FitCurve] = workers.run_team(_fit_member, arguments)[0]
    return fitted


def _fit_member(
    team: Team,
    fit: Callable[..., FittedT],
    ranker: BoostingRanker,
    keys: Sequence[str],
    metrics: tuple[str, ...],
    *more: Any,
) -> tuple[FittedT, FitCurve] | None:
    train, *others = map(held, keys)
    valid = others[0] if others else None
    recorder = CurveRecorder(train, valid, metrics, team)
    of_valid, queries = (
        (None, None) if valid is None else (valid.dataset, valid.queries)
    )
    monitor = Monitor(
        ranker.early_stopping, of_valid, recorder if metrics else None, team, queries
    )
    fitted = fit(ranker, team, train, valid, monitor, *more)
    if team.rank == 0:
        return (fitted, recorder.curve)
    return None


def threads_of_workers(workers: FitsTogether, num_threads: int) -> list[int]:
    """Returns the number of threads of the fit on each worker, by rank.

    Several workers may share a machine, so no worker uses more threads than it has.

    Args:
        num_threads: number of threads of a ranker; 0: all that each worker has.
    """
    available = [member.num_threads for member in workers.members]
    return [min(num_threads or most, most) for most in available]


_BYTES_OF_DOUBLE = 8


def check_features(
    features: object, num_features: int, *, exact: bool = False
) -> Features:
    """Returns the features as contiguous float32; the same array if it is that already.

    Args:
        features: (D, F), a NumPy array of any numeric type, or a FeatureMatrix.
        num_features: F, the number of features in the training set.
        exact: whether a float64 array stays float64.

    Raises:
        DataError: `features` is not such an array (a list, a data set), has another number of columns, or
            has a value beyond the range of float32.

    >>> check_features(np.array([[1, 2]]), 2)
    array([[1., 2.]], dtype=float32)
    """
    if isinstance(features, FeatureMatrix):
        return as_array(check_blocks(features, num_features))
    if not isinstance(features, np.ndarray):
        raise DataError(
            f"features has the type {type(features).__name__}; expected a NumPy array of numbers with shape "
            f"(documents, {num_features}). Convert it: np.asarray(features, dtype=np.float32), of a data set "
            "dataset.features."
        )
    if features.dtype.kind not in "fiub":
        raise DataError(
            f"features has the dtype {features.dtype}, not numbers. Encode the values, and convert the "
            "array: features.astype(np.float32)."
        )
    _check_shape(features.shape, num_features)
    try:
        with np.errstate(over="raise"):
            singles = np.ascontiguousarray(features, dtype=np.float32)
    except FloatingPointError:
        raise DataError(
            "features has a value beyond the range of float32 (maximum 3.4e38). Rescale the feature, or use "
            "NaN for a missing value."
        ) from None
    if exact and features.dtype.itemsize >= _BYTES_OF_DOUBLE:  # and large integers
        return cast(Features, np.ascontiguousarray(features, dtype=np.float64))
    return singles


def check_blocks(
    features: object, num_features: int, *, exact: bool = False
) -> AnyFeatures:
    """Returns a FeatureMatrix as it is, and any other features as `check_features` does.

    `predict` of a ranker that reads blocks begins with this.

    Raises:
        DataError: as `check_features`.
    """
    if not isinstance(features, FeatureMatrix):
        return check_features(features, num_features, exact=exact)
    _check_shape(features.shape, num_features)
    return features


def _check_shape(shape: tuple[int, ...], num_features: int) -> None:
    if len(shape) != 2 or shape[1] != num_features:
        remedy = ""
        if shape == (num_features,):
            remedy = f" For one document pass features.reshape(1, {num_features})."
        raise DataError(
            f"features has the shape {shape}, but the model was fitted on {num_features} features; pass a "
            f"(documents, features) array with the columns of the training set.{remedy}"
        )


def check_fitted(state: FittedT | None) -> FittedT:
    """Returns the fitted state of a ranker.

    Raises:
        ConfigError: the state is None, so the ranker is not fitted.
    """
    if state is None:
        raise ConfigError(
            "the ranker is not fitted; call fit first, or load a saved ranker."
        )
    return state


def read_model_json(path: Path, types: Mapping[str, Any]) -> dict[str, Any]:
    """Reads a JSON object written by a ranker's `save`.

    Args:
        types: name -> type of each required value, such as int or list[float].

    Raises:
        ResultError: the file does not exist, is not JSON, lacks one of the names, or has a value of another
            type.
    """
    content = read_json(path, OF_A_FINISHED_RUN, finite=False)
    names = content if isinstance(content, dict) else {}
    missing = [name for name in types if name not in names]
    if missing:
        error: str | None = f"'{missing[0]}' is missing"
    else:
        error = type_error({name: content[name] for name in types}, types)
    if error is not None:
        raise ResultError(
            f"{path} is not a saved ranker: {error}. {OF_A_FINISHED_RUN}."
        )
    return dict(content)


# ---- Checks the model that a run has saved, and loads saved models by the name of their class.
#
# The folder of a run or model is not trusted: only classes in `ltrbench.rankers` are imported.


class SavedModelError(ResultError):
    """A ranker's `save` or `load` violates the Ranker contract."""


def check_saved(
    ranker: Ranker,
    folder: Path,
    features: Features,
    scores: NDArray[np.floating[Any]],
    query_start: QueryStart | None = None,
) -> None:
    """Loads a saved ranker, and predicts again.

    Args:
        features: (D, F) features of documents.
        query_start: (Q + 1,), queries of the documents; None: they are one.
        scores: (D,) scores of these documents from the ranker that was saved.

    Raises:
        SavedModelError: the model does not load, or predicts other scores.
    """
    name = type(ranker).__name__
    try:
        lists = query_start
        if lists is None:
            lists = np.array([0, len(scores)])
        again = type(ranker).load(folder).predict_lists(features, lists)
    except Exception as error:
        raise SavedModelError(
            f"{name}.load cannot read the model written by {name}.save, or not predict with it "
            f"({type(error).__name__}: {error}). Correct save or load; the model of this run cannot be used."
        ) from error
    if not np.array_equal(again, scores, equal_nan=True):
        raise SavedModelError(
            f"{name}.load predicts other scores than the ranker that was saved. Save everything that predict "
            "needs, without rounding."
        )


_OURS = "ltrbench.rankers."


def is_ours(target: str) -> bool:
    """Returns whether a `_target_` names a class of ltrbench.

    >>> is_ours("ltrbench.rankers.native.NativeRanker"), is_ours("my_module.MyRanker")
    (True, False)
    """
    return target.startswith(_OURS)


def load_ranker(target: str, folder: Path) -> Ranker:
    """Loads a model that `save` of the class `target` wrote into a folder.

    Raises:
        ConfigError: the class is not one of ltrbench's classes, or does not exist.
        ResultError: the folder does not contain such a model.
    """
    if not is_ours(target):
        raise ConfigError(
            f"'{target}' is not one of ltrbench's own classes, and only those are loaded by name. Load the "
            f"model with {target.rpartition('.')[2]}.load in Python."
        )
    ranker: type[Ranker] = find_class(target, Ranker, "model")
    return ranker.load(folder)
