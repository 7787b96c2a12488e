"""Searches of a sweep: plans their trials round by round, and chooses the settings of their jobs.

The run folders of the trials are the only state of a search: `Search.propose` gives the same proposals again
for the same trials. A repeated or resumed command therefore continues where the last one ended.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import nan
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.config import build
from ltrbench.data.sources import DataSource
from ltrbench.errors import ConfigError, LtrbenchError, ResultError
from ltrbench.experiment import ChosenSettings
from ltrbench.experiment.loading import load_once
from ltrbench.folders import find_class
from ltrbench.metrics import evaluate
from ltrbench.native.objectives.base import record_of
from ltrbench.rankers import Ranker
from ltrbench.runs import origin
from ltrbench.runs.record import (
    COMPLETE,
    FINISHED,
    PARTIAL,
    PRUNED,
    UNSUCCESSFUL,
    Run,
    SearchRecord,
    TrialRow,
    writing_to,
)
from ltrbench.runs.spec import first_word
from ltrbench.search import (
    PER_FOLD,
    Proposal,
    Search,
    SearchedModel,
    Trial,
    Value,
    setting_importances,
    settings_of,
    write_journal,
)
from ltrbench.statistics import Interval, PairedSample
from ltrbench.statistics.claims import winner_intervals
from ltrbench.sweep.plan import (
    DONE,
    RUNNING,
    Job,
    key_of_trial,
    search_group,
    state_of,
    states_of,
)

_NOT_OF_A_TRIAL = ("search", "seed", "metrics", "importance", "timing")
"""Settings of a job that its trials do not take over."""

_RECORDED_APART = ("space", "seed", "metric", "choose")
"""Settings of a search that are no part of `SearchRecord.budget`."""

JOURNAL_FILE = "optuna_journal.log"
"""File in the folder of the sweep with all trials, for Optuna's dashboard; ltrbench never reads it."""

PlanTrials = Callable[[Sequence[Job]], list[Job]]
"""Adds drafts of trials to the plan, and returns each with its number and folder, in the same order."""


@dataclass
class JobSearch:
    """One search: the jobs whose settings it chooses, and its trials.

    Attributes:
        jobs: one job per fold (and data set) that shares the choice, finished ones too; a single one with
            choose=per_fold.
        proposed: each proposal so far, and its jobs, one per fold.
        trials: the trials that have ended.
    """

    sweep: Path
    jobs: Sequence[Job]
    proposed: list[tuple[Proposal, list[Job]]] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)

    def __post_init__(self) -> None:
        first = self.jobs[0]
        experiment = first.experiment()
        self.search = build(first.spec.settings, "search", Search)
        ranker = experiment.ranker
        model = experiment.model
        space = self.search.space.of(model, ranker)
        if not space:
            raise ConfigError(
                f"model={model} has no setting to search for. Set '+search.space.models.{model}.SETTING="
                "{low: 1, high: 10}', or run this model with search=none and the same hydra.sweep.dir."
            )
        self.objective: dict[str, Any] = {}
        if any(name.startswith("objective.") for name in space):
            self.objective["objective"] = record_of(vars(ranker)["objective"])
        # A linear model has no iterations.
        most = getattr(ranker, ranker.iterations_field or "", 1)
        self.model = SearchedModel(
            space, settings_of(ranker, space), most, len(self.jobs)
        )
        self.earlier = self._earlier_choice()
        if self.earlier is None and len(self.jobs) > 1:
            self._refuse_leakage()

    def _earlier_choice(self) -> ChosenSettings | None:
        """Returns the choice with which a job has finished: the other jobs have the same settings, even if a
        trial that failed then would succeed now. None if no job has finished."""
        runs = (
            state.run
            for state in states_of(self.sweep, self.jobs)
            if state.name == DONE
        )
        finished = next((run for run in runs if run is not None), None)
        if finished is None:
            return None
        return ChosenSettings(finished.result.search, finished.trials())

    def _refuse_leakage(self) -> None:
        """Raises ConfigError if validation queries of a fold are test queries of another one, by content: the
        choice would see them."""
        splits = {}
        for job in self.jobs:
            source = build(job.spec.settings, "data", DataSource)
            # The number, because two data sets may have the same name.
            splits[f"{job.spec.data} (job {job.number})"] = load_once(source)[0]
        leaked = []
        for (name, of_name), (other, of_other) in itertools.permutations(
            splits.items(), 2
        ):
            if of_name.valid is None:
                continue
            common = np.intersect1d(of_name.valid.query_keys, of_other.test.query_keys)
            if common.size:
                leaked.append(
                    f"the validation set of {name} contains {common.size} test queries of {other}"
                )
        if leaked:
            raise ConfigError(
                f"search.choose is {self.search.choose}, one setting for {', '.join(splits)}, but "
                f"{'; '.join(leaked)}. Set search.choose={PER_FOLD}."
            )

    @property
    def name(self) -> str:
        """The jobs whose settings are searched, such as "native, mq2008 fold 1 (job 0)"."""
        spec = self.jobs[0].spec
        numbers = ", ".join(str(job.number) for job in self.jobs)
        return f"{spec.model}, {spec.data} (job {numbers})"

    def next_trials(
        self, plan: PlanTrials, attempted: set[str]
    ) -> list[tuple[int, Job]]:
        """Returns (number of the trial, job) for the jobs of the next trials that have not ended; none if the
        search has ended.

        Args:
            attempted: folders of the jobs that this command has run; a failed one is not run again.
        """
        while self.earlier is None:
            present = self.proposed[len(self.trials) :]
            open_jobs: list[tuple[int, Job]] = []
            for proposal, jobs in present:
                open_jobs += [
                    (proposal.number, job)
                    for job in jobs
                    if not _has_ended(self.sweep, job, attempted)
                ]
            if open_jobs:
                return open_jobs
            for proposal, jobs in present:
                runs = self._runs(jobs)
                trial = Trial(proposal, None)
                # A job whose process died may have no run.
                if len(runs) == len(jobs):
                    trial = trial_of(proposal, runs, self.search.metric)
                self.trials.append(trial)
            proposals = self._propose()
            if not proposals:
                break
            self._add(proposals, plan)
        return []

    def _propose(self) -> list[Proposal]:
        """Returns the next proposals; none after the last one.

        Raises:
            ConfigError: the settings of the search do not fit the model.
        """
        try:
            return self.search.propose(self.model, self.trials)
        except ConfigError as error:
            raise ConfigError(f"model={self.jobs[0].spec.model}: {error}") from None

    def _add(self, proposals: Sequence[Proposal], plan: PlanTrials) -> None:
        drafts: list[Job] = []
        for proposal in proposals:
            drafts += self._drafts(proposal)
        planned = iter(plan(drafts))
        for proposal in proposals:
            num_jobs = len(self.jobs[: proposal.num_folds])
            jobs = list(itertools.islice(planned, num_jobs))
            self.proposed.append((proposal, jobs))

    def _drafts(self, proposal: Proposal) -> list[Job]:
        jobs = self.jobs[: proposal.num_folds]
        return [trial_job(job, proposal, self.search, self.objective) for job in jobs]

    def _runs(self, jobs: Iterable[Job]) -> list[Run]:
        """Returns the runs of the jobs of a trial, without runs of other jobs in their folders."""
        runs = []
        for job in jobs:
            run = state_of(self.sweep, job).run
            if run is not None and run.result.key == job.digest:
                runs.append(run)
        return runs

    def choice(self) -> ChosenSettings:
        """Returns the best settings on validation.

        Raises:
            ResultError: No trial was trained fully.
        """
        if self.earlier is not None:
            return self.earlier
        search = self.search
        best = chosen(self.trials, self._first_failure())
        runs = {proposal.number: self._runs(jobs) for proposal, jobs in self.proposed}
        of_trials = rows(self.trials, best, runs, search.metric, search.seed)
        return ChosenSettings(self._record(best), of_trials)

    def _first_failure(self) -> str:
        """Returns why the first job of a trial failed; empty without a reason."""
        jobs = itertools.chain.from_iterable(jobs for _, jobs in self.proposed)
        reasons = (state_of(self.sweep, job).reason for job in jobs)
        return next(filter(None, reasons), "")

    def _record(self, best: Trial) -> SearchRecord:
        search = self.search
        space = self.model.space
        trials = self.trials
        budget = {
            item.name: getattr(search, item.name)
            for item in fields(search)
            if item.name not in _RECORDED_APART
        }
        num_failed = sum(trial.value is None for trial in trials)
        iterations = sum(trial.iterations for trial in trials)
        seconds = sum(trial.seconds for trial in trials)
        in_words = {setting: str(values) for setting, values in space.items()}
        return SearchRecord(
            name=self.jobs[0].spec.choice("search"),
            seed=search.seed,
            metric=search.metric,
            choose=search.choose,
            budget=budget,
            space=in_words,
            trials=len(trials),
            failed=num_failed,
            iterations=iterations,
            seconds=seconds,
            chosen=best.proposal.number,
            settings=dict(best.proposal.settings),
            default=dict(self.model.default),
            importance=setting_importances(space, trials),
        )


@dataclass
class Searches:
    """The searches of a command.

    Attributes:
        sweep: folder of the sweep.
        plan: adds trials to the plan of the sweep.
        searches: all searches.
        attempted: folders of the jobs that this command has run.
    """

    sweep: Path
    plan: PlanTrials
    searches: Sequence[JobSearch]
    attempted: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.open = list(self.searches)

    def next_round(self) -> tuple[list[Job], dict[int, ChosenSettings | LtrbenchError]]:
        """Returns the trials to run next, and number of a job -> choice, for the searches that have ended; an
        error for a search without a choice.

        The first trials of all searches come before their second ones, and a search waits for those that have
        proposed fewer trials, so that a command without the time for all of them has tried as many settings
        of each model.

        Raises:
            ConfigError: A search does not fit its space.
        """
        batches: list[list[tuple[int, Job]]] = []
        ended: dict[int, ChosenSettings | LtrbenchError] = {}
        for search in list(self.open):
            batch = search.next_trials(self.plan, self.attempted)
            if batch:
                batches.append(batch)
                continue
            self.open.remove(search)
            try:
                choice: ChosenSettings | LtrbenchError = search.choice()
            except ResultError as error:
                choice = error
            ended |= dict.fromkeys((job.number for job in search.jobs), choice)
        once = {job.number: job for job in _in_turn(batches)}
        self.attempted |= {job.folder for job in once.values()}
        if once or ended:
            of_dashboard = {
                search.name: (search.model.space, search.trials)
                for search in self.searches
            }
            with writing_to(self.sweep):
                write_journal(self.sweep / JOURNAL_FILE, of_dashboard)
        return list(once.values()), ended


def _in_turn(batches: Sequence[Sequence[tuple[int, Job]]]) -> list[Job]:
    """Returns the jobs of the next trials of searches, by the number of the trial in its search, up to the
    last number that every search has proposed.

    Args:
        batches: (number of the trial, job) for the next trials of each search, ascending.

    >>> _in_turn([[(7, "B7")], [(8, "A8"), (9, "A9")]])
    ['B7']
    >>> _in_turn([[(0, "A0"), (1, "A1")], [(0, "B0"), (1, "B1")]])
    ['A0', 'B0', 'A1', 'B1']
    """
    last_numbers = [batch[-1][0] for batch in batches]
    in_all = min(last_numbers, default=0)
    trials = itertools.chain.from_iterable(batches)
    in_turn = sorted(trials, key=lambda trial: trial[0])
    return [job for number, job in in_turn if number <= in_all]


def searches_of(
    sweep: Path, jobs: Iterable[Job], wanted: Collection[int]
) -> list[JobSearch]:
    """Returns the searches of jobs; jobs whose choice is shared have one search.

    Args:
        jobs: all jobs of the command with a search.
        wanted: numbers of the jobs that will run.

    Raises:
        ConfigError: A model has no setting in the search space, or a choice would see test queries.
    """
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(search_group(job), []).append(job)
    numbers = set(wanted)

    def is_wanted(group: list[Job]) -> bool:
        return any(job.number in numbers for job in group)

    return [JobSearch(sweep, group) for group in filter(is_wanted, groups.values())]


def _has_ended(sweep: Path, job: Job, attempted: set[str]) -> bool:
    """Returns whether a job has finished, or this command has run it in vain.

    A job whose settings cannot be composed or whose process died leaves no run, and its state is waiting.
    """
    name = state_of(sweep, job).name
    return name == DONE or (name != RUNNING and job.folder in attempted)


def trial_job(
    job: Job, proposal: Proposal, search: Search, objective: Mapping[str, Any] = {}
) -> Job:
    """Returns the draft of a trial of a job: it trains on the same data, with the proposed settings.

    Args:
        objective: the record of the objective as `objective`, if the search varies settings of it.
    """
    settings: dict[str, Any] = copy.deepcopy(dict(job.spec.settings))
    model = settings["model"]
    model |= copy.deepcopy(dict(objective))
    changes: dict[str, Any] = {**proposal.settings, "seed": search.seed}
    if proposal.num_trees is not None:
        kind = find_class(model["_target_"], Ranker, "model")
        changes[kind.iterations_field or ""] = proposal.num_trees
    if proposal.minimum:
        changes["early_stopping.minimum"] = [
            list(pair) for pair in proposal.minimum.items()
        ]
    for name, value in changes.items():
        part, _, setting = name.rpartition(".")
        changed = model[part] if part else model
        changed[setting] = value
    settings["search"] = None
    settings["importance"] = None
    settings["timing"] = "monitored"
    settings["seed"] = search.seed
    settings["metrics"] = [search.metric]
    spec = replace(
        job.spec,
        overrides=_overrides_of_trial(job, search, changes),
        choices={**job.spec.choices, "search": "none"},
        settings=settings,
    )
    return replace(
        job,
        number=0,
        folder="",
        spec=spec,
        key=key_of_trial(job.key, spec),
        training="",
        origin=origin.Trial(),
        same_training=None,
    )


def _overrides_of_trial(
    job: Job, search: Search, changes: Mapping[str, Any]
) -> list[str]:
    overrides = job.overrides
    kept = [line for line in overrides if first_word(line) not in _NOT_OF_A_TRIAL]
    kept.append(f"metrics=[{search.metric}]")
    for name, value in changes.items():
        kept.append(f"model.{name}={as_text(value)}")
    return kept


# ---- The choice after a search: trials from their run folders, the best one, and the record.


def trial_of(proposal: Proposal, runs: Sequence[Run], metric: str) -> Trial:
    """Returns a trial that has ended.

    Args:
        runs: one run per fold, at least one; the trial failed if one of them did.
        metric: metric on validation.
    """
    values = [run.result.metrics.get(f"valid/{metric}") for run in runs]
    known = [value for value in values if value is not None]
    finished = all(run.result.status == FINISHED for run in runs)
    curves = [_best_so_far(run, metric) for run in runs]
    value = None
    if finished and len(known) == len(runs):
        value = fmean(known)
    iterations = [len(run.learning_curve().iterations) for run in runs]
    seconds = [run.result.seconds.get("fit", 0.0) for run in runs]
    is_pruned = [_is_pruned(curve, proposal.minimum) for curve in curves]
    return Trial(
        proposal=proposal,
        value=value,
        iterations=sum(iterations),
        seconds=sum(seconds),
        curve=_mean_curve(curves, proposal.minimum),
        is_pruned=any(is_pruned),
    )


def _best_so_far(run: Run, metric: str) -> dict[int, float]:
    """Returns number of trees -> highest value on validation so far; empty if there is no such curve."""
    curve = run.learning_curve()
    values = np.array(curve.values.get(f"valid/{metric}", []))
    return dict(
        zip(curve.iterations, np.fmax.accumulate(values).tolist(), strict=False)
    )


def _mean_curve(
    curves: Sequence[Mapping[int, float]], minimum: Mapping[int, float]
) -> dict[int, float]:
    """Returns the mean over folds; it ends with the first pruned fold, and is empty if a fold has no curve.

    A fold that early stopping ended keeps its last value.
    """
    if not all(curves):
        return {}
    longest = max(curves, key=len)
    ends_of_pruned = [max(curve) for curve in curves if _is_pruned(curve, minimum)]
    end = min(ends_of_pruned, default=max(longest))
    means = {}
    for number in longest:
        if number <= end:
            values = [curve.get(number, curve[max(curve)]) for curve in curves]
            means[number] = fmean(values)
    return means


def _is_pruned(curve: Mapping[int, float], minimum: Mapping[int, float]) -> bool:
    last = max(curve, default=0)
    return last in minimum and curve[last] < minimum[last]


def chosen(trials: Sequence[Trial], reason: str = "") -> Trial:
    """Returns the complete trial with the highest value, the one with the lowest number in case of ties.

    Args:
        reason: why the first trial failed, for the error; empty if unknown.

    Raises:
        ResultError: no trial is complete.
    """
    complete = [trial for trial in trials if trial.is_complete]
    if not complete:
        num_failed = sum(trial.value is None for trial in trials)
        first = ""
        if reason:
            first = f" The first failure: {reason.rstrip('.')}."
        raise ResultError(
            f"no trial was trained on all folds with all trees; {num_failed} of {len(trials)} trials failed."
            f"{first} Repeat the command after the repair; finished trials are kept."
        )
    return max(complete, key=lambda trial: (trial.value, -trial.proposal.number))


def rows(
    trials: Sequence[Trial],
    winner: Trial,
    runs: Mapping[int, Sequence[Run]],
    metric: str,
    seed: int = 0,
) -> list[TrialRow]:
    """Returns the rows of trials.csv.

    Args:
        winner: the trial of `chosen`.
        runs: number of each complete trial -> its runs, one per fold in the same order.
        metric: metric on validation.
        seed: random seed of the bootstrap of the intervals.

    Raises:
        ResultError: a run has no scores of validation.
    """
    complete = [trial.proposal.number for trial in trials if trial.is_complete]
    sample = on_validation([runs[number] for number in complete], metric)
    of_complete = winner_intervals(
        sample, complete.index(winner.proposal.number), seed=seed
    )
    intervals = dict(zip(complete, of_complete, strict=True))
    return [_row(trial, intervals.get(trial.proposal.number)) for trial in trials]


def on_validation(runs_of_trials: Sequence[Sequence[Run]], metric: str) -> PairedSample:
    """Returns values (T, Q) of complete trials under the default convention; the folds are strata."""
    judgments = [run.scored("valid").judgments for run in runs_of_trials[0]]
    values: list[NDArray[np.float64]] = []
    weights: list[NDArray[np.float64]] = []
    for fold, judged in enumerate(judgments):
        evaluations = []
        for runs in runs_of_trials:
            scores = runs[fold].scored("valid", judged).scores
            evaluations.append(evaluate(judged, scores, [metric]))
        weighting = evaluations[0].weightings[metric]
        of_fold = np.stack(
            [weighting.rescaled(item.per_query[metric]) for item in evaluations]
        )
        counted = ~np.isnan(of_fold).any(axis=0)
        values.append(of_fold[:, counted])
        weights.append(weighting.weights[counted])
    sizes = [len(of_fold) for of_fold in weights]
    strata = np.repeat(np.arange(len(sizes)), sizes)
    return PairedSample.of(
        np.concatenate(values, axis=1), np.concatenate(weights), strata
    )


def _row(trial: Trial, interval: Interval | None) -> TrialRow:
    settings = trial.proposal.settings
    return TrialRow(
        trial=trial.proposal.number,
        state=_state_of(trial),
        value=nan if trial.value is None else trial.value,
        iterations=trial.iterations,
        seconds=trial.seconds,
        low=nan if interval is None else interval.low,
        high=nan if interval is None else interval.high,
        settings={name: as_text(value) for name, value in settings.items()},
    )


def _state_of(trial: Trial) -> str:
    if trial.value is None:
        return UNSUCCESSFUL
    if trial.is_complete:
        return COMPLETE
    return PRUNED if trial.is_pruned else PARTIAL


def as_text(value: Value) -> str:
    """Returns a value as on the command line.

    >>> as_text(None), as_text(True), as_text(0.1)
    ('null', 'true', '0.1')
    """
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return str(value)
