"""Overrides in the syntax of the command line: combines the overrides of many jobs into few commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

Overrides = tuple[str, ...]


SETTINGS_OF_COMMAND = ("executor", "progress", "register", "tracking")
"""Settings of a whole command, which cannot change a figure: a job with other values is the same job."""


def of_job(overrides: Iterable[str]) -> list[str]:
    """Returns the overrides without those that apply to the whole command.

    >>> of_job(["executor.workers=2", "+tracking.uri=x", "hydra.sweep.dir=s", "seed=1"])
    ['seed=1']
    """
    return [line for line in overrides if not _is_of_command(line)]


def _is_of_command(override: str) -> bool:
    name = override.lstrip("+~").partition("=")[0].replace("/", ".").partition(".")[0]
    return name in (*SETTINGS_OF_COMMAND, "hydra")


def as_products(jobs: Iterable[Sequence[str]]) -> list[list[str]]:
    """Returns few lists of overrides that together sweep over exactly these jobs.

    >>> as_products([["model=a", "seed=2"], ["model=b", "seed=1"], ["model=b", "seed=2"]])
    [['model=a', 'seed=2'], ['model=b', 'seed=1,2']]
    """
    of_keys: dict[Overrides, list[Overrides]] = {}
    for job in jobs:
        parts = [override.partition("=") for override in job]
        keys = tuple(f"{key}{equals}" for key, equals, _ in parts)
        of_keys.setdefault(keys, []).append(tuple(value for _, _, value in parts))
    return [
        [key + ",".join(values) for key, values in zip(keys, product, strict=True)]
        for keys, rows in of_keys.items()
        for product in _products(rows)
    ]


def _products(rows: Sequence[Overrides]) -> list[list[list[str]]]:
    """Returns the values of each column, per product. First values with the same remaining rows are
    combined."""
    if not rows[0]:
        return [[]]
    rest_of_value: dict[str, list[Overrides]] = {}
    for value, *rest in rows:
        rest_of_value.setdefault(value, []).append(tuple(rest))
    values_of_rest: dict[tuple[Overrides, ...], list[str]] = {}
    for value, rests in rest_of_value.items():
        values_of_rest.setdefault(tuple(rests), []).append(value)
    return [[values, *product] for rests, values in values_of_rest.items() for product in _products(rests)]


def quoted(text: str) -> str:
    """Returns a value quoted for Hydra's grammar, if it needs quotes."""
    return text if re.fullmatch(r"[\w./:-]+", text) else "'" + text.replace("'", r"\'") + "'"
