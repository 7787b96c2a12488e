"""Trains rankers in Python and compares them: the folder of the runs need not be managed by the caller."""

from __future__ import annotations

import contextlib
import itertools
import logging
import numbers
import reprlib
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.compare.comparison import check_baseline, compare
from ltrbench.compare.decision import latency_of_row
from ltrbench.compare.groups import group_of_queries
from ltrbench.compare.notebook import NotebookComparison
from ltrbench.compare.settings import (
    Settings,
)
from ltrbench.data import RankingDataset, Splits, TrainingResample
from ltrbench.data.blocks import check_option
from ltrbench.data.sources import DataSource
from ltrbench.data.splits import check_files
from ltrbench.errors import ConfigError, ResultError, require
from ltrbench.experiment import Experiment, check_metrics, check_splits, run
from ltrbench.experiment.loading import Lines, load_once
from ltrbench.metrics import evaluate, parse_metric
from ltrbench.rankers import Ranker
from ltrbench.runs.record import RESULT_FILE, Run

log = logging.getLogger("ltrbench")


@dataclass(kw_only=True)
class InMemory(DataSource):
    """Data sets that the caller holds; a run records their fingerprints."""

    train: RankingDataset
    valid: RankingDataset | None
    test: RankingDataset

    def load(self) -> Splits:
        splits = Splits(self.train, self.valid, self.test)
        check_files({"train": self.train, "valid": self.valid, "test": self.test})
        return splits


def train_and_compare(
    rankers: Mapping[str, Ranker],
    train: RankingDataset,
    test: RankingDataset,
    valid: RankingDataset | None = None,
    *,
    seeds: Sequence[int] | None = None,
    replicates: int = 0,
    metrics: Sequence[str] | None = None,
    settings: Settings | None = None,
    name: str = "data",
    folder: str | Path | None = None,
    overwrite: bool = False,
) -> NotebookComparison:
    """Trains copies of the rankers on the same queries, and compares them on the test queries.

    The progress is logged, and shown as a bar if tqdm is installed. Where the log is not configured, as in a
    notebook, it goes to standard error.

    Args:
        rankers: name in tables -> ranker, which stays unfitted.
        train, test, valid: sets without a common query; valid is for early stopping.
        seeds: each ranker is trained with each seed; None: once, with its own seed.
        replicates: number of bootstrap samples of the training queries, at least 2, that every ranker is
            trained on, for claims about the methods; 0: training on all training queries.
        metrics: metrics of the tables; the first one is the primary metric, which carries the claims, unless
            `settings` names another. None: those of a run by default.
        settings: settings of the comparison.
        name: name of the data set in tables.
        folder: folder of the runs, numbered from 0; None: a temporary folder, deleted with the comparison.
        overwrite: whether to delete numbered runs in the folder first, so that a cell can be run again.

    Raises:
        ResultError: The folder contains runs, and `overwrite` is false.
        ConfigError, DataError: An argument, a setting or the data are invalid, or a ranker cannot be trained
            on them; no ranker is trained and no run deleted. After an error of a later training or of the
            comparison, a note of the error names the folder of the finished runs.
    """
    _check_arguments(rankers, {"train": train, "test": test, "valid": valid})
    _check_options(seeds, replicates, metrics)
    source = InMemory(name=name, train=train, valid=valid, test=test)
    settings = _completed(settings or Settings(), metrics, source)
    _check_settings(settings, [*rankers], test)
    experiments = []
    for model, ranker in rankers.items():
        seeds_of_ranker = [ranker.seed] if seeds is None else seeds
        trainings = itertools.product(map(int, seeds_of_ranker), _resamples(replicates))
        for seed, resample in trainings:
            of_ranker = seed if resample is None else resample.seed_of_ranker(seed)
            experiment = Experiment(
                model=model,
                ranker=replace(ranker, seed=of_ranker),
                source=source,
                resample=resample,
                metrics=tuple(metrics or Experiment.metrics),
            )
            experiments.append(experiment)
    _check_experiments(experiments)
    with contextlib.ExitStack() as temporary:
        if not folder:
            folder = tempfile.mkdtemp(prefix="ltrbench-")
            temporary.callback(shutil.rmtree, folder)
        path = Path(folder)
        _remove_runs(path, overwrite)
        runs: list[Run] = []
        try:
            with _progress(experiments) as shown:
                for number, experiment in enumerate(shown):
                    on_progress = Lines(experiment.model)
                    of_run = path / str(number)
                    runs.append(run(experiment, of_run, on_progress=on_progress))
            (comparison,) = map(NotebookComparison.of, compare(runs, settings))
        except Exception as error:
            if runs:
                temporary.pop_all()
                error.add_note(
                    f"The finished runs are in {path}: compare(find_runs({str(path)!r})) compares them."
                )
            raise
        weakref.finalize(comparison, temporary.pop_all().close)
    return comparison


def _completed(
    settings: Settings, metrics: Sequence[str] | None, source: DataSource
) -> Settings:
    """Returns the settings with the first metric as the primary one, and a latency for its guard."""
    if metrics and settings.metric is None and not settings.family:
        settings = replace(settings, metric=metrics[0])
    if settings.latency is None:
        of_row = partial(latency_of_row, load_splits=lambda _: source.load())
        settings = replace(settings, latency=cache(of_row))
    return settings


def _resamples(replicates: int) -> list[TrainingResample | None]:
    """Returns the resamples of the training queries; None stands for all queries."""
    if not replicates:
        return [None]
    indices = range(1, replicates + 1)
    return [TrainingResample(number=replicates, index=index) for index in indices]


def _check_arguments(
    rankers: Mapping[str, object], datasets: Mapping[str, object]
) -> None:
    """Raises ConfigError unless these are rankers and data sets; a data set may be None."""
    if not rankers:
        raise ConfigError(
            "rankers is empty; pass some by name, as in {'native': NativeRanker()}."
        )
    for name, ranker in rankers.items():
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(
                f"the name {name!r} of a ranker is no text; pass rankers by name, as in {{'native': "
                "NativeRanker()}."
            )
        if not isinstance(ranker, Ranker):
            raise ConfigError(
                f"the ranker {name!r} is {reprlib.repr(ranker)}; pass an object of its class, as in "
                "{'native': NativeRanker(num_trees=100)}."
            )
    for name, dataset in datasets.items():
        if not isinstance(dataset, RankingDataset | None):
            raise ConfigError(
                f"{name} has the type {type(dataset).__name__}; pass a RankingDataset, as from "
                "RankingDataset.from_frame(frame) or read_data(path)."
            )


def _check_options(seeds: object, replicates: int, metrics: object) -> None:
    """Raises ConfigError unless these are numbers and names as `train_and_compare` takes them."""
    if seeds is not None and (
        isinstance(seeds, str)
        or not isinstance(seeds, Iterable)
        or not all(isinstance(seed, numbers.Integral) for seed in seeds)
    ):
        raise ConfigError(f"seeds is {seeds!r}; pass whole numbers, as in [0, 1, 2].")
    check_option("replicates", replicates, int)
    require("replicates", replicates, at_least=0)
    if metrics is not None:
        check_option("metrics", metrics, list)


@dataclass(frozen=True)
class _CountedQueries:
    """The queries of the test set that count in a metric.

    Attributes:
        judgments: Those of the test set.
        numbers: (Q,), indices of the queries.
    """

    judgments: tuple[RankingDataset]
    numbers: NDArray[np.int64]

    def of_query(self, values_of_cell: Sequence[NDArray[Any]]) -> NDArray[Any]:
        (values,) = values_of_cell
        return values[self.numbers]


def _check_settings(
    settings: Settings, names: Sequence[str], test: RankingDataset
) -> None:
    """Raises the error of a comparison of rankers with these names, before any of them is trained."""
    check_baseline(settings, names)
    convention = settings.convention
    scores = np.zeros(test.num_documents)
    for claimed in settings.claimed_metrics:
        if claimed is None:
            continue  # a metric of the runs, which are checked
        guard = settings.guard_of(claimed)
        evaluation = evaluate(test, scores, [guard.metric], convention)
        if guard.group:
            is_counted = ~np.isnan(evaluation.per_query[guard.metric])
            queries = _CountedQueries((test,), np.flatnonzero(is_counted))
            of_metric = convention.of(parse_metric(guard.metric)[0])
            group_of_queries(queries, guard.group, of_metric)


def _check_experiments(experiments: Sequence[Experiment]) -> None:
    """Raises the error of the first experiment that cannot be run, before any of them is."""
    for experiment in experiments:
        splits, _ = load_once(experiment.source)
        check_splits(experiment, splits)
        check_metrics(experiment.metrics, splits)


def _remove_runs(folder: Path, overwrite: bool) -> None:
    """Deletes the numbered runs in a folder; raises ResultError if there are some and not `overwrite`."""
    parents = [file.parent for file in folder.glob(f"*/{RESULT_FILE}")]
    earlier = [parent for parent in parents if parent.name.isdecimal()]
    if earlier and not overwrite:
        raise ResultError(
            f"{folder} has runs. Set overwrite=True to replace them, or choose another folder."
        )
    for run_folder in earlier:
        shutil.rmtree(run_folder)


@contextlib.contextmanager
def _progress(experiments: Sequence[Experiment]) -> Iterator[Iterable[Experiment]]:
    """Provides the experiments, with a bar in notebooks and terminals if tqdm is installed, and prints the
    log of ltrbench to standard error, unless the process shows it already."""
    handler = logging.StreamHandler()
    level = log.level
    if not log.isEnabledFor(logging.INFO):
        log.addHandler(handler)
        log.setLevel(logging.INFO)
    shown = experiments
    redirected = contextlib.nullcontext()
    with contextlib.suppress(ImportError):
        from tqdm.auto import tqdm
        from tqdm.contrib.logging import logging_redirect_tqdm

        shown = tqdm(experiments, unit="fit", disable=None)
        redirected = logging_redirect_tqdm([log])
    try:
        with redirected:
            yield shown
    finally:
        log.setLevel(level)
        log.removeHandler(handler)
