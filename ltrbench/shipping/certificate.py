"""The certificate of a converted model: scores, rankings and verdict.

Scores and rankings of a converted model against those of the original. D documents, Q queries.

A pair of documents of a query is ordered if its original scores differ by more than the rounding bounds of
the two documents together (`rounding`); otherwise it counts as tied. The ranking of a query has changed if
the converted scores of an ordered pair are equal or in the other order. An engine that makes the same
decisions in all trees never changes a ranking.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments, RankingDataset
from ltrbench.data.features import AnyFeatures, row_blocks
from ltrbench.errors import ResultError
from ltrbench.metrics import DEFAULT, Convention, evaluate
from ltrbench.models.trees import Ensemble, ensemble_scores
from ltrbench.shapes import Features, Scores
from ltrbench.shipping.probes import (
    EXACT,
    FORMULA,
    IN_WORDS,
    SOURCE,
    ProbeRows,
    decided_by,
    documents_with,
    expected_scores,
    is_exact,
    make_probes,
    rounding_bounds,
)
from ltrbench.shipping.target import ABSENT_ZEROS, ZERO_VALUES, Engine, Export, ScoreFunction, ShippedModel
from ltrbench.tables import listed

METRIC = "ndcg@10"

_CELLS = 1 << 22
"""Number of pairs that are compared at a time."""


@dataclass(frozen=True)
class ChangedPair:
    """Two documents of a query that the converted model orders in another way; the first was ranked higher.

    Attributes:
        query: index of the query.
        first, second: rows of the documents.
    """

    query: int
    first: int
    second: int


@dataclass(frozen=True)
class MetricLoss:
    """The means over queries of both models, and the loss: original minus converted."""

    original: float
    converted: float
    loss: float


@dataclass
class RankingComparison:
    """Converted scores against original scores.

    Attributes:
        num_documents, num_queries: what was compared.
        num_equal: documents with exactly the same score.
        largest_difference: largest absolute difference of two scores.
        changed_queries: indices of the queries whose ranking has changed.
        reversed_pairs: ordered pairs in the other order.
        tied_pairs: ordered pairs with equal converted scores.
        reversed_within_rounding: pairs that count as tied, in the other order.
        tied_within_rounding: pairs that count as tied, and have different original and equal converted
            scores.
        example: a pair of the first changed query, the one with the largest difference of original scores.
        metric: NDCG@10 of both; None if no query counts or there are no labels.
    """

    num_documents: int
    num_queries: int
    num_equal: int
    largest_difference: float
    changed_queries: tuple[int, ...] = ()
    reversed_pairs: int = 0
    tied_pairs: int = 0
    reversed_within_rounding: int = 0
    tied_within_rounding: int = 0
    example: ChangedPair | None = None
    metric: MetricLoss | None = None

    def describe_reordered(self) -> str:
        """Returns how rounding changed the order of documents, as the end of a sentence, or nothing."""
        counts = (self.reversed_within_rounding, "in the other order"), (self.tied_within_rounding, "tied")
        parts = [f"{count} pair{'s' * (count > 1)} {how}" for count, how in counts if count]
        return f", which leaves {' and '.join(parts)}" if parts else ""


def compare_scores(
    judgments: Judgments,
    original: Scores,
    converted: NDArray[np.float64],
    bounds: NDArray[np.float64],
    convention: Convention,
) -> RankingComparison:
    """Compares (D,) converted scores, without their offset, with (D,) original scores.

    Args:
        bounds: (D,), by how much rounding alone moves the converted scores.
        convention: convention of NDCG@10.
    """
    scores = original.astype(np.float64)
    differences = difference_of(scores, converted)
    comparison = RankingComparison(
        num_documents=judgments.num_documents,
        num_queries=judgments.num_queries,
        num_equal=int((differences == 0).sum()),
        largest_difference=float(differences.max()),
        metric=_metric_loss(judgments, original, converted, convention),
    )
    for query in _reordered_queries(judgments, scores, converted):
        start, stop = judgments.query_start[query : query + 2].tolist()
        of_query = (array[start:stop] for array in (scores, converted, bounds))
        pair = _count_pairs(comparison, *of_query)
        if pair is not None:
            comparison.changed_queries += (query,)
            comparison.example = comparison.example or ChangedPair(query, start + pair[0], start + pair[1])
    return comparison


def difference_of(original: NDArray[np.float64], converted: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the absolute differences; 0 for equal infinities, infinity if only one score is a number."""
    with np.errstate(invalid="ignore"):
        differences = np.abs(converted - original)
    same = (converted == original) | (np.isnan(converted) & np.isnan(original))
    return np.where(same, 0.0, np.where(np.isfinite(differences), differences, np.inf))


def _count_pairs(
    comparison: RankingComparison,
    original: NDArray[np.float64],
    converted: NDArray[np.float64],
    bounds: NDArray[np.float64],
) -> tuple[int, int] | None:
    """Counts the pairs of a query; returns the wrong pair with the largest difference, None without one."""
    largest, pair = -1.0, None
    size = max(_CELLS // len(original), 1)
    for first in range(0, len(original), size):
        rows = slice(first, first + size)
        with np.errstate(invalid="ignore"):
            gap = np.nan_to_num(original[rows, None] - original, nan=0.0, posinf=np.inf, neginf=-np.inf)
            # The sign of the converted difference; NaN if a score is no number.
            after = np.where(
                converted[rows, None] == converted, 0.0, np.sign(converted[rows, None] - converted)
            )
            is_ordered = gap > bounds[rows, None] + bounds
        wrong = is_ordered & ~(after > 0)
        within = (gap > 0) & ~is_ordered
        comparison.reversed_pairs += int((is_ordered & (after < 0)).sum())
        comparison.tied_pairs += int((is_ordered & (after == 0)).sum())
        comparison.reversed_within_rounding += int((within & (after < 0)).sum())
        comparison.tied_within_rounding += int((within & (after == 0)).sum())
        i, j = divmod(int(np.where(wrong, gap, -1.0).argmax()), len(original))
        if wrong[i, j] and gap[i, j] > largest:
            largest, pair = float(gap[i, j]), (first + i, j)
    return pair


def _reordered_queries(
    judgments: Judgments, original: NDArray[np.float64], converted: NDArray[np.float64]
) -> list[int]:
    """Returns the queries in which the converted scores do not have exactly the order and the ties of the
    original scores; only their pairs need to be counted."""
    query = judgments.query_of_document
    order = np.lexsort((-original, query))
    same_query = query[order][1:] == query[order][:-1]
    goes_down = original[order][1:] < original[order][:-1]
    with np.errstate(invalid="ignore"):
        as_before = np.where(
            goes_down,
            converted[order][1:] < converted[order][:-1],
            converted[order][1:] == converted[order][:-1],
        )
    is_unordered = np.isnan(converted)
    changed = np.concatenate([query[order][1:][same_query & ~as_before], query[is_unordered]])
    return [int(number) for number in np.unique(changed)]


def _metric_loss(
    judgments: Judgments, original: Scores, converted: NDArray[np.float64], convention: Convention
) -> MetricLoss | None:
    """Returns NDCG@10 of both; None if no query counts."""
    ranked = np.where(np.isnan(converted), -np.inf, converted)
    before, after = (
        evaluate(judgments, scores, [METRIC], convention).means[METRIC]
        for scores in (original.astype(np.float64), ranked)
    )
    return None if np.isnan(before) else MetricLoss(before, after, before - after)


# ---- Probe rows on which the converted model has another score, by kind, with the first example.


@dataclass(frozen=True)
class ProbeExample:
    """A row with another score.

    Attributes:
        feature: name of the feature with the tested value.
        value: the tested value.
        original, converted: scores.
    """

    feature: str
    value: float
    original: float
    converted: float


@dataclass(frozen=True)
class KindOfProbe:
    """The rows of one kind.

    Attributes:
        tested: number of rows.
        differing: rows whose scores differ by more than rounding.
        example: the first of them; None if there is none.
    """

    tested: int
    differing: int
    example: ProbeExample | None = None

    def sentence(self, kind: str, engine: str) -> str:
        """Returns what differs, for messages; `example` must exist."""
        assert self.example is not None
        example = self.example
        return (
            f"{IN_WORDS.get(kind, kind)} has another score in {self.differing} of {self.tested} test rows, "
            f"such as {example.feature} = {example.value!r}: {example.original!r} in the original and "
            f"{example.converted!r} in {engine}"
        )


def compare_probes(
    probes: ProbeRows,
    kinds: NDArray[np.str_],
    model: ShippedModel,
    scored: Comparable,
    kept: NDArray[np.bool_],
) -> Mapping[str, KindOfProbe]:
    """Returns kind -> its rows; kinds in the order of the rows.

    Args:
        kinds: (N,), kind of each row.
        kept: (N,), the rows that are compared.
    """
    compared: dict[str, KindOfProbe] = {}
    for kind in dict.fromkeys(kinds[kept].tolist()):
        of_kind = kept & (kinds == kind)
        rows = np.flatnonzero(of_kind & scored.is_wrong)
        examples = [
            ProbeExample(
                feature=model.feature_names[probes.changed[row]],
                value=float(probes.values[row]),
                original=float(scored.original[row]),
                converted=float(scored.converted[row]),
            )
            for row in rows[:1]
        ]
        compared[kind] = KindOfProbe(int(of_kind.sum()), len(rows), *examples)
    return compared


# ---- A certificate, and its form in certificate.json.

CERTIFICATE_FORMAT = 1
"""Version of the format of certificate.json."""

CERTIFIED, REFUSED, NOT_VERIFIED = "certified", "refused", "not verified"
"""`Certificate.status`."""


@dataclass(frozen=True)
class ProbeCoverage:
    """How many of the model's splits (feature and threshold) the rows test."""

    splits: int
    tested: int


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
        is_exact: whether the scores of the engine are known to the last bit.
        comparison: on the data; None: not verified.
        absent: on the data with missing values in place of zeros; None: not possible in the engine.
        probes: kind -> rows of this kind, without those that a limit explains.
        coverage: of the probe rows.
        limits: kind -> limit.
        offset: constant that the engine adds to all scores, as the target declares it.
        unexplained: rows of the documents whose scores differ by more than rounding, without those that a
            limit explains.
        tolerance: largest number of queries whose ranking may change.
    """

    status: str
    reason: str = ""
    engine: Engine | None = None
    is_exact: bool = False
    comparison: RankingComparison | None = None
    absent: RankingComparison | None = None
    probes: Mapping[str, KindOfProbe] = field(default_factory=dict)
    coverage: ProbeCoverage = ProbeCoverage(0, 0)
    limits: Mapping[str, Limit] = field(default_factory=dict)
    offset: float = 0.0
    unexplained: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    tolerance: int = 0

    @property
    def engine_name(self) -> str:
        return self.engine.name if self.engine else ""


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
        "comparison": None if comparison is None else _of_comparison(comparison, certificate),
        "absent_zeros": None if certificate.absent is None else _of_rankings(certificate.absent),
        "probes": None
        if comparison is None
        else {
            **vars(certificate.coverage),
            "kinds": {kind: asdict(rows) for kind, rows in certificate.probes.items()},
        },
        "limits": {kind: vars(limit) for kind, limit in certificate.limits.items()},
    }
    return {name: finite_json(value) for name, value in content.items()}


def _evaluator(engine: Engine | None) -> dict[str, Any] | None:
    if engine is None:
        return None
    name = f"simulator of {engine.name}" if engine.is_simulated else f"{engine.name} {engine.version}"
    return {
        "evaluator": name,
        "is_simulated": engine.is_simulated,
        "score_dtype": engine.score_dtype,
        "rules": [vars(rule) for rule in engine.rules],
    }


def _of_comparison(comparison: RankingComparison, certificate: Certificate) -> dict[str, Any]:
    rounding = EXACT if certificate.is_exact else FORMULA
    return {
        **_of_rankings(comparison),
        "unexplained": len(certificate.unexplained),
        "rounding": {"formula": rounding, "source": None if certificate.is_exact else SOURCE},
    }


def _of_rankings(comparison: RankingComparison) -> dict[str, Any]:
    metric = comparison.metric
    return {
        "documents": comparison.num_documents,
        "queries": comparison.num_queries,
        "equal_scores": comparison.num_equal,
        "largest_difference": comparison.largest_difference,
        "changed_queries": len(comparison.changed_queries),
        "reversed_pairs": comparison.reversed_pairs,
        "tied_pairs": comparison.tied_pairs,
        "reversed_pairs_within_rounding": comparison.reversed_within_rounding,
        "tied_pairs_within_rounding": comparison.tied_within_rounding,
        "metric": None if metric is None else {"name": METRIC, **vars(metric)},
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


# ---- The verdict on a converted model: certified or refused, and the reason in one paragraph.

_MOST_CAUSES = 3
"""Maximum number of kinds of probe rows in a message."""


def judged(
    certificate: Certificate, data: RankingDataset, original: Scores, converted: Scores
) -> Certificate:
    """Returns the certificate with its verdict.

    Refused is a model that changes the rankings of more queries than the tolerance. With a tolerance of 0 it
    is also refused if scores of documents or probe rows differ by more than rounding, unless a limit of
    the target explains them. The same rankings are required where features that are 0 have no value in the
    engine, if that is possible.

    Args:
        original: (D,) scores of the original model.
        converted: (D,) scores of the engine, without offset.
    """
    comparison, absent = certificate.comparison, certificate.absent
    if comparison is None:
        return certificate
    if len(comparison.changed_queries) > certificate.tolerance:
        what = _changed_ranking(certificate, comparison, data, original, converted)
    elif absent and len(absent.changed_queries) > certificate.tolerance:
        loss = f", which loses {absent.metric.loss:.3g} of {METRIC}" if absent.metric else ""
        what = (
            f"{certificate.engine_name} ranks {len(absent.changed_queries)} of {absent.num_queries} queries "
            f"in another order (tolerance {certificate.tolerance}) if it has no value for features that are "
            f"0 in the data{loss}. A feature whose query does not match a document has no value. Use --set "
            "absent=zero, in a version of the engine that has it."
        )
    elif certificate.tolerance == 0 and certificate.unexplained.size:
        row = int(certificate.unexplained[0])
        query = data.query_ids[int(np.searchsorted(data.query_start, row, side="right")) - 1]
        what = (
            f"The scores of {certificate.unexplained.size} of {data.num_documents} documents differ by more "
            f"than rounding, such as query {query}, {describe_document(data, row)}: {float(original[row])!r} "
            f"in the original and {float(converted[row])!r} in {certificate.engine_name}."
        )
    elif certificate.tolerance == 0 and _causes(certificate):
        what = "The converted model has other scores than the original, although not on this data."
    else:
        return certificate
    changed = max(1, *(len(each.changed_queries) for each in (comparison, absent) if each))
    remedy = f"Choose another target with --to, or accept the differences with --tolerance {changed}."
    for limit in certificate.limits.values():
        if limit.documents:
            remedy = (
                f"{limit.sentence} {limit.documents} documents of the data have such values: replace them "
                "before training, or choose another target with --to."
            )
            break
    return replace(certificate, status=REFUSED, reason=" ".join([what, *_causes(certificate), remedy]))


def _changed_ranking(
    certificate: Certificate,
    comparison: RankingComparison,
    data: RankingDataset,
    original: Scores,
    converted: Scores,
) -> str:
    pair, name = comparison.example, certificate.engine_name
    assert pair is not None
    first, second = pair.first, pair.second
    return (
        f"{name} ranks {len(comparison.changed_queries)} of {comparison.num_queries} queries in another "
        f"order (tolerance {certificate.tolerance}), such as query {data.query_ids[pair.query]}: "
        f"{describe_document(data, first)} before {describe_document(data, second)} with the scores "
        f"{float(original[first])!r} and {float(original[second])!r}; {name} gives "
        f"{float(converted[first])!r} and {float(converted[second])!r}."
    )


def describe_document(data: Judgments, row: int) -> str:
    """Returns the id of a document; without ids, its row in the file from 1.

    >>> describe_document(Judgments(labels=[0, 1], query_start=[0, 2]), 1)
    'row 2'
    """
    if data.document_ids is not None:
        return f"document {data.document_ids[row]}"
    rows = data.file_rows if isinstance(data, RankingDataset) else None
    return f"row {(row if rows is None else int(rows[row])) + 1}"


def _causes(certificate: Certificate) -> list[str]:
    """Returns sentences on the kinds of probe rows that differ, those with the largest share first."""
    differing = {kind: rows for kind, rows in certificate.probes.items() if rows.differing}
    kinds = sorted(differing, key=lambda kind: -differing[kind].differing / differing[kind].tested)
    shown = [differing[kind].sentence(kind, certificate.engine_name) for kind in kinds[:_MOST_CAUSES]]
    sentences = [f"{sentence[0].upper()}{sentence[1:]}." for sentence in shown]
    more = kinds[_MOST_CAUSES:]
    return [*sentences, f"Also differing: {listed(more)}."] if more else sentences


# ---- Makes the certificate of a converted model: scores and rankings on data, and probe rows. D documents.


@dataclass(frozen=True, eq=False)
class Comparable:
    """The original and the converted model on the same rows.

    Attributes:
        original, converted: (N,) scores, the converted ones without their offset.
        bounds: (N,), by how much rounding alone moves the converted scores.
        is_wrong: (N,), whether rounding does not explain the converted score.
        is_limited: (N,), whether a value decides that the engine cannot treat as the model does.
    """

    original: NDArray[np.float64]
    converted: NDArray[np.float64]
    bounds: NDArray[np.float64]
    is_wrong: NDArray[np.bool_]
    is_limited: NDArray[np.bool_]

    def compared(self, data: RankingDataset, convention: Convention) -> RankingComparison:
        return compare_scores(data, self.original, self.converted, self.bounds, convention)


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
    limited = on_probes.is_limited | np.isin(probes.kinds, list(export.limits))
    differing = limited & on_probes.is_wrong
    kinds = compare_probes(probes, probes.kinds, model, on_probes, ~limited)
    absent = None
    if export.zeros_may_be_absent:
        receives_none = replace(engine, scores=lambda features: engine.scores(_without_zeros(features)))
        absent = _score(model, predict, export, receives_none, data.features).compared(data, convention)
        scored = _score(model, predict, export, receives_none, probes.features)
        zeros, absent_zeros = probes.kinds == ZERO_VALUES, np.full(len(probes.kinds), ABSENT_ZEROS)
        kinds = {**kinds, **compare_probes(probes, absent_zeros, model, scored, ~limited & zeros)}
    certificate = Certificate(
        CERTIFIED,
        engine=engine,
        is_exact=is_exact(model, engine),
        comparison=on_data.compared(data, convention),
        absent=absent,
        probes=kinds,
        coverage=ProbeCoverage(probes.num_splits, probes.num_tested),
        limits={
            kind: _limit(kind, export, model, data, int((differing & (probes.kinds == kind)).sum()))
            for kind in export.limits
        },
        offset=export.offset,
        unexplained=np.flatnonzero(on_data.is_wrong & ~on_data.is_limited),
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
    """Compares each row with the score that the terms of the model have in the arithmetic of the engine."""
    original = scores_of(predict, features, "the model")
    converted = scores_of(engine.scores, features, engine.name)

    def expected_of(block: Features) -> NDArray[np.float64]:
        return expected_scores(model, block, engine, export.offset)

    expected = scores_of(expected_of, features, "the model")
    is_wrong = np.zeros(len(features), dtype=np.bool_)
    scorer = model.scorer
    if isinstance(scorer, Ensemble):  # the trees, which are written, must have the scores of the model
        trees = scores_of(lambda block: ensemble_scores(scorer, block), features, "the model")
        is_wrong = difference_of(original, trees) > 0
    allowed = np.zeros(len(features))
    if not is_exact(model, engine):
        dtypes = (engine.score_dtype, engine.score_dtype)
        allowed = scores_of(
            lambda block: rounding_bounds(model, block, dtypes, export.offset), features, "the model"
        )
    is_wrong |= difference_of(expected, converted) > allowed
    limited = [decided_by(export.limits, model.scorer, block) for _, block in row_blocks(features)]
    # The differences themselves are rounded in float64.
    slack = 4 * np.finfo(np.float64).eps * (np.abs(original) + np.abs(expected) + export.offset)
    return Comparable(
        original=original,
        converted=converted - export.offset,
        bounds=np.nan_to_num(difference_of(original, expected - export.offset) + allowed + slack),
        is_wrong=is_wrong,
        is_limited=np.concatenate(limited) if limited else np.empty(0, dtype=np.bool_),
    )


def _without_zeros(features: Features) -> Features:
    return np.where(features == 0, np.float32(np.nan), features)


def _limit(kind: str, export: Export, model: ShippedModel, data: RankingDataset, differing: int) -> Limit:
    return Limit(export.limits[kind], documents_with(kind, model.scorer, data.features), differing)
