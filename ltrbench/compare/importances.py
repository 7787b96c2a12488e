"""Importances of several models: one table, rank correlations, and features that single models ignore.

The importances of a row are means over its folds and seeds (`averaged` in
`ltrbench.rankers.importance`, which defines each kind). Yardsticks are left out, and rows whose runs
recorded no importances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.rankers.importance import (
    ALL_KINDS,
    FALLS,
    GAIN,
    HIGH,
    LOW,
    MORE_KINDS,
    NAMES,
    OF_LINEAR,
    SHAP,
    SHARES,
    SPLIT,
    Importances,
    aligned,
    by_size,
)
from ltrbench.runs.record import FINISHED, Run, mean_importances
from ltrbench.statistics.ranks import mean_ranks
from ltrbench.tables import Table, TableRow, format_interval, format_number
from ltrbench.untrusted import in_markdown

_MOST_ROWS = 20
"""Number of features in a Markdown table; the CSV has all of them."""
_MOST_NAMED = 10
"""Number of features that a sentence names."""

Correlations = tuple[tuple[float | None, ...], ...]
"""(M, M), one row and one column per model; None if a model lacks the kind or has equal importances."""

_KINDS_OF_USE = (SHAP, GAIN, SPLIT, *FALLS, *OF_LINEAR)
"""The use of a feature is its importance of the first of these kinds that the model has."""


@dataclass(frozen=True, eq=False)
class ImportanceComparison:
    """Importances of F features for M models on one data set.

    Attributes:
        feature_names: (F,), the features of any of the models; of more than MOST_LISTED features, those that
            have an importance.
        rows: Label -> means over folds and seeds; NaN for a feature that the model does not have.
        left_out: Labels of models whose features all have other names.
    """

    feature_names: tuple[str, ...]
    rows: Mapping[str, Importances]
    left_out: tuple[str, ...] = ()

    def values_of(self, kind: str) -> list[NDArray[np.float64]]:
        """Returns the importances of a kind, (F,) each, of the models that have it."""
        values = [row.values.get(kind) for row in self.rows.values()]
        return [of_row for of_row in values if of_row is not None]

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of importance that a model has, in the order of the output."""
        return tuple(kind for kind in ALL_KINDS if self.values_of(kind))

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Indices of the features, sorted by the mean of the first kind over the models that have both."""
        if not self.kinds:
            return ()
        first = self.kinds[0]
        values = np.array(self.values_of(first))
        num_known = np.isfinite(values).sum(axis=0)
        sums = np.nan_to_num(values).sum(axis=0)
        means = np.divide(
            sums, num_known, np.full(len(sums), np.nan), where=num_known > 0
        )
        return tuple(by_size(first, means).tolist())

    @cached_property
    def correlations(self) -> Mapping[str, Correlations]:
        """Kind -> Spearman's rank correlations between the models, for kinds that two models have."""
        shared = [kind for kind in self.kinds if len(self.values_of(kind)) > 1]
        return {kind: self._correlations(kind) for kind in shared}

    def _correlations(self, kind: str) -> Correlations:
        values = [row.values.get(kind) for row in self.rows.values()]
        matrix = [tuple(spearman(a, b) for b in values) for a in values]
        return tuple(matrix)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Sentences on ignored features, and on kinds that were not recorded."""
        notes = [
            f"{label} is left out: its features have other names."
            for label in self.left_out
        ]
        about_lacking = (_about_lacking(label, self) for label in self.rows)
        notes += filter(None, about_lacking)
        about_ignored = (_about_ignored(label, self) for label in self.rows)
        ignoring = list(filter(None, about_ignored))
        if not ignoring and len(self.rows) > 1:
            ignoring = ["No feature that one model uses is ignored by another."]
        notes += ignoring
        kinds = [set(row.kinds) for row in self.rows.values()]
        if any(of_row <= {GAIN, SPLIT} for of_row in kinds):
            notes.append(MORE_KINDS)
        return tuple(notes)


def compare_importances(
    runs_by_label: Mapping[str, Sequence[Run]],
) -> ImportanceComparison:
    """Compares the importances of the finished runs on one data set.

    Args:
        runs_by_label: Label of a model -> its runs on folds and with seeds.
    """
    recorded: dict[str, Importances] = {}
    for label, runs in runs_by_label.items():
        finished = [run for run in runs if run.result.status == FINISHED]
        trained = [run for run in finished if not run.result.is_yardstick]
        if not trained:
            continue
        means = mean_importances(trained)
        if means.kinds:
            recorded[label] = means
    kept: dict[str, Importances] = {}
    left_out: list[str] = []
    names = set[str]()
    for label, means in recorded.items():
        is_other = names.isdisjoint(means.feature_names) and not means.is_part
        if kept and is_other:
            left_out.append(label)
            continue
        kept[label] = means
        names |= {*means.feature_names}
    if not kept:
        return ImportanceComparison((), {})
    of_all_features = aligned(list(kept.values()))
    rows = dict(zip(kept, of_all_features, strict=True))
    return ImportanceComparison(of_all_features[0].feature_names, rows, tuple(left_out))


def spearman(
    a: NDArray[np.float64] | None, b: NDArray[np.float64] | None
) -> float | None:
    """Returns the rank correlation with mean ranks for ties (Spearman, 1904); None for constant values.

    Features with NaN in one of the two do not count.

    >>> spearman(np.array([0.1, 0.2, 0.5]), np.array([3.0, 9.0, 10.0]))
    1.0
    """
    if a is None or b is None:
        return None
    is_known = np.isfinite(a) & np.isfinite(b)
    if is_known.sum() < 2:
        return None
    a = a[is_known]
    b = b[is_known]
    for values in (a, b):
        if (values == values[0]).all():
            return None
    correlations = np.corrcoef(mean_ranks(a), mean_ranks(b))
    return round(float(correlations[0, 1]), 12)


def _uses(row: Importances) -> NDArray[np.bool_]:
    """Returns whether any run splits on a feature or, without splits, has a nonzero importance, (F,)."""
    if SPLIT in row.values:
        return row.values[SPLIT] > 0
    values = np.array([row.values[kind] for kind in row.kinds])
    used: NDArray[np.bool_] = np.any(np.nan_to_num(values) != 0, axis=0)
    return used


def _has(row: Importances) -> NDArray[np.bool_]:
    """Returns whether the model has a feature, (F,)."""
    is_known = [np.isfinite(row.values[kind]) for kind in row.kinds]
    has: NDArray[np.bool_] = np.any(is_known, axis=0)
    return has


def _about_lacking(label: str, compared: ImportanceComparison) -> str:
    """Returns a sentence on the features that only other models have; empty if there are none."""
    numbers = np.flatnonzero(~_has(compared.rows[label])).tolist()
    if not numbers:
        return ""
    lacking = [compared.feature_names[number] for number in numbers]
    return f"{label} does not have {_some_of(lacking)}."


def _some_of(texts: Sequence[str]) -> str:
    """Returns the first texts and the number of the others."""
    named = ", ".join(texts[:_MOST_NAMED])
    more = len(texts) - _MOST_NAMED
    if more > 0:
        named += f", and {more} others"
    return named


def _about_ignored(ignoring: str, compared: ImportanceComparison) -> str:
    """Returns a sentence on the features that one model ignores and others use; empty if there are none.

    The most used features are first, each with the model that uses it most.
    """
    uses = {label: _uses(row) for label, row in compared.rows.items()}
    ignored = []
    is_ignored = _has(compared.rows[ignoring]) & ~uses[ignoring]
    for feature in np.flatnonzero(is_ignored).tolist():
        using = [label for label in compared.rows if uses[label][feature]]
        users = [_Use.of(label, compared.rows[label], feature) for label in using]
        if users:
            most = max(users, key=_Use.rank)
            name = compared.feature_names[feature]
            ignored.append((most.rank(), f"{name} ({most})"))
    if not ignored:
        return ""
    ignored.sort(key=itemgetter(0), reverse=True)
    named = _some_of([text for _, text in ignored])
    count = "a feature"
    if len(ignored) != 1:
        count = f"{len(ignored)} features"
    return f"{ignoring} ignores {count} that others use: {named}."


class _Use(NamedTuple):
    """How much a model uses a feature."""

    label: str
    kind: str
    value: float

    @classmethod
    def of(cls, label: str, row: Importances, feature: int) -> _Use:
        kind = next(kind for kind in _KINDS_OF_USE if kind in row.values)
        return cls(label, kind, float(row.values[kind][feature]))

    def rank(self) -> tuple[bool, float]:
        """Returns a key that sorts uses; decreases of the metric and shares have different units."""
        return self.kind in SHARES, self.value

    def __str__(self) -> str:
        value = _written(self.kind, self.value)
        return f"{value} by {self.label}'s {NAMES[self.kind]}"


def importances_csv(comparisons: Mapping[str, ImportanceComparison]) -> str:
    """Returns one row per feature and data set, with one column per model and kind."""
    columns: dict[tuple[str, str], None] = {}
    for importances in comparisons.values():
        for label, row in importances.rows.items():
            columns |= dict.fromkeys((label, kind) for kind in row.values)
    rows: list[TableRow] = []
    for data, importances in comparisons.items():
        for feature in importances.order:
            values = [_value(importances, *column, feature) for column in columns]
            texts = [format_number(value, ".6g", missing="") for value in values]
            rows.append([data, importances.feature_names[feature], *texts])
    header = ["data", "feature", *(f"{label} {kind}" for label, kind in columns)]
    return Table.of(header, rows).csv()


def _value(
    importances: ImportanceComparison, label: str, kind: str, feature: int
) -> float | None:
    """Returns an importance; None if the model has none of this kind."""
    row = importances.rows.get(label)
    if row is not None and kind in row.values:
        return float(row.values[kind][feature])
    return None


def importances_markdown(data: str, importances: ImportanceComparison) -> str:
    """Returns the most important features by the first kind, the correlations by each kind, and the notes."""
    parts = [f"## {in_markdown(data)}"]
    for kind in importances.kinds:
        if kind in OF_LINEAR:
            title = f"By {NAMES[kind]}, with 95 % intervals over several trainings"
        elif kind == importances.kinds[0]:
            title = f"By {NAMES[kind]}"
        else:
            continue
        parts.append(f"{title}:\n\n{_table(kind, importances).markdown()}")
    labels = list(importances.rows)
    for kind, matrix in importances.correlations.items():
        rows: list[TableRow] = []
        for label, row in zip(labels, matrix, strict=True):
            rows.append([label, *row])
        table = Table.of(["model", *labels], rows, ".2f")
        parts.append(
            f"Spearman's rank correlation by {NAMES[kind]}:\n\n{table.markdown()}"
        )
    if importances.notes:
        notes = [f"- {in_markdown(note)}" for note in importances.notes]
        parts.append("\n".join(notes))
    return "\n\n".join(parts) + "\n"


def _table(kind: str, importances: ImportanceComparison) -> Table:
    """Returns the importances of a kind, a row for each of the most important features."""
    having = {}
    for label, row in importances.rows.items():
        if kind in row.values:
            having[label] = row.values
    rows: list[TableRow] = []
    for feature in importances.order[:_MOST_ROWS]:
        cells = (_cell(values, kind, feature) for values in having.values())
        rows.append([importances.feature_names[feature], *cells])
    return Table.of(["feature", *having], rows)


def _cell(
    values: Mapping[str, NDArray[np.float64]], kind: str, feature: int
) -> str | None:
    """Returns an importance, with the interval of a coefficient; None if the model lacks the feature."""
    value = float(values[kind][feature])
    if isnan(value):
        return None
    written = _written(kind, value)
    if kind not in OF_LINEAR or kind + LOW not in values:
        return written
    low = values[kind + LOW][feature]
    high = values[kind + HIGH][feature]
    return f"{written} {format_interval(low, high, '+.4g')}"


def _written(kind: str, value: float) -> str:
    if kind in OF_LINEAR:
        return f"{value:+.4g}"
    if kind not in SHARES:
        return f"{value:+.4f}"
    if 0 < value < 0.0005:
        return "<0.1 %"
    return f"{100 * value:.1f} %"
