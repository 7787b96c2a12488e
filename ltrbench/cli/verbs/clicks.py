"""The verb `clicks`: what estimates from a log of clicks are worth, by simulation on its own lists."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np

from ltrbench.cli.console import (
    JSON_OPTION,
    PATH,
    READ_OPTION,
    echo,
    echo_json,
    terminal_width,
    typed_options,
)
from ltrbench.errors import DataError
from ltrbench.shapes import Scores
from ltrbench.tables import Form, Table, columns_of

if TYPE_CHECKING:
    from ltrbench.clicks.log import Log
    from ltrbench.clicks.simulation import Replica
    from ltrbench.clicks.source import ClickSource
    from ltrbench.data import RankingDataset

_PBM = "pbm"
_MODELS = (_PBM, "trust", "dbn", "cascade")
_CLICKS = "clicks@10"
_HARVEST = ("harvest", _CLICKS)
_SHARE_OF_SMALL = 10
"""The small difference is that of one query in ten."""
_SMALLEST_TRUTH = 1e-9
_POWER = 2.8
"""Standard errors of a difference that is significant at 5 % with 80 % power: 1.96 + 0.84."""


@click.group("clicks")
def clicks_verb() -> None:
    """Commands on logs of clicks. To compare rankers on a log, run data=clicks."""


@clicks_verb.command("check")
@click.argument("files", metavar="LOG...", nargs=-1, required=True, type=PATH)
@click.option(
    "--logs",
    "num_logs",
    type=click.IntRange(min=2),
    default=20,
    show_default=True,
    help="Number of simulated logs for each click model.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    type=click.Choice(_MODELS),
    help="Click model of the users; may be repeated. Default: all.",
)
@READ_OPTION
@JSON_OPTION
def check_verb(
    files: tuple[Path, ...],
    num_logs: int,
    models: tuple[str, ...],
    reading: tuple[str, ...],
    as_object: bool,
) -> None:
    """Simulates clicks on the lists of LOG, and shows how well each estimator finds the truth.

    Each log draws queries of LOG with replacement, with all of their lists as they were shown. Users click by
    a known model, with the examination and the attractions that were estimated from LOG. The order by
    attraction is compared with the mean order that was shown (large difference), and with it in one query of
    ten only (small difference). --read sets a key of conf/data/clicks.yaml.

    bias: error of the mean estimate of the large difference; coverage: share of intervals of 95 % with the
    truth; small found, wrong sign: share of significant differences with that sign; rejected: by the check
    by replay; refused: the log does not identify the examination.

    \b
        python -m ltrbench clicks check log.csv
        python -m ltrbench clicks check log.csv --read ranker=version --model pbm --logs 100
    """
    from ltrbench.clicks.simulation import Replica

    source = _source_of(files, reading)
    replica = Replica.of(source.read(), source)
    rows: list[dict[str, Any]] = []
    truths: list[str] = []
    with click.progressbar(
        length=num_logs * len(models or _MODELS), file=sys.stderr, label="simulating"
    ) as progress:
        for model in models or _MODELS:
            counts = _Counts(_true_differences(replica, model))
            for seed in range(num_logs):
                counts.add(replica, model, seed)
                progress.update(1)
            rows.extend(counts.rows(model, num_logs))
            truths.append(counts.in_words(model, len(replica.log.session_names)))
    if as_object:
        record = {"logs": num_logs, "eta": replica.users.eta}
        echo_json({**record, "estimators": rows})
        return
    echo(_table_of(rows).markdown(terminal_width()))
    for line in truths:
        echo(line)


def _source_of(files: Sequence[Path], reading: Sequence[str]) -> ClickSource:
    from ltrbench.clicks.source import ClickSource
    from ltrbench.config import build

    settings = {
        "_target_": "ltrbench.clicks.source.ClickSource",
        "name": "clicks",
        "log": [str(path) for path in files],
        **typed_options(reading),
    }
    return build({"data": settings}, "data", ClickSource)


# ---- Rankings that are compared, and the counts of a click model.


def _rankings(replica: Replica, data: RankingDataset) -> list[Scores]:
    """Returns scores of the documents of a log: as shown, by attraction, and by attraction in few queries."""
    units = replica.units_of(data)
    shown = -replica.positions[units]
    by_attraction = replica.attraction[units]
    is_changed = replica.queries[units] % _SHARE_OF_SMALL == 0
    return [shown, by_attraction, np.where(is_changed, by_attraction, shown)]


class _Interval(NamedTuple):
    mean: float
    low: float
    high: float


@dataclass
class _Of:
    """Intervals of an estimator in several logs, of the large and the small difference."""

    large: list[_Interval] = field(default_factory=list)
    small: list[_Interval] = field(default_factory=list)
    num_rejected: int = 0
    num_refused: int = 0


@dataclass
class _Counts:
    """Estimators on the simulated logs of a click model.

    Attributes:
        truths: true large and small difference of the clicks a list.
        estimators: estimate of the examination and metric -> its intervals.
    """

    truths: tuple[float, float]
    estimators: dict[tuple[str, str], _Of] = field(default_factory=dict)

    def add(self, replica: Replica, model: str, seed: int) -> None:
        """Draws queries and simulates their clicks, and adds the interval of each estimator."""
        replica = replica.resampled(seed)
        log = replica.drawn(model, seed)
        for propensity, metrics in _estimators(replica):
            source = replace(replica.source, propensity=propensity)
            self._add_estimates(replica, source, log, metrics)

    def _add_estimates(
        self,
        replica: Replica,
        source: ClickSource,
        log: Log,
        metrics: Sequence[str],
    ) -> None:
        from ltrbench.clicks.source import with_columns
        from ltrbench.metrics import evaluate

        of_metric = {
            metric: self.estimators.setdefault((source.propensity, metric), _Of())
            for metric in metrics
        }
        try:
            data = with_columns(source.lists_of(log))
        except DataError:  # counted, and shown as a column
            for each in of_metric.values():
                each.num_refused += 1
            return
        every = _rankings(replica, data)
        values = [evaluate(data, scores, metrics).per_query for scores in every]
        is_rejected = _is_rejected(data, log)
        for metric, each in of_metric.items():
            shown, better, few = (of_ranking[metric] for of_ranking in values)
            of_large = _interval(better - shown, data.query_weights)
            of_small = _interval(few - shown, data.query_weights)
            each.large.append(of_large)
            each.small.append(of_small)
            each.num_rejected += is_rejected

    def rows(self, model: str, num_logs: int) -> Iterator[dict[str, Any]]:
        """Yields a row for each estimator."""
        for (propensity, metric), each in self.estimators.items():
            row: dict[str, Any] = {
                "users": model,
                "estimator": propensity,
                "metric": metric,
            }
            row |= self._quality(metric, each)
            row["wrong sign"] = _share_of(each.large + each.small, _is_wrong)
            row["small found"] = _share_of(each.small, _is_right)
            row["rejected"] = each.num_rejected / num_logs
            row["refused"] = each.num_refused / num_logs
            yield row

    def in_words(self, model: str, num_lists: int) -> str:
        """Returns the true differences, and the number of lists that find the small one by `harvest`."""
        large, small = self.truths
        truths = f"{model}: the true differences are {large:.3f} and {small:.3f} clicks a list"
        intervals = self.estimators[_HARVEST].small
        if model != _PBM or not intervals or abs(small) < _SMALLEST_TRUTH:
            return f"{truths}."
        widths = [interval.high - interval.low for interval in intervals]
        error = float(np.mean(widths)) / (2 * 1.96)
        needed = num_lists * (_POWER * error / small) ** 2
        return (
            f"{truths}; about {needed:,.0f} lists like these {num_lists:,} find the small one with 80 % "
            "power."
        )

    def _quality(self, metric: str, each: _Of) -> dict[str, float | None]:
        """Returns bias and coverage; None for a metric that estimates no number of clicks."""
        large, small = self.truths
        if not each.large or "clicks" not in metric.partition("@")[0]:
            return dict.fromkeys(("bias", "coverage", "coverage small"))
        mean = float(np.mean([interval.mean for interval in each.large]))
        return {
            "bias": _bias(mean, large),
            "coverage": _coverage(each.large, large),
            "coverage small": _coverage(each.small, small),
        }


def _estimators(replica: Replica) -> Iterator[tuple[str, list[str]]]:
    """Yields the estimates of examination that the log permits, each with its metrics."""
    yield _HARVEST[0], [_CLICKS, "clipped_clicks@10", "dcv@10:clicks"]
    if replica.log.is_randomised.any():
        yield "random", [_CLICKS]
    if not np.isnan(replica.log.propensities[replica.log.is_shown]).any():
        yield "column", [_CLICKS]
    yield "em", [_CLICKS]
    yield f"power:{replica.users.eta:.3g}", [_CLICKS]


def _true_differences(replica: Replica, model: str) -> tuple[float, float]:
    """Returns the large and the small difference on the queries of the log."""
    data = replica.source.lists_of(replica.log)
    rankings = _rankings(replica, data)
    shown, better, few = (
        replica.expected_clicks(scores, data, model) for scores in rankings
    )
    return better - shown, few - shown


def _is_rejected(data: RankingDataset, log: Log) -> bool:
    from ltrbench.clicks.checks import is_rejected, replays

    assert data.impressions is not None  # lists of a log have them
    names = [*log.ranker_names]
    return is_rejected(replays(data.impressions, data.query_of_document, names))


def _interval(differences: Scores, weights: Any) -> _Interval:
    from ltrbench.statistics.paired import PairedSample, student_intervals

    values = differences.astype(np.float64)
    sample = PairedSample.of(values, weights, are_clusters=True)
    (interval,) = student_intervals(sample)
    return _Interval(float(sample.means[0]), interval.low, interval.high)


def _bias(mean: float, truth: float) -> float | None:
    """Returns the error as a share of the truth; None if the truth is zero but for rounding."""
    if abs(truth) < _SMALLEST_TRUTH:
        return None
    return (mean - truth) / abs(truth)


def _is_wrong(interval: _Interval) -> bool:
    """Returns whether a difference is significant with the wrong sign: the order by attraction is better."""
    return interval.high < 0


def _is_right(interval: _Interval) -> bool:
    return interval.low > 0


def _share_of(
    intervals: Sequence[_Interval], holds: Callable[[_Interval], bool]
) -> float | None:
    if not intervals:
        return None
    return sum(map(holds, intervals)) / len(intervals)


def _coverage(intervals: Sequence[_Interval], truth: float) -> float:
    covered = [interval.low <= truth <= interval.high for interval in intervals]
    return float(np.mean(covered))


def _table_of(rows: Sequence[Mapping[str, Any]]) -> Table:
    shares = ("coverage", "coverage small", "small found", "wrong sign")
    forms: dict[str, Form | None] = dict.fromkeys(("users", "estimator", "metric"))
    forms["bias"] = "+.0%"
    for name in (*shares, "rejected", "refused"):
        forms[name] = ".0%"
    cells = [[row[name] for name in forms] for row in rows]
    return Table(columns_of(forms), cells)
