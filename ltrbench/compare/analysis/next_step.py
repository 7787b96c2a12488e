"""What to do next where nothing can be claimed about the methods: the command that would allow a claim.

    resamples      train every model on resamples of the training queries
    more_seeds     train with more seeds, into the folder of the sweep
    _other_folds   train on the folds that were not run

The one that takes the least time is named. Times are estimated from those that the runs recorded.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ltrbench.compare.comparison import Comparison
from ltrbench.compare.grouping import first_by, fold_of, replicate_of, resample_of
from ltrbench.compare.pairing.pairs import Pair
from ltrbench.results import FUSED, IMPORTED, Run
from ltrbench.results.overrides import as_products, quoted
from ltrbench.statistics import FEWEST_REPLICATES
from ltrbench.tables import paragraph
from ltrbench.untrusted.escaping import in_markdown, visible

ENOUGH = 5
"""Replicates that a next step asks for."""

_REPEATED = "multirun/repeated"  # where several commands write to, so that their runs are compared
_OF_A_RESAMPLE = ("replicates", "replicates.number", "replicates.index")
_MASKED = ":***@"  # as `provenance.without_password` leaves it


@dataclass(frozen=True)
class NextStep:
    """
    Attributes:
        command: for a shell; empty where a run was made from Python or its scores were imported.
        seconds: estimated time of the command.
        reason: why nothing can be claimed, and what the command does.
    """

    command: str
    seconds: float
    reason: str

    @property
    def sentence(self) -> str:
        """What stands before the command, with the estimated time."""
        time = f" ({about(self.seconds)})" if self.seconds else ""
        return f"{self.reason}{time}{':' if self.command else '.'}"


def next_step(comparison: Comparison) -> NextStep | None:
    """Returns the cheapest step to a claim about the methods, or about the models trained again.

    None where training was repeated often enough, whatever came out of it; and where the rows have several
    test sets or training sets, or only some of them were trained on resamples.
    """
    queries = comparison.queries
    pairs = [pair for pair in comparison.family if _lacks_replicates(pair)]
    if not pairs or queries is None or len(queries.cells) > 1 or queries.cells[0].train is None:
        return None
    rows = {label: comparison.row(label).runs for label in queries.labels}
    if len({resample_of(runs[0]) is None for runs in rows.values()}) > 1:
        return None
    constant = {
        label
        for label, (trainings,) in zip(queries.labels, queries.trainings, strict=True)
        if trainings.is_constant
    }
    why = "Training was not repeated"
    if all(pair.inference is not None for pair in pairs):
        why = "Some models were trained only twice"
    what = (
        f"{why}. Train every model on {ENOUGH} resamples of the training queries for claims about the methods"
    )
    steps = [_other_folds(list(rows.values()), why), resamples(list(rows.values()), ENOUGH, what)]
    if _seeds_would_do(rows, constant, pairs):
        varied = [runs for label, runs in rows.items() if label not in constant]
        what = f"{why}. Train with {ENOUGH} seeds for claims about the models trained again on these queries"
        steps.append(more_seeds(varied, ENOUGH, what))
    return min((step for step in steps if step is not None), key=lambda step: step.seconds)


def as_note(comparison: Comparison, width: int | None) -> list[str]:
    """The next step as a last note, with the command in a line of its own; nothing where there is none."""
    step = next_step(comparison)
    if step is None:
        return []
    # A viewer that shows no block of code would take markup in the words of a command for its own.
    shown = in_markdown(step.command) if width is None and "<" in step.command else visible(step.command)
    # Six columns make a block of code in a Markdown list.
    command = f"\n\n      {shown}" if shown else ""
    return [paragraph(f"- {step.sentence}", width, "  ") + command]


def in_one_line(comparison: Comparison) -> list[str]:
    """The next step as a note of a notebook's table; nothing where there is none."""
    step = next_step(comparison)
    return [] if step is None else [f"{step.sentence} {step.command}".rstrip()]


def about(seconds: float) -> str:
    """
    >>> about(0.2), about(41.3), about(170), about(7000)
    ('about 1 second', 'about 41 seconds', 'about 3 minutes', 'about 2 hours')
    """
    units = (("hour", 3600), ("minute", 60), ("second", 1))
    unit, size = next((unit for unit in units if seconds >= 1.5 * unit[1]), units[-1])
    count = max(round(seconds / size), 1)
    return f"about {count} {unit}{'s' * (count > 1)}"


def resamples(rows: Sequence[Sequence[Run]], number: int, reason: str) -> NextStep:
    """Returns the step that trains each row on `number` resamples, with one seed a fold.

    Args:
        rows: the runs of each row.
        reason: as in `NextStep`.
    """
    runs = [run for row in rows for run in _one_a_fold(row)]
    jobs = [[*_without(run, _OF_A_RESAMPLE), f"replicates={number}"] for run in runs]
    return _step(runs, jobs, None, number * sum(run.result.total_seconds for run in runs), reason)


def more_seeds(rows: Sequence[Sequence[Run]], number: int, reason: str) -> NextStep:
    """Returns the step to `number` seeds a row: those that it lacks, where one sweep made all runs.

    Elsewhere all of them, into a folder of their own.
    """
    everything = [run for row in rows for run in row]
    folder = _folder_of_sweep(everything)
    seeds = sorted({run.result.seed for run in everything})
    seeds = [*seeds, *range(seeds[-1] + 1, seeds[-1] + 1 + number)][:number]
    wanted = [
        (run, seed)
        for row in rows
        for run in _one_a_fold(row)
        for seed in seeds
        if folder is None or seed not in _seeds_of_fold(row, fold_of(run))
    ]
    jobs = [[*_without(run, ("seed",)), f"seed={seed}"] for run, seed in wanted]
    seconds = sum(run.result.total_seconds for run, _ in wanted)
    return _step(everything, jobs, folder, seconds, reason)


def _other_folds(rows: Sequence[Sequence[Run]], why: str) -> NextStep | None:
    """None where the data set has no other folds."""
    runs = [run for row in rows for run in row]
    (fold,) = {fold_of(run) for run in runs}
    settings = runs[0].result.settings.get("data", {})
    num_folds = settings.get("num_folds") or settings.get("cv")
    if fold is None or num_folds is None or num_folds < 2:
        return None
    # A sweep over folds may hold some of the others already, of some rows.
    has_others = any(len(run.result.swept.get("data.fold", ())) > 1 for run in runs)
    folder = None if has_others else _folder_of_sweep(runs)
    folds = [number for number in range(1, num_folds + 1) if folder is None or number != fold]
    jobs = [[*_without(run, ("data.fold",)), f"data.fold={number}"] for run in runs for number in folds]
    seconds = len(folds) * sum(run.result.total_seconds for run in runs if run.result.reused is None)
    what = f"Train on {'all' if folder is None else 'the other'} folds for claims about the methods"
    return _step(runs, jobs, folder, seconds, f"{why}. {what}")


def _lacks_replicates(pair: Pair) -> bool:
    """Whether training was not repeated, or too seldom for an interval."""
    if pair.inference is None:
        return True
    too_few = any(1 < number < FEWEST_REPLICATES for number in pair.inference.num_replicates)
    return pair.interval is None and too_few


def _seeds_would_do(
    rows: Mapping[str, Sequence[Run]], constant: Iterable[str], pairs: Iterable[Pair]
) -> bool:
    """Whether seeds are known to matter in one model of each pair, and new ones can join the others."""
    repeated = all(len({run.result.seed for run in runs}) > 1 for runs in rows.values())
    resampled = any(resample_of(run) is not None for runs in rows.values() for run in runs)
    matters = all({pair.a, pair.b} - set(constant) for pair in pairs)
    together = _folder_of_sweep([run for runs in rows.values() for run in runs]) is not None
    return repeated and matters and together and not resampled


def _step(
    runs: Sequence[Run], jobs: Iterable[Sequence[str]], folder: str | None, seconds: float, reason: str
) -> NextStep:
    command = _command(runs, jobs, folder)
    if _MASKED in command:
        reason += "; put the password in the place of ***"
    return NextStep(command, seconds, reason)


def _command(runs: Sequence[Run], jobs: Iterable[Sequence[str]], folder: str | None) -> str:
    """The command that runs the jobs; empty where there is none for all of the runs.

    Args:
        folder: of the sweep; None: a new one.
    """
    results = [run.result for run in runs]
    if any(item.overrides is None or item.params in (IMPORTED, FUSED) for item in results):
        return ""
    # A run without --config-dir is the same with it: it adds names only.
    config_dirs = {_config_dir(run) for run in runs} - {None}
    started_in = {item.started_in for item in results}
    if len(started_in) > 1 or len(config_dirs) > 1:
        return ""
    products = as_products(dict.fromkeys(map(tuple, jobs)))
    if len(products) > 1 and folder is None:
        folder = _REPEATED
    flags = [word for path in config_dirs if path is not None for word in ("--config-dir", path)]
    into = [] if folder is None else [f"hydra.sweep.dir={quoted(folder)}"]
    lines = [shlex.join(["python", "-m", "ltrbench", *flags, *product, "-m", *into]) for product in products]
    return " && ".join([*(shlex.join(["cd", place]) for place in started_in if _is_elsewhere(place)), *lines])


def _is_elsewhere(place: str) -> bool:
    """Whether it is a folder, and another than the current one; on another machine it may not be there."""
    return Path(place).is_dir() and not Path(place).samefile(Path.cwd())


def _config_dir(run: Run) -> str | None:
    """The folder that --config-dir added, as Hydra recorded it; None: it added none."""
    settings = run.path / ".hydra" / "hydra.yaml"
    if not settings.is_file():
        return None
    source = r"- path: (.+)\n +schema: file\n +provider: command-line$"
    match = re.search(source, settings.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    return None if match is None else match[1]


def _folder_of_sweep(runs: Sequence[Run]) -> str | None:
    """The folder that the sweep of all runs wrote to and that they still lie in; None: there is none."""
    sweeps = {(run.result.sweep, run.result.started_in) for run in runs}
    ((sweep, started_in), *others) = sweeps
    if others or sweep is None:
        return None
    folder = Path(started_in, sweep).resolve()
    return sweep if all(folder in run.path.resolve().parents for run in runs) else None


def _one_a_fold(runs: Iterable[Run]) -> list[Run]:
    """Of each fold the run of the first resample and seed."""
    in_order = sorted(runs, key=lambda run: (replicate_of(run).resample or 0, run.result.seed))
    return [*first_by(in_order, fold_of).values()]


def _seeds_of_fold(runs: Iterable[Run], fold: int | None) -> set[int]:
    return {run.result.seed for run in runs if fold_of(run) == fold}


def _without(run: Run, keys: Iterable[str]) -> list[str]:
    """The overrides of a run but those of some keys."""
    return [line for line in run.result.overrides or () if line.partition("=")[0].lstrip("+~") not in keys]
