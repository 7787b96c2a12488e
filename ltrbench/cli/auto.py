"""The verb `auto` and `ltrbench.auto`: from a table to a shipped model within a given time.

It is a plan of steps over the other commands. Each step is the words of a command line, which run in this
process and are listed in `commands.sh`; what they print is in `auto.log`. Nothing else trains, compares or
ships.

    Order       what the user asks for
    Journal     what has been done, so that the same command goes on
    Clock       the time spent, and the line that shows it
    Auto        the steps
    answer      the page about the outcome
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import logging
import math
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import click
import numpy as np

from ltrbench.cli.console import (
    OK,
    OUT_OF_TIME,
    PATH,
    PROGRAM,
    RUN_INTERRUPTED,
    echo,
    split_settings,
    wrapped,
    write_output,
)
from ltrbench.cli.launch import launch
from ltrbench.cli.verbs import verbs
from ltrbench.cli.verbs.data import default_rankers, plan_of, write_plan
from ltrbench.data.blocks import check_option, without_compression_ending
from ltrbench.data.dataset import MISSING
from ltrbench.data.features import row_blocks
from ltrbench.data.score_files import read_score_file
from ltrbench.data.sources import FileSource
from ltrbench.errors import ConfigError, DataError, LtrbenchError, ResultError, require
from ltrbench.experiment.columns import TIME, DataPlan, about_columns, about_data
from ltrbench.experiment.loading import nothing_to_learn
from ltrbench.folders import backends
from ltrbench.metrics import parse_metric
from ltrbench.models.files import is_model_file
from ltrbench.rankers.base import Ranker, refuse
from ltrbench.runs.origin import Trial
from ltrbench.runs.record import (
    INTERRUPTED,
    Run,
    find_runs_and_trials,
    holds_runs,
    quoted,
    writing_to,
)
from ltrbench.shipping.destination import Destination
from ltrbench.statistics.claims import BETTER, WORSE, winner_intervals
from ltrbench.sweep.searching import on_validation
from ltrbench.tables import Table, TableRow, columns_of, duration, listed
from ltrbench.untrusted import read_json

if TYPE_CHECKING:
    import pandas as pd

    from ltrbench.compare import Comparison
    from ltrbench.runs import LoadedModel

BASELINE = "single_feature"
DEFAULT_METRIC = "ndcg@10"
_PART = 0.1
"""Part of the training queries of the fit by which the time of a slow model is predicted."""

PRODUCTION = "production"
"""Name of the row of `--production`."""

FEWEST_QUERIES = 20
"""Number of queries below which no test set says anything."""
_FOLDS = ((1000, 5), (5000, 3))
"""Number of queries below which validation is a cross-validation -> number of folds; without times."""

CLEARLY_WORSE = 0.01
"""Difference of the metric on validation from which a model that is significantly worse gets no more time."""

MOST_TRIALS = 200
"""Number of settings of each model after which a search ends early."""

_SHARE_OF_FIRST_FITS = 0.4
"""Share of the time after which no further model is tried."""
_SHARE_OF_ROUND = 0.5
"""Share of the time left for the search that its next round may take; after each round, the time to keep for
the end is predicted again, by the best settings so far."""
_SETTINGS_OF_ROUND = 2
"""Number of settings of each model that a round has the time for at least."""
_SECONDS_OF_COMMAND = 4.0
"""Time that is kept for each command after the search, without its fits."""
_FITS_AT_THE_END = 1.5
"""The chosen settings of all models are trained once more for the table, and those of one on all queries."""
_FINAL_FIT = 1.0
"""Time of the fit on all queries, as a multiple of a fit of the table: that one has two thirds of them, but
goes on until early stopping ends it."""
_MOST_OVERTIME = 0.1
"""Share of the time asked for that the fits at the end may add."""
_SHORT_FIT = 0.1
"""Share of the time of the best model's fit up to which another model is trained again in any case."""
_FEWEST_TRIALS = 16
"""Number of settings of each model for which the slowest models are left out of the search."""
_FEWEST_TO_SEARCH = 2
"""Number of settings of each model without which there is no search: the default ones on all folds, and
others. If the time suffices only without them, the models with the lowest metric are left out."""

_WIDTH = 99
"""Maximum number of characters of the line that shows the time."""

JOURNAL_FILE = "auto.json"
LOG_FILE = "auto.log"
ANSWER_FILE = "answer.md"
COMMANDS_FILE = "commands.sh"
_FOLDER = "OUTPUT_FOLDER"  # in the words of a step: the folder of the results
_SWEEP_FOLDER = f"hydra.sweep.dir={_FOLDER}/sweep"
_PART_FOLDER = "part"  # of the fits that predict times; deleted


# ---- What the user asks for, what has been done, and the time.


@dataclass(frozen=True, kw_only=True)
class Order:
    """What the user asks for.

    Attributes:
        table: the file.
        valid, test: files with the queries of validation and test; None: they are held out of the table.
        columns: role -> column, of the given roles.
        kept: features that stay, whatever speaks against them.
        missing: texts that are missing values beside the usual ones.
        target: name of the target to ship to; None: the model stays as it is.
        options: options of the target.
        production: file with the scores of the ranking in use.
        metric: metric of the choice and of the decision.
        output: folder of the results.
        seed: random seed of the split, all fits and searches.
    """

    table: Path
    valid: Path | None = None
    test: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    target: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    production: Path | None = None
    metric: str = DEFAULT_METRIC
    output: Path = Path("auto")
    seed: int = 0

    @property
    def record(self) -> dict[str, Any]:
        """The order as it is in the journal."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self), default=str))
        for name, path in self.files.items():
            if path.exists():
                stamp = path.stat()
                plain[f"content of {name}"] = [stamp.st_size, stamp.st_mtime_ns]
        return plain

    @property
    def files(self) -> dict[str, Path]:
        """Name of an option -> the file that it names; "table" is the argument."""
        named = {
            "table": self.table,
            "valid": self.valid,
            "test": self.test,
            "production": self.production,
        }
        return {name: path for name, path in named.items() if path is not None}


@dataclass
class Journal:
    """What has been done, on disk after each step.

    Attributes:
        order: record of the order.
        seconds: time spent in all commands.
        left_out: model -> why it gets no more time.
        folds: number of folds on which models are trained, if there is no time for all of them; 0: all.
        trials: number of settings that each model of the search has tried.
        searched: whether the search has ended.
        chosen: model that validation chooses; empty before.
        done: whether the answer is complete.
    """

    order: Mapping[str, Any]
    seconds: float = 0.0
    left_out: dict[str, str] = field(default_factory=dict)
    folds: int = 0
    trials: int = 0
    searched: bool = False
    chosen: str = ""
    done: bool = False

    @classmethod
    def of(cls, order: Order) -> Journal:
        """Reads the journal of an order, or begins it.

        Raises:
            ConfigError: The folder has the results of another order.
        """
        path = order.output / JOURNAL_FILE
        if path.exists():
            journal = cls(**read_json(path, "Delete the folder and repeat the command"))
            if journal.order != order.record and journal.trials:
                names = [
                    name
                    for name, value in order.record.items()
                    if journal.order.get(name) != value
                ]
                raise ConfigError(
                    f"{order.output} has the results of a command with a different {listed(names)}. Name "
                    "another folder with --output, or delete it."
                )
            journal.order = order.record
            return journal
        if order.output.exists() and any(order.output.iterdir()):
            raise ConfigError(
                f"{order.output} has other files; name another folder with --output."
            )
        return cls(order.record)

    def write(self, folder: Path) -> None:
        text = json.dumps(vars(self), indent=2)
        write_output(f"{text}\n", folder / JOURNAL_FILE)


class Clock:
    """The time spent, of the time asked for, and the line on standard error that shows it.

    Args:
        budget: time asked for, in seconds.
        spent: time that earlier commands have spent.
    """

    def __init__(self, budget: float, spent: float = 0.0) -> None:
        self.budget = budget
        self._began = time.monotonic() - spent
        self._line = sys.stderr
        self._text = ""
        self._ended = threading.Event()

    @property
    def spent(self) -> float:
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        return self.budget - self.spent

    def say(self, text: str) -> None:
        """Shows what is done now; outside a terminal as a line of its own."""
        self._text = text
        if not self._line.isatty():
            print(self._now(), file=self._line, flush=True)

    def print(self, text: str) -> None:
        """Prints a text of its own."""
        end = "\x1b[K\n" if self._line.isatty() else "\n"
        print(text, end=end, file=self._line, flush=True)

    def _now(self) -> str:
        share = min(self.spent / self.budget, 1.0)
        left = duration(max(self.left, 0.0))
        return f"{share:4.0%}  {self._text}  (about {left} left)"

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Draws the line every second while the steps run."""
        if not self._line.isatty():
            yield
            return
        drawing = threading.Thread(target=self._draw, daemon=True)
        drawing.start()
        try:
            yield
        finally:
            self._ended.set()
            drawing.join()
            print("\r\x1b[K", end="", file=self._line, flush=True)

    def _draw(self) -> None:
        while not self._ended.wait(1.0):
            text = self._now()[:_WIDTH]
            print(f"\r{text}\x1b[K", end="", file=self._line, flush=True)


# ---- The steps.


def candidates() -> tuple[dict[str, Ranker], dict[str, str]]:
    """Returns the models that are tried, with their rankers of default settings, and model -> why a ranker
    cannot be imported.

    They are the backends of conf/model without yardsticks. Slow ones are the last, and those that need no
    package of others the first.
    """
    rankers, unavailable = default_rankers(backends())
    compared = [model for model, ranker in rankers.items() if not ranker.is_yardstick]

    def place(model: str) -> tuple[bool, bool]:
        return rankers[model].is_slow, bool(rankers[model].packages)

    compared.sort(key=place)
    return {model: rankers[model] for model in compared}, unavailable


class Auto:
    """The steps of an order.

    Args:
        minutes: time asked for.
    """

    def __init__(self, order: Order, minutes: float) -> None:
        require("--minutes", minutes, above=0)
        self.order = order
        self.journal = Journal.of(order)
        self.clock = Clock(60 * minutes, self.journal.seconds)
        self._settings: TriedSettings = {}

    @property
    def folder(self) -> Path:
        return self.order.output

    @property
    def sweep(self) -> Path:
        return self.folder / "sweep"

    def run(self, finish: bool = False, anyway: bool = False) -> str:
        """Takes all steps that are left, and returns the answer.

        Args:
            finish: end the search with what it has.
            anyway: ship a model that is not shown to be better.
        """
        self._check_order()
        path = self.folder / ANSWER_FILE
        if self.journal.done and (holds_runs(self.folder / "model") or not anyway):
            return path.read_text(encoding="utf-8")
        self.clock.say("reading the table")
        self._check_data()
        with writing_to(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        self._write()
        try:
            with self.clock.shown():
                answer = self._take_steps(finish, anyway)
        finally:
            self._write()
        write_output(answer, path)
        return answer

    def _take_steps(self, finish: bool, anyway: bool) -> str:
        self._write_data()
        self._say_data()
        if not self.journal.trials:
            self._check_splits()
            self._try_models()
        if not self.journal.searched:
            if not finish:
                self._search()
            self._leave_out_late()
            self.journal.searched = True
            self._write()
        self.clock.say("testing the chosen settings")
        self._run(self.table_words())
        self.journal.chosen = self._chosen()
        compared = self._compare()
        outcome = Outcome.read(
            compared, self.journal.chosen, self.baseline, self._rule()
        )
        is_shipped = outcome.is_better or anyway
        if is_shipped:
            self._make_model()
        self.journal.done = True
        self._write_commands(is_shipped)
        return answer(self, outcome, is_shipped)

    def _write(self) -> None:
        self.journal.seconds = self.clock.spent
        self.journal.write(self.folder)

    # Data and models.

    @cached_property
    def data(self) -> DataPlan:
        """How the table is read."""
        order = self.order
        return plan_of(
            order.table, order.columns, order.kept, order.target, self._missing
        )

    @property
    def _missing(self) -> list[str] | None:
        """All texts that are missing values; None: the usual ones."""
        if not self.order.missing:
            return None
        return [*sorted(MISSING - {""}), *self.order.missing]

    def _check_order(self) -> None:
        """Raises ConfigError if the order cannot be carried out, before anything is read."""
        if importlib.util.find_spec("optuna") is None:
            raise ConfigError("auto needs Optuna: pip install 'ltrbench[search]'")
        options = [f"{name}={value}" for name, value in self.order.options.items()]
        if options and self.order.target is None:
            raise ConfigError(
                f"--set {' '.join(options)} (options=) has no effect without --target NAME (target=). Add "
                "the target, or leave out its options."
            )
        if self.order.target is not None:
            Destination.of({"name": self.order.target, **self.order.options})
        for name, path in self.order.files.items():
            if name != "table" and not path.exists():
                raise ConfigError(f"--{name} {path} does not exist. Check the path.")
        parse_metric(self.order.metric)

    def _check_data(self) -> None:
        """Raises DataError if nothing can be learnt from the data, or no test set be held out."""
        dataset = self.data.dataset
        text = nothing_to_learn(dataset)
        if text:
            raise DataError(f"{self.order.table}: {text}")
        if dataset.num_queries < FEWEST_QUERIES:
            raise DataError(
                f"{self.order.table}: the number of queries is {dataset.num_queries}, too small to hold out "
                f"validation and test; {FEWEST_QUERIES} are the least, and hundreds are better. Check which "
                "column has the queries (--query)."
            )

    def _check_splits(self) -> None:
        """Raises LtrbenchError if the data cannot be split and trained on, or if documents of test have no
        scores of production."""
        with self._logging("checks of the splits"):
            test = self._source.load().test
        path = self.order.production
        if path is None or is_model_file(path):
            return
        roles = self.data.roles
        columns = {"query_id": roles["query"]} if "query" in roles else {}
        if "document" in roles:
            columns["document_id"] = roles["document"]
        scores = read_score_file(path, columns)
        scores.match(test, test.file_rows, "test")

    @property
    def _source(self) -> FileSource:
        """The data source of the sweep, with the first fold."""
        changes: dict[str, Any] = {
            name: str(path) for name, path in self.splits.items()
        }
        if self.all_folds > 1:
            changes |= {"cv": self.all_folds, "cv_split": "valid", "fold": 1}
        if TIME not in self.data.roles:
            changes["split_seed"] = self.order.seed
        elif self.splits:
            changes |= {"split_by": None, "gap": None, "ignore": self._not_features}
        return self.data.source(**changes)

    @property
    def _not_features(self) -> list[str]:
        """The columns that are not read if times have no effect."""
        return [*self.data.left_out, self.data.roles[TIME]]

    def _say_data(self) -> None:
        """Prints what the columns are taken for, and what speaks against the data, before the work."""
        for sentence in (*self.facts, *about_columns(self.data)):
            self.clock.print(wrapped(sentence, "  "))

    @cached_property
    def facts(self) -> list[str]:
        """What the columns are taken for, and what speaks against the data."""
        return list(about_data(self.data))

    def _write_data(self) -> None:
        """Writes how the table is read, as the command of `columns_words` does."""
        folder = self.folder / "conf" / "data"
        write_plan(self.data, folder / f"{self.data.name}.yaml")

    @cached_property
    def destination(self) -> Destination | None:
        """The target with its options: without a given one, a missing value is an absent feature."""
        order = self.order
        if order.target is None:
            return None
        options: dict[str, str] = dict(order.options)
        target = Destination.of({"name": order.target, **options}).target
        takes_absent = hasattr(target, "absent")
        if takes_absent and "absent" not in options and self._has_missing_values:
            options["absent"] = "missing"
        return Destination.of({"name": order.target, **options})

    @cached_property
    def _has_missing_values(self) -> bool:
        blocks = row_blocks(self.data.dataset.features)
        return any(np.isnan(block).any() for _, block in blocks)

    @cached_property
    def candidates(self) -> dict[str, Ranker]:
        """The models that are installed, take these data, and can be shipped, with their rankers; notes why
        others are left out.

        Raises:
            ConfigError: None can be shipped.
        """
        rankers, unavailable = candidates()
        reasons: dict[str, str] = {}
        for model, ranker in rankers.items():
            try:
                self._check_ranker(ranker)
            except LtrbenchError as error:
                reasons[model] = str(error)
        reasons |= unavailable
        self.journal.left_out |= reasons
        if rankers.keys() <= reasons.keys():
            raise ConfigError(next(iter(reasons.values())))
        return {
            model: ranker for model, ranker in rankers.items() if model not in reasons
        }

    def _check_ranker(self, ranker: Ranker) -> None:
        """Raises LtrbenchError if a model takes neither the data nor the target."""
        dataset = self.data.dataset
        refuse(ranker, dataset)
        if self.destination is not None:
            self.destination.check_data(ranker, dataset)

    # The first fits, and the search.

    def _try_models(self) -> None:
        """Trains each model with its default settings on one fold, as long as there is time."""
        tried: list[str] = []
        for model in self.candidates:
            self.clock.say(f"{model} with default settings")
            self.journal.left_out.pop(model, None)  # of an interrupted command
            # The first one is tried whatever the time.
            reason = self._lacks_time(model) if tried else ""
            if reason:
                self.journal.left_out[model] = reason
                continue
            self._run(self._trial_words([model], 1, folds=1))
            tried.append(model)
        runs = self._first_runs(tried)
        self._leave_out_clearly_worse(runs)
        first = {
            model: TimedFit(_seconds_of_fit(runs[model]), self._value(runs[model]))
            for model in self.searched
        }
        self._share_time(first)
        self.journal.trials = 1
        self._write()

    def _lacks_time(self, model: str) -> str:
        """Returns why there is no time to try a model; empty if there is."""
        allowed = _SHARE_OF_FIRST_FITS * self.clock.budget
        if self.clock.spent > allowed:
            return "no time was left to try it"
        if not self.candidates[model].is_slow:
            return ""
        words = [
            *self._trial_words([model], 1, folds=1),
            f"data.subset={_PART}",
        ]
        words[words.index(_SWEEP_FOLDER)] = f"hydra.sweep.dir={_FOLDER}/{_PART_FOLDER}"
        self._run(words)
        runs = find_runs_and_trials([self.folder / _PART_FOLDER])
        expected = max(map(_seconds_of_fit, runs)) / _PART
        shutil.rmtree(self.folder / _PART_FOLDER, ignore_errors=True)
        if self.clock.spent + expected <= allowed:
            return ""
        part = f"by a fit of {_PART:.0%} of the queries"
        return f"no time was left to try it: a fit would take about {duration(expected)}, {part}"

    def _first_runs(self, models: Sequence[str]) -> dict[str, Run]:
        """Returns model -> its run with default settings, without the models whose fit failed.

        Raises:
            ResultError: All failed.
        """
        runs: dict[str, Run] = {}
        for run in self.runs:
            if run.result.model in models and self._value(run) is not None:
                runs.setdefault(run.result.model, run)
        for model in models:
            if model not in runs:
                self.journal.left_out[model] = (
                    f"its fit failed: {self._failure([model])}"
                )
        if not runs:
            raise self._nothing_trained()
        return {model: runs[model] for model in models if model in runs}

    def _best_of(self, runs: Mapping[str, Run]) -> str:
        """Returns the model whose run has the highest metric on validation."""

        def value(model: str) -> float:
            found = self._value(runs[model])
            return -math.inf if found is None else found

        return max(runs, key=value)

    def _nothing_trained(self) -> ResultError:
        log = self.folder / LOG_FILE
        first = self._failure(self.candidates)
        return ResultError(
            f"no model could be trained; {log} has the reasons. The first one: {first}."
        )

    def _failure(self, models: Collection[str]) -> str:
        """Returns the reason of the first failure of models, without a full stop."""
        for run in self.runs:
            if run.result.error and run.result.model in models:
                reason, _, _ = run.result.error.partition("\n")
                return reason.rstrip(".")
        return f"{LOG_FILE} has the reason"

    def _leave_out_clearly_worse(self, runs: Mapping[str, Run]) -> None:
        """Leaves out the models that are significantly worse than the best on validation, and by much."""
        names = list(runs)
        best = names.index(self._best_of(runs))
        sample = on_validation([[run] for run in runs.values()], self.order.metric)
        for name, interval in zip(names, winner_intervals(sample, best), strict=True):
            if interval is not None and interval.high < -CLEARLY_WORSE:
                lower = (
                    f"lower than that of {names[best]} by {-interval.high:.3f} or more"
                )
                self.journal.left_out[name] = (
                    f"with default settings its {self.order.metric} on validation is {lower}"
                )

    def _share_time(self, first: Mapping[str, TimedFit]) -> None:
        """Chooses the number of folds, and leaves out models until there is time for a search of the others.

        Args:
            first: model -> its first fit.
        """
        left = self.clock.left - self._seconds_of_commands
        seconds = best_fit(first).seconds
        self.journal.folds = num_folds_in_time(seconds, left, self.all_folds)
        self.journal.left_out |= too_costly(first, left / self.num_folds)

    def _value(self, run: Run) -> float | None:
        return run.result.metrics.get(f"valid/{self.order.metric}")

    @property
    def runs(self) -> list[Run]:
        """The runs and trials of the sweep."""
        return find_runs_and_trials([self.sweep])

    @property
    def searched(self) -> list[str]:
        """The models whose settings are searched."""
        return [
            model for model in self.candidates if model not in self.journal.left_out
        ]

    def _search(self) -> None:
        """Tries settings of all models that are left, in rounds, until the time is spent."""
        self._count_settings()
        predicted = predict(self._settings, self.num_folds)
        while self.journal.trials < MOST_TRIALS:
            reserved = self._seconds_of_commands + predicted.at_the_end
            left = self.clock.left - reserved
            if left < predicted.to_next:
                return
            at_least = _SETTINGS_OF_ROUND * predicted.of_setting
            seconds = max(_SHARE_OF_ROUND * left, at_least)
            began = self.clock.spent
            before = seconds_of(self._settings)
            has_ended = self._round(min(seconds, left))
            if has_ended:
                return
            of_fits = seconds_of(self._settings) - before
            if of_fits > 0:
                # A round takes more time than its fits, to load the data and to write the runs.
                overhead = (self.clock.spent - began) / of_fits
                predicted = predict(self._settings, self.num_folds, overhead)

    def _round(self, seconds: float) -> bool:
        """Tries further settings of all models for some seconds, and returns whether there are no others."""
        names = ", ".join(self.searched)
        tried = self.journal.trials
        self.clock.say(f"searching settings of {names}; so far {tried} of each")
        words = self._trial_words(self.searched, MOST_TRIALS)
        words.append(f"stop_after={seconds / 60:.4f}")
        try:
            code = self._run(words, codes=(OK, OUT_OF_TIME))
        finally:
            self._count_settings()
            self._write()
        return code == OK

    def _count_settings(self) -> None:
        """Reads which settings have been tried."""
        self._settings = self._read_settings()
        complete = num_complete(self._settings, self.num_folds)
        # The first fits are on one fold, and count as a setting.
        self.journal.trials = max(complete, 1)

    def _read_settings(self) -> dict[str, list[TriedSetting]]:
        """Returns searched model -> the settings it has tried, in the order of the search."""
        runs: dict[str, list[Run]] = {model: [] for model in self.searched}
        for run in self.runs:
            is_trial = isinstance(run.result.origin, Trial)
            is_interrupted = run.result.error == INTERRUPTED
            if is_trial and not is_interrupted and run.result.model in runs:
                runs[run.result.model].append(run)
        settings: dict[str, list[TriedSetting]] = {}
        for model, of_model in runs.items():
            of_model.sort(key=lambda run: int(run.path.name))
            # The fits of a setting on all folds follow each other.
            firsts = range(0, len(of_model), self.num_folds)
            chunks = [of_model[first : first + self.num_folds] for first in firsts]
            settings[model] = [self._setting(chunk) for chunk in chunks]
        return settings

    def _setting(self, runs: Sequence[Run]) -> TriedSetting:
        """Returns a setting by its runs, at most one per fold."""
        values = [self._value(run) for run in runs]
        known = [value for value in values if value is not None]
        value = None
        if len(known) == len(runs):
            value = fmean(known)
        seconds = [_seconds_of_fit(run) for run in runs]
        return TriedSetting(TimedFit(fmean(seconds), value), seconds)

    @property
    def _seconds_of_commands(self) -> float:
        """The time to keep for the commands after the search, without their fits."""
        number = 2  # the table, and the fit on all queries
        if self.order.production is not None:
            number += 1
        if self.order.target is not None:
            number += 1
        return _SECONDS_OF_COMMAND * number

    def _leave_out_late(self) -> None:
        """Leaves out the last settings (without a search: folds), and then models, so that there is time to
        train the chosen settings again: some take far longer than others."""
        late = _MOST_OVERTIME * self.clock.budget
        left = self.clock.left + late - self._seconds_of_commands
        settings = self._read_settings()
        trials = num_in_time(settings, self.journal.trials, left, self.num_folds)
        self.journal.trials = trials
        best = best_settings(settings, trials)
        if trials == 1:
            seconds = best_fit(best).seconds
            self.journal.folds = num_folds_in_time(seconds, left, self.num_folds)
        self.journal.left_out |= too_late(best, left, self.num_folds)

    def _chosen(self) -> str:
        """Returns the model with the highest metric on validation, of the runs of the table."""
        values: dict[str, list[float]] = {}
        for run in self.runs:
            value = self._value(run)
            if isinstance(run.result.origin, Trial) or value is None:
                continue
            if run.result.model != BASELINE:
                values.setdefault(run.result.model, []).append(value)
        if not values:
            raise self._nothing_trained()
        return max(values, key=lambda model: fmean(values[model]))

    def _rule(self) -> str:
        """Returns how the queries were divided, of the first run of the table."""
        runs = (run for run in self.runs if not isinstance(run.result.origin, Trial))
        rules = [str(next(runs).result.data.get("rule", ""))]
        rules += [f"{name}: {path}" for name, path in self.splits.items()]
        if self.num_folds < self.all_folds:
            of_all = f"{self.num_folds} of these {self.all_folds} folds"
            rules.append(f"trained on {of_all}, because time was short")
        return "; ".join(filter(None, rules))

    # The words of the commands.

    @property
    def num_folds(self) -> int:
        """Number of folds on which models are trained."""
        return self.journal.folds or self.all_folds

    @property
    def all_folds(self) -> int:
        """Number of folds of validation; 1 with times, when later queries are validation, and with files of
        validation or test."""
        if TIME in self.data.roles or self.splits:
            return 1
        number = self.data.dataset.num_queries
        return next((folds for most, folds in _FOLDS if number < most), 1)

    @property
    def splits(self) -> dict[str, Path]:
        """Split -> the file with its queries, of those that are not held out of the table."""
        files = self.order.files
        return {name: files[name] for name in ("valid", "test") if name in files}

    @property
    def baseline(self) -> str:
        return BASELINE if self.order.production is None else f"{PRODUCTION} (imported)"

    def columns_words(self) -> list[str]:
        """Returns the words of the command that writes how the table is read."""
        order = self.order
        words = ["inspect", str(order.table)]
        words += ["--yaml", f"{_FOLDER}/conf/data/{self.data.name}.yaml"]
        for role, column in order.columns.items():
            words += ["--read", f"{role}={column}"]
        if self._missing is not None:
            texts = json.dumps(self._missing, ensure_ascii=False)
            words += ["--read", f"missing={texts}"]
        for column in order.kept:
            words += ["--keep-feature", column]
        if order.target is not None:
            words += ["--target", order.target]
        return words

    def _sweep_words(
        self, models: Sequence[str], trials: int, folds: int | None = None
    ) -> list[str]:
        """Returns the words of a sweep; without trials, it has no search."""
        order = self.order
        folds = folds or self.num_folds
        words = [
            *("--config-dir", f"{_FOLDER}/conf"),
            f"data={self.data.name}",
            f"model={','.join(models)}",
            *self._words_of_splits(),
        ]
        if self.all_folds > 1:
            words += [f"cv={self.all_folds}", "cv_split=valid"]
        if folds < self.all_folds:
            numbers = map(str, range(1, folds + 1))
            words.append(f"data.fold={','.join(numbers)}")
        if trials:
            words += ["search=tpe", f"search.trials={trials}"]
            words += ["search.choose=overall"] if self.all_folds > 1 else []
            if order.metric != DEFAULT_METRIC:
                words.append(f"search.metric={order.metric}")
        if order.seed and TIME not in self.data.roles:
            words.append(f"data.split_seed={order.seed}")
        if order.metric != DEFAULT_METRIC:
            words += [f"metrics=[{order.metric}]"]
            words.append(f"early_stopping.metric={order.metric}")
        if self.destination is not None:
            options = {"name": order.target, **self.destination.options}
            named = [f"{name}: {value}" for name, value in options.items()]
            words.append(f"target={{{', '.join(named)}}}")
        if order.seed:
            words.append(f"seed={order.seed}")
        return [*words, "tracking=none", "-m", _SWEEP_FOLDER]

    def _words_of_splits(self) -> Iterator[str]:
        """Yields the words of the files of validation and test, with which times have no effect."""
        for name, path in self.splits.items():
            yield f"data.{name}={quoted(str(path))}"
        if self.splits and TIME in self.data.roles:
            yield from ("data.split_by=null", "data.gap=null")
            yield f"data.ignore=[{','.join(map(quoted, self._not_features))}]"

    def _trial_words(
        self, models: Sequence[str], trials: int, folds: int | None = None
    ) -> list[str]:
        """Returns the words of a command that tries settings and sees no test query.

        Args:
            folds: number of the first folds that it trains on; None: those of the table.
        """
        return [*self._sweep_words(models, trials, folds), "only_trials=true"]

    def table_words(self) -> list[str]:
        """Returns the words of the command that trains the chosen settings, and evaluates them on test."""
        # A search with the default settings alone would train them twice.
        trials = self.journal.trials if self.journal.trials > 1 else 0
        words = self._sweep_words([BASELINE, *self.searched], trials)
        # The second look is the comparison with production.
        return words if self.order.production is None else [*words, "looks=2"]

    def compare_words(self) -> list[str]:
        return [
            *("compare", f"{_FOLDER}/sweep", f"{PRODUCTION}={self.order.production}"),
            *("--baseline", self.baseline, "--primary", self.order.metric),
            *("--looks", "2", "--output", f"{_FOLDER}/comparison"),
        ]

    def final_words(self) -> list[str]:
        return [
            *("final", f"{_FOLDER}/sweep", "--model", self.journal.chosen),
            *("--metric", self.order.metric, "--output", f"{_FOLDER}/model"),
        ]

    def ship_words(self) -> list[str]:
        assert self.destination is not None
        to = shlex.split(self.destination.words)
        return ["ship", f"{_FOLDER}/model", *to, "--output", f"{_FOLDER}/shipped"]

    # What follows the search.

    def _compare(self) -> Path:
        """Compares the runs with production; returns the folder of the comparison."""
        if self.order.production is None:
            return self.sweep / "comparison"
        self.clock.say(f"comparing with {PRODUCTION}")
        self._run(self.compare_words())
        return self.folder / "comparison"

    def _make_model(self) -> None:
        """Trains the chosen settings on all labelled queries, and ships the model if there is a target."""
        if not holds_runs(self.folder / "model"):
            self.clock.say(f"training {self.journal.chosen} on all queries")
            self._run(self.final_words())
        if self.destination is not None and not (self.folder / "shipped").exists():
            self.clock.say(f"shipping to {self.order.target}")
            self._run(self.ship_words())

    def _write_commands(self, is_shipped: bool) -> None:
        """Writes the commands that give the same model, step by step."""
        steps = [self.columns_words(), self.table_words()]
        if self.order.production is not None:
            steps.append(self.compare_words())
        if is_shipped:
            steps.append(self.final_words())
            if self.destination is not None:
                steps.append(self.ship_words())
        lines = [
            "#!/bin/sh",
            f"# The same work as {PROGRAM} auto, step by step, into a new folder: sh {COMMANDS_FILE} FOLDER",
            "# The first step writes which columns are features, and why others are left out.",
            "set -e",
            "out=${1:?Name a new folder}",
        ]
        for words in steps:
            line = shlex.join(["python", "-m", "ltrbench", *words])
            lines.append(line.replace(_FOLDER, '"$out"'))
        write_output("\n".join(lines) + "\n", self.folder / COMMANDS_FILE)

    def _run(self, words: Sequence[str], codes: Collection[int] = (OK,)) -> int:
        """Runs a command in this process, and returns its exit code; what it prints goes to the log.

        Args:
            codes: exit codes that are no failure.

        Raises:
            KeyboardInterrupt: Ctrl-C ended the command, which has saved what it could.
            LtrbenchError: The command could not start, or failed.
        """
        given = [word.replace(_FOLDER, str(self.folder)) for word in words]
        line = shlex.join(["python", "-m", "ltrbench", *given])
        with self._logging(f"$ {line}"):
            code = _exit_code_of(given)
        if code == RUN_INTERRUPTED:
            raise KeyboardInterrupt
        if code not in codes:
            path = self.folder / LOG_FILE
            raise ResultError(f"{line} failed; the end of {path} has the reason.")
        return code

    @contextlib.contextmanager
    def _logging(self, title: str) -> Iterator[None]:
        """Writes what the block prints to the log, below a title."""
        path = self.folder / LOG_FILE
        with path.open("a", encoding="utf-8") as log:
            log.write(f"\n{title}\n")
            with _printing_to(log):
                yield


@contextlib.contextmanager
def _printing_to(log: TextIO) -> Iterator[None]:
    """Redirects what is printed, and restores the handlers of messages, which Hydra replaces by others."""
    loggers = [logging.getLogger(), logging.getLogger("ltrbench")]
    handlers = [list(logger.handlers) for logger in loggers]
    levels = [logger.level for logger in loggers]
    try:
        with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            yield
    finally:
        for logger, of_logger, level in zip(loggers, handlers, levels, strict=True):
            logger.handlers[:] = of_logger
            logger.setLevel(level)


def _seconds_of_fit(run: Run) -> float:
    """Returns the time of a fit with its validation."""
    seconds = run.result.seconds
    return sum(seconds.get(name, 0.0) for name in ("fit", "monitor", "predict"))


class TimedFit(NamedTuple):
    """A fit on one fold: its time, and the metric on validation."""

    seconds: float
    value: float | None

    @property
    def rank(self) -> float:
        """The metric, the lowest of all where there is none."""
        return -math.inf if self.value is None else self.value


class TriedSetting(NamedTuple):
    """A setting of a model that the search has tried, perhaps not yet on all folds.

    Attributes:
        fit: the mean of its fits.
        seconds: the time of each fit.
    """

    fit: TimedFit
    seconds: Sequence[float]


TriedSettings = Mapping[str, Sequence[TriedSetting]]
"""Model -> the settings that it has tried, in the order of the search."""


def seconds_of(settings: TriedSettings) -> float:
    """Returns the time of all fits of all settings."""
    total = 0.0
    for of_model in settings.values():
        total += sum(sum(setting.seconds) for setting in of_model)
    return total


def num_complete(settings: TriedSettings, num_folds: int) -> int:
    """Returns the number of settings that each model has tried on all folds."""
    numbers: list[int] = []
    for of_model in settings.values():
        are_complete = [len(setting.seconds) == num_folds for setting in of_model]
        numbers.append(sum(are_complete))
    return min(numbers)


def seconds_to_next(settings: TriedSettings, num_folds: int) -> float:
    """Returns the time of the fits after which each model has tried one more setting on all folds.

    >>> settings = {"a": [TriedSetting(TimedFit(2, 0.8), [2, 2])], "b": [TriedSetting(TimedFit(3, 0.7), [3])]}
    >>> seconds_to_next(settings, num_folds=2)
    3.0
    """
    number = num_complete(settings, num_folds)
    total = 0.0
    for of_model in settings.values():
        mean = fmean(setting.fit.seconds for setting in of_model)
        num_ended = 0
        if len(of_model) > number:
            mean = of_model[number].fit.seconds
            num_ended = len(of_model[number].seconds)
        total += (num_folds - num_ended) * mean
    return total


def best_settings(settings: TriedSettings, number: int) -> dict[str, TimedFit]:
    """Returns model -> the mean fit of the best of its first settings.

    Args:
        number: number of the first settings of each model.
    """
    best: dict[str, TimedFit] = {}
    for model, of_model in settings.items():
        fits = [setting.fit for setting in of_model[:number]]
        best[model] = max(fits, key=lambda fit: fit.rank)
    return best


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Times that the fits so far predict, seconds.

    Attributes:
        of_setting: one setting of each model on all folds.
        to_next: the fits after which each model has tried one more setting.
        at_the_end: the fits after the search.
    """

    of_setting: float
    to_next: float
    at_the_end: float


def predict(
    settings: TriedSettings, num_folds: int, overhead: float = 1.0
) -> Prediction:
    """Returns the times that the settings tried so far predict.

    Args:
        overhead: time of a round of the search divided by that of its fits.
    """
    of_one_fold = 0.0
    for of_model in settings.values():
        of_one_fold += fmean(setting.fit.seconds for setting in of_model)
    of_setting = overhead * num_folds * of_one_fold
    at_the_end = _FITS_AT_THE_END * of_setting
    number = num_complete(settings, num_folds)
    if number:
        best = best_settings(settings, number)
        of_best = overhead * seconds_at_the_end(best, num_folds)
        at_the_end = min(at_the_end, of_best)
    return Prediction(
        of_setting=of_setting,
        to_next=overhead * seconds_to_next(settings, num_folds),
        at_the_end=at_the_end,
    )


def num_in_time(
    settings: TriedSettings, number: int, left: float, num_folds: int
) -> int:
    """Returns the largest number of first settings of each model for which the best one of all can be trained
    again in time; all of them if there is no such number.

    A slow setting that is the best one can take more time than is left for the fits at the end.

    Args:
        number: number of settings that each model has tried on all folds.
        left: time that may be spent, seconds.
        num_folds: number of fits of each model, one for each fold.

    >>> fits = [TimedFit(1, 0.7), TimedFit(2, 0.8), TimedFit(30, 0.9)]
    >>> settings = {"a": [TriedSetting(fit, [fit.seconds]) for fit in fits]}
    >>> [num_in_time(settings, 3, left, num_folds=1) for left in (100, 10, 1)]
    [3, 2, 3]
    """
    for fewer in range(number, 0, -1):
        best = best_fit(best_settings(settings, fewer))
        if (num_folds + _FINAL_FIT) * best.seconds <= left:
            return fewer
    return number


def best_fit(fits: Mapping[str, TimedFit]) -> TimedFit:
    """Returns the fit with the highest metric of all models."""
    return max(fits.values(), key=lambda fit: fit.rank)


def _fastest_after_best(fits: Mapping[str, TimedFit]) -> tuple[str, list[str]]:
    """Returns the model with the highest metric, and all models: this one first, then by time."""
    best = max(fits, key=lambda model: fits[model].rank)
    others = [model for model in fits if model != best]
    others.sort(key=lambda model: fits[model].seconds)
    return best, [best, *others]


def seconds_at_the_end(chosen: Mapping[str, TimedFit], num_folds: int) -> float:
    """Returns the time of the fits at the end: of each model on each fold, and of the best on all queries.

    Args:
        chosen: model -> a fit with its chosen settings.
        num_folds: number of fits of each model, one for each fold.

    >>> seconds_at_the_end({"a": TimedFit(2, 0.8), "b": TimedFit(1, 0.7)}, num_folds=5)
    17.0
    """
    of_one_fold = sum(fit.seconds for fit in chosen.values())
    return num_folds * of_one_fold + _FINAL_FIT * best_fit(chosen).seconds


def num_folds_in_time(seconds: float, left: float, num_folds: int) -> int:
    """Returns the number of folds, at least 1, on which there is time to train a model, and once more on all
    queries.

    Args:
        seconds: time of a fit.
        left: time that may be spent, seconds.
        num_folds: number of all folds.

    >>> [num_folds_in_time(10, left, num_folds=5) for left in (100, 50, 10)]
    [5, 4, 1]
    """
    fitting = math.floor(left / max(seconds, 1e-3) - _FINAL_FIT)
    return max(1, min(fitting, num_folds))


def too_late(
    chosen: Mapping[str, TimedFit], left: float, num_folds: int
) -> dict[str, str]:
    """Returns model -> why it is left out, so that there is time for the fits at the end.

    The slowest are left out first; the best one stays, and is trained once more on all queries, and so do
    models whose fits are short beside its own.

    Args:
        chosen: model -> a fit with its chosen settings.
        left: time that may be spent, seconds.
        num_folds: number of fits of each model, one for each fold.

    >>> chosen = {"a": TimedFit(2, 0.8), "b": TimedFit(1, 0.7), "c": TimedFit(9, 0.6)}
    >>> [list(too_late(chosen, left, num_folds=5)) for left in (100, 20, 10)]
    [[], ['c'], ['c', 'b']]
    >>> list(too_late({"a": TimedFit(20, 0.8), "b": TimedFit(1, 0.7)}, 10, num_folds=5))
    []
    """
    best, kept = _fastest_after_best(chosen)
    reasons: dict[str, str] = {}
    while len(kept) > 1:
        fits = {model: chosen[model] for model in kept}
        slowest = chosen[kept[-1]].seconds
        is_short = slowest <= _SHORT_FIT * chosen[best].seconds
        if is_short or seconds_at_the_end(fits, num_folds) <= left:
            break
        again = duration(num_folds * slowest)
        reasons[kept.pop()] = (
            f"no time was left to train its chosen settings again, about {again}"
        )
    return reasons


def too_costly(first: Mapping[str, TimedFit], left: float) -> dict[str, str]:
    """Returns model -> why it is left out, so that there is time for a search of the others.

    The slowest are left out first; then those with the lowest value, if there is a search only without them.
    The best one and one other stay. None is left out if there is no time for a search of these two either.

    Args:
        first: model -> its first fit.
        left: time for all fits on one fold, seconds.

    >>> first = {"a": TimedFit(5, 0.8), "b": TimedFit(1, 0.7), "c": TimedFit(2, 0.6)}
    >>> [list(too_costly(first, left)) for left in (200, 100, 22, 10)]
    [[], [], ['c'], []]
    """

    def lasts(models: Collection[str], trials: int) -> bool:
        of_all = sum(first[model].seconds for model in models)
        return of_all * (trials + _FITS_AT_THE_END) <= left

    _, kept = _fastest_after_best(first)
    without = "without it each other model can try more settings"
    slow: dict[str, str] = {}
    while len(kept) > 2 and not lasts(kept, _FEWEST_TRIALS):
        seconds = first[kept[-1]].seconds
        if seconds < fmean(first[model].seconds for model in kept):
            break  # it is no slower than the others
        slow[kept.pop()] = f"a fit takes {seconds:.1f} s; {without}"
    kept.sort(key=lambda model: first[model].rank, reverse=True)
    weak: dict[str, str] = {}
    while len(kept) > 2 and not lasts(kept, _FEWEST_TO_SEARCH):
        lowest = "its metric on validation is the lowest of those left"
        weak[kept.pop()] = f"{lowest}; {without}"
    if not lasts(kept, _FEWEST_TO_SEARCH):
        return {}  # nothing is gained: there is no search in any case
    return slow | weak


def _exit_code_of(words: Sequence[str]) -> int:
    """Runs a command line, and returns its exit code."""
    sys.argv = ["ltrbench", *words]
    try:
        if "=" in words[0] or words[0].startswith("-"):
            return launch(list(words))
        outcome = verbs.main(list(words), prog_name=PROGRAM, standalone_mode=False)
    except click.Abort:
        return RUN_INTERRUPTED
    return outcome if isinstance(outcome, int) else OK


# ---- The outcome, and the page about it.


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the table, on test.

    Attributes:
        value: the metric.
        difference: it minus that of the baseline; None for the baseline, or if they cannot be paired.
        low, high: ends of the interval of the difference; None without one.
        claim: better, worse, equivalent or undecided; empty for the baseline.
    """

    label: str
    value: float
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    claim: str = ""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The claims about the models on test.

    Attributes:
        rows: all rows, the highest value first.
        chosen: row of the model that validation chose.
        baseline: row that it is compared with.
        level: 1 minus the probability that all intervals hold together.
        num_queries: number of queries of test.
        rule: how the queries were divided.
    """

    rows: Sequence[Row]
    chosen: Row
    baseline: Row
    level: float
    num_queries: int
    rule: str

    @property
    def is_better(self) -> bool:
        return self.chosen.claim == BETTER

    @classmethod
    def read(cls, folder: Path, chosen: str, baseline: str, rule: str) -> Outcome:
        """Reads the claims from the files of a comparison.

        Args:
            chosen: name of the chosen model.
            baseline: label of the baseline.
        """
        record = read_json(folder / "comparison.json", "Repeat the command")
        metric = record["metric"]
        pairs = [pair for pair in record["pairs"] if pair["metric"] == metric]
        rows = [_row(row, baseline, metric, pairs) for row in record["rows"]]
        rows.sort(key=lambda row: -row.value)
        labels = [row.label for row in rows]
        models = [label.partition(" ")[0] for label in labels]
        return cls(
            rows=rows,
            chosen=rows[models.index(chosen)],
            baseline=rows[labels.index(baseline)],
            level=record["level"],
            num_queries=max(pair["num_queries"] for pair in pairs),
            rule=rule,
        )


def _row(
    record: Mapping[str, Any],
    baseline: str,
    metric: str,
    pairs: Sequence[Mapping[str, Any]],
) -> Row:
    """Returns a row with its claim against the baseline."""
    label = record["label"]
    row = Row(label=label, value=record["metrics"][metric])
    for pair in pairs:
        claim = pair["models"]
        low, high = claim["interval"] or (None, None)
        if (pair["a"], pair["b"]) == (label, baseline):
            difference = claim["difference"]
            return replace(
                row, difference=difference, low=low, high=high, claim=claim["claim"]
            )
        if (pair["b"], pair["a"]) == (label, baseline):
            turned = {BETTER: WORSE, WORSE: BETTER}
            return replace(
                row,
                difference=-claim["difference"],
                low=None if high is None else -high,
                high=None if low is None else -low,
                claim=turned.get(claim["claim"], claim["claim"]),
            )
    return row


def answer(auto: Auto, outcome: Outcome, is_shipped: bool) -> str:
    """Returns the page: what was chosen, how sure that is, what was left out, and what to do next."""
    parts = [
        f"# {_headline(auto, outcome, is_shipped)}",
        _claim_in_words(auto, outcome),
        _table(auto, outcome).markdown(),
        *_paragraphs("Data", [*auto.facts, f"{outcome.rule}."]),
        *_paragraphs("Left out", [*about_columns(auto.data), *_about_models(auto)]),
        *_paragraphs("Next", _next_steps(auto, is_shipped)),
    ]
    return "\n\n".join(parts) + "\n"


def _headline(auto: Auto, outcome: Outcome, is_shipped: bool) -> str:
    chosen = outcome.chosen.label
    baseline = outcome.baseline.label
    if outcome.is_better:
        return f"{auto.data.name}: {chosen} is better than {baseline}"
    no_model = "" if is_shipped else ", so no model is made"
    return f"{auto.data.name}: no model is shown to be better than {baseline}{no_model}"


def _claim_in_words(auto: Auto, outcome: Outcome) -> str:
    chosen = outcome.chosen
    baseline = outcome.baseline
    metric = auto.order.metric
    difference = "they cannot be compared"
    if chosen.difference is not None:
        form = f"{chosen.difference:+.4f}"
        if chosen.low is not None and chosen.high is not None:
            level = f"{100 * (1 - outcome.level):g} % interval"
            form += f" ({level} {chosen.low:+.4f} to {chosen.high:+.4f})"
        difference = f"the difference is {form}"
    trials = auto.journal.trials
    tuned = "their default settings"
    if trials > 1:
        tuned = f"the best of {trials} settings of each"
    models = f"models: {listed(auto.searched)}, with {tuned}"
    return wrapped(
        f"{chosen.label} has the highest {metric} on validation ({models}). "
        f"On {outcome.num_queries} test queries, by which no model or setting was chosen, its {metric} is "
        f"{chosen.value:.4f}, that of {baseline.label} {baseline.value:.4f}: {difference}."
    )


def _table(auto: Auto, outcome: Outcome) -> Table:
    against = f"difference to {outcome.baseline.label}"
    columns = columns_of(
        {"model": None, auto.order.metric: ".4f", against: None, "claim": None}
    )
    rows: list[TableRow] = []
    for row in outcome.rows:
        text = "-"
        if row.difference is not None:
            text = f"{row.difference:+.4f}"
        if row.low is not None and row.high is not None:
            text += f" [{row.low:+.4f}, {row.high:+.4f}]"
        rows.append([row.label, row.value, text, row.claim or "-"])
    return Table(columns, rows)


def _paragraphs(title: str, sentences: Iterable[str]) -> Iterator[str]:
    lines = [wrapped(f"- {sentence}", "  ") for sentence in sentences]
    if lines:
        yield f"## {title}"
        yield "\n".join(lines)


def _about_models(auto: Auto) -> Iterator[str]:
    for model, reason in auto.journal.left_out.items():
        yield f"The model {model} is left out: {reason.rstrip('.')}."


def _next_steps(auto: Auto, is_shipped: bool) -> Iterator[str]:
    folder = shlex.quote(str(auto.folder))
    new = f"NEW{auto.order.table.suffix}"
    if not is_shipped:
        yield (
            "To make the model nevertheless, repeat the command with --anyway. More judged queries, or "
            "features that say more, help more than further settings."
        )
    elif auto.destination is not None:
        yield f"To upload it: {folder}/shipped/README.md has the commands for {auto.order.target}."
    if is_shipped:
        yield f"To ask it for scores: {PROGRAM} serve {folder}/model"
        yield f"To watch it: {PROGRAM} monitor {folder}/model {new} --max-psi 0.2"
    yield f"All intervals and pictures: {outcome_folder(auto)}/report.html"
    yield f"The same work step by step: sh {folder}/{COMMANDS_FILE} FOLDER"
    yield f"To look at the runs in MLflow: {PROGRAM} sync {folder}/sweep, then {PROGRAM} ui"


def outcome_folder(auto: Auto) -> Path:
    """Returns the folder of the comparison with the baseline."""
    if auto.order.production is None:
        return auto.sweep / "comparison"
    return auto.folder / "comparison"


# ---- The command line, and Python.

_ROLES = ("label", "query", "document", "weight", "position")


@click.command("auto")
@click.argument("table", type=PATH)
@click.option(
    "--valid",
    type=PATH,
    metavar="FILE",
    help="File with the queries of validation, otherwise held out of TABLE.",
)
@click.option(
    "--test",
    type=PATH,
    metavar="FILE",
    help="File with the queries of test, otherwise held out of TABLE.",
)
@click.option("--label", metavar="COLUMN", help="Column of the labels or clicks.")
@click.option("--query", metavar="COLUMN", help="Column of the queries or sessions.")
@click.option("--document", metavar="COLUMN", help="Column of the ids of documents.")
@click.option("--weight", metavar="COLUMN", help="Column of the weights of queries.")
@click.option("--position", metavar="COLUMN", help="Column of the shown positions.")
@click.option(
    "--time",
    "split_by",
    metavar="COLUMN",
    help="Column of times; the latest queries are the test set.",
)
@click.option(
    "--target", metavar="NAME", help="Engine or library to ship to, as in ship --to."
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Option of the target; may be repeated.",
)
@click.option(
    "--minutes",
    type=float,
    default=10.0,
    show_default=True,
    help="Time for everything; the search ends so that the rest fits.",
)
@click.option(
    "--production",
    type=PATH,
    metavar="FILE",
    help="Table with query_id, document_id and score of the ranking in use, to be beaten.",
)
@click.option(
    "--keep-feature",
    "kept",
    multiple=True,
    metavar="COLUMN",
    help="Keep a feature that would be left out; may be repeated.",
)
@click.option(
    "--missing",
    multiple=True,
    metavar="TEXT",
    help="Text of missing values beside NA, null and the like; may be repeated.",
)
@click.option("--metric", default=DEFAULT_METRIC, show_default=True, metavar="NAME")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--finish", is_flag=True, help="End an interrupted search with what it has."
)
@click.option(
    "--anyway",
    is_flag=True,
    help="Make the model even if it is not shown to be better.",
)
@click.option(
    "--output",
    type=PATH,
    metavar="DIR",
    help="Folder of the results. Default: TABLE-auto in the current folder.",
)
def auto_verb(
    table: Path,
    *,
    valid: Path | None,
    test: Path | None,
    target: str | None,
    settings: tuple[str, ...],
    minutes: float,
    production: Path | None,
    kept: tuple[str, ...],
    missing: tuple[str, ...],
    metric: str,
    seed: int,
    finish: bool,
    anyway: bool,
    output: Path | None,
    **columns: str | None,
) -> int:
    """Makes a model from TABLE within --minutes: chooses columns, models and settings, tests the choice, and
    ships it if it is better.

    Columns that are not named are guessed, and columns that give the label away are left out. Models that are
    not clearly worse are searched for settings with equal budgets on validation. The best on validation is
    compared on test with production, or with the best single feature. The folder DIR has the model, its form
    for the target, answer.md, and commands.sh with the same work step by step. Ctrl-C loses nothing: the
    same command goes on.

    \b
        python -m ltrbench auto shop.parquet --label clicked --query session --minutes 10
        python -m ltrbench auto shop.parquet --target elasticsearch --production production.csv
    """
    order = Order(
        table=table,
        valid=valid,
        test=test,
        columns={role: column for role, column in columns.items() if column},
        kept=kept,
        missing=missing,
        target=target,
        options=split_settings("--set", settings),
        production=production,
        metric=metric,
        output=output or Path(f"{without_compression_ending(table).stem}-auto"),
        seed=seed,
    )
    auto = Auto(order, minutes)
    try:
        text = auto.run(finish, anyway)
    except KeyboardInterrupt:
        echo(
            f"interrupted; the same command goes on, and with --finish it ends the search at "
            f"{auto.journal.trials} settings of each model.",
            err=True,
        )
        return RUN_INTERRUPTED
    echo(text.rstrip())
    return OK


@dataclass(frozen=True)
class Result:
    """What `ltrbench.auto` returns.

    Attributes:
        folder: the folder of the results.
        answer: the page about the outcome, in Markdown.
        comparison: the models on test.
    """

    folder: Path
    answer: str
    comparison: Comparison

    @cached_property
    def model(self) -> LoadedModel:
        """The model, trained on all labelled queries.

        Raises:
            ResultError: No model was made, because none is shown to be better.
        """
        from ltrbench.runs import load

        return load(self.folder / "model")

    def _repr_markdown_(self) -> str:
        return self.answer


def auto(
    data: pd.DataFrame | str | Path,
    *,
    valid: str | Path | None = None,
    test: str | Path | None = None,
    label: str | None = None,
    query: str | None = None,
    document: str | None = None,
    time: str | None = None,
    weight: str | None = None,
    position: str | None = None,
    target: str | None = None,
    options: Mapping[str, str] = {},
    minutes: float = 10.0,
    production: str | Path | None = None,
    keep_features: Sequence[str] = (),
    missing: Sequence[str] = (),
    metric: str = DEFAULT_METRIC,
    seed: int = 0,
    anyway: bool = False,
    output: str | Path = "auto",
) -> Result:
    """Makes a model from a table within a given time, as the command `python -m ltrbench auto`.

    Args:
        data: the table, or its path; a DataFrame is written to OUTPUT-DIGEST.parquet.
        valid, test: files with the queries of validation and test; None: they are held out of `data`.
        label, query, document, time, weight, position: columns; None: guessed from names and contents.
        target: name of a target of the verb `ship`; None: the model stays as it is.
        options: options of the target.
        minutes: time for everything.
        production: table with query_id, document_id and score of the ranking in use.
        keep_features: features that stay, whatever speaks against them.
        missing: texts that are missing values beside NA, null and the like.
        anyway: make the model even if it is not shown to be better.
        output: folder of the results; the same call goes on with them.

    Raises:
        LtrbenchError: The table cannot be read, nothing can be learnt from it, or a step failed.
    """
    check_option("keep_features", keep_features, list)
    check_option("missing", missing, list)
    folder = Path(output)
    path = _path_of(data, folder)
    given = {
        **{"label": label, "query": query, "document": document, TIME: time},
        **{"weight": weight, "position": position},
    }
    order = Order(
        table=path,
        valid=None if valid is None else Path(valid),
        test=None if test is None else Path(test),
        columns={role: column for role, column in given.items() if column},
        kept=tuple(keep_features),
        missing=tuple(missing),
        target=target,
        options=dict(options),
        production=None if production is None else Path(production),
        metric=metric,
        output=folder,
        seed=seed,
    )
    steps = Auto(order, minutes)
    words = sys.argv
    try:
        text = steps.run(anyway=anyway)
    finally:
        sys.argv = words
    return Result(folder, text, _comparison(steps))


def _comparison(steps: Auto) -> Comparison:
    """Returns the comparison of the answer."""
    from ltrbench.cli.verbs.runs import load_splits
    from ltrbench.compare import Settings
    from ltrbench.compare.derived import Import, import_runs
    from ltrbench.sweep.ledger import compare_sweeps

    order = steps.order
    runs = [run for run in steps.runs if not isinstance(run.result.origin, Trial)]
    settings = Settings(metric=order.metric)
    declared = 1
    if order.production is not None:
        production = Import(PRODUCTION, str(order.production))
        runs += import_runs(production, runs, load_splits)
        settings = Settings(metric=order.metric, baseline=steps.baseline)
        declared = 2
    (comparison,) = compare_sweeps(runs, settings, declared)
    return comparison


def _path_of(data: pd.DataFrame | str | Path, folder: Path) -> Path:
    """Returns the path of a table; a frame is written beside the folder of the results, with a digest of its
    content in the name."""
    import pandas as pd

    from ltrbench.data.tables import write_frame

    if isinstance(data, str | Path):
        return Path(data)
    if not isinstance(data, pd.DataFrame):
        raise DataError(
            f"the data have the type {type(data).__name__}; pass the path of a table, or a DataFrame of "
            "pandas with columns of labels and queries."
        )
    try:
        hashes = pd.util.hash_pandas_object(data, index=False)
    except TypeError:  # of lists, which a table may have in columns that are left out
        hashes = pd.util.hash_pandas_object(data.astype(str), index=False)
    of_rows = hashes.to_numpy()
    names = ",".join(map(str, data.columns))
    content = hashlib.sha256(of_rows.tobytes() + names.encode())
    digest = content.hexdigest()[:8]
    path = folder.with_name(f"{folder.name}-{digest}.parquet")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_frame(data, path)
    return path
