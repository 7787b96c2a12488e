"""The contract of a target: an engine or library that a model is shipped to.

A target is one file in `targets`: a dataclass that derives from `Target`, whose fields are its options. It
writes files (`export`) and returns an `Engine`, which scores documents with these files as the engine does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ltrbench.shapes import Features
from ltrbench.shipping.model import ShippedModel

MISSING_VALUES, ZERO_VALUES, TINY_VALUES, INFINITE_VALUES = "missing", "zero", "tiny", "infinite"
"""Kinds of values that an engine may treat in another way than the model, see `Export.limits`. Tiny
values are those beside 0 of at most `trees.LARGEST_ZERO` in absolute value."""


@dataclass(frozen=True)
class Rule:
    """A rule of an engine's evaluator that decides scores, with its source.

    Attributes:
        sentence: the rule, such as "A value goes left if it is smaller than the threshold."
        source: repository, file and commit in which it was read.
    """

    sentence: str
    source: str


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
    """

    files: Mapping[str, bytes]
    request: str
    offset: float = 0.0
    notes: tuple[str, ...] = ()
    limits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Engine:
    """An evaluator of a converted model.

    Attributes:
        scores: (D, F) float32 features, with NaN for missing values -> (D,) scores.
        name: the engine, such as "Elasticsearch Learning to Rank".
        version: version of the installed package; empty for a simulator.
        rules: what a simulator follows, with sources; empty for the engine itself.
        score_dtype: dtype in which the engine sums.
    """

    scores: Callable[[Features], NDArray[np.floating[Any]]]
    name: str
    version: str = ""
    rules: tuple[Rule, ...] = ()
    score_dtype: str = "float64"

    @property
    def is_simulated(self) -> bool:
        return not self.version


class Target(ABC):
    """An engine or library that a model is shipped to."""

    name: ClassVar[str]
    """Name in `--to`."""

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

    def document_request(self, model: ShippedModel, features: Mapping[str, float | None]) -> Any | None:
        """Returns the request that scores one document, as JSON; None if there is no such request.

        Args:
            features: name -> value; None: missing.
        """
        del model, features
        return None

    def answered_scores(self, answers: Any) -> Mapping[str, float]:
        """Returns document id -> score from the JSON with which the deployed engine answered.

        Raises:
            ValueError: The JSON is not such an answer.
        """
        if not isinstance(answers, dict) or not all(isinstance(v, int | float) for v in answers.values()):
            raise ValueError("expected an object with a score for each document id")
        return {str(name): float(value) for name, value in answers.items()}
