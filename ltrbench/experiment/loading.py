"""Before and around a fit: loading of data, the fit here or on workers, its progress, inspection of data.

Loads each data set once per process: runs with an equal data source share its splits.

Two sources are equal if their classes, fields and current folder are equal. A file that a source names is
read again if it has changed. The least recently used data sets are dropped when all data sets together take
more than a quarter of the free memory.
"""

from __future__ import annotations

import contextlib
import json
import logging
import pickle
import re
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset, Splits
from ltrbench.data.blocks import without_compression_ending
from ltrbench.data.features import arrays_of, is_mapped, is_sparse, row_blocks
from ltrbench.data.sources import DataSource, FileSource, files_of
from ltrbench.data.store import is_store
from ltrbench.distributed import (
    Distribution,
    FitsTogether,
    PlacedShards,
    divide_queries,
    release_shard,
    send_shards,
)
from ltrbench.errors import DivergenceError
from ltrbench.experiment.data_warnings import (
    CELLS_OF_INSPECTION,
    clicked_labels,
    feature_warnings,
    repeated_documents,
)
from ltrbench.measure import MemoryMeter, Stopwatch, available_bytes
from ltrbench.metrics import DEFAULT, has_relevant_document
from ltrbench.metrics.evaluation import load_plugins, warm_up_metrics
from ltrbench.rankers import Iteration, Ranker
from ltrbench.rankers.base import (
    CurveRecorder,
    concerns_of,
    refuse,
    threads_of_workers,
)
from ltrbench.runs.record import LearningCurve
from ltrbench.tables import duration, format_number

_MEMORY_SHARE = (
    0.25  # of the free memory, so that several processes leave most of it to the fits
)

_Stamp = tuple[str, int, int, int, int]


@dataclass(frozen=True, kw_only=True)
class _Loaded:
    """Splits, the seconds that their loading took, and the stamps of the files before they were read."""

    splits: Splits
    seconds: float
    stamps: list[_Stamp]

    @property
    def num_bytes(self) -> int:
        # Splits may share an array, and the system keeps a file that is mapped into memory only as long as
        # nothing else needs the room.
        arrays = chain.from_iterable(
            arrays_of(split.features) for _, split in self.splits
        )
        sizes = {id(array): array.nbytes for array in arrays if not is_mapped(array)}
        return sum(sizes.values())


_loaded: OrderedDict[Hashable, _Loaded] = OrderedDict()  # least recently used first
_lock = threading.RLock()  # a worker may run jobs in several threads


def load_with(source: DataSource, exact: bool) -> Splits:
    """Returns the splits of a source, of `load_once`, or with float64 features if they are `exact`."""
    if exact:
        return source.with_exact_features().load()
    return load_once(source)[0]


def load_once(
    source: DataSource, in_memory: bool = False, keep_sparse: bool = False
) -> tuple[Splits, float]:
    """Returns the splits of a source, and the seconds that their loading took in this process.

    Args:
        in_memory: whether the features of each split must be one array. These arrays replace the splits that
            this process keeps, so that it does not hold the same features twice.
        keep_sparse: whether sparse features nevertheless stay as they are.

    Raises:
        DataError: The data is absent or invalid, or the arrays do not fit into memory.
    """
    with _lock:
        key = _key_of(source)
        # Before the files are read, so that a change during reading is noticed later.
        stamps = _stamps(source, key)
        loaded = _loaded.pop(key, None)
        if loaded is None or loaded.stamps != stamps:
            del loaded  # two versions of a large data set may not fit into memory
            watch = Stopwatch()
            with watch:
                splits = source.load()
            loaded = _Loaded(splits=splits, seconds=watch.seconds, stamps=stamps)
        if in_memory:
            watch = Stopwatch()
            with watch:
                splits = loaded.splits.in_memory(keep_sparse)
            if splits is not loaded.splits:
                loaded = replace(
                    loaded, splits=splits, seconds=loaded.seconds + watch.seconds
                )
        if key is not None:
            _loaded[key] = loaded
            held = sum(each.num_bytes for each in _loaded.values())
            most = _MEMORY_SHARE * (available_bytes() + held)
            # The most recently used one always stays.
            while len(_loaded) > 1 and held > most:
                held -= _loaded.popitem(last=False)[1].num_bytes
        return loaded.splits, loaded.seconds


def forget() -> None:
    """Drops all data sets, so that every source is loaded again."""
    with _lock:
        _loaded.clear()


def _key_of(source: DataSource) -> tuple[Path, type, str] | None:
    """Returns a key that equal sources have in common, and no others; None if a field has a value that cannot
    be compared with a later one, such as a DataFrame."""
    try:
        text = json.dumps(_plain(source), default=_plain)
    except TypeError:
        return None
    return Path.cwd(), type(source), text


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if is_dataclass(value):
        return [str(type(value)), vars(value)]
    raise TypeError(f"{type(value).__name__} is not compared")


def _stamps(source: DataSource, key: tuple[Path, type, str] | None) -> list[_Stamp]:
    """Returns name, inode, size, time of modification and of change of each file that a source names."""
    files: set[Path] = set()
    if key is None:
        return []
    for text in _texts_in(json.loads(key[2])):
        try:
            path = Path(text).expanduser()
            if path.is_file():
                # Also FILE.query and the like, which a reader finds by the name of FILE.
                stem = without_compression_ending(path).name
                files.update(
                    file for file in path.parent.iterdir() if file.name.startswith(stem)
                )
            elif text and path.is_dir():
                files.update(_files_in(path, source))
        except (OSError, RuntimeError, ValueError):  # a text that cannot be a path
            continue
    statuses = ((str(file), file.stat()) for file in sorted(files))
    return [
        (name, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        for name, status in statuses
    ]


def _files_in(folder: Path, source: DataSource) -> list[Path]:
    """Returns the files of a folder that a source names."""
    # A source of files may also name folders that it does not read, such as that of its cache.
    if isinstance(source, FileSource) or is_store(folder):
        return files_of(folder)
    return [file for file in folder.iterdir() if file.is_file()]


def _texts_in(value: Any) -> Iterator[str]:
    """Yields the texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(item)


# ---- Records the learning curve and reports progress while a ranker is fitted.


@dataclass(frozen=True)
class Progress:
    """Progress of a fit, with values of the learning curve.

    Attributes:
        iteration: number of iterations so far; 0 in a report before a fit that compiles for its data.
        num_iterations: maximum number of iterations; None if the ranker does not report it.
        metric: metric of the values: the metric of early stopping, or else the first of the curve.
        train: value on train.
        valid: value on valid; None without a validation set.
        best: highest value on valid so far; None if there is none.
        best_iteration: the first iteration with the value `best`.
        out_of_bag: improvement of the last iteration on the documents that it left out; None if it left out
            none.
        seconds: time since the start of the fit.
        finished: True in the last report, which repeats the values of the last iteration.
        seconds_of_first: time of the first iteration, which includes one-time work.
    """

    iteration: int
    num_iterations: int | None
    metric: str
    train: float
    valid: float | None
    best: float | None
    best_iteration: int | None
    out_of_bag: float | None
    seconds: float
    finished: bool = False
    seconds_of_first: float = 0.0


OnProgress = Callable[[Progress], None]


class ProgressReporter:
    """The `on_iteration` callback that passes each iteration to a recorder and reports its values."""

    def __init__(
        self, recorder: CurveRecorder, ranker: Ranker, report: OnProgress
    ) -> None:
        rule = getattr(ranker, "early_stopping", None)
        self._recorder = recorder
        self._report = report
        self._metric = recorder.names[0]
        if rule and rule.metric in recorder.names:
            self._metric = rule.metric
        self._num_iterations = getattr(ranker, ranker.iterations_field or "", None)
        self._best: tuple[float, int] | None = None
        self._last: Progress | None = None
        # For the display only: the recorded times are measured by a Stopwatch.
        self._began = time.perf_counter()
        self._first = 0.0

    def begin(self) -> None:
        """Reports that the first iteration takes longer, because it compiles."""
        nothing = Progress(
            iteration=0,
            num_iterations=self._num_iterations,
            metric=self._metric,
            train=np.nan,
            valid=None,
            best=None,
            best_iteration=None,
            out_of_bag=None,
            seconds=0.0,
        )
        self._report(nothing)

    def __call__(self, iteration: Iteration) -> None:
        self._recorder(iteration)
        valid = self._latest("valid")
        best_so_far = self._best[0] if self._best else -np.inf
        if valid is not None and valid > best_so_far:
            self._best = valid, iteration.number
        best, best_iteration = self._best or (None, None)
        seconds = time.perf_counter() - self._began
        self._first = self._first or seconds
        self._last = Progress(
            iteration=iteration.number,
            num_iterations=self._num_iterations,
            metric=self._metric,
            train=self._recorder.curve[1][f"train/{self._metric}"][-1],
            valid=valid,
            best=best,
            best_iteration=best_iteration,
            out_of_bag=self._latest("oob"),
            seconds=seconds,
            seconds_of_first=self._first,
        )
        self._report(self._last)

    def _latest(self, kind: str) -> float | None:
        values = self._recorder.curve[1].get(f"{kind}/{self._metric}")
        return values[-1] if values else None

    def finish(self) -> None:
        """Reports the last iteration again, with `finished` set."""
        if self._last is not None:
            self._report(
                replace(
                    self._last, seconds=time.perf_counter() - self._began, finished=True
                )
            )


log = logging.getLogger("ltrbench")

SECONDS_BETWEEN_LINES = 10.0


class Lines:
    """Logs one line after the first iteration, after the last, and every `SECONDS_BETWEEN_LINES` in
    between."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._last_shown: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        last = self._last_shown
        is_due = (
            last is None or progress.seconds - last.seconds >= SECONDS_BETWEEN_LINES
        )
        is_last = progress.finished and (
            last is None or progress.iteration > last.iteration
        )
        if is_due or is_last:
            self._last_shown = progress if progress.iteration else None
            log.info("%s %s", self._model, described(progress))


def described(progress: Progress) -> str:
    """Returns the metrics of an iteration, and the time left or, at the end, the time taken."""
    total = ""
    if progress.num_iterations is not None:
        total = f"/{progress.num_iterations}"
    if progress.iteration == 0:
        return f"0{total}: compiling for the sizes of these queries; the first epoch takes longer"
    parts = [f"train {format_number(progress.train, '.4f')}"]
    if progress.valid is not None:
        parts.append(f"valid {format_number(progress.valid, '.4f')}")
    if progress.best is not None:
        parts.append(
            f"best {format_number(progress.best, '.4f')} @{progress.best_iteration}"
        )
    if progress.out_of_bag is not None:
        parts.append(f"oob {format_number(progress.out_of_bag, '+.4f')}")
    if progress.finished:
        parts.append(f"in {duration(progress.seconds)}")
    elif progress.num_iterations is not None and progress.iteration > 1:
        # The first iteration includes one-time work, such as binning or compiling, so it gives no estimate.
        each = (progress.seconds - progress.seconds_of_first) / (progress.iteration - 1)
        left = progress.num_iterations - progress.iteration
        parts.append(f"{duration(each * left)} left")
    return f"{progress.iteration}{total}: {progress.metric} {', '.join(parts)}"


# ---- Where a run fits: in this process, or on several workers together. This process predicts and evaluates.


Timing = AbstractContextManager[None]
"""Entered for the fit only."""


class Fitter:
    """Fits a ranker in this process. Call `prepare` first.

    Attributes:
        splits: set by `prepare`.
        record: `RunResult.distributed`.
    """

    def __init__(self) -> None:
        self.splits: Splits
        self.record: Mapping[str, Any] = {}

    def prepare(self, ranker: Ranker, splits: Splits) -> None:
        """Takes the splits."""
        self.splits = splits

    def warm_up(self, ranker: Ranker) -> None:
        """Compiles and imports everything that a fit and an evaluation need."""
        _warm_up(ranker, *_kinds_of_features(self.splits.train), log.info)

    def fit(
        self,
        ranker: Ranker,
        metrics: tuple[str, ...],
        on_progress: OnProgress | None,
        timing: Timing,
    ) -> tuple[LearningCurve, float | None]:
        """Fits the ranker; returns the learning curve, and the peak increase of memory in MB.

        Args:
            metrics: metrics of the learning curve.
        """
        memory = MemoryMeter()
        recorder = CurveRecorder.of(self.splits.train, self.splits.valid, metrics)
        watcher = (
            recorder
            if on_progress is None
            else ProgressReporter(recorder, ranker, on_progress)
        )
        if isinstance(watcher, ProgressReporter) and ranker.compiles_in_fit:
            watcher.begin()
        with memory, timing:
            try:
                ranker.fit(self.splits.train, self.splits.valid, watcher)
            except DivergenceError as error:
                error.curve = recorder.curve
                raise
        if isinstance(watcher, ProgressReporter):
            watcher.finish()
        return LearningCurve(*recorder.curve), memory.rise_mb

    def fit_clean(self, ranker: Ranker) -> None:
        """Fits an unfitted copy of the ranker without an evaluator."""
        ranker.clean_copy().fit(self.splits.train)


class FitterOnWorkers(Fitter):
    """Fits a ranker on several workers. No progress is reported, and their memory is not measured.

    Args:
        plugins: modules with metrics, which the workers import.
    """

    def __init__(self, workers: FitsTogether, plugins: Sequence[str] = ()) -> None:
        super().__init__()
        self._workers = workers
        self._plugins = tuple(plugins)
        self._placed: dict[str, PlacedShards] = {}

    def prepare(self, ranker: Ranker, splits: Splits) -> None:
        super().prepare(ranker, splits)
        refuse(ranker, splits.train)
        num_workers = len(self._workers.addresses)
        for name, dataset in splits:
            if name != "test":
                self._placed[name] = send_shards(
                    self._workers, divide_queries(dataset, num_workers)
                )
        self.record = {
            "workers": num_workers,
            "threads": threads_of_workers(self._workers, ranker.num_threads),
            "shards": {name: _sizes(placed) for name, placed in self._placed.items()},
            "deterministic": ranker.is_repeatable_on_workers,
        }

    def close(self) -> None:
        """Releases what the workers hold, as far as they answer; a cluster of the user may run for months."""
        keys_of_parts = [placed.keys for placed in self._placed.values()]
        keys = list(chain.from_iterable(keys_of_parts))
        addresses = list(self._workers.addresses)
        self._workers.client.run(_release, keys, workers=addresses, on_error="ignore")

    def warm_up(self, ranker: Ranker) -> None:
        arguments = ranker, *_kinds_of_features(self.splits.train), self._plugins
        hosts = [address.rpartition(":")[0] for address in self._workers.addresses]
        compiled = []
        for rank, host in enumerate(hosts):
            is_first = hosts.index(host) == rank
            compiled.append(arguments if is_first else ())
        self._workers.run(_compile_on_host, compiled)
        self._workers.run(warm_up_member, [arguments for _ in hosts])
        super().warm_up(ranker)

    def fit(
        self,
        ranker: Ranker,
        metrics: tuple[str, ...],
        on_progress: OnProgress | None,
        timing: Timing,
    ) -> tuple[LearningCurve, float | None]:
        train = self._placed["train"]
        valid = self._placed.get("valid")
        with timing:
            numbers, values = ranker.fit_distributed(
                self._workers, train, valid, metrics
            )
        whole = self.splits.train
        ranker.feature_names = whole.feature_names
        ranker.categories = whole.categories
        ranker.dates = whole.dates
        ranker.encoded = whole.encoded
        return LearningCurve(numbers, values), None

    def fit_clean(self, ranker: Ranker) -> None:
        ranker.clean_copy().fit_distributed(self._workers, self._placed["train"])


@contextlib.contextmanager
def opened_fitter(
    distributed: Distribution | None, plugins: Sequence[str] = ()
) -> Iterator[Fitter]:
    """Provides the fitter of a run.

    Args:
        distributed: None: this process.
        plugins: modules with metrics.
    """
    with (
        contextlib.nullcontext()
        if distributed is None
        else distributed.open() as workers
    ):
        if workers is None:
            yield Fitter()
            return
        fitter = FitterOnWorkers(workers, plugins)
        try:
            yield fitter
        finally:
            # A worker that is lost only here must neither turn a finished run into a failed one nor hide an
            # error.
            with contextlib.suppress(Exception):
                fitter.close()


def _sizes(placed: PlacedShards) -> list[dict[str, int]]:
    datasets = [shard.dataset for shard in placed.shards]
    return [
        {"queries": each.num_queries, "documents": each.num_documents}
        for each in datasets
    ]


def _kinds_of_features(train: RankingDataset) -> tuple[bool, bool]:
    """Returns whether features are sparse, and whether some are categorical."""
    return is_sparse(train.features), bool(train.categorical_features)


def _warm_up(
    ranker: Ranker,
    has_sparse_features: bool,
    has_categories: bool,
    announce: Callable[[str], None],
) -> None:
    # Imported here, because it needs numba.
    from ltrbench.compilation import announcing_compilation

    with announcing_compilation(announce):
        warm_up_metrics()
        ranker.warm_up()
        if has_sparse_features:
            ranker.warm_up_sparse()
        if has_categories:
            ranker.warm_up_categories()


def warm_up_member(
    ranker: Ranker,
    has_sparse_features: bool,
    has_categories: bool,
    plugins: Sequence[str],
) -> None:
    """Warms up a worker, or the process that compiles for it."""
    load_plugins(list(plugins), "plugins")
    announce = partial(print, file=sys.stderr)
    _warm_up(ranker, has_sparse_features, has_categories, announce)
    ranker.warm_up_member()


def _compile_on_host(*arguments: Any) -> None:
    """Compiles for all workers of this host in another process; without arguments, another worker does.

    A worker that compiles by itself holds the global interpreter lock: it does not answer, and Dask drops it.
    """
    # Imported here, because it needs numba.
    from ltrbench.compilation import compiling_process

    if arguments:
        code = f"import pickle, sys; from {__name__} import warm_up_member; "
        with compiling_process(
            code + "warm_up_member(*pickle.load(sys.stdin.buffer))"
        ) as process:
            process.communicate(pickle.dumps(arguments))


def _release(keys_of_shards: Sequence[str]) -> None:
    """Runs in the event loop of a worker, also beside a function that does not end."""
    for key in keys_of_shards:
        release_shard(key)


# ---- Summarizes a data set, and lists what each backend would reject or ignore in it.
#
# `inspect_data` changes nothing and prints nothing. Each backend reports its own concerns.

_HIGHEST_GRADE = 30
"""Highest label without a warning: LightGBM has gains up to this label, XGBoost up to 31."""

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True)
class FeatureFaults:
    """Features with missing or constant values.

    Attributes:
        missing: name -> number of documents without a value, for features with missing values.
        constant: names of features with one value in all documents, or with no value at all; without
            merged ones.
        constant_within_queries: names of features that differ between queries, but within no query.
    """

    missing: Mapping[str, int]
    constant: tuple[str, ...]
    constant_within_queries: tuple[str, ...]


@dataclass(frozen=True)
class RowOrder:
    """The order of the rows.

    Attributes:
        mixed: number of queries with at least two different labels; only these can be sorted by label.
        best_first: number of mixed queries whose labels never increase from row to row.
        worst_first: number of mixed queries whose labels never decrease from row to row.
        query_ids_ascend: whether query ids are in ascending order, compared as numbers if all are numbers.
    """

    mixed: int
    best_first: int
    worst_first: int
    query_ids_ascend: bool


@dataclass(frozen=True)
class Inspection:
    """The result of `inspect_data`.

    Attributes:
        labels: label -> number of documents with this label, in ascending order of label.
        query_sizes: quantile (of `QUANTILES`) -> documents per query; also "mean".
        without_relevant: number of queries without a document of label 1 or more.
        only_relevant: number of queries in which all documents have label 1 or more.
        single_document: number of queries with one document.
        merged: names of features whose different values are equal in float32.
        fractional_labels: number of documents whose label is not an integer.
        label_warnings: one sentence for each reason why models learn nothing sensible from the labels.
        column_warnings: one sentence for each feature that gives the label away, for repeated documents, and
            for a column of times.
        query_weights: "min", "mean" and "max"; None if all queries have the same weight.
        weights_vary_within_queries: whether weights differ between documents of one query.
        positions: "min" and "max"; None if the data has no positions.
        concerns: model -> one sentence for each thing that the backend would reject or ignore.
    """

    documents: int
    queries: int
    features: int
    feature_names: tuple[str, ...]
    labels: Mapping[str, int]
    fractional_labels: int
    label_warnings: tuple[str, ...]
    column_warnings: tuple[str, ...]
    query_sizes: Mapping[str, float]
    without_relevant: int
    only_relevant: int
    single_document: int
    merged: tuple[str, ...]
    feature_faults: FeatureFaults
    row_order: RowOrder
    query_weights: Mapping[str, float] | None
    weights_vary_within_queries: bool
    positions: Mapping[str, int] | None
    fingerprint: str
    concerns: Mapping[str, tuple[str, ...]]


def inspect_data(
    dataset: RankingDataset,
    rankers: Mapping[str, Ranker],
    reading: Mapping[str, Any] | None = None,
) -> Inspection:
    """Summarizes a data set, and collects what each ranker would reject or ignore in it.

    Args:
        rankers: model -> an unfitted ranker.
        reading: options of `read_table` with which the data set was read.

    >>> data = RankingDataset(
    ...     features=[[1, 5], [1, 5], [1, 7]], labels=[2, 0, 0], query_start=[0, 2, 3]
    ... )
    >>> inspection = inspect_data(data, {})
    >>> inspection.labels, inspection.without_relevant, inspection.single_document
    ({'0': 2, '2': 1}, 1, 1)
    >>> inspection.feature_faults.constant, inspection.feature_faults.constant_within_queries
    (('1',), ('2',))
    """
    worst = np.minimum.reduceat(dataset.labels, dataset.query_start[:-1])
    weights = dataset.query_weights
    positions = None
    if dataset.positions is not None:
        positions = {
            "min": int(dataset.positions.min()),
            "max": int(dataset.positions.max()),
        }
    column_warnings = chain(
        feature_warnings(dataset, CELLS_OF_INSPECTION),
        repeated_documents(dataset),
        clicked_labels(dataset),
        _times(dataset, reading or {}),
    )
    concerns = {
        model: concerns_of(ranker, dataset) for model, ranker in rankers.items()
    }
    return Inspection(
        documents=dataset.num_documents,
        queries=dataset.num_queries,
        features=dataset.num_features,
        feature_names=dataset.feature_names,
        labels=_counts_of_labels(dataset),
        fractional_labels=int((dataset.labels % 1 != 0).sum()),
        label_warnings=tuple(label_warnings(dataset)),
        column_warnings=tuple(column_warnings),
        query_sizes=_quantiles(dataset.query_sizes),
        without_relevant=int((~has_relevant_document(dataset)).sum()),
        only_relevant=int((worst >= DEFAULT.relevance_threshold).sum()),
        single_document=int((dataset.query_sizes == 1).sum()),
        merged=dataset.merged,
        feature_faults=feature_faults(dataset),
        row_order=_row_order(dataset),
        query_weights=None if weights is None else _range(weights),
        weights_vary_within_queries=dataset.document_weights is not None,
        positions=positions,
        fingerprint=dataset.fingerprint,
        concerns=concerns,
    )


def _counts_of_labels(dataset: RankingDataset) -> dict[str, int]:
    labels, counts = np.unique(dataset.labels, return_counts=True)
    names = [str(label).removesuffix(".0") for label in labels.tolist()]
    return dict(zip(names, counts.tolist(), strict=True))


def _quantiles(query_sizes: NDArray[np.int64]) -> dict[str, float]:
    names = [f"{quantile:g}" for quantile in QUANTILES]
    sizes = np.quantile(query_sizes, QUANTILES).tolist()
    return {
        **dict(zip(names, sizes, strict=True)),
        "mean": float(query_sizes.mean()),
    }


def nothing_to_learn(dataset: RankingDataset) -> str:
    """Returns a sentence if no pair of documents can be learned from; empty if there is one."""
    labels = dataset.labels
    if not (
        np.minimum.reduceat(labels, dataset.query_start[:-1]) == dataset.best_labels
    ).all():
        return ""
    values = "no query has two different ones"
    if (labels == labels[0]).all():
        values = f"all are {labels[0]:g}"
    return (
        f"The labels within each query are equal ({values}), so there is nothing to learn: check which "
        "column has the labels, and which one the queries."
    )


def label_warnings(dataset: RankingDataset) -> Iterator[str]:
    """Yields a sentence if labels are too high for the gain 2^label - 1, and if no pair of documents can be
    learned from."""
    labels = dataset.labels
    highest = labels.max()
    if highest > _HIGHEST_GRADE:
        yield (
            f"labels[{labels.argmax()}] is {highest:g}. Above {_HIGHEST_GRADE} the gain 2^label - 1 "
            "hides all others, and LightGBM refuses them: map the labels to grades such as 0 to 4."
        )
    sentence = nothing_to_learn(dataset)
    if sentence:
        yield sentence


TIME_NAME = re.compile(r"(.*_)?(date|datetime|day|timestamp)|.*_at|time", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d(-\d\d.*)?")


def _times(dataset: RankingDataset, reading: Mapping[str, Any]) -> Iterator[str]:
    """Yields a sentence for each column of times, unless the queries are split by one."""
    if reading.get("split_by"):
        return
    columns = (*dataset.feature_names, *dataset.kept, *reading.get("ignore", ()))
    for name in columns:
        first = ""
        if name in dataset.kept:
            first = str(dataset.kept[name][0])
        if TIME_NAME.fullmatch(name) or _DATE.fullmatch(first):
            yield (
                f"The column {name} has times, but queries are held out at random. To test on the latest, as "
                f"in production, set data.split_by={name}."
            )


def _range(values: NDArray[np.float64]) -> dict[str, float]:
    return {
        "min": float(values.min()),
        "mean": float(values.mean()),
        "max": float(values.max()),
    }


def _row_order(dataset: RankingDataset) -> RowOrder:
    queries = dataset.query_of_document
    inside = queries[1:] == queries[:-1]
    steps = np.where(inside, np.diff(dataset.labels), 0.0)
    query_of_step = queries[1:]
    num_rises = np.bincount(query_of_step[steps > 0], minlength=dataset.num_queries)
    num_falls = np.bincount(query_of_step[steps < 0], minlength=dataset.num_queries)
    rises = num_rises > 0
    falls = num_falls > 0
    return RowOrder(
        mixed=int((rises | falls).sum()),
        best_first=int((falls & ~rises).sum()),
        worst_first=int((rises & ~falls).sum()),
        query_ids_ascend=_ascend(dataset.query_ids),
    )


def _ascend(query_ids: NDArray[np.str_]) -> bool:
    values: NDArray[Any] = query_ids
    with contextlib.suppress(ValueError):  # not all ids are numbers
        values = query_ids.astype(np.float64)
    return bool((values[1:] >= values[:-1]).all())


def _vary_within(
    queries: NDArray[np.integer[Any]], features: NDArray[np.float32]
) -> NDArray[np.bool_]:
    """Returns (F,), whether neighbouring rows of one query differ in a feature."""
    is_same_query = queries[1:] == queries[:-1]
    differ = _differ(features[1:], features[:-1])
    return np.asarray(differ[is_same_query].any(axis=0))


def feature_faults(dataset: RankingDataset) -> FeatureFaults:
    """Finds missing and constant features. A missing value counts as one more value: a feature without
    any value is constant, a feature with values in some documents is not."""
    missing = np.zeros(dataset.num_features, dtype=np.int64)
    varies_in_a_query = np.zeros(dataset.num_features, dtype=np.bool_)
    varies = np.zeros(dataset.num_features, dtype=np.bool_)
    first = dataset.features[:1]
    last = first
    for start, block in row_blocks(dataset.features):
        missing += np.isnan(block).sum(axis=0)
        varies |= _differ(block, first).any(axis=0)
        queries = dataset.query_of_document[start : start + len(block)]
        varies_in_a_query |= _vary_within(queries, block)
        if start and queries[0] == dataset.query_of_document[start - 1]:
            varies_in_a_query |= _differ(block[:1], last)[0]
        last = block[-1:]
    names = np.array(dataset.feature_names)
    # These may vary in the file.
    is_merged = np.isin(names, dataset.merged)
    is_constant = ~varies & ~is_merged
    is_constant_within_queries = varies & ~varies_in_a_query & ~is_merged
    has_missing = missing > 0
    counts = missing[has_missing].tolist()
    return FeatureFaults(
        missing=dict(zip(names[has_missing].tolist(), counts, strict=True)),
        constant=tuple(names[is_constant].tolist()),
        constant_within_queries=tuple(names[is_constant_within_queries].tolist()),
    )


def _differ(
    features: NDArray[np.float32], others: NDArray[np.float32]
) -> NDArray[np.bool_]:
    """Returns elementwise whether values differ; two missing values are equal."""
    are_missing = np.isnan(features) & np.isnan(others)
    differ: NDArray[np.bool_] = (features != others) & ~are_missing
    return differ
