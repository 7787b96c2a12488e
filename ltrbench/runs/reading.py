"""Finds runs in folders and reads them."""

from __future__ import annotations

import contextlib
import math
import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments
from ltrbench.data.dataset import QueryKeys, check_file_rows, check_query_keys
from ltrbench.errors import DataError, ResultError
from ltrbench.metrics import evaluate
from ltrbench.rankers.importance import MOST_LISTED, Importances, averaged
from ltrbench.runs.record import (
    CURVE_FILE,
    EXAMPLE_FILE,
    FINISHED,
    FORMAT,
    IMPORTANCES_FILE,
    MODEL_FOLDER,
    PER_QUERY_FILE,
    RESULT_FILE,
    RUN_REMEDY,
    SCORES_FILE,
    TRIALS_FILE,
    RunResult,
    reason_to_refuse,
)
from ltrbench.shapes import Features
from ltrbench.tables import Table, format_number, one_line
from ltrbench.untrusted import RunTable, load_npz, read_json, read_run_table

if TYPE_CHECKING:
    import pandas as pd

# ---- A run in memory: its record, and its scores, curves and importances, each read on demand.


@dataclass(frozen=True, eq=False)
class ScoredSplit:
    """The judgments of a split and a ranker's scores for its documents, (D,), in the dtype of the backend.

    `query_keys`, (Q,), are `RankingDataset.query_keys`. `file_rows`, (D,), are the row numbers of the
    documents in the data file, from 0; None: the documents are in the order of the file.
    """

    judgments: Judgments
    scores: NDArray[np.floating[Any]]
    query_keys: QueryKeys
    file_rows: NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Metric values by iteration: name -> one value for each of `iterations`, such as "valid/ndcg@10"."""

    iterations: list[int] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=dict)


TRIAL_COLUMNS = ("trial", "state", "value", "iterations", "seconds", "low", "high")
"""First columns of trials.csv; the other columns are the settings."""
COMPLETE, PARTIAL, PRUNED, UNSUCCESSFUL = "complete", "partial", "pruned", "failed"
"""`TrialRow.state`: fully trained; trained on fewer iterations or folds by design; ended early; failed."""


@dataclass(frozen=True)
class TrialRow:
    """A trial of the search that chose the settings of a run.

    Attributes:
        trial: its number, from 0; the first one has the default settings.
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
        result, name = self.result, _main_metric(self.result.metrics)
        identity = {"model": result.model, "data": result.data.get("name"), "fold": result.data.get("fold")}
        metric = {name.removeprefix("test/"): result.metrics[name]} if name else {}
        return one_line("Run", {**identity, "seed": result.seed, "status": result.status, **metric})

    def _repr_html_(self) -> str:
        """Returns the HTML that a notebook shows."""
        result = self.result
        metrics = [[name, format_number(mean, ".4f")] for name, mean in result.metrics.items()]
        seconds = [[f"{kind} s", f"{value:.3f}"] for kind, value in result.seconds.items()]
        error = [["error", result.error.partition("\n")[0]]] if result.error else []
        rows = [["path", str(self.path)], *error, *metrics, *seconds]
        return Table.of(["", ""], rows, caption=repr(self)).html()

    def to_frame(self) -> pd.DataFrame:
        """Returns one row per query of test: query_id, num_documents, and one column per metric of the run.

        Values are computed from the raw scores; NaN if a query does not count in the mean of the metric.

        Raises:
            ResultError: The run has no scores of test, for example because it failed.
        """
        # Imported late, because importing pandas takes half a second and --help must be fast.
        import pandas as pd

        test = self.scored("test")
        names = [name.removeprefix("test/") for name in self.result.metrics if name.startswith("test/")]
        per_query = evaluate(test.judgments, test.scores, names).per_query
        queries = {"query_id": test.judgments.query_ids, "num_documents": test.judgments.query_sizes}
        return pd.DataFrame({**queries, **per_query})

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
        if self.held is not None:
            if split not in self.held:
                raise ResultError(f"{self.result.model} has no scores of '{split}' ({self.path}).")
            return self.held[split]
        return self._stored(split, judgments)

    def _stored(self, split: str, judgments: Judgments | None) -> ScoredSplit:
        columns = ("scores", "query_keys", "file_rows")
        wanted = columns if judgments is not None else (*columns, *(item.name for item in fields(Judgments)))
        path = self.path / SCORES_FILE
        stored = load_npz(path, names=[f"{split}_{name}" for name in wanted], remedy=RUN_REMEDY)
        arrays = {name.removeprefix(f"{split}_"): array for name, array in stored.items()}
        if not {"scores", "query_keys"} <= arrays.keys():
            raise ResultError(f"{path} has no scores or query keys of '{split}'. {RUN_REMEDY}.")
        scores, query_keys, file_rows = (arrays.pop(name, None) for name in columns)
        try:
            known = Judgments(**arrays) if judgments is None else judgments
            scored = ScoredSplit(known, scores, query_keys, file_rows)  # type: ignore[arg-type]  # checked next
            _check_scored(scored, self.result.data.get(split, {}).get("documents"))
        except (TypeError, DataError) as error:
            reason = str(error).removeprefix("Judgments.__init__() ").rstrip(".")
            raise ResultError(f"{path}: {split}: {reason}. {RUN_REMEDY}.") from None
        return scored

    def _table(self, name: str, first: Sequence[str]) -> RunTable | None:
        """Reads a CSV file of the run; None if the file does not exist."""
        # A broken link is an error, not an absent file.
        path = self.path / name
        return read_run_table(path, first, RUN_REMEDY) if path.exists() or path.is_symlink() else None

    def learning_curve(self) -> LearningCurve:
        """Returns metric values by iteration; empty if none were recorded."""
        table = self._table(CURVE_FILE, ["iteration"])
        if table is None:
            return LearningCurve()
        values = {name: table.numbers(column).tolist() for column, name in enumerate(table.header) if column}
        return LearningCurve(table.numbers(0).astype(np.int64).tolist(), values)

    def per_query(self) -> dict[str, NDArray[Any]]:
        """Returns the columns of per_query.csv, (Q,) each: query_id, num_documents, and the metrics of test.

        Empty if none were recorded.
        """
        table = self._table(PER_QUERY_FILE, ["query_id", "num_documents"])
        if table is None:
            return {}
        columns: dict[str, NDArray[Any]] = {
            name: table.numbers(column) for column, name in enumerate(table.header) if column
        }
        columns["num_documents"] = columns["num_documents"].astype(np.int64)
        return {"query_id": np.array(table.texts(0), dtype=object), **columns}

    def importances(self) -> Importances:
        """Returns the importances of the features; without any kind if none were recorded."""
        table = self._table(IMPORTANCES_FILE, ["feature"])
        if table is None:
            return Importances((), {})
        names, kinds = table.texts(0), table.header[1:]
        values = {kind: table.numbers(column) for column, kind in enumerate(kinds, start=1)}
        return Importances(names, values, is_part=self._num_features > MOST_LISTED)

    @property
    def _num_features(self) -> int:
        return int(self.result.data.get("train", {}).get("features", 0))

    def trials(self) -> list[TrialRow]:
        """Returns the trials of the search that chose the settings, in the order of their numbers; empty
        without a search."""
        table = self._table(TRIALS_FILE, TRIAL_COLUMNS)
        if table is None:
            return []
        numbers = {
            name: table.numbers(column).tolist()
            for column, name in enumerate(TRIAL_COLUMNS)
            if name != "state"
        }
        num_columns = len(TRIAL_COLUMNS)
        return [
            TrialRow(
                trial=int(numbers["trial"][row]),
                state=cells[TRIAL_COLUMNS.index("state")],
                iterations=int(numbers["iterations"][row]),
                **{name: numbers[name][row] for name in ("value", "seconds", "low", "high")},
                settings=dict(zip(table.header[num_columns:], cells[num_columns:], strict=True)),
            )
            for row, cells in enumerate(table.rows)
        ]

    def input_example(self) -> Features:
        """Returns the features of a few documents, (n, F), as input of the model; (0, 0) if none were
        stored."""
        table = self._table(EXAMPLE_FILE, [])
        if table is None:
            return np.empty((0, 0), dtype=np.float32)
        columns = [table.numbers(column) for column in range(len(table.header))]
        return np.stack(columns, axis=1).astype(np.float32)


def _check_scored(scored: ScoredSplit, num_documents: int | None) -> None:
    """Raises DataError if scores, file rows, query keys and judgments are inconsistent.

    Args:
        num_documents: number of documents recorded for the split; None: not recorded.
    """
    scores, count = scored.scores, scored.judgments.num_documents
    if num_documents not in (None, count):
        raise DataError(f"there are labels of {count} documents, but {RESULT_FILE} records {num_documents}")
    if scores.dtype.kind != "f" or scores.shape != (count,):
        raise DataError(
            f"scores are {scores.dtype} of shape {scores.shape}; expected one floating-point number for each "
            f"of the {count} documents"
        )
    if np.isnan(scores).any():
        raise DataError(f"scores[{int(np.isnan(scores).argmax())}] is NaN; every document needs a score")
    if scored.file_rows is not None:
        check_file_rows(scored.file_rows, count)
    check_query_keys(scored.query_keys, scored.judgments.num_queries)


def refuse_trial(run: Run, needed: str) -> None:
    """Raises ResultError if a run is a trial of a search.

    Args:
        needed: what a trial does not have, such as "model".
    """
    if run.result.trial:
        raise ResultError(
            f"{run.path} is a trial of a search, which has no {needed}. Name the final run of the search, in "
            "the folder of its sweep."
        )


def class_and_folder_of_model(run: Run) -> tuple[str, Path]:
    """Returns the class of the model of a finished run, as its `_target_`, and the folder of its files.

    Raises:
        ResultError: The run failed, or has no model because its scores were imported or it is a trial.
    """
    if run.result.status != FINISHED:
        raise ResultError(f"{run.path} failed and has no model; name a finished run.")
    refuse_trial(run, "model")
    folder = run.path / MODEL_FOLDER
    if not folder.is_dir():
        raise ResultError(
            f"{run.path} has no model, only imported scores of {run.result.model}; name a trained run."
        )
    return str(run.result.settings.get("model", {}).get("_target_")), folder


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
    cutoffs = {name: name.partition("@")[2] for name in names if name.partition("@")[0] == "test/ndcg"}
    if not cutoffs:
        return names[0] if names else None
    return max(cutoffs, key=lambda name: int(cutoffs[name]) if cutoffs[name].isdecimal() else math.inf)


def mean_importances(runs: Iterable[Run]) -> Importances:
    """Returns the mean importances of the runs of a model, at least one: over seeds, then over folds."""
    folds: dict[int | None, list[Importances]] = {}
    for run in runs:
        folds.setdefault(run.result.data.get("fold"), []).append(run.importances())
    return averaged(folds.values())


_COPIES = ("mlruns", "mlartifacts")
_SHOWN_REFUSALS = 3
"""Maximum number of unreadable runs that a message describes."""


def read_run(folder: Path) -> Run:
    """Reads the run in a folder.

    Raises:
        ResultError: The folder is not a run, or this version cannot read its result.json.
    """
    path = folder / RESULT_FILE
    if not (path.exists() or path.is_symlink()):
        below = sorted(_folders_of_runs(folder), key=_natural)
        hint = f"one of the {len(below)} in it, such as {below[0]}" if below else "such as outputs/DATE/TIME"
        raise ResultError(
            f"{folder} is not a run: it has no {RESULT_FILE}. Name the folder of a run, {hint}."
        )
    record = read_json(path, RUN_REMEDY)
    version = record.pop("format", None) if isinstance(record, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= FORMAT:
        is_newer = isinstance(version, int) and version > FORMAT
        remedy = "Read it with a newer ltrbench: pip install --upgrade ltrbench" if is_newer else RUN_REMEDY
        raise ResultError(
            f"{path} has format {reprlib.repr(version)}, but this version of ltrbench reads only formats 1 "
            f"to {FORMAT}. {remedy}."
        )
    known = {item.name for item in fields(RunResult)}
    values = {name: value for name, value in record.items() if name in known}
    reason = reason_to_refuse(values)
    if reason:
        raise ResultError(f"{path}: {reason}. {RUN_REMEDY}.")
    return Run(folder, RunResult(**values))


def find_runs(folders: Iterable[Path]) -> list[Run]:
    """Returns every run in or below the folders, each once, in the order of the folders and then by path.

    The trials of searches are left out: they have no metrics of test and cannot be compared.

    Raises:
        ResultError: A folder does not exist, contains no run, contains only trials, or contains a run that
            cannot be read; the message describes the first unreadable runs.
    """
    folders = list(folders)
    every = find_runs_and_trials(folders)
    runs = [run for run in every if not run.result.trial]
    for folder in folders:
        trials = [run.path for run in every if run.result.trial and _is_in(run.path, folder)]
        if trials and not any(_is_in(run.path, folder) for run in runs):
            raise ResultError(
                f"{folder} contains no run, only trials of a search ({len(trials)}, such as {trials[0]}), "
                "which have no metrics of test. Name the folder of the sweep with the final runs of the "
                "search; if the search was interrupted before them, repeat its command."
            )
    return runs


def _is_in(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def find_runs_and_trials(folders: Iterable[Path]) -> list[Run]:
    """Returns the runs of `find_runs` and the trials of searches, for example to log them.

    Raises:
        ResultError: A folder does not exist, contains neither, or contains one that cannot be read; the
            message describes the first unreadable ones.
    """
    runs: dict[Path, Run] = {}
    refused: list[str] = []
    for folder in folders:
        if not folder.is_dir():
            raise ResultError(
                f"{folder} is not a folder. Name folders of runs or of a sweep, such as multirun/DATE/TIME."
            )
        places = sorted(_folders_of_runs(folder), key=_natural)
        if not places:
            raise ResultError(f"{folder} contains no run: there is no {RESULT_FILE} in or below it.")
        for place in places:
            try:
                runs.setdefault(place.resolve(), read_run(place))
            except ResultError as error:
                refused.append(str(error))
    if refused:
        # A table without an unreadable run would look like the whole comparison.
        more = len(refused) - _SHOWN_REFUSALS
        further = [f"{more} more runs cannot be read."] if more > 0 else []
        remedy = "Or move the unreadable runs elsewhere."
        raise ResultError(" ".join([*refused[:_SHOWN_REFUSALS], *further, remedy]))
    return list(runs.values())


def holds_runs(folder: Path) -> bool:
    """Returns whether there is a run in or below a folder; False if the folder does not exist."""
    return any(True for _ in _folders_of_runs(folder))


def _folders_of_runs(folder: Path) -> Iterator[Path]:
    """Yields folders with a result.json, without hidden folders and the copies of runs in an MLflow store."""
    for place, inside, files in os.walk(folder):
        # A folder with the name of the file is a damaged run, which `read_run` rejects.
        is_run = RESULT_FILE in files or RESULT_FILE in inside
        inside[:] = [name for name in inside if not name.startswith(".") and name not in _COPIES]
        if is_run:
            inside.clear()
            yield Path(place)


def _natural(path: Path) -> list[tuple[int, int, str]]:
    # Numbers are compared as numbers, so that job 2 of a sweep comes before job 10.
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in path.parts]
