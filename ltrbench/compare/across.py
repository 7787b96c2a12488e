"""Over several data sets: are the models different in general? From five data sets on; folds are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ltrbench.compare.comparison import Comparison
from ltrbench.statistics import DataSetTest, friedman
from ltrbench.statistics.datasets import FEWEST_DATA_SETS


@dataclass(frozen=True)
class Across:
    """Models by their means on each data set.

    Attributes:
        data: (N,) names of the data sets.
        labels: (M,) of the models that every data set has.
        means: a row a data set, a column a model.
        test: Friedman's with Nemenyi's, and Wilcoxon's with Holm's; None where there is a reason against it.
        reason: why there is no test; empty where there is one.
    """

    data: tuple[str, ...]
    labels: tuple[str, ...]
    means: tuple[tuple[float, ...], ...]
    test: DataSetTest | None
    reason: str


def across(comparisons: Sequence[Comparison]) -> Across | None:
    """Compares over data sets; None with a single one.

    Rows are matched by their labels. A row that some data set lacks is left out.
    """
    if len(comparisons) < 2:
        return None
    known = [
        {row.label: row.metrics[comparison.metric] for row in comparison.rows} for comparison in comparisons
    ]
    labels = [label for label in known[0] if all(own.get(label) is not None for own in known)]
    means = np.array([[own[label] for label in labels] for own in known], dtype=np.float64)
    reason = _reason(len(comparisons), len(labels))
    return Across(
        data=tuple(comparison.data for comparison in comparisons),
        labels=tuple(labels),
        means=tuple(map(tuple, means.tolist())),
        test=None if reason else friedman(means),
        reason=reason,
    )


def _reason(num_data_sets: int, num_models: int) -> str:
    if num_models < 2:
        return (
            "Fewer than two models were run on all data sets, so that there is nothing to compare over them."
        )
    if num_data_sets < FEWEST_DATA_SETS:
        return (
            f"There are {num_data_sets} data sets; Friedman's test needs {FEWEST_DATA_SETS}, because "
            "fewer ranks "
            "can hardly reject anything. Read the data sets' own tables; folds are not data sets."
        )
    return ""
