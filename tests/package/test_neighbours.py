"""Jobs that run on one machine at the same time notice each other, however they start, overlap and end."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ltrbench.measure import Neighbours

_JOB = """
from ltrbench.measure import Neighbours
with Neighbours() as neighbours:
    print("running", flush=True)
    input()
print(neighbours.seen, flush=True)
"""

_MANY_JOBS = """
import json, random, sys, time
from ltrbench.measure import Neighbours
random.seed(sys.argv[1])
jobs = []
input()
for _ in range(100):
    before = time.monotonic()
    with Neighbours() as neighbours:
        entered = time.monotonic()
        time.sleep(random.choice((0, 0, 1e-4, 1e-3)))
        leaving = time.monotonic()
    jobs.append([before, entered, leaving, time.monotonic(), neighbours.seen])
    time.sleep(random.choice((0, 1e-3, 3e-3)))
print(json.dumps(jobs))
"""


class OtherJob:
    """A job in another process, from its entry into the block until `end` or `kill`."""

    def __init__(self) -> None:
        self.process = start(_JOB)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "running\n"

    def end(self) -> bool:
        """Ends the block and returns whether the job has seen another."""
        return self.process.communicate("\n")[0] == "True\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder without jobs, for this process and those that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@pytest.fixture
def other_job() -> Iterator[Callable[[], OtherJob]]:
    jobs: list[OtherJob] = []

    def begin() -> OtherJob:
        jobs.append(OtherJob())
        return jobs[-1]

    yield begin
    for job in jobs:
        if job.process.poll() is None:
            job.kill()


def job_sees_another() -> bool:
    with Neighbours() as job:
        pass
    return job.seen


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_job_alone_sees_nothing_and_leaves_no_file(temporary_folder: Path) -> None:
    with Neighbours() as job:
        assert len(files(temporary_folder)) == 1
    assert not job.seen
    assert not files(temporary_folder)
    assert [path.stat().st_mode & 0o777 for path in temporary_folder.iterdir()] == [0o700]


def test_a_killed_job_is_seen_until_its_death_and_not_later(
    temporary_folder: Path, other_job: Callable[[], OtherJob]
) -> None:
    with Neighbours() as job:
        other_job().kill()
    assert job.seen
    assert len(files(temporary_folder)) == 1
    assert not job_sees_another()
    assert not files(temporary_folder)


def test_of_many_jobs_exactly_those_that_overlap_see_each_other() -> None:
    processes = [start(_MANY_JOBS, str(number)) for number in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    outputs = [json.loads(process.communicate()[0]) for process in processes]
    jobs = [(number, *job) for number, of_process in enumerate(outputs) for job in of_process]
    surely: set[int] = set()
    possibly: set[int] = set()
    for (one, first), (other, second) in itertools.combinations(enumerate(jobs), 2):
        if first[0] != second[0]:
            _, before_a, entered_a, leaving_a, after_a, _ = first
            _, before_b, entered_b, leaving_b, after_b, _ = second
            if max(entered_a, entered_b) < min(leaving_a, leaving_b):
                surely |= {one, other}
            if max(before_a, before_b) < min(after_a, after_b):
                possibly |= {one, other}
    seen = {number for number, job in enumerate(jobs) if job[-1]}
    assert surely <= seen <= possibly
    assert surely


@pytest.mark.parametrize("kind", ["link", "open to others"])
def test_a_folder_that_is_not_private_is_not_used(kind: str, temporary_folder: Path) -> None:
    assert not job_sees_another()
    (folder,) = temporary_folder.iterdir()
    if kind == "link":
        folder.rename(temporary_folder / "elsewhere")
        folder.symlink_to(temporary_folder / "elsewhere")
    else:
        folder.chmod(0o777)
    before = files(temporary_folder)
    with Neighbours() as first, Neighbours() as second:
        assert files(temporary_folder) == before
    assert not first.seen
    assert not second.seen
