"""The ledger of looks at a sweep, and comparisons of its runs at the level that follows from it.

A look is a comparison that the command line prints, and in which a pair has an interval, so that a claim can
follow. Many looks, in other metrics, of other models or with more seeds, lead to a claim by chance. Each look
is therefore a line of looks.jsonl in the folder of the sweep, and the level of the claims falls with their
number:

    level = LEVEL / N              for the first N looks, declared in advance (`looks=N`, or `--looks N`)
    level = LEVEL / (k (k + 1))    for the k-th look, if it was not declared

The levels of all undeclared looks sum to at most LEVEL / (N + 1), however many follow. A repeated look keeps
its level. Looks at different data sets are different questions, and do not count together: each Comparison is
a look of its own, in the ledgers of the sweeps of its runs. docs/concepts/statistics.md has the measured
rates of false claims.

The pairs of a row carry no claim if the sweep has planned trainings of this row that are not compared: they
failed, have not finished, or were left out. With a reason for the selection, which is printed, they do.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
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
    ModelRow,
    SweepState,
    compare,
    with_level,
)
from ltrbench.compare.remarks import Kind, Remark
from ltrbench.compare.settings import (
    Settings,
    percent,
)
from ltrbench.errors import ResultError
from ltrbench.measure import now
from ltrbench.metrics import DEFAULT
from ltrbench.runs.record import Run, first_word, of_job
from ltrbench.statistics import LEVEL
from ltrbench.sweep.plan import DONE, Job, digest_of, read_plan, state_of, sweep_id
from ltrbench.tables import listed
from ltrbench.untrusted import read_bytes

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

_MOST_SHOWN = 3
"""Maximum number of other looks, of their models, and of trainings that a sentence lists."""


class Look(TypedDict):
    """A comparison from which claims can follow: a line of the ledger.

    `ropes` has half the width of the region of equivalence of each metric. `rows` has the label of each
    compared row, and a digest of its overrides or, for another system, of its scores. `trainings` has each
    fold, split seed, resample and seed that the sweep has planned for these rows, such as "seed 1", and
    `left_out` the trainings that were left out for a stated reason.
    """

    data: str
    metrics: list[str]
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
    return digest_of(
        [
            look["metrics"],
            look["convention"],
            look["baseline"],
            look["ropes"],
            look["trainings"],
            look["left_out"],
            sorted(look["rows"].values()),
        ]
    )


def _shortened(items: Sequence[str], separator: str = "; ") -> str:
    more = len(items) - _MOST_SHOWN
    return separator.join([*items[:_MOST_SHOWN], *[f"and {more} more"] * (more > 0)])


def _described(look: Look, other: Look) -> str:
    """Returns a look in words, with its models and regions of equivalence if they differ from the other's."""
    counts = Counter(training.partition(" ")[0] for training in look["trainings"])
    factors = " x ".join(
        f"{count} {name}s" for name, count in counts.items() if count > 1
    )
    words = [listed(look["metrics"]), f"with {factors or '1 training'}"]
    # The models that the other look lacks come first.
    rows = sorted(
        look["rows"], key=lambda label: look["rows"][label] in other["rows"].values()
    )
    words += [f"of {_shortened(rows, ', ')}"] * (look["rows"] != other["rows"])
    words += [f"under {look['convention']}"] * (look["convention"] != DEFAULT.name)
    words += [f"against {look['baseline']}"] * (look["baseline"] is not None)
    ropes, of_other = ({*each["ropes"].values()} for each in (look, other))
    words += [f"(equivalent: ±{', ±'.join(f'{rope:g}' for rope in sorted(ropes))})"] * (
        ropes != of_other
    )
    left_out = len(look["left_out"])
    return " ".join(
        [*words, *[f"without {left_out} of the trainings"] * bool(left_out)]
    )


def level_of(look: Look, earlier: Iterable[Look]) -> tuple[float, str]:
    """Returns the level of the claims of a look, and the sentence about it; empty at the level LEVEL.

    Args:
        earlier: The looks in the ledgers.
    """
    in_order = sorted(earlier, key=lambda each: each["time"])
    linked = [each for each in in_order if each["data"] == look["data"]]
    known = first_by(linked, _identity)
    identities = list(known)
    number = len(identities) + 1
    if _identity(look) in known:
        number = identities.index(_identity(look)) + 1
    declared = max(each["declared"] for each in (look, *linked))
    level = LEVEL / declared
    if number > declared:
        level = LEVEL / (number * (number + 1))
    if level == LEVEL:
        return level, ""
    others = [
        _described(each, look)
        for identity, each in known.items()
        if identity != _identity(look)
    ]
    listing = _shortened(others) or "none yet"
    of = (
        f"look {number} of {declared} declared"
        if number <= declared
        else f"look {number}"
    )
    return level, (
        f"This is {of} at these runs (others: {listing}): claims are at {percent(level)} instead of "
        f"{percent(LEVEL)}."
    )


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


def _record(look: Look, sweep: Path) -> list[str]:
    """Adds a look to a ledger that lacks it; returns a sentence if the folder cannot be written."""
    try:
        if not any(
            {**each, "time": look["time"]} == look for each in read_ledger(sweep)
        ):
            with (sweep / LEDGER_FILE).open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(look)}\n")
    except OSError as error:
        return [
            f"This look is not recorded: {sweep} cannot be written ({error.strerror})."
        ]
    return []


def compare_sweeps(
    runs: Sequence[Run], settings: Settings | None = None, declared: int = 1
) -> list[Comparison]:
    """Compares runs at the level of the looks at their sweeps; returns one Comparison per data set.

    The ledgers of several sweeps are joined. Runs of no sweep have no ledger.

    Args:
        declared: Number of looks declared in advance.

    Raises:
        ConfigError, ResultError: As `compare`; or a plan or a ledger is damaged.
    """
    comparisons, selected = (
        compare(runs, settings),
        settings.selected if settings else "",
    )
    compared = {run.path.resolve() for run in runs if run.result.is_compared}
    return [_as_look(item, compared, declared, selected) for item in comparisons]


def _as_look(
    item: Comparison, compared: Collection[Path], declared: int, selected: str
) -> Comparison:
    """Returns a comparison at its level, and records it in the ledgers of the sweeps of its runs."""
    paths = {run.path.resolve() for row in item.rows for run in row.runs}
    sweeps = [
        *filter(sweep_id, sorted({folder for path in paths for folder in path.parents}))
    ]
    planned = [
        (sweep, job)
        for sweep in sweeps
        for job in read_plan(sweep).jobs.values()
        if not job.is_trial
    ]
    jobs = {(sweep / job.folder).resolve(): job for sweep, job in planned}
    # Trainings on another data set, and of a model that is not compared, do not matter.
    rows = {_row(job) for path, job in jobs.items() if path in paths}
    jobs = {path: job for path, job in jobs.items() if _row(job) in rows}
    left_out = _left_out(item, jobs, compared)
    unfinished = [
        sweep
        for sweep, job in planned
        if (sweep / job.folder).resolve() not in compared
        and state_of(sweep, job).name != DONE
    ]
    is_selected = bool(left_out or selected)
    unfinished = [] if selected else unfinished
    state = SweepState(
        sweeps,
        unfinished,
        len(planned),
        is_selected,
        has_others=bool({*compared} - paths),
    )
    item = replace(item, sweeps=state)
    texts = sorted({*left_out.values()}) if selected else []
    sentences = [f"Selected, because {selected}: {'; '.join(texts)}."] * bool(texts)
    if left_out and not selected:
        item = with_level(item, left_out, LEVEL)
    level = LEVEL
    if any(pair.models.interval is not None for pair in item.claims):
        ropes = {
            name: item.settings.rope_of(name)
            for name in sorted({item.metric, *item.declared})
        }
        missing = [
            job for path, job in jobs.items() if path not in compared and selected
        ]
        look: Look = {
            "data": cell_of(item.rows[0].runs[0]).data,
            "metrics": [*ropes],
            "convention": item.settings.convention.name,
            "baseline": item.settings.baseline
            if item.settings.names_baseline
            else None,
            "ropes": ropes,
            "rows": {row.label: _digest(row, jobs) for row in item.rows},
            "trainings": sorted(
                {word for job in jobs.values() for word in _training(job)}
            ),
            "left_out": sorted(
                " ".join([_row(job), *_training(job)]) for job in missing
            ),
            "declared": declared,
            "time": now(),
        }
        level, about = level_of(
            look, [each for sweep in sweeps for each in read_ledger(sweep)]
        )
        sentences += [about] * bool(about) + [
            text for sweep in sweeps for text in _record(look, sweep)
        ]
    looks = [Remark.of(Kind.LOOK, sentence=sentence) for sentence in sentences]
    return with_level(item, {}, level, looks) if looks else item


def _digest(row: ModelRow, jobs: Mapping[Path, Job]) -> str:
    """Returns a digest of the overrides of a row, without those of the data, and of scores of no sweep."""
    of_runs = [
        (item.scores, jobs.get(item.run.path.resolve())) for item in row.evaluated
    ]
    overrides = {_row(job, without="data") for _, job in of_runs if job is not None}
    others = {
        hashlib.blake2b(scores.tobytes()).hexdigest()
        for scores, job in of_runs
        if job is None
    }
    return digest_of(sorted(overrides | others))


def _left_out(
    item: Comparison, jobs: Mapping[Path, Job], compared: Collection[Path]
) -> dict[str, str]:
    """Returns label of each row without some of its planned trainings -> which of them the table lacks."""
    label_of = {run.path.resolve(): row.label for row in item.rows for run in row.runs}
    rows: dict[str, list[str]] = {}
    for paths in grouped(jobs, lambda path: _row(jobs[path])).values():
        missing = [_training(jobs[path]) for path in paths if path not in compared]
        if missing:
            common = set.intersection(*({*_training(jobs[path])} for path in paths))
            words = [
                ", ".join(word for word in each if word not in common)
                for each in missing
            ]
            text = f"{len(missing)} of {len(paths)} trainings of {{}} ({_shortened(words)})"
            rows.setdefault(text, []).extend(
                label_of[path] for path in paths if path in label_of
            )
    texts = sorted(
        text.format(listed(sorted({*names}))) for text, names in rows.items() if names
    )
    return {
        name: f"the table lacks {' and '.join(texts)}"
        for names in rows.values()
        for name in names
    }


def _training(job: Job) -> list[str]:
    """Returns what distinguishes a training from the others of its row, such as "fold 2" and "seed 1"."""
    values = flatten(job.spec.settings)
    return [
        f"{noun} {values[name]}"
        for name, noun in _NAMES.items()
        if values.get(name) is not None
    ]


def _row(job: Job, without: str = "") -> str:
    """Returns the overrides that the trainings of a row have in common, without those of a part."""
    of_row = [line for line in of_job(job.overrides) if first_word(line) != without]
    names = {line: line.lstrip("+").partition("=")[0] for line in of_row}
    return " ".join(
        sorted(line for line, name in names.items() if name not in (*_NAMES, *_NUMBERS))
    )
