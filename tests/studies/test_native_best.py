"""conf/model/native_best.yaml has the settings of the best trial of the committed search."""

from __future__ import annotations

import csv

import yaml  # type: ignore[import-untyped]
from paths import RESULTS

from ltrbench.folders import settings_in


def test_native_best_has_the_settings_of_the_best_trial() -> None:
    with (RESULTS / "native_best_choice" / "trials.csv").open(newline="") as file:
        trials = [row for row in csv.DictReader(file) if row["state"] == "complete"]
    best = max(trials, key=lambda row: float(row["value"]))
    settings = settings_in("model", "native_best")
    settings |= settings.pop("objective")
    of_trial = {name: best[name] for name in list(best)[list(best).index("high") + 1 :]}
    assert {name: settings[name] for name in of_trial} == {
        name: yaml.safe_load(value) for name, value in of_trial.items()
    }
