"""The verdict on a converted model: certified or refused, and the reason in one paragraph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ltrbench.data import Judgments, RankingDataset
from ltrbench.shapes import Scores
from ltrbench.shipping.certificate.record import NOT_VERIFIED, REFUSED, Certificate
from ltrbench.tables import listed

_MOST_CAUSES = 3
"""Maximum number of kinds of probe rows in a message."""


def judged(
    certificate: Certificate, data: RankingDataset, original: Scores, converted: Scores
) -> Certificate:
    """Returns the certificate with its verdict.

    Refused is a model that changes the rankings of more queries than the tolerance. With a tolerance of 0 it
    is also refused if scores of documents or probe rows differ by more than rounding, unless a limit of
    the target explains them.

    Args:
        original: (D,) scores of the original model.
        converted: (D,) scores of the engine, without offset.
    """
    comparison = certificate.comparison
    if certificate.status == NOT_VERIFIED or comparison is None:
        return certificate
    if len(comparison.changed_queries) > certificate.tolerance:
        what = _changed_ranking(certificate, data, original, converted)
    elif certificate.tolerance == 0 and certificate.unexplained.size:
        what = _other_scores(certificate, data, original, converted)
    elif certificate.tolerance == 0 and _causes(certificate):
        what = "The converted model has other scores than the original, although not on this data."
    else:
        return certificate
    return replace(
        certificate, status=REFUSED, reason=" ".join([what, *_causes(certificate), _remedy(certificate)])
    )


def _name(certificate: Certificate) -> str:
    assert certificate.engine is not None
    return certificate.engine.name


def _changed_ranking(
    certificate: Certificate, data: RankingDataset, original: Scores, converted: Scores
) -> str:
    comparison = certificate.comparison
    assert comparison is not None
    assert comparison.example is not None
    pair, name = comparison.example, _name(certificate)
    first, second = pair.first, pair.second
    return (
        f"{name} ranks {len(comparison.changed_queries)} of {comparison.num_queries} queries in another "
        f"order (tolerance {certificate.tolerance}), such as query {data.query_ids[pair.query]}: "
        f"{document_in_words(data, first)} before {document_in_words(data, second)} with the scores "
        f"{float(original[first])!r} and {float(original[second])!r}; {name} gives "
        f"{float(converted[first])!r} and {float(converted[second])!r}."
    )


def _other_scores(certificate: Certificate, data: RankingDataset, original: Scores, converted: Scores) -> str:
    row, name = int(certificate.unexplained[0]), _name(certificate)
    query = data.query_ids[int(np.searchsorted(data.query_start, row, side="right")) - 1]
    return (
        f"The scores of {certificate.unexplained.size} of {data.num_documents} documents differ by more than "
        f"rounding, such as query {query}, {document_in_words(data, row)}: {float(original[row])!r} in the "
        f"original and {float(converted[row])!r} in {name}."
    )


def document_in_words(data: Judgments, row: int) -> str:
    """Returns the id of a document; without ids, its row in the file from 1.

    >>> document_in_words(Judgments(labels=[0, 1], query_start=[0, 2]), 1)
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
    shown = [differing[kind].sentence(kind, _name(certificate)) for kind in kinds[:_MOST_CAUSES]]
    sentences = [f"{sentence[0].upper()}{sentence[1:]}." for sentence in shown]
    more = kinds[_MOST_CAUSES:]
    return [*sentences, f"Also differing: {listed(more)}."] if more else sentences


def _remedy(certificate: Certificate) -> str:
    limits = [limit for limit in certificate.limits.values() if limit.documents]
    if limits:
        return (
            f"{limits[0].sentence} {limits[0].documents} documents of the data have such values: replace "
            "them before training, or choose another target with --to."
        )
    comparison = certificate.comparison
    changed = max(len(comparison.changed_queries) if comparison else 0, 1)
    return f"Choose another target with --to, or accept the differences with --tolerance {changed}."
