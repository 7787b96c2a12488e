"""Successive halving: many settings get few trees and folds, and only the best of them get more.

Jamieson and Talwalkar, 2016, "Non-stochastic Best Arm Identification and Hyperparameter Optimization".
With n settings, rungs k = 0, ..., K - 1 and the settings S_0 of the first one,

    S_{k+1} = the ceil(|S_k| / eta) best of S_k, trained anew with r_{k+1} trees,

where r_k = min_trees eta^k, and the last rung has all R trees of the model. Rungs above R / 2 are left out,
because the last one would hardly differ from them.

With n = 64, eta = 4, min_trees = 20 and R = 300, the rungs have 63 fits of 20 trees, 16 of 80, and 4 of 300,
and the default settings are trained fully. If full fits stop after 230 iterations on average, these are 25 %
of the iterations of 64 full fits; if they stop after 140, 36 %. results/halving has measurements: a first
rung of 15 trees is cheaper, but its regret was not below that of a shorter random search.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ltrbench.errors import ConfigError, require
from ltrbench.search.base import Proposal, Search, SearchedModel, Trial
from ltrbench.search.optuna_study import draw
from ltrbench.search.space import Value


@dataclass(frozen=True)
class Rung:
    """Number of trees and folds of the trials of a rung; None: all."""

    num_trees: int | None
    num_folds: int | None


@dataclass(kw_only=True)
class SuccessiveHalving(Search):
    """Proposes random settings, those of `RandomSearch` with the same seed, and trains the best ones longer.

    `trials` is the number of settings. A setting that is kept is a new trial with a new number. Trial 0, with
    the default settings, is trained fully and does not take part, so that every search can be compared with
    it.

    With several folds, early rungs use fewer of them: rung k of K trains on the first ceil(F / 2^(K - 1 - k))
    of F folds. Of five folds with three rungs: 2, 3 and 5.

    Attributes:
        min_trees: number of trees of the first rung.
        eta: one of this many settings is kept at each rung, which has this many times the trees of the rung
            before.

    Raises:
        ConfigError: a value is out of range, or the search has a time limit.
    """

    min_trees: int = 20
    eta: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        require("search.min_trees", self.min_trees, at_least=1)
        require("search.eta", self.eta, at_least=2)
        if self.seconds is not None:
            raise ConfigError(
                f"search.seconds is {self.seconds}, but successive halving must know its number of settings. "
                "Set search.trials and search.seconds=null, or use search=tpe."
            )

    def propose(self, model: SearchedModel, trials: Sequence[Trial]) -> list[Proposal]:
        rungs = self.rungs(model.num_trees, model.num_folds)
        proposals = [Proposal(0, dict(model.default))]
        settings: list[Mapping[str, Value]] = []
        if model.space:
            settings = [trial.proposal.settings for trial in trials[1 : self.trials]]
            numbers = range(1 + len(settings), self.trials)
            settings += [draw(model.space, self.seed, number) for number in numbers]
        for rung in rungs:
            begin = len(proposals)
            proposals += [
                Proposal(number, dict(values), rung.num_trees, rung.num_folds)
                for number, values in enumerate(settings, start=begin)
            ]
            if len(trials) < len(proposals):
                break
            num_kept = math.ceil(len(settings) / self.eta)
            best = _best(trials[begin : len(proposals)], num_kept)
            settings = [trial.proposal.settings for trial in best]
        return proposals[len(trials) :]

    def rungs(self, num_trees: int, num_folds: int) -> list[Rung]:
        """Returns the rungs of a model with a number of trees, on a number of folds.

        Raises:
            ConfigError: there would be only one rung, of full fits.
        """
        trees: list[int] = []
        while (next_trees := self.min_trees * self.eta ** len(trees)) * 2 <= num_trees:
            trees.append(next_trees)
        if not trees:
            raise ConfigError(
                f"search.min_trees is {self.min_trees}, more than half of the model's {num_trees} trees, so "
                f"that no fit would be shorter. Set search.min_trees to at most {num_trees // 2}, or more "
                "params.num_trees."
            )
        folds = [math.ceil(num_folds / 2 ** (len(trees) - place)) for place in range(len(trees))]
        return [
            *(
                Rung(of_rung, number if number < num_folds else None)
                for of_rung, number in zip(trees, folds, strict=True)
            ),
            Rung(None, None),
        ]


def _best(trials: Sequence[Trial], number: int) -> list[Trial]:
    """Returns the best trials, of equal ones those with lower numbers, in the order of their numbers."""
    succeeded = [(trial.value, trial) for trial in trials if trial.value is not None]
    ranked = sorted(succeeded, key=lambda pair: (-pair[0], pair[1].proposal.number))
    return sorted((trial for _, trial in ranked[:number]), key=lambda trial: trial.proposal.number)
