"""The next step: the command of the study that would allow a claim, or decide."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ltrbench.compare.cells import (
    first_by,
    fold_of,
    replicate_of,
    resample_of,
    tuned_once,
)
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.pairs import Pair
from ltrbench.compare.power import MOST, REPEATS, RESAMPLES, SEEDS
from ltrbench.compare.studies import Study, cheapest, seconds_of
from ltrbench.runs.record import FUSED, IMPORTED, Run, as_products, quoted
from ltrbench.statistics.claims import BETTER, UNDECIDED, WORSE
from ltrbench.statistics.repeated import FEWEST_REPLICATES

# ---- Next step: the command of the study that would allow a claim, or decide.
#
# If training was not repeated, it trains every model on resamples of the training queries; or with more
# seeds, each of which tunes again. If pairs are undecided, it extends the present study, in the folder of its
# sweep if all runs are in one. Its time is estimated from the times that the runs recorded.

_NUM_RESAMPLES = 5
_NUM_SEARCHES = FEWEST_REPLICATES  # a search takes as long as all of its trials
START_UP = (
    10.0  # seconds in which a command starts, and compares and reports at its end
)
_TO_RESAMPLE = (
    "Training was not repeated often enough for claims about the methods. Train every model on "
    f"{_NUM_RESAMPLES} resamples of the training queries"
)
_TO_TUNE_AGAIN = (
    "Tuning was not repeated. Train and tune with {} seeds for claims that cover the variation between "
    "searches"
)
_REPEATED = (
    "multirun/repeated"  # folder of several commands, so that their runs are compared
)
_OF_A_RESAMPLE = ("replicates", "replicates.number", "replicates.index")


@dataclass(frozen=True)
class NextStep:
    """A command that would allow a claim.

    Attributes:
        command: Shell command; empty if there is none, such as for runs made from Python.
        seconds: Estimated time of the command; 0 if it is not known.
        reason: Why there is no claim about the methods, and what the command does, or why there is none.
    """

    command: str
    seconds: float
    reason: str

    @property
    def sentence(self) -> str:
        """The reason with the estimated time, to be followed by the command."""
        time = f" ({about(self.seconds)})" if self.seconds else ""
        return f"{self.reason}{time}{':' if self.command else '.'}"


def next_step(comparison: Comparison) -> NextStep | None:
    """Returns the step to a claim about the methods, or to a decision between models.

    A sweep that has not finished is finished first. None if training and tuning were repeated often enough,
    and all pairs are decided of models that are not worse than another one; or if planned trainings are left
    out. Also if untuned rows have several test or training sets and no interval, or only some rows were
    trained on resamples.
    """
    queries, sweeps = comparison.queries, comparison.sweeps
    if sweeps.unfinished:
        folders = [
            os.path.relpath(folder) for folder in dict.fromkeys(sweeps.unfinished)
        ]
        command = " && ".join(
            f"python -m ltrbench resume {shlex.quote(folder)}" for folder in folders
        )
        reason = f"{len(sweeps.unfinished)} of {sweeps.num_jobs} jobs have not run, or failed"
        return NextStep(command, 0.0, reason)
    if sweeps.is_selected:
        return None
    if queries is None or any(cell.train is None for cell in queries.cells):
        return None
    rows = [
        runs
        for label in queries.labels
        if (runs := _trained(comparison.row(label).runs))
    ]
    if not rows:
        return None
    resampled = {resample_of(runs[0]) is not None for runs in rows}
    fixed = {
        label
        for label, (first, *_) in zip(queries.labels, queries.trainings, strict=True)
        if first.is_yardstick or first.is_imported
    }
    undecided = _undecided(comparison)
    known = [
        pair
        for pair in undecided
        if pair.inference is not None and not {pair.a, pair.b} & fixed
    ]
    pairs = [pair.power.planned for pair in known if pair.power.planned is not None]
    detect = comparison.settings.detect or 2 * comparison.settings.rope_of(
        comparison.metric
    )
    study = cheapest(queries, pairs, detect) if pairs else Study({}, (), (), ())
    if (
        tuned_once(queries)
        and not any(resampled)
        and REPEATS not in {need.kind for need in study.needs}
    ):
        # Each seed repeats the search of a tuned row.
        number = max(_NUM_SEARCHES, study.numbers.get(SEEDS, 0))
        seeds = _continued((run.result.seed for runs in rows for run in runs), number)
        seconds = seconds_of(queries, {SEEDS: number})
        return _step(
            rows,
            {"search.seed"},
            {"seed": seeds},
            seconds,
            _TO_TUNE_AGAIN.format(number),
        )
    if any(_lacks_replicates(pair) for pair in comparison.family):
        if len(queries.cells) > 1 or len(resampled) > 1:
            return None
        seconds = seconds_of(queries, {RESAMPLES: _NUM_RESAMPLES})
        return _step(
            rows,
            _OF_A_RESAMPLE,
            {"replicates": [_NUM_RESAMPLES]},
            seconds,
            _TO_RESAMPLE,
        )
    if pairs:
        return _extension(comparison, rows, study, known, detect)
    pairs_of = "the undecided pairs of yardsticks, ensembles and imported scores"
    reason = (
        f"No command is planned for {pairs_of}: evaluate them on more queries or folds"
    )
    return NextStep("", 0.0, reason) if undecided else None


def _undecided(comparison: Comparison) -> list[Pair]:
    """Returns the undecided pairs with an interval, of models that are not worse than another one."""
    worse = {pair.b for pair in comparison.family if pair.claim == BETTER}
    worse |= {pair.a for pair in comparison.family if pair.claim == WORSE}
    undecided = [
        pair
        for pair in comparison.family
        if pair.claim == UNDECIDED and pair.interval is not None
    ]
    return [pair for pair in undecided if not {pair.a, pair.b} & worse]


def _extension(
    comparison: Comparison,
    rows: Sequence[Sequence[Run]],
    study: Study,
    pairs: Sequence[Pair],
    detect: float,
) -> NextStep:
    """Returns the step that extends the present study, with the folder of its sweep if there is one; without
    a command if no study detects clearly less than the present data."""
    queries, numbers, needs = comparison.queries, study.numbers, study.needs
    assert queries is not None  # checked by `next_step`
    which = "; ".join(
        [*(f"{pair.a} and {pair.b}" for pair in pairs[:3]), *["..."] * (len(pairs) > 3)]
    )
    reason = f"{f'{len(pairs)} pairs are' if len(pairs) > 1 else 'One pair is'} undecided ({which})"
    if study.now[0] <= detect:
        why = f"although these data detect {detect:g} with 80 % power; plan for a smaller one with --detect"
        return NextStep("", 0.0, f"{reason}, {why}")
    most = " x ".join(
        f"{max(MOST[need.kind], need.present)} {need.kind}" for need in needs
    )
    if detect and any(need.note for need in needs):
        reason += f". No number of {' and '.join(need.kind for need in needs)} detects {detect:g}"
    elif detect and any(need.high is None for need in needs):
        reason += f". Detecting {detect:g} needs more than {most}"
    if not numbers:
        study_of = f"No study of these queries{f' with up to {most}' * bool(most)}"
        remedy = (
            "other or more queries are needed, or a larger difference must be accepted"
        )
        return NextStep(
            "", 0.0, f"{reason}. {study_of} detects clearly less than now: {remedy}"
        )
    size = " x ".join(f"{number} {kind}" for kind, number in numbers.items())
    both = study.smallest, study.now
    new, now = (
        " to ".join(dict.fromkeys(f"{end:.2g}" for end in ends)) for ends in both
    )
    power = f"With 80 % power, {size} detect a true difference of {new} instead of {now} now"
    reason += f". {power}; ranges go from the estimate to its upper limit"
    runs, present = (
        [run for of_row in rows for run in of_row],
        {need.kind: need.present for need in needs},
    )
    folder, added = _sweep_of(runs, comparison.sweeps.folders), dict[str, list[int]]()
    if REPEATS in numbers:
        added["data.split_seed"] = _continued(
            (run.result.repeat or 0 for run in runs), numbers[REPEATS]
        )
    if SEEDS in numbers:
        added["seed"] = _continued((run.result.seed for run in runs), numbers[SEEDS])
    if RESAMPLES in numbers:
        first, last = present[RESAMPLES] + 1 if folder else 1, numbers[RESAMPLES]
        added |= {"replicates": [last], "replicates.index": [*range(first, last + 1)]}
    removed = [
        "cv_repeats",
        "replicates.index",
        *(_OF_A_RESAMPLE if RESAMPLES in numbers else ()),
    ]
    seconds = seconds_of(queries, numbers) - (
        seconds_of(queries, present) if folder else 0.0
    )
    return _step(rows, removed, added, seconds, reason, folder)


def _continued(present: Iterable[int], number: int) -> list[int]:
    """Returns the first seeds in order, continued to a number of them.

    >>> _continued([4, 2], 4), _continued([4, 2], 1)
    ([2, 4, 5, 6], [2])
    """
    seeds = sorted({*present})
    return [*seeds, *range(seeds[-1] + 1, seeds[-1] + 1 + number)][:number]


def _sweep_of(runs: Sequence[Run], sweeps: Sequence[Path]) -> str:
    """Returns the folder of the sweep of all runs; empty if they are not in one.

    It is named as in the command of the sweep, unless it was moved since then.
    """
    sweep = runs[0].result.sweep or ""
    recorded = Path(runs[0].result.started_in, sweep).resolve()
    for folder in (*sweeps, recorded):
        if all(folder in run.path.resolve().parents for run in runs):
            return sweep if folder == recorded else str(folder)
    return ""


def about(seconds: float) -> str:
    """Returns a duration in words.

    >>> about(0.2), about(41.3), about(170), about(7000)
    ('about 1 second', 'about 41 seconds', 'about 3 minutes', 'about 2 hours')
    """
    units = (("hour", 3600), ("minute", 60), ("second", 1))
    unit, size = next((unit for unit in units if seconds >= 1.5 * unit[1]), units[-1])
    count = max(round(seconds / size), 1)
    return f"about {count} {unit}{'s' * (count > 1)}"


def _lacks_replicates(pair: Pair) -> bool:
    """Returns whether training was not repeated, or not often enough for an interval."""
    if pair.inference is None:
        return True
    too_few = any(
        1 < number < FEWEST_REPLICATES for number in pair.inference.num_replicates
    )
    return pair.interval is None and too_few


def _step(
    rows: Sequence[Sequence[Run]],
    removed: Iterable[str],
    added: Mapping[str, Sequence[int]],
    seconds: float,
    reason: str,
    folder: str = "",
) -> NextStep:
    """Returns the step that trains the rows with other overrides; without a command if a run has none.

    Args:
        removed: Names of overrides to leave out.
        added: Name of an override -> its values, each with each of the others.
        folder: Folder of the sweep; empty for a new one.
    """
    firsts = [run for runs in rows for run in _one_a_fold(runs)]
    results = [run.result for run in firsts]
    # --config-dir only adds names, so that runs without it are unchanged.
    flags = {tuple(result.flags) for result in results} - {()}
    started_in = {result.started_in for result in results}
    is_derived = any(
        item.overrides is None or item.params == IMPORTED for item in results
    )
    if is_derived or len(started_in) != 1 or len(flags) > 1:
        why = "the commands of all runs, from one folder, are needed"
        if any(result.params == IMPORTED for result in results):
            why = "imported scores have to be made for the new splits, too"
        return NextStep("", 0.0, f"{reason}. There is no command: {why}")
    jobs = [
        (*_without(run, {*removed, *added}), *values)
        for run in firsts
        for values in itertools.product(
            *([f"{key}={value}" for value in added[key]] for key in added)
        )
    ]
    products = as_products(dict.fromkeys(jobs))
    folder = folder or (_REPEATED if len(products) > 1 else "")
    into = [f"hydra.sweep.dir={quoted(folder)}"] if folder else []
    words = [
        ["python", "-m", "ltrbench", *sum(flags, ()), *product, "-m", *into]
        for product in products
    ]
    start = Path(started_in.pop())
    if start.is_dir() and not start.samefile(Path.cwd()):
        words.insert(0, ["cd", str(start)])
    return NextStep(
        " && ".join(map(shlex.join, words)), seconds and seconds + START_UP, reason
    )


def _trained(runs: Iterable[Run]) -> list[Run]:
    """Returns the runs without fusions, ensembles and variants, which are made again of trained ones."""
    results = ((run, run.result) for run in runs)
    return [
        run
        for run, of in results
        if not (of.ensemble or of.variant or of.params == FUSED)
    ]


def _one_a_fold(runs: Iterable[Run]) -> list[Run]:
    """Returns the run with the first resample and seed of each fold."""
    in_order = sorted(
        runs, key=lambda run: (replicate_of(run).resample or 0, run.result.seed)
    )
    return [*first_by(in_order, fold_of).values()]


def _without(run: Run, keys: Iterable[str]) -> list[str]:
    """Returns the overrides of a run without these keys."""
    return [
        line
        for line in run.result.overrides or ()
        if line.partition("=")[0].lstrip("+~") not in keys
    ]
