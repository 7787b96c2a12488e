"""Runs by table, row and cell: which runs of a comparison are in one row, and on which data.

A table holds the runs on one data set with one set of splits. A row is a model, or a model with its settings
if its runs have different settings. The settings that a search chose distinguish no rows: a tuned row is a
model with its search, whatever setting each fold chose. A cell is a fold with the fingerprints of its
training, validation and test sets. In a repeated cross-validation each fold of each repeat is a cell, and all
of them are in one table. The runs of a row in one cell are its replicates: they differ in the seed, or in the
resample of the training queries.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ltrbench.compare.feature_sets import feature_settings, with_common_data
from ltrbench.compare.remarks import Kind, Remark
from ltrbench.errors import ConfigError
from ltrbench.folders import find_class
from ltrbench.native.objectives.base import yamls
from ltrbench.rankers.base import is_ours
from ltrbench.runs.origin import Imported
from ltrbench.runs.record import Run
from ltrbench.settings import without_effect
from ltrbench.tables import listed

DATA_SPLITS = ("train", "valid", "test")

# Settings that differ between the runs of one row: the seed, and the limit that ends a trial of a search
# early, which a compared run does not have.
_OF_A_REPLICATE = {"seed", "early_stopping.minimum"}
# Settings that differ between the folds of one data set.
_OF_A_FOLD = {"fold", "train", "valid", "test"}
# Settings of a data set that do not change its documents: descriptions and paths.
_NOT_OF_THE_DOCUMENTS = {"_target_", "name", "root", "obtain", "fetch"}
# The value of a setting that a search chose, and of a setting of a search that a run does not have: it
# differs from no other value.
_ANY = object()

_Item = TypeVar("_Item")
_Key = TypeVar("_Key")


def grouped(
    items: Iterable[_Item], key: Callable[[_Item], _Key]
) -> dict[_Key, list[_Item]]:
    """Returns key -> its items, in the order of the items."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def first_by(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, _Item]:
    """Returns key -> its first item."""
    groups = grouped(items, key)
    return {value: group[0] for value, group in groups.items()}


class DataCell(NamedTuple):
    """Data set, fold, fingerprints of the splits, and `RunResult.repeat`; None if not available.

    For a run on a resample, `train` is the training set that was resampled.
    """

    data: str
    fold: int | None
    train: str | None
    valid: str | None
    test: str | None
    repeat: int | None = None

    @property
    def of_test(self) -> DataCell:
        """Returns the cell without its training and validation sets."""
        return self._replace(train=None, valid=None)

    @property
    def fingerprints(self) -> dict[str, str | None]:
        """Fingerprint of each split."""
        fingerprints = (self.train, self.valid, self.test)
        return dict(zip(DATA_SPLITS, fingerprints, strict=True))

    @property
    def words(self) -> str:
        """The fold, such as "fold 1 of data.split_seed=7"; empty without folds."""
        if self.fold is None:
            return ""
        return describe_cells([self])

    @property
    def fold_and_repeat(self) -> tuple[int | None, int | None]:
        """Number of the fold, and its repeat."""
        return self.fold, self.repeat


class Replicate(NamedTuple):
    """Number of the resample, None for the whole training set; and the seed."""

    resample: int | None
    seed: int

    def __str__(self) -> str:
        if self.resample is None:
            return f"seed {self.seed}"
        return f"resample {self.resample} and seed {self.seed}"


def runs_by_table(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Returns name of a table -> its runs: one table per data set, and per setting of its documents.

    Fingerprints decide: runs on the same documents are in one table, whatever the paths and names of the
    files. The repeats of a cross-validation are in one table if all other settings of the data are equal.
    The name is that of the data set, with the settings that distinguish its tables.
    """
    tables: dict[str, list[Run]] = {}
    for data_set, of_data_set in runs_by_data_set(runs).items():
        words = _settings_of_cells(of_data_set)
        for run in of_data_set:
            name = " ".join([data_set, *words[cell_of(run)]])
            tables.setdefault(name, []).append(run)
    return tables


def runs_by_data_set(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Returns name of a data set -> its runs, whatever its settings."""
    return grouped(runs, lambda run: cell_of(run).data)


def _settings_of_cells(runs: Sequence[Run]) -> dict[DataCell, list[str]]:
    """Returns cell -> the settings in the name of its table; no settings if no fold has two cells."""
    first = first_by(runs, cell_of)
    folds = {cell.fold for cell in first}
    # A split without folds is not a further fold.
    is_like_others = None not in folds or len(folds) == 1
    if len(folds) == len(first) and is_like_others:
        return {cell: [] for cell in first}
    settings = {}
    for cell, run in first.items():
        of_a_fold = _OF_A_FOLD if cell.fold is not None else set[str]()
        excluded = of_a_fold if cell.repeat is None else {"fold", "split_seed"}
        settings[cell] = _settings_of(run, "data", _NOT_OF_THE_DOCUMENTS | excluded)
    rivals = list(settings.values())
    words = {}
    for cell, of_cell in settings.items():
        words[cell] = [f"data.{word}" for word in _varied(of_cell, rivals)]
    return words


def _settings_of(run: Run, part: str, excluded: set[str]) -> dict[str, Any]:
    """Returns full name -> value of the settings in the part "model" or "data" of a run."""
    flat = flatten(run.result.settings.get(part, {}))
    kept = {}
    for key, value in flat.items():
        names = {key, key.partition(".")[0]}
        if not names & excluded:
            kept[key] = value
    return kept


def settings_of_model(run: Run) -> dict[str, Any]:
    """Returns full name -> value of the settings of the model of a run, without those of a replicate.

    `objective` is the name of its YAML in conf/model/objective; without one, of its class. The name is found
    by the recorded settings: runs do not record the chosen YAML, and those from Python have none.
    """
    settings = _settings_of(run, "model", _OF_A_REPLICATE)
    searched = run.result.search.get("space", {})
    target = settings.pop("objective._target_", None)
    if target is None:
        return settings
    # Several YAMLs may name one class: the one with the most equal settings is that of the run.
    fixed = settings | dict.fromkeys(searched)
    equal = {}
    for name, of_yaml in yamls().items():
        if of_yaml.get("_target_") == target:
            equal[name] = sum(
                fixed.get(f"objective.{key}") == value for key, value in of_yaml.items()
            )
    return settings | {
        "objective": max(
            equal, key=equal.__getitem__, default=target.rpartition(".")[2]
        )
    }


class Source(NamedTuple):
    """What a row has scores of: a model that was trained here, or an imported one, which may share its name.

    >>> str(Source("native", False)), str(Source("native", True))
    ('native', 'native (imported)')
    """

    model: str
    is_imported: bool

    @classmethod
    def of(cls, run: Run) -> Source:
        """Returns the source of a run. Rows of one source differ in their settings."""
        return cls(run.result.model, isinstance(run.result.origin, Imported))

    def __str__(self) -> str:
        return f"{self.model} (imported)" if self.is_imported else self.model


def runs_by_label(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Returns row label -> runs; a label is the source and the settings that vary between its runs."""
    label_of_run: dict[int, str] = {}
    for source, of_model in grouped(runs, Source.of).items():
        settings = _settings_of_rows(of_model)
        has_several = len({run.result.params for run in of_model}) > 1
        for run, of_run in zip(of_model, settings, strict=True):
            # Library parameters differ from matched ones in every setting, so that `params=` alone is named.
            params = run.result.params if has_several else None
            rivals = []
            for rival, of_rival in zip(of_model, settings, strict=True):
                if params in (None, rival.result.params):
                    rivals.append(of_rival)
            words = [str(source)]
            if params is not None and not source.is_imported:
                words.append(f"params={params}")
            words += _varied(of_run, rivals)
            label_of_run[id(run)] = " ".join(words)
    return grouped(runs, lambda run: label_of_run[id(run)])


def _settings_of_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Returns the settings that distinguish the rows of one model, for each run.

    They are the settings of the model, of its search, and the kind of resampling, so that resampled and other
    runs are different rows.
    """
    swept = set(itertools.chain.from_iterable(run.result.swept for run in runs))
    searches = [_settings_of_search(run, swept) for run in runs]
    keys = set(itertools.chain.from_iterable(searches))
    # An untuned run differs from a tuned one in `search` alone.
    untuned = dict.fromkeys(keys, _ANY)
    if keys:
        untuned["search"] = "none"
    absent = {key: "fixed" if key.startswith("search.space.") else _ANY for key in keys}
    rows = []
    for run, search in zip(runs, searches, strict=True):
        settings = settings_without_search(run)
        # Settings that a search chose differ from no other value.
        for key in run.result.search.get("space", ()):
            settings[key] = _ANY
            settings[f"objective.{key}"] = _ANY
        settings |= absent | search if search else untuned
        rows.append(settings)
    return rows


def settings_without_search(run: Run) -> dict[str, Any]:
    """Returns the settings that distinguish a row from others of its source, without those of its search."""
    settings = settings_of_model(run)
    for key, value in (resample_of(run) or {}).items():
        settings[f"replicates.{key}"] = value
    debias = run.result.data.get("debias")
    if debias is not None:
        settings["debias"] = debias
        # The correction stands for them.
        for key in _settings_of_debiasing(settings):
            settings.pop(key, None)
    for key, value in feature_settings(run).items():
        settings[f"data.{key}"] = value
    return settings


def _settings_of_debiasing(settings: Mapping[str, Any]) -> set[str]:
    """Returns the settings of a model that corrections of clicks set."""
    target = str(settings.get("_target_"))
    if not is_ours(target):
        return set()
    try:
        ranker: Any = find_class(target, object, "model")
    except ConfigError:  # a library that is not installed
        return set()
    return set(itertools.chain.from_iterable(ranker.debiasing.values()))


def _settings_of_search(run: Run, swept: Collection[str]) -> dict[str, Any]:
    """Returns the settings of a search; its budget and seed only if a sweep names them."""
    search = run.result.search
    if not search:
        return {}
    optional = {"seed": search.get("seed"), **search.get("budget", {})}
    settings = {key: search.get(key) for key in ("metric", "choose", "space")}
    for key, value in optional.items():
        is_varied = f"search.{key}" in swept
        if is_varied:
            settings[key] = value
    return {"search": search.get("name"), **flatten(settings, "search.")}


def resample_of(run: Run) -> dict[str, Any] | None:
    """Returns the kind of resampling without the number of the resample; None without resampling."""
    resample = run.result.data.get("resample")
    if resample is None:
        return None
    return {key: resample[key] for key in ("kind", "share", "seed")}


def replicate_of(run: Run) -> Replicate:
    """Returns the resample and the seed of a run."""
    resample = run.result.data.get("resample", {}).get("index")
    return Replicate(resample, run.result.seed)


def is_per_fold(run: Run) -> bool:
    """Returns whether a search chose the settings by the validation set of the run's fold."""
    return run.result.search.get("choose") == "per_fold"


def fold_of(run: Run) -> tuple[int | None, int | None]:
    """Returns the number of the fold, None without folds, and `RunResult.repeat`."""
    return run.result.data.get("fold"), run.result.repeat


def newest_runs(runs: Sequence[Run]) -> tuple[list[Run], list[Remark]]:
    """Returns the run that counts for each row, cell and replicate, the last one, and remarks on others."""

    def place(run: Run) -> tuple[DataCell, Replicate]:
        return cell_of(run), replicate_of(run)

    kept: set[int] = set()
    remarks = []
    for label, of_row in runs_by_label(runs).items():
        for (cell, replicate), repeated in grouped(of_row, place).items():
            last = max(repeated, key=lambda run: run.result.started)
            kept.add(id(last))
            if len(repeated) == 1:
                continue
            ignored = [str(run.path) for run in repeated if run is not last]
            remark = Remark.of(
                Kind.REPEATED_RUNS,
                label=label,
                replicate=str(replicate),
                where=describe_cells([cell]),
                last=str(last.path),
                ignored=ignored,
            )
            remarks.append(remark)
    return [run for run in runs if id(run) in kept], remarks


Rows = dict[str, list[Run]]
"""Row label -> its runs."""


def rows_by_table(runs: Sequence[Run]) -> dict[str, Rows]:
    """Returns name of a table -> its rows, as a comparison of these runs shows them."""
    compared = [run for run in runs if run.result.is_compared]
    newest, _ = newest_runs(with_common_data(compared))
    tables = runs_by_table(newest)
    return {name: runs_by_label(of_table) for name, of_table in tables.items()}


def _varied(
    settings: Mapping[str, Any], rivals: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Returns each setting that differs between the rivals, which include these settings, as `key=value`.

    An objective is named without its key and before its settings, as in `yetirank mode=NDCG`. Next to other
    objectives, its settings that differ from its YAML are named, too; settings without effect never are.
    """
    yaml = yamls().get(str(settings.get("objective")), {})
    of_yaml = flatten(yaml, "objective.")
    compared = list(rivals)
    if any(_loss(rival) != _loss(settings) for rival in rivals):
        compared.append({**settings, **of_yaml})
    names = set[str]()
    for key in settings:
        if any(_differ(key, settings, rival) for rival in compared):
            names.add(key)
    if not names:
        return []
    target = str(of_yaml.get("objective._target_"))
    names -= _without_effect(settings, "", str(settings.get("_target_")))
    names -= _without_effect(settings, "objective.", target)
    words = []
    if any(key.startswith("objective") for key in names):
        words.append(str(settings.get("objective")))
    of_objective = {key for key in names if key.startswith("objective.")}
    others = names - of_objective - {"objective"}
    for key in [*sorted(of_objective), *sorted(others)]:
        name = key.removeprefix("objective.").replace("_target_", "class")
        words.append(f"{name}={settings[key]}")
    return words


def _differ(key: str, settings: Mapping[str, Any], rival: Mapping[str, Any]) -> bool:
    """Returns whether a setting distinguishes a row from a rival."""
    values = settings[key], rival.get(key)
    if _ANY in values or values[0] == values[1]:
        return False
    # The settings of an objective belong to it alone, and others may not apply to it.
    is_apart = key.startswith("objective.") or None in values or "fixed" in values
    if not is_apart or key in ("objective", "loss"):
        return True
    return bool(_loss(settings) == _loss(rival))


def _loss(settings: Mapping[str, Any]) -> Any:
    return settings.get("objective", settings.get("loss"))


def _without_effect(settings: Mapping[str, Any], prefix: str, target: str) -> set[str]:
    """Returns the settings with a prefix that have no effect by the declarations of their class."""
    if not prefix and not is_ours(target):
        return set()
    chosen = {}
    for key, value in settings.items():
        if key.startswith(prefix) and isinstance(value, str):
            # Without the cutoff of a metric.
            chosen[key.removeprefix(prefix)] = value.partition("@")[0]
    try:
        class_ = find_class(target, object, "model")
        unmet = without_effect(class_, chosen, target.split(".")[-2])
    except ConfigError:  # a library that is not installed
        return set()
    return {f"{prefix}{item.name}" for item, *_ in unmet}


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
    train, valid, test = (
        data.get(split, {}).get("fingerprint") for split in DATA_SPLITS
    )
    whole_train = data.get("resample", {}).get("train", train)
    name = str(data["name"])
    fold = data.get("fold")
    return DataCell(name, fold, whole_train, valid, test, run.result.repeat)


def describe_cells(cells: Sequence[DataCell]) -> str:
    """Returns the folds of the cells as text, such as "folds 1, 3", or "the test set".

    >>> describe_cells([DataCell("mine", fold, None, None, None, 7) for fold in (1, 3)])
    'folds 1, 3 of data.split_seed=7'
    """
    if any(cell.fold is None for cell in cells):
        if len(cells) == 1:
            return "the test set"
        return f"{len(cells)} of the test sets"
    words = []
    for repeat, of_repeat in grouped(cells, lambda cell: cell.repeat).items():
        noun = "fold" if len(of_repeat) == 1 else "folds"
        text = f"{noun} {', '.join(str(cell.fold) for cell in of_repeat)}"
        if repeat is not None:
            text += f" of data.split_seed={repeat}"
        words.append(text)
    return listed(words)
