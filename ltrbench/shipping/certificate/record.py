"""A certificate, and its form in certificate.json."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.shipping.certificate.comparison import METRIC, RankingComparison
from ltrbench.shipping.certificate.differences import KindOfProbe
from ltrbench.shipping.certificate.rounding import FORMULA, SOURCE
from ltrbench.shipping.target import Engine

CERTIFICATE_FORMAT = 1
"""Version of the format of certificate.json."""

CERTIFIED, REFUSED, NOT_VERIFIED = "certified", "refused", "not verified"
"""`Certificate.status`."""


@dataclass(frozen=True)
class ProbeCoverage:
    """How many of the model's splits (feature and threshold) the rows test, and how many nodes they reach."""

    splits: int
    tested: int
    reached: int


@dataclass(frozen=True)
class Limit:
    """A kind of values that the engine cannot treat as the model does.

    Attributes:
        sentence: of the target.
        documents: documents of the data with such values; None: unknown.
        differing: probe rows with such values and another score.
    """

    sentence: str
    documents: int | None
    differing: int


@dataclass(frozen=True)
class Certificate:
    """What the converted model does to scores and rankings.

    Attributes:
        status: certified, refused or not verified.
        reason: why it is refused, in one paragraph; empty otherwise.
        engine: the evaluator; None: not verified.
        comparison: on the data; None: not verified.
        probes: kind -> rows of this kind, without those that a limit explains.
        coverage: of the probe rows.
        limits: kind -> limit.
        offset: constant that the engine adds to all scores, as the target declares it.
        constant: constant by which all scores differ in addition; it changes no ranking.
        unexplained: rows of the documents whose scores differ by more than rounding, without those that a
            limit explains.
        tolerance: largest number of queries whose ranking may change.
    """

    status: str
    reason: str = ""
    engine: Engine | None = None
    comparison: RankingComparison | None = None
    probes: Mapping[str, KindOfProbe] = field(default_factory=dict)
    coverage: ProbeCoverage = ProbeCoverage(0, 0, 0)
    limits: Mapping[str, Limit] = field(default_factory=dict)
    offset: float = 0.0
    constant: float = 0.0
    unexplained: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    tolerance: int = 0


def certificate_record(certificate: Certificate) -> dict[str, Any]:
    """Returns the JSON form; numbers that are not finite become text."""
    comparison = certificate.comparison
    content = {
        "format": CERTIFICATE_FORMAT,
        "status": certificate.status,
        "reason": certificate.reason or None,
        "verified_by": _evaluator(certificate.engine),
        "tolerance": certificate.tolerance,
        "offset": certificate.offset,
        "constant_difference": certificate.constant,
        "comparison": None if comparison is None else _of_comparison(comparison, certificate),
        "probes": None if comparison is None else _of_probes(certificate),
        "limits": {kind: vars(limit) for kind, limit in certificate.limits.items()},
    }
    return {name: finite_json(value) for name, value in content.items()}


def _evaluator(engine: Engine | None) -> dict[str, Any] | None:
    if engine is None:
        return None
    return {
        "evaluator": f"simulator of {engine.name}"
        if engine.is_simulated
        else f"{engine.name} {engine.version}",
        "is_simulated": engine.is_simulated,
        "score_dtype": engine.score_dtype,
        "rules": [vars(rule) for rule in engine.rules],
    }


def _of_comparison(comparison: RankingComparison, certificate: Certificate) -> dict[str, Any]:
    metric = comparison.metric
    return {
        "documents": comparison.num_documents,
        "queries": comparison.num_queries,
        "equal_scores": comparison.num_equal,
        "largest_difference": comparison.largest_difference,
        "beyond_rounding": len(comparison.beyond_rounding),
        "unexplained": len(certificate.unexplained),
        "changed_queries": len(comparison.changed_queries),
        "reversed_pairs": comparison.reversed_pairs,
        "tied_pairs": comparison.tied_pairs,
        "reversed_pairs_within_rounding": comparison.reversed_within_rounding,
        "tied_pairs_within_rounding": comparison.tied_within_rounding,
        "rounding": {"formula": FORMULA, "source": SOURCE},
        "metric": None if metric is None else {"name": METRIC, **vars(metric)},
    }


def _of_probes(certificate: Certificate) -> dict[str, Any]:
    return {
        **vars(certificate.coverage),
        "kinds": {
            kind: {
                "tested": rows.tested,
                "differing": rows.differing,
                "example": None if rows.example is None else vars(rows.example),
            }
            for kind, rows in certificate.probes.items()
        },
    }


def finite_json(value: Any) -> Any:
    """Returns a JSON value in which NaN and infinity are text, such as "inf".

    >>> finite_json({"a": [math.inf, 1.0]})
    {'a': ['inf', 1.0]}
    """
    if isinstance(value, Mapping):
        return {str(key): finite_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    return value
