"""The tasks of a command, round by round: its jobs, and the trials of their searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ltrbench.cli.jobs.logs import handlers_kept
from ltrbench.errors import LtrbenchError
from ltrbench.sweep.executors.base import Executor
from ltrbench.sweep.executors.inline import InlineExecutor
from ltrbench.sweep.job import TRIALS_FOLDER, Job
from ltrbench.sweep.plan import FolderOf, Plan
from ltrbench.sweep.planning import plan_jobs
from ltrbench.sweep.worker import JobTask

if TYPE_CHECKING:
    from ltrbench.cli.jobs.session import Session


@dataclass(frozen=True, kw_only=True)
class SweepOrder:
    """The jobs that a command wants to run, and how.

    Attributes:
        folder: folder of the sweep.
        drafts: the jobs, without numbers.
        folder_of: chooses the folder of a new job.
        settings: the settings of the command: tracking, executor, register, progress, num_threads.
        logging: configuration of Python's logging, with `FOLDER` for the folder of a run.
        chdir: whether jobs run in their folders.
        environment: environment variables of the jobs.
        only_failed: whether only failed jobs run; otherwise every job that has not finished.
    """

    folder: Path
    drafts: Sequence[Job]
    folder_of: FolderOf
    settings: Mapping[str, Any]
    logging: Mapping[str, Any]
    chdir: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    only_failed: bool = False


@dataclass
class Rounds:
    """The tasks of a command, round by round: first its jobs without a search and the first trials of all
    searches, later the jobs whose settings were searched.

    Attributes:
        jobs: the jobs that the command runs, without trials.
    """

    session: Session
    order: SweepOrder
    plan: Plan
    executor: Executor
    jobs: Sequence[Job]

    def __post_init__(self) -> None:
        self._first = [job for job in self.jobs if not job.is_search]
        self._searched = {job.number: job for job in self.jobs if job.is_search}
        self._searches = None
        if self._searched:
            # Imported late, because it needs the extra `search`.
            from ltrbench.sweep.searching import Searches, searches_of

            sweep = self.order.folder.resolve()
            # With the finished jobs, whose folds take part in a shared choice.
            jobs = [job for job in self.session.jobs if job.is_search]
            self._searches = Searches(sweep, self._planned, searches_of(sweep, jobs, self._searched))

    def next_tasks(self) -> list[JobTask]:
        """Returns the tasks of the next round; none if every job has ended."""
        tasks, self._first = [self._task(job) for job in self._first], []
        trials, choices = self._searches.next_round() if self._searches is not None else ([], {})
        tasks += [self._task(job) for job in trials]
        for number, choice in choices.items():
            if number not in self._searched:
                continue
            task = self._task(self._searched[number])
            if isinstance(choice, LtrbenchError):
                self.session.record_failed(task, choice)
            else:
                tasks.append(replace(task, choice=choice))
        return tasks or (self.next_tasks() if choices else [])

    def _planned(self, drafts: Sequence[Job]) -> list[Job]:
        """Adds trials to the plan; returns each with its number and folder."""
        plan_jobs(self.plan, drafts, _folder_of_trial)
        planned = [self.plan.find(draft) for draft in drafts]
        jobs = [
            replace(job, settings=draft.settings)
            for job, draft in zip(planned, drafts, strict=True)
            if job is not None
        ]
        known = {job.number for job in self.session.jobs}
        new = {job.number: job for job in jobs if job.number not in known}
        self.session.jobs = [*self.session.jobs, *new.values()]
        return jobs

    def _task(self, job: Job) -> JobTask:
        is_inline = isinstance(self.executor, InlineExecutor)
        leader = self.plan.trained_before(job)
        # A bar of a worker would be drawn over those of the others.
        progress = self.order.settings["progress"]
        return JobTask(
            job=job,
            sweep=self.order.folder.resolve(),
            trained=None if leader is None else (leader.folder, leader.digest),
            progress=progress if is_inline or progress == "none" else "plain",
            logging=self.order.logging if is_inline else handlers_kept(self.order.logging, into_folders=True),
            chdir=self.order.chdir,
            environment=self.order.environment,
        )


def _folder_of_trial(job: Job, number: int) -> str:
    return f"{TRIALS_FOLDER}/{number}"
