"""The effect of each setting of a tuned model: one setting at a time is set back to the default model's.

The study trains. The comparison of its runs, with the tuned model as baseline, has the differences and their
intervals over folds and seeds: `python -m ltrbench compare FOLDER --baseline NAME`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from ltrbench.data.sources import DataSource
from ltrbench.errors import ConfigError
from ltrbench.experiment import Experiment, Study, run
from ltrbench.experiment.loading import load_once
from ltrbench.metrics import DEFAULT
from ltrbench.native.objectives.lambdarank import LambdaRank
from ltrbench.rankers import Ranker
from ltrbench.tables import Table, assignments
from results.studies import publish_study

TUNED, DEFAULTS = "tuned", "default"
"""Names of the two models of the study."""


@dataclass(kw_only=True)
class Ablation(Study):
    """Trains the tuned model and its variants, each with one default setting, on all data with all seeds.

    Args:
        output: folder of the runs, and of the table of settings.
        name: name of the tuned model in the runs.
        seeds: random seeds; each trains all models again.
        metrics: metrics on valid and test.
    """

    output: str
    name: str
    seeds: list[int]
    metrics: list[str]

    def run(self, models: Mapping[str, Ranker], data: Mapping[str, DataSource]) -> Path:
        """Trains all models; returns the path of the table of settings.

        Args:
            models: `tuned` and `default`, of the same class.
            data: data sets; each fold is one.

        Raises:
            ConfigError: The models are of different classes, or have the same settings.
            ResultError: A run folder is already in use.
        """
        tuned, default = models[TUNED], models[DEFAULTS]
        changes = differing(tuned, default)
        variants = {self.name: tuned} | {
            f"{self.name} {assignments({setting: value})}": replace(
                tuned, **{setting: value}
            )
            for setting, (_, value) in changes.items()
        }
        for key, source in data.items():
            for number, (label, ranker) in enumerate(variants.items()):
                for seed in self.seeds:
                    folder = Path(self.output, key, str(number), f"seed={seed}")
                    run(
                        self._experiment(label, replace(ranker, seed=seed), source),
                        folder,
                    )
        rows = [
            [setting, *(str(value) for value in pair)]
            for setting, pair in changes.items()
        ]
        table = Table.of(["setting", self.name, "default"], rows).markdown()
        compare = f"python -m ltrbench compare {self.output} --baseline {self.name}"
        return publish_study(
            Path(self.output),
            f"{table}\n\n`{compare}` shows the effect of each setting.",
            command="python -m ltrbench experiment=ablation",
            packages=tuned.packages,
            conventions=[DEFAULT],
            data={key: load_once(source)[0] for key, source in data.items()},
        )

    def _experiment(self, label: str, ranker: Ranker, source: DataSource) -> Experiment:
        metrics = tuple(self.metrics)
        return Experiment(
            model=label, ranker=ranker, source=source, metrics=metrics, importance=None
        )


def differing(tuned: Ranker, default: Ranker) -> dict[str, tuple[Any, Any]]:
    """Returns setting -> (tuned, default value) of the settings in which two rankers differ.

    Raises:
        ConfigError: They are of different classes, or do not differ.
    """
    if type(tuned) is not type(default):
        raise ConfigError(
            f"study.models.{TUNED} and study.models.{DEFAULTS} have the classes {type(tuned).__name__} and "
            f"{type(default).__name__}; give two models of one class."
        )
    pairs: dict[str, tuple[Any, Any]] = {}
    for name in (item.name for item in fields(tuned) if item.init):
        pair = getattr(tuned, name), getattr(default, name)
        if all(isinstance(value, LambdaRank) for value in pair):
            # Its settings are also keyword arguments of the ranker.
            pairs |= {
                each: (value, vars(pair[1])[each])
                for each, value in vars(pair[0]).items()
            }
        else:
            pairs[name] = pair
    changes = {
        name: (value, other) for name, (value, other) in pairs.items() if value != other
    }
    if not changes:
        raise ConfigError(
            f"study.models.{TUNED} has the settings of study.models.{DEFAULTS}; change at least one of them."
        )
    return changes
