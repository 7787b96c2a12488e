"""The target that models are trained for: before a fit, it refuses what cannot be shipped to it.

The rules are those of the target itself: it exports a small model of the same kind, with the names of the
features, the missing values and the options. Whether the trained model ranks the same, and whether it has
negative scores where the engine allows none, is only known when it is shipped.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ltrbench.data import RankingDataset
from ltrbench.data.features import row_blocks
from ltrbench.errors import ConfigError
from ltrbench.models.trees import Ensemble, InnerNode, Leaf, WeightedTree
from ltrbench.rankers import Ranker
from ltrbench.rankers.linear import LinearRanker
from ltrbench.shipping.target import (
    MISSING_VALUES,
    Export,
    Linear,
    ShippedModel,
    Target,
    build_target,
    find_target,
    takes_text,
)

_SHOWN = 5  # maximum number of features in a message

# Missing values go right and left, and 0 to the other side unless it counts as missing: a trained model of
# data with missing values has both in general.
_RIGHT = InnerNode(0, 0.5, missing_left=False, left=Leaf(0.0), right=Leaf(1.0))
_LEFT = InnerNode(0, -0.5, missing_left=True, left=Leaf(0.0), right=Leaf(1.0))


def _example_of(ranker: Ranker, num_features: int, categorical: Sequence[int]) -> Any:
    """Returns weights or trees of the kind that a ranker trains."""
    if isinstance(ranker, LinearRanker):
        return Linear(np.ones(num_features))
    splits = [
        replace(split, zero_missing=ranker.zero_is_missing) for split in (_RIGHT, _LEFT)
    ]
    for feature in categorical:
        joins = ranker.missing_joins_categories
        splits.append(
            replace(_RIGHT, feature=feature, missing_left=joins, categories=1)
        )
    return Ensemble(tuple(WeightedTree(1.0, split) for split in splits))


@dataclass(frozen=True)
class Destination:
    """A target with its options, as in `target=elasticsearch`. Yardsticks are never refused."""

    target: Target
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, setting: str | Mapping[str, Any]) -> Destination:
        """Returns the destination of a setting: a name, or `name` and options.

        Raises:
            ConfigError: There is no such target or option, or a value is not allowed.
        """
        options = {} if isinstance(setting, str) else dict(setting)
        name = setting if isinstance(setting, str) else options.pop("name", None)
        if not isinstance(name, str):
            raise ConfigError(
                f"target is {setting!r}; write a name, as in target=elasticsearch, or a name with options, "
                "as in 'target={name: elasticsearch, absent: missing}'."
            )
        target_class = find_target(name, "target")
        typed = {
            option: str(value) if takes_text(target_class, option) else value
            for option, value in options.items()
        }
        return cls(build_target(name, typed, "target"), typed)

    @property
    def words(self) -> str:
        """The options of the verb `ship` for this target."""
        given = [f"{name}={value}" for name, value in self.options.items()]
        settings = [f" --set {shlex.quote(text)}" for text in given]
        return f"--to {self.target.name}{''.join(settings)}"

    def check_ranker(self, ranker: Ranker) -> None:
        """Raises ConfigError if the target cannot hold the models of a ranker."""
        if ranker.is_yardstick:
            return
        name = self.target.name
        kind = type(ranker).__name__
        if type(ranker).network is not Ranker.network:
            if not self.target.holds_networks:
                raise ConfigError(
                    f"target is {name}, which cannot hold the neural network of {kind}. Leave this model "
                    "out, or set target=onnx."
                )
            return
        has_trees = type(ranker).trees is not Ranker.trees
        if not isinstance(ranker, LinearRanker) and not has_trees:
            raise ConfigError(
                f"target is {name}, but {kind} has neither trees nor weights that can be shipped. Leave this "
                "model out, or set target=null."
            )
        self._export(ranker, ("1",), has_missing_values=False)

    def check_data(self, ranker: Ranker, train: RankingDataset) -> None:
        """Raises ConfigError if the target cannot hold a model of a ranker that is trained on these data."""
        self.check_ranker(ranker)
        if ranker.is_yardstick or type(ranker).network is not Ranker.network:
            return
        categorical: tuple[int, ...] = ()
        if train.categories and ranker.reads_categories:
            self._refuse_categories(ranker, train)
            categorical = train.categorical_features
        with_missing = _features_with_missing_values(train)
        export = self._export(
            ranker,
            train.feature_names,
            categorical,
            has_missing_values=bool(with_missing),
        )
        if not with_missing:
            return
        if MISSING_VALUES in export.limits:
            names = ", ".join(with_missing[:_SHOWN])
            more = len(with_missing) - _SHOWN
            others = ""
            if more > 0:
                others = f" and {more} more"
            raise ConfigError(
                f"target is {self.target.name}, but the training data have missing values ({names}{others}). "
                f"{export.limits[MISSING_VALUES]} Fill in the values, or leave these features out."
            )

    def caution(self, ranker: Ranker) -> str:
        """Returns why the target may refuse the trained model of a ranker that `check_ranker` accepts; empty
        if no reason is known."""
        if not isinstance(ranker, LinearRanker):
            return ""
        reason = self._export(ranker, ("1",), has_missing_values=False).negative_scores
        if not reason:
            return ""
        return f"The model may have negative scores, and is refused then: {reason}"

    def _refuse_categories(self, ranker: Ranker, train: RankingDataset) -> None:
        """Raises ConfigError if the target cannot hold the splits of a ranker on categorical features."""
        if self.target.holds_categories and ranker.splits_are_readable(train):
            return
        raise ConfigError(
            f"target is {self.target.name}, which cannot hold the splits of {type(ranker).__name__} on "
            f"{', '.join(train.categories)} by categories. Set data.encode=onehot, or add these columns to "
            "data.ignore."
        )

    def _export(
        self,
        ranker: Ranker,
        names: tuple[str, ...],
        categorical: Sequence[int] = (),
        *,
        has_missing_values: bool,
    ) -> Export:
        """Returns the export of a small model of the kind of a ranker."""
        scorer = _example_of(ranker, len(names), categorical)
        model = ShippedModel(
            "model", names, scorer, has_missing_values=has_missing_values
        )
        try:
            return self.target.export(model)
        except ConfigError as error:
            raise ConfigError(
                f"target is {self.target.name}, to which a model of {type(ranker).__name__} cannot be "
                f"shipped: {error}"
            ) from None


def _features_with_missing_values(train: RankingDataset) -> list[str]:
    """Returns the names of the features with a missing value."""
    has_missing = np.zeros(train.num_features, dtype=np.bool_)
    for _, block in row_blocks(train.features):
        has_missing |= np.isnan(block).any(axis=0)
    return [train.feature_names[index] for index in np.flatnonzero(has_missing)]
