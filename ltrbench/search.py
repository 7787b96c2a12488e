"""A search for settings that rank unseen queries best, by validation alone: test is never looked at.

Every combination of a small grid is fitted on every data set with early stopping; its worth is the mean over
the data sets of the validation metric where it stopped. The table has all of them, best first, and the best
one is what conf/model/native_best.yaml takes.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ltrbench.data.sources import DataSource
from ltrbench.data.splits import Splits
from ltrbench.errors import ConfigError, DataError
from ltrbench.metrics import evaluate
from ltrbench.provenance import commit, machine, versions
from ltrbench.rankers import BoostingRanker, Ranker
from ltrbench.study import Study

log = logging.getLogger("ltrbench")


@dataclass(kw_only=True)
class GridSearch(Study):
    """Fits one model with every combination of some of its settings.

    Args:
        output: the folder to write.
        metric: what the validation sets are judged by.
        grid: a setting of the model -> the values to try.
    """

    output: str
    metric: str
    grid: dict[str, list[Any]]

    def run(self, models: Mapping[str, Ranker], data: Mapping[str, DataSource]) -> Path:
        """Fits them all; returns the table.

        Raises:
            ConfigError: where there is not one boosted model.
            DataError: where a data set is absent, or has no validation set.
        """
        ((name, model),) = models.items()
        if not isinstance(model, BoostingRanker):
            raise ConfigError(f"study.models.{name} has no trees; a search needs a boosted model.")
        splits = {data_name: source.load() for data_name, source in data.items()}
        found: list[tuple[dict[str, Any], dict[str, float]]] = []
        for values in itertools.product(*self.grid.values()):
            chosen = dict(zip(self.grid, values, strict=True))
            tried = {key: self._worth(replace(model, **chosen), split) for key, split in splits.items()}
            log.info("search: %s %.4f", chosen, np.mean(list(tried.values())))
            found.append((chosen, tried))
        found.sort(key=lambda item: -float(np.mean(list(item[1].values()))))
        return self._write(name, found)

    def _worth(self, ranker: BoostingRanker, splits: Splits) -> float:
        if splits.valid is None:
            raise DataError("a search needs validation sets; set valid_share above 0.")
        scores = ranker.fit(splits.train, splits.valid).predict(splits.valid.features)
        return evaluate(splits.valid, scores.astype(np.float64), [self.metric]).means[self.metric]

    def _write(self, model: str, found: list[tuple[dict[str, Any], dict[str, float]]]) -> Path:
        folder = Path(self.output)
        folder.mkdir(parents=True, exist_ok=True)
        environment = {
            "commit": commit(),
            "versions": versions(("numba",)),
            "machine": machine(),
            "best": found[0][0],
        }
        (folder / "environment.json").write_text(json.dumps(environment, indent=2) + "\n")
        names = [*self.grid, *found[0][1], "mean"]
        lines = [f"| {' | '.join(names)} |", "|" + "---:|" * len(names)]
        for chosen, tried in found:
            figures = [f"{worth:.4f}" for worth in (*tried.values(), float(np.mean(list(tried.values()))))]
            lines.append("| " + " | ".join([*(str(value) for value in chosen.values()), *figures]) + " |")
        intro = f"{self.metric} on validation, where {model} stopped; best first. Test was not looked at."
        rows, table = "\n".join(lines), folder / "table.md"
        table.write_text(f"# {folder.resolve().name}\n\n{intro}\n\n{rows}\n\nMade by commit {commit()}.\n")
        return table
