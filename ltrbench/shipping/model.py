"""The model that is shipped. F features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError
from ltrbench.rankers.models.trees import Ensemble


@dataclass(frozen=True)
class Linear:
    """A linear model: the score is the sum of weights times features.

    Attributes:
        weights: (F,).
    """

    weights: NDArray[np.float64]


@dataclass(frozen=True)
class ShippedModel:
    """A trained model with the names by which an engine knows it.

    Attributes:
        name: name of the model in the engine.
        feature_names: F names, in the order of the features.
        scorer: trees or weights.
    """

    name: str
    feature_names: tuple[str, ...]
    scorer: Ensemble | Linear

    @property
    def num_features(self) -> int:
        return len(self.feature_names)

    def trees(self, target: str) -> Ensemble:
        """Returns the trees.

        Raises:
            ConfigError: The model is linear, which the target cannot hold.
        """
        if isinstance(self.scorer, Linear):
            raise ConfigError(
                f"{self.name} is a linear model, but {target} reads trees only. Choose --to elasticsearch, "
                "--to opensearch, --to solr or --to vespa, or a run of a tree model."
            )
        return self.scorer
