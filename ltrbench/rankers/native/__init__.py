"""The native LambdaMART of `ltrbench.native` behind the Ranker contract.

    settings        all settings, their checks, and their translation to the engine's settings
    departures      the sentences about parameters that are not matched with other backends
    together        one fit by several workers

This file: fitting, predicting, saving and loading.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import announcing_compilation, threads
from ltrbench.conf_folder import conf_dir, settings_in
from ltrbench.data import RankingDataset
from ltrbench.data.features import csr_of, row_blocks
from ltrbench.distributed.shards import PlacedShards
from ltrbench.errors import ConfigError, DataError, ResultError, UndefinedMetricError, did_you_mean
from ltrbench.native.boosting import boost
from ltrbench.native.forest.checks import first_flaw
from ltrbench.native.forest.replaced import replaced_scores
from ltrbench.native.forest.scoring import Forest, add_scores
from ltrbench.native.forest.stored import add_stored_scores
from ltrbench.native.forest.tree_shap import tree_shap
from ltrbench.native.objectives import check_labels, prepare
from ltrbench.native.objectives.position_bias import AdditiveBias, BiasCorrection, Factors, UnbiasedPairs
from ltrbench.native.team import Placement
from ltrbench.native.tree.nodes import NO_FEATURE, Tree
from ltrbench.native.warm_up import compile_engine, compile_joint_growth, four_documents
from ltrbench.rankers.base import FitSummary, check_blocks, check_features, check_fitted, resolve_threads
from ltrbench.rankers.capabilities import Finding, FitsTogether, Severity
from ltrbench.rankers.early_stopping import FitCurve, Monitor, OnIteration
from ltrbench.rankers.library import COPY_OR_FIT_AGAIN, SETTINGS_FILE, read_model, write_model
from ltrbench.rankers.models.trees import Ensemble, InnerNode, Leaf, Node, WeightedTree, threshold_at_most
from ltrbench.rankers.native.departures import departures
from ltrbench.rankers.native.settings import (
    NativeSettings,
    check_settings_of,
    draws_at_random,
    engine_settings,
    flat_settings,
    objective_of,
)
from ltrbench.rankers.native.together import fit_together
from ltrbench.shapes import Features, Scores
from ltrbench.untrusted.reading import load_npz

MODEL_FILE = "model.npz"
FEW_DOCUMENTS = 256
"""Maximum number of documents scored on one thread: this takes about a millisecond, less than a busy machine
may need to wake a second thread [measured, 100 documents, 300 trees, both cores busy: 0.8 ms on one thread, 9
on two]."""

_POSITIONS = "position_bias_"
"""Prefix of the names of the arrays with position biases in a saved model."""

log = logging.getLogger("ltrbench")


@dataclass(kw_only=True)
class NativeRanker(NativeSettings):
    """Boosted trees of the native engine: LambdaMART on NDCG, or another objective."""

    reads_blocks: ClassVar[bool] = True
    is_repeatable_on_workers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._forest: Forest | None = None
        self.feature_names: tuple[str, ...] = ()
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

        >>> NativeRanker.from_preset("xgboost", num_trees=50).hessian_factor
        2.0
        """
        presets = {
            path.stem.removeprefix("native_"): path.stem for path in conf_dir().glob("model/native*.yaml")
        }
        if name not in presets:
            raise ConfigError(
                f"preset '{name}' is unknown{did_you_mean(name, presets)} Presets are "
                f"{', '.join(sorted(presets))}."
            )
        settings = settings_in("model", presets[name])
        del settings["_target_"]
        return cls(**{**settings, **fields})

    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        return self._fit(train, valid, self.monitor(valid, on_iteration), None)

    def fit_member(
        self,
        train: RankingDataset,
        placement: Placement,
        valid: RankingDataset | None,
        monitor: Monitor,
    ) -> Self:
        """Fits the ranker as one member of several, who all call this at the same time.

        Every member gets the model that `fit` returns in one process for all queries.

        Args:
            train: training queries of this member.
            placement: their numbers in the whole training set.
            valid: validation queries of this member, whose scores the monitor gets.
            monitor: the monitor of this member, which must decide like those of all members.
        """
        return self._fit(train, valid, monitor, placement)

    def check_distributed(self) -> None:
        """Every setting of a local fit is available."""

    def fit_distributed(
        self,
        workers: FitsTogether,
        train: PlacedShards,
        valid: PlacedShards | None = None,
        metrics: Sequence[str] = (),
    ) -> FitCurve:
        fitted = fit_together(self, workers, train, valid, metrics)
        self._forest, self.position_factors, self.summary, curve = fitted
        self.feature_names = train.shards[0].dataset.feature_names
        return curve

    def _fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None,
        monitor: Monitor,
        placement: Placement | None,
    ) -> Self:
        valid_features = None
        if monitor.wants_scores and valid is not None:
            valid_features = check_blocks(valid.features, train.num_features)
        start = self._model_to_continue(train)
        correction = self._correction(train, placement)
        if correction is not None and start is not None and start.position_factors:
            self._refuse_other_factors(start.position_factors, correction.factors(0))
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
        self.position_factors = {} if correction is None else correction.factors(kept - ensemble.num_start)
        self.feature_names = train.feature_names
        self.summary = FitSummary(kept, ensemble.num_trees, monitor.seconds)
        return self

    def _correction(self, train: RankingDataset, placement: Placement | None = None) -> BiasCorrection | None:
        if self.position_bias is None:
            return None
        for refusal in self._refused_positions(train):
            raise DataError(refusal.sentence)
        if self.position_bias == "propensity":
            mirrored = self.position_bias_cost == "mirrored"
            norm = float(self.position_bias_norm)
            return UnbiasedPairs(train, objective_of(self), norm, mirrored, placement)
        objective, learning_rate = prepare(train, objective_of(self)), engine_settings(self).learning_rate
        return AdditiveBias(objective, train, learning_rate, self.position_bias_l2, placement)

    def _model_to_continue(self, train: RankingDataset) -> Self | None:
        """Returns the model of `warm_start`; None without one.

        Raises:
            DataError: the model was fitted on other features than the training set has.
            ConfigError: the model already has `num_trees` trees or more.
        """
        if self.warm_start is None:
            return None
        folder = Path(self.warm_start)
        model = type(self).load(folder if (folder / SETTINGS_FILE).exists() else folder / "model")
        forest = check_fitted(model._forest)
        if model.feature_names != train.feature_names:
            difference = _difference(model.feature_names, train.feature_names)
            raise DataError(
                f"warm_start: {folder} was fitted on {difference}. Continue with the features of that model, "
                "in the same order."
            )
        if forest.num_trees >= self.num_trees:
            raise ConfigError(
                f"num_trees is {self.num_trees}, but the model of warm_start already has {forest.num_trees} "
                "trees, which are included in num_trees. Set params.num_trees higher."
            )
        return model

    def _refuse_other_factors(self, learned: Factors, continued: Factors) -> None:
        if learned.keys() != continued.keys():
            raise ConfigError(
                f"warm_start: {self.warm_start} contains the position biases {', '.join(learned)}, but "
                f"position_bias={self.position_bias} learns {', '.join(continued)}. Set the position_bias "
                "of that model."
            )

    def predict(self, features: Features) -> Scores:
        forest = check_fitted(self._forest)
        given = check_blocks(features, len(self.feature_names))
        scores, sparse = np.zeros(len(given)), csr_of(given)
        with threads(self._threads(len(given))):
            if sparse is not None:
                add_stored_scores(forest, sparse, scores)
                return scores
            for start, block in row_blocks(given):
                add_scores(forest, block, scores[start : start + len(block)])
        return scores

    def scores_with(
        self, features: Features, columns: NDArray[np.int64], values: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        forest = check_fitted(self._forest)
        features = check_features(features, len(self.feature_names))
        with threads(self._threads(len(features))):
            return replaced_scores(forest, features, columns, values)

    def _threads(self, num_documents: int) -> int:
        return resolve_threads(self.num_threads) if num_documents > FEW_DOCUMENTS else 1

    def importance(self) -> dict[str, NDArray[np.float64]]:
        nodes = check_fitted(self._forest).nodes
        used, gain = nodes.feature[nodes.feature != NO_FEATURE], nodes.gain[nodes.feature != NO_FEATURE]
        return {
            kind: np.bincount(used, weights, minlength=len(self.feature_names)).astype(np.float64)
            for kind, weights in (("split", np.ones(len(used))), ("gain", gain))
        }

    def contributions(self, features: Features) -> NDArray[np.float64]:
        forest = check_fitted(self._forest)
        # As one array: the contributions are larger than the features anyway.
        features = check_features(features, len(self.feature_names))
        with threads(resolve_threads(self.num_threads)):
            return tree_shap(forest, features)

    def trees(self) -> Ensemble:
        forest = check_fitted(self._forest)
        return Ensemble(
            tuple(
                WeightedTree(float(weight), _root(tree))
                for weight, tree in zip(forest.weights, forest.trees(), strict=True)
            )
        )

    def save(self, folder: Path) -> None:
        forest = check_fitted(self._forest)
        content = io.BytesIO()
        arrays: dict[str, Any] = {
            "feature_names": np.array(self.feature_names),
            "roots": forest.roots,
            "weights": forest.weights,
            **forest.nodes._asdict(),
            **{f"{_POSITIONS}{name}": values for name, values in self.position_factors.items()},
        }
        np.savez(content, **arrays)
        write_model(folder, self, MODEL_FILE, content.getvalue())

    @classmethod
    def load(cls, folder: Path) -> Self:
        ranker, content = read_model(folder, cls, MODEL_FILE)
        path = folder / MODEL_FILE
        arrays = load_npz(path, content, remedy=COPY_OR_FIT_AGAIN)
        expected = ("feature_names", "roots", "weights", *Tree._fields)
        missing = [name for name in expected if name not in arrays]
        flaw = f"the array '{missing[0]}' is missing" if missing else _flaw(arrays)
        if flaw is not None:
            raise ResultError(f"{path} is not a saved native model: {flaw}. {COPY_OR_FIT_AGAIN}.")
        ranker._forest = _forest_of(arrays)
        ranker.feature_names = tuple(arrays["feature_names"].tolist())
        ranker.position_factors = _factors_of(arrays)
        return ranker

    def warm_up(self) -> None:
        """Compiles the engine by a fit on four documents, or loads it if this machine has compiled it."""
        num_threads = resolve_threads(self.num_threads)
        with announcing_compilation(_announce), threads(num_threads):
            compile_engine(objective_of(self), self._correction(four_documents()), num_threads)

    def warm_up_member(self) -> None:
        """Compiles the kernels that only several members use."""
        with announcing_compilation(_announce), threads(resolve_threads(self.num_threads)):
            compile_joint_growth()

    def seed_matters(self, num_documents: int) -> bool:
        return draws_at_random(self, num_documents)

    def findings(self, train: RankingDataset | None) -> Iterator[Finding]:
        for sentence in departures(self):
            yield Finding(Severity.UNMATCHED, sentence)
        if train is None:
            return
        try:
            check_labels(train, objective_of(self))
        except (DataError, UndefinedMetricError) as error:
            yield Finding(Severity.REFUSED, str(error))
        yield from self._refused_positions(train)
        yield from super().findings(train)
        if train.positions is not None and self.position_bias is None:
            yield Finding(
                Severity.CAUTION,
                "The positions of the training data are not used; set model.position_bias to additive or "
                "propensity to learn position biases.",
            )

    def _refused_positions(self, train: RankingDataset) -> Iterator[Finding]:
        if self.position_bias is not None and train.positions is None:
            yield Finding(
                Severity.REFUSED,
                f"position_bias is {self.position_bias}, but the training data have no positions. Pass "
                "RankingDataset(positions=...), or set position_bias=null.",
            )

    def library_parameters(self) -> dict[str, Any]:
        return flat_settings(engine_settings(self))


def _difference(fitted: tuple[str, ...], given: tuple[str, ...]) -> str:
    """Returns the first difference between two lists of feature names, as the end of a sentence.

    >>> _difference(("a", "b"), ("a", "c"))
    "feature 'b', but the training set has 'c' in its place"
    """
    if len(fitted) != len(given):
        return f"{len(fitted)} features, but the training set has {len(given)}"
    first = next(pair for pair in zip(fitted, given, strict=True) if pair[0] != pair[1])
    return f"feature '{first[0]}', but the training set has '{first[1]}' in its place"


def _forest_of(arrays: Mapping[str, NDArray[Any]]) -> Forest:
    return Forest(arrays["roots"], Tree(**{name: arrays[name] for name in Tree._fields}), arrays["weights"])


def _factors_of(arrays: Mapping[str, NDArray[Any]]) -> Factors:
    return {
        name.removeprefix(_POSITIONS): values
        for name, values in arrays.items()
        if name.startswith(_POSITIONS)
    }


def _flaw(arrays: Mapping[str, NDArray[Any]]) -> str | None:
    """Returns the first error in the arrays of a saved model, which must all exist; None without an error."""
    names = arrays["feature_names"]
    if names.ndim != 1 or names.dtype.kind != "U" or len(set(names.tolist())) != names.size:
        return "feature_names is not a list of different texts"
    for name, values in _factors_of(arrays).items():
        shape = arrays.get(f"{_POSITIONS}position", values).shape
        if values.ndim != 1 or values.shape != shape or values.dtype != np.float64:
            return f"{_POSITIONS}{name} does not have one float64 per position"
        if not np.isfinite(values).all():
            return f"{_POSITIONS}{name} contains a value that is not finite"
    return first_flaw(_forest_of(arrays), len(names))


def _root(tree: Tree) -> Node:
    """Returns the root of a tree, with all its nodes."""
    nodes: dict[int, Node] = {}
    # In reverse order children come before their parent; recursion would limit the depth.
    for node in reversed(range(len(tree.feature))):
        feature = int(tree.feature[node])
        if feature == NO_FEATURE:
            nodes[node] = Leaf(float(tree.value[node]))
            continue
        nodes[node] = InnerNode(
            feature,
            threshold_at_most(float(tree.threshold[node])),
            bool(tree.missing_left[node]),
            left=nodes[int(tree.left[node])],
            right=nodes[int(tree.right[node])],
        )
    return nodes[0]


def _announce() -> None:
    log.info("compiling the native engine (once per machine, half a minute, not part of the fit time)")
