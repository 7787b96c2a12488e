"""The native LambdaMART of `ltrbench.native` behind the Ranker contract.

    settings        every setting, as the engine declares it, what is refused, and the engine's settings
    departures      what was not matched with other backends, in words

and here fitting, predicting and the saved model.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import announcing_compilation, threads
from ltrbench.conf_folder import conf_dir, settings_in
from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, DataError, ResultError, UndefinedMetricError, did_you_mean
from ltrbench.native.boosting import boost
from ltrbench.native.forest.checks import first_flaw
from ltrbench.native.forest.scoring import Forest, add_scores
from ltrbench.native.forest.tree_shap import tree_shap
from ltrbench.native.objectives import check_labels, prepare
from ltrbench.native.objectives.position_bias import AdditiveBias, BiasCorrection, Factors, UnbiasedPairs
from ltrbench.native.tree.nodes import NO_FEATURE, Tree
from ltrbench.native.warm_up import compile_engine, four_documents
from ltrbench.rankers.base import FitSummary, check_features, check_fitted, resolve_threads
from ltrbench.rankers.capabilities import Finding, Severity
from ltrbench.rankers.early_stopping import OnIteration
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
from ltrbench.shapes import Features, Scores
from ltrbench.untrusted.reading import load_npz

MODEL_FILE = "model.npz"
FEW_DOCUMENTS = 256
"""So many are scored on one thread: that takes about a millisecond, in which a busy machine may not yet have
woken another [measured, 100 documents, 300 trees, both cores busy: 0.8 ms on one thread, 9 on two]."""

_POSITIONS = "position_bias_"
"""What the names of arrays in a saved model begin with that hold what was learned of positions."""

log = logging.getLogger("ltrbench")


@dataclass(kw_only=True)
class NativeRanker(NativeSettings):
    """Boosted trees on the lambdas of NDCG, or on another objective."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._forest: Forest | None = None
        self.feature_names: tuple[str, ...] = ()
        self.position_factors: Factors = {}
        check_settings_of(self)

    @classmethod
    def from_preset(cls, name: str, **fields: Any) -> Self:
        """Returns a ranker with the settings of conf/model/native_NAME.yaml, those of a library; `native` are
        the defaults.

        Args:
            fields: what is to differ, or is not in the YAML, such as num_trees.

        Raises:
            ConfigError: where there is no such YAML.

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
        monitor = self.monitor(valid, on_iteration)
        valid_features = None
        if monitor.wants_scores and valid is not None:
            check_features(valid.features, train.num_features)
            valid_features = valid.features
        start = self._model_to_continue(train)
        correction = self._correction(train)
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
            )
        kept = monitor.best_iteration or ensemble.num_trees
        self._forest = ensemble.first(kept)
        self.position_factors = {} if correction is None else correction.factors(kept - ensemble.num_start)
        self.feature_names = train.feature_names
        self.summary = FitSummary(kept, ensemble.num_trees, monitor.seconds)
        return self

    def _correction(self, train: RankingDataset) -> BiasCorrection | None:
        if self.position_bias is None:
            return None
        for refusal in self._refused_positions(train):
            raise DataError(refusal.sentence)
        if self.position_bias == "propensity":
            mirrored = self.position_bias_cost == "mirrored"
            return UnbiasedPairs(train, objective_of(self), float(self.position_bias_norm), mirrored)
        objective = prepare(train, objective_of(self))
        return AdditiveBias(objective, train, engine_settings(self).learning_rate, self.position_bias_l2)

    def _model_to_continue(self, train: RankingDataset) -> Self | None:
        """The model of `warm_start`, which must be of the features of train and have fewer than num_trees
        trees."""
        if self.warm_start is None:
            return None
        folder = Path(self.warm_start)
        model = type(self).load(folder if (folder / SETTINGS_FILE).exists() else folder / "model")
        forest = check_fitted(model._forest)
        if model.feature_names != train.feature_names:
            difference = _difference(model.feature_names, train.feature_names)
            raise DataError(
                f"warm_start: {folder} was fitted on {difference}; continue with the features that it knows, "
                "in their order."
            )
        if forest.num_trees >= self.num_trees:
            raise ConfigError(
                f"num_trees is {self.num_trees}, but the model of warm_start has {forest.num_trees} trees "
                "already, which count among them; set params.num_trees higher."
            )
        return model

    def _refuse_other_factors(self, learned: Factors, continued: Factors) -> None:
        if learned.keys() != continued.keys():
            raise ConfigError(
                f"warm_start: {self.warm_start} has learned {', '.join(learned)} of positions, but "
                f"position_bias={self.position_bias} learns {', '.join(continued)}; set the position_bias "
                "that it was fitted with."
            )

    def predict(self, features: Features) -> Scores:
        forest = check_fitted(self._forest)
        features = check_features(features, len(self.feature_names))
        scores = np.zeros(len(features))
        with threads(resolve_threads(self.num_threads) if len(features) > FEW_DOCUMENTS else 1):
            add_scores(forest, features, scores)
        return scores

    def importance(self) -> dict[str, NDArray[np.float64]]:
        nodes = check_fitted(self._forest).nodes
        used, gain = nodes.feature[nodes.feature != NO_FEATURE], nodes.gain[nodes.feature != NO_FEATURE]
        return {
            kind: np.bincount(used, weights, minlength=len(self.feature_names)).astype(np.float64)
            for kind, weights in (("split", np.ones(len(used))), ("gain", gain))
        }

    def contributions(self, features: Features) -> NDArray[np.float64]:
        forest = check_fitted(self._forest)
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
        flaw = f"it lacks the array '{missing[0]}'" if missing else _flaw(arrays)
        if flaw is not None:
            raise ResultError(f"{path} is not a forest that native saved: {flaw}. {COPY_OR_FIT_AGAIN}.")
        ranker._forest = _forest_of(arrays)
        ranker.feature_names = tuple(arrays["feature_names"].tolist())
        ranker.position_factors = _factors_of(arrays)
        return ranker

    def warm_up(self) -> None:
        """Compiles the engine by fitting four documents, or loads it where this machine has compiled it."""
        num_threads = resolve_threads(self.num_threads)
        with announcing_compilation(_announce), threads(num_threads):
            compile_engine(objective_of(self), self._correction(four_documents()), num_threads)

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
                "positions are not used; set model.position_bias to additive or propensity to use them.",
            )

    def _refused_positions(self, train: RankingDataset) -> Iterator[Finding]:
        if self.position_bias is not None and train.positions is None:
            yield Finding(
                Severity.REFUSED,
                f"position_bias is {self.position_bias}, but the training data has no positions; give "
                "RankingDataset(positions=...), or set it to null.",
            )

    def library_parameters(self) -> dict[str, Any]:
        return flat_settings(engine_settings(self))


def _difference(fitted: tuple[str, ...], given: tuple[str, ...]) -> str:
    """In what the names of features differ, as the end of a sentence.

    >>> _difference(("a", "b"), ("a", "c"))
    "feature 'b', where train has 'c'"
    """
    if len(fitted) != len(given):
        return f"{len(fitted)} features, but train has {len(given)}"
    first = next(pair for pair in zip(fitted, given, strict=True) if pair[0] != pair[1])
    return f"feature '{first[0]}', where train has '{first[1]}'"


def _forest_of(arrays: Mapping[str, NDArray[Any]]) -> Forest:
    return Forest(arrays["roots"], Tree(**{name: arrays[name] for name in Tree._fields}), arrays["weights"])


def _factors_of(arrays: Mapping[str, NDArray[Any]]) -> Factors:
    return {
        name.removeprefix(_POSITIONS): values
        for name, values in arrays.items()
        if name.startswith(_POSITIONS)
    }


def _flaw(arrays: Mapping[str, NDArray[Any]]) -> str | None:
    """What is wrong with the arrays of a saved model, which has all of them; None where nothing is."""
    names = arrays["feature_names"]
    if names.ndim != 1 or names.dtype.kind != "U" or len(set(names.tolist())) != names.size:
        return "feature_names is not a list of texts that differ"
    for name, values in _factors_of(arrays).items():
        shape = arrays.get(f"{_POSITIONS}position", values).shape
        if values.ndim != 1 or values.shape != shape or values.dtype != np.float64:
            return f"{_POSITIONS}{name} is not one float64 for each position"
        if not np.isfinite(values).all():
            return f"{_POSITIONS}{name} holds a number that is not finite"
    return first_flaw(_forest_of(arrays), len(names))


def _root(tree: Tree) -> Node:
    """The root of a tree, with all nodes below it."""
    nodes: dict[int, Node] = {}
    # Children stand after their parent, so that they are made by then; recursion would bound the depth.
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
    log.info("compiling the native engine, once per machine; this takes half a minute, off the clock")
