"""What a ranker may offer beside `fit`, `predict`, `save` and `load`: one protocol with one method each.

A ranker has a capability if its class defines the method; it neither registers nor derives from the protocol.
Python compares names only, so that no field of a ranker may have the name of a method below.
A caller asks with `isinstance(ranker, SupportsTrees)`. Without the method:

    warm_up              nothing is compiled or imported before the clock starts
    clean_copy           a clean fit has the ranker's settings as they are
    seed_matters         every seed of a sweep is trained
    importance           a run records no splits and no gain
    contributions        a run records no SHAP values
    trees                the verb `trees` refuses the model
    findings             nothing is refused, warned of, or said not to match the shared parameters
    library_model        MLflow keeps the model as ltrbench saved it
    library_metrics      a run does not compare the library's metrics with ours
    library_parameters   the documentation does not show how the shared parameters are translated

Shapes: D documents, F features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, DataError
from ltrbench.rankers.models.trees import Ensemble
from ltrbench.shapes import Features

if TYPE_CHECKING:
    from ltrbench.rankers.base import Ranker


@runtime_checkable
class SupportsWarmUp(Protocol):
    def warm_up(self) -> None:
        """Compiles and imports what `fit` and `predict` need, so that neither happens on the clock."""


@runtime_checkable
class SupportsCleanCopy(Protocol):
    def clean_copy(self) -> Self:
        """Returns an unfitted copy that learns the kept model without any evaluator, for a speed test.

        `BoostingRanker` has it: the copy has the kept number of trees and no early stopping.
        """


@runtime_checkable
class SupportsSeedMatters(Protocol):
    def seed_matters(self, num_documents: int) -> bool:
        """Returns whether a fit with another seed may give other scores; True where that is not known.

        A class whose `fit` draws random numbers that the `fit` of its base class does not draw has to
        override this too.

        Args:
            num_documents: of the training set; a backend may choose the bins of a large one from a sample.
        """


@runtime_checkable
class SupportsImportance(Protocol):
    def importance(self) -> dict[str, NDArray[np.float64]]:
        """Returns kind -> (F,) values, in the library's units.

        Kinds are "split", the number of splits on a feature, and "gain", its total gain. A kind that the
        model does not have is left out.

        Raises:
            ConfigError: where the ranker is not fitted.
        """


@runtime_checkable
class SupportsContributions(Protocol):
    def contributions(self, features: Features) -> NDArray[np.float64] | None:
        """Returns (D, F + 1) TreeSHAP values of (D, F) features; None where this model has none.

        A value is in units of the score. The last column is the expected score, and a row adds up to the
        score of `predict`.

        Raises:
            DataError: where features are no array of numbers, or F is not what the model was fitted on.
            ConfigError: where the ranker is not fitted, or a tree is too deep for the backend to explain it.
        """


@runtime_checkable
class SupportsTrees(Protocol):
    def trees(self) -> Ensemble:
        """Returns the fitted trees; their weighted leaf values add up to the scores of `predict`.

        Raises:
            ConfigError: where the ranker is not fitted, or its trees do not ask for one feature at a node.
        """


@runtime_checkable
class SupportsLibraryModel(Protocol):
    def library_model(self) -> tuple[str, object]:
        """Returns the package and its own model object, for tools that know the package.

        Raises:
            ConfigError: where the ranker is not fitted.
        """


@runtime_checkable
class SupportsLibraryMetrics(Protocol):
    library_convention: ClassVar[str]
    """The preset of the convention that `library_metrics` are computed under."""

    def library_metrics(
        self, dataset: RankingDataset, scores: NDArray[np.floating[Any]], names: tuple[str, ...]
    ) -> dict[str, float]:
        """Returns the metrics `names` of (D,) scores as the backend's library itself computes them.

        A run compares them with ours under `library_convention`. What the library cannot compute is left out.
        """


@runtime_checkable
class SupportsLibraryParameters(Protocol):
    def library_parameters(self) -> dict[str, Any]:
        """Returns the settings under the names, and in the units, of the library or engine.

        What depends on the training data is as for data without weights.
        """


class Severity(Enum):
    """What a finding means for a run."""

    REFUSED = "refused"
    """`fit` raises DataError with the sentence."""
    CAUTION = "caution"
    """`fit` takes the data, but does not handle them as a user expects."""
    UNMATCHED = "unmatched"
    """The ranker departs from the shared parameters; results record the sentence and tables print it."""


@dataclass(frozen=True)
class Finding:
    """What a user should know of a ranker, or of a ranker on these data.

    Attributes:
        sentence: names the value and the remedy; begins as it is printed and ends with a full stop.
    """

    severity: Severity
    sentence: str


@runtime_checkable
class SupportsFindings(Protocol):
    def findings(self, train: RankingDataset | None) -> Iterator[Finding]:
        """Yields the findings on a ranker with these settings, which need not be fitted.

        Args:
            train: the training set; None: only what holds for any data.
        """


def refuse(ranker: Ranker, train: RankingDataset) -> None:
    """Raises DataError with the first refusal of a training set, for `fit` to begin with."""
    for sentence in _sentences(ranker, train, Severity.REFUSED):
        raise DataError(sentence)


def concerns_of(ranker: Ranker, train: RankingDataset) -> tuple[str, ...]:
    """Returns what the ranker would refuse or mishandle in a training set: refusals first, then cautions."""
    refused = (f"Refused: {sentence}" for sentence in _sentences(ranker, train, Severity.REFUSED))
    return (*refused, *_sentences(ranker, train, Severity.CAUTION))


def departures_of(ranker: Ranker) -> tuple[str, ...]:
    """Returns where the ranker departs from the shared parameters, a sentence each."""
    return tuple(_sentences(ranker, None, Severity.UNMATCHED))


def _sentences(ranker: Ranker, train: RankingDataset | None, severity: Severity) -> Iterator[str]:
    findings = ranker.findings(train) if isinstance(ranker, SupportsFindings) else ()
    return (finding.sentence for finding in findings if finding.severity is severity)


def importance_of(ranker: Ranker) -> dict[str, NDArray[np.float64]]:
    """Returns kind -> (F,) importances; empty where the ranker has none."""
    return ranker.importance() if isinstance(ranker, SupportsImportance) else {}


def contributions_of(ranker: Ranker, features: Features) -> NDArray[np.float64] | None:
    """Returns (D, F + 1) TreeSHAP values of (D, F) features; None where the ranker has none."""
    return ranker.contributions(features) if isinstance(ranker, SupportsContributions) else None


def clean_copy_of(ranker: Ranker) -> Ranker:
    """Returns an unfitted copy that learns the kept model without any evaluator."""
    return ranker.clean_copy() if isinstance(ranker, SupportsCleanCopy) else replace(ranker)


def library_model_of(ranker: Ranker) -> tuple[str, object] | None:
    """Returns the package and its model object; None where the model is ltrbench's own."""
    return ranker.library_model() if isinstance(ranker, SupportsLibraryModel) else None


def library_parameters_of(ranker: Ranker) -> dict[str, Any]:
    """Returns the settings under the library's names; empty where the ranker does not say."""
    return ranker.library_parameters() if isinstance(ranker, SupportsLibraryParameters) else {}


def trees_of(ranker: Ranker) -> Ensemble:
    """Returns the fitted trees.

    Raises:
        ConfigError: where the ranker has none.
    """
    if not isinstance(ranker, SupportsTrees):
        raise ConfigError(f"a {type(ranker).__name__} is not made of trees; name a model that is, as native.")
    return ranker.trees()
