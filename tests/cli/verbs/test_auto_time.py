"""The time of `auto`, with simulated fits: search and fits at the end together take the time asked for."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from ltrbench.cli.auto.budget import (
    TimedFit,
    TriedSetting,
    best_fit,
    best_settings,
)
from ltrbench.cli.auto.order import Clock, Journal, Order
from ltrbench.cli.auto.steps import MOST_TRIALS, Auto
from ltrbench.cli.console import OK, OUT_OF_TIME

SECONDS_OF_COMMAND = 2.5
SECONDS_BESIDE_FIT = 0.25
SECONDS_AT_THE_END = 8.0  # of the table, and the fit on all queries
FINAL_FIT = 1.5  # times a fit of the table: without early stopping, on more queries


class SimulatedClock(Clock):
    """A clock that stands still but for `pass_by`."""

    def __init__(self, budget: float) -> None:
        super().__init__(budget)
        self.seconds = 0.0

    @property
    def spent(self) -> float:
        return self.seconds

    def pass_by(self, seconds: float) -> None:
        self.seconds += seconds

    def say(self, text: str) -> None:
        pass


class Simulated(Auto):
    """A command whose fits only let time pass.

    Args:
        typical: model -> seconds of a fit with default settings.
        folds: number of folds.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        budget: float,
        typical: dict[str, float],
        folds: int,
    ) -> None:
        self.clock: SimulatedClock = SimulatedClock(budget)
        self.order = Order(table=Path("table.csv"))
        self.journal = Journal({}, trials=1)
        self._rng = rng
        self._typical = typical
        self._all_folds = folds
        # Model -> (seconds of each fold, metric) of each setting; and how many fits of them have ended.
        self._planned: dict[str, list[tuple[list[float], float]]] = {}
        self._ended = dict.fromkeys(typical, 0)

    @property
    def all_folds(self) -> int:
        return self._all_folds

    @property
    def searched(self) -> list[str]:
        return [model for model in self._typical if model not in self.journal.left_out]

    def _setting_of(self, model: str, number: int) -> tuple[list[float], float]:
        settings = self._planned.setdefault(model, [])
        while len(settings) <= number:
            factor = 1.0
            if settings:  # the first one is the default
                factor = math.exp(self._rng.normal(0.3, 0.8))
            spread = np.exp(self._rng.normal(0, 0.35, self._all_folds))
            seconds = self._typical[model] * factor * spread
            settings.append((seconds.tolist(), float(self._rng.normal(0.7, 0.01))))
        return settings[number]

    def first_fits(self) -> None:
        first: dict[str, TimedFit] = {}
        for model in self._typical:
            seconds, value = self._setting_of(model, 0)
            self.clock.pass_by(SECONDS_OF_COMMAND + seconds[0])
            self._ended[model] = 1
            first[model] = TimedFit(seconds[0], value)
        self._share_time(first)

    def _trial_words(
        self, models: Sequence[str], trials: int, folds: int | None = None
    ) -> list[str]:
        return []

    def _write(self) -> None:
        pass

    def _run(self, words: Sequence[str], codes: Collection[int] = (OK,)) -> int:
        """Runs fits, the first settings of all models first, until the time of the command is over."""
        self.clock.pass_by(SECONDS_OF_COMMAND)
        minutes = float(words[-1].removeprefix("stop_after="))
        deadline = self.clock.spent + 60 * minutes
        for number in range(MOST_TRIALS):
            for model in self.searched:
                seconds, _ = self._setting_of(model, number)
                while self._ended[model] < (number + 1) * self.num_folds:
                    fold = self._ended[model] % self.num_folds
                    taken = seconds[fold] + SECONDS_BESIDE_FIT
                    if self.clock.spent + taken > deadline:
                        self.clock.pass_by(deadline - self.clock.spent)
                        return OUT_OF_TIME
                    self.clock.pass_by(taken)
                    self._ended[model] += 1
        return OK

    def _read_settings(self) -> dict[str, list[TriedSetting]]:
        settings: dict[str, list[TriedSetting]] = {}
        for model in self.searched:
            ended = self._ended[model]
            settings[model] = []
            for number in range(math.ceil(ended / self.num_folds)):
                seconds, value = self._setting_of(model, number)
                num_ended = min(ended - number * self.num_folds, self.num_folds)
                of_setting = seconds[:num_ended]
                fit = TimedFit(fmean(of_setting), value)
                settings[model].append(TriedSetting(fit, of_setting))
        return settings

    def last_fits(self) -> None:
        best = best_settings(self._read_settings(), self.journal.trials)
        for fit in best.values():
            self.clock.pass_by(self.num_folds * (fit.seconds + SECONDS_BESIDE_FIT))
        final = FINAL_FIT * best_fit(best).seconds
        self.clock.pass_by(final + SECONDS_AT_THE_END)


@pytest.mark.parametrize("minutes", [2, 3, 10, 60])
@pytest.mark.parametrize("folds", [1, 5])
def test_the_time_asked_for_holds_for_short_and_long_fits(
    minutes: int, folds: int
) -> None:
    shares: list[float] = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        number = int(rng.integers(3, 7))
        # All first fits together; the time does not hold for a model whose fits take a sixth of it.
        of_all = rng.uniform(0.01, 0.15) * 60 * minutes
        parts = rng.dirichlet(np.ones(number))
        typical = {f"model {i}": of_all * float(part) for i, part in enumerate(parts)}
        simulated = Simulated(rng, 60.0 * minutes, typical, folds)
        simulated.first_fits()
        simulated._search()
        simulated._leave_out_late()
        simulated.last_fits()
        shares.append(simulated.clock.spent / simulated.clock.budget)
    assert max(shares) <= 1.2
    assert np.median(shares) >= 0.8


def test_the_journal_has_every_part_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "log.parquet"
    folder.mkdir()
    for name in ("part-0.parquet", "part-1.parquet"):
        (folder / name).write_bytes(b"of yesterday")
    order = Order(table=folder)
    before = order.record
    assert order.record == before
    (folder / "part-1.parquet").write_bytes(b"of today")
    assert order.record != before
