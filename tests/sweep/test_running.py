"""The loop: which job next, how many at once, and what other processes do."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from composed_jobs import drafted
from messages import naming
from plan_cases import finish, jobs, numbered

from ltrbench.runs.record import FINISHED, INTERRUPTED, read_run
from ltrbench.sweep import running
from ltrbench.sweep.executors import AllWorkersLostError, Executor
from ltrbench.sweep.plan import (
    DONE,
    FAILED,
    WAITING,
    Plan,
    plan_jobs,
    prepare_sweep,
    read_plan,
    state_of,
    states_of,
)
from ltrbench.sweep.running import (
    JobTask,
    Outcome,
    OutOfTimeError,
    run_task,
    run_tasks,
)


class Recorder(Executor):
    """Runs jobs in threads, and records their order and how many of them run at a time."""

    def __init__(self, num_workers: int, work: Callable[[JobTask], Outcome]) -> None:
        self.workers, self.work = num_workers, work
        self.pool = ThreadPoolExecutor(num_workers)
        self.submitted: list[int] = []
        self.futures: list[Future[Any]] = []
        self.most = 0

    def open(self, work: Any, num_threads: int) -> None:
        pass

    def submit(self, job: JobTask) -> Future[Any]:
        self.submitted.append(job.job.number)
        self.futures.append(self.pool.submit(self.work, job))
        self.most = max(self.most, sum(not future.done() for future in self.futures))
        return self.futures[-1]

    def close(self) -> None:
        self.pool.shutdown()

    @property
    def num_workers(self) -> int:
        return self.workers


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setattr(running, "POLL_SECONDS", 0.02)
    prepare_sweep(tmp_path)
    plan_jobs(
        read_plan(tmp_path), jobs(*(f"seed={seed}" for seed in range(5))), numbered
    )
    return read_plan(tmp_path)


def tasks_of(plan: Plan, **of_each: Any) -> list[JobTask]:
    return [JobTask(job=job, sweep=plan.sweep, **of_each) for job in plan.jobs.values()]


def run(tasks: Sequence[JobTask], executor: Recorder) -> list[tuple[int, str]]:
    ended: list[tuple[int, str]] = []
    run_tasks(
        tasks,
        executor,
        on_start=lambda task: None,
        on_end=lambda task, outcome: ended.append((task.job.number, outcome.state)),
        on_wait=lambda states: None,
    )
    return ended


def test_jobs_start_in_order_and_never_more_than_there_are_workers(plan: Plan) -> None:
    def work(task: JobTask) -> Outcome:
        time.sleep(0.01)
        return Outcome(state=DONE)

    executor = Recorder(2, work)
    assert sorted(run(tasks_of(plan), executor)) == [
        (number, DONE) for number in range(5)
    ]
    assert executor.submitted == list(range(5))
    assert executor.most == 2


def test_without_workers_the_loop_ends_and_the_jobs_wait(plan: Plan) -> None:
    def work(task: JobTask) -> Outcome:
        if task.job.number == 1:
            raise AllWorkersLostError("the cluster is gone")
        return Outcome(state=DONE)

    executor = Recorder(1, work)
    with pytest.raises(AllWorkersLostError, match=naming("gone")):
        run(tasks_of(plan), executor)
    assert executor.submitted == [0, 1]
    assert {state.name for state in states_of(plan.sweep, plan.jobs.values())} == {
        WAITING
    }


def test_no_job_begins_after_the_deadline(plan: Plan) -> None:
    deadline = time.time() + 1.0

    def work(task: JobTask) -> Outcome:
        while task.job.number and time.time() < deadline:
            time.sleep(0.01)
        return Outcome(state=WAITING if task.job.number else DONE)

    executor = Recorder(1, work)
    with pytest.raises(OutOfTimeError):
        run(tasks_of(plan, deadline=deadline), executor)
    assert executor.submitted == [0, 1]


def test_a_sweep_that_another_command_finishes_is_not_out_of_time(plan: Plan) -> None:
    def work(task: JobTask) -> Outcome:
        for job in plan.jobs.values():
            finish(plan, job)
        time.sleep(0.2)
        return Outcome(state=DONE)

    tasks = tasks_of(plan, deadline=time.time() + 0.1)
    assert run(tasks, Recorder(1, work)) == [(0, DONE)]


def run_past_deadline(folder: Path, times: Iterable[float], trees: int) -> JobTask:
    """Runs a fit whose deadline is at 0.5, by a clock that shows these times."""
    prepare_sweep(folder)
    words = ("model=lightgbm", "data.num_queries=20", f"params.num_trees={trees}")
    (job,) = plan_jobs(read_plan(folder), [drafted(*words)], numbered)
    task = JobTask(job=job, sweep=folder, deadline=0.5)
    clock = SimpleNamespace(time=iter(times).__next__)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "time", clock)
        outcome = run_task(task)
    assert outcome.state == state_of(folder, job).name
    return task


def test_a_fit_ends_at_its_deadline_unless_it_is_complete(tmp_path: Path) -> None:
    late = run_past_deadline(tmp_path / "late", [1.0], trees=5)
    assert not late.folder.exists()
    # The deadline passes after the job has begun.
    times = itertools.chain([0.0], itertools.repeat(1.0))
    ended = run_past_deadline(tmp_path / "ended", times, trees=5)
    assert read_run(ended.folder).result.error == INTERRUPTED
    times = itertools.chain([0.0], itertools.repeat(1.0))
    complete = run_past_deadline(tmp_path / "complete", times, trees=1)
    assert read_run(complete.folder).result.status == FINISHED


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
    tasks = [
        replace(task, trained=("3", "digest")) if task.job.number != 3 else task
        for task in tasks
    ]
    executor = Recorder(2, work)
    assert dict(run(tasks, executor))[3] == leader_ends
    assert executor.submitted == [3, 0, 1, 2, 4]
