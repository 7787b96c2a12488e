"""The ledger of looks at a sweep, and comparisons of its runs at the level that follows from it.

A look is a comparison that the command line prints, and in which a pair has an interval, so that a claim can
follow. Many looks, in other metrics, of other models or with more seeds, lead to a claim by chance. Each look
is therefore a line of looks.jsonl in the folder of the sweep, and the level of the claims falls with their
number:

    level = LEVEL / N              for the first N looks, declared by the first (`looks=N`, or `--looks N`)
    level = LEVEL / (k (k + 1))    for the k-th look, if it was not declared

The levels of all undeclared looks sum to at most LEVEL / (N + 1), however many follow. A repeated look keeps
its level. A later look declares nothing, because it is chosen after the first answer. Looks at different data
sets are different questions, and do not count together: each Comparison is a look of its own, in the ledgers
of the sweeps of its runs. docs/concepts/statistics.md has the measured rates of false claims.

The pairs of a row carry no claim if the sweep has planned trainings of this row that are not compared: they
failed, have not finished, or were left out. With a reason for the selection, which is printed, they do.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ltrbench.compare.cells import (
    cell_of,
    first_by,
    flatten,
    grouped,
)
from ltrbench.compare.comparison import (
    Comparison,
    SweepState,
    compare,
    with_level,
)
from ltrbench.compare.remarks import (
    Kind,
    LeftOut,
    OtherLook,
    Remark,
    left_out_in_words,
)
from ltrbench.compare.settings import (
    Settings,
)
from ltrbench.compare.table import ModelRow
from ltrbench.errors import ResultError
from ltrbench.measure import now
from ltrbench.metrics import DEFAULT
from ltrbench.runs.record import Run
from ltrbench.runs.spec import digest_of, first_word, of_job
from ltrbench.statistics import LEVEL
from ltrbench.sweep.plan import DONE, Job, read_plan, state_of, sweep_id
from ltrbench.untrusted import read_bytes

log = logging.getLogger("ltrbench")

LEDGER_FILE = "looks.jsonl"

_NAMES = {
    "data.fold": "fold",
    "data.split_seed": "repeat",
    "replicates.index": "resample",
    "seed": "seed",
}
"""Setting that distinguishes the trainings of a row -> its name in sentences."""

_NUMBERS = ("replicates", "replicates.number")
"""Settings that differ between the trainings of a row if the sweep was extended."""

_NOT_PRINTED = "no command has printed this comparison; compare prints it"
"""Why a comparison that is no look has no claims."""


class Look(TypedDict):
    """A comparison from which claims can follow: a line of the ledger.

    `metrics` has the primary metric, then the others of the family, and `guards` each guard with its limit,
    such as "map=-0.01". `ropes` has half the width of the region of equivalence of each metric with claims.
    `rows` has the label of each compared row, and a digest of its overrides or, for another system, of its
    scores. `trainings` has each fold, split seed, resample and seed that the sweep has planned for these
    rows, such as "seed 1", and `left_out` the trainings that were left out for a stated reason.
    """

    data: str
    metrics: list[str]
    guards: list[str]
    convention: str
    baseline: str | None
    ropes: dict[str, float]
    rows: dict[str, str]
    trainings: list[str]
    left_out: list[str]
    declared: int
    time: str


def _identity(look: Look) -> str:
    """Returns a digest of the fields of a look, without the time, and of its rows without their labels, which
    may change with the other rows and with the version of ltrbench."""
    names = (
        "metrics",
        "guards",
        "convention",
        "baseline",
        "ropes",
        "trainings",
        "left_out",
    )
    fields: Mapping[str, object] = look
    values = [fields[name] for name in names]
    rows = sorted(look["rows"].values())
    return digest_of([*values, rows])


def _beside(other: Look, look: Look) -> OtherLook:
    """Returns another look as a note about a look names it: with what differs between them."""
    names = [training.partition(" ")[0] for training in other["trainings"]]
    counts = Counter(names)
    rows = other["rows"]
    labels: list[str] = []
    if rows != look["rows"]:
        # The models that the look lacks come first.
        known = look["rows"].values()
        labels = sorted(rows, key=lambda label: rows[label] in known)
    ropes = set(other["ropes"].values())
    if ropes == set(look["ropes"].values()):
        ropes = set()
    convention = other["convention"]
    return OtherLook(
        metrics=other["metrics"],
        guards=other["guards"],
        counts={name: count for name, count in counts.items() if count > 1},
        labels=labels,
        convention="" if convention == DEFAULT.name else convention,
        baseline=other["baseline"],
        ropes=sorted(ropes),
        num_left_out=len(other["left_out"]),
    )


def _is_known(look: Look, earlier: Iterable[Look]) -> bool:
    return _identity(look) in map(_identity, _linked(look, earlier))


def _linked(look: Look, earlier: Iterable[Look]) -> list[Look]:
    """Returns the earlier looks at the data set of a look, in the order of their times."""
    in_order = sorted(earlier, key=lambda each: each["time"])
    return [each for each in in_order if each["data"] == look["data"]]


def _warn_of_late_declaration(look: Look, earlier: Iterable[Look]) -> None:
    """Logs that a look declares a number of looks after the first one, which declared another number."""
    linked = _linked(look, earlier)
    if not linked:
        return
    first = linked[0]
    if look["declared"] in (1, first["declared"]):
        return
    log.warning(
        "looks=%d is not declared in advance and has no effect: %s was compared at %s, with looks=%d. "
        "Declare looks with the first comparison of a sweep.",
        look["declared"],
        _beside(first, look),
        first["time"],
        first["declared"],
    )


def level_of(look: Look, earlier: Iterable[Look]) -> tuple[float, list[Remark]]:
    """Returns the level of the claims of a look, and a remark on it; none at the level LEVEL.

    Args:
        earlier: The looks in the ledgers.
    """
    linked = _linked(look, earlier)
    known = first_by(linked, _identity)
    identity = _identity(look)
    identities = list(known)
    number = len(identities) + 1
    if identity in known:
        number = identities.index(identity) + 1
    first = linked[0] if linked else look
    declared = first["declared"]
    level = LEVEL / declared
    if number > declared:
        level = LEVEL / (number * (number + 1))
    if level == LEVEL:
        return level, []
    others = []
    for key, each in known.items():
        if key != identity:
            others.append(_beside(each, look))
    remark = Remark.of(
        Kind.LOOK, number=number, declared=declared, others=others, level=level
    )
    return level, [remark]


def read_ledger(sweep: Path) -> list[Look]:
    """Reads the looks at a sweep; none without a ledger.

    Raises:
        ResultError: A line is damaged.
    """
    path = sweep / LEDGER_FILE
    lines = read_bytes(path).splitlines() if path.exists() else []
    looks: list[Look] = []
    for line in lines:
        try:
            looks.append(TypeAdapter(Look).validate_json(line))
        except ValidationError:
            raise ResultError(
                f"{path}, line {len(looks) + 1}: not a look. Restore the file from a copy, or move it away "
                f"and count its looks with --looks {len(lines) + 1}."
            ) from None
    return looks


def _record(look: Look, sweep: Path) -> list[Remark]:
    """Adds a look to a ledger that lacks it; returns a remark if the folder cannot be written."""
    time = look["time"]
    try:
        if any({**each, "time": time} == look for each in read_ledger(sweep)):
            return []
        with (sweep / LEDGER_FILE).open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(look)}\n")
    except OSError as error:
        return [
            Remark.of(Kind.UNRECORDED, folder=str(sweep), error=error.strerror or "")
        ]
    return []


def compare_sweeps(
    runs: Sequence[Run], settings: Settings | None = None, declared: int = 1
) -> list[Comparison]:
    """Compares runs at the level of the looks at their sweeps; returns one Comparison per data set.

    The ledgers of several sweeps are joined. Runs of no sweep have no ledger.

    Args:
        declared: Number of looks declared in advance. After the first look it has no effect, and a warning is
            logged if it differs from what the first one declared. 0: nobody sees the comparison now. It is
            no look, and has claims only if it was a look before.

    Raises:
        ConfigError, ResultError: As `compare`; or a plan or a ledger is damaged.
    """
    comparisons = compare(runs, settings)
    selected = settings.selected if settings else ""
    compared = {run.path.resolve() for run in runs if run.result.is_compared}
    return [_as_look(item, compared, declared, selected) for item in comparisons]


def _as_look(
    item: Comparison, compared: Collection[Path], declared: int, selected: str
) -> Comparison:
    """Returns a comparison at its level, and records it in the ledgers of the sweeps of its runs."""
    plans = _Plans.of(item, compared)
    left_out = plans.left_out()
    state = SweepState(
        plans.sweeps,
        [] if selected else plans.unfinished(),
        len(plans.planned),
        is_selected=bool(left_out or selected),
        left_out=left_out,
        has_others=bool(set(compared).difference(plans.label_of)),
    )
    item = replace(item, sweeps=state)
    remarks: list[Remark] = []
    if left_out and selected:
        remarks.append(Remark.of(Kind.SELECTED, reason=selected, left_out=left_out))
    elif left_out:
        reason = left_out_in_words(left_out)
        labels = itertools.chain.from_iterable(each.labels for each in left_out)
        item = with_level(item, dict.fromkeys(labels, reason), LEVEL)
    level = LEVEL
    if any(pair.models.interval is not None for pair in item.claims):
        missing = plans.missing() if selected else []
        look = _look(item, plans.jobs, missing, max(declared, 1))
        earlier = plans.looks()
        if not declared and plans.sweeps and not _is_known(look, earlier):
            return with_level(item, dict.fromkeys(look["rows"], _NOT_PRINTED), LEVEL)
        level, about = level_of(look, earlier)
        remarks.extend(about)
        if declared:
            _warn_of_late_declaration(look, earlier)
            for sweep in plans.sweeps:
                remarks.extend(_record(look, sweep))
    if not remarks:
        return item
    return with_level(item, {}, level, remarks)


def _look(
    item: Comparison, jobs: Mapping[Path, Job], missing: Iterable[Job], declared: int
) -> Look:
    """Returns a comparison as a look.

    Args:
        jobs: Folder of the run -> planned job of the compared rows.
        missing: Jobs that were left out for a stated reason.
    """
    settings = item.settings
    further = sorted({*settings.family} - {item.metric})
    claimed = sorted({item.metric, *item.declared})
    trainings = itertools.chain.from_iterable(map(_training, jobs.values()))
    return Look(
        data=cell_of(item.rows[0].runs[0]).data,
        metrics=[item.metric, *further],
        guards=sorted(set(map(str, settings.guards))),
        convention=settings.convention.name,
        baseline=settings.baseline if settings.names_baseline else None,
        ropes={name: settings.rope_of(name) for name in claimed},
        rows={row.label: _digest(row, jobs) for row in item.rows},
        trainings=sorted(set(trainings)),
        left_out=sorted(map(_row_and_training, missing)),
        declared=declared,
        time=now(),
    )


@dataclass(frozen=True)
class _Plans:
    """What the sweeps of a comparison have planned.

    Attributes:
        sweeps: Their folders.
        planned: Folder of the sweep, and job, of each planned job but trials.
        label_of: Folder of each compared run of this data set -> label of its row.
        jobs: Folder of the run -> job, of the compared rows: trainings on another data set, and of a model
            that is not compared, do not matter.
        compared: Folders of all compared runs, of other data sets too.
    """

    sweeps: Sequence[Path]
    planned: Sequence[tuple[Path, Job]]
    label_of: Mapping[Path, str]
    jobs: Mapping[Path, Job]
    compared: Collection[Path]

    @staticmethod
    def of(item: Comparison, compared: Collection[Path]) -> _Plans:
        """Reads the plans of the sweeps whose runs are compared."""
        label_of = {}
        for row in item.rows:
            for run in row.runs:
                label_of[run.path.resolve()] = row.label
        parents = itertools.chain.from_iterable(path.parents for path in label_of)
        sweeps = list(filter(sweep_id, sorted(set(parents))))
        planned = []
        for sweep in sweeps:
            jobs_of_sweep = read_plan(sweep).jobs.values()
            planned += [(sweep, job) for job in jobs_of_sweep if not job.is_trial]
        jobs = {}
        for sweep, job in planned:
            path = (sweep / job.folder).resolve()
            jobs[path] = job
        rows = {_row(jobs[path]) for path in label_of if path in jobs}
        of_rows = {path: jobs[path] for path in jobs if _row(jobs[path]) in rows}
        return _Plans(sweeps, planned, label_of, of_rows, compared)

    def looks(self) -> list[Look]:
        """Returns the looks in the ledgers of the sweeps."""
        ledgers = map(read_ledger, self.sweeps)
        return list(itertools.chain.from_iterable(ledgers))

    def unfinished(self) -> list[Path]:
        """Returns the folder of the sweep of each job that is not compared and has not finished."""
        folders = []
        for sweep, job in self.planned:
            path = (sweep / job.folder).resolve()
            if path not in self.compared and state_of(sweep, job).name != DONE:
                folders.append(sweep)
        return folders

    def missing(self) -> list[Job]:
        """Returns the jobs of the compared rows that are not compared."""
        jobs = self.jobs.items()
        return [job for path, job in jobs if path not in self.compared]

    def left_out(self) -> list[LeftOut]:
        """Returns the rows that lack planned trainings; rows that lack the same ones are together."""
        labels_of: dict[tuple[int, tuple[str, ...]], set[str]] = {}
        by_row = grouped(self.jobs, lambda path: _row(self.jobs[path]))
        for paths in by_row.values():
            compared = [path for path in paths if path in self.label_of]
            labels = {self.label_of[path] for path in compared}
            missing = [path for path in paths if path not in self.compared]
            if not missing or not labels:
                continue
            words = {path: _training(self.jobs[path]) for path in paths}
            common = set(words[paths[0]]).intersection(*words.values())
            trainings = tuple(
                ", ".join(word for word in words[path] if word not in common)
                for path in missing
            )
            labels_of.setdefault((len(paths), trainings), set()).update(labels)
        return [
            LeftOut(sorted(labels), trainings, num_planned)
            for (num_planned, trainings), labels in labels_of.items()
        ]


def _digest(row: ModelRow, jobs: Mapping[Path, Job]) -> str:
    """Returns a digest of the overrides of a row, without those of the data, and of scores of no sweep."""
    identities = set()
    for item in row.evaluated:
        job = jobs.get(item.run.path.resolve())
        if job is not None:
            identities.add(_row(job, without="data"))
        else:
            identities.add(hashlib.blake2b(item.scores.tobytes()).hexdigest())
    return digest_of(sorted(identities))


def _training(job: Job) -> list[str]:
    """Returns what distinguishes a training from the others of its row, such as "fold 2" and "seed 1"."""
    values = flatten(job.spec.settings)
    return [
        f"{noun} {values[name]}"
        for name, noun in _NAMES.items()
        if values.get(name) is not None
    ]


def _row_and_training(job: Job) -> str:
    return " ".join([_row(job), *_training(job)])


def _row(job: Job, without: str = "") -> str:
    """Returns the overrides that the trainings of a row have in common, without those of a part."""
    lines = set()
    for line in of_job(job.overrides):
        name = line.lstrip("+").partition("=")[0]
        if first_word(line) != without and name not in (*_NAMES, *_NUMBERS):
            lines.add(line)
    return " ".join(sorted(lines))
