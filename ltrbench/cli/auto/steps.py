"""The steps of `auto`, each the words of another command."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import shlex
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, TextIO

import click
import numpy as np

from ltrbench.cli.auto.answer import Answer, Outcome
from ltrbench.cli.auto.budget import (
    TimedFit,
    TriedSetting,
    TriedSettings,
    best_fit,
    best_model,
    best_settings,
    num_complete,
    num_folds_in_time,
    num_in_time,
    predict,
    seconds_of,
    too_costly,
    too_late,
)
from ltrbench.cli.auto.order import (
    DEFAULT_METRIC,
    SWEEP_FOLDER,
    Clock,
    Journal,
    Order,
)
from ltrbench.cli.console import (
    OK,
    OUT_OF_TIME,
    PROGRAM,
    RUN_INTERRUPTED,
    wrapped,
    write_output,
)
from ltrbench.cli.launch import launch
from ltrbench.cli.verbs import verbs
from ltrbench.cli.verbs.data import default_rankers, plan_of, write_plan
from ltrbench.cli.verbs.deployment import options_of_target
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
    in_quotes,
    quoted,
    writing_to,
)
from ltrbench.shipping.destination import Destination
from ltrbench.statistics.claims import winner_intervals
from ltrbench.sweep.searching import on_validation
from ltrbench.tables import duration, listed

BASELINE = "single_feature"
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
_MOST_OVERTIME = 0.1
"""Share of the time asked for that the fits at the end may add."""

LOG_FILE = "auto.log"
ANSWER_FILE = "answer.md"
COMMANDS_FILE = "commands.sh"
_FOLDER = "OUTPUT_FOLDER"  # in the words of a step: the folder of the results
_SWEEP_FOLDER = f"hydra.sweep.dir={_FOLDER}/{SWEEP_FOLDER}"
_PART_FOLDER = "part"  # of the fits that predict times; deleted


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
        self._check_order()
        order.check_paths()
        self.journal = Journal.of(order)
        self.clock = Clock(60 * minutes, self.journal.seconds)
        self._settings: TriedSettings = {}

    @property
    def folder(self) -> Path:
        return self.order.output

    @property
    def sweep(self) -> Path:
        return self.folder / SWEEP_FOLDER

    def run(self, finish: bool = False, anyway: bool = False) -> str:
        """Takes all steps that are left, and returns the answer.

        Args:
            finish: end the search with what it has.
            anyway: ship a model that is not shown to be better.
        """
        path = self.folder / ANSWER_FILE
        if self.journal.done and (holds_runs(self.folder / "model") or not anyway):
            self.clock.print(
                f"{path} is the answer of an earlier command; for another one, name another folder with "
                "--output."
            )
            return path.read_text(encoding="utf-8")
        self.journal.done = False
        self.clock.say("reading the table")
        self._check_data()
        with writing_to(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        self._write()
        try:
            with self.clock.shown():
                answer = self._take_steps(finish, anyway)
            write_output(answer, path)
            self.journal.done = True
        finally:
            self._write()
        return answer

    def _take_steps(self, finish: bool, anyway: bool) -> str:
        self._write_data()
        self._say_data()
        if not self.journal.tried:
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
        is_made = outcome.is_better or anyway
        if is_made:
            self._make_model()
        self._write_commands(is_made)
        page = Answer(
            order=self.order,
            data=self.data,
            facts=self.facts,
            models=self.searched,
            trials=self.journal.trials,
            left_out=self.journal.left_out,
            outcome=outcome,
            comparison=compared,
            sweep=self.sweep,
            commands=self.folder / COMMANDS_FILE,
            destination=self.destination,
            is_made=is_made,
        )
        return page.text()

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
        order = self.order
        options = [f"{name}={value}" for name, value in order.options.items()]
        if options and order.target is None:
            raise ConfigError(
                f"--set {' '.join(options)} (options=) has no effect without --target NAME (target=). Add "
                "the target, or leave out its options."
            )
        if order.target is not None:
            Destination.of({"name": order.target, **self._options_of_target})
        if TIME in order.columns and self.splits:
            files = listed([f"--{name}" for name in self.splits])
            raise ConfigError(
                f"--time {order.columns[TIME]} (time=) has no effect with {files}: files are the splits, and "
                "what is not in a file is held out at random. Leave out the one or the other."
            )
        parse_metric(order.metric)

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
        if not self._splits_by_time:
            changes["split_seed"] = self.order.seed
        if TIME in self.data.roles and self.splits:
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
        options = self._options_of_target
        target = Destination.of({"name": order.target, **options}).target
        takes_absent = hasattr(target, "absent")
        if takes_absent and "absent" not in options and self._has_missing_values:
            options["absent"] = "missing"
        return Destination.of({"name": order.target, **options})

    @property
    def _options_of_target(self) -> dict[str, Any]:
        assert self.order.target is not None
        return options_of_target(self.order.target, self.order.options)

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
            caution = self.destination.caution(ranker)
            if caution:
                raise ConfigError(caution)

    # The first fits, and the search.

    def _try_models(self) -> None:
        """Trains each model with its default settings on one fold, as long as there is time."""
        tried: list[str] = []
        for model in self.candidates:
            self.clock.say(f"{model} with default settings")
            self.journal.left_out.pop(model, None)  # of an interrupted command
            # The first one is tried whatever the time, and so are those of an interrupted command.
            reason = ""
            if tried and model not in self._trained:
                reason = self._lacks_time(model)
            if reason:
                self.journal.left_out[model] = reason
                continue
            self._run(self._trial_words([model], 1, folds=1))
            tried.append(model)
        runs = self._first_runs(tried)
        first = {
            model: TimedFit(_seconds_of_fit(run), self._value(run))
            for model, run in runs.items()
        }
        self._leave_out_clearly_worse(runs, best_model(first))
        self._share_time({model: first[model] for model in self.searched})
        self.journal.tried = True
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

    @property
    def _trained(self) -> set[str]:
        """The models with a run that has the metric."""
        return {run.result.model for run in self.runs if self._value(run) is not None}

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

    def _leave_out_clearly_worse(
        self, runs: Mapping[str, Run], best_on_validation: str
    ) -> None:
        """Leaves out the models that are significantly worse than the best on validation, and by much."""
        names = list(runs)
        best = names.index(best_on_validation)
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
        number = 3  # the table, its comparison, and the fit on all queries
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
        """Returns the model with the highest metric on validation, of the runs of the table.

        A model without a fold that others have cannot be compared with them.
        """
        values: dict[str, dict[object, float]] = {}
        for run in self.runs:
            value = self._value(run)
            if isinstance(run.result.origin, Trial) or value is None:
                continue
            if run.result.model != BASELINE:
                of_model = values.setdefault(run.result.model, {})
                of_model[run.result.data.get("fold")] = value
        if not values:
            raise self._nothing_trained()
        most = max(map(len, values.values()))
        whole = [model for model in values if len(values[model]) == most]
        return max(whole, key=lambda model: fmean(values[model].values()))

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
    def _splits_by_time(self) -> bool:
        return TIME in self.data.roles and not self.splits

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
        if order.seed and not self._splits_by_time:
            words.append(f"data.split_seed={order.seed}")
        if order.metric != DEFAULT_METRIC:
            words += [f"metrics=[{order.metric}]"]
            words.append(f"early_stopping.metric={order.metric}")
        if self.destination is not None:
            options = self.destination.options.items()
            named = [f", {name}: {_literal(value)}" for name, value in options]
            words.append(f"target={{name: {order.target}{''.join(named)}}}")
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
        # The only look is the comparison, also after an interruption of this command.
        return [*words, "looks=0"]

    def compare_words(self) -> list[str]:
        words = ["compare", f"{_FOLDER}/{SWEEP_FOLDER}"]
        if self.order.production is not None:
            words.append(f"{PRODUCTION}={self.order.production}")
        words += ["--baseline", self.baseline, "--primary", self.order.metric]
        return [*words, "--output", f"{_FOLDER}/comparison"]

    def final_words(self) -> list[str]:
        return [
            *("final", f"{_FOLDER}/{SWEEP_FOLDER}", "--model", self.journal.chosen),
            *("--metric", self.order.metric, "--output", f"{_FOLDER}/model"),
        ]

    def ship_words(self) -> list[str]:
        assert self.destination is not None
        to = shlex.split(self.destination.words)
        return ["ship", f"{_FOLDER}/model", *to, "--output", f"{_FOLDER}/shipped"]

    # What follows the search.

    def _compare(self) -> Path:
        """Compares the runs with the baseline; returns the folder of the comparison."""
        self.clock.say(f"comparing with {self.baseline}")
        self._run(self.compare_words())
        return self.folder / "comparison"

    def _make_model(self) -> None:
        """Trains the chosen settings on all labelled queries, and ships the model if there is a target."""
        if not holds_runs(self.folder / "model"):
            self.clock.say(f"training {self.journal.chosen} on all queries")
            self._run(self.final_words())
        # A refused model leaves only its certificate.
        readme = self.folder / "shipped" / "README.md"
        if self.destination is not None and not readme.exists():
            self.clock.say(f"shipping to {self.order.target}")
            self._run(self.ship_words())

    def _write_commands(self, is_made: bool) -> None:
        """Writes the commands that give the same model, step by step."""
        steps = [self.columns_words(), self.table_words(), self.compare_words()]
        if is_made:
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
            of_step = ["python", "-m", "ltrbench", *words]
            lines.append(" ".join(map(_in_script, of_step)))
        write_output("\n".join(lines) + "\n", self.folder / COMMANDS_FILE)

    def _run(self, words: Sequence[str], codes: Collection[int] = (OK,)) -> int:
        """Runs a command in this process, and returns its exit code; what it prints goes to the log.

        Args:
            codes: exit codes that are no failure.

        Raises:
            KeyboardInterrupt: Ctrl-C ended the command, which has saved what it could.
            LtrbenchError: The command could not start, or failed.
        """
        given = [_with_folder(word, self.folder) for word in words]
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


def _literal(value: Any) -> str:
    """Returns a value in Hydra's grammar; a text in quotes, so that it is not read as a number.

    >>> [_literal(value) for value in ("8.10", True, None, 3)]
    ["'8.10'", 'true', 'null', '3']
    """
    if isinstance(value, str):
        return in_quotes(value)
    return json.dumps(value)


def _with_folder(word: str, folder: Path) -> str:
    """Returns a word of a step with the folder of the results; the value of a setting is quoted for Hydra."""
    setting, _, path = word.rpartition("=")
    if setting and path.startswith(_FOLDER):
        return f"{setting}={quoted(path.replace(_FOLDER, str(folder)))}"
    return word.replace(_FOLDER, str(folder))


def _in_script(word: str) -> str:
    """Returns a word of a step for a shell, in which the variable `out` is the folder of the results.

    >>> print(_in_script(f"{_FOLDER}/a b.yaml"))
    "$out"'/a b.yaml'
    """
    parts = [part and shlex.quote(part) for part in word.split(_FOLDER)]
    return '"$out"'.join(parts)


def _seconds_of_fit(run: Run) -> float:
    """Returns the time of a fit with its validation."""
    seconds = run.result.seconds
    return sum(seconds.get(name, 0.0) for name in ("fit", "monitor", "predict"))


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
