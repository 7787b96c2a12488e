"""What the adapters of other people's libraries share: watching over `extra`, and a fitted model on disk.

An adapter writes its model in the library's own format. Beside it stands `settings.json`: the ranker's
fields, the summary of its fit, and the digest of the model file, so that a damaged file is refused before a
library's parser meets it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, ResultError, did_you_mean
from ltrbench.rankers.base import (
    OF_A_FINISHED_RUN,
    SHARED,
    BoostingRanker,
    FitSummary,
    check_types,
    read_model_json,
)
from ltrbench.rankers.early_stopping import EarlyStopping
from ltrbench.rankers.models.splits import MOST_LEVELS
from ltrbench.untrusted.reading import read_bytes

SETTINGS_FILE = "settings.json"

SHARED_FIELDS = tuple(name for name in SHARED if name != "num_trees")
"""The shared hyperparameters that None leaves to the library."""

RankerT = TypeVar("RankerT", bound=BoostingRanker)
BuiltT = TypeVar("BuiltT")

COPY_OR_FIT_AGAIN = "Copy the folder again, or fit again"
"""The remedy where a model file is damaged."""

_OF_DAMAGED_MODELS = (ValueError, TypeError, LookupError, OverflowError, RecursionError)
"""What reading a damaged model file may raise, besides a library's own errors."""


def unset_fields(ranker: BoostingRanker) -> tuple[str, ...]:
    """The shared hyperparameters that are left to the library's own defaults."""
    return tuple(name for name in SHARED_FIELDS if getattr(ranker, name) is None)


def given(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that are set: a library applies its own default to what is not passed at all.

    >>> given({"eta": 0.2, "max_bin": None})
    {'eta': 0.2}
    """
    return {name: value for name, value in parameters.items() if value is not None}


def refuse_collisions(extra: Mapping[str, Any], instead: Mapping[str, str]) -> None:
    """Raises ConfigError where `extra` sets what a field of the adapter, or the adapter itself, decides.

    Args:
        extra: the parameters that the user passes through.
        instead: the library's name, or alias, of a parameter -> what to do instead of setting it.

    >>> refuse_collisions({"lambda_l1": 1.0}, {"num_leaf": "set the field num_leaves"})
    """
    for name in extra:
        if name in instead:
            raise ConfigError(f"extra.{name} cannot be set: {instead[name]}.")


def refuse_unknown(library: str, extra: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raises ConfigError where `extra` holds a name that the library would pass over in silence."""
    names = set(known)
    for name in extra:
        if name not in names:
            close = did_you_mean(name, names)
            raise ConfigError(
                f"extra.{name} has no effect in {library}{close} Give a parameter's main name, as its "
                "documentation has it, not an alias."
            )


def ties_by_row(train: RankingDataset) -> Iterator[str]:
    """A caution of a library whose own metrics leave tied documents in the order of their rows."""
    within = np.diff(train.query_of_document) == 0
    steps = np.diff(train.labels)[within]
    if (steps < 0).any() and (steps <= 0).all():
        yield (
            "Its own metrics rank tied documents in the order of rows, which stand best first here: they "
            "flatter a model that ties. Ours count the expected value."
        )


def write_model(folder: Path, ranker: BoostingRanker, model_file: str, model: bytes) -> None:
    """Writes the library's own model file and the settings beside it."""
    (folder / model_file).write_bytes(model)
    settings = {"ranker": dataclasses.asdict(ranker), "model_digest": model_digest(model)}
    (folder / SETTINGS_FILE).write_text(json.dumps(settings, indent=2, default=_as_number) + "\n")


def _as_number(value: object) -> object:
    """A number of NumPy's, as `np.arange` gives settings, as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be written as JSON")


def read_model(folder: Path, kind: type[RankerT], model_file: str) -> tuple[RankerT, bytes]:
    """Reads what `write_model` wrote: the ranker with its settings and summary, and the model file's bytes.

    Raises:
        ResultError: where a file is missing, has changed, or does not hold this kind of ranker.
    """
    settings = read_model_json(folder / SETTINGS_FILE, {"ranker": dict[str, Any], "model_digest": str})
    try:
        ranker = _ranker_of(kind, settings["ranker"])
    except (TypeError, KeyError, ValueError, AttributeError, ConfigError) as error:
        raise ResultError(
            f"{folder / SETTINGS_FILE} does not hold the settings of a {kind.__name__} ({error}); load it "
            "with the backend, and the version of ltrbench, that saved it."
        ) from None
    model = read_bytes(folder / model_file, OF_A_FINISHED_RUN)
    if model_digest(model) != settings["model_digest"]:
        raise ResultError(
            f"{folder / model_file} is not what was saved: it was changed, or not copied to its end. "
            f"{COPY_OR_FIT_AGAIN}."
        )
    return ranker, model


@contextlib.contextmanager
def parsing(path: Path, library: str, *errors: type[Exception]) -> Iterator[None]:
    """Raises ResultError where a library refuses a model file.

    Args:
        errors: the library's own; the words of any may be broken, too, where they quote the file.
    """
    refused: tuple[type[Exception], ...] = (*errors, *_OF_DAMAGED_MODELS)
    try:
        yield
    except refused as error:
        # Its first line, because a stack of C++ may follow.
        reason = ascii((str(error).splitlines() or [type(error).__name__])[0])
        raise ResultError(
            f"{path} is no model that {library} reads ({reason}). {COPY_OR_FIT_AGAIN}."
        ) from None


def refuse_deep(is_deep: bool, library: str) -> None:
    """Raises ConfigError where a tree is so deep that the library would run out of memory on it."""
    if is_deep:
        raise ConfigError(
            f"a tree of the model has more than {MOST_LEVELS:,} levels, too deep to be shown or explained: "
            f"{library} would run out of memory. Fit with a bound on the depth of trees."
        )


def _ranker_of(kind: type[RankerT], settings: Mapping[str, Any]) -> RankerT:
    fields = dict(settings)
    summary, stopping = fields.pop("summary"), fields.pop("early_stopping")
    types = get_type_hints(kind)
    check_types(fields, {field.name: types[field.name] for field in dataclasses.fields(kind) if field.init})
    ranker = kind(**fields, early_stopping=_stored_rule(stopping))
    ranker.summary = _built(FitSummary, summary)
    return ranker


def _stored_rule(stopping: Mapping[str, Any] | None) -> EarlyStopping | None:
    """Returns the rule as it was saved; its metric may be a plug-in's, which only a fit needs to know."""
    if stopping is None:
        return None
    check_types(stopping, get_type_hints(EarlyStopping))
    rule = EarlyStopping(**{**stopping, "metric": EarlyStopping.metric})
    rule.metric = stopping["metric"]
    return rule


def _built(kind: type[BuiltT], fields: Mapping[str, Any] | None) -> BuiltT | None:
    if fields is None:
        return None
    check_types(fields, get_type_hints(kind))
    return kind(**fields)


def model_digest(model: bytes) -> str:
    return hashlib.blake2b(model, digest_size=16).hexdigest()
