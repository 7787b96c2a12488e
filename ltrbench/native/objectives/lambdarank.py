"""lambdarank and ranknet: pairs of documents, whose lambdas `lambdas.py` and `pairs.py` compute."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ltrbench.data import Judgments, RankingDataset
from ltrbench.errors import ConfigError
from ltrbench.metrics import DEFAULT
from ltrbench.metrics.conventions import (
    Gain,
    TableGain,
    exponential_gain,
    linear_gain,
)
from ltrbench.native.objectives.base import Objective, ObjectiveData
from ltrbench.native.objectives.lambdas import prepare
from ltrbench.native.objectives.pairs import (
    MetricOptions,
    PairOptions,
    PairSettings,
    lay_out,
    parse_layout,
)
from ltrbench.settings import check, check_effects, part
from ltrbench.shapes import Gradients, Hessians, Labels, QueryStart, Values


@dataclass(kw_only=True)
class RankNet(PairOptions, Objective):
    """ranknet: all pairs have the same weight, so that the bottom of a list counts as much as the top.

    Without `normalize_distance`, `normalize_query`, drawn pairs and float32, and with a truncation beyond the
    longest query, the gradients are the derivative of a loss, with the weight w of a query:

        loss = sum of w log(1 + exp(-sigma (s_i - s_j)))     over i and j with label i > label j
    """

    has_pairs = True
    source = "Burges et al., 2005; XGBoost's rank:pairwise"

    @property
    def is_loss(self) -> bool:
        is_rounded = self.sigmoid != "exact" or self.float32_scores or self.float32_sums
        return not (
            self.normalize_distance or self.normalize_query or self.draws or is_rounded
        )

    @property
    def draws(self) -> bool:
        return self.pairs_per_document is not None

    def pairs(self, truncation: int | None) -> PairSettings:
        """Returns the settings for the engine. `truncation` is a parameter of the ranker, which all backends
        share; None: its default, or no truncation if pairs are drawn at random."""
        if truncation is None and self.pairs_per_document is None:
            truncation = PairSettings.truncation
        return part(
            self, PairSettings, metric=None, convention=DEFAULT, truncation=truncation
        )

    def check(self, labels: Labels, query_start: QueryStart) -> None:
        lay_out(Judgments(labels=labels, query_start=query_start), self.pairs(None))

    def gradients(
        self, scores: Values, data: ObjectiveData, seed: int
    ) -> tuple[Gradients, Hessians]:
        # For other rankers: native prepares the pairs once, not in each iteration.
        train = RankingDataset(
            features=np.zeros((len(scores), 1), dtype=np.float32),
            labels=data.labels,
            query_start=data.query_start,
            document_weights=data.weights,
        )
        return prepare(train, self.pairs(None))(
            scores, None, np.random.default_rng(seed)
        )

    def loss_of_query(
        self, scores: Values, labels: Labels, weights: Values, seed: int, query: int
    ) -> float:
        if not self.is_loss:
            return super().loss_of_query(scores, labels, weights, seed, query)
        higher, lower = np.nonzero(labels[:, None] > labels)
        differences = scores[lower] - scores[higher]
        losses = np.logaddexp(0.0, self.sigma * differences)
        return float(weights[higher] @ losses)


@dataclass(kw_only=True)
class LambdaRank(RankNet, MetricOptions):
    """lambdarank: the weight of a pair is the change of `metric` when its two documents are swapped."""

    is_loss = False
    source = "Burges, 2010; LightGBM's lambdarank, XGBoost's rank:ndcg and rank:map"

    def __post_init__(self) -> None:
        check(self)
        check_effects(self, {"metric": parse_layout(self.metric)[0]})
        if self.label_gain is not None and (
            self.gain != "exponential" or len(self.label_gain) < 2
        ):
            raise ConfigError(
                f"label_gain is {self.label_gain} with gain={self.gain}; give the gains of at least two "
                "labels, and set gain=exponential."
            )

    def pairs(self, truncation: int | None) -> PairSettings:
        gain: Gain = linear_gain if self.gain == "linear" else exponential_gain
        if self.label_gain is not None:
            gain = TableGain(tuple(self.label_gain))
        convention = replace(
            DEFAULT,
            gain=gain,
            relevance_threshold=float(self.relevance_threshold),
            highest_grade=float(self.highest_grade),
        )
        return replace(
            super().pairs(truncation), metric=self.metric, convention=convention
        )
