"""Next step if there is no claim about the methods: the command that would allow one.

    resamples      train every model on resamples of the training queries
    more_seeds     train with more seeds, into the folder of the sweep; tuned models are tuned again
    _other_folds   train on the remaining folds

The cheapest of these is returned; if models were tuned only once, `more_seeds`. Its time is estimated from
the times that the runs recorded.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ltrbench.compare.analysis.verdict import tuned_once
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.grouping import first_by, fold_of, replicate_of, resample_of
from ltrbench.compare.pairing.pairs import Pair
from ltrbench.compare.pairing.searches import distinct_searches
from ltrbench.results import FUSED, IMPORTED, Run
from ltrbench.results.overrides import as_products, quoted
from ltrbench.statistics import FEWEST_REPLICATES
from ltrbench.tables import paragraph
from ltrbench.untrusted.escaping import in_markdown, visible

ENOUGH = 5
"""Number of replicates after a next step."""

_ENOUGH_SEARCHES = FEWEST_REPLICATES  # a search takes as long as all of its trials
_TUNE_AGAIN = (
    f"Tuning was not repeated. Train and tune with {_ENOUGH_SEARCHES} seeds for claims that cover the "
    "variation between searches"
)

_REPEATED = "multirun/repeated"  # folder of several commands, so that their runs are compared
_OF_A_RESAMPLE = ("replicates", "replicates.number", "replicates.index")
_MASKED = ":***@"  # the form in which `provenance.without_password` writes a password


@dataclass(frozen=True)
class NextStep:
    """A command that would allow a claim.

    Attributes:
        command: Shell command; empty for runs made from Python and for imported scores.
        seconds: Estimated time of the command.
        reason: Why there is no claim about the methods, and what the command does.
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
    """Returns the cheapest step to a claim about the methods, or about the models trained again.

    None if training and tuning were repeated often enough, even if pairs are undecided; also if untuned rows
    have several test or training sets, or only some rows were trained on resamples.
    """
    queries = comparison.queries
    if queries is None or any(cell.train is None for cell in queries.cells):
        return None
    rows = {label: comparison.row(label).runs for label in queries.labels}
    resampled = {resample_of(runs[0]) is not None for runs in rows.values()}
    constant = {
        label
        for label, of_row in zip(queries.labels, queries.trainings, strict=True)
        if all(trainings.is_constant for trainings in of_row)
    }
    if tuned_once(comparison) and not any(resampled):
        # The seed of a search changes its settings, also where the seed of a training changes nothing.
        varied = [runs for label, runs in rows.items() if runs[0].result.search or label not in constant]
        return more_seeds(varied, _ENOUGH_SEARCHES, _TUNE_AGAIN)
    pairs = [pair for pair in comparison.family if _lacks_replicates(pair)]
    if not pairs or len(queries.cells) > 1 or len(resampled) > 1:
        return None
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


def as_paragraphs(comparison: Comparison, width: int | None) -> list[str]:
    """Returns the next step and its command on a line of its own; empty without a next step."""
    step = next_step(comparison)
    if step is None:
        return []
    # Viewers without code blocks would interpret markup in the command.
    shown = in_markdown(step.command) if width is None and "<" in step.command else visible(step.command)
    # Four spaces make a code block in Markdown.
    return [paragraph(step.sentence, width), *([f"    {shown}"] if shown else [])]


def in_one_line(comparison: Comparison) -> list[str]:
    """Returns the next step as a note for a notebook; empty without a next step."""
    step = next_step(comparison)
    return [] if step is None else [f"{step.sentence} {step.command}".rstrip()]


def about(seconds: float) -> str:
    """Returns a duration in words.

    >>> about(0.2), about(41.3), about(170), about(7000)
    ('about 1 second', 'about 41 seconds', 'about 3 minutes', 'about 2 hours')
    """
    units = (("hour", 3600), ("minute", 60), ("second", 1))
    unit, size = next((unit for unit in units if seconds >= 1.5 * unit[1]), units[-1])
    count = max(round(seconds / size), 1)
    return f"about {count} {unit}{'s' * (count > 1)}"


def resamples(rows: Sequence[Sequence[Run]], number: int, reason: str) -> NextStep:
    """Returns the step that trains each row on `number` resamples, with one seed per fold.

    Args:
        rows: Runs of each row.
        reason: As in `NextStep`.
    """
    runs = [run for row in rows for run in _one_a_fold(row)]
    jobs = [[*_without(run, _OF_A_RESAMPLE), f"replicates={number}"] for run in runs]
    return _step(runs, jobs, None, number * sum(_seconds(_one_a_fold(row)) for row in rows), reason)


def more_seeds(rows: Sequence[Sequence[Run]], number: int, reason: str) -> NextStep:
    """Returns the step to `number` seeds per row, each of which repeats the search of a tuned row.

    If one sweep made all runs, only the missing seeds are trained, into its folder; otherwise all of them,
    into a new folder, and also if all seeds of the sweep have one search.
    """
    everything = [run for row in rows for run in row]
    folder = None if any(map(_has_search_of_another_seed, everything)) else _folder_of_sweep(everything)
    seeds = sorted({run.result.seed for run in everything})
    seeds = [*seeds, *range(seeds[-1] + 1, seeds[-1] + 1 + number)][:number]
    wanted = {
        (place, seed): [
            run for run in _one_a_fold(row) if folder is None or seed not in _seeds_of_fold(row, fold_of(run))
        ]
        for place, row in enumerate(rows)
        for seed in seeds
    }
    jobs = [
        [*_without(run, ("seed", "search.seed")), f"seed={seed}"]
        for (_, seed), runs in wanted.items()
        for run in runs
    ]
    return _step(everything, jobs, folder, sum(map(_seconds, wanted.values())), reason)


def _other_folds(rows: Sequence[Sequence[Run]], why: str) -> NextStep | None:
    """Returns the step to all folds; None if the data set has no other folds."""
    runs = [run for row in rows for run in row]
    (fold,) = {fold_of(run) for run in runs}
    settings = runs[0].result.settings.get("data", {})
    num_folds = settings.get("num_folds") or settings.get("cv")
    if fold is None or num_folds is None or num_folds < 2:
        return None
    # A sweep over folds may already hold other folds of some rows.
    has_others = any(len(run.result.swept.get("data.fold", ())) > 1 for run in runs)
    folder = None if has_others else _folder_of_sweep(runs)
    folds = [number for number in range(1, num_folds + 1) if folder is None or number != fold]
    jobs = [[*_without(run, ("data.fold",)), f"data.fold={number}"] for run in runs for number in folds]
    seconds = len(folds) * sum(_seconds([run for run in row if run.result.reused is None]) for row in rows)
    what = f"Train on {'all' if folder is None else 'the other'} folds for claims about the methods"
    return _step(runs, jobs, folder, seconds, f"{why}. {what}")


def _seconds(runs: Sequence[Run]) -> float:
    """Returns the time of runs of one row, and of their searches."""
    searches: float = sum(search.get("seconds", 0.0) for search in distinct_searches(runs))
    return sum(run.result.total_seconds for run in runs) + searches


def _has_search_of_another_seed(run: Run) -> bool:
    """Returns whether the search does not have the seed of the training."""
    search = run.result.search
    return bool(search) and search.get("seed") != run.result.seed


def _lacks_replicates(pair: Pair) -> bool:
    """Returns whether training was not repeated, or not often enough for an interval."""
    if pair.inference is None:
        return True
    too_few = any(1 < number < FEWEST_REPLICATES for number in pair.inference.num_replicates)
    return pair.interval is None and too_few


def _seeds_would_do(
    rows: Mapping[str, Sequence[Run]], constant: Iterable[str], pairs: Iterable[Pair]
) -> bool:
    """Returns whether seeds matter in one model of each pair, and new seeds can join the same sweep."""
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
        reason += "; replace *** by the password"
    return NextStep(command, seconds, reason)


def _command(runs: Sequence[Run], jobs: Iterable[Sequence[str]], folder: str | None) -> str:
    """Returns the command that runs the jobs; empty if a run has no command.

    Args:
        folder: Folder of the sweep; None for a new one.
    """
    results = [run.result for run in runs]
    if any(item.overrides is None or item.params in (IMPORTED, FUSED) for item in results):
        return ""
    # --config-dir only adds names, so that runs without it are unchanged.
    flags_of_runs = {tuple(run.result.flags) for run in runs} - {()}
    started_in = {item.started_in for item in results}
    if len(started_in) > 1 or len(flags_of_runs) > 1:
        return ""
    products = as_products(dict.fromkeys(map(tuple, jobs)))
    if len(products) > 1 and folder is None:
        folder = _REPEATED
    flags = [flag for flags in flags_of_runs for flag in flags]
    into = [] if folder is None else [f"hydra.sweep.dir={quoted(folder)}"]
    lines = [shlex.join(["python", "-m", "ltrbench", *flags, *product, "-m", *into]) for product in products]
    return " && ".join([*(shlex.join(["cd", place]) for place in started_in if _is_elsewhere(place)), *lines])


def _is_elsewhere(place: str) -> bool:
    """Returns whether it is a folder on this machine, and not the current one."""
    return Path(place).is_dir() and not Path(place).samefile(Path.cwd())


def _folder_of_sweep(runs: Sequence[Run]) -> str | None:
    """Returns the folder of the sweep if one sweep made all runs and they are still in it; otherwise None."""
    sweeps = {(run.result.sweep, run.result.started_in) for run in runs}
    ((sweep, started_in), *others) = sweeps
    if others or sweep is None:
        return None
    folder = Path(started_in, sweep).resolve()
    return sweep if all(folder in run.path.resolve().parents for run in runs) else None


def _one_a_fold(runs: Iterable[Run]) -> list[Run]:
    """Returns the run with the first resample and seed of each fold."""
    in_order = sorted(runs, key=lambda run: (replicate_of(run).resample or 0, run.result.seed))
    return [*first_by(in_order, fold_of).values()]


def _seeds_of_fold(runs: Iterable[Run], fold: int | None) -> set[int]:
    return {run.result.seed for run in runs if fold_of(run) == fold}


def _without(run: Run, keys: Iterable[str]) -> list[str]:
    """Returns the overrides of a run without some keys."""
    return [line for line in run.result.overrides or () if line.partition("=")[0].lstrip("+~") not in keys]
