"""Makes the certificate of a converted model: scores and rankings on data, and probe rows. D documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.features import AnyFeatures, row_blocks
from ltrbench.errors import ResultError
from ltrbench.metrics import DEFAULT, Convention
from ltrbench.shapes import Features
from ltrbench.shipping.certificate.comparison import compare_scores, constant_difference, difference_of
from ltrbench.shipping.certificate.differences import KindOfProbe, compare_probes
from ltrbench.shipping.certificate.limits import decided_by, documents_with
from ltrbench.shipping.certificate.probes import ProbeRows, make_probes
from ltrbench.shipping.certificate.record import (
    CERTIFIED,
    NOT_VERIFIED,
    Certificate,
    Limit,
    ProbeCoverage,
)
from ltrbench.shipping.certificate.rounding import rounding_bounds, score_dtype_of
from ltrbench.shipping.certificate.verdict import judged
from ltrbench.shipping.model import ShippedModel
from ltrbench.shipping.target import Engine, Export

ScoreFunction = Callable[[Features], NDArray[np.floating[Any]]]


@dataclass(frozen=True, eq=False)
class Comparable:
    """The original and the converted model on the same rows.

    Attributes:
        original, converted: (N,) scores, the converted ones without their offset.
        bounds: (N,) rounding bounds.
        is_limited: (N,), whether a value decides that the engine cannot treat as the model does.
    """

    original: NDArray[np.float64]
    converted: NDArray[np.float64]
    bounds: NDArray[np.float64]
    is_limited: NDArray[np.bool_]

    def without(self, constant: float) -> Comparable:
        return self if constant == 0 else replace(self, converted=self.converted - constant)


def certify(
    model: ShippedModel,
    predict: ScoreFunction,
    data: RankingDataset,
    export: Export,
    engine: Engine | None,
    convention: Convention = DEFAULT,
    tolerance: int = 0,
) -> Certificate:
    """Returns the certificate of a converted model with its verdict.

    Args:
        predict: scores of the original model.
        data: documents whose rankings are compared.
        convention: convention of NDCG@10.
        tolerance: largest number of queries whose ranking may change.

    Raises:
        ResultError: The engine returns no score for a document.
    """
    if engine is None:
        limits = {kind: _limit(kind, export, model, data, 0) for kind in export.limits}
        return Certificate(NOT_VERIFIED, limits=limits, offset=export.offset, tolerance=tolerance)
    on_data = _score(model, predict, export, engine, data.features)
    probes = make_probes(model, data.features)
    on_probes = _score(model, predict, export, engine, probes.features)
    constant = _constant(on_data)
    on_data, on_probes = on_data.without(constant), on_probes.without(constant)
    comparison = compare_scores(data, on_data.original, on_data.converted, on_data.bounds, convention)
    limited = on_probes.is_limited | np.isin(probes.kinds, list(export.limits))
    differing = limited & (difference_of(on_probes.original, on_probes.converted) > on_probes.bounds)
    beyond = comparison.beyond_rounding
    certificate = Certificate(
        CERTIFIED,
        engine=engine,
        comparison=comparison,
        probes=_kinds(probes, model, on_probes, ~limited),
        coverage=ProbeCoverage(probes.num_splits, probes.num_tested, probes.num_reached),
        limits={
            kind: _limit(kind, export, model, data, int((differing & (probes.kinds == kind)).sum()))
            for kind in export.limits
        },
        offset=export.offset,
        constant=constant,
        unexplained=beyond[~on_data.is_limited[beyond]],
        tolerance=tolerance,
    )
    return judged(certificate, data, on_data.original, on_data.converted)


def scores_of(function: ScoreFunction, features: AnyFeatures, name: str) -> NDArray[np.float64]:
    """Returns (D,) scores in float64, computed by blocks of rows.

    Raises:
        ResultError: The function returns an array of another shape.
    """
    parts = []
    for _, block in row_blocks(features):
        scores = np.asarray(function(block))
        if scores.shape != (len(block),):
            raise ResultError(
                f"{name} returned scores of shape {scores.shape} for {len(block)} documents; the target "
                "must read one score per document. Report this with the model."
            )
        parts.append(scores.astype(np.float64))
    return np.concatenate(parts) if parts else np.empty(0)


def _score(
    model: ShippedModel, predict: ScoreFunction, export: Export, engine: Engine, features: AnyFeatures
) -> Comparable:
    dtypes = (score_dtype_of(model), engine.score_dtype)
    bounds = [rounding_bounds(model, block, dtypes, export.offset) for _, block in row_blocks(features)]
    limited = [decided_by(export.limits, model.scorer, block) for _, block in row_blocks(features)]
    return Comparable(
        original=scores_of(predict, features, "the model"),
        converted=scores_of(engine.scores, features, engine.name) - export.offset,
        bounds=np.concatenate(bounds) if bounds else np.empty(0),
        is_limited=np.concatenate(limited) if limited else np.empty(0, dtype=np.bool_),
    )


def _constant(on_data: Comparable) -> float:
    kept = ~on_data.is_limited
    return constant_difference(on_data.original[kept], on_data.converted[kept], on_data.bounds[kept])


def _kinds(
    probes: ProbeRows, model: ShippedModel, scored: Comparable, kept: NDArray[np.bool_]
) -> Mapping[str, KindOfProbe]:
    of_kept = replace(
        probes, features=probes.features[kept], kinds=probes.kinds[kept], changed=probes.changed[kept]
    )
    return compare_probes(
        of_kept, model.feature_names, scored.original[kept], scored.converted[kept], scored.bounds[kept]
    )


def _limit(kind: str, export: Export, model: ShippedModel, data: RankingDataset, differing: int) -> Limit:
    return Limit(export.limits[kind], documents_with(kind, model.scorer, data.features), differing)
