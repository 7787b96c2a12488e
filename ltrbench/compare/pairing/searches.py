"""Searches that chose the settings of tuned rows: their sizes, and notes on unequal budgets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ltrbench.compare.grouping import cell_of, first_by, grouped, is_per_fold, replicate_of
from ltrbench.compare.notes import ON_CLAIMS, Note
from ltrbench.compare.pairing.cells import EvaluatedRow
from ltrbench.results import NO_PARAMETERS, Run
from ltrbench.tables import listed


@dataclass(frozen=True)
class SearchTotals:
    """The searches that chose the settings of a row.

    Attributes:
        name, choose, metric: As in `SearchRecord`.
        space: Setting -> its range in words.
        searches: Number of searches.
        trials: Smallest and largest number of trials of a search.
        failed: Number of failed trials of all searches.
        iterations: Number of iterations fitted in all searches.
        seconds: Time of the fits of all searches.
    """

    name: str
    choose: str
    metric: str
    space: Mapping[str, str]
    searches: int
    trials: tuple[int, int]
    failed: int
    iterations: int
    seconds: float

    @property
    def trials_in_words(self) -> str:
        """Number of trials of a search, such as "16", or "16 to 32" if searches differ."""
        low, high = self.trials
        return f"{low}" if low == high else f"{low} to {high}"


def distinct_searches(runs: Iterable[Run]) -> list[Mapping[str, Any]]:
    """Returns the records of the searches that chose the settings of runs, each once.

    Folds can share a search, and several training seeds as well.
    """
    tuned = [run for run in runs if run.result.search]
    return [run.result.search for run in first_by(tuned, identity_of_search).values()]


def identity_of_search(run: Run) -> tuple[object, ...]:
    """Returns what identifies the search of a run among the runs of a row."""
    search, cell = run.result.search, cell_of(run)
    place = cell if is_per_fold(run) else cell.data
    return place, replicate_of(run).resample, search.get("seed")


def search_totals(row: EvaluatedRow) -> SearchTotals | None:
    """Returns the searches of a row; None if it was not tuned."""
    searches = distinct_searches(row.runs)
    if not searches:
        return None
    first, trials = searches[0], [search.get("trials", 0) for search in searches]
    return SearchTotals(
        name=first.get("name", ""),
        choose=first.get("choose", ""),
        metric=first.get("metric", ""),
        space=first.get("space", {}),
        searches=len(searches),
        trials=(min(trials), max(trials)),
        failed=sum(search.get("failed", 0) for search in searches),
        iterations=sum(search.get("iterations", 0) for search in searches),
        seconds=sum(search.get("seconds", 0.0) for search in searches),
    )


def search_notes(rows: Sequence[EvaluatedRow]) -> Iterator[Note]:
    """Yields the sizes of the searches, and notes on models that were tuned less than others."""
    totals = {row.label: search for row in rows if (search := search_totals(row)) is not None}
    for (name, choose, metric), labels in grouped(
        totals, lambda label: (totals[label].name, totals[label].choose, totals[label].metric)
    ).items():
        sizes = "; ".join(f"{label} ({_size(totals[label])})" for label in labels)
        lead = f"Search {name}, {choose.replace('_', ' ')}, by {metric} on validation"
        yield Note(ON_CLAIMS, "tuning budget", f"{lead}: {sizes}.")
    tuned = [row for row in rows if row.label in totals]
    models = {row.model for row in tuned}
    differences = _differences(totals) if len(models) > 1 else []
    if differences:
        yield Note(
            ON_CLAIMS,
            "tuning budget",
            f"Tuning budgets differ in {'; in '.join(differences)}. A model with more of them has an "
            "advantage: repeat the searches with the same search.trials and search.space.",
        )
    untuned = list(
        dict.fromkeys(row.model for row in rows if row.model not in models and _has_parameters(row))
    )
    if tuned and untuned:
        example = totals[tuned[0].label]
        yield Note(
            ON_CLAIMS,
            "tuning budget",
            f"Tuned: {listed(sorted(models))}; not tuned: {listed(untuned)}, a disadvantage. Tune all by the "
            f"same search (search={example.name} search.trials={example.trials[1]}), or none (search=none).",
        )


def _size(search: SearchTotals) -> str:
    """Returns text such as "6 settings, 5 searches of 16 trials, 18,204 iterations in 61 s of fits"."""
    count = len(search.space)
    trials = f"{search.trials_in_words} trial{'s' * (search.trials[1] != 1)}"
    searches = f"{search.searches} searches of {trials}" if search.searches > 1 else trials
    searches += f" of which {search.failed} failed" if search.failed else ""
    return (
        f"{count} setting{'s' * (count != 1)}, {searches}, {search.iterations:,} iterations in "
        f"{search.seconds:,.{int(search.seconds < 10)}f} s of fits"
    )


def _differences(totals: Mapping[str, SearchTotals]) -> list[str]:
    """Returns in what the searches of several models differ, with the value of each model."""
    trials = {label: search.trials_in_words for label, search in totals.items()}
    counts = {label: str(len(search.space)) for label, search in totals.items()}
    every = dict.fromkeys(name for search in totals.values() for name in search.space)
    partly = [name for name in every if any(name not in search.space for search in totals.values())]
    parts = [f"trials ({_values(trials)})"] if len(set(trials.values())) > 1 else []
    if partly:
        parts.append(f"settings varied ({_values(counts)}; not all vary {listed(partly)})")
    for name in every:
        ranges = {label: search.space[name] for label, search in totals.items() if name in search.space}
        if len(set(ranges.values())) > 1:
            parts.append(f"the range of {name} ({_values(ranges)})")
    return parts


def _values(value_of_label: Mapping[str, str]) -> str:
    return ", ".join(f"{label} {value}" for label, value in value_of_label.items())


def _has_parameters(row: EvaluatedRow) -> bool:
    """Returns whether a row was trained here and has parameters; yardsticks have none."""
    first = row.runs[0].result
    return bool(first.seconds) and first.params != NO_PARAMETERS
