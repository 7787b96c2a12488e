"""Jobs for tests of the plan and of what follows from it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from run_cases import finished_run

from ltrbench.config import Config
from ltrbench.runs.record import Run
from ltrbench.runs.spec import JobKey, RunSpec
from ltrbench.runs.writing import write_run
from ltrbench.sweep.plan import Job, Plan

SETTINGS: dict[str, Any] = {
    # Every setting, so that a new one needs no line here.
    **{item.name: None for item in fields(Config)},
    **{name: {} for name in ("model", "params", "data", "tracking", "executor")},
    "plugins": [],
    "metrics": ["ndcg@10"],
    "timing": "monitored",
    "progress": "none",
    "seed": 0,
    "num_threads": 1,
    "cv_split": "test",
    "cv_repeats": 1,
    "looks": 1,
}
CODE, VERSIONS = {"ltrbench": "1"}, {"numpy": "1"}


def job(*overrides: str, training: str = "", **parts: Any) -> Job:
    """Returns a draft. Its key depends on its overrides, and on `settings`, `data`, `code` and `versions`."""
    key = JobKey(
        settings={
            "overrides": sorted(overrides),
            "data": {"name": "toy"},
            **parts.get("settings", {}),
        },
        data=parts.get("data", {"train": "1"}),
        code=parts.get("code", CODE),
        versions=parts.get("versions", VERSIONS),
    )
    return Job(
        number=0,
        folder="",
        spec=RunSpec(
            overrides=list(overrides),
            choices={"model": "native", "params": "matched", "data": "synthetic"},
            settings={**SETTINGS, **parts.get("values", {})},
            sweep="s",
            started_in="/",
        ),
        key=key,
        training=training,
    )


def numbered(job: Job, number: int) -> str:
    """Returns the folder that a job has by default."""
    return f"trials/{number}" if job.is_trial else str(number)


def jobs(*names: str, **parts: Any) -> list[Job]:
    return [job(name, **parts) for name in names]


def finish(plan: Plan, planned: Job, **of_run: Any) -> Run:
    """Writes a finished run of a planned job."""
    folder = plan.sweep / planned.folder
    toy = finished_run(folder, "native").result
    return write_run(
        folder,
        replace(
            toy,
            **{"key": planned.digest, "overrides": tuple(planned.overrides), **of_run},
        ),
    )


def fail(plan: Plan, planned: Job, reason: str) -> Run:
    """Writes a failed run of a planned job."""
    with tempfile.TemporaryDirectory() as other:
        toy = finished_run(Path(other, "0"), "native").result
    return write_run(
        plan.sweep / planned.folder,
        replace(toy, status="failed", error=reason, key=planned.digest),
    )


def names_of(planned: Sequence[Job]) -> list[str]:
    return [" ".join(job.overrides) for job in planned]


def numbers_on_disk(sweep: Path) -> list[int]:
    return sorted(int(path.stem) for path in (sweep / "plan").glob("[0-9]*.json"))
