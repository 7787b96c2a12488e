"""Base class of the adapters of boosted-tree libraries, and the files of a fitted model.

An adapter derives from `LibraryRanker`. It maps each field to the library's parameter names and calls the
library; this file contains everything that the adapters have in common.

A model is saved in the library's format. `settings.json` in the same folder holds the ranker's fields,
the summary of its fit, and the digest of the model file, so that a damaged file is refused before the
library's parser reads it. Load only models that you trust: a crafted file may crash the library.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import importlib.util
import json
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.dataset import numbered
from ltrbench.data.features import AnyFeatures, FeatureMatrix, csr_of, row_blocks
from ltrbench.errors import ConfigError, DataError, ResultError, did_you_mean
from ltrbench.native.objectives.base import (
    Objective,
    objective_of_record,
    prepare_objective,
    record_of,
)
from ltrbench.native.objectives.squared_error import for_warm_up
from ltrbench.rankers.base import (
    OF_A_FINISHED_RUN,
    OF_EVERY_RANKER,
    SHARED,
    BoostingRanker,
    EarlyStopping,
    Finding,
    FitSummary,
    Monitor,
    OnIteration,
    Ranker,
    Severity,
    check_blocks,
    check_fitted,
    read_model_json,
    refuse,
    resolve_threads,
)
from ltrbench.rankers.estimator import takes_tables
from ltrbench.settings import In, check_effects, in_library, samples
from ltrbench.shapes import Features, Labels, Scores
from ltrbench.untrusted import read_bytes, type_error, types_of

SETTINGS_FILE = "settings.json"

SHARED_FIELDS = tuple(name for name in SHARED if name not in ("num_trees", "monotone"))
"""The shared hyperparameters for which None means the library's default."""

DataT = TypeVar("DataT")
RankerT = TypeVar("RankerT", bound=Ranker)

Boosted = tuple[Any, int, int]
"""A model, the number of trees it keeps, and the number of iterations run."""

COPY_OR_FIT_AGAIN = "Copy the folder again, or fit again"
"""Remedy in messages about a damaged model file."""


class ImportedOnUse:
    """A module that is imported when one of its names is used for the first time.

    A command that only reads the settings of a ranker does not wait for the ranker's library.

    Raises:
        ImportError: The package is not installed.
    """

    def __init__(self, module: str, remedy: str) -> None:
        if importlib.util.find_spec(module.partition(".")[0]) is None:
            raise ImportError(remedy)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._module), name)


@dataclass(kw_only=True)
class LibraryRanker(BoostingRanker):
    """Boosted trees of a library. A `model` is an object of the library.

    An adapter sets the class attributes, implements the abstract methods, and overrides the methods with an
    empty default that apply to its library.
    """

    library: ClassVar[str]
    """Name of the library in messages."""
    reads_categories = True
    model_file: ClassVar[str]
    """Name of the model file that `save` writes."""
    absent_value: ClassVar[float] = 0.0
    """Value that the library gives to the cells that a sparse row does not store."""
    metric_names: ClassVar[str] = ""
    """The library's parameters of metrics, separated by blanks."""
    refused_names: ClassVar[Mapping[str, str]]
    """Further parameters that are not allowed in `extra`, separated by blanks -> remedy."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # Not generic in the model's type: OmegaConf, which reads the fields, refuses generic dataclasses.
        self._model: Any = None
        self._refuse_without_effect()
        self._refuse_collisions()

    @classmethod
    @abstractmethod
    def library_error(cls) -> type[Exception]:
        """Returns the exception class of the library."""

    @abstractmethod
    def _boosted(
        self, train: RankingDataset, valid: RankingDataset | None, monitor: Monitor
    ) -> Boosted:
        """Fits a model."""

    @abstractmethod
    def _num_features(self, model: Any) -> int:
        """Returns the number of features of the model's training set."""

    @abstractmethod
    def _scores(self, model: Any, features: Features) -> NDArray[np.floating[Any]]:
        """Returns (D,) scores of (D, F) features, D > 0."""

    def _whole_form(self, features: AnyFeatures) -> Any | None:
        """Returns features in a form that `_scores` accepts; None: they are passed as dense blocks."""
        return array_or_csr(features, self.absent_value)

    @abstractmethod
    def _shap_values(
        self, model: Any, features: Features
    ) -> NDArray[np.float64] | None:
        """Returns (D, F + 1) contributions of (D, F) features, D > 0; None if the model has none."""

    @abstractmethod
    def _to_bytes(self, model: Any) -> bytes:
        """Returns the content of the model file."""

    @abstractmethod
    def _from_bytes(self, content: bytes) -> Any:
        """Returns the model, as the library reads it; the library raises its error."""

    @abstractmethod
    def library_parameters(self) -> dict[str, Any]: ...

    @abstractmethod
    def _departures(self) -> dict[str, bool]:
        """Returns the differences from the shared parameters: sentence -> whether it applies."""

    def _departure_from_defaults(self) -> str:
        """Returns, as the end of a sentence, the settings that differ from the library's defaults although no
        shared parameter is set."""
        return ""

    def _inapplicable(self) -> Collection[str]:
        """Returns the shared parameters that do not apply to the library or to the current settings."""
        chosen = self._chosen()

        def has_effect(spec: In) -> bool:
            needed = (spec.only_with or {}).items()
            for key, values in needed:
                if key in chosen and chosen[key] not in values:
                    return False
            return not spec.lacks

        return [name for name, spec in self._in_library() if not has_effect(spec)]

    def _chosen(self) -> dict[str, Any]:
        """Returns the settings that others depend on; None is not among them, because it fits any other."""
        return {
            name: str(value)
            for name, value in vars(self).items()
            if isinstance(value, str | Objective)
        }

    @property
    def _own_objective(self) -> Objective | None:
        """The objective, if it is not one of the library."""
        objective = getattr(self, "objective", None)
        return objective if isinstance(objective, Objective) else None

    def _gradients_of(
        self, train: RankingDataset
    ) -> Callable[[Scores, Any], Any] | None:
        """Returns the function from (D,) scores and a data set of the library to (D,) gradients and hessians;
        None if the objective is one of the library."""
        if self._own_objective is None:
            return None
        compute = prepare_objective(self._own_objective, train)
        rng = np.random.default_rng(self.seed)
        return lambda scores, _: compute(scores.astype(np.float64), None, rng)

    def _draws(self, without_seed: Collection[str]) -> bool:
        """Returns whether samples, the objective, or parameters of `extra` that are not among `without_seed`,
        may draw random numbers."""
        draws = self._own_objective is not None and self._own_objective.draws
        has_own_seed = self.extra.keys() <= set(without_seed)
        return draws or samples(self) or not has_own_seed

    def check_distributed(self) -> None:
        if self._own_objective is not None:
            raise ConfigError(
                f"objective is {self._own_objective}, but the distributed fit of {self.library} supports "
                "only its own objectives. Fit in one process with distributed=none, or use model=native."
            )

    @classmethod
    def _in_library(cls) -> Iterator[tuple[str, In]]:
        """Yields the settings that are parameters of the library; those of every ranker come last."""
        specs = list(in_library(cls, cls.library.lower()))
        yield from (item for item in specs if item[0] not in OF_EVERY_RANKER)
        yield from (item for item in specs if item[0] in OF_EVERY_RANKER)

    def _refuse_without_effect(self) -> None:
        """Raises ConfigError if a setting is set that the library lacks, or that has no effect."""
        for name, spec in self._in_library():
            if spec.lacks and getattr(self, name):
                raise ConfigError(
                    f"{name} is {getattr(self, name)}, but {self.library} has no {spec.lacks}. Set "
                    f"{name}=null."
                )
        check_effects(self, self._chosen(), self.library.lower())

    def _refuse_collisions(self) -> None:
        """Raises ConfigError if `extra` contains a parameter that a field or the adapter itself sets."""
        metrics = (
            f"{self.library}'s metrics are off, because ltrbench evaluates all backends with the same "
            "metrics; set metrics instead"
        )
        remedies = {self.metric_names: metrics, **self.refused_names}
        refused: dict[str, str] = {}
        for names, remedy in remedies.items():
            refused |= dict.fromkeys(names.split(), remedy)
        for field, spec in self._in_library():
            refused |= dict.fromkeys(
                spec.names.split(), f"set the field {field} instead"
            )
        for name in self.extra:
            if name in refused:
                raise ConfigError(f"extra.{name} cannot be set: {refused[name]}.")

    def _refuse_unknown(self, known: Collection[str]) -> None:
        """Raises ConfigError if `extra` contains a name that the library would silently ignore."""
        for name in self.extra:
            if name not in known and hasattr(self, name):
                raise ConfigError(
                    f"extra.{name} cannot be set: set the field {name} instead."
                )
            if name not in known:
                raise ConfigError(
                    f"extra.{name} has no effect in {self.library}{did_you_mean(name, known)} Use the main "
                    f"name from the documentation of {self.library}, not an alias."
                )

    def _findings_in(self, train: RankingDataset) -> Iterator[Finding]:
        """Yields the refusals and cautions about a training set."""
        yield from ()

    def _refused_labels(
        self, labels: Labels, wrong: NDArray[np.bool_], remedy: str
    ) -> Iterator[Finding]:
        """Yields a refusal of the first wrong label, if any.

        Args:
            wrong: (D,), True for labels that the library does not accept.
            remedy: end of the sentence: the accepted labels and the remedy.
        """
        for row in np.flatnonzero(wrong)[:1]:
            yield Finding(Severity.REFUSED, f"labels[{row}] is {labels[row]}; {remedy}")

    def _varying_weights(self, train: RankingDataset) -> Iterator[Finding]:
        """Yields a refusal if weights vary within a query: the library gets one weight per query."""
        if train.document_weights is None:
            return
        changes = np.diff(train.document_weights) * (
            np.diff(train.query_of_document) == 0
        )
        query = train.query_ids[train.query_of_document[np.flatnonzero(changes)[0]]]
        yield Finding(
            Severity.REFUSED,
            f"the documents of query {query} have different weights, but {self.library} gets one weight per "
            "query. Use equal weights within each query, or use model=lightgbm or model=native.",
        )

    @property
    def _threads(self) -> int:
        return resolve_threads(self.num_threads)

    @takes_tables
    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        refuse(self, train)
        monitor = self.monitor(valid, on_iteration)
        self._model, num_trees, num_iterations = self._boosted(train, valid, monitor)
        self.summary = FitSummary(num_trees, num_iterations, monitor.seconds)
        return self

    def _boost(
        self,
        grow: Callable[[int], int],
        scores_of: Callable[[DataT], Scores],
        train: DataT,
        valid: DataT | None,
        monitor: Monitor,
    ) -> int:
        """Grows trees until early stopping or `num_trees` ends the fit; returns the number of iterations run.

        Args:
            grow: runs iteration i, from 1, and returns the number of trees after it.
            scores_of: returns the current scores, (D,), of a data set of the library.
        """
        num_trees = 0
        for iteration in range(1, self.num_trees + 1):
            before = num_trees
            num_trees = grow(iteration)
            if not monitor.wants_scores or num_trees == before:
                continue
            train_scores = scores_of(train) if monitor.wants_train_scores else None
            valid_scores = None
            if valid is not None:
                valid_scores = scores_of(valid)
            if monitor.should_stop(num_trees, train_scores, valid_scores):
                return iteration
        return self.num_trees

    def predict(self, features: object) -> NDArray[np.floating[Any]]:
        model = check_fitted(self._model)
        features = check_blocks(features, self._num_features(model))
        if not len(features):
            return np.empty(0, dtype=self.score_dtype)
        whole = self._whole_form(features)
        if whole is not None:
            return self._scores(model, whole)
        scores = np.empty(len(features), dtype=self.score_dtype)
        for start, block in row_blocks(features):
            rows = slice(start, start + len(block))
            scores[rows] = self._scores(model, block)
        return scores

    def contributions(self, features: AnyFeatures) -> NDArray[np.float64] | None:
        model = check_fitted(self._model)
        num_features = self._num_features(model)
        features = check_blocks(features, num_features)
        contributions = np.empty((len(features), num_features + 1))
        for start, block in row_blocks(features):
            of_block = self._shap_values(model, block)
            if of_block is None:
                return None
            contributions[start : start + len(block)] = of_block
        return contributions

    def library_model(self) -> tuple[str, object]:
        return self.packages[0], check_fitted(self._model)

    def save(self, folder: Path) -> None:
        write_model(
            folder, self, self.model_file, self._to_bytes(check_fitted(self._model))
        )

    @classmethod
    def load(cls, folder: Path) -> Self:
        ranker, content = read_model(folder, cls, cls.model_file)
        try:
            ranker._model = ranker._from_bytes(content)
        except cls.library_error() as error:
            # The first line only, because a C++ stack trace may follow.
            reason = str(error).partition("\n")[0]
            raise ResultError(
                f"{folder / cls.model_file} is not a model that this version of {cls.library} can read "
                f"({reason}). {COPY_OR_FIT_AGAIN}."
            ) from None
        return ranker

    def warm_up(self) -> None:
        """Starts the library's threads with a fit and a prediction on 80 documents."""
        # 80 documents are enough for a split under the default parameters of every library.
        features = np.arange(80, dtype=np.float32).reshape(80, 1)
        labels = (features[:, 0] >= 40).astype(np.float64)
        query_start = np.array([0, 80])
        tiny = RankingDataset(features=features, labels=labels, query_start=query_start)
        own: Any = {}
        if self._own_objective is not None:
            own = {"objective": for_warm_up(self._own_objective)}
        ranker = type(self)(num_trees=1, num_threads=self.num_threads, **own)
        ranker.fit(tiny).predict(features)

    def findings(self, train: RankingDataset | None) -> Iterator[Finding]:
        for sentence in self._all_departures():
            yield Finding(Severity.UNMATCHED, sentence)
        if train is not None:
            yield from super().findings(train)
            yield from self._findings_in(train)

    def _all_departures(self) -> Iterator[str]:
        unset = unset_fields(self)
        defaults = f"{self.library}'s defaults are used"
        if unset == SHARED_FIELDS:
            yield f"{defaults} instead of the shared parameters{self._departure_from_defaults()}."
            if self._own_objective is not None:
                yield f"The objective is {self._own_objective}, not that of {self.library}."
            return
        left = [name for name in unset if name not in self._inapplicable()]
        if left:
            yield f"{defaults} for {', '.join(left)}."
        yield from (
            sentence for sentence, applies in self._departures().items() if applies
        )

    def _under_library_names(
        self, weight: float = 1.0, **implied: Any
    ) -> dict[str, Any]:
        """Returns the library's parameters for the settings; settings that are None are omitted.

        Args:
            weight: factor of the weights of the data, for the conversion to the units of the library's
                objectives.
            implied: settings that other settings imply, and those that depend on the machine.
        """
        values = {"num_threads": self._threads, **implied}
        parameters = {}
        for name, spec in self._in_library():
            value = values.get(name, getattr(self, name))
            if spec.names and spec.is_passed and value is not None:
                if (
                    spec.convert is not None
                    and name not in implied
                    and self._own_objective is None
                ):
                    value = spec.convert(value, weight)
                parameters[spec.names.split()[0]] = value
        return parameters

    def _monotone_signs(self, train: RankingDataset) -> dict[str, Any]:
        """Returns the library's parameter of the monotone constraints, F signs; empty without constraints.

        Raises:
            ConfigError: No feature has the name of a constraint, or it is categorical.
        """
        if not self.monotone:
            return {}
        # Imported here, because it needs numba.
        from ltrbench.native.splitting import monotone_signs

        signs = monotone_signs(train.feature_names, self.monotone, train.categories)
        return {"monotone_constraints": signs.tolist()}

    @contextlib.contextmanager
    def _refusing_extra(self) -> Iterator[None]:
        """Converts a library error to a ConfigError if `extra` is set: only the library can check `extra`."""
        try:
            yield
        except self.library_error() as error:
            if not self.extra:
                raise
            raise ConfigError(
                f"{self.library} refuses extra {self.extra}: {error}"
            ) from None


def unset_fields(ranker: BoostingRanker) -> tuple[str, ...]:
    """Returns the shared hyperparameters that keep the library's default."""
    return tuple(name for name in SHARED_FIELDS if getattr(ranker, name) is None)


def array_or_csr(features: AnyFeatures, absent: float) -> Any | None:
    """Returns an array as it is, and sparse rows with this absent value as SciPy's CSR; else None."""
    if not isinstance(features, FeatureMatrix):
        return features
    sparse = csr_of(features)
    if sparse is None or not np.array_equal(sparse.absent, absent, equal_nan=True):
        return None
    return sparse.to_scipy()


def written_names(
    feature_names: Sequence[str], forbidden: str = ""
) -> list[str] | None:
    """Returns the names of features for the library's model; None if they are numbers from 0 or 1, as in
    LETOR files, or have a forbidden character.

    >>> written_names(["bm25", "age"]), written_names(["1", "2"]), written_names(["bm25[title]"], "[]<")
    (['bm25', 'age'], None, None)
    """
    num_features = len(feature_names)
    numbers = (numbered(num_features), numbered(num_features, first=0))
    if tuple(feature_names) in numbers or set(forbidden) & set("".join(feature_names)):
        return None
    return list(feature_names)


def given(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters that are not None; a library uses its defaults for the others.

    >>> given({"eta": 0.2, "max_bin": None})
    {'eta': 0.2}
    """
    return {name: value for name, value in parameters.items() if value is not None}


def weights_of_documents(data: RankingDataset) -> NDArray[np.float64] | None:
    """Returns (D,) weights; None if the data have no weights, because libraries are faster without them."""
    return None if data.query_weights is None else data.weight_of_document


def write_model(folder: Path, ranker: Ranker, model_file: str, model: bytes) -> None:
    """Writes the library's model file, and the settings into `SETTINGS_FILE`."""
    (folder / model_file).write_bytes(model)
    objectives = {
        name: record_of(value)
        for name, value in vars(ranker).items()
        if isinstance(value, Objective)
    }
    settings = {
        "ranker": dataclasses.asdict(ranker) | objectives,
        "model_digest": model_digest(model),
    }
    # A setting may be a NumPy number, as from `np.arange`.
    text = json.dumps(settings, indent=2, default=lambda number: number.item())
    (folder / SETTINGS_FILE).write_text(text + "\n")


def folder_to_continue(start: str) -> Path:
    """Returns the folder of a saved model, given by itself or by its run folder; it may be absent."""
    folder = Path(start)
    if (folder / SETTINGS_FILE).exists():
        return folder
    return folder / "model"


def folders_to_continue(start: str | None) -> dict[str, Path]:
    """Returns `Ranker.folders_read` for the setting `warm_start`."""
    if start is None:
        return {}
    return {"warm_start": folder_to_continue(start)}


def model_to_continue(ranker: RankerT, train: RankingDataset) -> RankerT | None:
    """Returns the model of the setting `warm_start`, a saved model or that of a run folder; None without one.

    Raises:
        ResultError: the folder has no model of this class.
        DataError: the model was fitted on other features, categories or first days than the training set has.
    """
    start = vars(ranker)["warm_start"]
    if start is None:
        return None
    folder = folder_to_continue(start)
    if not (folder / SETTINGS_FILE).exists():
        raise ResultError(f"warm_start: {start} has no model. {OF_A_FINISHED_RUN}.")
    model = type(ranker).load(folder)
    of_train = (train.feature_names, train.categories)
    if (model.feature_names, model.categories) != of_train:
        raise DataError(
            f"warm_start: {folder} was fitted on other features ({len(model.feature_names)}) or other "
            f"categories than the training set has ({train.num_features} features). Continue with those of "
            "that model, in the same order, or fit without warm_start."
        )
    for name in sorted({*model.dates, *train.dates}):
        day = model.dates.get(name)
        if day != train.dates.get(name):
            raise DataError(
                f"warm_start: {folder} counts the days of {name} from {day}, but the training set from "
                f"{train.dates.get(name)}, so that equal numbers are different dates. Read the data with the "
                f"days of that model: dates={dict(model.dates)} (in a run data.dates)."
            )
    return model


def read_model(
    folder: Path, kind: type[RankerT], model_file: str
) -> tuple[RankerT, bytes]:
    """Reads the files written by `write_model`; returns the ranker with its settings and summary, and the
    content of the model file.

    Raises:
        ResultError: a file is missing, has changed, or belongs to another class of ranker.
    """
    settings = read_model_json(
        folder / SETTINGS_FILE, {"ranker": dict[str, Any], "model_digest": str}
    )
    try:
        ranker = _ranker_of(kind, settings["ranker"])
    except (TypeError, KeyError, ConfigError) as error:
        raise ResultError(
            f"{folder / SETTINGS_FILE} does not contain the settings of {kind.__name__} ({error}). Load the "
            "model with the backend and the version of ltrbench that saved it."
        ) from None
    model = read_bytes(folder / model_file, OF_A_FINISHED_RUN)
    if model_digest(model) != settings["model_digest"]:
        raise ResultError(
            f"{folder / model_file} differs from the saved model file: it was changed, or copied only in "
            f"part. {COPY_OR_FIT_AGAIN}."
        )
    return ranker, model


def _ranker_of(kind: type[RankerT], settings: Mapping[str, Any]) -> RankerT:
    fields = getattr(kind, "with_objective", dict)(settings)
    summary = fields.pop("summary")
    stopping = fields.pop("early_stopping", None)
    if isinstance(fields.get("objective"), Mapping):
        fields["objective"] = objective_of_record(fields["objective"])
    if error := type_error(fields, types_of(kind)):
        raise TypeError(error)
    # A metric is not checked: it may be a plug-in's, which only a fit needs.
    unchecked = {name: fields.pop(name) for name in kind.unchecked}
    if stopping is not None:
        rule = EarlyStopping(**{**stopping, "metric": EarlyStopping.metric})
        rule.metric = stopping["metric"]
        fields["early_stopping"] = rule
    ranker = kind(**fields)
    vars(ranker).update(unchecked)
    ranker.summary = None if summary is None else FitSummary(**summary)
    return ranker


def model_digest(model: bytes) -> str:
    return hashlib.blake2b(model, digest_size=16).hexdigest()
