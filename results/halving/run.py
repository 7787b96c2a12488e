"""The regret of successive halving, against the full search with the same settings.

A pool of settings is fitted once on every fold, fully, and its validation curves are kept. Each seed draws
settings from the pool, and searches with them twice: by successive halving, replayed on the curves, and by
the full search, which fits every setting with all trees. The regret is the validation metric of the full
search's winner minus that of the setting that halving chooses, both fitted fully. Early stopping applies to
all fits. An iteration counts whenever it is fitted, again if a setting is fitted again with more trees.

A fit with fewer trees is the beginning of a fit with more trees. A search that ends fits early can therefore
be replayed from the curves, without training again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

import ltrbench.native
from ltrbench.data import RankingDataset, Splits
from ltrbench.data.sources import DataSource
from ltrbench.errors import ConfigError, DataError
from ltrbench.experiment import Study
from ltrbench.measure import described, versions
from ltrbench.metrics import DEFAULT, evaluate
from ltrbench.rankers import BoostingRanker, EarlyStopping, Iteration, Ranker
from ltrbench.search import (
    OVERALL,
    PER_FOLD,
    Proposal,
    Range,
    SearchedModel,
    Space,
    SuccessiveHalving,
    Trial,
    Value,
    settings_of,
)
from ltrbench.tables import Table, listed
from results.studies import publish_study

log = logging.getLogger("ltrbench")

Curve = NDArray[np.float64]
"""(n,), the value on validation after each of the n iterations that early stopping allowed."""

Curves = Sequence[Sequence[Curve]]
"""Setting -> fold -> its curve."""

_NAME = "setting"
_STAND_IN = {_NAME: Range(0, 2**31 - 1)}
"""So many numbers that no two settings get the same."""


@dataclass(frozen=True)
class HalvingOutcome:
    """Both searches of one seed, on one fold or on all folds together.

    Attributes:
        iterations: number of iterations that halving fits.
        full_iterations: number of iterations of the full search.
        regret: validation metric of the full search's winner minus that of halving's choice.
        shorter_regret: the same for a full search that ends when it has fitted as many iterations as halving.
    """

    iterations: int
    full_iterations: int
    regret: float
    shorter_regret: float

    @property
    def share(self) -> float:
        """Iterations of halving as a share of those of the full search."""
        return self.iterations / self.full_iterations


Outcomes = Mapping[str, Mapping[str, Sequence[Sequence[HalvingOutcome]]]]
"""Data set -> how settings are chosen -> seed -> its outcomes, one per choice."""


@dataclass(frozen=True)
class SearchOutcomes:
    """The outcomes of one search."""

    search: SuccessiveHalving
    outcomes: Outcomes


@dataclass(kw_only=True)
class HalvingStudy(Study):
    """Replays successive halving on recorded curves, and writes the table.

    Args:
        output: output folder.
        curves: folder that keeps the curves, so that an interrupted study continues.
        space: ranges of the settings of the pool.
        pool: number of settings in the pool; the first one has the model's own.
        halving: the search; every seed draws `halving.trials` settings, the first one always the model's own.
        other_min_trees: further values of `halving.min_trees`, for comparison.
        seeds: number of seeds.
        seed: random seed of the pool.
    """

    output: str
    curves: str
    space: Space
    pool: int
    seeds: int
    seed: int
    halving: SuccessiveHalving = field(default_factory=SuccessiveHalving)
    other_min_trees: list[int] = field(default_factory=list)

    def run(self, models: Mapping[str, Ranker], data: Mapping[str, DataSource]) -> Path:
        """Fits the pool and replays the searches; returns the path of the table.

        Args:
            data: the folds of one or more data sets; folds with the same `name` are one data set.

        Raises:
            ConfigError: The model has no trees or no early stopping, or the pool is too small.
            DataError: A data set is not available or has no validation set.
        """
        ((name, ranker),) = models.items()
        if not isinstance(ranker, BoostingRanker):
            raise ConfigError(
                f"study.models.{name} has no trees; give a boosted model, such as native."
            )
        if self.pool < self.halving.trials:
            raise ConfigError(
                f"study.what.pool is {self.pool}, but each seed draws {self.halving.trials} settings; set "
                "it to at least study.what.halving.trials."
            )
        space = self.space.of(name, ranker)
        pool = [
            settings_of(ranker, space),
            *drawn_settings(space, self.pool - 1, self.seed),
        ]
        splits = {key: source.load() for key, source in data.items()}
        curves = self._fitted(
            ranker, pool, {key: (data[key].name, item) for key, item in splits.items()}
        )
        replayed = self._replayed(curves, ranker.num_trees)
        by_seed = f"By seed, with {self.halving.min_trees} trees in the first rung; means over its choices:"
        return publish_study(
            Path(self.output),
            f"{self._how(name, ranker, space)}\n\n{_summary(replayed, ranker.num_trees)}\n\n"
            f"{by_seed}\n\n{_by_seed(replayed[0].outcomes)}",
            command="python -m ltrbench experiment=halving",
            packages=ranker.packages,
            conventions=[DEFAULT],
            data=splits,
        )

    def _fitted(
        self,
        ranker: BoostingRanker,
        pool: Sequence[Mapping[str, Value]],
        data: Mapping[str, tuple[str, Splits]],
    ) -> dict[str, list[list[Curve]]]:
        """Returns data set -> setting -> fold -> curve."""
        curves: dict[str, list[list[Curve]]] = {}
        for number, settings in enumerate(pool):
            log.info("halving: setting %d of %d, %s", number + 1, self.pool, settings)
            of_setting: dict[str, list[Curve]] = {}
            for key, (name, splits) in data.items():
                if splits.valid is None:
                    raise DataError(
                        f"study.data.{key} has no validation set; set its valid_share above 0."
                    )
                model = _with_settings(ranker, settings)
                curve = curve_of(model, splits.train, splits.valid, Path(self.curves))
                of_setting.setdefault(name, []).append(curve)
            for name, of_data in of_setting.items():
                curves.setdefault(name, []).append(of_data)
        return curves

    def _replayed(
        self, curves: Mapping[str, Curves], num_trees: int
    ) -> list[SearchOutcomes]:
        """Returns the outcomes of `halving`, and those with other numbers of trees in the first rung."""
        others = [
            replace(self.halving, min_trees=number) for number in self.other_min_trees
        ]
        return [
            SearchOutcomes(
                search,
                {
                    of: self._outcomes(search, item, num_trees)
                    for of, item in curves.items()
                },
            )
            for search in (self.halving, *others)
        ]

    def _outcomes(
        self, halving: SuccessiveHalving, curves: Curves, num_trees: int
    ) -> dict[str, list[list[HalvingOutcome]]]:
        """Returns how settings are chosen -> seed -> its outcomes on one data set."""
        outcomes: dict[str, list[list[HalvingOutcome]]] = {PER_FOLD: [], OVERALL: []}
        for seed in range(self.seeds):
            rng = np.random.default_rng([self.seed, seed])
            others = 1 + rng.choice(self.pool - 1, halving.trials - 1, replace=False)
            drawn = [curves[number] for number in (0, *others.tolist())]
            for choose, of_seeds in outcomes.items():
                search = replace(halving, seed=seed, choose=choose)
                num_folds = len(drawn[0])
                groups = [slice(fold, fold + 1) for fold in range(num_folds)]
                groups = [slice(num_folds)] if choose == OVERALL else groups
                of_seeds.append(
                    [
                        replay(search, [item[group] for item in drawn], num_trees)
                        for group in groups
                    ]
                )
        return outcomes

    def _how(
        self, name: str, ranker: BoostingRanker, space: Mapping[str, Range]
    ) -> str:
        ranges = ", ".join(f"{setting} {values}" for setting, values in space.items())
        rule, search, num_trees = stopping_rule(ranker), self.halving, ranker.num_trees
        return (
            f"{name}, at most {num_trees} trees, early stopping on validation {rule.metric} with patience "
            f"{rule.patience}. Pool of {self.pool} settings: {ranges}; the first one is the default. Each of "
            f"{self.seeds} seeds draws {search.trials} settings, the default among them. One in "
            f"{search.eta} settings is kept at each rung. {PER_FOLD}: one choice for each fold; "
            f"{OVERALL}: one choice for all folds, by the mean over them, with fewer folds in early rungs. "
            f"Regret: validation {rule.metric} of the full search's winner minus that of the chosen "
            "setting, both fitted fully. The iterations of halving include those of settings that are fitted "
            "again with more trees. The shorter search fits the same settings fully, in their order, within "
            "the iterations of halving. These are measurements on these data sets, not a guarantee."
        )


def _with_settings(
    ranker: BoostingRanker, settings: Mapping[str, Any]
) -> BoostingRanker:
    return replace(ranker, **settings)


def replay(
    halving: SuccessiveHalving, curves: Curves, num_trees: int
) -> HalvingOutcome:
    """Returns the outcome of both searches on recorded curves.

    Halving compares values only, never settings: a number that it draws stands for each setting.

    Args:
        curves: of every setting, fitted with `num_trees`, the default first.
    """
    model = SearchedModel(_STAND_IN, {_NAME: None}, num_trees, num_folds=len(curves[0]))
    places: dict[Value, int] = {}
    trials: list[Trial] = []
    while proposals := halving.propose(model, trials):
        for proposal in proposals:
            place = places.setdefault(proposal.settings[_NAME], len(places))
            trials.append(_replayed(proposal, curves[place]))
    best = max(
        (trial for trial in trials if trial.is_complete),
        key=lambda trial: trial.value or 0.0,
    )
    values = [fmean(curve.max() for curve in of_setting) for of_setting in curves]
    fitted = np.cumsum([sum(map(len, of_setting)) for of_setting in curves])
    iterations = sum(trial.iterations for trial in trials)
    num_affordable = max(int(np.searchsorted(fitted, iterations, side="right")), 1)
    return HalvingOutcome(
        iterations=iterations,
        full_iterations=int(fitted[-1]),
        regret=max(values) - values[places[best.proposal.settings[_NAME]]],
        shorter_regret=max(values) - max(values[:num_affordable]),
    )


def _replayed(proposal: Proposal, curves: Sequence[Curve]) -> Trial:
    """Returns the trial that fits the beginning of the curves of a setting, on the first folds."""
    fitted = [curve[: proposal.num_trees] for curve in curves[: proposal.num_folds]]
    return Trial(
        proposal=proposal,
        value=fmean(curve.max() for curve in fitted),
        iterations=sum(map(len, fitted)),
    )


def _summary(replayed: Sequence[SearchOutcomes], num_trees: int) -> str:
    """Returns the table over seeds and folds."""
    header = [
        "data",
        "chosen",
        "trees of rungs",
        "choices",
        "iterations %",
        "highest %",
        "mean regret",
        "median",
    ]
    header += ["worst", "same winner %", "shorter search: mean regret", "worst"]
    rows = [
        [
            data,
            choose,
            _rungs(of_search.search, num_trees),
            *_cells([item for row in of_seeds for item in row]),
        ]
        for data in replayed[0].outcomes
        for of_search in replayed
        for choose, of_seeds in of_search.outcomes[data].items()
    ]
    return Table.of(header, rows).markdown()


def _rungs(search: SuccessiveHalving, num_trees: int) -> str:
    return listed(
        [str(rung.num_trees or num_trees) for rung in search.rungs(num_trees, 1)]
    )


def _cells(outcomes: Sequence[HalvingOutcome]) -> list[str]:
    """Returns the figures over all choices of a search."""
    shares = [outcome.share for outcome in outcomes]
    regrets = [outcome.regret for outcome in outcomes]
    shorter = [outcome.shorter_regret for outcome in outcomes]
    same = fmean(regret == 0 for regret in regrets)
    return [
        str(len(outcomes)),
        *(f"{100 * share:.1f}" for share in (fmean(shares), max(shares))),
        *(f"{value:.4f}" for value in (fmean(regrets), median(regrets), max(regrets))),
        f"{100 * same:.0f}",
        *(f"{value:.4f}" for value in (fmean(shorter), max(shorter))),
    ]


def _by_seed(outcomes: Outcomes) -> str:
    """Returns the table with a row per seed: iterations and regrets, means over the choices of the seed."""
    columns = [
        (f"{data} {choose}", of_seeds)
        for data, of_data in outcomes.items()
        for choose, of_seeds in of_data.items()
    ]
    header = [
        "seed",
        *(
            f"{name}: {what}"
            for name, _ in columns
            for what in ("iterations %", "regret")
        ),
    ]
    rows = []
    for seed in range(len(columns[0][1])):
        row = [str(seed)]
        for _, of_seeds in columns:
            row.append(
                f"{100 * fmean(outcome.share for outcome in of_seeds[seed]):.1f}"
            )
            row.append(f"{fmean(outcome.regret for outcome in of_seeds[seed]):.4f}")
        rows.append(row)
    return Table.of(header, rows).markdown()


def drawn_settings(
    space: Mapping[str, Range], number: int, seed: int
) -> list[dict[str, Value]]:
    """Returns random settings: independent draws from every range, uniform on its scale."""
    rng = np.random.default_rng(seed)
    return [
        {name: _drawn(values, rng) for name, values in space.items()}
        for _ in range(number)
    ]


def _drawn(values: Range, rng: Generator) -> Value:
    if values.values is not None:
        value: Value = values.values[rng.integers(len(values.values))]
        return value
    assert values.low is not None  # Range has checked it
    assert values.high is not None
    # Each whole number has the interval up to the next one.
    low, high = float(values.low), float(values.high + values.is_integer)
    drawn = (
        math.exp(rng.uniform(math.log(low), math.log(high)))
        if values.log
        else rng.uniform(low, high)
    )
    return (
        min(int(drawn), int(values.high))
        if values.is_integer
        else min(float(drawn), float(values.high))
    )


def stopping_rule(ranker: BoostingRanker) -> EarlyStopping:
    """Returns the rule of early stopping of a model.

    Raises:
        ConfigError: The model has none.
    """
    if ranker.early_stopping is None:
        raise ConfigError(
            "the model has early_stopping=null; the study needs early stopping."
        )
    return ranker.early_stopping


def curve_of(
    ranker: BoostingRanker, train: RankingDataset, valid: RankingDataset, folder: Path
) -> Curve:
    """Returns the curve of a model; it is fitted only if `folder` does not have its curve yet."""
    path = folder / f"{_key(ranker, train, valid)}.npz"
    if path.is_file():
        with np.load(path) as stored:
            return np.asarray(stored["curve"], dtype=np.float64)
    metric, values = stopping_rule(ranker).metric, list[float]()

    def record(iteration: Iteration) -> None:
        assert iteration.valid_scores is not None  # every fit has a validation set
        values.append(evaluate(valid, iteration.valid_scores, [metric]).means[metric])

    ranker.fit(train, valid, record)
    curve = np.array(values)
    folder.mkdir(parents=True, exist_ok=True)
    # Renamed when complete: an interrupted study must not leave half a curve.
    partial = path.with_suffix(".partial.npz")
    np.savez(partial, curve=curve)
    partial.rename(path)
    return curve


def _key(ranker: BoostingRanker, train: RankingDataset, valid: RankingDataset) -> str:
    """Returns a digest of everything that the curve depends on."""
    content: list[Any] = [described(ranker), train.fingerprint, valid.fingerprint]
    content += [versions(ranker.packages), _code_of_engine()]
    return hashlib.blake2b(
        json.dumps(content, sort_keys=True).encode(), digest_size=16
    ).hexdigest()


@functools.cache
def _code_of_engine() -> str:
    files = sorted(Path(ltrbench.native.__file__).parent.rglob("*.py"))
    return hashlib.blake2b(
        b"".join(file.read_bytes() for file in files), digest_size=16
    ).hexdigest()
