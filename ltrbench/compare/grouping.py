"""From runs to tables, rows and cells: which runs may be set side by side, and by which name.

A table holds the runs of one data set with one way of splitting it. Its rows are models; where runs of a
model have different settings, a row is a model with its settings. The runs of a row stand in cells: the
fold, and the fingerprints of what was trained on and evaluated on. Runs of a row in one cell are its
replicates there: they differ in their seed, or in the resample of the training queries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from ltrbench.results import Run

DATA_SPLITS = ("train", "valid", "test")

# Runs of one row differ in their seed, and the folds of a data set in these settings.
_OF_A_REPLICATE = {"seed"}
_OF_A_FOLD = {"fold", "train", "valid", "test"}
# Settings of a data set that describe it to readers, or name its place on a machine.
_NOT_OF_THE_DOCUMENTS = {"_target_", "name", "root", "obtain", "published"}
_WORDS = {"_target_": "class"}

_Item = TypeVar("_Item")
_Key = TypeVar("_Key")


def grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """Key -> its items; keys and items in the order in which they come first."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def first_by(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, _Item]:
    """Key -> the first item with it."""
    return {value: group[0] for value, group in grouped(items, key).items()}


class DataCell(NamedTuple):
    """The data of a run: the data set, the fold, and the fingerprints; None where there is none.

    Of a run on a resample, `train` is the training set that was resampled.
    """

    data: str
    fold: int | None
    train: str | None
    valid: str | None
    test: str | None

    @property
    def fingerprints(self) -> dict[str, str | None]:
        """Split -> fingerprint."""
        return dict(zip(DATA_SPLITS, (self.train, self.valid, self.test), strict=True))

    @property
    def of_test(self) -> DataCell:
        """The same by its test set alone."""
        return self._replace(train=None, valid=None)


class Replicate(NamedTuple):
    """The number of its resample, None for the training set itself; and the seed."""

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
        name: of the data set, with those of its settings that made other cells of it.
        runs: in the order in which they were given.
    """

    name: str
    runs: tuple[Run, ...]

    @cached_property
    def rows(self) -> dict[str, list[Run]]:
        """Row label -> its runs."""
        return runs_by_label(self.runs)

    @cached_property
    def cells(self) -> dict[str, list[DataCell]]:
        """Row label -> the cell of each of its runs."""
        return {label: list(map(cell_of, runs)) for label, runs in self.rows.items()}


def group_runs(runs: Sequence[Run]) -> list[GroupedRuns]:
    """Returns a table for each data set, and for each of its settings that made other cells of it.

    Fingerprints tell tables apart: where every run of a fold saw the same documents there is one table,
    wherever its files were and whatever they were named.
    """
    return [table for data_set in group_by_data_set(runs) for table in _tables_of(data_set)]


def group_by_data_set(runs: Sequence[Run]) -> list[GroupedRuns]:
    """Returns one table for each data set, whatever its settings."""
    return _as_tables(grouped(runs, lambda run: cell_of(run).data))


def _tables_of(data_set: GroupedRuns) -> list[GroupedRuns]:
    words = _settings_of_cells(data_set.runs)
    return _as_tables(grouped(data_set.runs, lambda run: " ".join([data_set.name, *words[cell_of(run)]])))


def _as_tables(runs_of_table: Mapping[str, Sequence[Run]]) -> list[GroupedRuns]:
    return [GroupedRuns(name, tuple(runs)) for name, runs in runs_of_table.items()]


def _settings_of_cells(runs: Sequence[Run]) -> dict[DataCell, list[str]]:
    """Cell -> what names its table beside the data set; nothing where no fold has two cells."""
    first = first_by(runs, cell_of)
    if len({cell.fold for cell in first}) == len(first):
        return {cell: [] for cell in first}
    has_folds = any(cell.fold is not None for cell in first)
    excluded = _NOT_OF_THE_DOCUMENTS | (_OF_A_FOLD if has_folds else set())
    settings = {cell: _settings_of(run, "data", excluded) for cell, run in first.items()}
    rivals = list(settings.values())
    return {cell: [f"data.{word}" for word in _varied(of_cell, rivals)] for cell, of_cell in settings.items()}


def _settings_of(run: Run, part: str, excluded: Collection[str]) -> dict[str, Any]:
    """The settings of the "model" or "data" of a run, each by its full name."""
    settings = run.result.settings.get(part, {})
    return flatten({key: value for key, value in settings.items() if key not in excluded})


def runs_by_label(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Row label -> runs: a model's name, with those of its settings that vary between its runs."""
    settings_of_runs = [_settings_of(run, "model", _OF_A_REPLICATE) | _resample_settings(run) for run in runs]
    kinds = [(run.result.model, run.result.params) for run in runs]
    rows: dict[str, list[Run]] = {}
    for run, settings, kind in zip(runs, settings_of_runs, kinds, strict=True):
        model, params = kind
        params_of_model = {other_params for other, other_params in kinds if other == model}
        names_params = len(params_of_model) > 1 and _has_params(run)
        # Under library parameters every setting differs from the matched ones, which the one word tells.
        # Without it, all runs of the model are told apart by their settings.
        rivals = [
            other_settings
            for other_settings, other in zip(settings_of_runs, kinds, strict=True)
            if other[0] == model and (other == kind or not names_params)
        ]
        words = [f"params={params}"] if names_params else []
        words += _varied(settings, rivals)
        rows.setdefault(" ".join([model, *words]), []).append(run)
    return rows


def _resample_settings(run: Run) -> dict[str, Any]:
    """How training sets were resampled, as a setting of the row: such runs are no repetitions of others."""
    resample = resample_of(run)
    return {} if resample is None else {f"replicates.{key}": value for key, value in resample.items()}


def resample_of(run: Run) -> dict[str, Any] | None:
    """How the training set was resampled, without the number of the resample; None where it was not."""
    resample = run.result.data.get("resample")
    return None if resample is None else {key: resample[key] for key in ("kind", "share", "seed")}


def replicate_of(run: Run) -> Replicate:
    return Replicate(run.result.data.get("resample", {}).get("index"), run.result.seed)


def fold_of(run: Run) -> int | None:
    fold: int | None = run.result.data.get("fold")
    return fold


def _has_params(run: Run) -> bool:
    """Whether a run has parameters to match: not a yardstick's, but scores from elsewhere do."""
    return run.result.best_iteration is not None or not run.result.seconds


def newest_runs(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """Of runs that are one row, cell and replicate the one made last, and a sentence for each such."""
    same: dict[tuple[str, DataCell, Replicate], list[Run]] = {}
    for label, runs_of_row in runs_by_label(runs).items():
        for run in runs_of_row:
            same.setdefault((label, cell_of(run), replicate_of(run)), []).append(run)
    last = {key: max(repeated, key=lambda run: run.result.started) for key, repeated in same.items()}
    notes = [
        f"{label} has {len(repeated)} runs of {replicate} with the same settings on "
        f"{cells_in_words([cell])}: only the last, {last[label, cell, replicate].path}, is counted, and not "
        f"{', '.join(str(run.path) for run in repeated if run is not last[label, cell, replicate])}."
        for (label, cell, replicate), repeated in same.items()
        if len(repeated) > 1
    ]
    kept = {id(run) for run in last.values()}
    return [run for run in runs if id(run) in kept], notes


def _varied(settings: Mapping[str, Any], rivals: Sequence[Mapping[str, Any]]) -> list[str]:
    """`key=value` of those settings that are not the same in all rivals, of which these are one."""
    return [
        f"{_WORDS.get(key, key)}={_first_equal(settings[key], key, rivals)}"
        for key in sorted(settings)
        if any(rival.get(key) != settings[key] for rival in rivals)
    ]


def _first_equal(value: Any, key: str, rivals: Sequence[Mapping[str, Any]]) -> Any:
    """The value as the first of the rivals has it, so that 1 and 1.0 have one name."""
    return next(rival[key] for rival in rivals if key in rival and rival[key] == value)


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings, each by its full name, such as early_stopping.metric."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def cell_of(run: Run) -> DataCell:
    data = run.result.data
    train, valid, test = (data.get(split, {}).get("fingerprint") for split in DATA_SPLITS)
    whole_train = data.get("resample", {}).get("train", train)
    return DataCell(str(data["name"]), data.get("fold"), whole_train, valid, test)


def test_cell_of(run: Run) -> DataCell:
    """The cell by its test set alone, so that runs which were trained on different data can be paired."""
    return cell_of(run).of_test


def cells_in_words(cells: Sequence[DataCell]) -> str:
    folds = [str(cell.fold) for cell in cells if cell.fold is not None]
    if len(folds) == len(cells):
        return f"fold{'s' * (len(folds) > 1)} {', '.join(folds)}"
    return "the test set" if len(cells) == 1 else f"{len(cells)} of the test sets"
