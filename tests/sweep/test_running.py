"""The loop: which job next, how many at once, and what other processes do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plan_cases import jobs, numbered

from ltrbench.sweep import running
from ltrbench.sweep.executors import Executor
from ltrbench.sweep.plan import DONE, FAILED, Plan, plan_jobs, prepare_sweep, read_plan
from ltrbench.sweep.running import Events, JobTask, Outcome, run_tasks


class Recorder(Executor):
    """Completes the oldest job when all workers are busy, and records the order."""

    def __init__(self, num_workers: int, work: Callable[[JobTask], Outcome]) -> None:
        self.workers, self.work = num_workers, work
        self.submitted: list[int] = []
        self.most = 0
        self.open_jobs = 0

    def open(self, work: Any, num_threads: int) -> None:
        pass

    def submit(self, job: JobTask) -> Future[Any]:
        future: Future[Any] = Future()
        self.submitted.append(job.job.number)
        self.open_jobs += 1
        self.most = max(self.most, self.open_jobs)

        def complete() -> None:
            self.open_jobs -= 1
            try:
                future.set_result(self.work(job))
            except Exception as error:
                future.set_exception(error)

        threading.Timer(0.01, complete).start()
        return future

    def close(self) -> None:
        pass

    @property
    def num_workers(self) -> int:
        return self.workers


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setattr(running, "POLL_SECONDS", 0.02)
    prepare_sweep(tmp_path)
    plan_jobs(read_plan(tmp_path), jobs(*(f"seed={seed}" for seed in range(5))), numbered)
    return read_plan(tmp_path)


def tasks_of(plan: Plan, **of_each: Any) -> list[JobTask]:
    return [JobTask(job=job, sweep=plan.sweep, **of_each) for job in plan.jobs.values()]


def run(tasks: Sequence[JobTask], executor: Recorder) -> list[tuple[int, str]]:
    ended: list[tuple[int, str]] = []
    events = Events(
        started=lambda task: None,
        ended=lambda task, outcome: ended.append((task.job.number, outcome.state)),
        waiting=lambda states: None,
    )
    run_tasks(tasks, executor, events)
    return ended


def test_jobs_start_in_order_and_never_more_than_there_are_workers(plan: Plan) -> None:
    executor = Recorder(2, lambda task: Outcome(state=DONE))
    assert sorted(run(tasks_of(plan), executor)) == [(number, DONE) for number in range(5)]
    assert executor.submitted == list(range(5))
    assert executor.most == 2


@pytest.mark.parametrize("leader_ends", [DONE, FAILED])
def test_a_job_that_copies_a_training_starts_after_it_whether_it_fails_or_not(
    plan: Plan, leader_ends: str
) -> None:
    ended: set[int] = set()

    def work(task: JobTask) -> Outcome:
        assert task.trained is None or 3 in ended
        ended.add(task.job.number)
        return Outcome(state=leader_ends if task.job.number == 3 else DONE)

    tasks = tasks_of(plan)
    tasks = [replace(task, trained=("3", "digest")) if task.job.number != 3 else task for task in tasks]
    executor = Recorder(2, work)
    assert dict(run(tasks, executor))[3] == leader_ends
    assert executor.submitted == [3, 0, 1, 2, 4]
