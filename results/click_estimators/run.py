"""Estimators of expected clicks on simulated logs: coverage of intervals, bias, significant wrong signs.

Each log has queries drawn anew, with documents of attraction 0.9 or 0.1, and its lists are shown by
production P (A with noise), or by others. Three differences of rankers are estimated: B - A (large), C - B
(medium) and C - D (small); A is mainly a feature without attraction, B one feature of the attraction, C both
of them, and D is C with noise. The truth is the difference of expected clicks over all queries.

The examination is estimated, and the values and their intervals are computed, by the code of `data=clicks`.
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltrbench.clicks.checks import is_rejected, replays
from ltrbench.clicks.log import NOT_SHOWN, Log
from ltrbench.clicks.simulation import CLICK_MODELS, RATES, Logging, Users, simulate
from ltrbench.clicks.source import ClickSource, with_columns
from ltrbench.data import RankingDataset
from ltrbench.data.sources import DataSource
from ltrbench.errors import DataError
from ltrbench.experiment import Study
from ltrbench.metrics import evaluate
from ltrbench.rankers import Ranker
from ltrbench.statistics import PairedSample
from ltrbench.statistics.paired import student_intervals
from ltrbench.tables import Table, columns_of
from results.studies import publish_study

log = logging.getLogger("ltrbench")

NUM_DOCUMENTS = 10
PLACKETT = "U"
"""Lists drawn from a Plackett-Luce model of production's scores."""
_NUM_ORDERS = 200
"""Number of orders that it draws."""
FEATURES = ("text", "price", "rating")
PAIRS = (("B", "A"), ("C", "B"), ("C", "D"))
SMALLEST_TRUTH = 0.05
"""Bias is over this, if the true difference is smaller."""
POPULATION = 100_000
"""Number of queries for the true differences."""

Lists = NDArray[np.float64]
"""(Q, 10)."""


class Scenario(NamedTuple):
    """Users, and how lists are logged.

    Attributes:
        rankers: names of the logging rankers, each with an equal share of the lists.
        shuffled: share of the lists in random order.
        shown: number of documents in a list; the others are candidates.
    """

    users: str
    rankers: str
    shuffled: float = 0.0
    shown: int = NUM_DOCUMENTS


SCENARIOS: Mapping[str, Scenario] = {
    "pbm one": Scenario("pbm", "P"),
    "pbm random10": Scenario("pbm", "P", 0.1),
    "pbm two": Scenario("pbm", "PB"),
    "pbm plackett": Scenario("pbm", "U"),
    "pbm one show 5": Scenario("pbm", "P", shown=5),
    "pbm two show 5": Scenario("pbm", "PB", shown=5),
    "pbm plackett show 5": Scenario("pbm", "U", shown=5),
    "trust one": Scenario("trust", "P"),
    "trust two": Scenario("trust", "PB"),
    "cascade one": Scenario("cascade", "P"),
    "cascade two": Scenario("cascade", "PB"),
    "dbn one": Scenario("dbn", "P"),
    "dbn two": Scenario("dbn", "PB"),
}
DCG = "dcg"
NAIVE = "naive DCG of clicks"
ESTIMATORS: Mapping[str, tuple[str, str]] = {
    NAIVE: ("column", "dcv@10:clicks"),
    "clicks, true theta": ("column", "clicks@10"),
    "snips, true theta": ("column", "snips@10"),
    "clipped(4), true theta": ("column", "clipped_clicks@10"),
    "clicks, random": ("random", "clicks@10"),
    "clicks, harvest": ("harvest", "clicks@10"),
    "snips, harvest": ("harvest", "snips@10"),
    "clicks, em": ("em", "clicks@10"),
}
"""Name -> `data.propensity` and metric."""


@dataclass(frozen=True, eq=False)
class World:
    """Queries with their features and attractions, and the scores of rankers.

    Attributes:
        features: (Q, 10, 3).
    """

    features: NDArray[np.float64]
    attraction: Lists
    scores: Mapping[str, Lists]

    @classmethod
    def of(cls, seed: int, num_queries: int) -> World:
        rng = np.random.default_rng(seed)
        features = rng.normal(size=(num_queries, NUM_DOCUMENTS, 3))
        text, price, rating = np.moveaxis(features, -1, 0)
        both = text + 0.5 * price
        weak = rating + 0.2 * text
        noise = rng.normal(size=(2, num_queries, NUM_DOCUMENTS))
        scores = {"A": weak, "B": text, "C": both}
        scores["D"] = both + 0.5 * noise[0]
        scores["P"] = weak + 0.3 * noise[1]
        return cls(features, np.where(both > 0.9, 0.9, 0.1), scores)

    def ranked(self, name: str) -> Lists:
        """Returns the attractions in the order of a ranker."""
        order = np.argsort(-self.scores[name], axis=1)
        return np.take_along_axis(self.attraction, order, axis=1)


def truths(world: World, scenario: Scenario, metric: str) -> list[float]:
    """Returns the true difference of each pair: of expected clicks, or of DCG of the attractions."""
    values = {}
    for name in "ABCD":
        lists = world.ranked(name)
        shown = lists[:, : scenario.shown]
        rates = RATES[scenario.users](shown, Users())
        if metric == DCG:
            ranks = np.arange(NUM_DOCUMENTS)
            rates = lists / np.log2(ranks + 2)
        values[name] = float(rates.sum(axis=1).mean())
        if metric.startswith("snips"):
            values[name] /= float(world.attraction.sum(axis=1).mean())
    return [values[first] - values[second] for first, second in PAIRS]


# ---- Logs.


def make_log(world: World, scenario: Scenario, num_sessions: int, seed: int) -> Log:
    """Returns a simulated log, with the true examination as its propensities."""
    num_queries = len(world.attraction)
    sessions = simulate(
        world.attraction.ravel(),
        np.arange(num_queries + 1) * NUM_DOCUMENTS,
        [*_logging_scores(world, scenario.rankers, seed)],
        Logging(
            num_sessions=num_sessions,
            depth=NUM_DOCUMENTS,
            shuffled_share=scenario.shuffled,
        ),
        click_model=CLICK_MODELS[scenario.users],
        seed=seed,
    )
    rows = sessions.documents.ravel()
    positions = np.tile(np.arange(NUM_DOCUMENTS), num_sessions)
    is_shown = positions < scenario.shown
    theta = _examination(world.attraction.ravel()[sessions.documents], scenario)
    names = np.arange(NUM_DOCUMENTS).astype(np.str_)
    units = pd.factorize(rows)[0]
    codes, queries = pd.factorize(rows // NUM_DOCUMENTS)
    rankers = None
    if len(scenario.rankers) > 1:
        rankers = np.repeat(sessions.rankers, NUM_DOCUMENTS)
    of_documents = world.features.reshape(-1, len(FEATURES))
    return Log(
        location=lambda row: f"simulated log, row {row}",
        sessions=np.repeat(np.arange(num_sessions), NUM_DOCUMENTS),
        queries=codes,
        documents=rows % NUM_DOCUMENTS,
        units=units,
        session_names=np.arange(num_sessions).astype(np.str_),
        query_names=queries.astype(np.str_),
        document_names=names,
        positions=np.where(is_shown, positions, NOT_SHOWN),
        clicks=np.where(is_shown, sessions.clicks.ravel(), False).astype(np.int64),
        rankers=rankers,
        ranker_names=np.array([*scenario.rankers]),
        is_randomised=np.repeat(sessions.is_shuffled, NUM_DOCUMENTS),
        propensities=np.where(is_shown, theta[positions], np.nan),
        days=None,
        users=None,
        user_names=np.zeros(0, dtype=np.str_),
        others=pd.DataFrame(of_documents[rows], columns=FEATURES),
    )


def _logging_scores(world: World, rankers: str, seed: int) -> Iterator[Lists]:
    for name in rankers:
        if name != PLACKETT:
            yield world.scores[name].ravel()
            continue
        # A ranker for each part of the lists: a Plackett-Luce model of P's scores.
        rng = np.random.default_rng([seed, 2])
        for _ in range(_NUM_ORDERS):
            noise = rng.gumbel(size=world.attraction.shape)
            yield (world.scores["P"] + 0.5 * noise).ravel()


def _examination(lists: Lists, scenario: Scenario) -> NDArray[np.float64]:
    """Returns (10,), the mean examination of each position of the lists that were shown, over the first."""
    if scenario.users not in ("cascade", "dbn"):
        return Users().theta(NUM_DOCUMENTS)
    examined = RATES[scenario.users](lists, Users()) / lists
    means: NDArray[np.float64] = examined.mean(axis=0)
    return means


# ---- Estimates.


@dataclass
class Cell:
    """Intervals of an estimator in one scenario: for each pair, means and ends."""

    intervals: list[list[tuple[float, float, float]]] = field(default_factory=list)
    num_refused: int = 0

    def summary(self, values: Sequence[float], orders: Sequence[float]) -> Summary:
        """Returns what the table shows.

        Args:
            values: true differences; of another scale than the estimates for a naive one.
            orders: differences whose signs are the true ones.
        """
        if not self.intervals:
            return Summary(refused=float(self.num_refused > 0))
        every = np.array(self.intervals)
        means, lows, highs = np.moveaxis(every, -1, 0)
        covered = (lows <= values) & (values <= np.asarray(highs))
        signs = np.sign(orders)
        is_wrong = np.where(signs > 0, highs < 0, lows > 0)
        of_large = means[:, 0]
        error = float(of_large.mean()) - values[0]
        return Summary(
            coverage=tuple(covered.mean(axis=0).tolist()),
            bias=error / max(abs(values[0]), SMALLEST_TRUTH),
            wrong=float(is_wrong.mean(axis=0).max()),
            refused=self.num_refused / (self.num_refused + len(every)),
        )


class Summary(NamedTuple):
    """A cell of the table: coverage of each pair, bias of B - A over its truth, highest share of significant
    wrong signs, and the share of logs that are refused."""

    coverage: tuple[float, ...] = ()
    bias: float = 0.0
    wrong: float = 0.0
    refused: float = 0.0

    def in_words(self, has_truth: bool) -> str:
        if not self.coverage:
            return "refused" if self.refused else ""
        parts = []
        if has_truth:
            shares = "/".join(f"{share:.2f}" for share in self.coverage)
            parts.append(f"{shares} b {self.bias:+.2f}")
        parts.append(f"w {self.wrong:.2f}")
        if self.refused:
            parts.append(f"refused {self.refused:.2f}")
        return " ".join(parts)


def add_estimates(
    cells: Mapping[str, Cell],
    simulated: Log,
    world: World,
    left_out: Collection[str] = (),
) -> None:
    """Adds the intervals of every estimator.

    Args:
        left_out: estimators of the examination that are left out.
    """
    by_propensity: dict[str, dict[str, str]] = {}
    for name, (propensity, metric) in ESTIMATORS.items():
        by_propensity.setdefault(propensity, {})[name] = metric
    for propensity, metrics in by_propensity.items():
        if propensity in left_out:
            continue
        source = ClickSource(name="clicks", log=None, propensity=propensity)
        try:
            data = with_columns(source.lists_of(simulated))
        except DataError:  # counted, and shown in the table
            for name in metrics:
                cells[name].num_refused += 1
            continue
        values = {}
        for ranker, scores in _scores_of(data, world):
            values[ranker] = evaluate(data, scores, [*metrics.values()]).per_query
        for name, metric in metrics.items():
            cells[name].intervals.append([*_intervals(values, metric, data)])


def _scores_of(
    data: RankingDataset, world: World
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    queries = data.query_ids.astype(np.int64)[data.query_of_document]
    documents = data.column("document_id").astype(np.int64)
    for name in "ABCD":
        yield name, world.scores[name][queries, documents]


def _intervals(
    values: Mapping[str, Mapping[str, Any]], metric: str, data: RankingDataset
) -> Iterator[tuple[float, float, float]]:
    for first, second in PAIRS:
        differences = values[first][metric] - values[second][metric]
        sample = PairedSample.of(differences, data.query_weights, are_clusters=True)
        (interval,) = student_intervals(sample)
        yield float(sample.means[0]), interval.low, interval.high


def _is_rejected(data: RankingDataset, simulated: Log) -> bool:
    assert data.impressions is not None  # lists of a log have them
    names = [*simulated.ranker_names]
    return is_rejected(replays(data.impressions, data.query_of_document, names))


# ---- The study.

_TABLES: Sequence[Sequence[str]] = (
    ("pbm one", "pbm random10", "pbm two", "pbm plackett"),
    ("pbm one show 5", "pbm two show 5", "pbm plackett show 5"),
    ("trust one", "trust two", "cascade one", "cascade two", "dbn one", "dbn two"),
)
_EXPLAINED = (
    "{0.num_logs} logs of {0.num_sessions:,} lists of {0.num_queries} queries for each column; theta = 1 / "
    "k. Lists are shown by production (one), with a tenth of them shuffled (random10), by production or B "
    "(two), or drawn from a Plackett-Luce model (plackett); show 5: the first five of ten documents.\n\n"
    "A cell has the coverage of 95 % intervals of the differences B - A, C - B and C - D; b: the bias of "
    "B - A over its truth; w: the highest share of logs with a significant difference of the wrong sign, the "
    "sign being that of the DCG of attractions. Refused: the log does not identify the examination. True "
    "theta: given as propensities; for cascade and dbn, the mean examination of each position. The rows of "
    "the prototype are of another program, whose queries and rankers differ."
)


@dataclass(kw_only=True)
class ClickEstimators(Study):
    """Simulates logs, and writes the table.

    Args:
        output: output folder.
        num_logs: number of logs of a scenario.
        num_sessions: number of lists of a log.
        num_queries: number of queries of a log.
        replay_sessions: numbers of lists for the rejections by replay.
        seed: seed of all draws.
    """

    output: str
    num_logs: int
    num_sessions: int
    num_queries: int
    replay_sessions: list[int]
    seed: int

    def run(self, models: Mapping[str, Ranker], data: Mapping[str, DataSource]) -> Path:
        """Returns the path of the table. Trains nothing.

        Args:
            models, data: not used.
        """
        population = World.of(self.seed, POPULATION)
        tables = [self._table(population, names) for names in _TABLES]
        tables.append(self._replays())
        body = "\n\n".join([_EXPLAINED.format(self), *tables])
        return publish_study(
            Path(self.output),
            body,
            command="python -m ltrbench experiment=click_estimators",
            packages=(),
        )

    def _table(self, population: World, scenarios: Sequence[str]) -> str:
        """Returns a table of estimators in some scenarios, each row with one of the prototype below it."""
        columns = {}
        for name in scenarios:
            columns[name] = self._column(population, SCENARIOS[name])
            log.info("click estimators: %s", name)
        prototype = _prototype()
        cells: list[list[str]] = []
        for estimator in ESTIMATORS:
            ours = [columns[name][estimator] for name in scenarios]
            theirs = [prototype.get((estimator, name), "") for name in scenarios]
            cells.append([estimator, *ours])
            if any(theirs):
                cells.append(["prototype", *theirs])
        forms = dict.fromkeys(["estimator", *scenarios])
        return Table(columns_of(forms), cells).markdown()

    def _column(self, population: World, scenario: Scenario) -> dict[str, str]:
        """Returns estimator -> its cell."""
        cells = {name: Cell() for name in ESTIMATORS}
        # Without shuffled lists there is nothing that `random` could estimate from.
        left_out = () if scenario.shuffled else ("random",)
        for number in range(self.num_logs):
            seed = self.seed + 1 + number
            world = World.of(seed, self.num_queries)
            simulated = make_log(world, scenario, self.num_sessions, seed)
            add_estimates(cells, simulated, world, left_out)
        orders = truths(population, scenario, DCG)
        words = {}
        for name, cell in cells.items():
            metric = ESTIMATORS[name][1]
            values = truths(population, scenario, metric)
            has_truth = name != NAIVE
            if metric.startswith("snips"):
                has_truth = scenario.users == "pbm"
            words[name] = cell.summary(values, orders).in_words(has_truth)
        return words

    def _replays(self) -> str:
        """Returns the shares of logs that the replay check rejects, for two rankers."""
        cells: list[list[Any]] = []
        for users in CLICK_MODELS:
            scenario = Scenario(users, "PB")
            shares = [self._rejected(scenario, size) for size in self.replay_sessions]
            cells.append([users, *shares])
        forms: dict[str, str | None] = {"users": None}
        forms |= {f"rejected, {size:,} lists": ".2f" for size in self.replay_sessions}
        return Table(columns_of(forms), cells).markdown()

    def _rejected(self, scenario: Scenario, num_sessions: int) -> float:
        num_rejected = 0
        for number in range(self.num_logs):
            seed = self.seed + 1 + number
            world = World.of(seed, self.num_queries)
            simulated = make_log(world, scenario, num_sessions, seed)
            num_rejected += _harvest_is_rejected(simulated)
        return num_rejected / self.num_logs


def _harvest_is_rejected(simulated: Log) -> bool:
    # Without features, which the check does not use.
    plain = replace(simulated, others=simulated.others.iloc[:, :0])
    try:
        data = ClickSource(name="clicks", log=None).lists_of(plain)
    except DataError:  # refused: neither rejected nor accepted
        return False
    return _is_rejected(data, plain)


def _prototype() -> dict[tuple[str, str], str]:
    """Returns estimator and scenario -> the cell of the prototype."""
    with (Path(__file__).parent / "prototype.csv").open(encoding="utf-8") as file:
        listed = [*csv.DictReader(file)]
    return {(row["estimator"], row["scenario"]): row["cell"] for row in listed}
