"""The contract of a search: it proposes trials, and sees how they end.

A trial trains a model on the training set and evaluates it on the validation set; it never sees the test set.
To add a search, write one dataclass derived from `Search` and one YAML in conf/search whose `_target_` names
it.

`Search.propose` is a function of the settings of the search and of the trials that have ended, in the order
of their numbers. It is called again when all proposed trials have ended. A search therefore proposes the same
trials whatever the number of workers, and an interrupted search continues from the run folders of its trials.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ltrbench.errors import require, require_choice
from ltrbench.metrics import parse_metric
from ltrbench.search.space import Range, Space, Value

CHOICES = PER_FOLD, OVERALL, ACROSS_DATA = "per_fold", "overall", "across"
"""Values of `Search.choose`."""

BATCH = 8
"""Number of trials that are proposed together, if a search does not propose all of them at once."""


@dataclass(frozen=True)
class Proposal:
    """A trial that a search wants.

    Attributes:
        number: number of the trial, from 0.
        settings: setting of the ranker -> value.
        num_trees: maximum number of trees; None: that of the ranker.
        num_folds: number of folds to train on, in the order of the sweep; None: all. Only for a search that
            chooses one setting for several folds.
        minimum: number of trees -> the fit ends there if its best value so far is below this one.
    """

    number: int
    settings: Mapping[str, Value]
    num_trees: int | None = None
    num_folds: int | None = None
    minimum: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """A trial that has ended. For several folds: means of the values, sums of iterations and seconds.

    Attributes:
        value: metric on validation at the best iteration; None: the trial failed.
        iterations: number of iterations fitted.
        seconds: time of the fits.
        curve: number of trees -> best value so far, in order.
        is_pruned: whether `Proposal.minimum` ended a fit.
    """

    proposal: Proposal
    value: float | None
    iterations: int = 0
    seconds: float = 0.0
    curve: Mapping[int, float] = field(default_factory=dict)
    is_pruned: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether the setting was trained fully, on all folds, so that it may be chosen."""
        proposal = self.proposal
        is_whole = proposal.num_trees is None and proposal.num_folds is None and not self.is_pruned
        return is_whole and self.value is not None


@dataclass(frozen=True)
class SearchedModel:
    """A model whose settings are searched.

    Attributes:
        space: the settings that the model can vary.
        default: their present values, which need not be in their ranges.
        num_trees: maximum number of trees.
        num_folds: number of folds that share the choice.
    """

    space: Mapping[str, Range]
    default: Mapping[str, Value]
    num_trees: int
    num_folds: int = 1


@dataclass(kw_only=True)
class Search(ABC):
    """Base class of searches.

    Attributes:
        space: the settings to vary.
        trials: number of trials for each model and fold. The first one has the default settings.
        seconds: instead of a number of trials, the time of all fits after which no trial begins; the result
            then depends on the machine. None: no limit.
        seed: random seed of the search, and of the models of its trials.
        metric: metric on the validation set, under the default convention.
        choose: per_fold: a setting for each fold, by its own validation set; overall: one setting for all
            folds of a data set; across: one setting for all folds and data sets. A search is refused if the
            choice would see test queries.

    Raises:
        ConfigError: a value is unknown or out of range.
    """

    space: Space = field(default_factory=Space)
    trials: int = 50
    seconds: float | None = None
    seed: int = 0
    metric: str = "ndcg@10"
    choose: str = PER_FOLD

    def __post_init__(self) -> None:
        require("search.trials", self.trials, at_least=1)
        require("search.seed", self.seed, at_least=0)
        if self.seconds is not None:
            require("search.seconds", self.seconds, above=0)
        parse_metric(self.metric)
        require_choice("search.choose", self.choose, CHOICES)

    @abstractmethod
    def propose(self, model: SearchedModel, trials: Sequence[Trial]) -> list[Proposal]:
        """Returns the next proposals; none if the search has ended.

        Args:
            model: the model whose settings are searched.
            trials: all trials so far, in the order of their numbers.

        Raises:
            ConfigError: the search does not fit the space.
        """

    def has_time(self, trials: Sequence[Trial]) -> bool:
        """Returns whether another trial may begin."""
        return self.seconds is None or sum(trial.seconds for trial in trials) < self.seconds

    def next_numbers(self, trials: Sequence[Trial], batch: int | None) -> range:
        """Returns the numbers of the next trials: the rest of a batch.

        Batches begin at multiples of their size, wherever a search was interrupted.

        With `seconds`, `trials` is no limit; the search then ends also after a batch in which every trial
        failed, because failed trials take no time.

        Args:
            batch: number of trials of a batch; None: one batch with all trials.
        """
        begin = len(trials)
        if self.seconds is None:
            end = self.trials
        else:
            batch = batch or BATCH
            last = trials[-batch:]
            has_failed = len(last) == batch and all(trial.value is None for trial in last)
            end = begin if has_failed or not self.has_time(trials) else begin + batch
        return range(begin, end if batch is None else min(end, begin - begin % batch + batch))


@dataclass(kw_only=True)
class NoSearch(Search):
    """No search: `resolved` of the configuration turns it into null."""

    def propose(self, model: SearchedModel, trials: Sequence[Trial]) -> list[Proposal]:
        return []
