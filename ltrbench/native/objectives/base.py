"""The form of an objective: one dataclass with its settings and one function to gradients and hessians.

To add an objective, derive a dataclass from `Objective` in a file of its own, here or in a module of yours,
and add conf/model/objective/NAME.yaml; docs/tasks/adding-an-objective.md has an example. `query_kernels.py`
compiles objectives that are a function of one query. This file does not import numba, because every ranker
imports it.

Shapes: D documents and Q queries, of which q are computed.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from types import FunctionType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, LtrbenchError, did_you_mean
from ltrbench.folders import conf_dir, settings_in
from ltrbench.measure import plain
from ltrbench.native.team import DocumentDraws, Placement
from ltrbench.settings import Check, changed, check, check_effects
from ltrbench.shapes import Gradients, Hessians, Labels, QueryStart, Values
from ltrbench.untrusted import type_error, types_of

# Indices of the queries to compute, ascending; None: all.
Queries = NDArray[np.int64] | None

PreparedObjective = Callable[
    [Values, Queries, DocumentDraws], tuple[Gradients, Hessians]
]
"""((D,) scores, queries to compute, random numbers) -> (D,) gradients and (D,) hessians, 0 outside these
queries. Each call is one iteration."""

LARGE = 1e6
"""Absolute score that only a fit that does not converge reaches, and above which values may overflow."""


class ObjectiveData(NamedTuple):
    """The data that an objective sees: whole queries, whose documents are adjacent rows.

    Attributes:
        labels: (D,).
        weights: (D,), weight of each document; a query weight is the weight of each of its documents.
        query_start: (Q + 1,), first row of each query, followed by D.
        queries: (Q,), number of each query in the whole training set, for random numbers.
    """

    labels: Labels
    weights: NDArray[np.float64]
    query_start: QueryStart
    queries: NDArray[np.int64]

    @classmethod
    def of(
        cls, data: RankingDataset, placement: Placement | None = None
    ) -> ObjectiveData:
        """Returns the data of all queries of a data set, which may be a part of the whole training set."""
        numbers = (
            np.arange(data.num_queries) if placement is None else placement.queries
        )
        # Copies, because kernels are compiled again for read-only arrays.
        labels = data.labels.copy()
        weights = data.weight_of_document.copy()
        return cls(labels, weights, data.query_start.copy(), numbers)

    def take(
        self, queries: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], ObjectiveData]:
        """Returns the rows and the data of the queries with these indices."""
        starts = self.query_start[queries]
        ends = self.query_start[queries + 1]
        sizes = ends - starts
        query_start = np.append(0, np.cumsum(sizes))
        first_rows = starts - query_start[:-1]
        rows = np.arange(query_start[-1]) + np.repeat(first_rows, sizes)
        numbers = self.queries[queries]
        data = ObjectiveData(
            self.labels[rows], self.weights[rows], query_start, numbers
        )
        return rows, data


@dataclass(kw_only=True)
class Objective(ABC):
    """An objective: settings, and the function from scores to gradients and hessians.

    Settings are fields with a string below each, declared with `ltrbench.settings.setting`. Random numbers
    must be a function of (seed, number of the query in `data.queries`, index), as those of
    `query_kernels.draw`, so that a model depends neither on threads nor on workers.
    """

    has_pairs: ClassVar[bool] = False
    """Whether `truncation`, a parameter of rankers, limits the pairs of the objective."""
    source: ClassVar[str] = ""
    """Publication or code that defines the objective."""

    @property
    def is_loss(self) -> bool:
        """Whether the gradients are the derivative of `loss`, as those of a class are that defines `loss` or
        `loss_of_query`; otherwise they are lambdas."""
        kind = type(self)
        return (kind.loss, kind.loss_of_query) != (
            Objective.loss,
            Objective.loss_of_query,
        )

    @property
    def draws(self) -> bool:
        """Whether these settings use random numbers; a subclass may write `draws = True` instead."""
        return False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if is_ours(cls):
            return
        for name in ("__post_init__", "check", "gradients", "loss", "loss_of_query"):
            method = vars(cls).get(name)
            if isinstance(method, FunctionType):
                setattr(cls, name, _with_place_of_errors(method, cls))

    def __post_init__(self) -> None:
        check(self)
        settings = vars(self).items()
        words = {name: value for name, value in settings if isinstance(value, str)}
        check_effects(self, words)

    def check(self, labels: Labels, query_start: QueryStart) -> None:  # noqa: B027 - most accept all labels
        """Raises DataError for labels that the objective does not accept, with value, place and remedy."""

    def data_of_iteration(
        self, data: ObjectiveData, rng: DocumentDraws
    ) -> ObjectiveData:
        """Returns the data of the next iteration: xendcg randomises labels, by draws older than `seed`."""
        return data

    @abstractmethod
    def gradients(
        self, scores: Values, data: ObjectiveData, seed: int
    ) -> tuple[Gradients, Hessians]:
        """Returns the (D,) gradients and (D,) hessians, with weights.

        Args:
            scores: (D,).
            seed: seed of the random numbers of this iteration, at least 0; 0 if `draws` is false.
        """

    def loss(self, scores: Values, data: ObjectiveData, seed: int) -> float:
        """Returns the loss of all queries, which model=linear minimises; other rankers do not need it."""
        total = 0.0
        for number, query in enumerate(data.queries):
            rows = slice(data.query_start[number], data.query_start[number + 1])
            labels = data.labels[rows]
            weights = data.weights[rows]
            total += self.loss_of_query(scores[rows], labels, weights, seed, query)
        return total

    def loss_of_query(
        self, scores: Values, labels: Labels, weights: Values, seed: int, query: int
    ) -> float:
        """Returns the loss of one query of n documents, whose number is `query`; arrays are (n,)."""
        raise NotImplementedError(f"{type(self).__name__} has no loss.")

    def __str__(self) -> str:
        settings = [
            f"{name}={getattr(self, name)}" for name in changed(self, type(self))
        ]
        name = type(self).__name__
        return f"{name}({', '.join(settings)})" if settings else name


def is_ours(kind: type[Objective]) -> bool:
    """Returns whether a class is one of ltrbench; the errors of others are those of the user."""
    return kind.__module__.startswith("ltrbench.")


def _with_place_of_errors(
    method: FunctionType, kind: type[Objective]
) -> Callable[..., Any]:
    """Returns a method of a class outside ltrbench whose errors are ConfigErrors with file and line."""

    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except LtrbenchError:
            raise
        except Exception as error:
            file = method.__code__.co_filename
            number = method.__code__.co_firstlineno
            frames = traceback.extract_tb(error.__traceback__)
            for frame in frames:
                if frame.filename == file and frame.lineno is not None:
                    number = frame.lineno
            place = f"{file}:{number}"
            # Errors of numba are several paragraphs, with colours, and name the line of the compiled code.
            text = re.sub(
                r"\x1b\[[\d;]*m|Failed in nopython mode .*\n", "", str(error)
            ).strip()
            # For an unknown name numba knows only the line in query_kernels.py.
            if compiled := re.search(
                r'File "((?!.*query_kernels).+)", line (\d+):', text
            ):
                place = f"{compiled[1]}:{compiled[2]}"
            first_line = "".join(text.splitlines()[:1])
            what = f"{kind.__name__}.{method.__name__} failed at {place}"
            raise ConfigError(
                f"{what}: {type(error).__name__}: {first_line}. Correct {kind.__module__}."
            ) from error

    return call


def prepare_objective(
    objective: Objective, train: RankingDataset, placement: Placement | None = None
) -> PreparedObjective:
    """Returns an objective for a data set.

    Args:
        placement: where the queries are in the whole training set; None: they are all.

    Raises:
        DataError: The objective is not defined for the labels.
    """
    objective.check(train.labels, train.query_start)
    everything = ObjectiveData.of(train, placement)

    def compute(
        scores: Values, queries: Queries, rng: DocumentDraws
    ) -> tuple[Gradients, Hessians]:
        seed = 0
        if objective.draws:
            seed = int(rng.integers(2**63 - 1))
        rows = np.arange(len(scores))
        data = everything
        if not is_ours(type(objective)):
            # A copy, so that a class that changes it does not change later iterations.
            data = deepcopy(everything)
        data = objective.data_of_iteration(data, rng)
        if queries is None:
            computed = objective.gradients(scores.copy(), data, seed)
            g, h = _checked(objective, computed, train, rows, scores)
            return g, h
        rows, data = data.take(queries)
        both = np.zeros((2, len(scores)))
        computed = objective.gradients(scores[rows], data, seed)
        both[:, rows] = _checked(objective, computed, train, rows, scores)
        return both[0], both[1]

    return compute


def _checked(
    objective: Objective,
    computed: object,
    train: RankingDataset,
    rows: NDArray[np.int64],
    scores: Values,
) -> NDArray[np.float64]:
    """Returns gradients and hessians; raises ConfigError if they have a wrong shape or value."""
    kind = type(objective)
    both = _two_arrays(kind, computed, len(rows))
    is_right = np.isfinite(both)
    is_right[1] &= both[1] >= 0.0
    if is_right.all():
        return both
    part, place = np.argwhere(~is_right)[0]
    row = int(rows[place])
    value = f"{('gradient', 'hessian')[part]} {both[part, place]}"
    query = train.query_ids[train.query_of_document[row]]
    score = np.abs(scores).max()
    remedy = f"Correct {kind.__module__}"
    if is_ours(kind) or not score < LARGE:
        remedy = (
            f"Scores reach {score:g}, labels {train.labels.max():g}: lower learning_rate, set "
            "max_delta_step or l2, or scale the labels"
        )
    raise ConfigError(
        f"{kind.__name__}.gradients returned the {value} for row {row} (query {query}, label "
        f"{train.labels[row]:g}), but gradients must be finite, and hessians not negative. {remedy}."
    )


def _two_arrays(
    kind: type[Objective], computed: object, num_rows: int
) -> NDArray[np.float64]:
    """Returns gradients and hessians as (2, n); raises ConfigError if they are not two arrays of numbers."""
    arrays = []
    if isinstance(computed, tuple):
        arrays = [np.asarray(part) for part in computed]
    are_numbers = all(array.dtype.kind in "biuf" for array in arrays)
    shapes = [array.shape for array in arrays]
    if not are_numbers or shapes != [(num_rows,), (num_rows,)]:
        described = [f"{array.dtype} {array.shape}" for array in arrays]
        returned = " and ".join(described) or type(computed)
        raise ConfigError(
            f"{kind.__name__}.gradients returned {returned}, but must return two arrays of numbers, "
            f"gradients and hessians, of the shape ({num_rows},), one value per document. Correct "
            f"{kind.__module__}."
        )
    return np.array(arrays, dtype=np.float64)


@dataclass(kw_only=True)
class UnknownObjective(Objective):
    """Objective of a saved model whose module is not imported: the model predicts, but cannot be fitted."""

    recorded: dict[str, Any]
    """As `record_of` returns it."""

    source = "a saved model"

    def gradients(
        self, scores: Values, data: ObjectiveData, seed: int
    ) -> tuple[Gradients, Hessians]:
        target = self.recorded["_target_"]
        raise ConfigError(
            f"the objective of this model is {target}, which only you may import. Import its module before "
            "you load the model."
        )


def record_of(objective: Objective) -> Any:
    """Returns the class and the settings of an objective as JSON values, for `objective_of_record`."""
    if isinstance(objective, UnknownObjective):
        return objective.recorded
    return plain(objective)


def objective_of_record(recorded: Mapping[str, Any]) -> Objective:
    """Returns the objective of a saved model; only modules of ltrbench are imported.

    Raises:
        TypeError, KeyError, ConfigError: It is not the record of an objective.
    """
    settings = dict(recorded)
    module, _, name = str(settings.pop("_target_")).rpartition(".")
    if module.startswith(f"{__package__}."):
        importlib.import_module(module)
    kind = getattr(sys.modules.get(module), name, None)
    if not (isinstance(kind, type) and issubclass(kind, Objective)):
        return UnknownObjective(recorded=dict(recorded))
    if error := type_error(settings, types_of(kind)):
        raise TypeError(f"{name}: {error}")
    return kind(**settings)


@functools.cache
def yamls() -> dict[str, dict[str, Any]]:
    """Returns name -> settings of each YAML in conf/model/objective."""
    names = sorted(path.stem for path in conf_dir().glob("model/objective/[a-z]*.yaml"))
    return {name: settings_in("model/objective", name) for name in names}


def name_or_objective(*names: str) -> Check:
    """Returns the check of a setting that is one of these names or an `Objective`; the name of a YAML in
    conf/model/objective, and the record of an objective, are replaced by the objective."""

    def read(setting: str, value: object) -> Any:
        if isinstance(value, Objective) or value in names:
            return None
        if isinstance(value, Mapping):
            return objective_of_record(value)
        if isinstance(value, type):
            raise ConfigError(
                f"{setting} is a class; pass an instance, {setting}={value.__name__}()."
            )
        without_yaml = ("none", "custom", *names)
        every = [*names, *(name for name in yamls() if name not in without_yaml)]
        if value not in every:
            hint = did_you_mean(str(value), every)
            raise ConfigError(
                f"{setting} is '{value}'{hint} It must be "
                f"{', '.join(every)}, or an Objective, whose settings belong to model/objective=NAME."
            )
        return objective_of_record(yamls()[str(value)])

    return read
