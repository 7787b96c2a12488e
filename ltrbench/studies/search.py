"""Grid search for the settings with the best validation metric.

Every combination of a small grid is fitted on every data set with early stopping. Its criterion is the mean
over data sets of the validation metric at the stopping point. The table lists all combinations, best first;
conf/model/native_best.yaml has the first one.

The search reads no test set directly. In the LETOR folds, however, the validation set of one fold is the test
set of another, so settings chosen on several folds have used test data. The table names each such pair of its
data sets, identified by the content of their queries.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from ltrbench.data import RankingDataset
from ltrbench.data.query_keys import num_shared
from ltrbench.data.sources import DataSource
from ltrbench.data.splits import Splits
from ltrbench.errors import ConfigError, DataError
from ltrbench.metrics import DEFAULT, evaluate
from ltrbench.rankers import BoostingRanker, Ranker
from ltrbench.studies.base import Study, publish_study
from ltrbench.tables import Table, TableRow

log = logging.getLogger("ltrbench")


@dataclass(kw_only=True)
class GridSearch(Study):
    """Fits one model with every combination of the settings in a grid.

    Args:
        output: output folder.
        metric: metric on the validation sets.
        grid: setting of the model -> values to try.
    """

    output: str
    metric: str
    grid: dict[str, list[Any]]

    def run(self, models: Mapping[str, Ranker], data: Mapping[str, DataSource]) -> Path:
        """Fits all combinations; returns the path of the table.

        Raises:
            ConfigError: If the model is not a boosted model.
            DataError: If a data set is not available or has no validation set.
        """
        ((name, model),) = models.items()
        if not isinstance(model, BoostingRanker):
            raise ConfigError(f"study.models.{name} has no trees; give a boosted model, such as native.")
        splits = {data_name: source.load() for data_name, source in data.items()}
        tried: list[_Tried] = []
        for values in itertools.product(*self.grid.values()):
            chosen = dict(zip(self.grid, values, strict=True))
            ranker = replace(model, **chosen)
            metric_of_data = {key: self._on_validation(ranker, of_data) for key, of_data in splits.items()}
            tried.append(_Tried(chosen, metric_of_data))
            log.info("search: %s %.4f", chosen, tried[-1].mean)
        tried.sort(key=lambda item: -item.mean)
        best = tried[0]
        intro = f"Validation {self.metric} at the stopping point of {name}, best first. {_leakage(splits)}"
        header = [*self.grid, *best.metric_of_data, "mean"]
        table = Table.of(header, [item.cells() for item in tried], ".4f").markdown()
        return publish_study(
            Path(self.output),
            f"{intro}\n\n{table}",
            command="python -m ltrbench experiment=native_best",
            packages=model.packages,
            conventions=[DEFAULT],
            data=splits,
            findings={"best": best.settings},
        )

    def _on_validation(self, ranker: BoostingRanker, splits: Splits) -> float:
        if splits.valid is None:
            raise DataError("the search needs a validation set for each data set; set valid_share above 0.")
        scores = ranker.fit(splits.train, splits.valid).predict(splits.valid.features)
        return evaluate(splits.valid, scores.astype(np.float64), [self.metric]).means[self.metric]


def _leakage(data: Mapping[str, Splits]) -> str:
    """Returns a sentence on validation sets that are, or overlap with, the test set of another data set."""
    leaks = [
        f"the validation set of {chosen_on} {_relation(splits.valid, other.test)} the test set of {judged_on}"
        for chosen_on, splits in data.items()
        for judged_on, other in data.items()
        if splits.valid is not None and num_shared(splits.valid.query_keys, other.test.query_keys)
    ]
    if not leaks:
        return "No validation set shares a query with the test set of another data set of the search."
    return (
        f"Test data were used in the selection: {'; '.join(leaks)}. Test metrics of these settings on such "
        "folds are optimistic."
    )


def _relation(valid: RankingDataset, test: RankingDataset) -> str:
    common = num_shared(valid.query_keys, test.query_keys)
    same = common == valid.num_queries == test.num_queries
    return "is" if same else f"shares {common} queries with"


@dataclass(frozen=True)
class _Tried:
    """A combination of settings, with the validation metric on each data set."""

    settings: dict[str, Any]
    metric_of_data: dict[str, float]

    @property
    def mean(self) -> float:
        return fmean(self.metric_of_data.values())

    def cells(self) -> TableRow:
        return [*map(str, self.settings.values()), *self.metric_of_data.values(), self.mean]
