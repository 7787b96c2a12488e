"""Optional methods of a ranker, in addition to `fit`, `predict`, `save` and `load`: one protocol per method.

A ranker has a capability if its class defines the method; it need not register or derive from the protocol.
Python compares names only, so no field of a ranker may have the name of a method below.
A caller checks with `isinstance(ranker, SupportsTrees)`. Effect of a missing method:

    warm_up              compilation and imports count in the fit time
    clean_copy           a clean fit uses the ranker's settings unchanged
    seed_matters         every seed of a sweep is trained
    importance           a run records neither split counts nor gain
    contributions        a run records no SHAP values
    scores_with          permutation importances predict copies of the rows of shuffled documents, in blocks
    trees                the command `trees` refuses the model
    findings             no refusals, no cautions, and no list of unmatched parameters
    library_model        MLflow keeps the model as ltrbench saved it
    library_metrics      a run does not compare the library's metrics with ltrbench's
    library_parameters   the documentation does not show the translation of the shared parameters
    fit_distributed      a run with workers (distributed=dask) is refused
    warm_up_member       the compilation for several workers counts in the time of their fit

Shapes: D documents, F features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.features import SparseRows, rows_of_block
from ltrbench.distributed.shards import PlacedShards, RunsFunctions
from ltrbench.errors import ConfigError, DataError
from ltrbench.rankers.early_stopping import FitCurve
from ltrbench.rankers.models.trees import Ensemble, uniform
from ltrbench.shapes import Features

if TYPE_CHECKING:
    from ltrbench.rankers.base import Ranker


@runtime_checkable
class SupportsWarmUp(Protocol):
    def warm_up(self) -> None:
        """Compiles and imports everything that `fit` and `predict` need, before the clock starts."""


@runtime_checkable
class SupportsMemberWarmUp(Protocol):
    def warm_up_member(self) -> None:
        """Compiles what a fit on several workers needs in addition to `warm_up`."""


@runtime_checkable
class SupportsCleanCopy(Protocol):
    def clean_copy(self) -> Self:
        """Returns an unfitted copy that trains the kept model without an evaluator, for timing.

        `BoostingRanker` implements it: the copy has the kept number of trees and no early stopping.
        """


@runtime_checkable
class SupportsSeedMatters(Protocol):
    def seed_matters(self, num_documents: int) -> bool:
        """Returns whether another seed may give other scores; True if that is not known.

        A subclass whose `fit` draws more random numbers than the `fit` of its base class must override this
        method.

        Args:
            num_documents: number of training documents; a backend may bin a large training set on a sample.
        """


@runtime_checkable
class SupportsImportance(Protocol):
    def importance(self) -> dict[str, NDArray[np.float64]]:
        """Returns kind -> (F,) values, in the library's units.

        Kinds are "split", the number of splits on a feature, and "gain", its total gain. Kinds that the model
        does not have are omitted.

        Raises:
            ConfigError: the ranker is not fitted.
        """


@runtime_checkable
class SupportsContributions(Protocol):
    def contributions(self, features: Features) -> NDArray[np.float64] | None:
        """Returns (D, F + 1) TreeSHAP values of (D, F) features; None if the model has none.

        Values are in units of the score. The last column is the expected score; each row sums to the score of
        `predict`.

        Raises:
            DataError: `features` is not an array of numbers, or F differs from the training set.
            ConfigError: the ranker is not fitted, or a tree is too deep for the backend to explain.
        """


@runtime_checkable
class SupportsScoresWith(Protocol):
    def scores_with(
        self, features: Features, columns: NDArray[np.int64], values: NDArray[np.float32]
    ) -> NDArray[np.floating[Any]]:
        """Returns (C, n, D) scores: scores[c, i] are those of `predict` if feature columns[c] had the values
        values[c, i]. One call for many features and values can share what they have in common.

        Args:
            features: (D, F), an array.
            columns: (C,), different features.
            values: (C, n, D).
        """


@runtime_checkable
class SupportsTrees(Protocol):
    def trees(self) -> Ensemble:
        """Returns the fitted trees in the arithmetic of the library; their weighted leaf values sum to the
        scores of `predict`.

        Raises:
            ConfigError: the ranker is not fitted, or a node of its trees does not split on a single feature.
        """


@runtime_checkable
class SupportsLibraryModel(Protocol):
    def library_model(self) -> tuple[str, object]:
        """Returns the package and its model object, for tools that support the package.

        Raises:
            ConfigError: the ranker is not fitted.
        """


@runtime_checkable
class SupportsLibraryMetrics(Protocol):
    library_convention: ClassVar[str]
    """Preset of the metric convention that the library uses in `library_metrics`."""

    def library_metrics(
        self, dataset: RankingDataset, scores: NDArray[np.floating[Any]], names: tuple[str, ...]
    ) -> dict[str, float]:
        """Returns the metrics `names` of (D,) scores, computed by the backend's library.

        A run compares them with ltrbench's values under `library_convention`. Metrics that the library cannot
        compute are omitted.
        """


@runtime_checkable
class SupportsLibraryParameters(Protocol):
    def library_parameters(self) -> dict[str, Any]:
        """Returns the settings under the names and in the units of the library or engine.

        Values that depend on the training data are given for data without weights.
        """


class FitsTogether(RunsFunctions, Protocol):
    """The workers of a distributed fit, as far as rankers use them.

    The lists of arguments and of results are by rank, in the order of `addresses`.
    """

    @property
    def client(self) -> Any:
        """The `distributed.Client` of the cluster."""

    @property
    def members(self) -> Sequence[Any]:
        """The workers by rank, each with its `num_threads`."""

    def run_team(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Calls function(team, *arguments) on all workers at the same time, inside a collective.

        Raises:
            LtrbenchError: A member failed or ended.
        """


@runtime_checkable
class SupportsDistributedFit(Protocol):
    is_repeatable_on_workers: ClassVar[bool]
    """Whether two distributed fits of the same data give the same bits, on any number of workers."""

    def check_distributed(self) -> None:
        """Checks the settings before any data is read.

        Raises:
            ConfigError: A setting is not available in a distributed fit.
        """

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


class Severity(Enum):
    """Effect of a finding on a run."""

    REFUSED = "refused"
    """`fit` raises DataError with the sentence."""
    CAUTION = "caution"
    """`fit` accepts the data but does not handle them as a user expects."""
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


@runtime_checkable
class SupportsFindings(Protocol):
    def findings(self, train: RankingDataset | None) -> Iterator[Finding]:
        """Yields the findings about this ranker, fitted or not.

        Args:
            train: training set; None: only the findings that hold for any data.
        """


def refuse(ranker: Ranker, train: RankingDataset) -> None:
    """Raises DataError with the first refusal of a training set; to be called at the start of `fit`."""
    for sentence in _sentences(ranker, train, Severity.REFUSED):
        raise DataError(sentence)


def concerns_of(ranker: Ranker, train: RankingDataset) -> tuple[str, ...]:
    """Returns the refusals and cautions about a training set: refusals first, then cautions."""
    refused = (f"Refused: {sentence}" for sentence in _sentences(ranker, train, Severity.REFUSED))
    return (*refused, *_sentences(ranker, train, Severity.CAUTION))


def departures_of(ranker: Ranker) -> tuple[str, ...]:
    """Returns the differences between the ranker and the shared parameters, one string per difference."""
    return tuple(_sentences(ranker, None, Severity.UNMATCHED))


def _sentences(ranker: Ranker, train: RankingDataset | None, severity: Severity) -> Iterator[str]:
    findings = ranker.findings(train) if isinstance(ranker, SupportsFindings) else ()
    return (finding.sentence for finding in findings if finding.severity is severity)


def check_distributed(ranker: Ranker) -> SupportsDistributedFit:
    """Returns a ranker that can be fitted on workers.

    Raises:
        ConfigError: It has no distributed fit, or not with its settings.
    """
    if not isinstance(ranker, SupportsDistributedFit):
        raise ConfigError(
            f"distributed is set, but {type(ranker).__name__} has no distributed fit. Choose "
            f"{_WITH_DISTRIBUTED_FIT}, or fit in one process with distributed=none."
        )
    ranker.check_distributed()
    return ranker


_WITH_DISTRIBUTED_FIT = "model=native, model=lightgbm or model=xgboost"
"""The models in conf/model with `fit_distributed`."""


def importance_of(ranker: Ranker) -> dict[str, NDArray[np.float64]]:
    """Returns kind -> (F,) importances; empty if the ranker has none."""
    return ranker.importance() if isinstance(ranker, SupportsImportance) else {}


def contributions_of(ranker: Ranker, features: Features) -> NDArray[np.float64] | None:
    """Returns (D, F + 1) TreeSHAP values of (D, F) features; None if the ranker has none."""
    return ranker.contributions(features) if isinstance(ranker, SupportsContributions) else None


def scores_with(
    ranker: Ranker,
    features: Features,
    scores: NDArray[np.floating[Any]],
    columns: NDArray[np.int64],
    values: NDArray[np.float32],
) -> NDArray[np.floating[Any]]:
    """Returns the (C, n, D) scores with other values of one feature at a time; see SupportsScoresWith.

    A ranker without this method predicts copies of the documents in which the value differs, a block of them
    at a time; a ranker that reads sparse features predicts copies of the stored values.

    Args:
        scores: (D,), scores of the documents as they are.
    """
    if isinstance(ranker, SupportsScoresWith) and not isinstance(features, SparseRows):
        return ranker.scores_with(features, columns, values)
    new_scores = np.empty(values.shape, dtype=scores.dtype)
    for c, column in enumerate(columns.tolist()):
        before = features[:, column]
        for i, new in enumerate(values[c]):
            rows = np.flatnonzero(new != before)
            new_scores[c, i] = scores
            new_scores[c, i, rows] = _scores_of_copies(ranker, features, rows, column, new[rows])
    return new_scores


def _scores_of_copies(
    ranker: Ranker, features: Features, rows: NDArray[np.int64], column: int, values: NDArray[np.float32]
) -> NDArray[np.floating[Any]]:
    """Returns the (n,) scores of the documents `rows` with other values of one feature."""
    if isinstance(features, SparseRows) and (ranker.reads_blocks or ranker.reads_sparse):
        copies: Any = features.with_column(rows, column, values)
        return ranker.predict(copies)
    scores = np.empty(len(rows), dtype=ranker.score_dtype)
    size = rows_of_block(features.shape[1])
    for first in range(0, len(rows), size):
        part = slice(first, first + size)
        block = features[rows[part]]
        block[:, column] = values[part]
        scores[part] = ranker.predict(block)
    return scores


def clean_copy_of(ranker: Ranker) -> Ranker:
    """Returns an unfitted copy that trains the kept model without an evaluator."""
    return ranker.clean_copy() if isinstance(ranker, SupportsCleanCopy) else replace(ranker)


def library_model_of(ranker: Ranker) -> tuple[str, object] | None:
    """Returns the package and its model object; None if the model is ltrbench's own."""
    return ranker.library_model() if isinstance(ranker, SupportsLibraryModel) else None


def library_parameters_of(ranker: Ranker) -> dict[str, Any]:
    """Returns the settings under the library's names; empty if the ranker does not provide them."""
    return ranker.library_parameters() if isinstance(ranker, SupportsLibraryParameters) else {}


def trees_of(ranker: Ranker) -> Ensemble:
    """Returns the fitted trees in one form for all backends, see `uniform`.

    Raises:
        ConfigError: the ranker has no trees.
    """
    return uniform(exact_trees_of(ranker))


def exact_trees_of(ranker: Ranker) -> Ensemble:
    """Returns the fitted trees in the arithmetic of their library.

    Raises:
        ConfigError: the ranker has no trees.
    """
    if not isinstance(ranker, SupportsTrees):
        raise ConfigError(
            f"{type(ranker).__name__} has no trees; choose a run of a tree model, such as model=native."
        )
    return ranker.trees()
