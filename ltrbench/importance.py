"""What a fitted model's features are worth to it, in kinds that can be set side by side across backends.

split         how often a feature is split on, over all trees
gain          its total gain as a share of all features' gain, because the libraries' gains differ in their
              unit (XGBoost's is half of LightGBM's at equal parameters)
permutation   how much a metric on test falls when the feature's values are shuffled among the documents
              (Breiman, 2001, "Random Forests", section 10): the mean of the repeats, and their standard
              deviation as permutation_sd

The first two come from the model alone, and only where it has them. The last asks nothing of a model but
scores, and is the one to compare backends by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset, sample_queries
from ltrbench.errors import ConfigError
from ltrbench.metrics import evaluate, parse_metric
from ltrbench.rankers.base import Ranker, require
from ltrbench.shapes import Scores

PERMUTATION, PERMUTATION_SD = "permutation", "permutation_sd"


@dataclass
class PermutationImportance:
    """How permutation importance is taken.

    Attributes:
        metric: what falls.
        repeats: shuffles a feature; their mean is the importance.
        max_queries: a sample of so many queries is enough, where there are more.

    Raises:
        ConfigError: on an unknown metric, or a number that is not positive.
    """

    metric: str = "ndcg@10"
    repeats: int = 3
    max_queries: int = 2000

    def __post_init__(self) -> None:
        parse_metric(self.metric)
        require("permutation_importance.repeats", self.repeats, at_least=1)
        require("permutation_importance.max_queries", self.max_queries, at_least=1)


@dataclass(frozen=True, eq=False)
class Importances:
    """The importances of F features.

    Attributes:
        feature_names: (F,) text.
        values: kind -> (F,) values.

    Raises:
        ConfigError: where a kind has another number of values than there are features.
    """

    feature_names: tuple[str, ...]
    values: Mapping[str, NDArray[np.float64]]

    def __post_init__(self) -> None:
        for kind, values in self.values.items():
            if len(values) != len(self.feature_names):
                raise ConfigError(
                    f"importance '{kind}' has {len(values)} values for {len(self.feature_names)} features; "
                    "a ranker's importance() gives one each."
                )


def importances(
    ranker: Ranker, test: RankingDataset, permutation: PermutationImportance | None, seed: int
) -> Importances:
    """All kinds of importance of a fitted ranker.

    Args:
        permutation: None: permutation importance is left out.
        seed: of the sample of queries and of the shuffles.
    """
    values = dict(ranker.importance())
    if values.get("gain") is not None and values["gain"].sum() > 0:
        values["gain"] = values["gain"] / values["gain"].sum()
    if permutation is not None:
        # A feature that no tree looks at can be shuffled without effect: it needs no prediction.
        used = values["split"] > 0 if "split" in values else np.ones(test.num_features, dtype=np.bool_)
        falls = permutation_falls(ranker, test, permutation, seed, used)
        values |= {PERMUTATION: falls.mean(axis=0), PERMUTATION_SD: falls.std(axis=0)}
    return Importances(test.feature_names, values)


def permutation_falls(
    ranker: Ranker,
    test: RankingDataset,
    settings: PermutationImportance,
    seed: int,
    used: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """(repeats, F), metric(test) - metric(test with the feature shuffled); NaN where no query counts.

    Args:
        used: (F,), the features to shuffle; the others fall by 0.
    """
    sample = sample_queries(test, min(1.0, settings.max_queries / test.num_queries), seed)
    scores = ranker.predict(sample.features)
    whole = _metric(sample, scores, settings.metric)
    falls = np.zeros((settings.repeats, test.num_features))
    if np.isnan(whole):
        return np.full_like(falls, np.nan)
    shuffled = sample.features.copy()
    for feature in np.flatnonzero(used):
        # A generator a feature, so that its figure does not depend on which others are used.
        rng = np.random.default_rng([seed, int(feature)])
        for repeat in range(settings.repeats):
            shuffled[:, feature] = rng.permutation(sample.features[:, feature])
            # Most of the time goes into predictions: a document that got its own value again needs none.
            changed = shuffled[:, feature] != sample.features[:, feature]
            shuffled_scores = scores.copy()
            if changed.any():
                shuffled_scores[changed] = ranker.predict(shuffled[changed])
            falls[repeat, feature] = whole - _metric(sample, shuffled_scores, settings.metric)
        shuffled[:, feature] = sample.features[:, feature]
    return falls


def _metric(judged: RankingDataset, scores: Scores, name: str) -> float:
    return evaluate(judged, scores, [name]).means[name]
