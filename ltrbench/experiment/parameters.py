"""Determines which shared parameters a ranker uses, and which settings replace them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ltrbench.rankers import Ranker
from ltrbench.rankers.base import OF_EVERY_RANKER, SHARED
from ltrbench.rankers.capabilities import departures_of
from ltrbench.results import NO_PARAMETERS, OWN


def parameters_and_settings(
    ranker: Ranker, params: str, given: Mapping[str, Any], fields: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Returns `params` and `own_settings` of `RunResult`.

    Args:
        params: name of the set of shared parameters; `OWN`: none.
        given: shared parameter -> value.
        fields: name -> recorded value of each field of the ranker.
    """
    if ranker.is_yardstick:
        return NO_PARAMETERS, {}
    shared = None if params == OWN else given
    settings = _own_settings(fields, shared, " ".join(departures_of(ranker)))
    takes_any = _has_all_shared(fields) and any(name not in settings for name in shared or SHARED)
    return (params if takes_any else OWN), settings


def _has_all_shared(fields: Mapping[str, Any]) -> bool:
    """Returns whether a class with these fields has all shared parameters, not just some fields of the same
    names."""
    return all(name in fields for name in SHARED)


def _own_settings(
    fields: Mapping[str, Any], shared: Mapping[str, Any] | None, unmatched: str
) -> dict[str, Any]:
    """Returns the settings of a ranker that replace the shared parameters; see `RunResult.own_settings`.

    Args:
        shared: the values of the shared parameters; None if the ranker uses none.
        unmatched: the sentences of `departures_of`; they explain the parameters that they name.
    """
    if not _has_all_shared(fields):
        return {name: value for name, value in fields.items() if name not in OF_EVERY_RANKER}
    accepted = {name: fields[name] for name in SHARED}
    if shared is None:
        return {name: value for name, value in accepted.items() if value is not None}
    return {
        name: value
        for name, value in accepted.items()
        if name in shared and value != shared[name]
        if value is not None or not re.search(rf"\b{name}\b", unmatched)
    }
