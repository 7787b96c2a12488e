"""The native LambdaMART of `ltrbench.native` behind the Ranker contract.

The file has four parts: the settings with their checks and their translation to the engine's settings, the
sentences about parameters that are not matched with other backends, the fit on one of several workers, and
the ranker.
"""

from __future__ import annotations

import copy
import functools
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import threads
from ltrbench.data import RankingDataset
from ltrbench.data.features import csr_of, row_blocks
from ltrbench.distributed import FitsTogether, PlacedShards, QueryShard
from ltrbench.errors import (
    ConfigError,
    DataError,
    ResultError,
    UndefinedMetricError,
    require,
    require_choice,
)
from ltrbench.folders import conf_dir, settings_in
from ltrbench.measure import plain
from ltrbench.metrics import Convention
from ltrbench.models.trees import (
    Ensemble,
    InnerNode,
    Leaf,
    Node,
    WeightedTree,
    bits_of,
    tree_of,
)
from ltrbench.native import NO_FEATURE, Tree
from ltrbench.native.attribution import tree_shap
from ltrbench.native.bins import COLUMN_BINS
from ltrbench.native.boosting import (
    BINNINGS,
    BoostingSettings,
    DartSettings,
    SamplingSettings,
    TreeOptions,
    begin_compiling,
    boost,
    compile_engine,
    compile_growth,
    compile_sparse_engine,
    four_documents,
    four_sparse_documents,
    two_categories,
)
from ltrbench.native.forest import Forest, add_scores, add_stored_scores, first_flaw
from ltrbench.native.objectives.base import Objective, name_or_objective, yamls
from ltrbench.native.objectives.cross_entropy import CrossEntropy
from ltrbench.native.objectives.lambdarank import LambdaRank, RankNet
from ltrbench.native.objectives.lambdas import ObjectiveSettings, check_labels, prepare
from ltrbench.native.objectives.pairs import PairSettings
from ltrbench.native.objectives.position_bias import (
    AdditiveBias,
    BiasCorrection,
    Factors,
    PositionBiasSettings,
    UnbiasedPairs,
    correctable,
)
from ltrbench.native.objectives.squared_error import for_warm_up
from ltrbench.native.splitting import SplitOptions, SplitSettings
from ltrbench.native.team import Placement, Team
from ltrbench.rankers.base import (
    ADDITIVE,
    NO_DEBIASING,
    PROPENSITY,
    WEIGHTS,
    BoostingRanker,
    Debiasing,
    Finding,
    FitCurve,
    FitSummary,
    Monitor,
    OnIteration,
    Severity,
    check_blocks,
    check_features,
    check_fitted,
    fit_on_members,
    refuse,
    resolve_threads,
)
from ltrbench.rankers.estimator import takes_tables
from ltrbench.rankers.library import (
    COPY_OR_FIT_AGAIN,
    folders_to_continue,
    model_to_continue,
    read_model,
    unset_fields,
    write_model,
)
from ltrbench.settings import changed, check_effects, part, setting
from ltrbench.shapes import Features, Scores
from ltrbench.untrusted import load_npz

# ---- The settings of NativeRanker: the engine's fields, checked together, and passed back to the engine.
#
# Each setting is declared once, in the dataclass of the engine stage that uses it, with its default, range,
# documentation, and the settings that it needs to have an effect. `NativeSettings` inherits them all, and
# `part` of `ltrbench.settings` maps them back by name. This file adds the checks across several
# settings, and the two settings that have another form in the engine: the objective and the convention of
# its metric. A field that is None has LightGBM's default, because the engine follows LightGBM where the
# literature leaves a choice.

_CRITERION_AND_VALUE_OF_ONE_KIND = (("newton", "newton"), ("least_squares", "mean"))


@dataclass(kw_only=True)
class _Preset(BoostingRanker):
    """A separate class, so that records show the field before the engine's settings."""

    preset: str | None = None
    """Name of the library whose settings these are. It is used only in the notes about unmatched
    parameters."""
    objective: Objective = setting(LambdaRank(), refuse=name_or_objective())
    """An objective, or the name of its YAML in conf/model/objective. Its settings are fields of its class."""


@dataclass(kw_only=True)
class NativeSettings(
    PositionBiasSettings,
    DartSettings,
    SamplingSettings,
    SplitOptions,
    TreeOptions,
    _Preset,
):
    """All settings of NativeRanker: those of the engine's stages, and the hyperparameters that all
    boosted-tree backends share."""

    warm_start: str | None = None
    """Saved native model, or its run folder, to continue from; num_trees includes its trees."""


# To the engine.


def engine_settings(ranker: NativeSettings) -> BoostingSettings:
    """Returns the engine's settings, with the engine's default for every field that is None."""
    return part(
        ranker,
        BoostingSettings,
        objective=pairs_or_objective(ranker),
        splits=part(ranker, SplitSettings),
        sampling=part(ranker, SamplingSettings),
        dart=part(ranker, DartSettings),
    )


def with_objective(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings of NativeRanker in which the name of an objective is replaced by its settings."""
    objective = settings.get("objective")
    if not isinstance(objective, str):
        return dict(settings)
    of_yaml = yamls().get(objective, {})
    if of_yaml.get("_target_", "???") == "???":
        return dict(settings)
    return {**settings, "objective": of_yaml}


def pairs_or_objective(ranker: NativeSettings) -> ObjectiveSettings:
    """Returns the objective in the form of the engine, which has settings of pairs for lambdarank and
    ranknet."""
    objective = ranker.objective
    if isinstance(objective, RankNet):
        return objective.pairs(ranker.truncation)
    return objective


def pairs_of(ranker: NativeSettings) -> PairSettings:
    """Returns the settings of the pairs of a ranker whose objective is lambdarank or ranknet."""
    pairs = pairs_or_objective(ranker)
    assert isinstance(pairs, PairSettings)  # for the type checker
    return pairs


def sizes_of_samples(ranker: NativeSettings) -> tuple[int | float | str, ...]:
    """Returns the sizes of the four samples; 1 means no sampling."""
    return (
        ranker.queries_per_tree,
        ranker.documents_per_tree,
        ranker.features_per_tree,
        ranker.features_per_split,
    )


def flat_settings(settings: Any) -> dict[str, Any]:
    """Returns the engine's settings as one dictionary, without the names of their groups."""
    flat: dict[str, Any] = {}
    for name, value in vars(settings).items():
        if isinstance(value, Convention):
            described = value.describe()
            flat |= {policy: described[policy] for policy in ("gain", "discount")}
        elif isinstance(value, Objective):
            flat[name] = plain(value)
        elif is_dataclass(value):
            flat |= flat_settings(value)
        else:
            flat[name] = value
    return flat


# Checks.


def check_settings_of(ranker: NativeSettings) -> None:
    """Raises ConfigError on the first setting that is out of range, has no effect, or contradicts another."""
    check_effects(ranker, {"position_bias": ranker.position_bias})
    pairs_or_objective(ranker)
    if ranker.truncation is not None and not isinstance(ranker.objective, RankNet):
        own = [
            name for name in ("truncation", "top") if hasattr(ranker.objective, name)
        ]
        remedy = "objective to lambdarank or ranknet"
        if own:
            remedy = f"objective.{own[0]}={ranker.truncation}"
        raise ConfigError(
            f"truncation is {ranker.truncation}, but has no effect with objective={ranker.objective}; set "
            f"truncation=null, or {remedy}."
        )
    _check_trees(ranker)
    _check_goss(ranker)
    if ranker.position_bias == "propensity":
        correctable(pairs_or_objective(ranker))
    if ranker.extra:
        raise ConfigError(
            f"extra.{next(iter(ranker.extra))} has no effect, because every parameter of native is a field. "
            "conf/model/native.yaml lists them."
        )


def _check_trees(ranker: NativeSettings) -> None:
    kinds = (ranker.split_criterion, ranker.leaf_value)
    if ranker.monotone and kinds not in _CRITERION_AND_VALUE_OF_ONE_KIND:
        raise ConfigError(
            f"monotone is set with split_criterion={ranker.split_criterion} and "
            f"leaf_value={ranker.leaf_value}, but it needs a criterion and leaf values of the same kind. Set "
            "split_criterion=newton and leaf_value=newton, or split_criterion=least_squares and "
            "leaf_value=mean."
        )
    if (
        ranker.equal_cuts == "highest"
        and engine_settings(ranker).max_bins > COLUMN_BINS
    ):
        raise ConfigError(
            f"max_bins is {ranker.max_bins}, but equal_cuts=highest supports at most {COLUMN_BINS} bins per "
            f"feature. Set max_bins={COLUMN_BINS} or equal_cuts=lowest."
        )
    if ranker.cut_without_gain and ranker.min_split_gain:
        raise ConfigError(
            f"min_split_gain is {ranker.min_split_gain}, but has no effect with cut_without_gain=true, which "
            "accepts splits without gain. Set min_split_gain=0 or cut_without_gain=false."
        )


def _check_goss(ranker: NativeSettings) -> None:
    top_rate = ranker.goss_top_rate
    other_rate = ranker.goss_other_rate
    if (top_rate is None) != (other_rate is None):
        raise ConfigError(
            f"goss_top_rate is {top_rate} and goss_other_rate is {other_rate}; set both for GOSS, or both to "
            "null."
        )
    if top_rate is not None and other_rate is not None:
        require("goss_top_rate + goss_other_rate", top_rate + other_rate, at_most=1)
        if (ranker.queries_per_tree, ranker.documents_per_tree) != (1, 1):
            raise ConfigError(
                f"goss_top_rate is {top_rate} with queries_per_tree={ranker.queries_per_tree} and "
                f"documents_per_tree={ranker.documents_per_tree}, but GOSS samples the documents of a tree "
                "itself. Set queries_per_tree=1.0 and documents_per_tree=1.0."
            )


# ---- Differences of a NativeRanker from the shared parameters, and therefore from the other backends.


def departures(ranker: NativeSettings) -> tuple[str, ...]:
    """Returns the sentences of the findings with severity `UNMATCHED`."""
    objective = ranker.objective
    truncates = objective.has_pairs and not objective.draws
    unset = tuple(
        name for name in unset_fields(ranker) if name != "truncation" or truncates
    )
    lambdas = (
        changed(objective, type(objective)) if isinstance(objective, RankNet) else []
    )
    metric = ""
    if isinstance(objective, LambdaRank):
        metric = objective.metric
    sentences = []
    if unset:
        sentences.append(f"LightGBM's defaults are used for {', '.join(unset)}.")
    if ranker.warm_start is not None:
        sentences.append(
            f"Training continues from the saved model in {ranker.warm_start}."
        )
    if ranker.preset:
        sentences.append(
            f"{ranker.preset}'s settings are used instead of the shared parameters, except num_trees."
        )
    if metric.partition("@")[0] != "ndcg":
        trained_on = f"lambdarank on {metric}" if metric else objective
        sentences.append(f"The objective is {trained_on}, not LambdaMART on NDCG.")
    if "@" in metric:
        sentences.append(
            f"The weight of a pair is its exact change of {metric}, so a pair with both documents below "
            "the cutoff has weight 0."
        )
    of_lambdas = ", ".join(name for name in lambdas if name != "metric")
    if of_lambdas:
        sentences.append(
            f"These settings of the lambdas differ from native's defaults: {of_lambdas}."
        )
    if ranker.binning == "quantile":
        sentences.append(
            "Bin edges differ from other backends: native bins features by its own quantiles, and max_bins "
            "does not count the bin of missing values."
        )
    if ranker.binning == "equal_width":
        sentences.append(
            "Bin edges differ from other backends: native uses bins of equal width, and max_bins does not "
            "count the bin of missing values."
        )
    return (*sentences, *_departures_of_trees(ranker))


def _departures_of_trees(ranker: NativeSettings) -> Iterator[str]:
    """Yields the sentences on splits, leaves and samples."""
    if ranker.split_criterion == "least_squares":
        yield (
            "Splits are chosen by least squares: min_split_gain and min_sum_hessian apply with every hessian "
            "equal to 1."
        )
    if ranker.leaf_value == "mean":
        yield "The value of a leaf is the mean of its negative gradients, not a Newton step."
    if ranker.l1 > 0:
        yield f"Leaf values have L1 regularisation (l1={ranker.l1:g})."
    if ranker.growth != "best_first":
        yield f"Trees are grown {ranker.growth.replace('_', ' ')}, not best-first."
    if sizes_of_samples(ranker) != (1, 1, 1, 1):
        yield (
            "Samples differ from other backends: native samples queries, documents and features by its own "
            "algorithm."
        )
    if ranker.goss_top_rate is not None:
        yield "Documents are sampled by the size of their gradients (GOSS)."
    if ranker.drop_rate > 0:
        yield "Trees are dropped at random and rescaled during training (DART)."
    if ranker.position_bias is not None:
        yield f"Position bias is corrected (position_bias={ranker.position_bias})."


# ---- One native fit by several workers: every member grows the same trees from its shard of the queries.

_Fitted = tuple[Forest, Factors, FitSummary | None]


def _fit_member(
    ranker: NativeRanker,
    team: Team,
    train: QueryShard,
    valid: QueryShard | None,
    monitor: Monitor,
    *,
    start: NativeRanker | None,
) -> _Fitted:
    """Fits on a worker; every member has the same model."""
    placement = Placement.among(team, train.queries, train.dataset.query_sizes)
    of_valid = None if valid is None else valid.dataset
    ranker.fit_member(train.dataset, placement, of_valid, monitor, start=start)
    return check_fitted(ranker._forest), ranker.position_factors, ranker.summary


MODEL_FILE = "model.npz"
FEW_DOCUMENTS = 256
"""Maximum number of documents scored on one thread: this takes about a millisecond, less than a busy machine
may need to wake a second thread [measured, 100 documents, 300 trees, both cores busy: 0.8 ms on one thread, 9
on two]."""

_POSITIONS = "position_bias_"
"""Prefix of the names of the arrays with position biases in a saved model."""


@dataclass(kw_only=True)
class NativeRanker(NativeSettings):
    """Boosted trees of the native engine: LambdaMART on NDCG, or another objective."""

    reads_blocks: ClassVar[bool] = True
    debiasing: ClassVar[Debiasing] = {
        NO_DEBIASING: {"position_bias": None},
        ADDITIVE: {"position_bias": "additive"},
        PROPENSITY: {"position_bias": "propensity"},
        WEIGHTS: {"position_bias": None},
    }
    reads_categories: ClassVar[bool] = True
    is_repeatable_on_workers: ClassVar[bool] = True
    with_objective = staticmethod(with_objective)

    def __init__(self, **settings: Any) -> None:
        super().__init__(**with_objective(settings))

    def __post_init__(self) -> None:
        super().__post_init__()
        self._forest: Forest | None = None
        self.position_factors: Factors = {}
        check_settings_of(self)

    @classmethod
    def from_preset(cls, name: str, **fields: Any) -> Self:
        """Returns a ranker with the settings of conf/model/native_NAME.yaml, which follow a library; the
        preset `native` has the defaults.

        Args:
            fields: values that differ from the YAML or are not in it, such as num_trees.

        Raises:
            ConfigError: the preset does not exist.

        >>> NativeRanker.from_preset("xgboost", num_trees=50).objective.hessian_factor
        2.0
        """
        presets = {
            path.stem.removeprefix("native_"): path.stem
            for path in conf_dir().glob("model/native*.yaml")
        }
        require_choice("preset", name, presets)
        settings = settings_in("model", presets[name])
        del settings["_target_"]
        return cls(**{**settings, **fields})

    @property
    def folders_read(self) -> Mapping[str, Path]:
        return folders_to_continue(self.warm_start)

    @takes_tables
    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        refuse(self, train)
        monitor = self.monitor(valid, on_iteration)
        start = self._model_to_continue(train)
        return self.fit_member(train, None, valid, monitor, start=start)

    def fit_member(
        self,
        train: RankingDataset,
        placement: Placement | None,
        valid: RankingDataset | None,
        monitor: Monitor,
        *,
        start: Self | None = None,
    ) -> Self:
        """Fits the ranker as one member of several, who all call this at the same time.

        Every member gets the model that `fit` returns in one process for all queries.

        Args:
            train: training queries of this member.
            placement: their numbers in the whole training set; None: this is the only member.
            valid: validation queries of this member, whose scores the monitor gets.
            monitor: the monitor of this member, which must decide like those of all members.
            start: the model of `warm_start`.
        """
        valid_features = None
        if monitor.wants_scores and valid is not None:
            valid_features = check_blocks(valid.features, train.num_features)
        correction = self._correction(train, placement)
        if correction is not None and start is not None and start.position_factors:
            learned = start.position_factors
            continued = correction.factors(0)
            if learned.keys() != continued.keys():
                raise ConfigError(
                    f"warm_start: {self.warm_start} contains the position biases {', '.join(learned)}, but "
                    f"position_bias={self.position_bias} learns {', '.join(continued)}. Set the "
                    "position_bias of that model."
                )
            correction.resume(start.position_factors)
        with threads(resolve_threads(self.num_threads)):
            ensemble = boost(
                train,
                engine_settings(self),
                valid_features,
                monitor.should_stop if monitor.wants_scores else None,
                None if start is None else start._forest,
                correction,
                placement,
            )
        kept = monitor.best_iteration or ensemble.num_trees
        self._forest = ensemble.first(kept)
        self.position_factors = (
            {} if correction is None else correction.factors(kept - ensemble.num_start)
        )
        self.summary = FitSummary(kept, ensemble.num_trees, monitor.seconds)
        return self

    def fit_distributed(
        self,
        workers: FitsTogether,
        train: PlacedShards,
        valid: PlacedShards | None = None,
        metrics: Sequence[str] = (),
    ) -> FitCurve:
        # Loaded here, because a relative path is another folder on a worker.
        start = self._model_to_continue(train.shards[0].dataset)
        fit = functools.partial(_fit_member, start=start)
        fitted, curve = fit_on_members(workers, self, train, valid, metrics, fit)
        self._forest, self.position_factors, self.summary = fitted
        self.feature_names = train.shards[0].dataset.feature_names
        return curve

    def _correction(
        self, train: RankingDataset, placement: Placement | None = None
    ) -> BiasCorrection | None:
        if self.position_bias is None:
            return None
        if self.position_bias == "propensity":
            mirrored = self.position_bias_cost == "mirrored"
            norm = float(self.position_bias_norm)
            return UnbiasedPairs(
                train, pairs_or_objective(self), norm, mirrored, placement
            )
        objective = prepare(train, pairs_or_objective(self), placement)
        learning_rate = engine_settings(self).learning_rate
        return AdditiveBias(
            objective, train, learning_rate, self.position_bias_l2, placement
        )

    def _model_to_continue(self, train: RankingDataset) -> Self | None:
        """Returns the model of `warm_start`; None without one.

        Raises:
            ConfigError: the model already has `num_trees` trees or more.
        """
        model = model_to_continue(self, train)
        if model is None:
            return None
        forest = check_fitted(model._forest)
        if forest.num_trees >= self.num_trees:
            raise ConfigError(
                f"num_trees is {self.num_trees}, but the model of warm_start already has {forest.num_trees} "
                "trees, which are included in num_trees. Set params.num_trees higher."
            )
        return model

    def first(self, num_trees: int) -> Self:
        """Returns the ranker with its first trees only."""
        ranker = copy.copy(self)
        ranker._forest = check_fitted(self._forest).first(num_trees)
        ranker.summary = replace(check_fitted(self.summary), num_trees=num_trees)
        return ranker

    def predict(self, features: object) -> Scores:
        forest = check_fitted(self._forest)
        given = check_blocks(features, len(self.feature_names))
        scores = np.zeros(len(given))
        sparse = csr_of(given)
        with threads(self._threads(len(given))):
            if sparse is not None:
                add_stored_scores(forest, sparse, scores)
                return scores
            for start, block in row_blocks(given):
                add_scores(forest, block, scores[start : start + len(block)])
        return scores

    def _threads(self, num_documents: int) -> int:
        if num_documents > FEW_DOCUMENTS:
            return resolve_threads(self.num_threads)
        return 1

    def importance(self) -> dict[str, NDArray[np.float64]]:
        nodes = check_fitted(self._forest).nodes
        is_split = nodes.feature != NO_FEATURE
        used = nodes.feature[is_split]
        num_features = len(self.feature_names)
        counts = np.bincount(used, minlength=num_features)
        gains = np.bincount(used, nodes.gain[is_split], minlength=num_features)
        return {"split": counts.astype(np.float64), "gain": gains.astype(np.float64)}

    def contributions(self, features: Features) -> NDArray[np.float64]:
        forest = check_fitted(self._forest)
        # As one array: the contributions are larger than the features anyway.
        features = check_features(features, len(self.feature_names))
        with threads(resolve_threads(self.num_threads)):
            return tree_shap(forest, features)

    def trees(self) -> Ensemble:
        forest = check_fitted(self._forest)
        trees = []
        for weight, tree in zip(forest.weights, forest.trees(), strict=True):
            trees.append(WeightedTree(float(weight), _root(tree)))
        return Ensemble(tuple(trees))

    def save(self, folder: Path) -> None:
        forest = check_fitted(self._forest)
        content = io.BytesIO()
        arrays: dict[str, Any] = {
            "feature_names": np.array(self.feature_names),
            "roots": forest.roots,
            "weights": forest.weights,
            **forest.nodes._asdict(),
        }
        for name, values in self.position_factors.items():
            arrays[f"{_POSITIONS}{name}"] = values
        np.savez(content, **arrays)
        write_model(folder, self, MODEL_FILE, content.getvalue())

    @classmethod
    def load(cls, folder: Path) -> Self:
        ranker, content = read_model(folder, cls, MODEL_FILE)
        path = folder / MODEL_FILE
        arrays = load_npz(path, content, remedy=COPY_OR_FIT_AGAIN)
        try:
            ranker.feature_names = tuple(arrays["feature_names"].tolist())
            nodes = Tree(**{name: arrays[name] for name in Tree._fields})
            ranker._forest = Forest(arrays["roots"], nodes, arrays["weights"])
            flaw = first_flaw(ranker._forest, len(ranker.feature_names))
        except KeyError as error:
            flaw = f"the array {error} is missing"
        if flaw is not None:
            raise ResultError(
                f"{path} is not a saved native model: {flaw}. {COPY_OR_FIT_AGAIN}."
            )
        ranker.position_factors = {}
        for name, values in arrays.items():
            if name.startswith(_POSITIONS):
                ranker.position_factors[name.removeprefix(_POSITIONS)] = values
        return ranker

    def begin_warm_up(self) -> None:
        begin_compiling(resolve_threads(self.num_threads))

    def warm_up(self) -> None:
        """Compiles the engine for dense features by a fit on four documents, or loads it if this machine has
        compiled it."""
        num_threads = resolve_threads(self.num_threads)
        with threads(num_threads):
            ranker = replace(self, objective=for_warm_up(self.objective))
            compile_engine(
                pairs_or_objective(ranker),
                ranker._correction(four_documents()),
                num_threads,
            )
            growth, l1 = self._growth_to_compile()
            if growth != "best_first":
                compile_growth(growth, l1)

    def _growth_to_compile(self) -> tuple[str, float]:
        """Returns a way of growing trees, and an l1 penalty, that use the kernels of this ranker."""
        if self.monotone or self.l1:
            return "depth_wise", 0.1
        is_compiled = self.growth == "best_first" and self.features_per_split == 1
        if is_compiled and not self.cut_without_gain:
            return "best_first", 0.0
        return "depth_wise", 0.0

    def warm_up_categories(self) -> None:
        """Compiles the kernels that only categorical features use."""
        with threads(resolve_threads(self.num_threads)):
            compile_growth(*self._growth_to_compile(), two_categories())

    def warm_up_sparse(self) -> None:
        """Compiles the kernels that only sparse features use."""
        with threads(resolve_threads(self.num_threads)):
            ranker = replace(self, objective=for_warm_up(self.objective))
            compile_sparse_engine(
                pairs_or_objective(ranker), ranker._correction(four_sparse_documents())
            )

    def warm_up_member(self) -> None:
        """Compiles the kernels that only several members use."""
        with threads(resolve_threads(self.num_threads)):
            compile_growth("depth_wise")

    def seed_matters(self, num_documents: int) -> bool:
        num_binned = BINNINGS[self.binning].sample_size
        if num_binned is not None and num_documents > num_binned:
            return True
        if any(size != 1 for size in sizes_of_samples(self)):
            return True
        if self.goss_top_rate is not None or self.drop_rate > 0:
            return True
        return isinstance(self.objective, CrossEntropy) or self.objective.draws

    def findings(self, train: RankingDataset | None) -> Iterator[Finding]:
        for sentence in departures(self):
            yield Finding(Severity.UNMATCHED, sentence)
        if train is None:
            return
        try:
            check_labels(train, pairs_or_objective(self))
        except (DataError, UndefinedMetricError) as error:
            yield Finding(Severity.REFUSED, str(error))
        yield from super().findings(train)

    def library_parameters(self) -> dict[str, Any]:
        return flat_settings(engine_settings(self))


def _root(tree: Tree) -> Node:
    """Returns the root of a tree, with all its nodes."""
    columns = (tree.feature, tree.threshold, tree.missing_left, tree.left, tree.right)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    splits = list(rows)
    values = tree.value.tolist()

    def read(node: int) -> Node:
        if tree.feature[node] == NO_FEATURE:
            return Leaf(values[node])
        split = InnerNode(*splits[node])
        codes = tree.left_categories[node]
        is_categorical = np.isnan(split.threshold)
        if is_categorical:
            return replace(split, categories=bits_of(codes[~np.isnan(codes)]))
        return split

    return tree_of(0, read)
