"""The price of a ranker: latency, size and memory of the rows of a comparison and of cheaper variants.

A variant is a run that `ship` takes, made of the model of another run. Everything is chosen by validation:
the best row, and the cheapest row that meets the guards, whose non-inferiority to the best row is tested on
validation. Test is evaluated once, for these two rows.

Early exit is no variant: no engine and no library has a format for it.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from ltrbench.compare.cells import Settings, newest_runs
from ltrbench.compare.comparison import Comparison, ModelRow, compare
from ltrbench.compare.decision import HOLDS, Condition, condition_of
from ltrbench.compare.derived import check_fingerprints, derived_run, has_valid, write_derived
from ltrbench.compare.fairness import seen_by_choice, stopped_on_test
from ltrbench.compare.guards import COSTS, LATENCY, MEMORY, Guard
from ltrbench.data import Splits
from ltrbench.data.features import gather_rows
from ltrbench.errors import ConfigError, ResultError, require_choice
from ltrbench.measure import MemoryMeter, latency_of, spare_imports
from ltrbench.native.forest import Forest
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import check_saved
from ltrbench.rankers.importance import YARDSTICKS
from ltrbench.rankers.native import NativeRanker, forest_of
from ltrbench.runs import LoadedModel, load
from ltrbench.runs.record import MODEL_FOLDER, Run, read_run
from ltrbench.serve import RequestReader, answer
from ltrbench.shapes import Features, Scores
from ltrbench.shipping.shipment import check_categories, shipped_model
from ltrbench.shipping.target import ScoreFunction, build_target
from ltrbench.statistics import SCOPES
from ltrbench.tables import QUALITY, Form, Table, TableRow, columns_of, listed, significant, size

LENGTHS = (20, 100, 1000)
"""Numbers of documents of the timed lists."""
TYPICAL = 100
"""Number of documents of the list whose latency is compared."""
SERVICE, LIBRARY, SIZE = "service", "library", "size"
SHIPPED = ("c", "treelite", "onnx")
"""Targets of `ship` that score here, if their packages or compiler are installed."""
_SHARES = range(10, 101, 10)
"""Sizes of the prefixes of trees, in per cent."""
_NUM_LISTS, _NUM_TIMED = 5, 100
_UNITS = {LATENCY: "ms", SIZE: "MB", MEMORY: "MB"}

LoadSplits = Callable[[Run], Splits]
Times = Mapping[str, Mapping[int, tuple[float, float]]]
"""Form, such as "service" or "c" -> number of documents -> median and 99th percentile of the time to score a
list on one thread, in ms."""


@dataclass(frozen=True, eq=False)
class Price:
    """A row with its costs.

    Attributes:
        row: The row, evaluated on validation.
        quality: Mean of the metric on validation.
        times: The measured times.
        costs: Cost -> its value in ms or MB: "latency", the median of a list of `TYPICAL` documents in the
            service; "size" of the files, mean over runs; "memory", its growth while the model is loaded.
        conditions: Non-inferiority to the best row on validation, for each guard of a metric.
        holds: Whether all guards hold on validation, and it is no yardstick.
    """

    row: ModelRow
    quality: float
    times: Times
    costs: Mapping[str, float]
    conditions: Sequence[Condition]
    holds: bool


@dataclass(frozen=True, eq=False)
class Frontier:
    """The rows with their costs.

    Attributes:
        metric: The metric of the quality.
        prices: The rows, by ascending latency.
        best: Label of the trained row with the highest mean on validation.
        chosen: Label of the cheapest row that meets all guards on validation; None if none does.
        test: Conditions of the chosen row against the best one on test; empty if they are the same row.
        scope: Scope of the claim on test.
        sentence: The choice and the claim in words.
        notes: What was left out, and why.
        made: The runs of the variants.
    """

    metric: str
    prices: Sequence[Price]
    best: str
    chosen: str | None
    test: Sequence[Condition]
    scope: str
    sentence: str
    notes: Sequence[str]
    made: Sequence[Run]

    def price(self, label: str) -> Price:
        """Returns the price of a row."""
        return next(each for each in self.prices if each.row.label == label)

    @property
    def front(self) -> list[str]:
        """Labels of the Pareto front: no other row is as good, as fast and as small, and better in one."""
        points = {
            each.row.label: (-each.quality, each.costs[LATENCY], each.costs[SIZE]) for each in self.prices
        }

        def is_behind(point: tuple[float, ...], other: tuple[float, ...]) -> bool:
            return other != point and all(a <= b for a, b in zip(other, point, strict=True))

        return [
            label
            for label, point in points.items()
            if not any(is_behind(point, other) for other in points.values())
        ]

    def as_json(self) -> dict[str, Any]:
        """Returns every number."""
        rows = [
            {
                "row": each.row.label,
                "runs": [str(run.path) for run in each.row.runs],
                "trees": each.row.trees,
                "quality": each.quality,
                "latency": {
                    form: {
                        str(length): {"median_ms": time[0], "p99_ms": time[1]}
                        for length, time in of_form.items()
                    }
                    for form, of_form in each.times.items()
                },
                "costs": dict(each.costs),
                "conditions": [asdict(condition) for condition in each.conditions],
                "on_front": each.row.label in self.front,
            }
            for each in self.prices
        ]
        kept = ("metric", "best", "chosen", "scope", "sentence", "notes")
        test = [asdict(condition) for condition in self.test]
        return {**{name: getattr(self, name) for name in kept}, "test": test, "rows": rows}


def frontier(
    runs: Sequence[Run],
    settings: Settings,
    folder: Path,
    load_splits: LoadSplits,
    overrides: Sequence[str],
    model: str | None = None,
    by: str = LATENCY,
) -> Frontier:
    """Makes variants of a row, measures the costs of all rows, and chooses the cheapest by the guards.

    Args:
        settings: Metric and guards; without a guard of a metric, the metric may be lower by its region of
            practical equivalence.
        folder: Folder of the variants.
        overrides: Words of the command.
        model: Row of which variants are made; None: the best row by validation.
        by: The cost that is lowest in the cheapest row: "latency", "size" or "memory".

    Raises:
        ConfigError: No row has the name of `model`.
        ResultError: No run has a model or a validation set, validation is test, or there are several data
            sets.
    """
    runs, notes = _with_models(runs)
    before = _on_validation(runs, replace(settings, guards=()))
    settings = replace(settings, metric=before.metric)
    if all(guard.metric in COSTS for guard in settings.guards):
        margin = Guard(before.metric, -settings.rope_of(before.metric))
        settings = replace(settings, guards=(margin, *settings.guards))
    best = max(before.rows, key=lambda row: row.metrics[before.metric] or -math.inf).label
    require_choice("--model", model, [row.label for row in before.rows])
    trained = {row.label: [read_run(run.path) for run in row.runs] for row in before.rows}
    made: list[Run] = []
    try:
        made = _write_variants(model or best, trained[model or best], folder, load_splits, overrides)
    except ConfigError as error:
        notes.append(f"{model or best} has no variants: {error}")
    spare_imports(__name__)  # otherwise each MemoryMeter visits all imported objects
    after = _on_validation([*runs, *made], replace(settings, baseline=best))
    lists = {length: _lists(load_splits(trained[best][0]), length) for length in LENGTHS}
    prices = [_price(after, row, lists, row.label in trained) for row in after.rows]
    chosen = min((each for each in prices if each.holds), key=lambda each: each.costs[by], default=None)
    if chosen is not None and chosen.row.label not in trained:
        of_forms = _times_of_forms(load(_largest(chosen.row).path), lists)
        priced = replace(chosen, times={**chosen.times, **of_forms})
        prices = [priced if each is chosen else each for each in prices]
    label = None if chosen is None else chosen.row.label
    test: list[Condition] = []
    scope = ""
    if label not in (None, best):
        test, scope = _on_test([run for row in (best, label) for run in after.row(row).runs], settings)
    prices.sort(key=lambda each: each.costs[LATENCY])
    done = Frontier(after.metric, prices, best, label, test, scope, "", notes, made)
    return replace(done, sentence=_sentence(done, by, settings.guards))


def _with_models(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """Returns the runs that count and have a model and a validation set, and notes on the others."""
    compared = newest_runs([run for run in runs if run.result.is_compared])[0]
    kept = [run for run in compared if (run.path / MODEL_FOLDER).is_dir()]
    if not kept:
        raise ResultError(
            f"none of the {len(compared)} finished runs has a model whose price could be measured, only "
            "scores; name a folder of trained runs."
        )
    if seen := stopped_on_test(run.result for run in kept):
        raise ResultError(
            f"the validation set of {', '.join(seen)} is the test set, which no choice may see. Give "
            "data.valid other queries."
        )
    if blind := [run for run in kept if not has_valid(run)]:
        raise ResultError(
            f"{blind[0].path} has no validation set, by which rows are chosen. Run it with data.valid."
        )
    without = dict.fromkeys(run.result.model for run in compared if run not in kept)
    return kept, [f"{name} has scores without a model, and no price." for name in without]


def _on_validation(runs: Sequence[Run], settings: Settings) -> Comparison:
    """Returns the comparison of the runs in which validation is in the place of test."""

    def validated(run: Run) -> Run:
        data = {**run.result.data, "test": run.result.data["valid"]}
        return Run(run.path, replace(run.result, data=data), held={"test": run.scored("valid")})

    return _only(compare([*map(validated, runs)], settings))


def _on_test(runs: Sequence[Run], settings: Settings) -> tuple[list[Condition], str]:
    """Returns the conditions of the row of the last run against that of the first run, and the scope."""
    runs = [read_run(run.path) for run in runs]
    comparison = _only(compare(runs, settings))
    best, chosen = comparison.rows
    comparison = _only(compare(runs, replace(settings, baseline=best.label)))
    row = comparison.row(chosen.label)
    conditions = [
        condition_of(comparison, row.label, guard) for guard in settings.guards if guard.metric not in COSTS
    ]
    pair = comparison.claim(row.label, comparison.metric)
    seen = seen_by_choice([item for each in comparison.rows for item in each.evaluated])
    scope = SCOPES[pair.scope] if pair is not None else ""
    return conditions, "; ".join(filter(None, [scope, "choice by validation", seen]))


def _only(comparisons: Sequence[Comparison]) -> Comparison:
    if len(comparisons) != 1:
        names = ", ".join(comparison.data for comparison in comparisons)
        raise ResultError(f"the runs are on several data sets ({names}); name the folder of one.")
    return comparisons[0]


# ---- Variants: prefixes of the trees, and leaf values with the precision of float16.


def _write_variants(
    label: str, runs: Sequence[Run], folder: Path, load_splits: LoadSplits, overrides: Sequence[str]
) -> list[Run]:
    made = []
    for number, run in enumerate(runs):
        ranker, splits = load(run.path).ranker, load_splits(run)
        check_fingerprints(run, splits)
        for change, variant, scores in _pruned(ranker, splits):
            name = f"{label} {change}"
            scored = {
                split: replace(run.scored(split), scores=of_split) for split, of_split in scores.items()
            }
            path = folder / re.sub(r"[^\w.=+-]+", "_", name) / str(number)
            derived = derived_run(
                path,
                run,
                scored,
                model=name,
                params=run.result.params,
                notes=[f"Made of the model of {label} without its training data, see the verb frontier."],
                overrides=overrides,
                model_settings={"_target_": f"{NativeRanker.__module__}.{NativeRanker.__qualname__}"},
                num_trees=variant.forest.num_trees,
            )
            record = {"of": label, "run": str(run.path), "ranker": type(ranker).__qualname__}
            result = replace(derived.result, variant=record, started_in=run.result.started_in)
            made.append(
                write_derived(
                    replace(derived, result=result),
                    path,
                    ranker=variant,
                    example=splits.test,
                    check_model=partial(_check, variant, splits.test.features, scores["test"]),
                )
            )
    return made


def _check(ranker: Ranker, features: Features, scores: Scores, saved: Path) -> None:
    check_saved(ranker, saved, features, scores)


def _pruned(ranker: Ranker, splits: Splits) -> Iterator[tuple[str, NativeRanker, dict[str, Scores]]]:
    """Yields the name of the change, the ranker, and the scores of "valid" and "test"."""
    forest = ranker.forest if isinstance(ranker, NativeRanker) else forest_of(ranker.trees())
    parts = {name: split.features for name, split in splits if name != "train"}

    def of(forest: Forest) -> NativeRanker:
        return NativeRanker.of(forest, splits.test.feature_names, ranker.categories)

    # The trees of another library in the native engine are a variant, too.
    shares = [share for share in _SHARES if share < 100 or not isinstance(ranker, NativeRanker)]
    sizes = [math.ceil(forest.num_trees * share / 100) for share in shares]
    staged = {name: [*of(forest).staged_scores(features, sizes)] for name, features in parts.items()}
    for number, (share, num_trees) in enumerate(zip(shares, sizes, strict=True)):
        scores = {name: of_split[number] for name, of_split in staged.items()}
        yield f"trees={share}%", of(forest.first(num_trees)), scores
    with np.errstate(over="ignore"):
        rounded = forest.nodes.value.astype(np.float16).astype(np.float64)
    if np.isfinite(rounded).all():
        ranker = of(replace(forest, nodes=forest.nodes._replace(value=rounded)))
        yield "leaves=float16", ranker, {name: ranker.predict(given) for name, given in parts.items()}


# ---- Costs: latency of lists of documents of the validation set, size and memory.


@dataclass(frozen=True, eq=False)
class _Lists:
    """Lists of one length: their features, and the same as values of a request."""

    features: Sequence[Features]
    values: Sequence[list[list[Any]]]


def _lists(splits: Splits, length: int) -> _Lists:
    """Returns lists of documents in the order of the data, which begins again at its end."""
    data = splits.valid
    assert data is not None  # `_with_models` has checked it
    starts = length * np.arange(_NUM_LISTS)[:, None]
    features = [
        gather_rows(data.features, rows) for rows in (starts + np.arange(length)) % data.num_documents
    ]
    # The shortest decimals of float32, as a client sends them.
    values = [each.astype(str).astype(np.float64).astype(object) for each in features]
    for name, texts in data.categories.items():
        column = data.feature_names.index(name)
        for each in values:
            each[:, column] = [None if code != code else texts[int(code)] for code in each[:, column]]
    return _Lists(features, [each.tolist() for each in values])


def _price(comparison: Comparison, row: ModelRow, lists: Mapping[int, _Lists], with_forms: bool) -> Price:
    run, guards = _largest(row), comparison.settings.guards
    model = load(run.path)  # imports its library
    with (meter := MemoryMeter()):
        model = load(run.path)
    times = {SERVICE: _times_of_service(model, lists)}
    if with_forms:
        times |= _times_of_forms(model, lists)
    of_metrics = [guard for guard in guards if guard.metric not in COSTS and row.label != comparison.baseline]
    conditions = [condition_of(comparison, row.label, guard) for guard in of_metrics]
    latency, quality = times[SERVICE][TYPICAL][0], row.metrics[comparison.metric]
    costs = {LATENCY: latency, SIZE: row.model_mb or 0.0, MEMORY: meter.rise_mb or 0.0}
    is_cheap = all(costs[guard.metric] <= guard.limit for guard in guards if guard.metric in COSTS)
    holds = is_cheap and all(each.state == HOLDS for each in conditions) and row.model not in YARDSTICKS
    return Price(row, math.nan if quality is None else quality, times, costs, conditions, holds)


def _largest(row: ModelRow) -> Run:
    """Returns the run with the most trees."""
    return max(row.runs, key=lambda run: run.result.best_iteration or 0)


def _times_of_service(model: LoadedModel, lists: Mapping[int, _Lists]) -> dict[int, tuple[float, float]]:
    """Times the service from the body of a request to the body of the answer."""
    model.ranker.num_threads = 1
    reader = RequestReader(model.feature_names, max(LENGTHS), model.ranker.categories)
    return {
        length: latency_of(
            partial(answer, model, reader), [_request(values) for values in of_length.values], _NUM_TIMED
        )
        for length, of_length in lists.items()
    }


def _request(values: list[list[Any]]) -> bytes:
    documents = [{"id": number, "features": each} for number, each in enumerate(values)]
    return orjson.dumps({"documents": documents})


def _times_of_forms(
    model: LoadedModel, lists: Mapping[int, _Lists]
) -> dict[str, dict[int, tuple[float, float]]]:
    """Times the library of the model and the shipped forms that can score here."""
    model.ranker.num_threads = 1
    forms: dict[str, ScoreFunction] = {LIBRARY: model.ranker.predict}
    for name in SHIPPED:
        with contextlib.suppress(
            ConfigError, ImportError
        ):  # the form cannot hold it, or a package is missing
            target, shipped = build_target(name, {}), shipped_model(model.run, model.ranker)
            check_categories(shipped, target)
            engine = target.engine(shipped, target.export(shipped))
            if engine is not None:
                forms[name] = engine.scores
    return {
        name: {length: latency_of(score, each.features, _NUM_TIMED) for length, each in lists.items()}
        for name, score in forms.items()
    }


def _sentence(done: Frontier, by: str, guards: Sequence[Guard]) -> str:
    """Returns the choice and the claim in words."""
    limits = listed([f"{guard.name}={guard.limit:g}" for guard in guards])
    if done.chosen is None:
        return f"No row meets all guards on validation ({limits}). The best row is {done.best}."
    if done.chosen == done.best:
        return f"No row but the best, {done.best}, meets all guards on validation at a lower {by} ({limits})."
    costs, best = done.price(done.chosen).costs, done.price(done.best).costs
    changes = listed(
        [f"{name} {costs[name]:.3g} {unit} instead of {best[name]:.3g}" for name, unit in _UNITS.items()]
    )
    first = (
        f"The cheapest row that is equivalent to the best, {done.best}, is {done.chosen} ({by}; {changes})."
    )
    claims = listed([each.words for each in done.test])
    keep = "" if all(each.state == HOLDS for each in done.test) else f" Keep {done.best}."
    return f"{first} On test, {claims} (claim about: {done.scope}).{keep}"


# ---- Tables.


def as_table(done: Frontier) -> Table:
    """Returns a row for each price: quality on validation, latency in the service, size and memory."""
    forms: dict[str, Form | None] = {"model": None, f"validation {done.metric}": QUALITY}
    forms |= {f"{length} docs": ".2f" for length in LENGTHS}
    forms |= {"p99": ".2f", "size": size, "memory": size, "trees": significant, "front": None}
    rows: list[TableRow] = []
    for each in done.prices:
        times = each.times[SERVICE]
        marks = ["front"] * (each.row.label in done.front) + ["best"] * (each.row.label == done.best)
        marks += ["cheapest"] * (each.row.label == done.chosen)
        medians = [times[length][0] for length in LENGTHS]
        costs = [times[TYPICAL][1], each.costs[SIZE], each.costs[MEMORY], each.row.trees]
        rows.append([each.row.label, each.quality, *medians, *costs, ", ".join(marks)])
    caption = f"ms for a list in the service (median; p99 of {TYPICAL} documents)"
    return Table(columns_of(forms), rows, caption)


def forms_as_table(done: Frontier) -> Table:
    """Returns the latency of the trained rows and the chosen one in each form."""
    heads = [f"{length} docs{of}" for length in LENGTHS for of in ("", " p99")]
    rows: list[TableRow] = [
        [each.row.label, form, *(ms for time in of_form.values() for ms in time)]
        for each in done.prices
        for form, of_form in each.times.items()
        if len(each.times) > 1
    ]
    return Table(columns_of({"model": None, "form": None, **dict.fromkeys(heads, ".3f")}), rows)
