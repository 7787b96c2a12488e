"""The plan of a sweep: one file per job in SWEEP/plan, on disk before the first job starts.

    plan/NUMBER.json   a `Job`
    plan/sweep.json    the id of the sweep, for tracking stores

Several commands may plan jobs in one folder at the same time. A file is created complete and exclusively, and
a command reads every file that exists before it creates the next number. Two commands with the same job
therefore use the same number.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from ltrbench.disk import delete_abandoned
from ltrbench.errors import ConfigError, ResultError
from ltrbench.measure.provenance import plain
from ltrbench.results import FINISHED, RESULT_FILE, hold, holder, read_run
from ltrbench.results.lease import create_once, is_abandoned
from ltrbench.results.storage import writing_to
from ltrbench.sweep.job import PLAN_FOLDER, TRIALS_FOLDER, Job, as_record, from_record, mistake_in_folder
from ltrbench.untrusted.reading import read_json

log = logging.getLogger("ltrbench")

_SWEEP_FILE = "sweep.json"
_REMEDY = (
    "Run the command that started the sweep again with the same hydra.sweep.dir; it plans this job again"
)

_ID_REMEDY = (
    "Run the command that started the sweep again with the same hydra.sweep.dir, or delete the file; "
    "tracking stores then show the sweep as a new one"
)
_SECONDS_TO_WAIT = 60.0
_PLANNING = "planning"
"""Lease on the folder of the plan, held while a command adds its jobs."""

FolderOf = Callable[[Job, int], str]
"""(job, its number) -> folder of its run, relative to the folder of the sweep."""


@dataclass
class Plan:
    """The planned jobs of a sweep.

    Attributes:
        sweep: folder of the sweep.
        jobs: number -> job, in order.
        damaged: number -> reason why its file cannot be used.
    """

    sweep: Path
    jobs: dict[int, Job] = field(default_factory=dict)
    damaged: dict[int, str] = field(default_factory=dict)

    def refuse_damage(self) -> None:
        """
        Raises:
            ResultError: A file of the plan cannot be used, or jobs may be missing.
        """
        for reason in self.damaged.values():
            raise ResultError(f"{reason}. {_REMEDY}.")
        if incompleteness := self.incompleteness:
            raise ResultError(f"{incompleteness}.")

    @property
    def folders(self) -> set[Path]:
        """The folders of all planned jobs."""
        return {self.sweep / job.folder for job in self.jobs.values()}

    def find(self, job: Job) -> Job | None:
        """Returns the planned job with the same key, or else with the same overrides, or None."""
        return self._of_digest.get(job.digest) or self._of_identity.get(job.identity)

    def leader(self, job: Job) -> str | None:
        """Returns the folder of the first job with the same training; None if `job` itself is the first."""
        if not job.training:
            return None
        leader = self._of_training.get(job.training)
        return leader.folder if leader is not None and leader.number != job.number else None

    def __post_init__(self) -> None:
        self._of_digest: dict[str, Job] = {}
        self._of_identity: dict[str, Job] = {}
        self._of_training: dict[str, Job] = {}
        self._of_folder: dict[str, Job] = {}
        for job in self.jobs.values():
            self._index(job)

    def _index(self, job: Job) -> None:
        self.jobs[job.number] = job
        self._of_digest[job.digest] = self._of_identity[job.identity] = self._of_folder[job.folder] = job
        if job.training and job.same_training is None:
            self._of_training.setdefault(job.training, job)

    def add(self, job: Job, folder_of: FolderOf) -> Job:
        """Adds a new job under the first free number, and returns it with its number and folder.

        Another command may add the same job at the same time; then its entry is returned.
        """
        while (known := self.find(job)) is None:
            number = next(self._free_numbers())
            planned = replace(job, number=number, folder=folder_of(job, number))
            planned = replace(planned, same_training=self.leader(planned))
            with writing_to(self.sweep):
                is_new = create_once(self._path(number), _text(planned))
            if is_new:
                self._index(planned)
                return planned
            self._read(number)
        return known

    def check_folders(self, jobs: Sequence[Job], folder_of: FolderOf) -> None:
        """Checks the folders that new jobs get if no other command plans jobs at the same time.

        Raises:
            ConfigError: A folder is not below the folder of the sweep, or is also that of another job.
        """
        folders = [folder_of(job, number) for job, number in zip(jobs, self._free_numbers(), strict=False)]
        taken = {job.folder for job in self.jobs.values()}
        above = {parent for folder in taken for parent in _parents(folder)}
        for job, folder in zip(jobs, folders, strict=True):
            reason = mistake_in_folder(folder, job.is_trial)
            if reason is None and (folder in above or not taken.isdisjoint([folder, *_parents(folder)])):
                reason = "is also the folder of another job, or one of the two is inside the other"
            if reason is not None:
                raise ConfigError(
                    f"hydra.sweep.subdir gives the folder '{folder}', which {reason}. Each job needs its own "
                    "folder: leave out hydra.sweep.subdir, or add ${hydra.job.num} to it."
                )
            taken.add(folder)
            above.update(_parents(folder))

    def change(self, job: Job) -> Job:
        """Replaces the entry of an unfinished job whose key has changed, or an entry that is damaged."""
        earlier = self.jobs.get(job.number)
        self._of_training = {name: first for name, first in self._of_training.items() if first is not earlier}
        job = replace(job, same_training=self.leader(job))
        _replace(self._path(job.number), _text(job))
        self._index(job)
        return job

    @contextlib.contextmanager
    def growing(self) -> Iterator[None]:
        """Context in which a command adds its jobs; `incompleteness` reports one that was killed in it."""
        with hold(self.sweep / PLAN_FOLDER, _PLANNING, wait=_SECONDS_TO_WAIT) as lease:
            yield
            lease.is_complete = True

    @property
    def incompleteness(self) -> str | None:
        """The message about a command that ended before all of its jobs were planned; None without one."""
        if not is_abandoned(self.sweep / PLAN_FOLDER, _PLANNING):
            return None
        return (
            f"{self.sweep / PLAN_FOLDER} may lack jobs, because a command ended while it planned them. Run "
            "the command that started the sweep again with the same hydra.sweep.dir; it plans the others"
        )

    def repair(self, jobs: Sequence[Job], folder_of: FolderOf, keys: Mapping[Path, str | None]) -> None:
        """Replaces damaged entries: by the job that finished under the number, or else, if none did, by a
        job that is not planned. Other entries stay damaged.

        Args:
            jobs: the jobs of a command.
            keys: folder -> key of each finished run that is not planned, without trials.
        """
        with hold(self.sweep / PLAN_FOLDER, "repair", wait=_SECONDS_TO_WAIT) as lease:
            # Another command may have repaired entries in the meantime.
            present = read_plan(self.sweep)
            self.jobs, self.damaged = present.jobs, present.damaged
            self.__post_init__()
            for only_finished in (True, False):
                for number in list(self.damaged):
                    missing = (job for job in jobs if self.find(job) is None)
                    if only_finished:
                        missing = (job for job in missing if self._ran_as(job, number, folder_of, keys))
                    elif not self._is_free(number):
                        continue
                    if (job := next(missing, None)) is not None:
                        self._restore(replace(job, number=number, folder=folder_of(job, number)))
            lease.is_complete = True

    def _ran_as(self, job: Job, number: int, folder_of: FolderOf, keys: Mapping[Path, str | None]) -> bool:
        folder = self.sweep / folder_of(job, number)
        return (_finished_key(folder) if job.is_trial else keys.get(folder)) == job.digest

    def _is_free(self, number: int) -> bool:
        """Returns whether no run finished under a number, as a job or as a trial."""
        folders = (self.sweep / str(number), self.sweep / TRIALS_FOLDER / str(number))
        return all(map(_is_unused, folders))

    def _restore(self, job: Job) -> None:
        reason = self.damaged.pop(job.number)
        log.warning("%s. Job %d is planned again: %s", reason, job.number, " ".join(job.settings_of_job))
        self.change(job)

    def trained_before(self, job: Job) -> Job | None:
        """Returns the job whose training `job` copies; None if it has none, or one with another training."""
        leader = self._of_folder.get(job.same_training or "")
        return leader if leader is not None and leader.training == job.training else None

    def _free_numbers(self) -> Iterator[int]:
        """Yields the numbers after those of the planned jobs, without the names of existing folders."""
        after = max([*self.jobs, *self.damaged], default=-1) + 1
        return (number for number in itertools.count(after) if number not in self._folders)

    @functools.cached_property
    def _folders(self) -> set[int]:
        """The numbers that are names of folders of runs when the first job is planned.

        Without jobs that another command has planned since this plan was read: `add` reads them, and would
        plan them a second time if it passed over their numbers.
        """
        paths = [*self.sweep.iterdir(), *self.sweep.glob(f"{TRIALS_FOLDER}/*")]
        numbers = {int(path.name) for path in paths if path.name.isdecimal()}
        return {number for number in numbers if not self._path(number).exists()}

    def _read(self, number: int) -> None:
        job = _job_in(self._path(number))
        if isinstance(job, Job) and job.number == number:
            self._index(job)
        else:
            self.damaged[number] = (
                job if isinstance(job, str) else f"{self._path(number)}: its number is {job.number}"
            )

    def _path(self, number: int) -> Path:
        return self.sweep / PLAN_FOLDER / f"{number}.json"


def read_plan(sweep: Path) -> Plan:
    """Reads the plan of a sweep; a folder without a plan has no jobs."""
    folder = sweep / PLAN_FOLDER
    plan = Plan(sweep)
    names = [path.stem for path in folder.glob("*.json")] if folder.is_dir() else []
    for number in sorted(int(name) for name in names if name.isdecimal()):
        plan._read(number)
    return plan


def prepare_sweep(sweep: Path) -> str:
    """Creates the folder of the plan, if it does not exist, and returns the id of the sweep.

    A damaged plan/sweep.json is replaced, with a warning.

    Raises:
        ResultError: The folder cannot be written.
    """
    path = sweep / PLAN_FOLDER / _SWEEP_FILE
    text = json.dumps({"id": secrets.token_hex(16)}).encode() + b"\n"
    with writing_to(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        delete_abandoned(path.parent, "*.json-*")
        if not path.exists():
            create_once(path, text)
        try:
            return sweep_id(sweep)
        except ResultError as error:
            log.warning("%s This command has replaced it.", error)
            _replace(path, text)
            return sweep_id(sweep)


def sweep_id(sweep: Path) -> str:
    """Returns the id of a sweep; empty for a folder without a plan.

    Raises:
        ResultError: plan/sweep.json cannot be read.
    """
    path = sweep / PLAN_FOLDER / _SWEEP_FILE
    if not path.exists():
        return ""
    record = read_json(path, _ID_REMEDY)
    identity = record.get("id") if isinstance(record, dict) else None
    if not isinstance(identity, str) or not identity.isalnum() or len(identity) > 64:
        raise ResultError(f"{path}: id is {identity!r}; letters and digits were expected. {_ID_REMEDY}.")
    return identity


def _parents(folder: str) -> list[str]:
    return list(map(str, PurePosixPath(folder).parents))


def _job_in(path: Path) -> Job | str:
    """Returns the job in a file of the plan, or the reason why the file cannot be used."""
    try:
        job = from_record(read_json(path, _REMEDY, finite=False))
    except ResultError as error:
        return str(error).removesuffix(f". {_REMEDY}.")
    return f"{path}: {job}" if isinstance(job, str) else job


def _is_unused(folder: Path) -> bool:
    """Returns whether no run finished in a folder, and no process works in it."""
    if holder(folder) is not None:
        return False
    try:
        return not (folder / RESULT_FILE).exists() or read_run(folder).result.status != FINISHED
    except ResultError:
        return False


def _finished_key(folder: Path) -> str | None:
    """Returns the key of the finished run in a folder; None without one."""
    try:
        result = read_run(folder).result if (folder / RESULT_FILE).exists() else None
    except ResultError:
        return None
    return result.key if result is not None and result.status == FINISHED else None


def _text(job: Job) -> bytes:
    return json.dumps(plain(as_record(job)), indent=1).encode() + b"\n"


def _replace(path: Path, content: bytes) -> None:
    """Writes a file in one step, whether it exists or not.

    Raises:
        ResultError: The folder cannot be written.
    """
    draft = path.with_name(f"{path.name}-{secrets.token_hex(8)}")
    with writing_to(path.parent):
        try:
            draft.write_bytes(content)
            draft.replace(path)
        finally:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
