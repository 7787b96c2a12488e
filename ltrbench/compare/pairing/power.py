"""Power: the minimum detectable difference of a pair, and the data that a smaller difference needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ltrbench.compare.pairing.cells import PairedQueries, Trainings
from ltrbench.statistics import (
    FEWEST_REPLICATES,
    Design,
    Inference,
    PairStatistics,
    design_of_folds,
    design_of_replicates,
    fewest,
    resampling_factor,
)

QUERIES, SEEDS, RESAMPLES, FOLDS = "queries", "seeds", "resamples", "folds"


@dataclass(frozen=True)
class Need:
    """The number of queries, seeds, resamples or folds that detects a difference, all else unchanged.

    Attributes:
        kind: "queries", "seeds", "resamples" (of the training queries) or "folds".
        present: The present number; the larger one if the two models differ.
        number: The minimum that detects the difference; None if no number is enough.
        seconds: Estimated wall time of the additional trainings, one after another; None for queries, which
            need judgments, if no number is enough, and if the time of a training is not known.
    """

    kind: str
    present: int
    number: int | None
    seconds: float | None = None


@dataclass(frozen=True)
class Power:
    """Power of a pair. It follows from the standard error of the difference, not from the difference.

    Attributes:
        detectable: Minimum detectable difference (80 % power, alpha 5 %) in the scope of the pair; None if
            the error is not known.
        detect: The difference named by the user.
        needs: One need per kind for `detect`; empty if none is named or the error is not known.
        cheapest: Kind of the need with the shortest time; queries if nothing else is enough. None if the data
            are enough, nothing is enough, or the times are not known.
    """

    detectable: float | None
    detect: float | None
    needs: tuple[Need, ...] = ()
    cheapest: str | None = None

    @property
    def is_enough(self) -> bool:
        """Whether the present data detect the difference named by the user."""
        return self.detectable is not None and self.detect is not None and self.detectable <= self.detect


def power_of(
    queries: PairedQueries,
    rows: tuple[int, int],
    statistics: PairStatistics,
    inference: Inference | None,
    detect: float | None,
) -> Power:
    """Returns the power of row a against row b, from the error that the claim of the pair uses.

    Args:
        detect: Difference to compute needs for; None for no needs.
    """
    trainings = [of_cell for row in rows for of_cell in queries.trainings[row]]
    design = _design(trainings, statistics, inference, queries.test_share)
    if design is None:
        return Power(None, detect)
    if detect is None:
        return Power(design.detectable(), None)
    power = Power(design.detectable(), detect, _needs(design, trainings, detect))
    return power if power.is_enough else replace(power, cheapest=_cheapest(power.needs))


def _design(
    trainings: Sequence[Trainings],
    statistics: PairStatistics,
    inference: Inference | None,
    test_share: float | None,
) -> Design | None:
    """Returns the design of the experiment; None if the error is not known."""
    if inference is None:
        error, num_queries = statistics.standard_error, statistics.num_queries
        return None if error is None else Design(num_queries, error**2 * num_queries)
    if inference.standard_error is None:
        return None
    resample = trainings[0].resample
    is_over_folds = inference.parts.fold is not None
    number = (
        max(len(of_cell.keys) for of_cell in trainings) if is_over_folds else max(inference.num_replicates)
    )
    correction = 0.0
    if resample is not None:
        correction = resampling_factor(resample["kind"], number, resample["share"]) - 1 / number
    if is_over_folds:
        return design_of_folds(inference, test_share or 0.0, number, correction)
    return design_of_replicates(inference, correction)


def _needs(design: Design, trainings: Sequence[Trainings], detect: float) -> tuple[Need, ...]:
    """Returns the needs; of trainings only if they were repeated, otherwise their variance is not known."""
    number = fewest(lambda queries: replace(design, num_queries=queries), detect)
    needs = [Need(QUERIES, design.num_queries, number)]
    if design.training + design.by_query > 0:
        kind = SEEDS if trainings[0].resample is None else RESAMPLES
        number = fewest(lambda count: replace(design, num_trainings=count), detect, FEWEST_REPLICATES)
        # A model whose seeds change nothing has one training and needs no others.
        missing = [
            max((number or 0) - len(of_cell.keys), 0) if len(of_cell.keys) > 1 else 0 for of_cell in trainings
        ]
        needs.append(Need(kind, design.num_trainings, number, _seconds(number, missing, trainings)))
    if design.num_folds > 1:
        number = fewest(lambda folds: replace(design, num_folds=folds), detect)
        more = max((number or 0) - design.num_folds, 0) / design.num_folds
        missing_folds = [more * len(of_cell.keys) for of_cell in trainings]
        needs.append(Need(FOLDS, design.num_folds, number, _seconds(number, missing_folds, trainings)))
    return tuple(needs)


def _seconds(number: int | None, missing: Sequence[float], trainings: Sequence[Trainings]) -> float | None:
    """Returns the time of the missing trainings; None if one has no time, or no number is enough."""
    if number is None or not all(of_cell.seconds for of_cell in trainings):
        return None
    return sum(count * of_cell.seconds for count, of_cell in zip(missing, trainings, strict=True))


def _cheapest(needs: Sequence[Need]) -> str | None:
    trained = [need for need in needs if need.kind != QUERIES and need.number is not None]
    if not trained:
        return next((need.kind for need in needs if need.number is not None), None)
    times = {need.kind: need.seconds for need in trained if need.seconds is not None}
    return min(times, key=times.__getitem__) if len(times) == len(trained) else None
