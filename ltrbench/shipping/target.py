"""The contract of a target: an engine or library that a model is shipped to.

A target is one file in `targets` with the name of the target: a dataclass that derives from `Target`, whose
fields are its options. It writes files (`export`) and returns an `Engine`, which scores documents with these
files as the engine does. For a server, it also writes requests with which the deployed model scores rows
(`check_requests`), and reads the answers (`answered_scores`).
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, get_origin

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.features import AnyFeatures, row_blocks
from ltrbench.errors import ConfigError, did_you_mean, require_choice
from ltrbench.models.networks import Network
from ltrbench.models.trees import (
    LARGEST_ZERO,
    Ensemble,
    flat,
    leaves_of,
    sends_zero_left,
    splits_of,
    used_features,
)
from ltrbench.models.xgboost_files import divides_by_presence
from ltrbench.shapes import Features
from ltrbench.untrusted import read_json, types_of, validation_error

ScoreFunction = Callable[[Features], NDArray[np.floating[Any]]]
"""(D, F) float32 features, with NaN for missing values -> (D,) scores."""

# ---- The model that is shipped. F features.


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
        scorer: trees, weights or a network.
        has_missing_values: whether the training data have missing values; None: unknown.
        categories: categorical feature -> its categories, in the order of their codes.
        dates: feature of dates -> the day from which its days are counted.
        encoded: one-hot encoded column -> its categories, each of which is a feature.
        refuses_missing: whether the model has no scores for documents with missing values.
    """

    name: str
    feature_names: tuple[str, ...]
    scorer: Ensemble | Linear | Network
    has_missing_values: bool | None = False
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dates: Mapping[str, str] = field(default_factory=dict)
    encoded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    refuses_missing: bool = False

    @property
    def num_features(self) -> int:
        return len(self.feature_names)

    @property
    def indices(self) -> dict[str, int]:
        """Name of each feature -> its index."""
        return {name: index for index, name in enumerate(self.feature_names)}

    @property
    def is_listwise(self) -> bool:
        """Whether scores depend on the other documents of the query: the engine scores a query at a time."""
        return isinstance(self.scorer, Network) and self.scorer.layers.context != "none"

    def trees(self, target: str) -> Ensemble:
        """Returns the trees.

        Raises:
            ConfigError: The model is linear or a network, which the target cannot hold.
        """
        if isinstance(self.scorer, Network):
            raise ConfigError(
                f"{self.name} is a neural network, which {target} cannot hold. Choose the target onnx, the "
                "verb serve, or a run of a tree model."
            )
        if isinstance(self.scorer, Linear):
            raise ConfigError(
                f"{self.name} is a linear model, which {target} cannot hold. Choose the target "
                "elasticsearch, opensearch, solr or vespa, or a run of a tree model."
            )
        return self.scorer


def form_for(
    model: ShippedModel, form: str | None, *, of_linear: str, of_trees: str
) -> str:
    """Returns the option `form` of a target, or if it is None the default for the model.

    Raises:
        ConfigError: The form is for trees, and the model is linear, or the other way round.
    """
    is_linear = isinstance(model.scorer, Linear)
    of_model = of_linear if is_linear else of_trees
    chosen = form or of_model
    if is_linear != (chosen == of_linear):
        kind = "linear model" if is_linear else "model of trees"
        raise ConfigError(
            f"form is '{chosen}', but {model.name} is a {kind}. Remove the option form."
        )
    return chosen


# ---- Kinds of values that an engine may treat in another way than the model, see `Export.limits`.

MISSING_VALUES = "missing"
ZERO_VALUES = "zero"
TINY_VALUES = "tiny"
INFINITE_VALUES = "infinite"
"""Kinds of values. Tiny values are those beside 0 of at most `LARGEST_ZERO` in absolute value."""
LARGEST_VALUES = "largest float32"
"""Kind of values above `_HUGE` in absolute value, whose products with weights float32 may not hold."""
_HUGE = 1e30
ABSENT_ZEROS = "absent zero"
"""Kind of rows in which the engine has no value for the features that are 0."""

NEGATIVE_SCORES = "negative score"
"""Kind of documents with a negative score, see `Export.negative_scores`."""

_IS_OF_KIND: Final[Mapping[str, Callable[[Features], NDArray[np.bool_]]]] = {
    MISSING_VALUES: np.isnan,
    TINY_VALUES: lambda values: (np.abs(values) <= LARGEST_ZERO) & (values != 0),
    INFINITE_VALUES: np.isinf,
    LARGEST_VALUES: lambda values: np.abs(values) > _HUGE,
}


def features_read(scorer: Ensemble | Linear | Network) -> list[int]:
    """Returns the features that scores depend on, ascending."""
    if isinstance(scorer, Network):
        return list(range(len(scorer.arrays["input.mean"])))
    if isinstance(scorer, Linear):
        return [int(feature) for feature in np.flatnonzero(scorer.weights)]
    return used_features(scorer)


def has_values(
    kinds: Iterable[str], scorer: Ensemble | Linear | Network, features: AnyFeatures
) -> NDArray[np.bool_]:
    """Returns (D,), whether a document has a value of one of the kinds in a feature that scores depend on."""
    used = features_read(scorer)
    conditions = [_IS_OF_KIND[kind] for kind in kinds]
    is_met = np.zeros(len(features), dtype=np.bool_)
    for start, block in row_blocks(features):
        for condition in conditions:
            is_met_in_block = condition(block[:, used]).any(axis=1)
            is_met[start : start + len(block)] |= is_met_in_block
    return is_met


def limits_of_infinity(ensemble: Ensemble) -> dict[str, str]:
    """Returns the limit of formats whose thresholds are finite: a split needs an infinite one."""
    if not divides_by_presence(ensemble):
        return {}
    return {
        INFINITE_VALUES: "A split of the model separates missing values from all others. The format has no "
        "infinite thresholds and sends an infinite value to the missing ones. Use finite values."
    }


def limits_of_weights(weights: NDArray[np.float64]) -> dict[str, str]:
    """Returns the limits of engines that score linear models in float32, with 0 for missing values."""
    missing = "A missing value counts as 0 in every engine, but the linear model gives it another score."
    largest = f"Scores of values above {_HUGE:g} may be infinite in float32. Use smaller units."
    limits = {MISSING_VALUES: missing}
    if np.abs(weights).sum() > 1:
        limits[LARGEST_VALUES] = largest
    return limits


def limits_with_missing_as_zero(ensemble: Ensemble, sentence: str) -> dict[str, str]:
    """Returns the limit of an engine in which a missing value is 0, if a split sends it to another side.

    Args:
        sentence: what the user can do.
    """
    for split in splits_of(ensemble):
        zero_left = sends_zero_left(split, ensemble.comparison)
        if not split.zero_missing and split.missing_left != zero_left:
            return {MISSING_VALUES: sentence}
    return {}


# ---- What a target writes, and the evaluator of its engine.


@dataclass(frozen=True)
class Export:
    """The files of a converted model.

    Attributes:
        files: name -> content; the model file is the first.
        request: how to upload it: a curl line, or the command or code that loads it.
        offset: what the engine's scores are above the original scores, for all documents.
        notes: sentences for the README of the folder.
        limits: kind of value -> sentence: values that the engine cannot treat as the model does. Only a
            model whose data has such values is refused for them.
        zeros_may_be_absent: whether the engine may have no value for a feature that is 0 in the training
            data. The certificate then also scores the data with missing values in place of zeros.
        negative_scores: what the user can do if the model has negative scores, which the engine does not
            allow; empty if it allows them, or the model has none.
    """

    files: Mapping[str, bytes]
    request: str
    offset: float = 0.0
    notes: tuple[str, ...] = ()
    limits: Mapping[str, str] = field(default_factory=dict)
    zeros_may_be_absent: bool = False
    negative_scores: str = ""


@dataclass(frozen=True)
class Engine:
    """An evaluator of a converted model.

    Attributes:
        scores: returns the scores of documents.
        name: the engine, such as "Elasticsearch Learning to Rank".
        version: version of the installed package; empty for a simulator.
        score_dtype: dtype in which the engine sums.
        leaf_dtype: dtype to which it rounds the weighted leaf values; None: `score_dtype`.
        is_in_order: whether it adds the initial score, the trees in their order and the offset, so that its
            scores are known to the last bit.
        reads_float64: whether it compares float64 features; otherwise they are float32.
    """

    scores: ScoreFunction
    name: str
    version: str = ""
    score_dtype: str = "float64"
    leaf_dtype: str | None = None
    is_in_order: bool = True
    reads_float64: bool = False

    @property
    def is_simulated(self) -> bool:
        return not self.version

    def record(self) -> dict[str, Any]:
        """Returns the entry of certificate.json."""
        evaluator = f"{self.name} {self.version}"
        if self.is_simulated:
            evaluator = f"simulator of {self.name}"
        return {
            "evaluator": evaluator,
            "is_simulated": self.is_simulated,
            "score_dtype": self.score_dtype,
        }

    def received(self, features: Features) -> Features:
        """Returns features as the engine has them."""
        if self.reads_float64:
            return features
        return np.asarray(features, dtype=np.float32)


# ---- Scores in the arithmetic of an engine, as its source code computes them. D documents, F features.
#
# To simulate an engine, read its file as an `Ensemble` or `Weights`, and state its `Arithmetic`. The file of
# the target names the sources of the engine, with repository, file and commit.

Dtype = Literal["float32", "float64"]
Weights = Mapping[int, float]
"""Feature -> weight of a linear model, in the order of the sum."""


@dataclass(frozen=True)
class Arithmetic:
    """How an engine computes scores.

    Attributes:
        comparison: a value goes left if it is at most the threshold (`<=`), or smaller (`<`).
        dtype: of thresholds, leaf values and weights.
        product: dtype of a leaf value times the weight of its tree.
        sum: dtype of the score, which starts with 0 and is rounded after each tree.
        missing: what a missing value does: "side": goes where the split says; "right"; "zero": counts as 0.
        shift: number that is added to each threshold, in `dtype`.
        order: number of trees -> the trees in the order of the sum.
        units: feature -> number by which its values are divided, in float32.
    """

    comparison: Literal["<=", "<"]
    dtype: Dtype = "float32"
    product: Dtype = "float32"
    sum: Dtype = "float32"
    missing: Literal["side", "right", "zero"] = "side"
    shift: float = 0.0
    order: Callable[[int], Iterable[int]] = range
    units: Mapping[int, float] = field(default_factory=dict)

    def scores(
        self, model: Ensemble | Weights, features: Features
    ) -> NDArray[np.floating[Any]]:
        """Returns the (D,) scores of (D, F) features by trees or weights; NaN is a missing value."""
        values = features.copy()
        with np.errstate(over="ignore"):
            for feature, unit in self.units.items():
                values[:, feature] /= unit
        if self.missing == "zero":
            values = np.where(np.isnan(values), np.float32(0), values)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if isinstance(model, Ensemble):
                return self._sums(model, values)
            return self._products(model, values)

    def _sums(self, ensemble: Ensemble, values: Features) -> NDArray[np.floating[Any]]:
        dtype = np.dtype(self.dtype).type
        product = np.dtype(self.product).type
        scores = np.zeros(len(values), dtype=self.sum)
        for number in self.order(len(ensemble.trees)):
            tree = flat(ensemble.trees[number].root)
            threshold = tree.threshold.astype(dtype) + dtype(self.shift)
            missing_left = tree.missing_left & (self.missing != "right")
            tree = tree._replace(
                threshold=threshold.astype(np.float64), missing_left=missing_left
            )
            leaves = leaves_of(tree, values, self.comparison, self.dtype)
            weight = product(ensemble.trees[number].weight)
            products = tree.value.astype(dtype).astype(product) * weight
            scores = (scores + products[leaves]).astype(self.sum)
        return scores

    def _products(
        self, weights: Weights, values: Features
    ) -> NDArray[np.floating[Any]]:
        dtype = np.dtype(self.sum).type
        scores = np.zeros(len(values), dtype=dtype)
        for feature, weight in weights.items():
            scores += dtype(weight) * values[:, feature].astype(dtype)
        return scores

    def engine(self, model: Ensemble | Weights, name: str, **fields: Any) -> Engine:
        """Returns a simulator of an engine, from trees or weights that were read from its file.

        Args:
            fields: further fields of the engine.
        """
        return Engine(partial(self.scores, model), name, score_dtype=self.sum, **fields)


RANKLIB_ARITHMETIC: Final = Arithmetic("<=", product="float64", missing="zero")
"""How RankLib computes scores, also inside the plug-ins of Elasticsearch and OpenSearch."""


# ---- Rows that a deployed engine scores, and the contract of a target.


@dataclass(frozen=True)
class CheckRows:
    """Rows with expected scores, which a deployed engine scores again. n rows, F features.

    Attributes:
        ids: n different ids of letters, digits and hyphens.
        features: (n, F) float32, with NaN for missing values.
        columns: features whose values a request has: all, or of very many those that the model reads.
        scores: (n,) expected scores, with the offset of the export.
    """

    ids: tuple[str, ...]
    features: Features
    columns: tuple[int, ...]
    scores: NDArray[np.float64]

    def values(self) -> Iterator[tuple[str, dict[int, float]]]:
        """Yields each id with feature -> value of the values that are not missing."""
        for identity, row in zip(self.ids, self.features, strict=True):
            present = [index for index in self.columns if not np.isnan(row[index])]
            yield identity, {index: float(row[index]) for index in present}

    def where(self, is_kept: NDArray[np.bool_]) -> CheckRows:
        """Returns the rows with True in (n,) booleans."""
        ids = tuple(itertools.compress(self.ids, is_kept))
        features = self.features[is_kept]
        return CheckRows(ids, features, self.columns, self.scores[is_kept])

    def without(
        self, is_met: NDArray[np.bool_], reason: str
    ) -> tuple[CheckRows, dict[str, str]]:
        """Returns the rows with False in (n,) booleans, and id -> reason of the other rows."""
        left_out = {
            self.ids[index]: reason for index in np.flatnonzero(is_met).tolist()
        }
        return self.where(~is_met), left_out

    def finite(self) -> tuple[CheckRows, dict[str, str]]:
        """Returns the rows that JSON can hold, and id -> reason of the other rows."""
        values = self.features[:, self.columns]
        is_infinite = np.asarray(np.isinf(values).any(axis=1))
        return self.without(
            is_infinite, "an infinite value, which is no number of JSON"
        )


@dataclass(frozen=True)
class CheckRequests:
    """Requests with which a deployed engine scores rows.

    Attributes:
        files: name -> content.
        commands: lines for a shell, which write the answer of the engine to the file `answers`.
        notes: sentences for the README of the folder.
        left_out: id -> reason: rows that are in no request, because the engine cannot hold a value.
        cleanup: lines that remove again what the commands created.
        answers: file that `ship --check` reads.
    """

    files: Mapping[str, bytes]
    commands: Sequence[str]
    notes: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    cleanup: Sequence[str] = ()
    answers: str = "answers.json"


class Target(ABC):
    """An engine or library that a model is shipped to."""

    name: ClassVar[str]
    """Name in `--to`."""
    verified_against: ClassVar[str] = (
        "the installed version, which scores the files here and in the tests"
    )
    """The engine whose scores the evaluator must have: for a simulator, its versions and the date."""
    setting = "--set"
    """What the user sets options with: `--set` of the verb ship, or the setting `target`."""
    holds_categories: ClassVar[bool] = False
    """Whether the format has splits that send a set of categories to one side."""
    holds_networks: ClassVar[bool] = False
    """Whether the format holds neural networks."""
    hits: ClassVar[tuple[str, str, str, str] | None] = None
    """Two names of the objects around the list of hits in the answer of a search, and the names of the id and
    the score in a hit; None: the answer is an object of scores."""

    @abstractmethod
    def export(self, model: ShippedModel) -> Export:
        """Returns the files of the converted model.

        Raises:
            ConfigError: The format cannot hold the model.
        """

    @abstractmethod
    def engine(self, model: ShippedModel, export: Export) -> Engine | None:
        """Returns an evaluator that reads the written files, not the model; None: not verified.

        Raises:
            ImportError: The package that evaluates the files is not installed; the message names the extra.
        """

    def check_requests(
        self, model: ShippedModel, export: Export, rows: CheckRows
    ) -> CheckRequests | None:
        """Returns the requests with which the deployed engine scores rows; None: the user calls a library."""
        return None

    def with_option(self, option: str, value: str) -> str:
        """Returns how the user sets an option of this target, for messages."""
        if self.setting == "--set":
            return f"--set {option}={value}"
        return f"'{self.setting}={{name: {self.name}, {option}: {value}}}'"

    def read_answers(self, path: Path) -> Any:
        """Returns the content of the file with which the deployed engine answered: JSON.

        Raises:
            ResultError: The file cannot be read.
            ValueError: It is not an answer.
        """
        return read_json(path, "Ask the engine again")

    def answered_scores(self, answers: Any) -> Mapping[str, float]:
        """Returns document id -> score from the answer of the deployed engine, as `read_answers` returns it:
        the hits of a search, or an object of scores.

        Raises:
            ValueError: It is not such an answer.
        """
        if self.hits and isinstance(answers, dict):
            outer, *_ = self.hits
            if isinstance(answers.get(outer), dict):
                answers = _scores_of_hits(answers, self.hits)
        if not isinstance(answers, dict):
            raise ValueError("expected an object with a score for each document id")
        kinds = {type(value) for value in answers.values()}
        if not kinds <= {int, float}:
            raise ValueError("expected an object with a score for each document id")
        return {str(name): float(value) for name, value in answers.items()}


def parsed_version(version: str, engine: str, example: str) -> tuple[int, int]:
    """Returns the first two numbers of the version of an engine.

    Args:
        engine: name of the engine in the message.
        example: a version for the message.

    Raises:
        ConfigError: It is not a version.
    """
    numbers = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})(\.[0-9]{1,3})?", version)
    if not numbers:
        raise ConfigError(
            f"version is '{version}', not a version of {engine} such as {example}."
        )
    return int(numbers[1]), int(numbers[2])


def check_names(
    library: str, written: Sequence[str], names: Sequence[str] | None
) -> None:
    """Raises ConfigError if a library reads other names of features than were written.

    Args:
        names: as the library returns them; None: it has none.
    """
    for before, after in itertools.zip_longest(written, names or ()):
        if before != after:
            raise ConfigError(
                f"{library} reads the name of the feature {before!r} as {after!r}. Rename the feature in the "
                "data, and train again."
            )


def curl(method: str, url: str, data: str, content: str = "json") -> str:
    """Returns the command that sends data to a server.

    Args:
        data: the data, or "@" and the name of a file.
        content: type of the content.
    """
    header = f"-H 'Content-Type: application/{content}'"
    return f'curl --fail-with-body -X {method} "{url}" {header} --data-binary {data}'


def json_file(record: Any) -> bytes:
    """Returns the content of a file of an export."""
    return (
        json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    ).encode()


# ---- Finds and builds the target of a name: the class in the file of that name in `targets`.


_TARGETS = "ltrbench.shipping.targets"


def target_names() -> list[str]:
    """Returns the names of all targets, sorted; no target is imported."""
    # Targets import this module, which therefore finds them by name.
    folders = importlib.import_module(_TARGETS).__path__
    return sorted(module.name for module in pkgutil.iter_modules(folders))


def _scores_of_hits(
    answers: Mapping[str, Any], keys: tuple[str, str, str, str]
) -> dict[str, Any]:
    """Returns id -> score of the hits of a search, whose keys are those of `Target.hits`."""
    outer, inner, identity, score = keys
    try:
        return {str(hit[identity]): hit[score] for hit in answers[outer][inner]}
    except (KeyError, TypeError):
        names = f"{outer}.{inner} with {identity} and {score}"
        raise ValueError(f"expected {names} of each hit") from None


def find_target(name: str, setting: str = "--to") -> type[Target]:
    """Returns the class of a target.

    Args:
        setting: option or setting with the name, for messages.

    Raises:
        ConfigError: There is no target of that name, or the package that it needs is not installed.
    """
    require_choice(setting, name, target_names())
    try:
        module = importlib.import_module(f"{_TARGETS}.{name}")
    except ImportError as error:
        # An error in the package, not a missing extra.
        if (error.name or "").startswith("ltrbench"):
            raise
        raise ConfigError(f"{setting} {name}: {error}") from error
    classes = [item for item in vars(module).values() if inspect.isclass(item)]
    targets = [item for item in classes if issubclass(item, Target)]
    return next(item for item in targets if item.__module__ == module.__name__)


def takes_text(target_class: type[Target], option: str) -> bool:
    """Returns whether the values of an option are texts, also those that look like numbers."""
    declared = types_of(target_class).get(option)
    return declared is str or get_origin(declared) is Literal


def build_target(
    name: str, options: Mapping[str, Any], setting: str = "--set"
) -> Target:
    """Returns a target with options: fields of its class.

    Args:
        setting: option or setting with the options, for messages.

    Raises:
        ConfigError: There is no such target or option, or a value has the wrong type.
    """
    # A dataclass, by the contract.
    target_class: Any = find_target(name, "--to" if setting == "--set" else setting)
    types = {
        item.name: types_of(target_class)[item.name] for item in fields(target_class)
    }
    for option, value in options.items():
        if option not in types:
            close = did_you_mean(option, types)
            known = ", ".join(types) or "none"
            raise ConfigError(
                f"{setting} {option}: {name} has no such option{close} Options: {known}."
            )
        if reason := validation_error(value, types[option], option):
            raise ConfigError(f"{setting} {reason}.")
    target: Target = target_class(**options)
    vars(target)["setting"] = setting  # a target may be a frozen dataclass
    return target
