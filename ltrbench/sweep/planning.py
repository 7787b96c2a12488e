"""Plans the jobs of a command: new jobs, jobs that are planned already, and jobs whose key has changed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ltrbench.data import Splits
from ltrbench.errors import LtrbenchError, ResultError
from ltrbench.experiment.loading import load_once
from ltrbench.experiment.reuse import seed_matters
from ltrbench.experiment.run import Experiment
from ltrbench.results import FINISHED, Run
from ltrbench.search.base import ACROSS_DATA, PER_FOLD
from ltrbench.sweep.job import Job, identity_of, in_ranges
from ltrbench.sweep.key import JobKey, digest_of, key_of, training_digest
from ltrbench.sweep.plan import FolderOf, Plan
from ltrbench.sweep.state import DONE, RUNNING, state_of

CHOSEN_WITH = "chosen_with"
"""Part of the settings in the key of a job that shares the choice of a search with other folds: place ->
digests of its data. The choice depends on the data of all of them."""

_SHOWN = 3
"""Maximum number of jobs, and of differences of a job, that a message shows."""


def draft(
    experiment: Experiment,
    settings: Mapping[str, Any],
    choices: Mapping[str, Any],
    flags: Sequence[str],
    started_in: str,
    chdir: bool = False,
    environment: Iterable[str] = (),
) -> Job:
    """Returns a job that has no number and no folder yet. Loads the data of the job.

    Args:
        settings: the resolved configuration.
        choices: config group -> name of the chosen YAML.
        flags: flags of the command.
        started_in: folder in which the command was started.
        chdir: whether the job runs in its folder.
        environment: names of the environment variables of the job.
    """
    try:
        splits: Splits | str = load_once(experiment.source)[0]
    except LtrbenchError as error:
        # The job will fail with this error; the other jobs run.
        splits = str(error)
    key = key_of(experiment, settings, choices, splits)
    is_searched = experiment.is_trial or settings["search"] is not None
    return Job(
        number=0,
        folder="",
        overrides=list(experiment.overrides or ()),
        choices={name: value if value is None else str(value) for name, value in choices.items()},
        settings=settings,
        swept=experiment.swept,
        flags=list(flags),
        sweep=experiment.sweep or "",
        started_in=started_in,
        chdir=chdir,
        environment=list(environment),
        key=asdict(key),
        training="" if isinstance(splits, str) or is_searched else _training(experiment, key, splits),
        is_trial=experiment.is_trial,
    )


def _training(experiment: Experiment, key: JobKey, splits: Splits) -> str:
    """Returns `Job.training`; empty if every seed is trained."""
    drawn = experiment.resample
    num_documents = splits.train.num_documents if drawn is None else drawn.num_documents(splits.train)
    if not experiment.is_repeatable or seed_matters(experiment.ranker, num_documents):
        return ""
    return training_digest(experiment, key)


def with_shared_choices(drafts: Sequence[Job]) -> list[Job]:
    """Returns the drafts of a command; those that share the choice of a search have `CHOSEN_WITH` in their
    keys."""
    groups: dict[str, dict[str, Job]] = {}
    for item in drafts:
        if item.is_search and item.settings["search"]["choose"] != PER_FOLD:
            groups.setdefault(search_group(item), {})[item.digest] = item
    shared = {
        digest: _chosen_with(item, list(group.values()))
        for group in groups.values()
        for digest, item in group.items()
    }
    return [shared.get(item.digest, item) for item in drafts]


def _chosen_with(item: Job, group: Sequence[Job]) -> Job:
    data: dict[str, list[str]] = {}
    for other in group:
        data.setdefault(place_of(other), []).append(digest_of(other.key["data"]))
    settings = {**item.key["settings"], CHOSEN_WITH: {place: sorted(data[place]) for place in sorted(data)}}
    return replace(item, key={**item.key, "settings": settings})


def search_group(job: Job) -> str:
    """Returns a digest that is equal for jobs with one search."""
    settings, choose = dict(job.key["settings"]), job.settings["search"]["choose"]
    if choose == PER_FOLD:
        return job.digest
    settings["data"] = {name: value for name, value in settings["data"].items() if name != "fold"}
    if choose == ACROSS_DATA:
        del settings["data"]
        settings["names"] = {name: value for name, value in settings["names"].items() if name != "data"}
    return digest_of(settings)


def place_of(job: Job) -> str:
    """Returns the data of a job in words, such as "mq2008 fold 1"."""
    fold = job.settings["data"].get("fold")
    name = str(job.settings["data"].get("name", job.choices.get("data")))
    return name if fold is None else f"{name} fold {fold}"


def plan_jobs(
    plan: Plan, drafts: Sequence[Job], folder_of: FolderOf, others: Iterable[Run] = ()
) -> list[Job]:
    """Adds jobs to a plan, and returns each with its number and folder, once.

    Args:
        others: runs in the folder of the sweep that are not planned.

    Raises:
        LtrbenchError: A finished job has changed since it ran, a run that is not planned has the same
            overrides, or two jobs have the same folder. Nothing is planned then.
    """
    finished = {run.path: run for run in others if run.result.status == FINISHED}
    if plan.damaged:
        plan.repair(drafts, folder_of, {path: run.result.key for path, run in finished.items()})
        finished = {path: run for path, run in finished.items() if path not in plan.folders}
    refuse_changed(plan, drafts)
    _refuse_unplanned(drafts, finished.values())
    new = {item.digest: item for item in drafts if plan.find(item) is None}
    plan.check_folders(list(new.values()), folder_of)
    jobs: dict[int, Job] = {}
    # A command that adds no job cannot leave a part of them out.
    with plan.growing() if new else contextlib.nullcontext():
        for item in drafts:
            planned = plan.add(item, folder_of)
            if planned.digest != item.digest:
                planned = plan.change(replace(item, number=planned.number, folder=planned.folder))
            # The plan on disk has no passwords, and perhaps another path of the same data.
            jobs[planned.number] = replace(planned, settings=item.settings)
    return [jobs[number] for number in sorted(jobs)]


def refuse_changed(plan: Plan, drafts: Sequence[Job]) -> None:
    """
    Raises:
        ResultError: A job has finished or is running, and its key has changed since. Of a job that is not
            among `drafts`, only code and versions are compared.
    """
    now = {planned.number: item.job_key for item in drafts if (planned := plan.find(item))}
    present = _present_of([item.job_key for item in drafts])
    changed: list[tuple[Job, list[str]]] = []
    for job in plan.jobs.values():
        if job.number in now:
            differences = now[job.number].differences(job.job_key)
        else:
            differences = present.differences_in_common(job.job_key)
        if differences and state_of(plan.sweep, job).name in (DONE, RUNNING):
            changed.append((job, differences))
    if changed:
        raise ResultError(_message_of_changes(plan.sweep, changed))


def _present_of(keys: Sequence[JobKey]) -> JobKey:
    """Returns a key with the code and the versions of all keys, whose backends may differ."""
    code = {name: digest for key in keys for name, digest in key.code.items()}
    installed = {name: version for key in keys for name, version in key.versions.items()}
    return JobKey(settings={}, data={}, code=code, versions=installed)


def _message_of_changes(sweep: Path, changed: Sequence[tuple[Job, Sequence[str]]]) -> str:
    shown = [
        f"job {job.number} in {sweep / job.folder}: {'; '.join(texts[:_SHOWN])}"
        + (f"; and {len(texts) - _SHOWN} more differences" if len(texts) > _SHOWN else "")
        for job, texts in changed[:_SHOWN]
    ]
    numbers = in_ranges([job.number for job, _ in changed])
    return (
        f"{sweep}: finished jobs have changed since they ran, so new runs must not be compared with theirs: "
        f"{numbers}. {'. '.join(shown)}. Undo the change, choose another folder with "
        "hydra.sweep.dir=..., or delete the folders of these jobs to run them again."
    )


def _refuse_unplanned(drafts: Sequence[Job], others: Iterable[Run]) -> None:
    planned = {name for draft in drafts for name in (draft.identity, draft.digest)}
    for run in others:
        overrides = run.result.overrides or ()
        names = {run.result.key, None if run.result.overrides is None else identity_of(overrides)}
        if not names.isdisjoint(planned):
            raise ResultError(
                f"{run.path} is a finished run of {' '.join(overrides)}, but the plan of the sweep does not "
                "contain it: an earlier version of ltrbench made it, or it was copied here. A comparison "
                "would count the job twice. Delete the folder of this run, or choose another folder with "
                "hydra.sweep.dir=..."
            )
