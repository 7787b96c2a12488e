"""Writes a run to its folder, which one process at a time uses.

    with hold(folder):
        ...                # compute

The lease on a folder is a lock of the operating system on the file `.NAME-lock` in it, which names its holder
for messages. It ends with the process, however that dies. Between hosts that share a file system, a lease is
as good as that file system's locks.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import logging
import math
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from ltrbench.data import Judgments, RankingDataset
from ltrbench.errors import DamagedRunError, ResultError
from ltrbench.folders import flush
from ltrbench.measure import now
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import SavedModelError
from ltrbench.rankers.importance import MOST_LISTED, Importances
from ltrbench.runs.record import (
    CURVE_FILE,
    EXAMPLE_FILE,
    FAILED,
    IMPORTANCES_FILE,
    IMPRESSIONS,
    KEPT,
    MODEL_FOLDER,
    PER_QUERY_FILE,
    RESULT_FILE,
    RUN_FILES,
    SCORES_FILE,
    TRIAL_COLUMNS,
    TRIALS_FILE,
    UNJUDGED,
    LearningCurve,
    Run,
    RunResult,
    ScoredSplit,
    TrialRow,
    read_run,
    read_whole_run,
    result_as_json,
    writing_to,
)
from ltrbench.shapes import PerQuery
from ltrbench.untrusted import read_json

log = logging.getLogger("ltrbench")

_POLL_SECONDS = 0.05
_LEAST_WAIT = 0.2
"""Seconds; `holder` holds the lock for a moment, which must not look like work."""


class LeaseHeldError(ResultError):
    """Folder in which another process works."""


@dataclass(frozen=True)
class Holder:
    """Process that holds a lease. If the file is damaged, the host is "unknown", pid 0 and since now.

    Attributes:
        since: date and time at which it acquired the lease.
    """

    host: str
    pid: int
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on host {self.host} since {self.since}"


@contextlib.contextmanager
def hold(folder: Path, name: str = "lease", wait: float = 0.0) -> Iterator[None]:
    """Holds the lease on a folder for the duration of the block; creates the folder if it does not exist.

    Args:
        wait: seconds to wait for another holder.

    Raises:
        LeaseHeldError: Another process, or another thread of this process, holds the lease.
        ResultError: The folder cannot be written.
    """
    path = _lock_file(folder, name)
    lock = FileLock(path, thread_local=False)
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=max(wait, _LEAST_WAIT), poll_interval=_POLL_SECONDS)
        except Timeout:
            raise LeaseHeldError(
                f"{folder} is in use by {_holder_in(path)}. Wait until it ends, or choose another folder."
            ) from None
    try:
        with writing_to(folder):
            working = Holder(socket.gethostname(), os.getpid(), now())
            path.write_text(json.dumps(asdict(working)))
        yield
    finally:
        # A waiting process notices that its file has no name.
        path.unlink(missing_ok=True)
        lock.release()


def holder(folder: Path, name: str = "lease") -> Holder | None:
    """Returns the process that holds the lease on a folder, or None."""
    path = _lock_file(folder, name)
    if not path.exists():
        return None
    try:
        with FileLock(path, thread_local=False).acquire(timeout=0):
            return None
    except Timeout:
        return _holder_in(path)
    except OSError:  # a folder that is only read
        return None


def _lock_file(folder: Path, name: str) -> Path:
    return folder / f".{name}-lock"


def _holder_in(path: Path) -> Holder:
    try:
        return Holder(**read_json(path))
    except (ResultError, TypeError):
        return Holder("unknown", 0, now())


# ---- Writes the files of a run.

NUM_EXAMPLES = 3
_STAGING = ".partial-"
"""Prefix of the staging folders."""


def write_run(
    folder: Path,
    result: RunResult,
    ranker: Ranker | None = None,
    scored: Mapping[str, ScoredSplit] | None = None,
    per_query: Mapping[str, PerQuery] | None = None,
    curve: LearningCurve | None = None,
    importances: Importances | None = None,
    example: RankingDataset | None = None,
    trials: Sequence[TrialRow] = (),
    check_model: Callable[[Path], None] = lambda _: None,
) -> Run:
    """Writes a run to a folder, completely or not at all: all files are staged, then moved, result.json last.

    Args:
        scored: "valid", "test" -> scores.
        per_query: metric -> (Q,) values of test.
        example: data set whose first documents become the example input of the model, unless they have more
            than MOST_LISTED features.
        trials: the trials of the search that chose the settings.
        check_model: called with the folder of the saved model before any file is moved; if it raises, no file
            of the run is written.

    Raises:
        SavedModelError: The ranker cannot be saved.
    """
    with _staged(folder, result) as staging:
        if ranker is not None:
            (staging / MODEL_FOLDER).mkdir()
            _save(ranker, staging / MODEL_FOLDER)
            check_model(staging / MODEL_FOLDER)
        if scored:
            np.savez_compressed(
                staging / SCORES_FILE, allow_pickle=False, **_as_arrays(scored)
            )
        if scored and per_query:
            queries = scored["test"].judgments
            _write_per_query(staging / PER_QUERY_FILE, queries, per_query)
        if curve is not None and curve.iterations:
            steps = zip(curve.iterations, *curve.values.values(), strict=True)
            _write_table(staging / CURVE_FILE, ["iteration", *curve.values], steps)
        if importances is not None and importances.values:
            _write_importances(staging / IMPORTANCES_FILE, importances.listed())
        if example is not None and example.num_features <= MOST_LISTED:
            # As float64, because its text restores the float32 value exactly.
            documents = map(_cells, example.features[:NUM_EXAMPLES].astype(np.float64))
            _write_table(staging / EXAMPLE_FILE, example.feature_names, documents)
        if trials:
            _write_trials(staging / TRIALS_FILE, trials)
    return Run(folder, result)


def _write_per_query(
    path: Path, queries: Judgments, per_query: Mapping[str, PerQuery]
) -> None:
    columns = queries.columns_of_queries
    of_queries = [values.tolist() for values in columns.values()]
    of_metrics = map(_cells, per_query.values())
    rows = zip(*of_queries, *of_metrics, strict=True)
    _write_table(path, [*columns, *per_query], rows)


def copy_run(
    run: Run, folder: Path, result: RunResult, trials: Sequence[TrialRow] = ()
) -> Run:
    """Copies the files of a run to another folder, with another result and the trials of another search,
    completely or not at all."""
    with _staged(folder, result) as staging:
        for name in RUN_FILES:
            if name != TRIALS_FILE and (run.path / name).exists():
                _copy(run.path / name, staging / name)
        if trials:
            _write_trials(staging / TRIALS_FILE, trials)
    return Run(folder, result)


def rewrite_result(run: Run, result: RunResult) -> Run:
    """Replaces the result.json of a run in one step; all other files stay as they are.

    Raises:
        ResultError: The disk is full.
    """
    with (
        writing_to(run.path),
        tempfile.TemporaryDirectory(dir=run.path, prefix=_STAGING) as staging,
    ):
        draft = Path(staging, RESULT_FILE)
        draft.write_text(_as_text(result), encoding="utf-8")
        flush(Path(staging))
        draft.replace(run.path / RESULT_FILE)
    return Run(run.path, result)


def _as_text(result: RunResult) -> str:
    return json.dumps(result_as_json(result), indent=2, default=str) + "\n"


def _copy(source: Path, target: Path) -> None:
    """Copies a file or a folder; unlike shutil.copytree, which lists all errors, it ends at a full disk."""
    if source.is_dir():
        target.mkdir()
        for path in source.iterdir():
            _copy(path, target / path.name)
    else:
        shutil.copyfile(source, target)


@contextlib.contextmanager
def _staged(folder: Path, result: RunResult) -> Iterator[Path]:
    """Yields a staging folder; its files are moved to `folder` when the block ends, result.json last."""
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=_STAGING) as staging_name:
            staging = Path(staging_name)
            yield staging
            (staging / RESULT_FILE).write_text(_as_text(result), encoding="utf-8")
            flush(staging)
            # Files of an earlier failed attempt would appear to belong to this run.
            _delete_files(folder)
            for name in RUN_FILES:
                if (staging / name).exists():
                    (staging / name).rename(folder / name)


def _delete_files(folder: Path) -> None:
    """Deletes the files of a run, result.json first."""
    for name in reversed(RUN_FILES):
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def delete_damaged(folder: Path) -> None:
    """Deletes the files of a run that is damaged, so that it can be trained again.

    Raises:
        LeaseHeldError: Another process holds the lease on the folder.
    """
    if not (folder / RESULT_FILE).exists():
        return
    with hold(folder):
        try:
            read_whole_run(folder)
        except DamagedRunError as error:
            log.warning("the damaged run is trained again: %s", error)
            _delete_files(folder)


def _save(ranker: Ranker, folder: Path) -> None:
    try:
        ranker.save(folder)
    except OSError:  # such as a full disk
        raise
    except Exception as error:
        name = type(ranker).__name__
        raise SavedModelError(
            f"{name}.save failed ({type(error).__name__}: {error}). Fix {name}.save, or choose settings that "
            "it can save; the scores of the run are kept."
        ) from error


@contextlib.contextmanager
def claim(
    folder: Path, options: str = "hydra.run.dir=... or hydra.sweep.dir=..."
) -> Iterator[None]:
    """Checks before anything is computed that a run can be written to the folder, and holds its lease.

    Args:
        options: the settings that choose another folder, for messages.

    Raises:
        LeaseHeldError: Another process holds the lease.
        ResultError: The folder already contains files of a run.
    """
    with hold(folder):
        staged = [*folder.glob(f"{_STAGING}*")]
        # A process was killed while it wrote the run.
        is_torn = bool(staged) and not (folder / RESULT_FILE).exists()
        _check_free(folder, is_torn, options)
        if is_torn:
            _delete_files(folder)
        for path in staged:
            shutil.rmtree(path, ignore_errors=True)
        yield


def _check_free(folder: Path, is_torn: bool, options: str) -> None:
    """Raises ResultError if a folder contains files of a run that neither failed nor was torn."""
    taken = [name for name in RUN_FILES if (folder / name).exists()]
    if not taken or is_torn:
        return
    with contextlib.suppress(ResultError):  # an unreadable run may have finished
        if MODEL_FOLDER not in taken and read_run(folder).result.status == FAILED:
            return
    raise ResultError(
        f"{folder} already contains {', '.join(taken)}. Delete them, or set {options}"
    )


def _as_arrays(scored: Mapping[str, ScoredSplit]) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    for split, item in scored.items():
        arrays[f"{split}_scores"] = item.scores
        if item.file_rows is not None:
            arrays[f"{split}_file_rows"] = item.file_rows
        arrays[f"{split}_query_keys"] = item.query_keys
        for column in fields(Judgments):
            value = getattr(item.judgments, column.name)
            if isinstance(value, np.ndarray):
                arrays[f"{split}_{column.name}"] = value
        for name, values in item.judgments.columns.items():
            arrays[f"{split}_{KEPT}{name}"] = values
        if item.judgments.impressions is not None:
            for name, values in vars(item.judgments.impressions).items():
                arrays[f"{split}_{IMPRESSIONS}{name}"] = values
        if item.unjudged is not None:
            for name, values in vars(item.unjudged).items():
                arrays[f"{split}_{UNJUDGED}{name}"] = values
    return arrays


def _write_table(
    path: Path, header: Iterable[str], rows: Iterable[Iterable[object]]
) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _write_importances(path: Path, importances: Importances) -> None:
    names = importances.feature_names
    columns = map(_cells, importances.values.values())
    _write_table(
        path, ["feature", *importances.values], zip(names, *columns, strict=True)
    )


def _write_trials(path: Path, trials: Sequence[TrialRow]) -> None:
    all_names = itertools.chain.from_iterable(row.settings for row in trials)
    names = list(dict.fromkeys(all_names))
    rows: list[list[object]] = []
    for row in trials:
        numbers = np.array([row.value, row.seconds, row.low, row.high])
        value, *others = _cells(numbers)
        settings = [row.settings.get(name, "") for name in names]
        begin = [row.trial, row.state, value, row.iterations]
        rows.append([*begin, *others, *settings])
    _write_table(path, [*TRIAL_COLUMNS, *names], rows)


def _cells(values: NDArray[np.float64]) -> list[str]:
    """Formats numbers with full precision, so that reading restores them exactly; NaN becomes empty."""
    return ["" if math.isnan(value) else repr(value) for value in values.tolist()]
