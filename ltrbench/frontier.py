"""The price of a ranker: latency, size and memory of the rows of a comparison and of cheaper variants.

A variant is a run that `ship` takes:

    trees=30%        the first trees of the model of the best row
    features=25%     trained again with the features of the highest importance only
    leaves=15        trained again with fewer leaves per tree
    distil=NAME      another model, fitted to the scores of the best row on train

All choices are by validation: the best row, and the cheapest row that meets the guards, which are
non-inferiority tests against the best row. Test is evaluated once, for these two rows.

Two other variants would be no cheaper: no engine and no library has a format for an early exit, or for leaf
values in float16.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ltrbench.compare.answer import checks_in_words
from ltrbench.compare.cells import (
    newest_runs,
)
from ltrbench.compare.comparison import Comparison, compare, only
from ltrbench.compare.decision import check_of_guard
from ltrbench.compare.derived import (
    LoadSplits,
    check_fingerprints,
    derived_run,
    has_valid,
    write_derived,
)
from ltrbench.compare.fairness import seen_by_choice, stopped_on_test
from ltrbench.compare.guards import COSTS, LATENCY, MEMORY, Guard
from ltrbench.compare.remarks import leak_in_words
from ltrbench.compare.settings import (
    Settings,
)
from ltrbench.compare.table import ModelRow
from ltrbench.compare.views import Chapter, Figures, Prose, Section, View, drawn
from ltrbench.data import RankingDataset, Splits, TrainingResample, click_weighted
from ltrbench.data.features import gather_rows
from ltrbench.errors import ConfigError, DataError, LtrbenchError, ResultError
from ltrbench.measure import MemoryMeter, described, latency_of, spare_imports
from ltrbench.models.files import OF_LIGHTGBM, ModelFile
from ltrbench.models.lightgbm_files import read_lightgbm_text, write_lightgbm_text
from ltrbench.models.trees import categorical_features, used_features
from ltrbench.plots import Cost, Page, Series, metric_against_cost, pareto_front
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import WEIGHTS
from ltrbench.rankers.importance import (
    GAIN,
    SPLIT,
    YARDSTICKS,
    by_size,
    without_features,
)
from ltrbench.rankers.imported import ImportedRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.runs import LoadedModel, load
from ltrbench.runs.origin import Variant
from ltrbench.runs.record import MODEL_FOLDER, Run, read_run
from ltrbench.serve import RequestReader, answer
from ltrbench.shapes import Features
from ltrbench.shipping.shipment import check_categories, shipped_model
from ltrbench.shipping.target import build_target
from ltrbench.statistics.checks import AT_MOST, HOLDS, Check, worst
from ltrbench.statistics.claims import Scope, Varied
from ltrbench.tables import Table, TableRow, format_number, listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

LENGTHS = (20, 100, 1000)
TYPICAL = 100
"""Numbers of documents of the timed lists, and the one whose latency is compared."""
SERVICE = "service"
LIBRARY = "library"
SIZE = "size"
FORMS = (LIBRARY, "c", "treelite", "onnx")
"""The library of a model, and the targets of `ship` that can score here."""
_FORM = ".4g"
"""Format of the numbers of the table."""
_NUM_LISTS = 5
_NUM_TIMED = {20: 100, 100: 100, 1000: 20}
"""Number of different lists, and number of times that a list of each length is timed."""

_MedianAndTail = tuple[float, float]
Times = dict[str, dict[int, _MedianAndTail]]
"""Form, such as "service" or "c" -> number of documents -> median and 99th percentile of the time to score a
list on one thread, in ms."""
Distil = Mapping[str, Callable[[int | None], Ranker]]
"""Name of a model -> its unfitted ranker, given the number of trees of the best row or None."""
Lists = Mapping[int, Sequence[tuple[Features, bytes]]]
"""Number of documents -> lists: their features, and the body of the request to rank them."""


@dataclass(frozen=True)
class Price:
    """A row with its costs.

    Attributes:
        row: Label of the row.
        runs: Folders of its runs; the first is the one that was timed.
        trees: Mean number of trees; None without trees.
        features: Number of features that the trees of the timed run use; None without trees, or if the trees
            cannot be read.
        quality: Mean of the metric on validation.
        times: The measured times.
        costs: "latency", the median for `TYPICAL` documents in the service, in ms; "size" of the files, and
            "memory", its growth while the model is loaded, in MB.
        checks: The guards on validation, against the best row.
        holds: Whether all guards hold, and it is no yardstick.
    """

    row: str
    runs: Sequence[str]
    trees: float | None
    features: int | None
    quality: float
    times: Times
    costs: Mapping[str, float]
    checks: Sequence[Check]
    holds: bool


@dataclass(frozen=True)
class Frontier:
    """The rows with their costs, and the choice.

    Attributes:
        sentence: The choice and the claim on test in words.
        metric: Metric of the quality.
        best: Label of the trained row with the highest mean on validation.
        chosen: Label of the row with the lowest latency that meets all guards; None if none does, or if a row
            that was not shown to meet them is faster and has the same value.
        faster: Label of that row; None without one.
        test: Guards of the chosen row against the best one on test; empty if they are the same row.
        scope: Scope of the claim on test.
        prices: By ascending latency.
        fronts: "latency" and "size" -> labels of the Pareto front: no other row is cheaper and as good.
        notes: What was left out, and why.
    """

    sentence: str
    metric: str
    best: str
    chosen: str | None
    faster: str | None
    test: Sequence[Check]
    scope: str
    prices: Sequence[Price]
    fronts: Mapping[str, Sequence[str]]
    notes: Sequence[str]


def frontier(
    runs: Sequence[Run],
    settings: Settings,
    folder: Path,
    load_splits: LoadSplits,
    overrides: Sequence[str],
    refit: Callable[[Run], Ranker] | None = None,
    distil: Distil = MappingProxyType({}),
    on_step: Callable[[str], None] = lambda step: None,
) -> tuple[Frontier, list[Run]]:
    """Makes variants of the best row, measures the costs of all rows, and chooses the cheapest by the guards.

    Args:
        settings: Metric and guards; without a guard of a metric, the metric may be lower by its region of
            practical equivalence.
        folder: Folder of the variants.
        overrides: Words of the command.
        refit: Returns an unfitted ranker with the settings of a run; None: no variant is trained again.
        distil: Name of a model -> its unfitted ranker, given the number of trees of the best row or None, to
            be fitted to the scores of the best row.
        on_step: Called with each step in words before it begins.

    Returns:
        The rows with their costs, and the runs of the variants.

    Raises:
        ResultError: No run has a model, a run has no validation set or one that is test, or there are several
            data sets.
    """
    runs, notes = _with_models(runs)
    before = _on_validation(runs, replace(settings, guards=()))
    metric = before.metric
    if all(guard.metric in COSTS for guard in settings.guards):
        equal = Guard(metric, -settings.rope_of(metric))
        settings = replace(settings, guards=(equal, *settings.guards))
    trained = {}
    for row in before.rows:
        trained[row.label] = [read_run(run.path) for run in row.runs]
    best = min(before.rows, key=lambda row: row.rank_by(metric)).label
    on_step(f"{best} is the best of {len(trained)} models on validation")
    made: list[Run] = []
    shares = _shares_of_trees(trained[best])
    for number, run in enumerate(trained[best]):
        variants = _variants(run, shares, load_splits, refit, distil, on_step)
        for variant, splits in variants:
            if isinstance(variant, str):
                notes.append(f"{best} has no variants with {variant}")
                continue
            name = re.sub(r"[^\w.=+-]+", "_", f"{best} {variant.name}")
            path = folder / name / str(number)
            made.append(_written(variant, path, best, run, splits, overrides))
    notes = [*dict.fromkeys(notes)]
    spare_imports(__name__)  # which each MemoryMeter would visit
    compared = replace(settings, metric=metric, baseline=best)
    after = _on_validation([*runs, *made], compared)
    sample = dict(load_splits(trained[best][0]))["valid"]
    lists = {length: _lists(sample, length) for length in LENGTHS}
    prices, of_prices = _prices(after, lists, best, on_step)
    chosen, faster = _cheapest(prices, best)
    for each in prices:
        if each.row in (*trained, chosen):
            on_step(f"timing {each.row} in its library and in the formats of ship")
            model = load(each.runs[0])
            each.times.update(_times(model, lists, FORMS))
    done = Frontier(
        sentence="",
        metric=metric,
        best=best,
        chosen=chosen,
        faster=faster,
        test=(),
        scope="",
        prices=prices,
        fronts={cost: _front(prices, cost) for cost in (LATENCY, SIZE)},
        notes=[*notes, *of_prices],
    )
    on_test = ""
    if chosen is not None and chosen != best:
        of_both = (after.row(best).runs, after.row(chosen).runs)
        pair = [read_run(run.path) for run in itertools.chain(*of_both)]
        comparison = only(compare(pair, replace(settings, metric=metric)))
        done = _with_test(done, comparison)
        on_test = f"On test, {checks_in_words(comparison, done.test)} ({done.scope})."
    sentence = _sentence(done, settings.guards, on_test)
    return replace(done, sentence=sentence), made


def _variants(
    run: Run,
    shares: Sequence[int],
    load_splits: LoadSplits,
    refit: Callable[[Run], Ranker] | None,
    distil: Distil,
    on_step: Callable[[str], None],
) -> Iterator[tuple[_Variant | str, Splits]]:
    """Yields the variants of a run with its data; instead of those of a kind that it cannot have, the kind
    and the reason."""
    teacher = load(run.path).ranker
    splits = load_splits(run, exact=teacher.reads_float64)
    check_fingerprints(run, splits)
    if refit or distil:
        splits = _as_trained(run, splits)
    kinds = {"fewer trees": _fewer_trees(teacher, shares)}
    if refit:
        kinds["--refit"] = _refitted(teacher, partial(refit, run), splits)
    for words, student in distil.items():
        unfitted = student(run.result.num_trees)
        kinds[words] = _distilled(teacher, words, unfitted, splits)
    for kind, variants in kinds.items():
        on_step(f"variants of {run.path}: {kind}")
        try:
            for variant in variants:
                yield variant, splits
        except ConfigError as error:
            yield f"{kind}: {error}", splits


def _front(prices: Sequence[Price], cost: str) -> list[str]:
    """Returns the rows on the Pareto front of the quality and a cost."""
    points = {each.row: (each.costs[cost], each.quality) for each in prices}
    front = pareto_front([*points.values()])
    return [row for row, point in points.items() if point in front]


def _prices(
    comparison: Comparison, lists: Lists, best: str, on_step: Callable[[str], None]
) -> tuple[list[Price], list[str]]:
    """Returns the prices by ascending latency, and notes on the rows that have none, or lack a part of it.

    Raises:
        LtrbenchError: The best row has no price.
    """
    prices: list[Price] = []
    notes: list[str] = []
    for number, row in enumerate(comparison.rows, start=1):
        on_step(f"timing {row.label} ({number} of {len(comparison.rows)})")
        try:
            price = _price(comparison, row, lists)
        except LtrbenchError as error:
            if row.label == best:
                raise
            notes.append(f"{row.label} is left out: {error}")
            continue
        prices.append(price)
        if price.trees is not None and price.features is None:
            notes.append(
                f"{row.label} has no number of features: its trees split categories by statistics, and "
                "cannot be read as thresholds."
            )
    return sorted(prices, key=lambda each: each.costs[LATENCY]), notes


def _cheapest(prices: Sequence[Price], best: str) -> tuple[str | None, str | None]:
    """Returns the fastest row that meets all guards, and None; or None, and a faster row with the same value
    as shown, beside which a variant would be praised wrongly.

    Args:
        prices: By ascending latency.
    """
    chosen = next((each for each in prices if each.holds), None)
    if chosen is None or chosen.row == best:
        return None if chosen is None else chosen.row, None
    for each in prices[: prices.index(chosen)]:
        if _shown(each.quality) == _shown(chosen.quality):
            return None, each.row
    return chosen.row, None


def _shown(quality: float) -> str:
    return format_number(quality, _FORM)


def _with_models(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """Returns the runs that count and have a model and a validation set, and notes on the others."""
    compared = newest_runs([run for run in runs if run.result.is_compared])[0]
    kept = [run for run in compared if (run.path / MODEL_FOLDER).is_dir()]
    if not kept:
        reason = f"has {len(compared)} finished runs with scores, but none with a model"
        raise ResultError(
            f"a price needs a model: DIR {reason}. Name a folder of trained runs."
        )
    for run in kept:
        if not has_valid(run) or stopped_on_test([run.result]):
            raise ResultError(
                f"{run.path} has no validation set apart from test. Give data.valid."
            )
    without = dict.fromkeys(run.result.model for run in compared if run not in kept)
    return kept, [
        f"{name} has scores without a model, and no price." for name in without
    ]


def _on_validation(runs: Sequence[Run], settings: Settings) -> Comparison:
    """Returns the comparison of the runs in which validation is in the place of test."""

    def validated(run: Run) -> Run:
        data = {**run.result.data, "test": run.result.data["valid"]}
        result = replace(run.result, data=data)
        return Run(run.path, result, held={"test": run.scored("valid")})

    return only(compare([*map(validated, runs)], settings))


def _with_test(done: Frontier, comparison: Comparison) -> Frontier:
    """Adds the claim about the best row and the chosen one, given their comparison on test."""
    guards = comparison.settings.guards
    chosen = comparison.rows[1]
    on_metrics = [guard for guard in guards if guard.metric not in COSTS]
    test = [check_of_guard(comparison, chosen.label, guard) for guard in on_metrics]
    evaluated = itertools.chain.from_iterable(row.evaluated for row in comparison.rows)
    seen = seen_by_choice(list(evaluated))
    scope = [Scope(Varied.MODELS).in_words, "choice by validation"]
    if seen:
        scope.append(leak_in_words(seen))
    return replace(done, test=test, scope="; ".join(scope))


def _sentence(done: Frontier, guards: Sequence[Guard], on_test: str) -> str:
    """Returns the choice and the claim on test in words."""
    limits = listed([f"{guard.name}={guard.limit:g}" for guard in guards])
    costs = {each.row: each.costs for each in done.prices}
    if done.faster is not None:
        values = {each.row: each.quality for each in done.prices}
        equal = f"the same {done.metric} on validation, {_shown(values[done.faster])}"
        latency = f"{costs[done.faster][LATENCY]:.3g} ms"
        return (
            f"No row is recommended: {done.faster} is faster ({latency}) than all rows that meet all guards "
            f"({limits}), and has {equal}, as the fastest of them."
        )
    if done.chosen in (None, done.best):
        return f"No other row meets all guards on validation ({limits}) and is faster than {done.best}."
    of_best = costs[done.best]
    of_chosen = costs[done.chosen]
    changes = []
    for cost, unit in ((LATENCY, "ms"), (SIZE, "MB"), (MEMORY, "MB")):
        change = f"{of_chosen[cost]:.3g} {unit} instead of {of_best[cost]:.3g}"
        changes.append(f"{cost} {change}")
    first = f"Cheapest row equivalent to the best, {done.best}: {done.chosen}, {listed(changes)}."
    keep = ""
    if worst(done.test) != HOLDS:
        keep = f" Keep {done.best}."
    return f"{first} {on_test}{keep}"


# ---- Variants of a run.


class _Variant(NamedTuple):
    """A ranker, its name after the label of the row, and where it comes from in words.

    Attributes:
        fitted: The ranker whose fit, and so whose seed, changes the scores; None: `ranker`.
    """

    name: str
    origin: str
    ranker: Ranker
    fitted: Ranker | None = None


def _as_trained(run: Run, splits: Splits) -> Splits:
    """Returns the splits of a run, with its resample as the training set.

    Raises:
        DataError: The training set has changed since the run.
    """
    if drawn := run.result.data.get("resample"):
        settings = {name: drawn[name] for name in TrainingResample.__dataclass_fields__}
        splits = replace(splits, train=TrainingResample(**settings).of(splits.train))
    if splits.train.fingerprint != run.result.data["train"]["fingerprint"]:
        raise DataError(
            f"the training set of {run.path} has changed since the run. Restore its files."
        )
    if run.result.data.get("debias") == WEIGHTS:
        splits = splits.with_train(click_weighted(splits.train))
    return splits.in_memory()


def _shares_of_trees(runs: Sequence[Run]) -> list[int]:
    """Returns the shares of the trees, in percent, that give different models for at least one of the runs of
    a row: several shares of few trees are the same trees, or all of them."""
    shares = range(10, 100, 10)
    totals = [run.result.num_trees for run in runs]
    known = [total for total in totals if total is not None]
    if len(known) < len(totals):
        return [*shares]
    chosen: dict[tuple[int, ...], int] = {}
    for share in shares:
        exact = [total * share / 100 for total in known]
        numbers = tuple(map(math.ceil, exact))
        chosen.setdefault(numbers, share)
    chosen.pop(tuple(known), None)
    return [*chosen.values()]


def _fewer_trees(teacher: Ranker, shares: Sequence[int]) -> Iterator[_Variant]:
    num_trees = len(teacher.trees().trees)
    for share in shares:
        fewer = _first_trees(teacher, math.ceil(num_trees * share / 100))
        yield _Variant(
            f"trees={share}%",
            "the first trees of {}, not trained again",
            fewer,
            teacher,
        )


def _refitted(
    teacher: Ranker, unfitted: Callable[[], Any], splits: Splits
) -> Iterator[_Variant]:
    teacher.trees()  # trees never split a constant feature; other models are refused here
    ranker = unfitted()
    of_model = teacher.importance()
    kind = GAIN if GAIN in of_model else SPLIT
    # By importances from train; those in the run folder may be from test.
    order = by_size(kind, of_model[kind])
    for share in (50, 25, 10):
        left = order[math.ceil(len(order) * share / 100) :]
        fitting = [data for name, data in splits if name != "test"]
        train, valid = (without_features(data, left) for data in fitting)
        num_kept = len(order) - len(left)
        origin = f"the settings of {{}}, trained on {num_kept} of {len(order)} features"
        fitted = replace(ranker).fit(train, valid)
        yield _Variant(f"features={share}%", origin, fitted)
    if getattr(ranker, "num_leaves", None) is None:
        raise ConfigError(
            f"{type(ranker).__name__} has no maximum number of leaves (num_leaves)."
        )
    for fewer in (ranker.num_leaves // 2, ranker.num_leaves // 4):
        if fewer >= 2:
            fitted = replace(ranker, num_leaves=fewer).fit(splits.train, splits.valid)
            yield _Variant(
                f"leaves={fewer}",
                f"the settings of {{}} with num_leaves={fewer}",
                fitted,
            )


def _distilled(
    teacher: Ranker, words: str, student: Ranker, splits: Splits
) -> Iterator[_Variant]:
    """Yields a ranker whose labels on train are the scores of another one, from 0, in standard deviations;
    early stopping is by the labels of validation."""
    scores = teacher.predict_lists(
        splits.train.features, splits.train.query_start
    ).astype(np.float64)
    labels = (scores - scores.min()) / (scores.std() or 1.0)
    train = splits.train.with_fields(labels=labels)
    origin = "{}, whose scores on train it was fitted to"
    yield _Variant(f"distil={words}", origin, student.fit(train, splits.valid))


def _written(
    variant: _Variant,
    path: Path,
    label: str,
    run: Run,
    splits: Splits,
    overrides: Sequence[str],
) -> Run:
    """Writes a variant as a run, with its scores of validation and test."""
    ranker = variant.ranker
    scored = {}
    for part, data in splits:
        if part != "train":
            scores = ranker.predict_lists(data.features, data.query_start)
            scored[part] = replace(run.scored(part), scores=scores)
    record = described(ranker)
    num_trees = None
    if ranker.summary is not None:
        num_trees = ranker.summary.num_trees
    by = type(variant.fitted or ranker).__qualname__
    origin = Variant(
        of=label,
        run=str(run.path),
        change=variant.name,
        ranker=by,
        is_imported=run.result.origin.is_imported,
    )
    derived = derived_run(
        path,
        run,
        scored,
        model=f"{label} {variant.name}",
        params=run.result.params,
        origin=origin,
        notes=[f"It has {variant.origin.format(label)}."],
        overrides=overrides,
        model_settings={"_target_": record["class"], **record["fields"]},
        num_trees=num_trees,
    )
    result = replace(derived.result, started_in=run.result.started_in)
    return write_derived(
        replace(derived, result=result), path, ranker=ranker, example=splits.test
    )


def _first_trees(ranker: Ranker, num_trees: int) -> Ranker:
    """Returns a ranker with the first trees; of another library in LightGBM's format."""
    if isinstance(ranker, NativeRanker):
        return ranker.first(num_trees)
    ensemble = ranker.trees()
    names = ranker.feature_names
    content = write_lightgbm_text(
        replace(ensemble, trees=ensemble.trees[:num_trees]), names
    )
    if coded := categorical_features(ensemble):
        # As LightGBM names the categories of a DataFrame.
        texts = json.dumps([ranker.categories[names[feature]] for feature in coded])
        end = f"[categorical_feature: {','.join(map(str, coded))}]\n\npandas_categorical:{texts}"
        content = content.replace(b"pandas_categorical:null", end.encode())
    file = ModelFile(
        Path("model.txt"), OF_LIGHTGBM, ".txt", content, read_lightgbm_text(content)
    )
    columns = {feature: feature for feature in used_features(file.model.trees)}
    return ImportedRanker.of(file, columns, len(names), names, ranker.categories)


# ---- Costs: latency of lists of documents of the validation set, size and memory.


def _lists(data: RankingDataset, length: int) -> list[tuple[Features, bytes]]:
    """Returns lists of documents in the order of the data, which begins again at its end."""
    lists = []
    for start in range(0, _NUM_LISTS * length, length):
        rows = np.arange(start, start + length) % data.num_documents
        features = gather_rows(data.features, rows)
        # The shortest decimals of float32, as a client sends them.
        values = features.astype(str).astype(np.float64).astype(object)
        for name, texts in data.categories.items():
            feature = data.feature_names.index(name)
            for row in np.flatnonzero(~np.isnan(features[:, feature])):
                values[row, feature] = texts[int(values[row, feature])]
        values[np.isnan(features)] = None
        documents = [
            {"id": number, "features": each}
            for number, each in enumerate(values.tolist())
        ]
        lists.append((features, json.dumps({"documents": documents}).encode()))
    return lists


def _price(comparison: Comparison, row: ModelRow, lists: Lists) -> Price:
    runs = sorted(
        row.runs, key=lambda run: run.result.best_iteration or 0, reverse=True
    )
    model = load(runs[0].path)  # imports its library
    with (meter := MemoryMeter()):
        model = load(runs[0].path)
    times = _times(model, lists, (SERVICE,))
    costs = {
        LATENCY: times[SERVICE][TYPICAL][0],
        SIZE: row.model_mb or 0.0,
        MEMORY: meter.rise_mb or 0.0,
    }
    checks = []
    for guard in comparison.settings.guards:
        if guard.metric in COSTS:
            cost = costs[guard.metric]
            checks.append(Check(guard.name, cost, limit=guard.limit, sense=AT_MOST))
        elif row.label != comparison.baseline:
            checks.append(check_of_guard(comparison, row.label, guard))
    holds = worst(checks) == HOLDS and row.model not in YARDSTICKS
    paths = [str(run.path) for run in runs]
    quality = -row.rank_by(comparison.metric)
    used = None
    if row.trees is not None:
        used = _num_used(model.ranker)
    return Price(
        row=row.label,
        runs=paths,
        trees=row.trees,
        features=used,
        quality=quality,
        times=times,
        costs=costs,
        checks=checks,
        holds=holds,
    )


def _num_used(ranker: Ranker) -> int | None:
    """Returns the number of features in the trees; None if they cannot be read as thresholds."""
    try:
        return len(used_features(ranker.trees()))
    except ConfigError:
        return None


def _times(model: LoadedModel, lists: Lists, forms: Sequence[str]) -> Times:
    """Times the forms that can score here; the service from the body of a request to that of the answer."""
    model.ranker.num_threads = 1
    reader = RequestReader(model.feature_names, max(LENGTHS), model.ranker.categories)
    known: dict[str, Any] = {
        SERVICE: partial(answer, model, reader),
        LIBRARY: model.ranker.predict,
    }
    for name in {*forms} - {*known}:
        # It cannot hold the model, or is not installed.
        with contextlib.suppress(ConfigError, ImportError):
            target = build_target(name, {})
            shipped = shipped_model(model.run, model.ranker)
            check_categories(shipped, target)
            if engine := target.engine(shipped, target.export(shipped)):
                known[name] = engine.scores
    times: Times = {name: {} for name in forms if name in known}
    for name, length in itertools.product(times, LENGTHS):
        of_form = [each[name == SERVICE] for each in lists[length]]
        num_timed = _NUM_TIMED[length]
        times[name][length] = latency_of(known[name], of_form, num_timed)
    return times


def as_chapter(done: Frontier, title: str) -> Chapter:
    """Returns the choice, a picture of each Pareto front, and a row for each price and form."""
    head = [
        "model",
        "form",
        f"validation {done.metric}",
        *(f"{length} docs ms" for length in LENGTHS),
    ]
    head += [
        f"p99 of {TYPICAL}",
        "size MB",
        "memory MB",
        "trees",
        "features",
        "Pareto front",
    ]
    figures = []
    for name, cost in _AXES.items():
        draw = partial(_draw, done, name, cost)
        figures += drawn(draw, f"Against the {cost.name}", f"{name}.png")
    table = Table.of(head, _rows_of_prices(done), _FORM)
    notes = map(Prose, done.notes)
    views: list[View] = [Figures(figures), table, *notes]
    section = Section("costs", "Costs", _ABOUT, views)
    return Chapter("frontier", title, [section], headline=done.sentence)


def _rows_of_prices(done: Frontier) -> list[TableRow]:
    rows: list[TableRow] = []
    for each in done.prices:
        fronts = [cost for cost, labels in done.fronts.items() if each.row in labels]
        memory = [each.costs[SIZE], each.costs[MEMORY]]
        others = [*memory, each.trees, each.features, ", ".join(fronts)]
        for form, times in each.times.items():
            medians = [times[length][0] for length in LENGTHS]
            tail = times[TYPICAL][1]
            rows.append([each.row, form, each.quality, *medians, tail, *others])
    return rows


_AXES = {
    LATENCY: Cost(
        "latency", f"median latency of {TYPICAL} documents in the service, ms", 0.0
    ),
    SIZE: Cost("size", "size of the model's files, MB", 0.0),
}
_ABOUT = (
    "Medians of the time to score a list on one thread. The dashed line is the Pareto front: no other model "
    "is both cheaper and better on validation. Points without a name are variants behind it."
)


def _draw(done: Frontier, name: str, cost: Cost, page: Page) -> Drawing | None:
    """Draws the quality against a cost; the trained rows and those on the front have names."""
    series = []
    for each in done.prices:
        run = read_run(Path(each.runs[0]))
        is_variant = isinstance(run.result.origin, Variant)
        label = each.row
        if is_variant and each.row not in done.fronts[name]:
            label = ""
        series.append(Series(label, each.row, (run,), each.quality))
    costs = [each.costs[name] for each in done.prices]
    return metric_against_cost(
        series, costs, cost, f"{done.metric} on validation", page
    )
