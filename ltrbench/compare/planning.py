"""Power of a comparison, and the next step: the study that a smaller difference needs, and commands.

Power is the minimum detectable difference of a pair, and the numbers that a given difference needs: of
queries alone, or of repeats of a cross-validation, seeds or resamples together. A number is a range, from the
estimated variances to their upper limits. The next step is the command that runs the study.
"""

from __future__ import annotations

import itertools
import math
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ltrbench.compare.cells import (
    PairedQueries,
    Settings,
    Trainings,
    first_by,
    fold_of,
    replicate_of,
    resample_of,
    tuned_once,
)
from ltrbench.errors import require
from ltrbench.metrics import bounds_of
from ltrbench.runs.record import FUSED, IMPORTED, Run, as_products, quoted
from ltrbench.statistics import LEVEL, Design, Inference, PairStatistics, fewest, resampling_factor
from ltrbench.statistics.claims import BETTER, UNDECIDED, WORSE
from ltrbench.statistics.planning import LIMIT, design_of_folds, design_of_replicates
from ltrbench.statistics.repeated import FEWEST_REPLICATES

if TYPE_CHECKING:
    from ltrbench.compare.comparison import Comparison, Pair

QUERIES, REPEATS, SEEDS, RESAMPLES = "queries", "repeats", "seeds", "resamples"

MOST = {REPEATS: 10, SEEDS: 30, RESAMPLES: 20}
"""The largest numbers that a plan considers."""

_NEAR = 1.1
"""If no study is enough, the cheapest one is planned that detects at most this multiple of the smallest
difference that the largest one detects, which may take many times as long."""

_CLEARLY = 0.85
"""A study is planned only if it detects at most this share of the difference that is detectable now: claims
after it are at a lower level, so that a slightly larger study may detect no less."""

_UNLIMITED = 10**6
"""Number of repeats, seeds or resamples that reduces their part of the variance to 0."""

_KNOWN = 10
"""Degrees of freedom from which a variance over trainings can show that more queries are not enough."""


class SweepState(NamedTuple):
    """What the plans of the sweeps of the compared runs say.

    Attributes:
        folders: Folders of the sweeps, absolute.
        unfinished: Folder of the sweep of each job that has not finished.
        num_jobs: Number of all jobs.
        is_selected: Whether planned trainings of the compared rows are left out.
        has_others: Whether runs of other data sets are compared as well.
    """

    folders: Sequence[Path] = ()
    unfinished: Sequence[Path] = ()
    num_jobs: int = 0
    is_selected: bool = False
    has_others: bool = False


@dataclass(frozen=True)
class Need:
    """The number of queries, repeats, seeds or resamples that detects a difference with 80 % power.

    Attributes:
        kind: "queries", "repeats" (of a cross-validation), "seeds" or "resamples" (of the training queries).
        present: The present number.
        low: The number from the estimated variances; None if no number is enough.
        high: The number from the upper limits of the variances (`Design.at_limit`); None if no number is.
        note: Why there is no number; empty if there may be one.
    """

    kind: str
    present: int
    low: int | None
    high: int | None
    note: str = ""

    def __str__(self) -> str:
        """Returns text such as "4 to 9 repeats", or the note.

        >>> print(Need(REPEATS, 1, 4, None), Need(QUERIES, 90, 400, None), sep=", ")
        4 to more than 10 repeats, 400 or more queries
        """
        if self.note:
            return self.note
        if self.kind == QUERIES and self.high is None:
            return f"{self.low:,} or more {self.kind}"
        ends = [f"{end:,}" if end else f"more than {MOST[self.kind]}" for end in (self.low, self.high)]
        return f"{' to '.join(dict.fromkeys(ends))} {self.kind.removesuffix('s' * (ends == ['1', '1']))}"


class PlannedPair(NamedTuple):
    """What the plan of a pair depends on.

    Attributes:
        design: The present study, with the estimated variances.
        level: Level of the pair in a further look at its sweep.
        present_level: Level of the pair in this look.
    """

    design: Design
    level: float
    present_level: float


@dataclass(frozen=True)
class Power:
    """Power of a pair. It follows from the standard error of the difference, not from the difference.

    Attributes:
        detectable: Minimum detectable difference (80 % power) in the scope of the pair, at the level of the
            pair in its family; None if the error is not known, or if the metric cannot differ so much.
        detect: The difference named by the user.
        needs: For `detect`: the queries alone, with everything else unchanged; and the repeats, seeds or
            resamples of the cheapest study on these queries. Empty if none is named, the error is not known,
            or the pair is decided or lacks trainings.
        planned: None if the error is not known.
    """

    detectable: float | None = None
    detect: float | None = None
    needs: tuple[Need, ...] = ()
    planned: PlannedPair | None = None

    @property
    def is_enough(self) -> bool:
        """Whether the present data detect the difference named by the user."""
        return any(need.high is not None and need.high <= need.present for need in self.needs[:1])


def power_of(queries: PairedQueries, pair: Pair, settings: Settings, level: float) -> Power:
    """Returns the power of a pair, from the error that its claim uses.

    Args:
        level: Level of the test of this pair: that of the family, divided by its number of claims.

    Raises:
        ConfigError: `settings.detect` is larger than the metric can differ.
    """
    low, high = bounds_of(settings.guard_of(pair.metric).metric) or (-math.inf, math.inf)
    require(f"detect (in {pair.metric})", settings.detect, at_most=high - low)
    rows = [queries.labels.index(label) for label in (pair.a, pair.b)]
    trainings = [of_cell for row in rows for of_cell in queries.trainings[row]]
    design = _design(trainings, pair.statistics, pair.inference, queries)
    if design is None:
        return Power(None, settings.detect)
    detectable = design.detectable(level=level)
    means = [float(queries.sample.means[row]) for row in rows]
    # How far a mean can be from one of these means.
    largest = max(max(mean - low, high - mean) for mean in means)
    # The study that follows is a further look at the sweep: LEVEL / k becomes LEVEL / (k + 1).
    planned = PlannedPair(design, level / (1 + settings.level / LEVEL), level)
    needs: tuple[Need, ...] = ()
    if settings.detect is not None and pair.claim == UNDECIDED and not pair.withheld:
        # More trainings change nothing in a claim about these trained models.
        study = () if pair.inference is None else _cheapest(queries, [planned], settings.detect).needs
        needs = (queries_needed(planned, settings.detect), *study)
    return Power(detectable if detectable <= largest else None, settings.detect, needs, planned)


def _design(
    trainings: Sequence[Trainings],
    statistics: PairStatistics,
    inference: Inference | None,
    queries: PairedQueries,
) -> Design | None:
    """Returns the design of the experiment; None if the error is not known, or 0, which no study has."""
    if inference is None:
        error, num_queries = statistics.standard_error, statistics.num_queries
        return Design(num_queries, error**2 * num_queries) if error else None
    if not inference.standard_error:
        return None
    resample = trainings[0].resample
    is_over_folds = inference.parts.fold is not None
    number = (
        max(len(of_cell.keys) for of_cell in trainings) if is_over_folds else max(inference.num_replicates)
    )
    correction = 0.0
    if resample is not None:
        correction = resampling_factor(resample["kind"], number, resample["share"]) - 1 / number
    if is_over_folds:
        return design_of_folds(
            inference, queries.test_share or 0.0, number, correction, queries.times_counted
        )
    return design_of_replicates(inference, correction)


def queries_needed(planned: PlannedPair, detect: float) -> Need:
    """Returns the number of queries that detects a difference, with everything else unchanged."""
    design, level, _ = planned

    def number(variances: Design) -> int | None:
        return fewest(lambda queries: replace(variances, num_queries=queries), detect, level=level)

    low, note = number(design), ""
    if low is None and design.training_degrees >= _KNOWN and number(design.at_limit(1 - LIMIT)) is None:
        note = "more queries alone are not enough"
    elif low is None:
        count = f"{design.num_folds} folds" if design.num_folds > 1 else f"{design.num_trainings} trainings"
        note = f"the number of queries cannot be estimated from {count}"
    return Need(QUERIES, design.num_queries, low, number(design.at_limit()), note)


def needs_of(power: Power) -> str:
    """Returns what detects the named difference, such as "4 to 9 repeats x 3 seeds or 2,300 queries"."""
    if power.is_enough:
        return "no more data"
    queries, *study = power.needs
    repeated = " x ".join(map(str, study))
    if queries.note:
        return f"{repeated} ({queries.note})" if repeated else queries.note
    return " or ".join(filter(None, [repeated, str(queries)]))


class _Study(NamedTuple):
    """The cheapest study that detects a difference; if none does, one that detects little more (`_NEAR`).

    Attributes:
        numbers: "repeats", and "seeds" or "resamples", if it can be changed -> its number; empty if no study
            detects clearly less than the present data (`_CLEARLY`).
        needs: One for each that can be changed.
        smallest: The difference that it detects with the estimated variances, and with their upper limits.
        now: The same for the present data, at the level of the present claims.
    """

    numbers: Mapping[str, int]
    needs: tuple[Need, ...]
    smallest: Sequence[float]
    now: Sequence[float]


def _cheapest(queries: PairedQueries, pairs: Sequence[PlannedPair], detect: float) -> _Study:
    """Returns the cheapest study of all rows, with the present trainings, in which each pair detects the
    difference."""
    present = _present(queries)
    ranges = [range(number, max(MOST[kind], number) + 1) for kind, number in present.items()]
    studies = [dict(zip(present, numbers, strict=True)) for numbers in itertools.product(*ranges)]
    studies.sort(key=lambda numbers: (_seconds(queries, numbers), math.prod(numbers.values())))

    def smallest(numbers: Mapping[str, int], pairs: Iterable[PlannedPair]) -> float:
        """Returns the smallest difference that all pairs detect."""
        return max(
            replace(
                design,
                num_folds=design.num_folds * numbers.get(REPEATS, 1) // present.get(REPEATS, 1),
                num_trainings=numbers.get(SEEDS) or numbers.get(RESAMPLES) or design.num_trainings,
            ).detectable(level=level)
            for design, level, _ in pairs
        )

    limits = [pair._replace(design=pair.design.at_limit()) for pair in pairs]
    detected = [(numbers, smallest(numbers, pairs), smallest(numbers, limits)) for numbers in studies]
    low: Mapping[str, int] = next((numbers for numbers, estimate, _ in detected if estimate <= detect), {})
    high: Mapping[str, int] = next((numbers for numbers, _, limit in detected if limit <= detect), {})
    is_possible = smallest(dict.fromkeys(present, _UNLIMITED), pairs) <= detect
    needs = tuple(
        Need(kind, number, low.get(kind), high.get(kind), "" if is_possible else f"no number of {kind}")
        for kind, number in present.items()
    )
    now = [max(design.detectable(level=level) for design, _, level in of) for of in (pairs, limits)]
    largest = detect if high else _NEAR * detected[-1][2]
    clear = (each for each in detected if each[1] <= _CLEARLY * now[0] and each[2] <= largest)
    chosen = next(clear, None)
    return _Study({}, needs, now, now) if chosen is None else _Study(chosen[0], needs, chosen[1:], now)


def _present(queries: PairedQueries) -> dict[str, int]:
    """Returns "repeats", and "seeds" or "resamples", if it can be changed -> the present number.

    Folds can be drawn again if they are those of a random cross-validation. Trainings can be added if there
    are several, because their variance is not known otherwise.
    """
    repeats, present = {cell.repeat for cell in queries.cells}, {}
    if queries.are_folds and None not in repeats:
        present[REPEATS] = len(repeats)
    # The seeds of a yardstick and of imported scores say nothing about the others.
    repeated = [row for row in queries.trainings if not (row[0].is_yardstick or row[0].is_imported)]
    num_trainings = max((len(of_cell.keys) for row in repeated for of_cell in row), default=1)
    is_resampled = any(row[0].resample is not None for row in queries.trainings)
    if num_trainings > 1 and not (queries.are_folds and is_resampled):
        present[RESAMPLES if is_resampled else SEEDS] = num_trainings
    return present


def _seconds(queries: PairedQueries, numbers: Mapping[str, int]) -> float:
    """Returns the time of all trainings with these numbers; 0 if it is not known."""
    times = [
        # A model whose seeds change nothing needs one training on each fold.
        sum(of_cell.seconds for of_cell in row)
        * (1 if row[0].is_constant else numbers.get(SEEDS) or numbers.get(RESAMPLES) or len(row[0].keys))
        for row in queries.trainings
    ]
    num_repeats = len({cell.repeat for cell in queries.cells})
    return sum(times) * numbers.get(REPEATS, num_repeats) / num_repeats if all(times) else 0.0


# ---- Next step: the command of the study that would allow a claim, or decide.
#
# If training was not repeated, it trains every model on resamples of the training queries; or with more
# seeds, each of which tunes again. If pairs are undecided, it extends the present study, in the folder of its
# sweep if all runs are in one. Its time is estimated from the times that the runs recorded.

_NUM_RESAMPLES = 5
_NUM_SEARCHES = FEWEST_REPLICATES  # a search takes as long as all of its trials
START_UP = 10.0  # seconds in which a command starts, and compares and reports at its end
_TO_RESAMPLE = (
    "Training was not repeated often enough for claims about the methods. Train every model on "
    f"{_NUM_RESAMPLES} resamples of the training queries"
)
_TO_TUNE_AGAIN = (
    "Tuning was not repeated. Train and tune with {} seeds for claims that cover the variation between "
    "searches"
)
_REPEATED = "multirun/repeated"  # folder of several commands, so that their runs are compared
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
        folders = [os.path.relpath(folder) for folder in dict.fromkeys(sweeps.unfinished)]
        command = " && ".join(f"python -m ltrbench resume {shlex.quote(folder)}" for folder in folders)
        reason = f"{len(sweeps.unfinished)} of {sweeps.num_jobs} jobs have not run, or failed"
        return NextStep(command, 0.0, reason)
    if sweeps.is_selected:
        return None
    if queries is None or any(cell.train is None for cell in queries.cells):
        return None
    rows = [runs for label in queries.labels if (runs := _trained(comparison.row(label).runs))]
    if not rows:
        return None
    resampled = {resample_of(runs[0]) is not None for runs in rows}
    fixed = {
        label
        for label, (first, *_) in zip(queries.labels, queries.trainings, strict=True)
        if first.is_yardstick or first.is_imported
    }
    undecided = _undecided(comparison)
    known = [pair for pair in undecided if pair.inference is not None and not {pair.a, pair.b} & fixed]
    pairs = [pair.power.planned for pair in known if pair.power.planned is not None]
    detect = comparison.settings.detect or 2 * comparison.settings.rope_of(comparison.metric)
    study = _cheapest(queries, pairs, detect) if pairs else _Study({}, (), (), ())
    if tuned_once(queries) and not any(resampled) and REPEATS not in {need.kind for need in study.needs}:
        # Each seed repeats the search of a tuned row.
        number = max(_NUM_SEARCHES, study.numbers.get(SEEDS, 0))
        seeds = _continued((run.result.seed for runs in rows for run in runs), number)
        seconds = _seconds(queries, {SEEDS: number})
        return _step(rows, {"search.seed"}, {"seed": seeds}, seconds, _TO_TUNE_AGAIN.format(number))
    if any(_lacks_replicates(pair) for pair in comparison.family):
        if len(queries.cells) > 1 or len(resampled) > 1:
            return None
        seconds = _seconds(queries, {RESAMPLES: _NUM_RESAMPLES})
        return _step(rows, _OF_A_RESAMPLE, {"replicates": [_NUM_RESAMPLES]}, seconds, _TO_RESAMPLE)
    if pairs:
        return _extension(comparison, rows, study, known, detect)
    pairs_of = "the undecided pairs of yardsticks, ensembles and imported scores"
    reason = f"No command is planned for {pairs_of}: evaluate them on more queries or folds"
    return NextStep("", 0.0, reason) if undecided else None


def _undecided(comparison: Comparison) -> list[Pair]:
    """Returns the undecided pairs with an interval, of models that are not worse than another one."""
    worse = {pair.b for pair in comparison.family if pair.claim == BETTER}
    worse |= {pair.a for pair in comparison.family if pair.claim == WORSE}
    undecided = [pair for pair in comparison.family if pair.claim == UNDECIDED and pair.interval is not None]
    return [pair for pair in undecided if not {pair.a, pair.b} & worse]


def _extension(
    comparison: Comparison, rows: Sequence[Sequence[Run]], study: _Study, pairs: Sequence[Pair], detect: float
) -> NextStep:
    """Returns the step that extends the present study, with the folder of its sweep if there is one; without
    a command if no study detects clearly less than the present data."""
    queries, numbers, needs = comparison.queries, study.numbers, study.needs
    assert queries is not None  # checked by `next_step`
    which = "; ".join([*(f"{pair.a} and {pair.b}" for pair in pairs[:3]), *["..."] * (len(pairs) > 3)])
    reason = f"{f'{len(pairs)} pairs are' if len(pairs) > 1 else 'One pair is'} undecided ({which})"
    if study.now[0] <= detect:
        why = f"although these data detect {detect:g} with 80 % power; plan for a smaller one with --detect"
        return NextStep("", 0.0, f"{reason}, {why}")
    most = " x ".join(f"{max(MOST[need.kind], need.present)} {need.kind}" for need in needs)
    if detect and any(need.note for need in needs):
        reason += f". No number of {' and '.join(need.kind for need in needs)} detects {detect:g}"
    elif detect and any(need.high is None for need in needs):
        reason += f". Detecting {detect:g} needs more than {most}"
    if not numbers:
        study_of = f"No study of these queries{f' with up to {most}' * bool(most)}"
        remedy = "other or more queries are needed, or a larger difference must be accepted"
        return NextStep("", 0.0, f"{reason}. {study_of} detects clearly less than now: {remedy}")
    size = " x ".join(f"{number} {kind}" for kind, number in numbers.items())
    both = study.smallest, study.now
    new, now = (" to ".join(dict.fromkeys(f"{end:.2g}" for end in ends)) for ends in both)
    power = f"With 80 % power, {size} detect a true difference of {new} instead of {now} now"
    reason += f". {power}; ranges go from the estimate to its upper limit"
    runs, present = [run for of_row in rows for run in of_row], {need.kind: need.present for need in needs}
    folder, added = _sweep_of(runs, comparison.sweeps.folders), dict[str, list[int]]()
    if REPEATS in numbers:
        added["data.split_seed"] = _continued((run.result.repeat or 0 for run in runs), numbers[REPEATS])
    if SEEDS in numbers:
        added["seed"] = _continued((run.result.seed for run in runs), numbers[SEEDS])
    if RESAMPLES in numbers:
        first, last = present[RESAMPLES] + 1 if folder else 1, numbers[RESAMPLES]
        added |= {"replicates": [last], "replicates.index": [*range(first, last + 1)]}
    removed = ["cv_repeats", "replicates.index", *(_OF_A_RESAMPLE if RESAMPLES in numbers else ())]
    seconds = _seconds(queries, numbers) - (_seconds(queries, present) if folder else 0.0)
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
    too_few = any(1 < number < FEWEST_REPLICATES for number in pair.inference.num_replicates)
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
    is_derived = any(item.overrides is None or item.params == IMPORTED for item in results)
    if is_derived or len(started_in) != 1 or len(flags) > 1:
        why = "the commands of all runs, from one folder, are needed"
        if any(result.params == IMPORTED for result in results):
            why = "imported scores have to be made for the new splits, too"
        return NextStep("", 0.0, f"{reason}. There is no command: {why}")
    jobs = [
        (*_without(run, {*removed, *added}), *values)
        for run in firsts
        for values in itertools.product(*([f"{key}={value}" for value in added[key]] for key in added))
    ]
    products = as_products(dict.fromkeys(jobs))
    folder = folder or (_REPEATED if len(products) > 1 else "")
    into = [f"hydra.sweep.dir={quoted(folder)}"] if folder else []
    words = [["python", "-m", "ltrbench", *sum(flags, ()), *product, "-m", *into] for product in products]
    start = Path(started_in.pop())
    if start.is_dir() and not start.samefile(Path.cwd()):
        words.insert(0, ["cd", str(start)])
    return NextStep(" && ".join(map(shlex.join, words)), seconds and seconds + START_UP, reason)


def _trained(runs: Iterable[Run]) -> list[Run]:
    """Returns the runs without fusions, ensembles and variants, which are made again of trained ones."""
    results = ((run, run.result) for run in runs)
    return [run for run, of in results if not (of.ensemble or of.variant or of.params == FUSED)]


def _one_a_fold(runs: Iterable[Run]) -> list[Run]:
    """Returns the run with the first resample and seed of each fold."""
    in_order = sorted(runs, key=lambda run: (replicate_of(run).resample or 0, run.result.seed))
    return [*first_by(in_order, fold_of).values()]


def _without(run: Run, keys: Iterable[str]) -> list[str]:
    """Returns the overrides of a run without these keys."""
    return [line for line in run.result.overrides or () if line.partition("=")[0].lstrip("+~") not in keys]
