"""CatBoost behind the Ranker contract.

CatBoost's LambdaMart has LightGBM's gradients and hessians: on one binary feature, which has only one
possible split, it grows the native engine's trees. The choice of splits differs: CatBoost uses no hessians
for it, and has no minimum per leaf; its min_data_in_leaf only prevents a smaller leaf from being split again.
YetiRank, CatBoost's default, and the other ranking losses are other losses; docs/concepts/objectives.md names
those that are left out.

Many settings are refused because of the signs of LambdaMart's derivatives (error_functions.cpp, and observed
with CatBoost 1.2.10). Both derivatives have the opposite sign of every other loss, which cancels only in a
Newton step -G / -H. With l2_leaf_reg the step is G / (H - l2), in the wrong direction in a leaf with H < l2;
with the gradient method every step is in the wrong direction; with a monotone constraint the splits that keep
it are rejected (NDCG@10 .87 instead of .99 on synthetic data). LambdaMart and StochasticRank also ignore
query weights. StochasticRank with metric=MRR and `top` ends the process with a segmentation fault.

Of the losses, QueryRMSE and QuerySoftMax keep monotone constraints; PairLogit and YetiRank violate them, by
up to 0.4 in a score [measured, with 1 to 4 constrained features, 1.2.10]. Trees must be symmetric.

CatBoost passes its running scores (float64) only to an `eval_metric` written in Python. It cannot remove
trees of Lossguide afterwards, but it can keep the trees up to the best value of that metric. `_Watcher` is
such a metric: it passes the scores to the Monitor and returns a value that makes CatBoost keep the Monitor's
best iteration. Apart from the evaluation time it has no measurable cost [190 ms per iteration, monitored or
not, with 30,000 x 136 training documents and 10,000 validation documents, 2 cores]. A fit without a monitor
has no such metric.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.features import AnyFeatures, as_array, row_blocks
from ltrbench.errors import ConfigError, require
from ltrbench.models.trees import (
    Ensemble,
    InnerNode,
    Leaf,
    Node,
    WeightedTree,
    threshold_at_most,
    tree_of,
)
from ltrbench.rankers.base import WEIGHTS, Finding, Monitor, Severity, check_fitted
from ltrbench.rankers.library import (
    SHARED_FIELDS,
    Boosted,
    ImportedOnUse,
    LibraryRanker,
    given,
    unset_fields,
    weights_of_documents,
    written_names,
)
from ltrbench.settings import NOT_0, setting
from ltrbench.shapes import Features, Scores

if TYPE_CHECKING:
    import catboost as cb
else:
    cb = ImportedOnUse(
        "catboost", "model=catboost needs CatBoost: pip install 'ltrbench[catboost]'"
    )

LAMBDAMART = "LambdaMart"
YETIRANK = "YetiRank"
STOCHASTIC = "StochasticRank"
SOFTMAX = "QuerySoftMax"
_NOT_PAIRWISE = (LAMBDAMART, YETIRANK, STOCHASTIC, "QueryRMSE", SOFTMAX, "PairLogit")
LOSSES = (*_NOT_PAIRWISE, "YetiRankPairwise", "PairLogitPairwise")
"""The last two choose splits by pairs; CatBoost grows only symmetric trees with them."""
MAX_DEPTH = 16
"""Maximum depth of a tree; CatBoost silently reduces a greater depth to this."""
MAX_BINS = 65536

_MODES = ("Classic", "DCG", "NDCG", "MRR", "ERR", "MAP")
_METRICS = ("NDCG", "DCG", "MRR", "ERR", "MAP")
_GAINS = ("DCG", "NDCG")
_POLICIES = ("SymmetricTree", "Depthwise", "Lossguide")

_OF_LAMBDAMART = {"loss": (LAMBDAMART,)}
_OF_STOCHASTIC = {"loss": (STOCHASTIC,)}
_OF_METRIC = {"loss": (LAMBDAMART, STOCHASTIC)}
_OF_YETIRANK = {"loss": (YETIRANK, "YetiRankPairwise")}
_OF_BOTH = {"loss": (*_OF_YETIRANK["loss"], STOCHASTIC)}
_OF_DCG = {"mode": _GAINS, "metric": _GAINS}
_OF_METHOD = {"loss": ("QueryRMSE", SOFTMAX, "PairLogit")}
_NOT_OF_PAIRS = {"loss": _NOT_PAIRWISE}
"""What the settings of a loss depend on."""
_WITHOUT_ORDER = {
    "loss_function": "QueryRMSE",
    "bootstrap_type": "No",
    "random_strength": 0.0,
}
"""Parameters with which CatBoost learns equal scores from labels that are equal within every query: PairLogit
and MVS sampling fail, and StochasticRank learns its noise."""
_DEFAULTS = {
    loss: {"mode": "Classic", "noise": "Gumbel"} for loss in _OF_YETIRANK["loss"]
}
_DEFAULTS |= {loss: {"metric": "NDCG"} for loss in _OF_METRIC["loss"]}
_DEFAULTS[SOFTMAX] = {"leaf_estimation_method": "Gradient"}
"""Loss -> CatBoost's defaults of the settings that others depend on."""


def _refuse_no_neighbors(name: str, value: int | None) -> None:
    require(name, None if value == -1 else value, at_least=1)


@dataclass(kw_only=True)
class CatBoostRanker(LibraryRanker):
    """CatBoost's ranking losses. LambdaMart and StochasticRank do not use query weights."""

    loss: str | None = setting(None, choices=LOSSES, names="loss_function objective")
    """LambdaMart, YetiRank or another ranking loss; None: LambdaMart if a shared parameter is set, else
    YetiRank. LambdaMart, the loss of the other backends: pairs weighted by their change of `metric`, with
    truncation; all others require truncation=null. YetiRank, CatBoost's default: pairs of neighbours in
    random orders near the model's order. StochasticRank: smoothed `metric`. QueryRMSE: squared error after
    the best shift of a query. QuerySoftMax: cross entropy with the softmax of a query. PairLogit: all pairs
    of different labels, with equal weights. YetiRankPairwise and PairLogitPairwise also choose splits by
    pairs: slower, symmetric trees only."""
    metric: str | None = setting(None, choices=_METRICS, only_with=_OF_METRIC)
    """LambdaMart, StochasticRank: NDCG, DCG, MRR, ERR or (LambdaMart only) MAP; None: NDCG. ERR takes labels
    as probabilities."""
    sigma: float = setting(1.0, above=0, only_with=_OF_METRIC)
    """LambdaMart: slope of the logistic function of a pair's score difference; StochasticRank: standard
    deviation of the noise."""
    norm: bool = setting(True, only_with=_OF_LAMBDAMART)
    """LambdaMart: the same as LightGBM's lambdarank_norm. It divides the weight of a pair by 0.01 + |score
    difference|, and scales the gradients of a query by log2(1 + S) / S, where S is the sum of the gradients
    of its pairs."""
    exponential_gain: bool = setting(
        True, only_with=_OF_LAMBDAMART | {"metric": _GAINS}
    )
    """LambdaMart: gain of a label: 2^label - 1; false: the label itself."""
    permutations: int | None = setting(
        None, at_least=1, only_with=_OF_YETIRANK | {"noise": ("Gumbel", "Gauss")}
    )
    """YetiRank: number of random orders drawn per query and iteration; None: 10."""
    decay: float | None = setting(
        None, at_least=0, at_most=1, only_with=_OF_YETIRANK | {"mode": ("Classic",)}
    )
    """YetiRank: factor of the weight of a pair per rank; None: 0.85."""
    mode: str | None = setting(None, choices=_MODES, only_with=_OF_YETIRANK)
    """YetiRank: weight of a pair: Classic, or change of DCG, NDCG, MRR, ERR or MAP; None: Classic. ERR takes
    labels as probabilities; in MRR and MAP, labels above 0 are relevant."""
    noise: str | None = setting(
        None, choices=("Gumbel", "Gauss", "No"), only_with=_OF_YETIRANK
    )
    """YetiRank: noise of the scores in a random order: Gumbel, Gauss or No; None: Gumbel. In CatBoost's
    code, Gumbel is logistic noise."""
    noise_power: float | None = setting(
        None, above=0, only_with=_OF_YETIRANK | {"noise": ("Gauss",)}
    )
    """YetiRank: standard deviation of the Gaussian noise; None: 1."""
    num_neighbors: int | None = setting(
        None, refuse=_refuse_no_neighbors, only_with=_OF_YETIRANK | {"mode": _MODES[1:]}
    )
    """YetiRank: number of documents below that a document is paired with; -1: all; None: 1."""
    top: int | None = setting(
        None,
        at_least=1,
        only_with=_OF_BOTH | {"mode": _MODES[1:], "metric": ("NDCG", "DCG", "ERR")},
    )
    """YetiRank, StochasticRank: cutoff of the metric; None: no cutoff. LambdaMart has truncation instead."""
    dcg_type: str | None = setting(
        None, choices=("Base", "Exp"), only_with={**_OF_BOTH, **_OF_DCG}
    )
    """YetiRank, StochasticRank: gain in DCG: Base, the label, or Exp, 2^label - 1; None: Base."""
    dcg_denominator: str | None = setting(
        None,
        choices=("LogPosition", "Position"),
        only_with={"loss": (*_OF_BOTH["loss"], LAMBDAMART), **_OF_DCG},
    )
    """Divisor of a gain in DCG: LogPosition, log2(1 + rank), or Position, the rank; None: LogPosition.
    CatBoost's documentation says that Position is the default, but its code takes LogPosition [observed,
    1.2.10]. CatBoost's name is `denominator` for LambdaMart and StochasticRank."""
    num_estimations: int | None = setting(None, at_least=1, only_with=_OF_STOCHASTIC)
    """StochasticRank: number of random orders per query and iteration; None: 1."""
    mu: float | None = setting(None, at_least=0, only_with=_OF_STOCHASTIC)
    """StochasticRank: reduces the score of a document by sigma mu label, so that ties are resolved against
    the model; None: 0."""
    nu: float | None = setting(
        None, above=0, only_with=_OF_STOCHASTIC | {"lambda_reg": NOT_0}
    )
    """StochasticRank: constant added to the norm of the scores in lambda_reg's projection; None: 0.01."""
    lambda_reg: float | None = setting(
        None,
        at_least=0,
        only_with={
            "loss": (STOCHASTIC, SOFTMAX),
            "leaf_estimation_method": ("Newton",),
        },
    )
    """StochasticRank: share of the gradient along the scores that is removed; QuerySoftMax: added to
    hessians; None: 1, or 0.01 for QuerySoftMax, where it applies to leaf_estimation_method=Newton. CatBoost's
    name is `lambda`; native's are `lambda_reg` of stochastic_rank and `softmax_lambda` of query_softmax."""
    beta: float | None = setting(None, above=0, only_with={"loss": (SOFTMAX,)})
    """QuerySoftMax: factor of the scores; None: 1."""
    max_pairs: int | None = setting(
        None, at_least=1, only_with={"loss": ("PairLogit", "PairLogitPairwise")}
    )
    """PairLogit: maximum number of pairs of a query, drawn at random; None: all."""
    leaf_estimation_method: str | None = setting(
        None,
        choices=("Newton", "Gradient"),
        only_with=_OF_METHOD,
        names="leaf_estimation_method",
    )
    """Values of leaves: Newton, -G / H, or Gradient, -G / number of documents (PairLogit: of pairs, once for
    each document of a pair [observed, 1.2.10]); None: Gradient for
    QuerySoftMax, else Newton. The other losses have one method: Gradient for StochasticRank and the pairwise
    losses, Newton for LambdaMart and YetiRank."""
    grow_policy: str | None = setting(
        None, choices=_POLICIES, only_with=_NOT_OF_PAIRS, names="grow_policy"
    )
    """SymmetricTree, Depthwise or Lossguide; None: Lossguide if num_leaves is set, else SymmetricTree. A
    symmetric tree has one split per level."""
    depth: int | None = setting(
        None, at_least=1, at_most=MAX_DEPTH, names="depth max_depth"
    )
    """Maximum depth of a tree; None: 16, CatBoost's limit, if num_leaves is set, else 6."""
    score_function: str | None = setting(
        None, choices=("L2", "Cosine"), only_with=_NOT_OF_PAIRS, names="score_function"
    )
    """Score of a split: L2 or Cosine; None: L2 if num_leaves is set, else Cosine. L2 is G_L^2 / n_L + G_R^2 /
    n_R with the numbers of documents n; Cosine is the cosine of gradients and leaf values."""
    random_strength: float | None = setting(None, at_least=0, names="random_strength")
    """Noise of the scores of splits; None: 0 if a shared parameter is set, else 1. It is normal, in units of
    the spread of the gradients, and decreases with the iterations."""
    bootstrap_type: str | None = setting(
        None, choices=("No", "Bernoulli", "MVS", "Bayesian"), names="bootstrap_type"
    )
    """Sampling of documents: No, Bernoulli, MVS or Bayesian; None: No (with subsample: Bernoulli) if a shared
    parameter is set, else MVS (Bernoulli with pairwise losses)."""
    subsample: float | None = setting(
        None,
        above=0,
        at_most=1,
        only_with={"bootstrap_type": ("Bernoulli", "MVS")},
        names="subsample",
    )
    """Share of the documents sampled per tree, for Bernoulli and MVS; None: all, but 0.8 for MVS."""
    rsm: float = setting(1.0, above=0, at_most=1, names="rsm colsample_bylevel")
    """Share of the features sampled per split."""

    library = "CatBoost"
    packages = ("catboost",)
    is_slow: ClassVar[bool] = True
    reads_sparse = True
    model_file = "model.cbm"
    metric_names = "eval_metric custom_metric metric_period"
    refused_names: ClassVar[Mapping[str, str]] = {
        "logging_level verbose silent": (
            "CatBoost's output is off, because ltrbench reports the progress; remove it"
        ),
        "allow_writing_files train_dir name save_snapshot snapshot_file snapshot_interval": (
            "CatBoost writes no files during a fit; remove it"
        ),
        "task_type devices device_config": (
            "CatBoost's GPU training accepts at most 1023 documents per query and is not tested here; "
            "remove it"
        ),
        "boosting_type": "ordered boosting shuffles the queries and their scores; remove it",
        "denominator": "set the field dcg_denominator instead",
        "lambda": "set the field lambda_reg instead",
        "allow_const_label": "equal labels are always allowed; remove it",
    }

    @classmethod
    def library_error(cls) -> type[Exception]:
        error: type[Exception] = cb.CatBoostError
        return error

    def __post_init__(self) -> None:
        super().__post_init__()
        require("max_bins", self.max_bins, at_most=MAX_BINS)
        if self._loss == LAMBDAMART and self.l2:
            raise ConfigError(
                f"l2 is {self.l2}, but CatBoost's LambdaMart subtracts l2 from the sum of hessians instead "
                "of adding it, so small leaves step in the wrong direction. Set l2=0, or loss=YetiRank "
                "with truncation=null."
            )
        if self._loss == STOCHASTIC and self.metric == "MAP":
            raise ConfigError(
                "metric is MAP, which StochasticRank lacks; set metric=NDCG, or loss=LambdaMart."
            )
        if self.extra:
            self._refuse_unknown(_parameter_names())

    def _refuse_without_effect(self) -> None:
        of_monotone = dict(self._in_library())["monotone"].only_with or {}
        losses = of_monotone["loss"]
        # The remedy has four settings, of which the general check would name one at a time.
        if self.monotone and self._loss not in losses:
            raise ConfigError(
                f"monotone is {self.monotone}, but CatBoost's {self._loss} violates monotone constraints or "
                f"rejects correct splits. Set loss={' or '.join(losses)}, grow_policy=SymmetricTree, "
                "num_leaves=null and truncation=null (as model.NAME, with model=catboost alone), or leave "
                "out CatBoost."
            )
        super()._refuse_without_effect()

    def _chosen(self) -> dict[str, Any]:
        policy = "Lossguide" if self._loss in _NOT_PAIRWISE else "SymmetricTree"
        implied = (
            {"grow_policy": policy}
            if self.num_leaves and self.grow_policy is None
            else {}
        )
        chosen = {**_DEFAULTS.get(self._loss, {}), **super()._chosen(), **implied}
        return {
            **chosen,
            "loss": self._loss,
        }

    @property
    def _matched(self) -> bool:
        """Whether any shared parameter is set: then nothing is sampled unless a setting requests it."""
        return unset_fields(self) != SHARED_FIELDS

    @property
    def _loss(self) -> str:
        if self.loss:
            return self.loss
        return LAMBDAMART if self._matched else YETIRANK

    @property
    def _uses_weights(self) -> bool:
        return self._loss not in (LAMBDAMART, STOCHASTIC)

    def _boosted(
        self, train: RankingDataset, valid: RankingDataset | None, monitor: Monitor
    ) -> Boosted:
        mean_weight = 1.0
        if self._uses_weights:
            mean_weight = float(train.weight_of_document.mean())
        parameters = {**self._parameters(mean_weight), **self._monotone_signs(train)}
        same_query = np.diff(train.query_of_document) == 0
        has_order = bool(np.diff(train.labels)[same_query].any())
        if not has_order:
            parameters |= _WITHOUT_ORDER
            parameters.pop("subsample", None)
        pool = self._train_pool(train)
        if monitor.wants_scores:
            valid_pool = None
            if valid is not None:
                valid_pool = self._valid_pool(valid)
            # With categories CatBoost fits on shuffled queries, by statistics of the documents before each
            # one; the model scores with those of all documents, as it does in an evaluation set.
            shuffles = bool(train.categories) and monitor.wants_train_scores
            model, num_iterations = self._boost_watched(
                parameters, pool, pool if shuffles else None, valid_pool, monitor
            )
        else:
            with self._refusing_extra():
                model = cb.CatBoost(
                    {**parameters, "metric_period": self.num_trees}
                ).fit(pool)
            num_iterations = self.num_trees
        # Via the file's bytes, which hold only the model and not the watcher with its scores.
        return (
            cb.CatBoost().load_model(blob=_exported(model, "cbm")),
            model.tree_count_,
            num_iterations,
        )

    def _boost_watched(
        self,
        parameters: dict[str, Any],
        pool: cb.Pool,
        train_pool: cb.Pool | None,
        valid_pool: cb.Pool | None,
        monitor: Monitor,
    ) -> tuple[cb.CatBoost, int]:
        """Boosts until early stopping or `num_trees` ends the fit; returns the model and the number of
        iterations run.

        Args:
            train_pool: the training data as an evaluation set, whose scores replace those of the fit.
        """
        watcher = _Watcher(
            monitor,
            has_train=train_pool is not None,
            has_valid=valid_pool is not None,
        )
        # The last evaluation set decides the best iteration.
        others = [each for each in (train_pool, valid_pool) if each is not None]
        with self._refusing_extra():
            model = cb.CatBoost({**parameters, "eval_metric": watcher})
            model.fit(
                pool,
                eval_set=others or None,
                use_best_model=valid_pool is not None and monitor.rule is not None,
                callbacks=[watcher],
            )
        if watcher.failure is not None:
            raise watcher.failure
        return model, watcher.iteration

    def _train_pool(self, train: RankingDataset) -> cb.Pool:
        first = train.features[0]
        rows = itertools.chain.from_iterable(
            block for _, block in row_blocks(train.features)
        )
        if all(np.array_equal(row, first, equal_nan=True) for row in rows):
            # CatBoost refuses data in which no feature varies; with missing values it learns the score 0.
            unknown = np.full(train.features.shape, np.nan, dtype=np.float32)
            return self._pool(train.with_fields(features=unknown, categories={}))
        return self._pool(train)

    def _valid_pool(self, valid: RankingDataset) -> cb.Pool:
        if not np.ptp(valid.labels):
            # PairLogit refuses equal labels, although only the scores of a validation set are used.
            labels = (np.arange(valid.num_documents) % 2).astype(np.float64)
            valid = valid.with_fields(labels=labels)
        return self._pool(valid)

    def _pool(self, data: RankingDataset) -> cb.Pool:
        features = self._whole_form(data.features)
        categorical = data.categorical_features
        if features is None or features is data.features:
            features = _with_categories(as_array(data.features), categorical)
        weights = weights_of_documents(data) if self._uses_weights else None
        return cb.Pool(
            features,
            cat_features=list(categorical),
            label=data.labels,
            group_id=data.query_of_document,
            group_weight=weights,
            thread_count=self._threads,
        )

    def _num_features(self, model: cb.CatBoost) -> int:
        return len(model.feature_names_)

    def _whole_form(self, features: AnyFeatures) -> Any | None:
        whole = super()._whole_form(features)
        # CatBoost refuses read-only sparse arrays.
        if whole is not None and whole is not features:
            return whole.copy()
        return whole

    def _scores(self, model: cb.CatBoost, features: Any) -> NDArray[np.float64]:
        features = _with_categories(features, model.get_cat_feature_indices())
        return np.asarray(model.predict(features, thread_count=self._threads))

    def _shap_values(
        self, model: cb.CatBoost, features: Features
    ) -> NDArray[np.float64] | None:
        """Returns contributions for symmetric trees only: in other trees CatBoost's contributions do not sum
        to the scores [measured: errors up to 0.25 after three trees in 1.2.10, with both losses; catboost
        issue 2136]; and a model with a decreasing constraint asks for groups [observed, 1.2.10]."""
        if -1 in (self.monotone or {}).values():
            return None
        if "trees" in json.loads(_exported(model, "json")):
            return None
        categorical = model.get_cat_feature_indices()
        pool = cb.Pool(
            _with_categories(features, categorical), cat_features=categorical
        )
        values = model.get_feature_importance(
            pool, type="ShapValues", thread_count=self._threads
        )
        return np.asarray(values, dtype=np.float64)

    def _to_bytes(self, model: cb.CatBoost) -> bytes:
        names = written_names(self.feature_names)
        return _exported(model if names is None else _named(model, names), "cbm")

    def _from_bytes(self, content: bytes) -> cb.CatBoost:
        model = cb.CatBoost().load_model(blob=content)
        # CatBoost would compare names with those of its input.
        return _named(model, [""] * self._num_features(model))

    def importance(self) -> dict[str, NDArray[np.float64]]:
        """Returns the number of splits per feature; a level of a symmetric tree counts once, and a split on a
        combination of categorical features counts for each of them. CatBoost models do not contain gains."""
        model: cb.CatBoost = check_fitted(self._model)
        content = json.loads(_exported(model, "json"))
        features_of = _features_of_conditions(content["features_info"])
        num_splits = np.zeros(len(model.feature_names_))
        for split in _splits(content):
            for feature in features_of[split["split_index"]]:
                num_splits[feature] += 1
        return {"split": num_splits}

    def splits_are_readable(self, train: RankingDataset) -> bool:
        # It splits categories by statistics.
        return not train.categories

    def trees(self) -> Ensemble:
        model: cb.CatBoost = check_fitted(self._model)
        content = json.loads(_exported(model, "json"))
        if any(split["split_type"] != "FloatFeature" for split in _splits(content)):
            raise ConfigError(
                "CatBoost splits categorical features by statistics of their categories, which cannot be "
                "shown as thresholds. Fit without data.categorical, or use model=native or model=lightgbm."
            )
        scale, (bias,) = content["scale_and_bias"]
        features = content["features_info"]["float_features"]
        rate = float(model.learning_rate_)
        oblivious = content.get("oblivious_trees", ())
        roots = list(content.get("trees", []))
        roots += [
            _nested(tree["splits"] or [], tree["leaf_values"]) for tree in oblivious
        ]
        trees = []
        for root in roots:
            tree_of_root = _tree(root, features)
            trees.append(WeightedTree(scale, tree_of_root, shrinkage=rate))
        return Ensemble(tuple(trees), float(bias))

    def _departure_from_defaults(self) -> str:
        reason = "because CatBoost's LambdaMart subtracts l2 from the sum of hessians"
        if self._loss == LAMBDAMART:
            return f", but l2 is 0, {reason}"
        return ""

    def _inapplicable(self) -> Collection[str]:
        inapplicable = [*super()._inapplicable()]
        if self._loss == LAMBDAMART:
            inapplicable.append("l2")
        return inapplicable

    def _departures(self) -> dict[str, bool]:
        sampled = (
            self.rsm < 1 or bool(self.random_strength) or self.subsample is not None
        )
        sampled = sampled or self.bootstrap_type not in (None, "No")
        is_other_loss = self._loss != LAMBDAMART
        return {
            "min_docs_in_leaf and min_sum_hessian are not applied: CatBoost has no minimum per leaf.": True,
            "Splits are chosen by gradients and document counts, not by gradients and hessians.": True,
            f"The depth of a tree is at most {MAX_DEPTH}, CatBoost's limit.": self.num_leaves
            is not None,
            "Bin edges differ from other backends: CatBoost bins features by its own algorithm.": True,
            "Missing values are treated as lower than every other value of the feature.": True,
            f"The loss is {self._loss}, not LambdaMART; truncation is not applied.": is_other_loss,
            "Samples differ from other backends: CatBoost randomises documents, features or split scores by "
            "its own algorithm.": sampled,
        }

    def check_debiasing(self, name: str) -> None:
        if name == WEIGHTS and not self._uses_weights:
            raise ConfigError(self._ignores_weights)

    @property
    def _ignores_weights(self) -> str:
        return (
            f"CatBoost's {self._loss} ignores weights. Set loss=YetiRank with truncation=null, or use "
            "another model."
        )

    def _findings_in(self, train: RankingDataset) -> Iterator[Finding]:
        yield from self._varying_weights(train)
        weights = train.query_weights
        ignored = None if self._uses_weights else weights
        if ignored is not None and (ignored != ignored[0]).any():
            yield Finding(
                Severity.REFUSED,
                f"query_weights are between {ignored.min()} and {ignored.max()}, but "
                f"{self._ignores_weights}",
            )
        if "ERR" in (self.mode, self.metric):
            remedy = "ERR takes probabilities from 0 to 1. Scale the labels, or set NDCG instead."
            yield from self._refused_labels(train.labels, train.labels > 1, remedy)

    def library_parameters(self) -> dict[str, Any]:
        """Returns the parameters, with the loss split into its name and its options, such as
        LambdaMart:top."""
        options = {
            f"{self._loss}:{name}": value
            for name, value in self._loss_options().items()
        }
        return {
            **self._parameters(mean_weight=1.0),
            "loss_function": self._loss,
            **options,
        }

    def _parameters(self, mean_weight: float) -> dict[str, Any]:
        """Returns the parameters in CatBoost's units, including those implied by the shared fields."""
        leafwise = self.num_leaves is not None
        of_loss = self._loss_options().items()
        options = ";".join(f"{name}={value}" for name, value in of_loss)
        implied: dict[str, Any] = {
            "grow_policy": self.grow_policy,
            "depth": self.depth,
            "score_function": self.score_function,
            "loss": f"{self._loss}:{options}" if options else self._loss,
        }
        if leafwise:
            implied["grow_policy"] = self.grow_policy or "Lossguide"
            implied["depth"] = self.depth or MAX_DEPTH
            implied["score_function"] = self.score_function or "L2"
        if self._loss == LAMBDAMART:
            implied["l2"] = 0.0
        if self._matched and self.bootstrap_type is None:
            implied["bootstrap_type"] = "No" if self.subsample is None else "Bernoulli"
        if self._matched and self.random_strength is None:
            implied["random_strength"] = 0.0
        return {
            **self._under_library_names(mean_weight, **implied),
            "allow_const_label": True,
            "allow_writing_files": False,
            "logging_level": "Silent",
            **self.extra,
        }

    def _loss_options(self) -> dict[str, Any]:
        """Returns what follows the name of the loss, as in LambdaMart:metric=NDCG;top=30."""
        if self._loss == LAMBDAMART:
            gain = "Exp" if self.exponential_gain else "Base"
            options = {
                "metric": self.metric or "NDCG",
                "type": gain,
                "sigma": self.sigma,
            }
            options |= {"norm": str(self.norm).lower(), "top": self.truncation}
            return given({**options, "denominator": self.dcg_denominator})
        is_stochastic = self._loss == STOCHASTIC
        names = {"lambda_reg": "lambda"}
        if is_stochastic:
            names |= {"dcg_type": "type", "dcg_denominator": "denominator"}
        options = {}
        for item in fields(self):
            losses = item.metadata.get("only_with", {}).get("loss", ())
            if self._loss in losses and not item.metadata["in"]:
                options[names.get(item.name, item.name)] = getattr(self, item.name)
        if is_stochastic:
            options["metric"] = self.metric or "NDCG"
        return given(options)


class _Watcher:
    """CatBoost's `eval_metric` and callback: passes the scores to the monitor, and ends the fit when the
    monitor requests it.

    CatBoost calls `evaluate` with the scores of the fit, then with those of each evaluation set, then
    `after_iteration`.

    Args:
        has_train: whether the first evaluation set is the training set.
        has_valid: whether the last evaluation set is the validation set.
    """

    no_jit = True  # otherwise CatBoost lets numba compile `evaluate`, and warns that it cannot

    def __init__(self, monitor: Monitor, has_train: bool, has_valid: bool) -> None:
        self.iteration = 0
        self.failure: BaseException | None = None
        self._monitor = monitor
        self._has_valid = has_valid
        self._index_of_train = int(has_train)
        self._num_sets = 1 + has_train + has_valid
        self._scores: list[Scores | None] = []
        self._stop = False

    def __deepcopy__(self, memo: dict[int, Any]) -> _Watcher:
        # CatBoost copies its parameters; the results are read from this object.
        return self

    def evaluate(
        self, approxes: Sequence[Scores], target: Any, weight: Any
    ) -> tuple[float, float]:
        """Records (D,) scores; returns the sum and weight of a metric that is highest at the best
        iteration."""
        is_valid = self._has_valid and len(self._scores) == self._num_sets - 1
        is_train = len(self._scores) == self._index_of_train
        needed = is_valid or (is_train and self._monitor.wants_train_scores)
        # A copy, because CatBoost writes the next iteration's scores into the same memory.
        self._scores.append(approxes[0].copy() if needed else None)
        if len(self._scores) < self._num_sets:
            return 0.0, 1.0
        train_scores = self._scores[self._index_of_train]
        valid_scores = None
        if self._has_valid:
            valid_scores = self._scores[-1]
        self._scores = []
        self.iteration += 1
        try:
            self._stop = self._monitor.should_stop(
                self.iteration, train_scores, valid_scores
            )
        except BaseException as failure:
            # Raised after the fit: CatBoost would convert it to its own error, with the traceback as text.
            self.failure = failure
            self._stop = True
        # Without a best iteration the values rise, so the last iteration is kept. Otherwise only an iteration
        # that is the best so far has a value above 0.
        is_best = self._monitor.best_iteration in (0, self.iteration)
        return float(self.iteration if is_best else 0), 1.0

    def after_iteration(self, info: Any) -> bool:
        return not self._stop

    def is_max_optimal(self) -> bool:
        return True

    def get_final_error(self, error: float, weight: float) -> float:
        return error


def _exported(model: cb.CatBoost, file_format: str) -> bytes:
    """Returns the model in one of CatBoost's formats; CatBoost can only write them to files."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        model.save_model(str(path), format=file_format)
        return path.read_bytes()


def _named(model: cb.CatBoost, names: Sequence[str]) -> cb.CatBoost:
    copied = model.copy()
    copied.set_feature_names(names)
    return copied


def _with_categories(features: Features, categorical: Collection[int]) -> Any:
    """Returns the features, as a DataFrame with whole numbers if some of them are categorical; -1 stands for
    a missing category, because CatBoost accepts no NaN there."""
    if not categorical:
        return features
    # Imported here, because pandas takes half a second, too long for --help.
    import pandas as pd

    columns = dict(enumerate(features.T))
    for feature in categorical:
        codes = np.nan_to_num(features[:, feature], nan=-1)
        columns[feature] = codes.astype(np.int32)
    return pd.DataFrame(columns)


def _splits(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the splits of a model's JSON."""
    for tree in content.get("oblivious_trees", ()):
        yield from tree["splits"] or ()
    nodes = list(content.get("trees", ()))
    while nodes:
        node = nodes.pop()
        if "split" in node:
            yield node["split"]
            nodes += [node["left"], node["right"]]


def _features_of_conditions(info: dict[str, Any]) -> list[list[int]]:
    """Returns the features of each condition of a split, in the order of `split_index`: borders of numbers,
    single categories, then borders of statistics of one or several categories."""
    floats = info["float_features"]
    categorical = info.get("categorical_features", ())
    column = [each["flat_feature_index"] for each in categorical]
    conditions: list[list[int]] = []
    for each in floats:
        feature = each["flat_feature_index"]
        conditions += [[feature] for _ in each["borders"] or ()]
    for each in categorical:
        feature = each["flat_feature_index"]
        conditions += [[feature] for _ in each.get("values", ())]
    for each in info.get("ctrs", ()):
        elements = [
            column[part["cat_feature_index"]]
            for part in each["elements"]
            if "cat_feature_index" in part
        ]
        conditions += [elements for _ in each["borders"]]
    return conditions


def _nested(splits: list[dict[str, Any]], values: list[float]) -> dict[str, Any]:
    """Returns a symmetric tree, in which leaf values include shrinkage, in the form of other trees. The index
    of a leaf is the sum of 2^i over the splits i where a document goes right."""
    if not splits:
        return {"value": values[0]}
    *others, last = splits
    half = len(values) // 2
    return {
        "split": last,
        "left": _nested(others, values[:half]),
        "right": _nested(others, values[half:]),
    }


def _tree(root: dict[str, Any], features: list[dict[str, Any]]) -> Node:
    """Returns a tree of nested splits."""

    def read(node: dict[str, Any]) -> Node:
        if "split" not in node:
            return Leaf(node["value"])
        feature = features[node["split"]["float_feature_index"]]
        border = node["split"]["border"]
        # A value above the border goes right; a missing value is not above it.
        missing_left = feature["nan_value_treatment"] != "AsTrue"
        return InnerNode(
            feature["flat_feature_index"],
            threshold_at_most(border),
            missing_left,
            left=node["left"],
            right=node["right"],
        )

    return tree_of(root, read)


@functools.cache
def _parameter_names() -> frozenset[str]:
    """Returns all parameters of this version of CatBoost for a ranker."""
    return frozenset(inspect.signature(cb.CatBoostRanker.__init__).parameters) - {
        "self"
    }
