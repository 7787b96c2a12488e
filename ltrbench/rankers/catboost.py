"""CatBoost behind the Ranker contract.

CatBoost's LambdaMart has LightGBM's gradients and hessians: on one binary feature, which can only be split in
one way, it grows the native engine's trees. What differs is how a split is chosen: CatBoost knows no hessian
there, and no bound on what a leaf holds; its min_data_in_leaf only keeps a smaller leaf from being split
again. YetiRank, its default, is a loss of its own.

Why so much is refused here (error_functions.cpp, and seen by running CatBoost 1.2.10): LambdaMart's two
derivatives have the opposite signs of every other loss's, which cancels in a Newton step -G / -H and nowhere
else. With l2_leaf_reg the step is G / (H - l2), backwards in a leaf of H < l2, and with the gradient method
every step is. LambdaMart leaves the weights of queries out as well.

CatBoost hands its running scores (float64) to one place only, an `eval_metric` written in Python, and cannot
cut the trees of Lossguide afterwards, but keeps those up to the best value of that metric. So `_Watcher` is
that metric: it feeds the scores to the Monitor and answers what makes CatBoost keep the Monitor's best
iteration. Beside the evaluator's time it costs nothing that could be measured [190 ms an iteration,
watched or not, with 30,000 x 136 to train and 10,000 to validate, 2 cores]. A fit that nobody watches has no
such metric.
"""

from __future__ import annotations

import functools
import inspect
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, require, require_choice
from ltrbench.rankers.base import check_fitted
from ltrbench.rankers.capabilities import Finding, Severity
from ltrbench.rankers.early_stopping import Monitor
from ltrbench.rankers.library import (
    SHARED_FIELDS,
    LibraryRanker,
    first_change_of_weight,
    given,
    metrics_are_off,
    refuse_unknown,
    refused_labels,
    set_instead,
    unset_fields,
    weights_of_documents,
)
from ltrbench.rankers.models.trees import Ensemble, InnerNode, Leaf, Node, WeightedTree, threshold_at_most
from ltrbench.shapes import Features, Scores

try:
    import catboost as cb
    from catboost.utils import eval_metric
except ImportError as error:
    raise ImportError("model=catboost needs CatBoost: pip install 'ltrbench[catboost]'") from error

LAMBDAMART, YETIRANK = "LambdaMart", "YetiRank"
HIGHEST_EXPONENT = 1023
"""The highest label whose exponential gain, 2^l - 1, a double holds."""
MAX_DEPTH = 16
"""Splits above a leaf at the most: CatBoost silently takes more for this."""
MAX_BINS = 65536
LARGE_QUERY_SIZE = 10_000
"""Documents of a query from which on YetiRank's weights of its pairs, float32, take 400 MB."""

_NAMES = {
    "learning_rate": "learning_rate eta",
    "num_leaves": "max_leaves num_leaves",
    "grow_policy": "grow_policy",
    "depth": "depth max_depth",
    "score_function": "score_function",
    "l2": "l2_leaf_reg reg_lambda",
    "max_bins": "border_count max_bin",
    "bootstrap_type": "bootstrap_type",
    "subsample": "subsample",
    "random_strength": "random_strength",
    "num_trees": "iterations n_estimators num_boost_round num_trees",
    "loss": "loss_function objective",
    "rsm": "rsm colsample_bylevel",
    "seed": "random_seed random_state",
    "num_threads": "thread_count",
}

_REFUSED_NAMES = (
    set_instead(
        {
            "early_stopping": "early_stopping_rounds od_type od_wait od_pval use_best_model "
            "best_model_min_trees eval_fraction",
        }
    )
    | metrics_are_off("CatBoost", "eval_metric custom_metric metric_period")
    | dict.fromkeys(
        ("logging_level", "verbose", "silent"), "CatBoost is silent, because ltrbench reports; leave it out"
    )
    | dict.fromkeys(
        ("allow_writing_files", "train_dir", "name", "save_snapshot", "snapshot_file", "snapshot_interval"),
        "a fit writes no files of its own; leave it out",
    )
    | dict.fromkeys(
        ("task_type", "devices", "device_config"),
        "CatBoost's GPU code takes 1023 documents a query, and is not held to the contract; leave it out",
    )
    | {
        "boosting_type": "ordered boosting shuffles the queries, and their scores with them; leave it out",
        "allow_const_label": "labels that are all alike are taken; leave it out",
        "leaf_estimation_method": "LambdaMart learns backwards with any but Newton, and YetiRank has no "
        "other; leave it out",
    }
)


@dataclass(kw_only=True)
class CatBoostRanker(LibraryRanker):
    """CatBoost's LambdaMart or YetiRank on the queries of a data set. Only YetiRank takes query weights."""

    loss: str | None = None
    """LambdaMart: pairs weighted by their change of NDCG; YetiRank: pairs of neighbours in random orders near
    the model's. None: LambdaMart where a shared parameter is set, YetiRank, CatBoost's default, where none
    is."""
    sigma: float = 1.0
    """LambdaMart: slope of the logistic function of a pair's score difference."""
    norm: bool = True
    """LambdaMart: divides a pair's weight by 0.01 + |score difference|; scales a query's gradients by
    log2(1 + S) / S, where S is the sum of its pairs' gradients."""
    exponential_gain: bool = True
    """LambdaMart: gain of a label: 2^label - 1; false: the label itself."""
    permutations: int | None = None
    """YetiRank: random orders drawn of a query in an iteration."""
    decay: float | None = None
    """YetiRank: a pair's weight falls by this factor with each rank."""
    grow_policy: str | None = None
    """SymmetricTree (one split a level), Depthwise or Lossguide; None: Lossguide where num_leaves is set,
    CatBoost's default otherwise."""
    depth: int | None = None
    """Splits above a leaf at the most; None: 16, CatBoost's limit, where num_leaves is set, else its
    default."""
    score_function: str | None = None
    """What a split is chosen by: L2, G_L^2 / n_L + G_R^2 / n_R with the documents' numbers n; Cosine, the
    cosine of gradients and leaf values. None: L2 where num_leaves is set, CatBoost's default otherwise."""
    random_strength: float | None = None
    """Normal noise on a split's score, in units of the gradients' spread, falling with the iterations; None:
    0 where a shared parameter is set, CatBoost's default where none is."""
    bootstrap_type: str | None = None
    """How documents are sampled: No, Bernoulli, MVS, Bayesian. None: No, or Bernoulli with subsample, where a
    shared parameter is set; CatBoost's default where none is."""
    subsample: float | None = None
    """Share of the documents that a tree is grown on, for Bernoulli and MVS."""
    rsm: float = 1.0
    """Share of the features that a split may use."""

    library = "CatBoost"
    library_error = cb.CatBoostError
    library_convention = "catboost"
    packages = ("catboost",)
    model_file = "model.cbm"
    names = _NAMES
    refused_names = _REFUSED_NAMES
    shares = ("subsample", "rsm")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("loss", self.loss, (LAMBDAMART, YETIRANK))
        require_choice("grow_policy", self.grow_policy, ("SymmetricTree", "Depthwise", "Lossguide"))
        require_choice("score_function", self.score_function, ("L2", "Cosine"))
        require_choice("bootstrap_type", self.bootstrap_type, ("No", "Bernoulli", "MVS", "Bayesian"))
        require("sigma", self.sigma, above=0)
        require("permutations", self.permutations, at_least=1)
        require("decay", self.decay, at_least=0, at_most=1)
        require("depth", self.depth, at_least=1, at_most=MAX_DEPTH)
        require("max_bins", self.max_bins, at_most=MAX_BINS)
        require("random_strength", self.random_strength, at_least=0)
        self._refuse_what_cannot_be()
        self._refuse_fields_of_the_other_loss()
        refuse_unknown("CatBoost", self.extra, _parameter_names())

    def _refuse_what_cannot_be(self) -> None:
        if self.min_docs_in_leaf is not None:
            raise ConfigError(
                f"min_docs_in_leaf is {self.min_docs_in_leaf}, but CatBoost cannot bound the documents in a "
                "leaf; set it to null, and extra.min_data_in_leaf to leave small leaves unsplit."
            )
        for name in ("min_sum_hessian", "min_split_gain", "max_delta_step"):
            if getattr(self, name):
                raise ConfigError(
                    f"{name} is {getattr(self, name)}, but CatBoost has no such bound; set it to null or 0."
                )
        if self.num_leaves is not None and self.grow_policy not in (None, "Lossguide"):
            raise ConfigError(
                f"num_leaves is {self.num_leaves}, for trees grown best-first, but grow_policy is "
                f"{self.grow_policy}; set one of them to null."
            )
        if self.subsample is not None and self.bootstrap_type in ("No", "Bayesian"):
            raise ConfigError(
                f"subsample is {self.subsample}, which bootstrap_type={self.bootstrap_type} does not have; "
                "set bootstrap_type=Bernoulli, or subsample=null."
            )

    def _refuse_fields_of_the_other_loss(self) -> None:
        if self._loss == LAMBDAMART and self.l2:
            raise ConfigError(
                f"l2 is {self.l2}, but CatBoost's LambdaMart takes it from the sum of hessians instead of "
                "adding it, so that small leaves step backwards; set l2=0, or loss=YetiRank "
                "with truncation=null."
            )
        neutral: dict[str, Any] = {"permutations": None, "decay": None}
        if self._loss == YETIRANK:
            neutral = {"truncation": None, "sigma": 1.0, "norm": True, "exponential_gain": True}
        self._refuse_fields_without_effect(neutral, f"loss={self._loss}", "the other loss")

    @property
    def _matched(self) -> bool:
        """Whether any shared parameter is set: then nothing is sampled that is not asked for."""
        return unset_fields(self) != SHARED_FIELDS

    @property
    def _loss(self) -> str:
        return self.loss or (LAMBDAMART if self._matched else YETIRANK)

    def _boosted(
        self, train: RankingDataset, valid: RankingDataset | None, monitor: Monitor
    ) -> tuple[cb.CatBoost, int, int]:
        parameters = self._parameters(float(train.weight_of_document.mean()))
        pool = self._train_pool(train)
        if monitor.wants_scores:
            valid_pool = None if valid is None else self._pool(valid)
            model, num_iterations = self._boost_watched(parameters, pool, valid_pool, monitor)
        else:
            with self._refusing_extra():
                model = cb.CatBoost({**parameters, "metric_period": self.num_trees}).fit(pool)
            num_iterations = self.num_trees
        # Through the file's bytes: they hold the model alone, without the watcher and what it has seen.
        return cb.CatBoost().load_model(blob=_exported(model, "cbm")), model.tree_count_, num_iterations

    def _boost_watched(
        self, parameters: dict[str, Any], pool: cb.Pool, valid_pool: cb.Pool | None, monitor: Monitor
    ) -> tuple[cb.CatBoost, int]:
        """Boosts until the monitor, or the number of trees, says stop; returns the iterations run as well."""
        watcher = _Watcher(monitor, has_valid=valid_pool is not None)
        with self._refusing_extra():
            model = cb.CatBoost({**parameters, "eval_metric": watcher}).fit(
                pool,
                eval_set=valid_pool,
                use_best_model=valid_pool is not None and monitor.rule is not None,
                callbacks=[watcher],
            )
        if watcher.failure is not None:
            raise watcher.failure
        return model, watcher.iteration

    def _train_pool(self, train: RankingDataset) -> cb.Pool:
        first = train.features[0]
        if all(np.array_equal(row, first, equal_nan=True) for row in train.features):
            # CatBoost refuses data in which no feature varies; of missing values it learns to score 0.
            return self._pool(train, np.full_like(train.features, np.nan))
        return self._pool(train)

    def _pool(self, data: RankingDataset, features: Features | None = None) -> cb.Pool:
        return cb.Pool(
            data.features if features is None else features,
            label=data.labels,
            group_id=data.query_of_document,
            group_weight=weights_of_documents(data) if self._loss == YETIRANK else None,
            thread_count=self._threads,
        )

    def _num_features(self, model: cb.CatBoost) -> int:
        return len(model.feature_names_)

    def _scores(self, model: cb.CatBoost, features: Features) -> NDArray[np.float64]:
        return np.asarray(model.predict(features, thread_count=self._threads))

    def _shap_values(self, model: cb.CatBoost, features: Features) -> NDArray[np.float64] | None:
        """Of symmetric trees only: CatBoost's contributions in others do not add up to scores [run; 1.2.10
        was off by up to 0.25 after three trees, whatever the loss; catboost issue 2136]."""
        if "trees" in json.loads(_exported(model, "json")):
            return None
        pool = cb.Pool(features)
        values = model.get_feature_importance(pool, type="ShapValues", thread_count=self._threads)
        return np.asarray(values, dtype=np.float64)

    def _to_bytes(self, model: cb.CatBoost) -> bytes:
        return _exported(model, "cbm")

    def _from_bytes(self, content: bytes) -> tuple[cb.CatBoost, bool]:
        _check_frame(content)
        return cb.CatBoost().load_model(blob=content), False

    def importance(self) -> dict[str, NDArray[np.float64]]:
        """How often a feature is split on, a level of a symmetric tree counted once. CatBoost keeps no
        gains."""
        model: cb.CatBoost = check_fitted(self._model)
        content = json.loads(_exported(model, "json"))
        column = [each["flat_feature_index"] for each in content["features_info"]["float_features"]]
        features = [column[feature] for feature in _split_features(content)]
        return {"split": np.bincount(features, minlength=len(model.feature_names_)).astype(np.float64)}

    def trees(self) -> Ensemble:
        model: cb.CatBoost = check_fitted(self._model)
        content = json.loads(_exported(model, "json"))
        scale, (bias,) = content["scale_and_bias"]
        features, rate = content["features_info"]["float_features"], float(model.learning_rate_)
        roots = [
            *(
                _symmetric(tree["splits"] or [], tree["leaf_values"], features, rate)
                for tree in content.get("oblivious_trees", ())
            ),
            *(_subtree(tree, features, rate) for tree in content.get("trees", ())),
        ]
        return Ensemble(tuple(WeightedTree(scale * rate, root) for root in roots), float(bias))

    def _departure_from_defaults(self) -> str:
        return "; but l2 is 0, which its LambdaMart would subtract" if self._loss == LAMBDAMART else ""

    def _inapplicable(self) -> tuple[str, ...]:
        return "min_docs_in_leaf", "min_sum_hessian", "l2" if self._loss == LAMBDAMART else "truncation"

    def _departures(self) -> dict[str, bool]:
        sampled = self.rsm < 1 or bool(self.random_strength) or self.subsample is not None
        sampled = sampled or self.bootstrap_type not in (None, "No")
        return {
            "CatBoost cannot bound what a leaf holds: min_docs_in_leaf and min_sum_hessian are not "
            "applied.": True,
            "Splits are chosen by gradients and numbers of documents, where the others have hessians.": True,
            f"No leaf lies deeper than {MAX_DEPTH} splits.": self.num_leaves is not None,
            "Bin edges are CatBoost's own.": True,
            "A missing value counts as lower than any other.": True,
            "YetiRank is another loss than LambdaMART's, and has no truncation.": self._loss == YETIRANK,
            "Documents, features or scores of splits are randomised in CatBoost's own way.": sampled,
        }

    def _refusals_in(self, train: RankingDataset) -> Iterator[Finding]:
        yield from _varying_weights(train)
        if self._loss == LAMBDAMART:
            yield from _differing_weights(train)
            if self.exponential_gain:
                yield from refused_labels(
                    train.labels,
                    train.labels > HIGHEST_EXPONENT,
                    f"the gain 2^label - 1 goes up to the label {HIGHEST_EXPONENT}. Map the labels to "
                    "grades, or set exponential_gain=false.",
                )

    def _cautions_in(self, train: RankingDataset) -> Iterator[Finding]:
        largest = int(train.query_sizes.argmax())
        size = int(train.query_sizes[largest])
        if self._loss == YETIRANK and size > LARGE_QUERY_SIZE:
            yield Finding(
                Severity.CAUTION,
                f"query {train.query_ids[largest]} has {size} documents, whose pairs take YetiRank "
                f"{size * size * 4 / 1e9:.1f} GB on each thread; leave some out, or set loss=LambdaMart.",
            )

    def library_metrics(
        self, dataset: RankingDataset, scores: NDArray[np.floating[Any]], names: tuple[str, ...]
    ) -> dict[str, float]:
        """Returns what `catboost.utils.eval_metric` computes of `names`."""
        if dataset.document_weights is not None:
            return {}
        figures: dict[str, float] = {}
        for name in names:
            metric, _, cutoff = name.partition("@")
            if metric in _METRICS:
                (figures[name],) = eval_metric(
                    dataset.labels,
                    scores.astype(np.float64),
                    f"{_METRICS[metric]}:top={cutoff}" if cutoff else _METRICS[metric],
                    group_id=dataset.query_of_document,
                    group_weight=weights_of_documents(dataset),
                    thread_count=self._threads,
                )
        return figures

    def library_parameters(self) -> dict[str, Any]:
        """The loss taken apart into its name and its options, such as LambdaMart:top."""
        options = {f"{self._loss}:{name}": value for name, value in self._loss_options().items()}
        return {**self._parameters(mean_weight=1.0), "loss_function": self._loss, **options}

    def _parameters(self, mean_weight: float) -> dict[str, Any]:
        """The fields in CatBoost's units, with what the shared ones imply."""
        leafwise = self.num_leaves is not None
        noise = 0.0 if self._matched else None
        sampling = "No" if self.subsample is None else "Bernoulli"
        converted = {
            "grow_policy": self.grow_policy or ("Lossguide" if leafwise else None),
            "depth": self.depth or (MAX_DEPTH if leafwise else None),
            "score_function": self.score_function or ("L2" if leafwise else None),
            # CatBoost adds l2_leaf_reg times the documents' mean weight to a leaf's sum of hessians.
            "l2": 0.0 if self._loss == LAMBDAMART else _over(self.l2, mean_weight),
            "max_bins": None if self.max_bins is None else self.max_bins - 1,
            "bootstrap_type": self.bootstrap_type or (sampling if self._matched else None),
            "random_strength": noise if self.random_strength is None else self.random_strength,
            "loss": self._loss_function(),
        }
        return {
            **self._under_library_names(converted),
            "allow_const_label": True,
            "allow_writing_files": False,
            "logging_level": "Silent",
            **self.extra,
        }

    def _loss_options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"permutations": self.permutations, "decay": self.decay}
        if self._loss == LAMBDAMART:
            gain = "Exp" if self.exponential_gain else "Base"
            options = {"metric": "NDCG", "type": gain, "sigma": self.sigma, "norm": str(self.norm).lower()}
            options["top"] = self.truncation
        return given(options)

    def _loss_function(self) -> str:
        """CatBoost's name of the loss with its parameters, such as LambdaMart:metric=NDCG;top=30."""
        settings = ";".join(f"{name}={value}" for name, value in self._loss_options().items())
        return f"{self._loss}:{settings}" if settings else self._loss


class _Watcher:
    """CatBoost's `eval_metric` and its callback: feeds the monitor, and ends the fit when told to.

    CatBoost calls `evaluate` with the scores of train, then with those of valid, then `after_iteration`.
    """

    no_jit = True  # or CatBoost has numba compile `evaluate`, and warns that it cannot

    def __init__(self, monitor: Monitor, has_valid: bool) -> None:
        self.iteration = 0
        self.failure: BaseException | None = None
        self._monitor = monitor
        self._num_sets = 2 if has_valid else 1
        self._scores: list[Scores | None] = []
        self._stop = False

    def __deepcopy__(self, memo: dict[int, Any]) -> _Watcher:
        # CatBoost copies its parameters: the copy has to be the one that is asked afterwards.
        return self

    def evaluate(self, approxes: Sequence[Scores], target: Any, weight: Any) -> tuple[float, float]:
        """Takes note of (D,) scores; sum and weight of a metric that is highest at the best iteration."""
        needed = bool(self._scores) or self._monitor.wants_train_scores
        # A copy, because CatBoost writes the next iteration's scores into the same memory.
        self._scores.append(approxes[0].copy() if needed else None)
        if len(self._scores) < self._num_sets:
            return 0.0, 1.0
        train_scores, valid_scores = self._scores[0], self._scores[1] if self._num_sets == 2 else None
        self._scores = []
        self.iteration += 1
        try:
            self._stop = self._monitor.should_stop(self.iteration, train_scores, valid_scores)
        except BaseException as failure:
            # Raised after the fit: CatBoost would make its own error of it, with the traceback as text.
            self.failure, self._stop = failure, True
        # Without a best iteration the last one is kept, and with one the first of equals never comes again.
        return float(self.iteration * (self._monitor.best_iteration in (0, self.iteration))), 1.0

    def after_iteration(self, info: Any) -> bool:
        return not self._stop

    def is_max_optimal(self) -> bool:
        return True

    def get_final_error(self, error: float, weight: float) -> float:
        return error


_METRICS = {
    "ndcg": "NDCG",
    "dcg": "DCG",
    "map": "MAP",
    "mrr": "MRR",
    "precision": "PrecisionAt",
    "recall": "RecallAt",
}
"""Our name -> CatBoost's, of the metrics that it defines for any labels."""


def _over(value: float | None, divisor: float) -> float | None:
    return None if value is None else value / divisor


def _exported(model: cb.CatBoost, file_format: str) -> bytes:
    """The model in one of CatBoost's formats, which it writes to files only."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        model.save_model(str(path), format=file_format)
        return path.read_bytes()


def _check_frame(model: bytes) -> None:
    """Raises ValueError where a model does not have the size that it declares: CatBoost would read beyond it.

    What stands inside CatBoost follows without looking, so that a model is only as safe as who wrote it.
    """
    if model[:4] != b"CBM1" or int.from_bytes(model[4:8], "little") != len(model) - 8:
        raise ValueError("it does not have the size that it declares")


def _split_features(content: dict[str, Any]) -> Iterator[int]:
    """The feature of each split in a model's JSON."""
    for tree in content.get("oblivious_trees", ()):
        for split in tree["splits"] or ():
            yield split["float_feature_index"]
    nodes = list(content.get("trees", ()))
    while nodes:
        node = nodes.pop()
        if "split" in node:
            yield node["split"]["float_feature_index"]
            nodes += [node["left"], node["right"]]


def _symmetric(
    splits: list[dict[str, Any]], values: list[float], features: list[dict[str, Any]], rate: float
) -> Node:
    """A symmetric tree, whose leaves are shrunk: leaf number sum of 2^i over the splits i that go right."""
    if not splits:
        return Leaf(values[0] / rate)
    *others, last = splits
    half = len(values) // 2
    return _inner_node(
        last,
        features,
        left=_symmetric(others, values[:half], features, rate),
        right=_symmetric(others, values[half:], features, rate),
    )


def _subtree(node: dict[str, Any], features: list[dict[str, Any]], rate: float) -> Node:
    """A node of another tree with all below it."""
    if "split" not in node:
        return Leaf(node["value"] / rate)
    return _inner_node(
        node["split"],
        features,
        left=_subtree(node["left"], features, rate),
        right=_subtree(node["right"], features, rate),
    )


def _inner_node(split: dict[str, Any], features: list[dict[str, Any]], left: Node, right: Node) -> InnerNode:
    feature = features[split["float_feature_index"]]
    return InnerNode(
        feature["flat_feature_index"],
        threshold_at_most(split["border"]),
        # CatBoost asks whether a value is above the border, which a missing one is not.
        missing_left=feature["nan_value_treatment"] != "AsTrue",
        left=left,
        right=right,
    )


def _varying_weights(train: RankingDataset) -> Iterator[Finding]:
    """CatBoost's ranking losses take one weight a query."""
    row = first_change_of_weight(train)
    if row is None or train.document_weights is None:
        return
    yield Finding(
        Severity.REFUSED,
        f"document_weights[{row}:{row + 2}] is {train.document_weights[row : row + 2].tolist()} inside a "
        "query; CatBoost takes one weight a query. Give query_weights instead, or use lightgbm or native.",
    )


def _differing_weights(train: RankingDataset) -> Iterator[Finding]:
    """LambdaMart takes no weights."""
    weights = train.query_weights
    if weights is None or (weights == weights[0]).all():
        return
    query = int(np.flatnonzero(weights != weights[0])[0])
    yield Finding(
        Severity.REFUSED,
        f"query_weights[{query}] is {weights[query]} where query_weights[0] is {weights[0]}; "
        "CatBoost's LambdaMart leaves weights out. Set loss=YetiRank with truncation=null, or use "
        "another model.",
    )


@functools.cache
def _parameter_names() -> frozenset[str]:
    """Every parameter that this version of CatBoost knows for a ranker."""
    return frozenset(inspect.signature(cb.CatBoostRanker.__init__).parameters) - {"self"}
