"""A run on disk: the source of truth, which tables, reports and tracking servers are read from.

A run's folder holds

    result.json          what was run and what came out: the fields of RunResult
    scores.npz           raw scores of valid and test in the backend's own dtype, with labels, query starts,
                         query ids, document ids and weights: any metric can be computed from it later; and
                         the rows' places in the file, where a reader brought the rows of queries together
    per_query.csv        a row a query of test, a column a metric; empty where a query is skipped
    learning_curve.csv   a row an iteration
    importances.csv      a row a feature, a column a kind of importance
    input_example.csv    the features of the first documents of test, a row a document: what the model takes
    model/               what the ranker's `save` wrote

`result.json` is written last, so that a folder without it is not a run. Nothing here is pickled.
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypedDict

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments, RankingDataset
from ltrbench.data.dataset import check_file_rows
from ltrbench.errors import DataError, ResultError
from ltrbench.importance import ACROSS, HIGH, KINDS, LOW, SPLIT, Importances, averaged, shares
from ltrbench.metrics import evaluate
from ltrbench.notebook import html_table, one_line
from ltrbench.rankers import Ranker
from ltrbench.records import Amount, Count, Must, Name, Table, mistake, read_table, types_of
from ltrbench.shapes import Features, PerQuery
from ltrbench.untrusted import load_npz, read_json

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1
FINISHED, FAILED = "finished", "failed"
OWN, NO_PARAMETERS = "own", "none"
"""What `RunResult.params` says of a ranker that takes no shared parameter, and of a yardstick."""

RESULT_FILE = "result.json"
SCORES_FILE = "scores.npz"
# Where MLflow keeps artifacts, the files of runs among them.
_COPIES = ("mlruns", "mlartifacts")

PER_QUERY_FILE = "per_query.csv"
CURVE_FILE = "learning_curve.csv"
IMPORTANCES_FILE = "importances.csv"
_NEW_NAMES = {"permutation": ACROSS}
"""What earlier versions called a kind of importance -> what it is called now."""
EXAMPLE_FILE = "input_example.csv"
NUM_EXAMPLES = 3
MODEL_FOLDER = "model"
RUN_FILES = (
    MODEL_FOLDER,
    SCORES_FILE,
    PER_QUERY_FILE,
    CURVE_FILE,
    IMPORTANCES_FILE,
    EXAMPLE_FILE,
    RESULT_FILE,
)
"""What a run writes into its folder, in the order in which it is moved there."""

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

_SHOWN_REFUSALS = 3
"""Runs that cannot be read which a message names, of all in the folders."""
_REMEDY = "Run it again, or copy its folder again from where it came from"


class SplitRecord(TypedDict, total=False):
    """A split of the data, as `RunResult.data` describes it."""

    fingerprint: Name
    queries: Count
    documents: Count
    features: Count
    queries_without_relevant_document: Amount
    feature_names: Sequence[str]


class DataRecord(TypedDict, total=False):
    """`RunResult.data`."""

    name: Name
    fold: int | None
    train: SplitRecord
    valid: SplitRecord
    test: SplitRecord


class ConventionRecord(TypedDict, total=False):
    """`RunResult.convention`, as far as it is read."""

    name: Name
    ties: str
    no_relevant: str


class DriftRecord(TypedDict, total=False):
    """`RunResult.drift`; a figure is None where no query counts."""

    convention: str
    own: Mapping[str, float | None]
    ours: Mapping[str, float | None]
    unchecked: Sequence[str]
    drifted: bool
    error: str


class PublishedRecord(TypedDict):
    """The figures that others reported on a data set."""

    source: str
    figures: Mapping[str, Mapping[str, float]]


class _StoppingRecord(TypedDict, total=False):
    metric: str


class _ModelSettings(TypedDict, total=False):
    early_stopping: _StoppingRecord | None


class _DataSettings(TypedDict, total=False):
    published: PublishedRecord | None


RankerRecord = TypedDict("RankerRecord", {"class": Name, "fields": _ModelSettings})
"""`RunResult.ranker`, as far as it is read."""
SourceRecord = TypedDict("SourceRecord", {"class": Name, "fields": _DataSettings})
"""`RunResult.source`, likewise."""


class _ImportanceSettings(TypedDict, total=False):
    metric: str | None


class _TrackingSettings(TypedDict, total=False):
    uri: str | None


class ConfigRecord(TypedDict, total=False):
    """`RunResult.config`, as far as it is read."""

    model: _ModelSettings
    data: _DataSettings
    importance: _ImportanceSettings | None
    permutation_importance: _ImportanceSettings | None
    tracking: _TrackingSettings


def _is_moment(text: str) -> bool:
    try:
        return not text or datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


Moment = Annotated[str, Must("a date and time with its time zone, or nothing,", _is_moment)]
Status = Annotated[str, Must(f"'{FINISHED}' or '{FAILED}'", (FINISHED, FAILED).__contains__)]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What was run and what came out of it, as result.json holds it.

    `read_run` holds a file against the annotations below: a new field needs nothing more.

    Attributes:
        status: "finished" or "failed".
        model: the name of its YAML in conf/model.
        ranker: "class", as a YAML's `_target_` names it, and "fields", the settings that it was fitted with.
            Empty where nothing was fitted, as with imported scores.
        source: the same of the data source.
        params: which set of shared parameters it took, "matched" or "library"; "own" where it took none of
            them, "none" for a yardstick.
        own_settings: the settings that it had instead of the shared parameters; all of its own where its
            class does not have every shared parameter.
        data: name and fold, and for each split its fingerprint, documents, queries, features, and the share
            of queries without a relevant document; for train its feature_names as well.
        metrics: "test/ndcg@10" -> mean over the queries that count; None where no query counts.
        convention: what the metrics were computed under.
        seconds: wall time of load, warm_up, fit (with the evaluator), monitor (the evaluator's part of fit),
            predict (test), importances, and fit_clean (a fit without any evaluator) where it was asked for.
        peak_memory_mb: how far resident memory rose during fit, MB; None where the system does not tell.
        best_iteration: trees kept; None for a model without trees.
        threads: how many the ranker was given.
        unmatched: where the backend departs from the shared parameters.
        notes: what else a reader of its figures must know, such as where scores were imported from.
        overrides: the command's settings that made this run; None where it was made from Python.
        sweep: the name of the sweep that it is a job of; None of a single run.
        swept: the settings in which the jobs of its sweep differ, with all of their values.
        versions: package -> version, of what the run used. Of a plug-in: the name of its module -> its
            version where it states one, and the hash of its source file.
        started_in: the folder that the command was started in, which relative paths in `settings` start from.
        config: the configuration of the command, with everything resolved; `settings` says what ran.
        error: why it failed; None where it did not.
        drift: the backend's library's own figures of test against ours under its convention: "convention",
            "own" and "ours" by metric, those "unchecked", "drifted", and "error" where the library failed.
            Empty without any.
    """

    status: Status
    model: Name
    params: Name
    seed: int
    ranker: Annotated[Mapping[str, Any], RankerRecord] = field(default_factory=dict)
    source: Annotated[Mapping[str, Any], SourceRecord] = field(default_factory=dict)
    own_settings: Mapping[str, Any] = field(default_factory=dict)
    data: Annotated[Mapping[str, Any], DataRecord] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    convention: Annotated[Mapping[str, Any], ConventionRecord] = field(default_factory=dict)
    seconds: Mapping[str, Amount] = field(default_factory=dict)
    peak_memory_mb: float | None = None
    best_iteration: Count | None = None
    threads: Count = 0
    unmatched: Sequence[str] = ()
    notes: Sequence[str] = ()
    overrides: Sequence[str] | None = None
    sweep: str | None = None
    swept: Mapping[str, Sequence[str]] = field(default_factory=dict)
    started_in: str = ""
    started: Moment = ""
    finished: Moment = ""
    commit: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    config: Annotated[Mapping[str, Any], ConfigRecord] = field(default_factory=dict)
    drift: Annotated[Mapping[str, Any], DriftRecord] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """`config`, but "model" and "data" are the ranker and the data source that ran: their fields, and
        their classes as `_target_`. The one place to read a run's settings from."""
        ran = {"model": self.ranker, "data": self.source}
        # Earlier versions recorded the configuration alone.
        return {**self.config} | {
            key: {"_target_": record["class"], **record["fields"]} for key, record in ran.items() if record
        }

    @property
    def command(self) -> tuple[str, ...] | None:
        """The words of the command that makes the run again; None where it was made from Python."""
        return None if self.overrides is None else ("python", "-m", "ltrbench", *self.overrides)

    @property
    def importance_metric(self) -> str | None:
        """What falls where a feature is shuffled or dropped; None where nothing was, or it is not known."""
        # Earlier versions set it elsewhere.
        settings = self.config.get("importance") or self.config.get("permutation_importance") or {}
        metric = settings.get("metric")
        return None if metric is None else str(metric)


@dataclass(frozen=True, eq=False)
class ScoredSplit:
    """The judgments of a split and a ranker's scores for its documents, (D,), in the backend's own dtype.

    `file_rows`, (D,), are the rows, from 0, at which the documents stood in what was read; None: in this
    order.
    """

    judgments: Judgments
    scores: NDArray[np.floating[Any]]
    file_rows: NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Metric values by iteration: name -> one value for each of `iterations`, such as "valid/ndcg@10"."""

    iterations: list[int] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A run that stands in a folder, or one that is made of others' scores and held in memory.

    Attributes:
        path: its folder; of one held in memory, the file that its scores come from.
        held: "valid", "test" -> its scores; None: they are in the folder.
    """

    path: Path
    result: RunResult
    held: Mapping[str, ScoredSplit] | None = None

    def __repr__(self) -> str:
        result, name = self.result, _main_metric(self.result.metrics)
        identity = {"model": result.model, "data": result.data.get("name"), "fold": result.data.get("fold")}
        metric = {name.removeprefix("test/"): result.metrics[name]} if name else {}
        return one_line("Run", {**identity, "seed": result.seed, "status": result.status, **metric})

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        result = self.result
        metrics = [[name, "-" if mean is None else f"{mean:.4f}"] for name, mean in result.metrics.items()]
        seconds = [[f"{kind} s", f"{value:.3f}"] for kind, value in result.seconds.items()]
        error = [["error", result.error.partition("\n")[0]]] if result.error else []
        return html_table(repr(self), [["path", str(self.path)], *error, *metrics, *seconds])

    def to_frame(self) -> pd.DataFrame:
        """A row a query of test: query_id, num_documents, and a column a metric that the run reports.

        Values are computed from the raw scores, and NaN where a query is left out of the metric's mean.

        Raises:
            ResultError: where the run has no scores of test, as one that failed.
        """
        # Late, because pandas takes half a second that --help does not have.
        import pandas as pd

        test = self.scored("test")
        names = [name.removeprefix("test/") for name in self.result.metrics if name.startswith("test/")]
        per_query = evaluate(test.judgments, test.scores, names).per_query
        queries = {"query_id": test.judgments.query_ids, "num_documents": test.judgments.query_sizes}
        return pd.DataFrame({**queries, **per_query})

    def scored(self, split: str, judgments: Judgments | None = None) -> ScoredSplit:
        """The raw scores of "valid" or "test" with their judgments.

        Args:
            judgments: of that split, where another run on the same data has read them; only scores are read.

        Raises:
            ResultError: where the run has no scores of that split, or the file cannot be read.
        """
        if self.held is not None:
            if split not in self.held:
                raise ResultError(f"{self.result.model} has no scores of '{split}' ({self.path}).")
            return self.held[split]
        return self._stored(split, judgments)

    def _stored(self, split: str, judgments: Judgments | None) -> ScoredSplit:
        own = ("scores", "file_rows")
        wanted = own if judgments is not None else (*own, *(item.name for item in fields(Judgments)))
        path = self.path / SCORES_FILE
        stored = load_npz(path, names=[f"{split}_{name}" for name in wanted], remedy=_REMEDY)
        arrays = {name.removeprefix(f"{split}_"): array for name, array in stored.items()}
        if "scores" not in arrays:
            raise ResultError(f"{path} holds no scores of '{split}'.")
        scores, file_rows = (arrays.pop(name, None) for name in own)
        try:
            known = Judgments(**_as_texts(arrays)) if judgments is None else judgments
            scored = ScoredSplit(known, scores, file_rows)  # type: ignore[arg-type]  # checked on the next line
            _check_scored(scored, self.result.data.get(split, {}).get("documents"))
        except (TypeError, DataError) as error:
            reason = str(error).removeprefix("Judgments.__init__() ").rstrip(".")
            raise ResultError(f"{path}: {split}: {reason}. {_REMEDY}.") from None
        return scored

    def _table(self, name: str, first: Sequence[str]) -> Table | None:
        """A CSV file of the run; None where it has none."""
        # A link that leads nowhere is no absent file.
        path = self.path / name
        return read_table(path, first, _REMEDY) if path.exists() or path.is_symlink() else None

    def learning_curve(self) -> LearningCurve:
        """Metric values by iteration; empty where none were recorded."""
        table = self._table(CURVE_FILE, ["iteration"])
        if table is None:
            return LearningCurve()
        numbers = table.numbers(0)
        odd = ~((np.diff(numbers, prepend=-1) > 0) & (numbers == np.floor(numbers)) & (numbers < 2**31))
        if odd.any():
            row = int(odd.argmax())
            raise table.refusal(
                f"iteration {table.rows[row][0]!r} is not a whole number above that of the line before", row
            )
        values = {name: table.numbers(place).tolist() for place, name in enumerate(table.header) if place}
        return LearningCurve(numbers.astype(np.int64).tolist(), values)

    def per_query(self) -> dict[str, NDArray[Any]]:
        """The columns of per_query.csv, (Q,) each: query_id, num_documents, and the metrics of test.

        Empty where none was recorded.
        """
        table = self._table(PER_QUERY_FILE, ["query_id", "num_documents"])
        if table is None:
            return {}
        columns: dict[str, NDArray[Any]] = {
            name: table.numbers(place) for place, name in enumerate(table.header) if place
        }
        sizes = columns["num_documents"]
        odd = ~((sizes > 0) & (sizes == np.floor(sizes)) & (sizes < 2**31))
        if odd.any():
            row = int(odd.argmax())
            raise table.refusal(f"{table.rows[row][1]!r} is not a number of documents", row)
        ids = np.array(table.texts(0), dtype=object)
        return {"query_id": ids, **columns, "num_documents": sizes.astype(np.int64)}

    def importances(self) -> Importances:
        """Importances of the features; without a kind where none was recorded."""
        table = self._table(IMPORTANCES_FILE, ["feature"])
        if table is None:
            return Importances((), {})
        names, kinds = table.texts(0), [_NEW_NAMES.get(kind, kind) for kind in table.header[1:]]
        if len(set(names)) != len(names) or len(set(kinds)) != len(kinds):
            raise table.refusal("a feature or a kind of importance is in it twice")
        for kind in kinds:
            if kind in KINDS and (kind + LOW in kinds) != (kind + HIGH in kinds):
                raise table.refusal(f"of the interval of '{kind}' one end is absent")
        values = {kind: table.numbers(place) for place, kind in enumerate(kinds, start=1)}
        if SPLIT in values:
            # Earlier versions wrote how many splits.
            values[SPLIT] = shares(values[SPLIT])
        return Importances(names, values)

    def input_example(self) -> Features:
        """(n, F), a few documents as the model takes them; none where the run keeps none."""
        table = self._table(EXAMPLE_FILE, [])
        if table is None:
            return np.empty((0, 0), dtype=np.float32)
        num_features = self.result.data.get("train", {}).get("features", len(table.header))
        if len(table.header) != num_features:
            raise table.refusal(
                f"it has {len(table.header)} columns; the model takes {num_features} features"
            )
        columns = [table.numbers(place) for place in range(len(table.header))]
        return np.stack(columns, axis=1).astype(np.float32)


def _as_texts(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The same arrays, where those of text hold characters only.

    Raises:
        DataError: where a number stands in the place of a character.
    """
    for name, array in arrays.items():
        if array.dtype.kind == "U" and array.size:
            codes = np.ascontiguousarray(array).view(np.uint32)
            if (codes > sys.maxunicode).any() or ((codes >= 0xD800) & (codes < 0xE000)).any():
                raise DataError(f"{name} holds what is no text")
    return dict(arrays)


def _check_scored(scored: ScoredSplit, num_documents: int | None) -> None:
    """Raises DataError where scores, their places in the file and the judgments do not belong together.

    Args:
        num_documents: what the run recorded of the split; None: nothing.
    """
    scores, count = scored.scores, scored.judgments.num_documents
    if num_documents not in (None, count):
        raise DataError(f"labels of {count} documents, where {RESULT_FILE} records {num_documents}")
    if scores.dtype.kind != "f" or scores.shape != (count,):
        raise DataError(
            f"scores are {scores.dtype} of shape {scores.shape}; a floating-point number was expected for "
            f"each of the {count} documents"
        )
    if np.isnan(scores).any():
        raise DataError(f"scores[{int(np.isnan(scores).argmax())}] is NaN; every document needs a score")
    if scored.file_rows is not None:
        check_file_rows(scored.file_rows, count)


@contextlib.contextmanager
def naming(run: Run) -> Iterator[None]:
    """Has errors about labels and scores of a run say which run they are about."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{run.path}: {error}") from None


def _main_metric(metrics: Mapping[str, float | None]) -> str | None:
    """The ndcg of test with the largest cutoff; without one, the first metric of test."""
    names = [name for name in metrics if name.startswith("test/")]
    cutoffs = {name: name.partition("@")[2] for name in names if name.partition("@")[0] == "test/ndcg"}
    if not cutoffs:
        return names[0] if names else None
    return max(cutoffs, key=lambda name: int(cutoffs[name]) if cutoffs[name].isdecimal() else math.inf)


def mean_importances(runs: Iterable[Run]) -> Importances:
    """The mean over folds of the mean over seeds of the runs, at least one, of a model."""
    folds: dict[int | None, list[Importances]] = {}
    for run in runs:
        folds.setdefault(run.result.data.get("fold"), []).append(run.importances())
    return averaged(folds.values())


def write_run(
    folder: Path,
    result: RunResult,
    ranker: Ranker | None = None,
    scored: Mapping[str, ScoredSplit] | None = None,
    per_query: Mapping[str, PerQuery] | None = None,
    curve: LearningCurve | None = None,
    importances: Importances | None = None,
    example: RankingDataset | None = None,
    check_model: Callable[[Path], None] = lambda _: None,
) -> Run:
    """Writes a run into a folder, whole or not at all: everything is staged, then moved, result.json last.

    Args:
        check_model: called with the folder of the saved model before anything is moved; what it raises leaves
            no file of the run.
        scored: "valid", "test" -> scores.
        per_query: metric -> (Q,) values of test.
        example: whose first documents show what the model takes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".partial-") as staging_name:
        staging = Path(staging_name)
        if ranker is not None:
            (staging / MODEL_FOLDER).mkdir()
            ranker.save(staging / MODEL_FOLDER)
            check_model(staging / MODEL_FOLDER)
        if scored:
            np.savez_compressed(staging / SCORES_FILE, allow_pickle=False, **_as_arrays(scored))
        if scored and per_query:
            _write_per_query(staging / PER_QUERY_FILE, scored["test"].judgments, per_query)
        if curve is not None and curve.iterations:
            _write_curve(staging / CURVE_FILE, curve)
        if importances is not None and importances.values:
            _write_importances(staging / IMPORTANCES_FILE, importances)
        if example is not None:
            _write_example(staging / EXAMPLE_FILE, example)
        text = json.dumps({"format": FORMAT, **_without_nan(asdict(result))}, indent=2, default=str)
        (staging / RESULT_FILE).write_text(text + "\n", encoding="utf-8")
        for name in RUN_FILES:
            if (staging / name).exists():
                (staging / name).rename(folder / name)
    return Run(folder, result)


@contextlib.contextmanager
def claim(folder: Path, options: str = "hydra.run.dir=... or hydra.sweep.dir=...") -> Iterator[None]:
    """Makes sure, before anything is computed, that a run can be written here, and by nobody else meanwhile.

    Args:
        options: what chooses another folder, for messages.

    Raises:
        ResultError: where another run is at work there, or something stands there that a run would write.
    """
    folder.mkdir(parents=True, exist_ok=True)
    taken = [name for name in RUN_FILES if (folder / name).exists()]
    if RESULT_FILE in taken and MODEL_FOLDER not in taken and read_run(folder).result.status == FAILED:
        taken = []  # a failed run may be tried again; a finished one takes the place of its files
    if taken:
        raise ResultError(
            f"{folder} already holds {', '.join(taken)}, which a run would write. Delete what you do not "
            f"need, or choose another folder with {options}"
        )
    with occupy(folder, "run", options):
        yield


@contextlib.contextmanager
def occupy(folder: Path, user: str, options: str) -> Iterator[None]:
    """Keeps others out of a folder, made where there is none, for as long as the block lasts.

    Args:
        user: what is at work in it, for messages: "run", "sweep".
        options: what chooses another folder.

    Raises:
        ResultError: where somebody is at work there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / ".running"
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        raise ResultError(
            f"{folder} is in use by another {user}. Choose another folder with {options}; if that {user} was "
            f"killed, delete {mark}."
        ) from None
    try:
        yield
    finally:
        mark.unlink()


def read_run(folder: Path) -> Run:
    """Reads the run in a folder.

    Raises:
        ResultError: where the folder is not a run's, or its result.json is not one that this version reads.
    """
    path = folder / RESULT_FILE
    if not (path.exists() or path.is_symlink()):
        below = sorted(_places_of_runs(folder), key=_natural)
        hint = f"one of the {len(below)} in it, such as {below[0]}" if below else "such as outputs/DATE/TIME"
        raise ResultError(f"{folder} is not a run: it has no {RESULT_FILE}. Give a run's folder, {hint}.")
    # What is not finite is refused below, with its place.
    record = read_json(path, _REMEDY, finite=False)
    if not isinstance(record, dict) or record.pop("format", None) != FORMAT:
        raise ResultError(f"{path} is not a result of format {FORMAT}, the one that this version reads.")
    known = {item.name for item in fields(RunResult)}
    values = {name: value for name, value in record.items() if name in known}
    reason = _mistyped(values) or _incomplete(values)
    if reason:
        raise ResultError(f"{path}: {reason}. {_REMEDY}.")
    return Run(folder, RunResult(**values))


def _mistyped(values: Mapping[str, Any]) -> str | None:
    """The first value that is not of the type that the annotations of RunResult declare."""
    declared = types_of(RunResult)
    return next(filter(None, (mistake(value, declared[name], name) for name, value in values.items())), None)


_NEEDED = ("status", "model", "params", "seed", "data.name")
_NEEDED_OF_FINISHED = (
    *("data.train.fingerprint", "data.train.features", "data.test.fingerprint"),
    *("data.test.queries_without_relevant_document", "convention.name", "convention.gain"),
)


def _incomplete(values: Mapping[str, Any]) -> str | None:
    """The first value that every reader of a run relies on and that is not there."""
    needed = _NEEDED + (_NEEDED_OF_FINISHED if values.get("status") == FINISHED else ())
    if "valid" in values.get("data", ()):
        needed += ("data.valid.fingerprint",)
    for place in needed:
        inner: Any = values
        for key in place.split("."):
            if key not in inner:
                return f"it is incomplete: it has no {place}"
            inner = inner[key]
    if values["status"] == FINISHED and not any(map(_is_of_test, values.get("metrics", ()))):
        return "it is incomplete: it has no metrics of test"
    train, drift = values["data"].get("train", {}), values.get("drift", {})
    if len(train.get("feature_names", ())) not in (0, train.get("features")):
        return f"data.train has {train.get('features')} features and {len(train['feature_names'])} names"
    if drift and not ("convention" in drift and drift.get("ours", {}).keys() <= drift.get("own", {}).keys()):
        return "drift has no convention, or lacks figures of it"
    return None


def _is_of_test(metric: str) -> bool:
    return metric.startswith("test/")


def find_runs(folders: Iterable[Path]) -> list[Run]:
    """Every run in or below the given folders, each once, in the order given and then by path.

    Raises:
        ResultError: where a folder does not exist, holds no run, or holds one that cannot be read; the
            message names the first of those.
    """
    found: dict[Path, Run] = {}
    refused: list[str] = []
    for folder in folders:
        if not folder.is_dir():
            raise ResultError(
                f"{folder} is not a folder. Give folders of runs or of a sweep, such as multirun/DATE/TIME."
            )
        places = sorted(_places_of_runs(folder), key=_natural)
        if not places:
            raise ResultError(f"{folder} holds no run: there is no {RESULT_FILE} in or below it.")
        for place in places:
            try:
                found.setdefault(place.resolve(), read_run(place))
            except ResultError as error:
                refused.append(str(error))
    if refused:
        # A table without a run that is there would look like the whole comparison.
        raise ResultError(
            " ".join(
                [*refused[:_SHOWN_REFUSALS], *_further(refused), "Or move what cannot be read elsewhere."]
            )
        )
    return list(found.values())


def _further(refused: Sequence[str]) -> list[str]:
    more = len(refused) - _SHOWN_REFUSALS
    return [f"{more} more runs cannot be read."] if more > 0 else []


def holds_runs(folder: Path) -> bool:
    """Whether there is a run in or below a folder, which need not exist."""
    return any(True for _ in _places_of_runs(folder))


def _places_of_runs(folder: Path) -> Iterator[Path]:
    """Folders with a result, but not copies of runs in an MLflow store, nor what is hidden."""
    for place, inside, files in os.walk(folder):
        # A folder of the file's name makes a damaged run, which `read_run` refuses.
        is_run = RESULT_FILE in files or RESULT_FILE in inside
        inside[:] = [name for name in inside if not name.startswith(".") and name not in _COPIES]
        if is_run:
            inside.clear()
            yield Path(place)


def _natural(path: Path) -> list[tuple[int, int, str]]:
    # Jobs 2 and 10 of a sweep in the order in which they ran.
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in path.parts]


def _as_arrays(scored: Mapping[str, ScoredSplit]) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    for split, item in scored.items():
        arrays[f"{split}_scores"] = item.scores
        if item.file_rows is not None:
            arrays[f"{split}_file_rows"] = item.file_rows
        for column in fields(Judgments):
            value = getattr(item.judgments, column.name)
            if value is not None:
                arrays[f"{split}_{column.name}"] = value
    return arrays


def _csv_writer(file: TextIO, names: Iterable[str]) -> Any:
    # A carriage return would end the line for a reader, and is not quoted by itself.
    quote_all = any("\r" in name for name in names)
    return csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL)


def _write_per_query(path: Path, judgments: Judgments, per_query: Mapping[str, PerQuery]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = _csv_writer(file, judgments.query_ids.tolist())
        writer.writerow(["query_id", "num_documents", *per_query])
        columns = [_cells(values) for values in per_query.values()]
        writer.writerows(
            zip(judgments.query_ids.tolist(), judgments.query_sizes.tolist(), *columns, strict=True)
        )


def _write_curve(path: Path, curve: LearningCurve) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["iteration", *curve.values])
        writer.writerows(zip(curve.iterations, *curve.values.values(), strict=True))


def _write_importances(path: Path, importances: Importances) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = _csv_writer(file, importances.feature_names)
        writer.writerow(["feature", *importances.values])
        columns = [_cells(values) for values in importances.values.values()]
        writer.writerows(zip(importances.feature_names, *columns, strict=True))


def _write_example(path: Path, dataset: RankingDataset) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = _csv_writer(file, dataset.feature_names)
        writer.writerow(dataset.feature_names)
        # As float64, whose text gives the float32 back to the bit.
        writer.writerows(_cells(row) for row in dataset.features[:NUM_EXAMPLES].astype(np.float64))


def _cells(values: NDArray[np.float64]) -> list[str]:
    """Numbers in full, so that they are read back the same; what is not a number is empty."""
    return ["" if math.isnan(value) else repr(value) for value in values.tolist()]


def _without_nan(value: Any) -> Any:
    """JSON has no NaN: what is not a number is null."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
