"""Importances of several models side by side: one table, rank correlations, and features that one ignores.

Each row's importances are means over its folds and seeds (`averaged` in
`ltrbench.rankers.models.importance`, which says what each kind means). The two models without learning
are left out, as are rows whose runs recorded none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from ltrbench.rankers.models.importance import (
    FALLS,
    GAIN,
    IMPORTANCE_KINDS,
    NAMES,
    SHAP,
    SHARES,
    SPLIT,
    YARDSTICKS,
    Importances,
)
from ltrbench.results import FINISHED, Run, mean_importances
from ltrbench.tables import Table, TableRow, figure
from ltrbench.untrusted.escaping import in_markdown

_MOST_ROWS = 20
"""Features of a Markdown table; the CSV has all."""
MOST_NAMED = 10
"""Features that a sentence names."""

Correlations = tuple[tuple[float | None, ...], ...]
"""(M, M), a row and a column a model; None where a model lacks the kind, or is worth the same everywhere."""

_KINDS_OF_USE = (SHAP, GAIN, SPLIT, *FALLS)
"""How much a model uses a feature is the importance of the first of these kinds that it has."""


@dataclass(frozen=True)
class IgnoredFeature:
    """A feature that some models use and another ignores.

    Attributes:
        by: the label of the one that ignores it: in none of its runs does a tree split on it.
        used_by: the label of the one that uses it most.
        kind: the kind of importance that they are compared by.
        importance: of the feature to the one that uses it most, of that kind.
    """

    feature: str
    by: str
    used_by: str
    kind: str
    importance: float

    def __str__(self) -> str:
        """The feature, with how much it is used."""
        return (
            f"{self.feature} ({_written(self.kind, self.importance)} by {self.used_by}'s {NAMES[self.kind]})"
        )


@dataclass(frozen=True, eq=False)
class ImportanceComparison:
    """The importances of M models on F features of one data set.

    Attributes:
        feature_names: (F,) text, in the order of the data.
        rows: label -> its means over folds and seeds.
        ignored: those of one model together, the most used first.
        left_out: labels of models whose features have other names, and so may be others.
    """

    feature_names: tuple[str, ...]
    rows: Mapping[str, Importances]
    ignored: tuple[IgnoredFeature, ...]
    left_out: tuple[str, ...] = ()

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Those that a model has, in the order in which they are shown."""
        return tuple(
            kind for kind in IMPORTANCE_KINDS if any(kind in row.values for row in self.rows.values())
        )

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The numbers of the features, by the mean of the first kind over the models that have it, best
        first."""
        if not self.kinds:
            return ()
        values = [row.values[self.kinds[0]] for row in self.rows.values() if self.kinds[0] in row.values]
        return tuple(np.argsort(-np.mean(values, axis=0), kind="stable").tolist())

    @cached_property
    def correlations(self) -> Mapping[str, Correlations]:
        """Kind -> Spearman's rank correlation between the models' importances, of kinds that two have."""
        return {
            kind: tuple(
                tuple(spearman(a.values.get(kind), b.values.get(kind)) for b in self.rows.values())
                for a in self.rows.values()
            )
            for kind in self.kinds
            if sum(kind in row.values for row in self.rows.values()) > 1
        }

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Sentences: who ignores what others use, and which two models agree least."""
        by = dict.fromkeys(item.by for item in self.ignored)
        ignoring = [_sentence([item for item in self.ignored if item.by == label]) for label in by]
        if not ignoring and len(self.rows) > 1:
            ignoring = ["No feature that one model uses is ignored by another."]
        apart = [f"{label} is left out: its features have other names." for label in self.left_out]
        return (*apart, *ignoring, *self._least_agreement())

    def _least_agreement(self) -> Iterator[str]:
        labels = list(self.rows)
        for kind, matrix in self.correlations.items():
            known = [
                (value, labels[a], labels[b])
                for a, row in enumerate(matrix)
                for b, value in enumerate(row)
                if a < b and value is not None
            ]
            if known:
                value, first, second = min(known)
                least = "" if len(known) == 1 else ", the lowest of all pairs"
                yield (
                    f"By {NAMES[kind]}, Spearman's rank correlation between {first} and {second} is "
                    f"{value:.2f}{least}."
                )
                return


def compare_importances(runs_by_label: Mapping[str, Sequence[Run]]) -> ImportanceComparison:
    """The importances of the finished runs of one data set.

    Args:
        runs_by_label: a model's label -> its runs: folds and seeds.
    """
    rows: dict[str, Importances] = {}
    left_out: list[str] = []
    for label, runs in runs_by_label.items():
        trained = [
            run for run in runs if run.result.status == FINISHED and run.result.model not in YARDSTICKS
        ]
        means = mean_importances(trained) if trained else Importances((), {})
        known = next(iter(rows.values()), means).feature_names
        if means.kinds and means.feature_names == known:
            rows[label] = means
        elif means.kinds:
            left_out.append(label)
    names = next(iter(rows.values())).feature_names if rows else ()
    return ImportanceComparison(names, rows, tuple(_ignored(names, rows)), tuple(left_out))


def spearman(a: NDArray[np.float64] | None, b: NDArray[np.float64] | None) -> float | None:
    """The correlation of ranks, tied values at their mean rank (Spearman, 1904); None where there is none.

    >>> spearman(np.array([0.1, 0.2, 0.5]), np.array([3.0, 9.0, 10.0]))
    1.0
    """
    from scipy.stats import rankdata  # most of a second to import

    if a is None or b is None or len(a) < 2 or (a == a[0]).all() or (b == b[0]).all():
        return None
    return round(float(np.corrcoef(rankdata(a), rankdata(b))[0, 1]), 12)


def _ignored(names: Sequence[str], rows: Mapping[str, Importances]) -> Iterator[IgnoredFeature]:
    for label, row in rows.items():
        unused = np.flatnonzero(~_uses(row)).tolist()
        used_by_others = [_most_used(names[feature], feature, label, rows) for feature in unused]
        yield from sorted(filter(None, used_by_others), key=_by_importance, reverse=True)


def _uses(row: Importances) -> NDArray[np.bool_]:
    """(F,), whether any run splits on a feature or, without splits, whether it is worth anything at all."""
    if SPLIT in row.values:
        return row.values[SPLIT] > 0
    used: NDArray[np.bool_] = np.any([row.values[kind] != 0 for kind in row.kinds], axis=0)
    return used


def _most_used(
    name: str, feature: int, ignoring: str, rows: Mapping[str, Importances]
) -> IgnoredFeature | None:
    """None where no other model uses it."""
    uses = []
    for label, row in rows.items():
        if _uses(row)[feature]:
            kind = next(kind for kind in _KINDS_OF_USE if kind in row.values)
            uses.append(IgnoredFeature(name, ignoring, label, kind, float(row.values[kind][feature])))
    return max(uses, key=_by_importance, default=None)


def _by_importance(item: IgnoredFeature) -> tuple[bool, float]:
    # Falls are in another unit than shares.
    return item.kind in SHARES, item.importance


def _sentence(ignored: Sequence[IgnoredFeature]) -> str:
    """What one model ignores."""
    more = len(ignored) - MOST_NAMED
    rest = f", and {more} that they use less" if more > 0 else ""
    count = "a feature" if len(ignored) == 1 else f"{len(ignored)} features"
    named = ", ".join(map(str, ignored[:MOST_NAMED]))
    return f"{ignored[0].by} ignores {count} that others use: {named}{rest}."


def importances_csv(comparisons: Mapping[str, ImportanceComparison]) -> str:
    """Returns a row a feature of each data set, its columns named after model and kind."""
    columns = list(
        dict.fromkeys(
            (label, kind)
            for importances in comparisons.values()
            for label, row in importances.rows.items()
            for kind in row.values
        )
    )
    rows: list[TableRow] = [
        [
            data,
            importances.feature_names[feature],
            *(
                figure(_value(importances, label, kind, feature), ".6g", missing="")
                for label, kind in columns
            ),
        ]
        for data, importances in comparisons.items()
        for feature in importances.order
    ]
    return Table.of(["data", "feature", *(f"{label} {kind}" for label, kind in columns)], rows).csv()


def _value(importances: ImportanceComparison, label: str, kind: str, feature: int) -> float | None:
    """None where the model was not compared, or has no importances of the kind."""
    row = importances.rows.get(label)
    return float(row.values[kind][feature]) if row is not None and kind in row.values else None


def importances_markdown(data: str, importances: ImportanceComparison) -> str:
    """Returns the features worth most by the first kind, the correlations by each kind, and the notes."""
    labels = list(importances.rows)
    parts = [f"## {in_markdown(data)}"]
    for kind in importances.kinds[:1]:
        rows: list[TableRow] = [
            [
                importances.feature_names[feature],
                *(_value(importances, label, kind, feature) for label in labels),
            ]
            for feature in importances.order[:_MOST_ROWS]
        ]
        table = Table.of(["feature", *labels], rows, partial(_written, kind))
        parts.append(f"By {NAMES[kind]}:\n\n{table.markdown()}")
    for kind, matrix in importances.correlations.items():
        rows = [[label, *row] for label, row in zip(labels, matrix, strict=True)]
        table = Table.of(["model", *labels], rows, ".2f")
        parts.append(f"Spearman's rank correlation by {NAMES[kind]}:\n\n{table.markdown()}")
    parts.append("\n".join(f"- {in_markdown(note)}" for note in importances.notes))
    return "\n\n".join(part for part in parts if part) + "\n"


def _written(kind: str, value: float) -> str:
    if kind not in SHARES:
        return f"{value:+.4f}"
    return "<0.1 %" if 0 < value < 0.0005 else f"{100 * value:.1f} %"
