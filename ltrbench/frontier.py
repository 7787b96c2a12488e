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
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ltrbench.compare.answer import checks_in_words
from ltrbench.compare.cells import newest_runs, runs_by_label
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
from ltrbench.compare.feature_sets import feature_settings
from ltrbench.compare.guards import COSTS, LATENCY, MEMORY, Guard
from ltrbench.compare.remarks import leak_in_words
from ltrbench.compare.settings import Settings
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
    by_size,
    without_features,
)
from ltrbench.rankers.imported import ImportedRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.runs import LoadedModel, load
from ltrbench.runs.origin import Variant
from ltrbench.runs.record import MODEL_FOLDER, Run, ScoredSplit, read_run
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


class Latency(NamedTuple):
    """Quantiles of the time to score a list on one thread, in ms."""

    median: float
    p99: float


Times = dict[str, dict[int, Latency]]
"""Form, such as "service" or "c" -> number of documents -> latency."""
Distil = Mapping[str, Callable[[int | None], Ranker]]
"""Name of a model -> its unfitted ranker, given the number of trees of the best row or None."""
Lists = Mapping[int, Sequence[tuple[Features, bytes]]]
"""Number of documents -> lists: their features, and the body of the request to rank them."""
_FeatureSet = tuple[tuple[str, str], ...]
"""The settings of the features of a run: models with different ones read different columns."""
_ListsOf = Mapping[_FeatureSet, Lists]


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class VariantSettings:
    """How the variants of the best row are made.

    Attributes:
        folder: Folder of the variants.
        overrides: Words of the command.
        load_splits: Returns the data of a run.
        refit: Returns an unfitted ranker with the settings of a run; None: no variant is trained again.
        distil: Name of a model -> its unfitted ranker, given the number of trees of the best row or None, to
            be fitted to the scores of the best row.
    """

    folder: Path
    overrides: Sequence[str]
    load_splits: LoadSplits
    refit: Callable[[Run], Ranker] | None = None
    distil: Distil = field(default_factory=dict)


def frontier(
    runs: Sequence[Run],
    settings: Settings,
    of_variants: VariantSettings,
    on_step: Callable[[str], None] = lambda step: None,
) -> tuple[Frontier, list[Run]]:
    """Makes variants of the best row, measures the costs of all rows, and chooses the cheapest by the guards.

    Args:
        settings: Metric and guards; without a guard of a metric, the metric may be lower by its region of
            practical equivalence.
        on_step: Called with each step in words before it begins.

    Returns:
        The rows with their costs, and the runs of the variants.

    Raises:
        ResultError: No run has a model, a run has no validation set or one that is test, or there are several
            data sets.
    """
    runs, notes = _with_models(runs)
    before = _on_validation(runs, replace(settings, guards=()))
    settings = _with_guard(replace(settings, metric=before.metric))
    best = _best_of(before)
    trained = [row.label for row in before.rows]
    # Before the variants, which would be in the way of the command if data could not be read.
    lists = _lists_of_validation(before.rows, of_variants.load_splits)
    on_step(f"{best.label} is the best of {len(trained)} models on validation")
    made, notes_on_variants = _make_variants(best, of_variants, on_step)
    spare_imports(__name__)  # which each MemoryMeter would visit
    against_best = replace(settings, baseline=best.label)
    after = _on_validation([*runs, *made], against_best)
    done = _priced(after, lists, trained, on_step)
    notes = [*notes, *notes_on_variants, *done.notes]
    return _with_claim(replace(done, notes=notes), after, settings), made


def _best_of(comparison: Comparison) -> ModelRow:
    """Returns the row with the highest mean, of those with all folds: others cannot be compared with it."""
    rows = comparison.rows
    most = max(len(row.cells) for row in rows)
    whole = [row for row in rows if len(row.cells) == most]
    return min(whole, key=lambda row: row.rank_by(comparison.metric))


def _with_guard(settings: Settings) -> Settings:
    """Adds the region of practical equivalence as a guard, if no guard is of a metric."""
    if any(guard.metric not in COSTS for guard in settings.guards):
        return settings
    assert settings.metric is not None  # that of the comparison
    equal = Guard(settings.metric, -settings.rope_of(settings.metric))
    return replace(settings, guards=(equal, *settings.guards))


def _make_variants(
    row: ModelRow, settings: VariantSettings, on_step: Callable[[str], None]
) -> tuple[list[Run], list[str]]:
    """Writes the variants of all runs of a row; returns their runs, and notes on those it cannot have."""
    made: list[Run] = []
    notes: list[str] = []
    runs = [read_run(run.path) for run in row.runs]
    shares = _shares_of_trees(runs)
    for number, run in enumerate(runs):
        original = _original(row.label, number, run, settings)
        for variant in _variants(original, shares, settings, on_step):
            if isinstance(variant, _Refused):
                notes.append(
                    f"{row.label} has no variants with {variant.kind}: {variant.reason}"
                )
            else:
                made.append(_written(variant, original, settings))
    return made, list(dict.fromkeys(notes))


def _priced(
    comparison: Comparison,
    lists: _ListsOf,
    trained: Sequence[str],
    on_step: Callable[[str], None],
) -> Frontier:
    """Returns the rows with their costs and the choice, without the claim on test.

    Args:
        comparison: All rows on validation, against the best one.
        trained: Labels of the rows that are no variants; they and the choice are timed in all forms.
    """
    prices, notes = _prices(comparison, lists, on_step)
    cheapest = _cheapest(prices, comparison.baseline)
    for each in prices:
        if each.row in trained or each.row == cheapest.chosen:
            on_step(f"timing {each.row} in its library and in the formats of ship")
            model = load(each.runs[0])
            of_model = lists[_feature_set(model.run)]
            each.times.update(_times(model, of_model, FORMS))
    return Frontier(
        sentence="",
        metric=comparison.metric,
        best=comparison.baseline,
        chosen=cheapest.chosen,
        faster=cheapest.faster,
        test=(),
        scope="",
        prices=prices,
        fronts={cost: _front(prices, cost) for cost in (LATENCY, SIZE)},
        notes=notes,
    )


def _front(prices: Sequence[Price], cost: str) -> list[str]:
    """Returns the rows on the Pareto front of the quality and a cost."""
    points = {each.row: (each.costs[cost], each.quality) for each in prices}
    front = pareto_front([*points.values()])
    return [row for row, point in points.items() if point in front]


def _prices(
    comparison: Comparison, lists: _ListsOf, on_step: Callable[[str], None]
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
            if row.label == comparison.baseline:
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


class _Cheapest(NamedTuple):
    """`Frontier.chosen` and `Frontier.faster`."""

    chosen: str | None
    faster: str | None


def _cheapest(prices: Sequence[Price], best: str) -> _Cheapest:
    """Returns the fastest row that meets all guards; or a faster row with the same value as shown, beside
    which a variant would be praised wrongly.

    Args:
        prices: By ascending latency.
    """
    faster: dict[str, str] = {}  # value as shown -> the fastest row
    for each in prices:
        value = _shown(each.quality)
        if each.holds:
            if each.row != best and value in faster:
                return _Cheapest(None, faster[value])
            return _Cheapest(each.row, None)
        faster.setdefault(value, each.row)
    return _Cheapest(None, None)


def _shown(quality: float) -> str:
    return format_number(quality, _FORM)


def _with_models(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """Returns the runs that count and have a model and a validation set, and notes on the others."""
    compared, _ = newest_runs([run for run in runs if run.result.is_compared])
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
    notes = [f"{name} has scores without a model, and no price." for name in without]
    return kept, notes


def _on_validation(runs: Sequence[Run], settings: Settings) -> Comparison:
    """Returns the comparison of the runs in which validation is in the place of test."""

    def validated(run: Run) -> Run:
        data = {**run.result.data, "test": run.result.data["valid"]}
        result = replace(run.result, data=data)
        return Run(run.path, result, held={"test": run.scored("valid")})

    return only(compare([*map(validated, runs)], settings))


def _with_claim(
    done: Frontier, on_validation: Comparison, settings: Settings
) -> Frontier:
    """Adds the claim on test about the best row and the chosen one, and the sentence."""
    if done.chosen is None or done.chosen == done.best:
        return replace(done, sentence=_sentence(done, settings.guards, ""))
    names = (done.best, done.chosen)
    best, chosen = (on_validation.row(name).runs for name in names)
    runs = [read_run(run.path) for run in [*best, *chosen]]
    # Labels depend on the rows beside them.
    rows = runs_by_label(runs)
    (label,) = (name for name in rows if runs[0] in rows[name])
    against_best = replace(settings, baseline=label)
    comparison = only(compare(runs, against_best))
    done = _with_test(done, comparison)
    on_test = f"On test, {checks_in_words(comparison, done.test)} ({done.scope})."
    return replace(done, sentence=_sentence(done, settings.guards, on_test))


def _with_test(done: Frontier, comparison: Comparison) -> Frontier:
    """Adds the checks on test and their scope, given the comparison of the chosen row with the best one, its
    baseline."""
    guards = comparison.settings.guards
    (chosen,) = (row for row in comparison.rows if row.label != comparison.baseline)
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


class _Refused(NamedTuple):
    """A kind of variants that a run cannot have, and why."""

    kind: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class _Original:
    """A run of the best row, from which variants are made.

    Attributes:
        row: Label of the row.
        number: Number of the run in the row.
        splits: Its data, which have not changed since.
    """

    row: str
    number: int
    run: Run
    ranker: Ranker
    splits: Splits


def _original(row: str, number: int, run: Run, settings: VariantSettings) -> _Original:
    ranker = load(run.path).ranker
    splits = settings.load_splits(run, exact=ranker.reads_float64)
    check_fingerprints(run, splits)
    if settings.refit or settings.distil:
        splits = _as_trained(run, splits)
    return _Original(row=row, number=number, run=run, ranker=ranker, splits=splits)


def _variants(
    original: _Original,
    shares: Sequence[int],
    settings: VariantSettings,
    on_step: Callable[[str], None],
) -> Iterator[_Variant | _Refused]:
    """Yields the variants of a run, and the kinds that it cannot have."""
    ranker = original.ranker
    kinds = {"fewer trees": _fewer_trees(ranker, shares)}
    if settings.refit:
        unfitted = partial(settings.refit, original.run)
        kinds["--refit"] = _refitted(ranker, unfitted, original.splits)
    for words, student_of in settings.distil.items():
        student = student_of(original.run.result.num_trees)
        kinds[words] = _distilled(ranker, words, student, original.splits)
    for kind, variants in kinds.items():
        on_step(f"variants of {original.run.path}: {kind}")
        try:
            yield from variants
        except ConfigError as error:
            yield _Refused(kind, str(error))


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
    yield from _with_fewer_features(teacher, ranker, splits)
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


def _with_fewer_features(
    teacher: Ranker, unfitted: Any, splits: Splits
) -> Iterator[_Variant]:
    assert splits.valid is not None  # `_with_models`
    of_model = teacher.importance()
    kind = GAIN if GAIN in of_model else SPLIT
    # By importances from train; those in the run folder may be from test.
    order = by_size(kind, of_model[kind])
    num_features = len(order)
    for share in (50, 25, 10):
        num_kept = math.ceil(num_features * share / 100)
        removed = order[num_kept:]
        train = without_features(splits.train, removed)
        valid = without_features(splits.valid, removed)
        fitted = replace(unfitted).fit(train, valid)
        origin = (
            f"the settings of {{}}, trained on {num_kept} of {num_features} features"
        )
        yield _Variant(f"features={share}%", origin, fitted)


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


def _written(variant: _Variant, original: _Original, settings: VariantSettings) -> Run:
    """Writes a variant as a run, with its scores of validation and test."""
    run = original.run
    ranker = variant.ranker
    label = f"{original.row} {variant.name}"
    name = re.sub(r"[^\w.=+-]+", "_", label)
    path = settings.folder / name / str(original.number)
    record = described(ranker)
    num_trees = None
    if ranker.summary is not None:
        num_trees = ranker.summary.num_trees
    origin = Variant(
        of=original.row,
        run=str(run.path),
        change=variant.name,
        ranker=type(variant.fitted or ranker).__qualname__,
        is_imported=run.result.origin.is_imported,
    )
    derived = derived_run(
        path,
        run,
        _scored(variant, original),
        model=label,
        params=run.result.params,
        origin=origin,
        notes=[f"It has {variant.origin.format(original.row)}."],
        overrides=settings.overrides,
        model_settings={"_target_": record["class"], **record["fields"]},
        num_trees=num_trees,
    )
    result = replace(derived.result, started_in=run.result.started_in)
    return write_derived(
        replace(derived, result=result),
        path,
        ranker=ranker,
        example=original.splits.test,
    )


def _scored(variant: _Variant, original: _Original) -> dict[str, ScoredSplit]:
    """Returns the scores of validation and test."""
    scored = {}
    for name, data in original.splits:
        if name != "train":
            scores = variant.ranker.predict_lists(data.features, data.query_start)
            scored[name] = replace(original.run.scored(name), scores=scores)
    return scored


def _first_trees(ranker: Ranker, num_trees: int) -> Ranker:
    """Returns a ranker with the first trees; of another library in LightGBM's format."""
    if isinstance(ranker, NativeRanker):
        return ranker.first(num_trees)
    ensemble = ranker.trees()
    names = ranker.feature_names
    first = replace(ensemble, trees=ensemble.trees[:num_trees])
    content = write_lightgbm_text(first, names)
    if coded := categorical_features(ensemble):
        # As LightGBM names the categories of a DataFrame.
        features = ",".join(map(str, coded))
        texts = json.dumps([ranker.categories[names[feature]] for feature in coded])
        end = f"[categorical_feature: {features}]\n\npandas_categorical:{texts}"
        content = content.replace(b"pandas_categorical:null", end.encode())
    model = read_lightgbm_text(content)
    file = ModelFile(Path("model.txt"), OF_LIGHTGBM, ".txt", content, model)
    columns = {feature: feature for feature in used_features(file.model.trees)}
    return ImportedRanker.of(file, columns, len(names), names, ranker.categories)


# ---- Costs: latency of lists of documents of the validation set, size and memory.


def _lists_of_validation(
    rows: Sequence[ModelRow], load_splits: LoadSplits
) -> dict[_FeatureSet, Lists]:
    """Returns lists of each length from the validation set, with each set of features of the rows."""
    lists: dict[_FeatureSet, Lists] = {}
    for row in rows:
        first = read_run(row.runs[0].path)
        features = _feature_set(first)
        if features not in lists:
            validation = dict(load_splits(first))["valid"]
            lists[features] = {length: _lists(validation, length) for length in LENGTHS}
    return lists


def _feature_set(run: Run) -> _FeatureSet:
    """Returns the feature set of a run; a variant has that of the run that it was made from."""
    return tuple(feature_settings(run).items())


def _lists(data: RankingDataset, length: int) -> list[tuple[Features, bytes]]:
    """Returns lists of documents in the order of the data, which begins again at its end."""
    lists = []
    for start in range(0, _NUM_LISTS * length, length):
        rows = np.arange(start, start + length) % data.num_documents
        features = gather_rows(data.features, rows)
        documents = [
            {"id": number, "features": values}
            for number, values in enumerate(_as_sent(features, data))
        ]
        lists.append((features, json.dumps({"documents": documents}).encode()))
    return lists


def _as_sent(features: Features, data: RankingDataset) -> list[list[Any]]:
    """Returns the values of documents as a client sends them: numbers, the texts of categories, or null."""
    # The shortest decimals of float32.
    values = features.astype(str).astype(np.float64).astype(object)
    for name, categories in data.categories.items():
        feature = data.feature_names.index(name)
        is_known = ~np.isnan(features[:, feature])
        for row in np.flatnonzero(is_known):
            code = int(values[row, feature])
            values[row, feature] = categories[code]
    values[np.isnan(features)] = None
    as_lists: list[list[Any]] = values.tolist()
    return as_lists


def _price(comparison: Comparison, row: ModelRow, lists: _ListsOf) -> Price:
    runs = sorted(
        row.runs, key=lambda run: run.result.best_iteration or 0, reverse=True
    )
    model, memory = _loaded_with_memory(runs[0].path)
    times = _times(model, lists[_feature_set(model.run)], (SERVICE,))
    costs = {
        LATENCY: times[SERVICE][TYPICAL].median,
        SIZE: row.model_mb or 0.0,
        MEMORY: memory,
    }
    checks = _checks(comparison, row, costs)
    used = None
    if row.trees is not None:
        used = _num_used(model.ranker)
    return Price(
        row=row.label,
        runs=[str(run.path) for run in runs],
        trees=row.trees,
        features=used,
        quality=-row.rank_by(comparison.metric),
        times=times,
        costs=costs,
        checks=checks,
        holds=worst(checks) == HOLDS and not row.is_yardstick,
    )


def _loaded_with_memory(path: Path) -> tuple[LoadedModel, float]:
    """Returns the model of a run, and by how many MB the memory grows while it is loaded."""
    # The first one imports the library; it is held, because the second would take its memory.
    first = load(path)
    with (meter := MemoryMeter()):
        second = load(path)
    del first
    return second, meter.rise_mb or 0.0


def _checks(
    comparison: Comparison, row: ModelRow, costs: Mapping[str, float]
) -> list[Check]:
    """Returns the guards of costs, and those of metrics against the best row."""
    checks = []
    for guard in comparison.settings.guards:
        if guard.metric in COSTS:
            cost = costs[guard.metric]
            checks.append(Check(guard.name, cost, limit=guard.limit, sense=AT_MOST))
        elif row.label != comparison.baseline:
            checks.append(check_of_guard(comparison, row.label, guard))
    return checks


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
        inputs: list[Any] = [features for features, _ in lists[length]]
        if name == SERVICE:
            inputs = [request for _, request in lists[length]]
        latency = latency_of(known[name], inputs, _NUM_TIMED[length])
        times[name][length] = Latency(*latency)
    return times


def as_chapter(done: Frontier, title: str) -> Chapter:
    """Returns the choice, a picture of each Pareto front, and a row for each price and form."""
    head = [
        "model",
        "form",
        f"validation {done.metric}",
        *(f"{length} docs ms" for length in LENGTHS),
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
        fronts = done.fronts.items()
        costs = [cost for cost, front in fronts if each.row in front]
        for form, times in each.times.items():
            row = [
                each.row,
                form,
                each.quality,
                *(times[length].median for length in LENGTHS),
                times[TYPICAL].p99,
                each.costs[SIZE],
                each.costs[MEMORY],
                each.trees,
                each.features,
                ", ".join(costs),
            ]
            rows.append(row)
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
