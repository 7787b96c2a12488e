"""Groups runs into tables, rows and cells.

A table holds the runs on one data set with one set of splits. A row is a model, or a model with its settings
if its runs have different settings. The settings that a search chose distinguish no rows: a tuned row is a
model with its search, whatever setting each fold chose. A cell is a fold with the fingerprints of its
training, validation and test sets. The runs of a row in one cell are its replicates: they differ in the seed,
or in the resample of the training queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from ltrbench.errors import ConfigError
from ltrbench.metrics import DEFAULT, Convention, parse_metric
from ltrbench.runs import Run
from ltrbench.statistics import ROPE
from ltrbench.tables import listed

# ---- Notes under the table: each has a group, a term of the glossary, and one sentence.
#
# A note is made where its fact is computed: `Note(ON_COSTS, "threads", "Threads: 2.")`. Its term is a
# heading of ltrbench/glossary.md. `by_group` returns the notes in the order in which every output shows
# them.

ON_CLAIMS, ON_CONVENTIONS, ON_BACKENDS = "Claims", "Conventions", "Differences between backends"
ON_COSTS, ON_DATA = "Costs", "Data and runs"
GROUPS = (ON_CLAIMS, ON_CONVENTIONS, ON_BACKENDS, ON_COSTS, ON_DATA)
"""The headings of the groups, in the order in which they are shown."""


@dataclass(frozen=True)
class Note:
    """A note under the table.

    Attributes:
        group: One of `GROUPS`.
        term: Heading of the glossary entry that explains the note.
        sentence: The note itself, without the subject.
        subject: Label of the model that the note is about; empty if it is about all of them.
    """

    group: str
    term: str
    sentence: str
    subject: str = ""

    def __str__(self) -> str:
        """Returns the note as one line of text, such as "xgboost: min_docs_in_leaf is not applied."."""
        return f"{self.subject}: {self.sentence}" if self.subject else self.sentence


def by_group(notes: Iterable[Note]) -> dict[str, list[Note]]:
    """Returns group -> its notes, without empty groups; notes with one subject and term are joined, and
    equal notes about several subjects as well.

    >>> joined = by_group([Note(ON_DATA, "b", "One.", "native"), Note(ON_CLAIMS, "a", "Two."),
    ...                    Note(ON_DATA, "b", "Three.", "native"), Note(ON_DATA, "c", "Four.", "native"),
    ...                    Note(ON_DATA, "c", "Four.", "random")])
    >>> {group: [str(note) for note in notes] for group, notes in joined.items()}
    {'Claims': ['Two.'], 'Data and runs': ['native: One. Three.', 'native and random: Four.']}
    """
    notes = list(dict.fromkeys(notes))
    groups = {group: [note for note in notes if note.group == group] for group in GROUPS}
    return {group: _joined(of_group) for group, of_group in groups.items() if of_group}


def _joined(notes: Sequence[Note]) -> list[Note]:
    joined: dict[tuple[str, str, str], Note] = {}
    for note in notes:
        # Notes about all models stay apart: they have no subject to be joined under.
        key = (note.subject, note.term, "" if note.subject else note.sentence)
        first = joined.get(key)
        text = note.sentence if first is None else f"{first.sentence} {note.sentence}"
        joined[key] = Note(note.group, note.term, text, note.subject)
    alike: dict[tuple[str, str, bool], list[Note]] = {}
    for note in joined.values():
        alike.setdefault((note.term, note.sentence, bool(note.subject)), []).append(note)
    return [replace(notes[0], subject=listed([note.subject for note in notes])) for notes in alike.values()]


DATA_SPLITS = ("train", "valid", "test")

# Settings that differ between the runs of one row, and between the folds of one data set.
_OF_A_REPLICATE = {"seed"}
# The limit that ends a trial of a search early; a run that is compared has none.
_OF_A_TRIAL = "early_stopping.minimum"
_OF_A_FOLD = {"fold", "train", "valid", "test"}
# Settings of a data set that do not change its documents: descriptions and paths.
_NOT_OF_THE_DOCUMENTS = {"_target_", "name", "root", "obtain", "published", "fetch"}
# `SearchRecord.choose` of a search for each fold.
_PER_FOLD = "per_fold"
_WORDS = {"_target_": "class"}
# The value of a setting that a search chose, and of a setting of a search that a run does not have: it
# differs from no other value.
_ANY = object()

_Item = TypeVar("_Item")
_Key = TypeVar("_Key")


def grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """Returns key -> its items, in the order of the items."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def first_by(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, _Item]:
    """Returns key -> its first item."""
    return {value: group[0] for value, group in grouped(items, key).items()}


class DataCell(NamedTuple):
    """Data set, fold, and fingerprints of the splits; None if not available.

    For a run on a resample, `train` is the training set that was resampled.
    """

    data: str
    fold: int | None
    train: str | None
    valid: str | None
    test: str | None

    @property
    def fingerprints(self) -> dict[str, str | None]:
        """Returns split -> fingerprint."""
        return dict(zip(DATA_SPLITS, (self.train, self.valid, self.test), strict=True))

    @property
    def of_test(self) -> DataCell:
        """Returns the cell without its training and validation sets."""
        return self._replace(train=None, valid=None)


class Replicate(NamedTuple):
    """Number of the resample, None for the whole training set; and the seed."""

    resample: int | None
    seed: int

    def __str__(self) -> str:
        return (
            f"seed {self.seed}" if self.resample is None else f"resample {self.resample} and seed {self.seed}"
        )


@dataclass(frozen=True, eq=False)
class GroupedRuns:
    """The runs of one table.

    Attributes:
        name: Name of the data set, with the settings that distinguish its tables.
        runs: In the order of the input.
    """

    name: str
    runs: tuple[Run, ...]

    @cached_property
    def rows(self) -> dict[str, list[Run]]:
        """Row label -> runs."""
        return runs_by_label(self.runs)

    @cached_property
    def cells(self) -> dict[str, list[DataCell]]:
        """Row label -> the cell of each run."""
        return {label: list(map(cell_of, runs)) for label, runs in self.rows.items()}


def group_runs(runs: Sequence[Run]) -> list[GroupedRuns]:
    """Returns one table per data set, and per setting of the data that changes its documents.

    Fingerprints decide: runs on the same documents are in one table, whatever the paths and names of the
    files.
    """
    return [table for data_set in group_by_data_set(runs) for table in _tables_of(data_set)]


def group_by_data_set(runs: Sequence[Run]) -> list[GroupedRuns]:
    """Returns one table per data set, whatever its settings."""
    return _as_tables(grouped(runs, lambda run: cell_of(run).data))


def _tables_of(data_set: GroupedRuns) -> list[GroupedRuns]:
    words = _settings_of_cells(data_set.runs)
    return _as_tables(grouped(data_set.runs, lambda run: " ".join([data_set.name, *words[cell_of(run)]])))


def _as_tables(runs_of_table: Mapping[str, Sequence[Run]]) -> list[GroupedRuns]:
    return [GroupedRuns(name, tuple(runs)) for name, runs in runs_of_table.items()]


def _settings_of_cells(runs: Sequence[Run]) -> dict[DataCell, list[str]]:
    """Returns cell -> the settings in the name of its table; no settings if no fold has two cells."""
    first = first_by(runs, cell_of)
    if len({cell.fold for cell in first}) == len(first):
        return {cell: [] for cell in first}
    has_folds = any(cell.fold is not None for cell in first)
    excluded = _NOT_OF_THE_DOCUMENTS | (_OF_A_FOLD if has_folds else set())
    settings = {cell: _settings_of(run, "data", excluded) for cell, run in first.items()}
    rivals = list(settings.values())
    return {cell: [f"data.{word}" for word in _varied(of_cell, rivals)] for cell, of_cell in settings.items()}


def _settings_of(run: Run, part: str, excluded: Collection[str]) -> dict[str, Any]:
    """Returns full name -> value of the settings in the part "model" or "data" of a run."""
    settings = run.result.settings.get(part, {})
    return flatten({key: value for key, value in settings.items() if key not in excluded})


def runs_by_label(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Returns row label -> runs; a label is the model's name and the settings that vary between its runs."""
    searches = {
        model: _search_settings(of_model)
        for model, of_model in grouped(runs, lambda run: run.result.model).items()
    }
    settings_of_runs = [
        _model_settings(run) | _resample_settings(run) | searches[run.result.model][id(run)] for run in runs
    ]
    kinds = [(run.result.model, run.result.params) for run in runs]
    rows: dict[str, list[Run]] = {}
    for run, settings, kind in zip(runs, settings_of_runs, kinds, strict=True):
        model, params = kind
        params_of_model = {other_params for other, other_params in kinds if other == model}
        names_params = len(params_of_model) > 1 and _has_params(run)
        # Library parameters differ from matched ones in every setting, so that `params=` alone is named.
        # Without it, the runs of a model are distinguished by their settings.
        rivals = [
            other_settings
            for other_settings, other in zip(settings_of_runs, kinds, strict=True)
            if other[0] == model and (other == kind or not names_params)
        ]
        words = [f"params={params}"] if names_params else []
        words += _varied(settings, rivals)
        rows.setdefault(" ".join([model, *words]), []).append(run)
    return rows


def _model_settings(run: Run) -> dict[str, Any]:
    """Returns the settings of the model; those that a search chose have the value `_ANY`."""
    settings = _settings_of(run, "model", _OF_A_REPLICATE)
    settings.pop(_OF_A_TRIAL, None)
    return settings | dict.fromkeys(run.result.search.get("space", ()), _ANY)


def _search_settings(runs: Sequence[Run]) -> dict[int, dict[str, Any]]:
    """Returns id of a run -> the settings that distinguish its search from others; empty without searches.

    Args:
        runs: All runs of a model.
    """
    swept = {name for run in runs for name in run.result.swept}
    searches = {id(run): _settings_of_search(run, swept) for run in runs}
    keys = {key for settings in searches.values() for key in settings}
    if not keys:
        return searches
    # An untuned run differs from a tuned one in `search` alone.
    untuned = dict.fromkeys(keys, _ANY) | {"search": "none"}
    absent = {key: "fixed" if key.startswith("search.space.") else _ANY for key in keys}
    return {place: absent | settings if settings else untuned for place, settings in searches.items()}


def _settings_of_search(run: Run, swept: Collection[str]) -> dict[str, Any]:
    """Returns the settings of a search; its budget and seed only if a sweep names them."""
    search = run.result.search
    if not search:
        return {}
    optional = {"seed": search.get("seed"), **search.get("budget", {})}
    settings = {key: search.get(key) for key in ("metric", "choose", "space")}
    settings |= {key: value for key, value in optional.items() if f"search.{key}" in swept}
    return {"search": search.get("name"), **flatten(settings, "search.")}


def _resample_settings(run: Run) -> dict[str, Any]:
    """Returns the kind of resampling as settings, so that resampled and other runs are different rows."""
    resample = resample_of(run)
    return {} if resample is None else {f"replicates.{key}": value for key, value in resample.items()}


def resample_of(run: Run) -> dict[str, Any] | None:
    """Returns the kind of resampling without the number of the resample; None without resampling."""
    resample = run.result.data.get("resample")
    return None if resample is None else {key: resample[key] for key in ("kind", "share", "seed")}


def replicate_of(run: Run) -> Replicate:
    """Returns the resample and the seed of a run."""
    return Replicate(run.result.data.get("resample", {}).get("index"), run.result.seed)


def is_per_fold(run: Run) -> bool:
    """Returns whether a search chose the settings by the validation set of the run's own fold."""
    return run.result.search.get("choose") == _PER_FOLD


def fold_of(run: Run) -> int | None:
    """Returns the number of the fold; None without folds."""
    fold: int | None = run.result.data.get("fold")
    return fold


def _has_params(run: Run) -> bool:
    """Returns whether a run has parameters: yardsticks have none, imported scores count as having some."""
    return run.result.best_iteration is not None or not run.result.seconds


def newest_runs(runs: Sequence[Run]) -> tuple[list[Run], list[Note]]:
    """Returns the run that counts for each row, cell and replicate, the last one, and notes on the others."""
    kept: set[int] = set()
    notes = []
    for label, of_row in runs_by_label(runs).items():
        for (cell, replicate), repeated in grouped(
            of_row, lambda run: (cell_of(run), replicate_of(run))
        ).items():
            last = max(repeated, key=lambda run: run.result.started)
            kept.add(id(last))
            ignored = ", ".join(str(run.path) for run in repeated if run is not last)
            if ignored:
                sentence = (
                    f"{label} has {len(repeated)} runs with {replicate} and the same settings on "
                    f"{describe_cells([cell])}: the last one, {last.path}, counts; ignored: {ignored}."
                )
                notes.append(Note(ON_DATA, "repeated runs", sentence))
    return [run for run in runs if id(run) in kept], notes


def _varied(settings: Mapping[str, Any], rivals: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns `key=value` of each setting that differs between the rivals, which include these settings."""
    return [
        f"{_WORDS.get(key, key)}={_first_equal(settings[key], key, rivals)}"
        for key in sorted(settings)
        if any(
            _ANY not in (rival.get(key), settings[key]) and rival.get(key) != settings[key]
            for rival in rivals
        )
    ]


def _first_equal(value: Any, key: str, rivals: Sequence[Mapping[str, Any]]) -> Any:
    """Returns the equal value of the first rival, so that 1 and 1.0 have one name."""
    return next(rival[key] for rival in rivals if key in rival and rival[key] == value)


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested settings by their full names, such as early_stopping.metric."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def cell_of(run: Run) -> DataCell:
    """Returns the cell of a run."""
    data = run.result.data
    train, valid, test = (data.get(split, {}).get("fingerprint") for split in DATA_SPLITS)
    whole_train = data.get("resample", {}).get("train", train)
    return DataCell(str(data["name"]), data.get("fold"), whole_train, valid, test)


def test_cell_of(run: Run) -> DataCell:
    """Returns the cell by its test set alone, so that runs with different training sets can be paired."""
    return cell_of(run).of_test


def describe_cells(cells: Sequence[DataCell]) -> str:
    """Returns the folds of the cells as text, such as "folds 1, 3", or "the test set"."""
    folds = [str(cell.fold) for cell in cells if cell.fold is not None]
    if len(folds) == len(cells):
        return f"fold{'s' * (len(folds) > 1)} {', '.join(folds)}"
    return "the test set" if len(cells) == 1 else f"{len(cells)} of the test sets"


# ---- Settings of a comparison.

BEST = "best"
"""Baseline name for the row with the highest mean. Its intervals are simultaneous over all pairs, because the
same numbers chose it."""


@dataclass(frozen=True)
class Settings:
    """Settings of a comparison.

    Attributes:
        metric: Primary metric, which carries claims; None for the ndcg with the largest cutoff that the runs
            report.
        family: Metrics that carry claims together, corrected for their number; empty for the primary metric
            alone. The first one is the primary metric if `metric` is None.
        baseline: Label of a row, name of a model, or "best"; None for the first row.
        convention: Convention of every metric.
        allow_mismatch: Whether runs on different data or splits may be in one table.
        rope: Half the width of the region of practical equivalence, in units of the metric.
        detect: Difference whose required number of queries, seeds or folds is computed; None for none.
        num_draws: Number of draws of the bootstrap and of the randomisation test.
        seed: Seed of both.
    """

    metric: str | None = None
    family: tuple[str, ...] = ()
    baseline: str | None = None
    convention: Convention = DEFAULT
    allow_mismatch: bool = False
    rope: float = ROPE
    detect: float | None = None
    num_draws: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises ConfigError if a metric is unknown or a number is out of range."""
        for name in (self.metric, *self.family):
            if name is not None:
                parse_metric(name)
        if len(set(self.family)) < len(self.family):
            raise ConfigError(f"the family of metrics is {', '.join(self.family)}; name each metric once.")
        if self.metric is not None and self.family and self.metric not in self.family:
            raise ConfigError(
                f"the family of metrics is {', '.join(self.family)}, without the metric {self.metric} that "
                "carries the claims; add it."
            )
        for name, value in (("rope", self.rope), ("detect", self.detect)):
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(
                    f"{name} is {value}; it must be a difference of the metric above 0, such as 0.005."
                )
        if self.num_draws < 1:
            raise ConfigError(f"the number of draws is {self.num_draws}; it must be at least 1.")
        if self.seed < 0:
            raise ConfigError(f"the seed of the draws is {self.seed}; it must be 0 or more.")

    @property
    def names_baseline(self) -> bool:
        """Whether the baseline is a named row or model, and not "best" or the first row."""
        return self.baseline not in (None, BEST)

    @property
    def claimed_metrics(self) -> tuple[str | None, ...]:
        """The metrics that carry claims, the primary one first; None for the default metric."""
        primary = self.metric or next(iter(self.family), None)
        return (primary, *(name for name in self.family if name != primary))
