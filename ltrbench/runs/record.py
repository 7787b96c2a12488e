"""The fields of result.json and their types; a run in memory; finds runs in folders and reads them.

`FORMAT` is the version of the format of a run folder; a reader refuses any other.
"""

from __future__ import annotations

import contextlib
import logging
import math
import operator
import os
import re
import reprlib
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from typing_extensions import TypedDict

from ltrbench.data import Judgments
from ltrbench.data.dataset import QueryKeys, Unjudged
from ltrbench.data.impressions import Impressions, impressions_of
from ltrbench.data.splits import KINDS
from ltrbench.errors import DamagedRunError, DataError, ResultError
from ltrbench.folders import DISK_REMEDIES
from ltrbench.measure import available_cores
from ltrbench.metrics import evaluate
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import load_ranker
from ltrbench.rankers.importance import MOST_LISTED, Importances, averaged
from ltrbench.runs.origin import Ensemble, Final, Origin, Trained, Trial, origin_of
from ltrbench.shapes import Features
from ltrbench.tables import Table, format_number, one_line
from ltrbench.untrusted import (
    Amount,
    Count,
    Name,
    RunTable,
    load_npz,
    read_json,
    read_run_table,
    types_of,
    validation_error,
)

log = logging.getLogger("ltrbench")

# ---- Overrides in the syntax of the command line: combines the overrides of many jobs into few commands.

Overrides = tuple[str, ...]


def as_products(jobs: Iterable[Sequence[str]]) -> list[list[str]]:
    """Returns few lists of overrides that together sweep over exactly these distinct jobs.

    >>> as_products([["model=a", "seed=1"], ["model=a", "seed=2"], ["model=c", "seed=1"], ["model=b"]])
    [['model=a', 'seed=1,2'], ['model=c', 'seed=1'], ['model=b']]
    """
    of_keys: dict[Overrides, list[Overrides]] = {}
    for job in jobs:
        parts = [override.partition("=") for override in job]
        keys = tuple(f"{key}{equals}" for key, equals, _ in parts)
        values_of_job = tuple(value for _, _, value in parts)
        of_keys.setdefault(keys, []).append(values_of_job)
    products: list[list[str]] = []
    for keys, rows in of_keys.items():
        # Rows that differ in one column only are one row with the list of its values.
        for column in reversed(range(len(keys))):
            values: dict[tuple[Overrides, Overrides], list[str]] = {}
            for row in rows:
                others = (row[:column], row[column + 1 :])
                values.setdefault(others, []).append(row[column])
            rows = []
            for (before, after), each in values.items():
                rows.append((*before, ",".join(each), *after))
        products += [list(map(operator.add, keys, row)) for row in rows]
    return products


def quoted(text: str) -> str:
    """Returns a value quoted for Hydra's grammar, if it needs quotes."""
    if re.fullmatch(r"[\w./:-]+", text, re.ASCII):
        return text
    return in_quotes(text)


def in_quotes(text: str) -> str:
    """Returns a text in quotes of Hydra's grammar, in which it is no number."""
    return "'" + text.replace("'", r"\'") + "'"


# ---- Names of the files in the folder of a run.

RESULT_FILE = "result.json"
SCORES_FILE = "scores.npz"
PER_QUERY_FILE = "per_query.csv"
CURVE_FILE = "learning_curve.csv"
IMPORTANCES_FILE = "importances.csv"
EXAMPLE_FILE = "input_example.csv"
TRIALS_FILE = "trials.csv"
KEPT = "kept/"
"""Prefix of the names of kept columns and categorical features in SCORES_FILE."""
UNJUDGED = "unjudged/"
"""Prefix of the names of the fields of `Unjudged` in SCORES_FILE."""
IMPRESSIONS = "impressions/"
"""Prefix of the names of the columns of `Impressions` in SCORES_FILE."""
MODEL_FOLDER = "model"
RUN_FILES = (
    MODEL_FOLDER,
    SCORES_FILE,
    PER_QUERY_FILE,
    CURVE_FILE,
    IMPORTANCES_FILE,
    EXAMPLE_FILE,
    TRIALS_FILE,
    RESULT_FILE,
)
"""Files of a run, in the order in which they are moved to its folder."""

RUN_REMEDY = "Run it again, or copy its folder again from its source"
"""Remedy for a file of a run that cannot be read."""

FORMAT = 1
FINISHED = "finished"
FAILED = "failed"
INTERRUPTED = "interrupted"
"""`RunResult.error` of a run that Ctrl-C or SIGTERM ended; it may simply run again."""
OWN = "own"
NO_PARAMETERS = "none"
"""`RunResult.params` of a ranker without shared parameters; and of a baseline (`Ranker.is_yardstick`) and of
imported and fused scores."""
TREES = "trees"
"""Unit of the iterations of a model of trees, one each (`RunResult.unit_of_iterations`)."""

TIMES = {
    "load": "load",
    "warm_up": "warm-up",
    "fit": "fit",
    "monitor": "evaluation",
    "fit_clean": "clean fit",
    "predict": "predict",
    "importances": "importances",
}
"""Kind of time in `RunResult.seconds` -> its name in every table."""


class SplitRecord(TypedDict, total=False):
    """A split of the data in `RunResult.data`."""

    fingerprint: Required[Name]
    queries: Count
    documents: Count
    features: Count
    queries_without_relevant_document: Amount
    queries_with_one_document: Count
    queries_with_equal_labels: Count
    span: Sequence[str]
    feature_names: Sequence[str]
    first_feature: Literal[0, 1]
    has_missing_values: bool


class ResampleRecord(TypedDict):
    """The resample of the training queries that a run trained on.

    Attributes:
        kind: "bootstrap" or "subsample".
        share: queries drawn, as a share of the training queries; 1 for a bootstrap.
        number: number of resamples.
        index: number of this resample, counted from one.
        seed: seed that draws the queries.
        train: fingerprint of the whole training set, before resampling.
        queries: number of queries of the whole training set.
    """

    kind: Literal[*KINDS]  # type: ignore[valid-type]
    share: Annotated[float, Field(gt=0, le=1)]
    number: Count
    index: Count
    seed: int
    train: Name
    queries: Count


class DataRecord(TypedDict, total=False):
    """`RunResult.data`.

    Attributes:
        leaks_from: model of `warm_start`, of this run or of the one it started from, that may have learned
            from validation or test queries; absent without one.
    """

    name: Name
    leaks_from: str
    fold: int | None
    rule: str
    reading: Mapping[str, Any]
    debias: str
    resample: ResampleRecord
    train: SplitRecord
    valid: SplitRecord
    test: SplitRecord


class SearchRecord(TypedDict):
    """`RunResult.search`: the search that chose the settings of a run.

    Attributes:
        name: name of its YAML in conf/search.
        seed: random seed of the search.
        metric: metric on validation.
        choose: per_fold, overall or across, as in `ltrbench.search.Search`.
        budget: the settings of the search without space, seed, metric and choose, such as "trials".
        space: setting -> its range in words, for the settings that the model could vary.
        trials: number of trials.
        failed: number of trials that failed, among which the search could not choose.
        iterations: number of iterations fitted in all trials.
        seconds: time of the fits of all trials.
        chosen: number of the trial with the highest value.
        settings: setting -> its value in that trial.
        default: setting -> its value without the search.
        importance: setting -> share of the variance of the value that it explains; empty if unknown.
    """

    name: Name
    seed: int
    metric: Name
    choose: str
    budget: Mapping[str, Any]
    space: Mapping[str, str]
    trials: Count
    failed: Count
    iterations: Count
    seconds: Amount
    chosen: Count
    settings: Mapping[str, Any]
    default: Mapping[str, Any]
    importance: Mapping[str, Amount]


RankerRecord = TypedDict("RankerRecord", {"class": Name, "fields": Mapping[str, Any]})
"""`RunResult.ranker` and `RunResult.source`; only the fields that ltrbench reads."""


Moment = Annotated[str, Field(pattern=r"^$|^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$")]
"""A date and time with a time zone, or an empty text."""
Status = Annotated[str, Field(pattern=f"^({FINISHED}|{FAILED})$")]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The settings and results of a run, stored as result.json.

    `read_run` refuses a file whose fields do not have these types.

    Attributes:
        status: "finished" or "failed".
        model: name of its YAML in conf/model.
        ranker: "class", in the form of a YAML's `_target_`, and "fields", the settings of the fit. Empty if
            nothing was fitted, as for imported scores.
        source: the same for the data source.
        params: name of the set of shared parameters, "matched" or "library"; "own" if the ranker uses none of
            them, "none" for a baseline and for imported and fused scores.
        origin: how the scores came about. `seconds` of an ensemble has the sums over the runs that could be
            drawn (fit) and over its members (predict); a copied run has the times of the other one, and
            `started` and `finished` are the times of the copy.
        own_settings: settings that replace the shared parameters; all settings of the ranker if its class
            lacks any shared parameter.
        data: name and fold; for each split its fingerprint, documents, queries, features, and the share of
            queries without a relevant document, numbers of queries with one document and with equal labels,
            and with times "span", the first and the last; "rule" says how the queries were split; for train
            also feature_names; instead of these,
            first_feature (0 or 1) if more than 10,000 features are numbered from it. If the run trained on a
            resample of the training queries, train describes the resample, and "resample" identifies it.
            "reading" has the options with which the files of a store were read.
            "debias" names the correction of clicks for position bias, if the command did.
        metrics: "test/ndcg@10" -> mean over the queries that count; None if no query counts.
        convention: the convention of the metrics.
        seconds: wall time of load (a process loads the same data once; its other runs have the same time),
            warm_up, fit (including evaluation), monitor (the evaluation's part of fit), predict (test),
            importances, and fit_clean (a fit without evaluation) if requested.
        shared_machine: whether the command ran several jobs at a time. A comparison leaves out their times.
        load: load average of the machine before and after the fit; None if the system does not report it,
            empty if nothing was fitted.
        peak_memory_mb: peak increase of resident memory during fit, MB; None if the system does not report
            it, or if several workers fitted together.
        best_iteration: number of trees kept, or of an imported model, or of epochs of a network; None for a
            model without iterations.
        threads: number of threads of the ranker, on all workers together.
        unmatched: sentences on the differences between the backend and the shared parameters.
        notes: sentences on the interpretation of the metrics, such as the source of imported scores, and the
            cautions of the ranker about its training set.
        overrides: the overrides of the command; None if the run was started from Python.
        sweep: name of the sweep that the run belongs to; None for a single run.
        swept: each setting that differs between the jobs of the sweep -> all of its values.
        flags: flags of the command, such as --config-dir and its folder.
        key: digest of everything that the results of a job of a sweep depend on: settings, data, code and
            versions; None for other runs.
        search: the search that chose the settings; empty without one. Its trials are in trials.csv.
        distributed: the workers that fitted together: "workers" (number), "threads" (of the fit of each
            worker), "shards" (split -> queries and documents that each worker held), and "deterministic";
            empty if one process fitted alone.
        versions: package -> version, for the packages of the run. For a plug-in: module name -> its version,
            if it has one, and the hash of its source file.
        started_in: folder in which the command was started; relative paths in `settings` are relative to it.
        config: the resolved configuration of the command; `settings` has the settings that ran.
        error: reason of the failure; None if the run finished.
    """

    # `read_run` checks these types, so that a new field needs no other code.
    status: Status
    model: Name
    params: Name
    seed: int
    origin: Origin = field(default_factory=Trained)
    ranker: Annotated[Mapping[str, Any], RankerRecord] = field(default_factory=dict)
    source: Annotated[Mapping[str, Any], RankerRecord] = field(default_factory=dict)
    own_settings: Mapping[str, Any] = field(default_factory=dict)
    data: Annotated[Mapping[str, Any], DataRecord] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    convention: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, Amount] = field(default_factory=dict)
    shared_machine: bool = False
    load: Sequence[float | None] = ()
    peak_memory_mb: float | None = None
    best_iteration: Count | None = None
    threads: Count = 0
    unmatched: Sequence[str] = ()
    notes: Sequence[str] = ()
    overrides: Sequence[str] | None = None
    sweep: str | None = None
    swept: Mapping[str, Sequence[str]] = field(default_factory=dict)
    flags: Sequence[str] = ()
    key: str | None = None
    search: Annotated[Mapping[str, Any], SearchRecord] = field(default_factory=dict)
    distributed: Mapping[str, Any] = field(default_factory=dict)
    started_in: str = ""
    started: Moment = ""
    finished: Moment = ""
    commit: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that ran: `config`, with "model" and "data" replaced by the fields of the ranker and
        the data source, and their classes as `_target_`. All code reads the settings of a run from here."""
        settings = dict(self.config)
        for key, record in (("model", self.ranker), ("data", self.source)):
            # Both are empty if nothing was fitted.
            if record:
                settings[key] = {"_target_": record["class"], **record["fields"]}
        return settings

    @property
    def is_yardstick(self) -> bool:
        """Whether a yardstick was fitted (`Ranker.is_yardstick`); imported scores never are one."""
        return self.params == NO_PARAMETERS and self.origin.was_fitted

    @property
    def unit_of_iterations(self) -> str:
        """What `best_iteration` counts: `TREES` or "epochs"."""
        if "num_epochs" in self.ranker.get("fields", {}):
            return "epochs"
        return TREES

    @property
    def num_trees(self) -> int | None:
        """Number of trees; None for a model without trees."""
        return self.best_iteration if self.unit_of_iterations == TREES else None

    @property
    def is_compared(self) -> bool:
        """Whether the run has scores of test that a comparison may use."""
        return self.status == FINISHED and self.origin.is_compared

    @property
    def part(self) -> str:
        """The part of the data that the run trained on, such as "fold 1 of 5"; empty if it is no resample
        and no fold of a cross-validation."""
        resample = self.data.get("resample")
        data = self.settings.get("data", {})
        if resample is not None:
            return f"resample {resample['index']} of {resample['number']}"
        fold = self.data.get("fold")
        num_folds = data.get("cv")
        if fold is None or num_folds is None:
            return ""
        return f"fold {fold} of {num_folds}"

    def fingerprint(self, split: str) -> str | None:
        """Returns the fingerprint of a split as it was loaded, before a resample of train was drawn; None
        without one."""
        if split == "train" and "resample" in self.data:
            whole: str = self.data["resample"]["train"]
            return whole
        recorded: str | None = self.data.get(split, {}).get("fingerprint")
        return recorded

    @property
    def reading(self) -> Mapping[str, Any]:
        """Options with which the data files were read: the settings of the data, or of the labelled data of a
        simulation; and what the manifest of a store says."""
        settings = self.settings.get("data", {})
        # A run that fitted nothing has the name in the YAML.
        labelled = settings.get("from_") or settings.get("from") or {}
        return {**settings, **labelled, **self.data.get("reading", {})}

    @property
    def repeat(self) -> int | None:
        """Seed of the division into folds, of a fold of a cross-validation by random queries; otherwise
        None."""
        data = self.settings.get("data", {})
        is_random = (
            data.get("cv") is not None and data.get("cv_split", "test") == "test"
        )
        is_fold = self.data.get("fold") is not None
        return data.get("split_seed") if is_random and is_fold else None

    @property
    def command(self) -> tuple[str, ...] | None:
        """The words of the command that repeats the run; None if it was started from Python."""
        if self.overrides is None:
            return None
        # A search is a sweep over trials.
        sweep = ("-m",) if self.config.get("search") else ()
        return ("python", "-m", "ltrbench", *self.flags, *self.overrides, *sweep)

    @property
    def feature_names(self) -> Sequence[str] | None:
        """(F,), names of the features of train; None if they were not recorded."""
        train = self.data.get("train", {})
        if "first_feature" in train:
            first = train["first_feature"]
            return tuple(
                str(number) for number in range(first, first + train["features"])
            )
        names: Sequence[str] | None = train.get("feature_names")
        return names

    @property
    def total_seconds(self) -> float:
        """Total wall time without warm-up; 0 if nothing was timed."""
        # Warm-up is mostly compilation, once per machine; `monitor` is part of `fit`.
        return sum(
            time
            for kind, time in self.seconds.items()
            if kind not in ("warm_up", "monitor")
        )

    @property
    def importance_metric(self) -> str | None:
        """Metric of the permutation and drop-column importances; None if there are none or it is unknown."""
        metric = (self.config.get("importance") or {}).get("metric")
        return None if metric is None else str(metric)


def result_as_json(result: RunResult) -> dict[str, Any]:
    """Returns the JSON form of a result; NaN and infinity, which JSON does not have, become null."""
    return {"format": FORMAT, **_without_nan(asdict(result))}


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


# ---- Errors of the disk in the words of a user.


@contextlib.contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turns an error of the disk in the block into a message with the folder and the remedy.

    Raises:
        ResultError: The folder cannot be written.
    """
    try:
        yield
    except OSError as error:
        remedy = DISK_REMEDIES.get(error.errno or 0)
        if remedy is None:  # such as an error in `save` of a user's class
            raise
        raise ResultError(
            f"{folder} cannot be written: {error.strerror}. {remedy}, or choose another folder."
        ) from error


if TYPE_CHECKING:
    import pandas as pd

# ---- A run in memory: its record, and its scores, curves and importances, each read on demand.


@dataclass(frozen=True, eq=False)
class ScoredSplit:
    """The judgments of a split and a ranker's scores for its documents, (D,), in the dtype of the backend.

    `query_keys`, (Q,), are `RankingDataset.query_keys`. `file_rows`, (D,), are the row numbers of the
    documents in the data file, from 0; None: the documents are in the order of the file. `unjudged` are
    documents of an imported system that are not in the split.
    """

    judgments: Judgments
    scores: NDArray[np.floating[Any]]
    query_keys: QueryKeys
    file_rows: NDArray[np.int64] | None = None
    unjudged: Unjudged | None = None


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Metric values by iteration: name -> one value for each of `iterations`, such as "valid/ndcg@10"."""

    iterations: list[int] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=dict)


TRIAL_COLUMNS = ("trial", "state", "value", "iterations", "seconds", "low", "high")
"""First columns of trials.csv; the other columns are the settings."""
COMPLETE = "complete"
PARTIAL = "partial"
PRUNED = "pruned"
UNSUCCESSFUL = "failed"
"""`TrialRow.state`: fully trained; trained on fewer iterations or folds by design; ended early; failed."""


@dataclass(frozen=True)
class TrialRow:
    """A trial of the search that chose the settings of a run.

    Attributes:
        trial: its number, from 0; the first one has the default settings, except in a grid.
        state: complete, partial, pruned or failed.
        value: metric on validation; NaN if the trial failed.
        iterations: number of iterations fitted.
        seconds: time of the fits.
        low, high: simultaneous interval of its value minus that of the chosen trial; NaN for trials that are
            not complete, and 0 for the chosen one.
        settings: setting -> value, as text.
    """

    trial: int
    state: str
    value: float
    iterations: int
    seconds: float
    low: float
    high: float
    settings: Mapping[str, str]


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A run in a folder, or a run in memory that was made from scores.

    Attributes:
        path: folder of the run; for a run in memory, the file of its scores.
        held: "valid", "test" -> scores of a run in memory; None: the scores are in the folder.
    """

    path: Path
    result: RunResult
    held: Mapping[str, ScoredSplit] | None = None

    def __repr__(self) -> str:
        result = self.result
        name = _main_metric(self.result.metrics)
        identity = {
            "model": result.model,
            "data": result.data.get("name"),
            "fold": result.data.get("fold"),
        }
        metric = {name.removeprefix("test/"): result.metrics[name]} if name else {}
        return one_line(
            "Run", {**identity, "seed": result.seed, "status": result.status, **metric}
        )

    def _repr_html_(self) -> str:
        """Returns the HTML that a notebook shows."""
        result = self.result
        rows = [["path", str(self.path)]]
        if result.error:
            first_line, _, _ = result.error.partition("\n")
            rows.append(["error", first_line])
        for name, mean in result.metrics.items():
            rows.append([name, format_number(mean, ".4f")])
        for kind, value in result.seconds.items():
            rows.append([f"{kind} s", f"{value:.3f}"])
        return Table.of(["", ""], rows, caption=repr(self)).html()

    def to_frame(self) -> pd.DataFrame:
        """Returns one row per query of test: query_id, num_documents, weight if the queries have weights, and
        one column per metric of the run.

        Values are computed from the raw scores; NaN if a query does not count in the mean of the metric.

        Raises:
            ResultError: The run has no scores of test, for example because it failed.
        """
        # Imported late, because importing pandas takes half a second and --help must be fast.
        import pandas as pd

        test = self.scored("test")
        names = [
            name.removeprefix("test/")
            for name in self.result.metrics
            if name.startswith("test/")
        ]
        per_query = evaluate(test.judgments, test.scores, names).per_query
        return pd.DataFrame({**test.judgments.columns_of_queries, **per_query})

    def scored(self, split: str, judgments: Judgments | None = None) -> ScoredSplit:
        """Returns the raw scores of "valid" or "test" with their judgments.

        Args:
            judgments: judgments of that split, already read from another run on the same data; then only the
                scores are read.

        Raises:
            ResultError: The run has no scores of that split, or the file cannot be read.
        """
        if split != "valid":
            refuse_trial(self, f"scores of {split}")
        if isinstance(self.result.origin, Final):
            raise ResultError(
                f"{self.path} is a final model without scores; name {self.result.origin.settings}."
            )
        if self.held is not None:
            if split not in self.held:
                raise ResultError(
                    f"{self.result.model} has no scores of '{split}' ({self.path})."
                )
            return self.held[split]
        return self._stored(split, judgments)

    def _stored(self, split: str, judgments: Judgments | None) -> ScoredSplit:
        columns = {"scores", "query_keys", "file_rows", UNJUDGED.rstrip("/")}
        if judgments is None:
            columns.update(item.name for item in fields(Judgments))
        path = self.path / SCORES_FILE
        arrays = _arrays_of(path, f"{split}_", columns)
        if not {"scores", "query_keys"} <= arrays.keys():
            raise ResultError(
                f"{path} has no scores or query keys of '{split}'. {RUN_REMEDY}."
            )
        scores = arrays.pop("scores")
        query_keys = arrays.pop("query_keys")
        file_rows = arrays.pop("file_rows", None)
        unjudged = _taken(arrays, UNJUDGED)
        arrays["kept"] = _taken(arrays, KEPT)
        try:
            arrays |= _impressions_in(arrays)
            known = Judgments(**arrays) if judgments is None else judgments
            of_split = self.result.data.get(split, {})
            recorded = of_split.get("documents", known.num_documents)
            if not len(scores) == known.num_documents == recorded:
                raise DataError(
                    f"there are {len(scores)} scores and labels of {known.num_documents} documents, but "
                    f"{RESULT_FILE} records {recorded}"
                )
        except (TypeError, DataError) as error:
            reason = str(error).removeprefix("Judgments.__init__() ").rstrip(".")
            raise ResultError(f"{path}: {split}: {reason}. {RUN_REMEDY}.") from None
        others = Unjudged(**unjudged) if unjudged else None
        return ScoredSplit(known, scores, query_keys, file_rows, others)

    def _table(self, name: str, first: Sequence[str]) -> RunTable:
        """Reads a CSV file of the run; a file that does not exist has the first columns and no rows."""
        path = self.path / name
        if path.exists():
            return read_run_table(path, first, RUN_REMEDY)
        return RunTable(path, first, ())

    def learning_curve(self) -> LearningCurve:
        """Returns metric values by iteration; empty if none were recorded."""
        table = self._table(CURVE_FILE, ["iteration"])
        values = {
            name: table.numbers(column).tolist()
            for column, name in enumerate(table.header)
            if column
        }
        return LearningCurve(table.numbers(0).astype(np.int64).tolist(), values)

    def per_query(self) -> dict[str, NDArray[Any]]:
        """Returns the columns of per_query.csv, (Q,) each: query_id, num_documents, weight if the queries
        have weights, and the metrics of test.

        Without rows if none were recorded.
        """
        table = self._table(PER_QUERY_FILE, ["query_id", "num_documents"])
        columns: dict[str, NDArray[Any]] = {
            name: table.numbers(column)
            for column, name in enumerate(table.header)
            if column
        }
        columns["num_documents"] = columns["num_documents"].astype(np.int64)
        return {"query_id": np.array(table.texts(0), dtype=object), **columns}

    def importances(self) -> Importances:
        """Returns the importances of the features; without any kind if none were recorded."""
        table = self._table(IMPORTANCES_FILE, ["feature"])
        names = table.texts(0)
        kinds = table.header[1:]
        values = {
            kind: table.numbers(column) for column, kind in enumerate(kinds, start=1)
        }
        train = self.result.data.get("train", {})
        num_features = int(train.get("features", 0))
        return Importances(names, values, is_part=num_features > MOST_LISTED)

    def trials(self) -> list[TrialRow]:
        """Returns the trials of the search that chose the settings, in the order of their numbers; empty
        without a search."""
        table = self._table(TRIALS_FILE, TRIAL_COLUMNS)
        first = len(TRIAL_COLUMNS)
        names = table.header[first:]
        settings = [
            dict(zip(names, cells[first:], strict=True)) for cells in table.rows
        ]
        trial, value, iterations, *others = (
            table.numbers(column) for column in (0, 2, 3, 4, 5, 6)
        )
        columns = (
            trial.astype(int),
            table.texts(1),
            value,
            iterations.astype(int),
            *others,
        )
        rows = zip(
            *(np.asarray(column).tolist() for column in columns), settings, strict=True
        )
        return [TrialRow(*row) for row in rows]

    def input_example(self) -> Features:
        """Returns the features of a few documents, (n, F), as input of the model; (0, 0) if none were
        stored."""
        table = self._table(EXAMPLE_FILE, [])
        columns = [table.numbers(column) for column in range(len(table.header))]
        by_column = np.array(columns, dtype=np.float32)
        return by_column.reshape(len(columns), len(table.rows)).T


def refuse_trial(run: Run, needed: str) -> None:
    """Raises ResultError if a run is a trial of a search.

    Args:
        needed: what a trial does not have, such as "model".
    """
    if isinstance(run.result.origin, Trial):
        raise ResultError(
            f"{run.path} is a trial of a search without {needed}. Name the final run of the search."
        )


def class_and_folder_of_model(run: Run) -> tuple[str, Path]:
    """Returns the class of the model of a finished run, as its `_target_`, and the folder of its files.

    Raises:
        ResultError: The run failed, or has no model because its scores were imported, it is an ensemble or a
            trial.
    """
    if run.result.status != FINISHED:
        raise ResultError(f"{run.path} failed and has no model; name a finished run.")
    refuse_trial(run, "model")
    folder = run.path / MODEL_FOLDER
    if isinstance(origin := run.result.origin, Ensemble):
        raise ResultError(
            f"{run.path} is an ensemble, which has no model; name a member, {origin.largest}."
        )
    if not origin.has_model or not folder.is_dir():
        raise ResultError(
            f"{run.path} has no model, only scores of {run.result.model}; name a trained run."
        )
    model = run.result.settings.get("model", {})
    return str(model.get("_target_")), folder


@contextlib.contextmanager
def naming(run: Run) -> Iterator[None]:
    """Adds the path of the run to errors about its labels and scores."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{run.path}: {error}") from None


def _main_metric(metrics: Mapping[str, float | None]) -> str | None:
    """Returns the ndcg of test with the largest cutoff, or else the first metric of test."""
    names = [name for name in metrics if name.startswith("test/")]
    ndcgs = [name for name in names if re.fullmatch(r"test/ndcg@\d+", name)]
    return max(
        ndcgs,
        key=lambda name: int(name.partition("@")[2]),
        default=next(iter(names), None),
    )


def mean_importances(runs: Iterable[Run]) -> Importances:
    """Returns the mean importances of the runs of a model, at least one: over seeds, then over folds."""
    folds: dict[int | None, list[Importances]] = {}
    for run in runs:
        fold = run.result.data.get("fold")
        folds.setdefault(fold, []).append(run.importances())
    return averaged(folds.values())


_COPIES = ("mlruns", "mlartifacts")


def _arrays_of(path: Path, prefix: str, columns: Collection[str]) -> dict[str, Any]:
    """Reads some arrays of scores.npz.

    Args:
        prefix: beginning of the names of the arrays of a split, which the names in the result lack.
        columns: names without the prefix, and without what follows a slash.
    """

    def is_wanted(name: str) -> bool:
        column = name.removeprefix(prefix).partition("/")[0]
        return name.startswith(prefix) and column in columns

    stored = load_npz(path, is_wanted=is_wanted, remedy=RUN_REMEDY)
    return {name.removeprefix(prefix): array for name, array in stored.items()}


def _impressions_in(arrays: dict[str, Any]) -> dict[str, Impressions]:
    """Removes the columns of impressions, and returns the field of `Judgments`; empty without any.

    Raises:
        DataError: A column is missing, or the columns do not fit together.
    """
    columns = _taken(arrays, IMPRESSIONS)
    return {"impressions": impressions_of(columns)} if columns else {}


def _taken(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Removes the arrays whose names have a prefix, and returns them without it."""
    names = [name for name in arrays if name.startswith(prefix)]
    return {name.removeprefix(prefix): arrays.pop(name) for name in names}


def read_run(folder: str | Path) -> Run:
    """Reads the run in a folder.

    Raises:
        ResultError: The folder is not a run, or another version of ltrbench wrote it.
        DamagedRunError: Its result.json cannot be read.
    """
    folder = Path(folder)
    path = folder / RESULT_FILE
    if not (path.exists() or path.is_symlink()):
        below = sorted(_folders_of_runs(folder), key=_natural)
        hint = "such as outputs/DATE/TIME"
        if below:
            hint = f"one of the {len(below)} in it, such as {below[0]}"
        raise ResultError(
            f"{folder} is not a run: it has no {RESULT_FILE}. Name that of a run, {hint}."
        )
    values = _fields_of_result(path)
    try:
        values["origin"] = origin_of(values.get("origin"))
    except ValueError as reason:
        raise DamagedRunError(f"{path}: {reason}. {RUN_REMEDY}.") from None
    types = types_of(RunResult)
    for item in fields(RunResult):
        name = item.name
        if name == "origin":
            continue
        error = None
        if name in values:
            error = validation_error(values[name], types[name], name)
        elif item.default is item.default_factory is MISSING:
            error = f"{name} is missing"
        if error:
            raise DamagedRunError(f"{path}: {error}. {RUN_REMEDY}.")
    return Run(folder, RunResult(**values))


def _fields_of_result(path: Path) -> dict[str, Any]:
    """Reads result.json without checking the values of its fields.

    Raises:
        ResultError: Another version of ltrbench wrote it.
        DamagedRunError: It cannot be read.
    """
    try:
        record = read_json(path, RUN_REMEDY)
    except ResultError as unreadable:
        raise DamagedRunError(str(unreadable)) from None
    version = None
    if isinstance(record, dict):
        version = record.pop("format", None)
    if not isinstance(version, int) or isinstance(version, bool):
        raise DamagedRunError(
            f"{path} has format {reprlib.repr(version)} instead of {FORMAT}. {RUN_REMEDY}."
        )
    if version != FORMAT:
        raise ResultError(
            f"{path} has format {version}; this ltrbench reads format {FORMAT}. Run it again, or read it "
            "with the version of ltrbench that wrote it."
        )
    known = {item.name for item in fields(RunResult)}
    return {name: value for name, value in record.items() if name in known}


def read_whole_run(folder: Path) -> Run:
    """Reads the run in a folder, and checks that its scores are neither truncated nor changed.

    Raises:
        ResultError: As `read_run`.
        DamagedRunError: Its result.json or the scores of a finished run cannot be read.
    """
    run = read_run(folder)
    path = folder / SCORES_FILE
    if run.result.status == FINISHED and path.exists():
        try:
            with zipfile.ZipFile(path) as archive:
                damaged = archive.testzip()
            reason = f"the checksum of {damaged} is wrong" if damaged else ""
        except Exception as error:  # zipfile raises many on damaged files
            reason = str(error) or type(error).__name__
        if reason:
            raise DamagedRunError(f"{path} cannot be read: {reason}. {RUN_REMEDY}.")
    return run


def find_runs(folders: str | Path | Iterable[str | Path]) -> list[Run]:
    """Returns every run in or below the folders, each once, in the order of the folders and then by path.

    The trials of searches are left out: they have no metrics of test and cannot be compared.

    Raises:
        ResultError: As `find_runs_and_trials`, or all runs are trials.
    """
    folders = _as_folders(folders)
    every = find_runs_and_trials(folders)
    runs = [run for run in every if not isinstance(run.result.origin, Trial)]
    if every and not runs:
        raise ResultError(
            f"{', '.join(map(str, folders))} contains only trials of a search ({len(every)}, such as "
            f"{every[0].path}), without metrics of test. Name the folder of the sweep with its final runs."
        )
    return runs


def _as_folders(given: str | Path | Iterable[str | Path]) -> list[Path]:
    if isinstance(given, str | Path):
        given = [given]
    return list(map(Path, given))


def find_runs_and_trials(folders: str | Path | Iterable[str | Path]) -> list[Run]:
    """Returns the runs of `find_runs` and the trials of searches, for example to log them.

    A damaged run counts as unfinished: it is left out, with a warning.

    Raises:
        ResultError: A folder does not exist, contains neither, or has one of another version of ltrbench.
        DamagedRunError: One of the folders is itself a damaged run, or there are no other runs.
    """
    folders = _as_folders(folders)
    named = {folder.resolve() for folder in folders}
    runs: dict[Path, Run] = {}
    damaged: list[DamagedRunError] = []
    for folder in folders:
        if not folder.is_dir():
            raise ResultError(
                f"{folder} is not a folder. Name runs or a sweep, such as multirun/DATE/TIME."
            )
        below = sorted(_folders_of_runs(folder), key=_natural)
        if not below:
            raise ResultError(
                f"{folder} contains no run: there is no {RESULT_FILE} in or below it."
            )
        with ThreadPoolExecutor(available_cores()) as pool:
            found = list(pool.map(_run_or_damage, below))
        for path, run in zip(below, found, strict=True):
            if isinstance(run, Run):
                runs.setdefault(path.resolve(), run)
            elif path.resolve() in named:
                raise run
            else:
                damaged.append(run)
    if damaged and not runs:
        raise damaged[0]
    for reason in damaged:
        log.warning("a damaged run counts as unfinished and is left out: %s", reason)
    return list(runs.values())


def _run_or_damage(folder: Path) -> Run | DamagedRunError:
    try:
        return read_whole_run(folder)
    except DamagedRunError as error:
        return error


def holds_runs(folder: Path) -> bool:
    """Returns whether there is a run in or below a folder; False if the folder does not exist."""
    return any(True for _ in _folders_of_runs(folder))


def _folders_of_runs(folder: Path) -> Iterator[Path]:
    """Yields folders with a result.json, without hidden folders and the copies of runs in an MLflow store."""
    for path, inside, files in os.walk(folder):
        # A folder with the name of the file is a damaged run, which `read_run` rejects.
        is_run = RESULT_FILE in files or RESULT_FILE in inside
        inside[:] = [
            name for name in inside if not name.startswith(".") and name not in _COPIES
        ]
        if is_run:
            inside.clear()
            yield Path(path)


def _natural(path: Path) -> list[tuple[int, int, str]]:
    # Numbers are compared as numbers, so that job 2 of a sweep comes before job 10.
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part) for part in path.parts
    ]


# ---- Loads the model of a finished run, without MLflow and Hydra.


@dataclass(frozen=True, eq=False, repr=False)
class LoadedModel:
    """The model of a finished run.

    Attributes:
        name: name of the model in tables: that of its YAML in conf/model.
        feature_names: (F,), names of the features, in the order of the training set.
        ranker: the ranker that computes the scores.
        run: the run with its settings, versions and metrics.
    """

    name: str
    feature_names: tuple[str, ...]
    ranker: Ranker
    run: Run

    def __repr__(self) -> str:
        fields = {
            "name": self.name,
            "num_features": len(self.feature_names),
            "run": str(self.run.path),
        }
        return one_line("LoadedModel", fields)

    def predict(self, features: Any) -> NDArray[np.floating[Any]]:
        """Returns (D,) scores; within a query, a higher score ranks earlier.

        Args:
            features: (D, F), an array whose columns are in the order of `feature_names`, with codes for
                categories; or a DataFrame of pandas, Polars or pyarrow with a column of each name, in any
                order, whose other columns are ignored. NaN is a missing value.

        Raises:
            DataError: a column is missing, or has no numbers.
        """
        return self.ranker.predict(features)


def load(run: str | Path) -> LoadedModel:
    """Loads the model of a finished run for prediction.

        >>> model = ltrbench.load("chosen")                                     # doctest: +SKIP
        >>> model.predict(frame)                                                # doctest: +SKIP
        array([ 0.42, -0.17])

    Args:
        run: folder of the run, such as outputs/2026-01-31/12-00-00, or the folder `model` in it. Of the run,
            result.json and model/ are needed; all other files may be absent.

    Raises:
        ResultError: the folder is not a finished run with a model, or a file of it is damaged.
        ConfigError: the class of the model is not part of ltrbench; only ltrbench's own classes are loaded.
    """
    path = Path(run).absolute()
    is_of_model = path.name == MODEL_FOLDER and not (path / RESULT_FILE).exists()
    finished = read_run(path.parent if is_of_model else path)
    target, folder = class_and_folder_of_model(finished)
    return loaded_model(finished, load_ranker(target, folder))


def loaded_model(run: Run, ranker: Ranker) -> LoadedModel:
    """Combines a run with the ranker that was loaded from it.

    Raises:
        ResultError: the run does not name its features, or names others than the ranker.
    """
    names = run.result.feature_names
    if names is None:
        raise ResultError(
            f"{run.path / RESULT_FILE} does not name the features of the model. Run it again."
        )
    # Of the model files that also contain the names, such as those of the native engine.
    if ranker.feature_names and ranker.feature_names != tuple(names):
        raise ResultError(
            f"{run.path / RESULT_FILE} names other features than the model in {MODEL_FOLDER}/. {RUN_REMEDY}."
        )
    ranker.feature_names = tuple(names)
    return LoadedModel(run.result.model, tuple(names), ranker, run)
