"""The ledger of looks at a sweep, and comparisons of its runs at the level that follows from it.

A look is a comparison that the command line prints, and in which a pair has an interval, so that a claim can
follow. Many looks, in other metrics or with more seeds, lead to a claim by chance. Each look is therefore a
line of looks.jsonl in the folder of the sweep, and the level of the claims falls with their number:

    level = LEVEL / max(k, N)

for k distinct looks so far, and N looks declared in advance (`looks=N`, or `--looks N`). A repeated look is
shown at the present level. Looks without a common scope are different questions, and do not count together.
docs/concepts/statistics.md has the measured rates of false claims.

The pairs of a row carry no claim if the sweep has planned trainings of this row that are not compared: they
failed, have not finished, or were left out. With a reason for the selection, which is printed, they do.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ltrbench.compare.cells import ON_CLAIMS, Note, Settings, flatten, grouped
from ltrbench.compare.comparison import Comparison, compare, with_level
from ltrbench.errors import ResultError
from ltrbench.measure import now
from ltrbench.metrics import DEFAULT
from ltrbench.runs.record import Run, of_job
from ltrbench.statistics import LEVEL
from ltrbench.sweep.plan import Job, read_plan, sweep_id
from ltrbench.tables import listed
from ltrbench.untrusted import read_bytes

LEDGER_FILE = "looks.jsonl"

_NAMES = {"data.fold": "fold", "data.split_seed": "repeat", "replicates.index": "resample", "seed": "seed"}
"""Setting that distinguishes the trainings of a row -> its name in sentences."""

_NUMBERS = ("replicates", "replicates.number")
"""Settings that differ between the trainings of a row if the sweep was extended."""

_MOST_SHOWN = 3
"""Maximum number of other looks, and of trainings, that a sentence lists."""


class Look(TypedDict):
    """A comparison from which claims can follow: a line of the ledger.

    `trainings` has each fold, split seed, resample and seed that the sweep has planned, such as "seed 1".
    `left_out` says in words which trainings were left out for a stated reason. `scopes` does not distinguish
    imported scores.
    """

    metrics: list[str]
    convention: str
    baseline: str | None
    trainings: list[str]
    left_out: list[str]
    scopes: list[str]
    declared: int
    time: str


def _described(look: Look) -> str:
    """Returns a look in words, which are equal for equal looks."""
    counts = Counter(training.partition(" ")[0] for training in look["trainings"])
    factors = " x ".join(f"{count} {name}s" for name, count in counts.items() if count > 1)
    words = [listed(look["metrics"]), f"with {factors or '1 training'}"]
    words += [f"under {look['convention']}"] * (look["convention"] != DEFAULT.name)
    words += [f"against {look['baseline']}"] * (look["baseline"] is not None)
    return " ".join([*words, *(f"({text})" for text in look["left_out"])])


def level_of(look: Look, earlier: Iterable[Look]) -> tuple[float, str]:
    """Returns the level of the claims of a look, and the sentence about it; empty at the level LEVEL.

    Args:
        earlier: The looks in the ledger.
    """
    related = [*(each for each in earlier if {*each["scopes"]} & {*look["scopes"]}), look]
    others = [*dict.fromkeys(map(_described, sorted(related, key=lambda each: each["time"])))]
    number, declared = others.index(_described(look)) + 1, max(each["declared"] for each in related)
    total = max(len(others), declared)
    others.remove(_described(look))
    sentence = (
        f"Look {number} of {total} at these runs (others: {'; '.join(others[-_MOST_SHOWN:]) or 'none yet'}): "
        f"claims are at {100 * LEVEL / total:.2g} % instead of {100 * LEVEL:.2g} %."
    )
    return LEVEL / total, sentence * (total > 1)


def read_ledger(sweep: Path) -> list[Look]:
    """Reads the looks at a sweep; none without a ledger.

    Raises:
        ResultError: A line is damaged.
    """
    path = sweep / LEDGER_FILE
    lines = read_bytes(path).splitlines() if path.exists() else []
    try:
        return [TypeAdapter(Look).validate_json(line) for line in lines]
    except ValidationError as error:
        raise ResultError(f"{path}: {error.errors()[0]['input']!r} is no look. Delete the line.") from None


def _record(look: Look, sweep: Path) -> list[str]:
    """Adds a look to a ledger that lacks it; returns a sentence if the folder cannot be written."""
    try:
        if not any({**each, "time": look["time"]} == look for each in read_ledger(sweep)):
            with (sweep / LEDGER_FILE).open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(look)}\n")
    except OSError as error:
        return [f"This look is not recorded: {sweep} cannot be written ({error.strerror})."]
    return []


def compare_sweeps(
    runs: Sequence[Run], settings: Settings | None = None, declared: int = 1, selected: str = ""
) -> list[Comparison]:
    """Compares runs at the level of the looks at their sweeps; returns one Comparison per data set.

    The ledgers of several sweeps are joined. Runs of no sweep have no ledger.

    Args:
        declared: Number of looks declared in advance.
        selected: Reason why planned trainings are left out; without one, their rows carry no claim.

    Raises:
        ConfigError, ResultError: As `compare`; or a plan or a ledger is damaged.
    """
    comparisons = compare(runs, settings)
    compared = {run.path.resolve() for run in runs if run.result.is_compared and run.held is None}
    sweeps = [*filter(sweep_id, sorted({folder for path in compared for folder in path.parents}))]
    planned = [(sweep, job) for sweep in sweeps for job in read_plan(sweep).jobs.values() if not job.is_trial]
    jobs = {(sweep / job.folder).resolve(): job for sweep, job in planned}
    left_out = [_left_out(item, jobs, compared) for item in comparisons]
    texts = sorted({text for of_data in left_out for text in of_data.values()}) if selected else []
    sentences = [f"Selected, because {selected}: {'; '.join(texts)}."] * bool(texts)
    if any(left_out) and not selected:
        comparisons = [with_level(*each, LEVEL) for each in zip(comparisons, left_out, strict=True)]
    scopes = {pair.scope.partition(",")[0] for item in comparisons for pair in item.claims if pair.interval}
    first, level = comparisons[0], LEVEL
    if scopes:
        look: Look = {
            "metrics": sorted({first.metric, *first.declared}),
            "convention": first.settings.convention.name,
            "baseline": first.settings.baseline if first.settings.names_baseline else None,
            "trainings": sorted({word for job in jobs.values() for word in _training(job)}),
            "left_out": texts,
            "scopes": sorted(scopes),
            "declared": declared,
            "time": now(),
        }
        level, about = level_of(look, [each for sweep in sweeps for each in read_ledger(sweep)])
        sentences += [about] * bool(about) + [text for sweep in sweeps for text in _record(look, sweep)]
    notes = [Note(ON_CLAIMS, "look", sentence) for sentence in sentences]
    return [with_level(item, {}, level, notes) for item in comparisons] if notes else comparisons


def _left_out(item: Comparison, jobs: Mapping[Path, Job], compared: Collection[Path]) -> dict[str, str]:
    """Returns label of a row -> which of its planned trainings are not compared."""
    label_of = {run.path.resolve(): row.label for row in item.rows for run in row.runs}
    rows: dict[str, list[str]] = {}
    for paths in grouped(jobs, lambda path: _row(jobs[path])).values():
        missing = [_training(jobs[path]) for path in paths if path not in compared]
        if missing:
            common = set.intersection(*({*_training(jobs[path])} for path in paths))
            words = [", ".join(word for word in each if word not in common) for each in missing]
            which = "; ".join(words[:_MOST_SHOWN]) + "; ..." * (len(words) > _MOST_SHOWN)
            text = f"the table lacks {len(missing)} of {len(paths)} trainings of {{}} ({which})"
            rows.setdefault(text, []).extend(label_of[path] for path in paths if path in label_of)
    return {name: text.format(listed(sorted({*names}))) for text, names in rows.items() for name in names}


def _training(job: Job) -> list[str]:
    """Returns what distinguishes a training from the others of its row, such as "fold 2" and "seed 1"."""
    values = flatten(job.settings)
    return [f"{noun} {values[name]}" for name, noun in _NAMES.items() if values.get(name) is not None]


def _row(job: Job) -> str:
    """Returns the overrides that the trainings of a row have in common."""
    names = {line: line.lstrip("+").partition("=")[0] for line in of_job(job.overrides)}
    return " ".join(sorted(line for line, name in names.items() if name not in (*_NAMES, *_NUMBERS)))
