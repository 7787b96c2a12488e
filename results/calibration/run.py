"""Measured error rates of the statistics, on simulated values: levels of tests, and coverage of intervals.

The study uses the same code as a comparison, on data with a known true difference.

    trained_models   trained models, on queries drawn from a population and on differences hard to judge
    two_way          methods, with variation of training and of queries
    linear_learner   resampled training sets and folds, with a learner that is linear in its data
    real_learners    folds with ridge regression, selection of a feature, and trees; two and more methods
    looks            several looks at the same runs
    decisions        decisions with a guard
    rates            counts with upper bounds, and their tables
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.sources import DataSource
from ltrbench.experiment import Study
from ltrbench.metrics import DEFAULT
from ltrbench.rankers import Ranker
from results.calibration import (
    decisions,
    linear_learner,
    looks,
    real_learners,
    two_way,
)
from results.calibration.rates import RateRow, Tables, recorded, rendered
from results.calibration.trained_models import (
    DIFFERENCES,
    FALSE_CLAIMS,
    SHARED_TRAINING,
    DrawnStudies,
    coverage,
    differences_of,
    false_claims,
    levels_of,
    population,
    shared_training,
    simultaneous_coverage,
)
from results.studies import publish_study

log = logging.getLogger("ltrbench")


@dataclass(kw_only=True)
class Calibration(Study):
    """Measures levels and coverage, and writes the table.

    Args:
        output: output folder.
        num_studies: number of simulated studies per figure of trained models.
        num_draws: number of permutations and bootstrap draws per study.
        sizes: numbers of queries per study.
        simultaneous_sizes: numbers of queries for simultaneous intervals, whose studies share no draws.
        num_repeated: number of simulated studies per figure of repeated training; half of it for slow ones.
        repeated_sizes: numbers of queries of these studies.
        replicates: numbers of trainings, 3 or more; the middle one is used where there is a single number.
        seed: seed of all draws.
    """

    output: str
    num_studies: int
    num_draws: int
    sizes: list[int]
    simultaneous_sizes: list[int]
    num_repeated: int
    repeated_sizes: list[int]
    replicates: list[int]
    seed: int

    def run(self, models: Mapping[str, Ranker], data: Mapping[str, DataSource]) -> Path:
        """Simulates all studies; returns the path of the table. Models and data sets are not used."""
        del models, data
        simulation = two_way.Simulation(
            self.num_repeated, self.repeated_sizes, self.replicates, self.seed
        )
        log.info("calibration: methods, trained several times")
        tables = two_way.two_way_tables(simulation)
        log.info("calibration: differences that are hard to judge")
        sizes = self.repeated_sizes
        of_kinds = itertools.product(DIFFERENCES, sizes)
        tables[FALSE_CLAIMS] = [false_claims(*of, simulation) for of in of_kinds]
        tables[SHARED_TRAINING] = [shared_training(size, simulation) for size in sizes]
        log.info("calibration: methods, by resampled training sets and folds")
        tables |= linear_learner.linear_learner_tables(simulation)
        log.info("calibration: folds with real learners")
        tables |= real_learners.real_learner_tables(simulation)
        log.info("calibration: several looks at the same runs")
        tables |= looks.looks_tables(simulation)
        log.info("calibration: decisions with a guard")
        tables |= decisions.decision_tables(simulation)
        tables = self._of_trained_models(population(self.seed)) | tables
        how = (
            f"Trained models: {self.num_studies} studies a figure, {self.num_draws} draws a study. Methods: "
            f"{self.num_repeated} studies a figure, {self.num_repeated // 2} of families on one split, "
            f"resampled training sets and folds, {self.num_repeated // 8} of decisions; folds with real "
            f"learners as in their table, with {real_learners.BOOTSTRAP_DRAWS} bootstrap draws a study. "
            f"Seed {self.seed}. environment.json has the "
            "count behind each figure of methods, and an upper bound of it."
        )
        return publish_study(
            Path(self.output),
            f"{how}\n\n{rendered(tables)}",
            command="python -m ltrbench experiment=calibration",
            packages=("numba",),
            conventions=[DEFAULT],
            findings={"rates": recorded(tables)},
        )

    def _of_trained_models(self, values: NDArray[np.float64]) -> Tables:
        """Returns the tables of trained models: properties of the draws, and measured shares."""
        levels: list[RateRow] = []
        covered: list[RateRow] = []
        for name, differences in differences_of(values).items():
            for size in self.sizes:
                log.info("calibration: %s, %d queries", name, size)
                drawn = self._drawn(size)
                row: RateRow = {"differences": name, "queries": size}
                levels.append(row | levels_of(differences, drawn))
                covered.append(row | {"as reported": coverage(differences, drawn)})
        log.info("calibration: simultaneous intervals")
        return {
            "Tests over queries: how often a true null hypothesis is rejected at 5 %": levels,
            "Intervals of 95 %: how often they hold the true difference": covered,
            "Simultaneous intervals of 95 %: how often all hold the true differences to the best of three": [
                {
                    "queries": size,
                    "all at once": simultaneous_coverage(values, self._drawn(size)),
                }
                for size in self.simultaneous_sizes
            ],
        }

    def _drawn(self, size: int) -> DrawnStudies:
        return DrawnStudies(size, self.num_studies, self.num_draws, self.seed)
