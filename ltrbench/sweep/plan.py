"""The jobs of a sweep, their keys, the plan on disk, and the states of the jobs.

    plan/NUMBER.json   a `Job`: what to run, and in which folder
    plan/sweep.json    the id of the sweep, for tracking stores

The key of a job is a `JobKey`. The code of searches and the version of Optuna belong to the keys of jobs
whose settings a search chooses. The key of a trial has neither: its results depend on its settings, not on
what proposed them.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import secrets
import sys
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from statistics import fmean
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ltrbench.config import Config, build_experiment
from ltrbench.data import Splits
from ltrbench.errors import ConfigError, LtrbenchError, ResultError
from ltrbench.experiment import ChosenSettings, Experiment
from ltrbench.experiment.loading import load_once
from ltrbench.folders import files_of_module, find_class
from ltrbench.measure import described, now, versions, without_password
from ltrbench.metrics.evaluation import plugin_versions
from ltrbench.native.objectives.base import Objective
from ltrbench.rankers.base import Ranker
from ltrbench.runs.origin import Copied, Origin, Trained, Trial
from ltrbench.runs.record import FAILED as FAILED  # a state of a job too
from ltrbench.runs.record import (
    FINISHED,
    INTERRUPTED,
    RESULT_FILE,
    Run,
    read_whole_run,
    writing_to,
)
from ltrbench.runs.spec import JobKey, RunSpec, digest_of, of_job, without
from ltrbench.runs.writing import Holder, hold, holder
from ltrbench.search import ACROSS_DATA, PER_FOLD, Search
from ltrbench.untrusted import Count, Name, read_json

_FORMAT = 1
_AGAIN = "run the command that started the sweep again with the same hydra.sweep.dir"
_REMEDY = f"Delete the file and the folder of its run, and {_AGAIN}"
_ID_REMEDY = (
    f"Delete the file, and {_AGAIN}; tracking stores then show the sweep as a new one"
)

PLAN_FOLDER = "plan"
COMPARISON_FOLDER = "comparison"
TRIALS_FOLDER = "trials"
"""Folders in the folder of a sweep; only trials of a search have folders in the last one."""

_FOLDER = Path(__file__).parents[1]

_COMPUTING = (
    *("compilation.py", "measure.py", "shapes.py"),
    *(
        "data/",
        "distributed/",
        "experiment/",
        "metrics/",
        "models/",
        "native/",
        "rankers/",
    ),
    # The intervals of importances.
    "statistics/paired.py",
)
"""Files and folders of ltrbench whose code determines the results of a run."""

_SEARCHING = ("search.py", "statistics/claims.py", "sweep/searching.py")
"""Files and folders of ltrbench whose code determines what a search chooses and records."""

_CODE_OF_SEARCH = "ltrbench.search"
_PACKAGE_OF_SEARCH = "optuna"
"""The parts of `JobKey.code` and `JobKey.versions` that only jobs with a search have."""

_FILES = "files"
"""Part of the settings in the key of a job whose ranker reads files: setting -> digest of their content."""

_DATA_ERROR = "error"
"""The key in `JobKey.data` of data that could not be loaded."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job of a sweep.

    Attributes:
        number: number of the job, from 0.
        folder: folder of its run, relative to the folder of the sweep.
        spec: what the command asks of its run.
        key: everything that its results depend on.
        training: digest of everything that its training depends on, except the seed.
        origin: that of its run, unless it copies a training: trained, or a trial of a search.
        same_training: folder of the job whose training is copied, because only a seed without effect differs;
            None: the job trains.
    """

    number: Count
    folder: Name
    spec: RunSpec
    key: JobKey
    training: str = ""
    origin: Origin = field(default_factory=Trained)
    same_training: str | None = None

    @property
    def is_trial(self) -> bool:
        """Whether the job is a trial of a search."""
        return isinstance(self.origin, Trial)

    @property
    def overrides(self) -> Sequence[str]:
        """The overrides of the command for this job."""
        return self.spec.overrides or ()

    @property
    def digest(self) -> str:
        """The digest of the key, which the run of this job records."""
        return self.key.digest

    @functools.cached_property
    def identity(self) -> str:
        """A digest that equal jobs share, even if the code, the data or the versions have changed since."""
        words = sorted(map(without_password, of_job(self.overrides)))
        if self.is_trial:
            words.insert(0, "trial")
        return digest_of(words)

    @property
    def kind(self) -> str:
        """The word for the job in messages."""
        return "trial" if self.is_trial else "job"

    def experiment(self, chosen: ChosenSettings | None = None) -> Experiment:
        """Builds the experiment of the job. A process that runs a job builds it anew: a fit changes the
        ranker, and the objects with which the command checked the job are in another process.

        Args:
            chosen: the settings that a search chose; None: the job trains with its own.

        Raises:
            ConfigError: A setting does not exist, has the wrong type, or is out of range.
        """
        return build_experiment(self.spec, self.key, self.origin, chosen)

    @property
    def in_words(self) -> str:
        """The overrides that differ from those of other jobs of the command, as `RunSpec.varying`."""
        of_trial = ("model.",) if self.is_trial else ()
        return " ".join(self.spec.varying(of_trial))


def as_text(job: Job) -> str:
    """Returns the content of plan/NUMBER.json, without passwords."""
    record = {"format": _FORMAT, **asdict(job)}
    return without_password(json.dumps(record, indent=1, default=str)) + "\n"


def read_job(path: Path) -> Job:
    """Reads plan/NUMBER.json.

    Raises:
        ResultError: The file is damaged, or another version of ltrbench wrote it.
    """
    record = read_json(path, _REMEDY, finite=False)
    version = None
    if isinstance(record, dict):
        version = record.pop("format", None)
    try:
        job: Job = TypeAdapter(Job).validate_python(record)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ResultError(
            f"{path}: {place} is {first['input']!r}: {first['msg']}. {_REMEDY}."
        ) from None
    fault = _fault_of(job, version)
    if fault:
        raise ResultError(f"{path}: {fault}. {_REMEDY}.")
    return job


def _fault_of(job: Job, version: object) -> str:
    """Returns what is wrong with a job that was read; empty if nothing is."""
    if version != _FORMAT:
        return f"format is {version!r}; {_FORMAT} was expected"
    settings = job.spec.settings
    absent = [item.name for item in fields(Config) if item.name not in settings]
    if absent:
        return f"settings lack {', '.join(absent)}"
    if not has_valid_folder(job):
        return f"folder is {job.folder!r}"
    return ""


def has_valid_folder(job: Job) -> bool:
    """Returns whether the folder of a job is inside the sweep, and not reserved for something else."""
    parts = PurePosixPath(job.folder).parts
    if not parts or ".." in parts or job.folder.startswith("/"):
        return False
    reserved = (PLAN_FOLDER, COMPARISON_FOLDER, TRIALS_FOLDER)
    if job.is_trial:
        return parts[0] == TRIALS_FOLDER
    return parts[0] not in reserved


# ---- Computes the key of a job.


def key_of(experiment: Experiment, splits: Splits | str) -> JobKey:
    """Returns the key of a job.

    Args:
        splits: the data; the error message if the data cannot be loaded.
    """
    ranker = experiment.ranker
    spec = experiment.spec
    fields_of_ranker = vars(ranker).values()
    objectives = {
        type(value) for value in fields_of_ranker if isinstance(value, Objective)
    }
    code = _code_of(type(ranker), type(experiment.source), *objectives)
    packages = list(ranker.packages)
    if spec.is_search:
        target = str(spec.settings["search"]["_target_"])
        search = find_class(target, Search, "search")
        code = {**code, _CODE_OF_SEARCH: _code_of_search(search)}
        packages.append(_PACKAGE_OF_SEARCH)
    data = {_DATA_ERROR: str(splits)}
    if not isinstance(splits, str):
        data = splits.digests
    is_trial = isinstance(experiment.origin, Trial)
    all_versions = versions(packages) | plugin_versions()
    key = spec.key(data, code, all_versions, is_trial=is_trial)
    return _with_files(key, _files_of(ranker))


def key_of_trial(key: JobKey, spec: RunSpec) -> JobKey:
    """Returns the key of a trial of a job.

    Args:
        key: the key of the job.
        spec: that of the trial.
    """
    code = without(key.code, {_CODE_OF_SEARCH})
    present_versions = without(key.versions, {_PACKAGE_OF_SEARCH})
    of_trial = spec.key(key.data, code, present_versions, is_trial=True)
    return _with_files(of_trial, key.settings.get(_FILES, {}))


def _files_of(ranker: Ranker) -> dict[str, str]:
    """Returns setting -> digest of the names and contents of the files in its folder, which may be absent."""
    digests = {}
    for name, folder in ranker.folders_read.items():
        files = sorted(path for path in folder.glob("*") if path.is_file())
        contents = [[path.name, _digest(path)] for path in files]
        digests[f"model.{name}"] = digest_of(contents)
    return digests


def _with_files(key: JobKey, files: Mapping[str, str]) -> JobKey:
    if not files:
        return key
    return replace(key, settings={**key.settings, _FILES: dict(files)})


@functools.cache
def _code_of(*classes: type) -> dict[str, str]:
    """Returns "ltrbench" or module -> digest of the code that computes the results of these classes."""
    return {
        "ltrbench": _package_digest(_FOLDER, _COMPUTING),
        **_code_of_users(*classes),
    }


def _code_of_search(search: type[Search]) -> str:
    """Returns a digest of the code of searches, and of a user's module with the class of a search."""
    return digest_of([_package_digest(_FOLDER, _SEARCHING), _code_of_users(search)])


def _code_of_users(*classes: type) -> dict[str, str]:
    """Returns module -> digest of the modules outside of ltrbench that define these classes, and of the
    user's modules that they import."""
    kinds = itertools.chain.from_iterable(built.__mro__ for built in classes)
    digests = {}
    for name in sorted({kind.__module__ for kind in kinds}):
        # The classes of the standard library, such as ABC, are part of the version of Python.
        if name.partition(".")[0] in sys.stdlib_module_names:
            continue
        for module, file in files_of_module(name).items():
            if _FOLDER not in file.parents:
                digests[module] = _digest(file)
    return digests


@functools.cache
def _package_digest(folder: Path, names: tuple[str, ...]) -> str:
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")}
    computing = sorted(name for name in files if name.startswith(names))
    return digest_of([[name, _digest(files[name])] for name in computing])


def _digest(file: Path) -> str:
    return hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest()


# ---- The plan of a sweep: one file per job in SWEEP/plan, on disk before the first job starts.
#
# Several commands may plan jobs in one folder. Only one does so at a time, and it first reads what the others
# have planned. Two commands with the same job therefore use the same number.

_SWEEP_FILE = "sweep.json"
_SECONDS_TO_WAIT = 60.0

FolderOf = Callable[[Job, int], str]
"""(job, its number) -> folder of its run, relative to the folder of the sweep."""


@dataclass
class Plan:
    """The planned jobs of a sweep.

    Attributes:
        sweep: folder of the sweep.
        jobs: number -> job, in order.
    """

    sweep: Path
    jobs: dict[int, Job] = field(default_factory=dict)

    def find(self, job: Job) -> Job | None:
        """Returns the planned job with the same key, or else with the same overrides, or None."""
        return self._of_digest.get(job.digest) or self._of_identity.get(job.identity)

    def trained_before(self, job: Job) -> Job | None:
        """Returns the job whose training `job` copies; None if it has none, or one with another training."""
        leader = next(
            (
                other
                for other in self.jobs.values()
                if other.folder == job.same_training
            ),
            None,
        )
        if leader is not None and leader.training == job.training:
            return leader
        return None

    def read(self) -> None:
        """Reads the files of the plan that have not been read yet.

        Raises:
            ResultError: A file is damaged, or another version of ltrbench wrote it.
        """
        names = [path.stem for path in (self.sweep / PLAN_FOLDER).glob("*.json")]
        for number in sorted(
            {int(name) for name in names if name.isdecimal()} - {*self.jobs}
        ):
            self.add(read_job(self._path(number)))

    def write(self, job: Job) -> None:
        """Writes the file of a job in one step."""
        _write(self._path(job.number), as_text(job))

    def add(self, job: Job) -> None:
        """Adds a job, or replaces the one with its number."""
        self.jobs[job.number] = self._of_digest[job.digest] = self._of_identity[
            job.identity
        ] = job

    def __post_init__(self) -> None:
        self._of_digest: dict[str, Job] = {}
        self._of_identity: dict[str, Job] = {}

    def _path(self, number: int) -> Path:
        return self.sweep / PLAN_FOLDER / f"{number}.json"


def read_plan(sweep: Path) -> Plan:
    """Reads the plan of a sweep; a folder without a plan has no jobs. Raises as `Plan.read` does."""
    plan = Plan(sweep)
    plan.read()
    return plan


def prepare_sweep(sweep: Path) -> None:
    """Creates the folder of the plan and the id of the sweep, if they do not exist.

    Raises:
        ResultError: The folder cannot be written.
    """
    folder = sweep / PLAN_FOLDER
    with hold(folder, wait=_SECONDS_TO_WAIT):
        if not (folder / _SWEEP_FILE).exists():
            _write(
                folder / _SWEEP_FILE, json.dumps({"id": secrets.token_hex(16)}) + "\n"
            )


def sweep_id(sweep: Path) -> str:
    """Returns the id of a sweep; empty for a folder without a plan.

    Raises:
        ResultError: plan/sweep.json cannot be read.
    """
    path = sweep / PLAN_FOLDER / _SWEEP_FILE
    if not path.exists():
        return ""
    return str(read_json(path, _ID_REMEDY)["id"])


def _write(path: Path, text: str) -> None:
    """Writes a file in one step, whether it exists or not.

    Raises:
        ResultError: The folder cannot be written.
    """
    draft = path.with_name(f"{path.name}-{secrets.token_hex(8)}")
    with writing_to(path.parent):
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)


# ---- The state of each job of a sweep, as the folders on disk show it.

DONE = FINISHED
RUNNING = "running"
WAITING = "waiting"
STATES = (DONE, RUNNING, FAILED, WAITING)


@dataclass(frozen=True)
class JobState:
    """The state of a job.

    Attributes:
        name: one of `STATES`. A job that was interrupted is waiting; one whose run is damaged has failed.
        run: its run, finished or failed; None without one.
        reason: why it failed; None for other states.
        holder: the process that runs it; None for other states.
    """

    job: Job
    name: str
    run: Run | None = None
    reason: str | None = None
    holder: Holder | None = None

    @property
    def is_interrupted(self) -> bool:
        """Whether it waits because its run was interrupted."""
        return self.name == WAITING and self.run is not None


def state_of(sweep: Path, job: Job) -> JobState:
    """Returns the state of a job."""
    folder = sweep / job.folder
    run = None
    reason = None
    try:
        run = None
        if (folder / RESULT_FILE).exists():
            run = read_whole_run(folder)
    except (ResultError, OSError) as error:
        reason = str(error)
    if run is not None and run.result.status == FINISHED:
        if run.result.key == job.digest:
            return JobState(job, DONE, run)
        reason = f"{folder} contains a finished run of another job"
    elif run is not None and run.result.error != INTERRUPTED:
        reason = run.result.error or "no reason was recorded"
    working = holder(folder)
    if working is not None:
        return JobState(job, RUNNING, run, holder=working)
    return JobState(job, WAITING if reason is None else FAILED, run, reason)


def states_of(sweep: Path, jobs: Iterable[Job]) -> list[JobState]:
    """Returns the state of each job."""
    return [state_of(sweep, job) for job in jobs]


def wanted(states: Iterable[JobState], only_failed: bool) -> list[JobState]:
    """Returns the jobs that a command runs: all that have not finished, or only those that failed.

    Trials are left out: the search of a job plans them again, and runs those that have not finished. Jobs
    that were interrupted come last: a job that takes longer than stop_after delays no other one.
    """
    jobs = [state for state in states if not state.job.is_trial]
    if only_failed:
        return [state for state in jobs if state.name == FAILED]
    unfinished = [state for state in jobs if state.name != DONE]
    unfinished.sort(key=lambda state: state.is_interrupted)
    return unfinished


def seconds_left(states: Sequence[JobState]) -> float | None:
    """Returns an estimate of the time until all jobs have ended; None if no job has finished yet.

    A job takes as long as the finished jobs of its model on average, or else as all finished jobs. Running
    jobs share the work that is left. A job that copies the training of another takes no time, unless that
    training failed.
    """
    taken = _seconds_taken(states)
    if not taken:
        return None
    overall = fmean(itertools.chain.from_iterable(taken.values()))
    left = {RUNNING: 0.0, WAITING: 0.0}
    failed = {state.job.folder for state in states if state.name == FAILED}
    for state in states:
        if state.name in left and state.job.same_training in (None, *failed):
            expected = fmean(taken.get(state.job.spec.model, [overall]))
            since = 0.0
            if state.holder is not None:
                since = _between(state.holder.since, now())
            left[state.name] += max(expected - since, 0.0)
    num_running = sum(state.name == RUNNING for state in states)
    return sum(left.values()) / max(num_running, 1)


def _seconds_taken(states: Iterable[JobState]) -> dict[str, list[float]]:
    """Returns model -> seconds of each finished job that was trained."""
    taken: dict[str, list[float]] = {}
    for state in states:
        if state.name != DONE or state.run is None:
            continue
        result = state.run.result
        if not isinstance(result.origin, Copied):
            seconds = _between(result.started, result.finished)
            taken.setdefault(result.model, []).append(seconds)
    return taken


def _between(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()


def as_json(states: Sequence[JobState]) -> Mapping[str, Any]:
    """Returns state -> number and folders of its jobs."""
    folders = {
        name: [state.job.folder for state in states if state.name == name]
        for name in STATES
    }
    return {
        name: {"count": len(of_state), "folders": of_state}
        for name, of_state in folders.items()
    }


# ---- Plans the jobs of a command: new jobs, jobs that are planned already, and jobs whose key has changed.

CHOSEN_WITH = "chosen_with"
"""Part of the settings in the key of a job that shares the choice of a search with other folds: name of the
data -> digests of its splits. The choice depends on the data of all of them."""

_WITH_SEED = ("seed", "model", "data", "replicates")
"""Settings with the seed or with parts of the objects that are described without it: of ranker, data source
and resample."""

_SHOWN = 3
"""Maximum number of jobs, and of differences of a job, that a message shows."""


def draft(experiment: Experiment) -> Job:
    """Returns the job of an experiment, without number and folder, which the plan gives it: whether the sweep
    has the job already is known only by its key. Loads the data of the job, for the key.

    Raises:
        ConfigError: The destination of the models cannot hold a model that is trained on these data.
    """
    try:
        splits: Splits | str = load_once(experiment.source)[0]
    except LtrbenchError as error:
        # The job will fail with this error; the other jobs run.
        splits = str(error)
    if experiment.destination is not None and not isinstance(splits, str):
        experiment.destination.check_data(experiment.ranker, splits.train)
    key = key_of(experiment, splits)
    is_trial = isinstance(experiment.origin, Trial)
    is_searched = is_trial or experiment.spec.is_search
    training = ""
    if not isinstance(splits, str) and not is_searched:
        training = _training(experiment, key, splits)
    return Job(
        number=0,
        folder="",
        spec=experiment.spec,
        key=key,
        training=training,
        origin=experiment.origin,
    )


def _training(experiment: Experiment, key: JobKey, splits: Splits) -> str:
    """Returns a digest of everything that a training depends on, except its seed; empty if every seed is
    trained."""
    num_documents = splits.train.num_documents
    drawn = None
    if experiment.resample is not None:
        num_documents = experiment.resample.num_documents(splits.train)
        drawn = experiment.resample.describe()
    if not experiment.is_repeatable or experiment.ranker.seed_matters(num_documents):
        return ""
    ranker = described(experiment.ranker)
    without_seed = [
        without(key.settings, _WITH_SEED),
        ranker["class"],
        without(ranker["fields"], {"seed"}),
        drawn,
        described(experiment.source),
    ]
    return digest_of([without_seed, key.data, key.code, key.versions])


def with_shared_choices(drafts: Sequence[Job]) -> list[Job]:
    """Returns the drafts of a command; those that share the choice of a search have `CHOSEN_WITH` in their
    keys."""
    groups: dict[str, dict[str, Job]] = {}
    for item in drafts:
        if item.spec.is_search and item.spec.settings["search"]["choose"] != PER_FOLD:
            groups.setdefault(search_group(item), {})[item.digest] = item
    shared = {}
    for group in groups.values():
        together = list(group.values())
        for digest, item in group.items():
            shared[digest] = _chosen_with(item, together)
    return [shared.get(item.digest, item) for item in drafts]


def _chosen_with(item: Job, group: Sequence[Job]) -> Job:
    digests: dict[str, list[str]] = {}
    for other in group:
        of_data = digests.setdefault(other.spec.data, [])
        of_data.append(digest_of(other.key.data))
    chosen_with = {name: sorted(digests[name]) for name in sorted(digests)}
    settings = {**item.key.settings, CHOSEN_WITH: chosen_with}
    return replace(item, key=replace(item.key, settings=settings))


def search_group(job: Job) -> str:
    """Returns a digest that is equal for jobs with one search."""
    settings = dict(job.key.settings)
    choose = job.spec.settings["search"]["choose"]
    if choose == PER_FOLD:
        return job.digest
    settings["data"] = without(settings["data"], {"fold"})
    if choose == ACROSS_DATA:
        del settings["data"]
        settings["names"] = without(settings["names"], {"data"})
    return digest_of(settings)


def plan_jobs(plan: Plan, drafts: Sequence[Job], folder_of: FolderOf) -> list[Job]:
    """Adds jobs to a plan, and returns the planned job of each draft, with its number and folder.

    Raises:
        LtrbenchError: A finished job has changed since it ran, the plan has a finished job on other data of
            the same name, or two jobs have the same folder. Nothing is planned then.
    """
    jobs: list[Job] = []
    changed: list[Job] = []
    with hold(plan.sweep / PLAN_FOLDER, wait=_SECONDS_TO_WAIT):
        plan.read()
        refuse_changed(plan, drafts)
        _refuse_other_data(plan, drafts)
        numbers = itertools.count(max(plan.jobs, default=-1) + 1)
        folders = {job.folder for job in plan.jobs.values()}
        for item in drafts:
            planned = plan.find(item)
            if planned is None:
                number = next(numbers)
                planned = replace(item, number=number, folder=folder_of(item, number))
                _check_folder(planned, folders)
                folders.add(planned.folder)
            elif planned.digest != item.digest:
                planned = replace(item, number=planned.number, folder=planned.folder)
            if plan.jobs.get(planned.number) != planned:
                planned = replace(planned, same_training=_leader(plan, planned))
                plan.add(planned)
                changed.append(planned)
            # The plan on disk has no passwords, and perhaps another path of the same data.
            spec = replace(planned.spec, settings=item.spec.settings)
            jobs.append(replace(planned, spec=spec))
        for job in changed:
            plan.write(job)
    return jobs


def _check_folder(job: Job, taken: Collection[str]) -> None:
    if job.folder in taken or not has_valid_folder(job):
        raise ConfigError(
            f"hydra.sweep.subdir gives the folder '{job.folder}', which is reserved, outside "
            "the sweep, or of another job. Leave it out, or add ${hydra.job.num} to it."
        )


def _leader(plan: Plan, job: Job) -> str | None:
    """Returns the folder of the first other job with the same training, which it trains itself."""
    if not job.training:
        return None
    for other in plan.jobs.values():
        if other.number == job.number or other.same_training is not None:
            continue
        if other.training == job.training:
            return other.folder
    return None


def _refuse_other_data(plan: Plan, drafts: Sequence[Job]) -> None:
    """
    Raises:
        ResultError: A draft and a finished or running job have equal data settings, apart from names of
            files, and data with different fingerprints: they could not be compared.
    """
    planned: dict[str, list[Job]] = {}
    for job in plan.jobs.values():
        digest = digest_of(job.key.settings["data"])
        planned.setdefault(digest, []).append(job)
    for item in drafts:
        alike = planned.get(digest_of(item.key.settings["data"]), [])
        if _DATA_ERROR in item.key.data:
            continue
        if any(job.key.data == item.key.data for job in alike):
            continue
        for job in alike:
            if state_of(plan.sweep, job).name in (DONE, RUNNING):
                differences = item.key.differences(replace(item.key, data=job.key.data))
                raise ResultError(
                    f"{plan.sweep} has runs on other data of the name {item.spec.data}, such as job "
                    f"{job.number}: {'; '.join(differences[:_SHOWN])}. Restore the files, choose another "
                    "folder with hydra.sweep.dir=..., or name the new data with data.name=NAME."
                )


def refuse_changed(plan: Plan, drafts: Sequence[Job]) -> None:
    """
    Raises:
        ResultError: A job has finished or is running, and its key has changed since. Of a job that is not
            among `drafts`, only code and versions are compared.
    """
    keys: dict[int, JobKey] = {}
    code: dict[str, str] = {}
    present_versions: dict[str, str] = {}
    for item in drafts:
        planned = plan.find(item)
        if planned is not None:
            keys[planned.number] = item.key
        code |= item.key.code
        present_versions |= item.key.versions
    changed: list[str] = []
    for job in plan.jobs.values():
        key = keys.get(job.number)
        if key is None:
            key = replace(
                job.key,
                code=_updated(job.key.code, code),
                versions=_updated(job.key.versions, present_versions),
            )
        if key.digest == job.digest:
            continue
        if state_of(plan.sweep, job).name in (DONE, RUNNING):
            differences = "; ".join(key.differences(job.key)[:_SHOWN])
            changed.append(
                f"job {job.number} in {plan.sweep / job.folder}: {differences}"
            )
    if changed:
        raise ResultError(
            f"{plan.sweep}: {len(changed)} finished jobs have changed since they ran: "
            f"{'. '.join(changed[:_SHOWN])}. Undo the change, choose another folder with "
            "hydra.sweep.dir=..., or delete the folders of these jobs to run them again."
        )


def _updated(earlier: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """Returns the earlier values, each replaced by the present one of its name, if there is one."""
    return {name: present.get(name, value) for name, value in earlier.items()}
