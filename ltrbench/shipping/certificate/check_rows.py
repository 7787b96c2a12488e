"""Documents with expected scores, to check a deployed engine: check_rows.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.features import gather_rows
from ltrbench.rankers.models.importance import MOST_LISTED
from ltrbench.shapes import Features
from ltrbench.shipping.certificate.limits import features_read
from ltrbench.shipping.certificate.probes import make_probes
from ltrbench.shipping.certificate.rounding import rounding_bounds, score_dtype_of
from ltrbench.shipping.model import ShippedModel
from ltrbench.shipping.target import CheckRequests, CheckRows, Engine, Export, Target

CHECK_FORMAT = 1
"""Version of the format of check_rows.json."""
DOCUMENT = "document"
"""Kind of a row that is a document of the data."""

_NUM_QUERIES = 5
_MOST_DOCUMENTS = 20
_PROBES_OF_KIND = 3


@dataclass(frozen=True)
class _Chosen:
    """Rows to check, before they are scored: ids, queries, documents and kinds of (n, F) features."""

    ids: list[str]
    queries: list[str | None]
    documents: list[str | None]
    kinds: list[str]
    features: Features


def checked_rows(
    model: ShippedModel,
    target: Target,
    export: Export,
    engine: Engine | None,
    original: NDArray[np.float64],
    data: RankingDataset,
) -> tuple[dict[str, Any], CheckRequests | None]:
    """Returns the content of check_rows.json, and the requests that score its rows with the deployed engine.

    The rows are documents of a few queries, and probe rows without infinities. The expected score is that of
    the engine, with its offset; without an engine, of the original model plus the offset. Kinds that are
    limits of the target are left out, and rows that the requests leave out. If the engine can hold no row,
    the requests have no files, and no row is left out.

    Args:
        original: not used with an engine; (n,) scores of the original model for `chosen_features`.
    """
    chosen = _chosen(model, export, data)
    scores = original + export.offset if engine is None else engine.scores(chosen.features)
    dtype = "float32" if engine is None else engine.score_dtype
    bounds = rounding_bounds(model, chosen.features, (score_dtype_of(model), dtype), export.offset)
    is_kept = np.isfinite(scores)  # JSON has no other numbers
    expected = np.asarray(scores, dtype=np.float64)
    rows = CheckRows(tuple(chosen.ids), chosen.features, _columns(model), expected).where(is_kept)
    requests = target.check_requests(model, export, rows)
    if requests is not None and len(requests.left_out) == len(rows.ids):
        requests = replace(requests, files={})
    left_out = requests.left_out if requests is not None and requests.files else {}
    records = [
        {
            "id": identity,
            "query": chosen.queries[row],
            "document": chosen.documents[row],
            "kind": chosen.kinds[row],
            "features": _by_name(model, chosen.features[row]),
            "score": float(scores[row]),
            "rounding": float(bounds[row]),
        }
        for row, identity in enumerate(chosen.ids)
        if is_kept[row] and identity not in left_out
    ]
    record = {"format": CHECK_FORMAT, "target": target.name, "model": model.name, "rows": records}
    return record, requests


def chosen_features(model: ShippedModel, export: Export, data: RankingDataset) -> Features:
    """Returns the (n, F) features of the rows in check_rows.json."""
    return _chosen(model, export, data).features


def _chosen(model: ShippedModel, export: Export, data: RankingDataset) -> _Chosen:
    chosen = _Chosen([], [], [], [], np.empty((0, model.num_features), dtype=np.float32))
    rows = list(_documents(data, chosen))
    parts = [gather_rows(data.features, np.array(rows, dtype=np.int64))]
    probes = make_probes(model, data.features)
    usable = ~np.isinf(probes.features).any(axis=1) & ~np.isin(probes.kinds, list(export.limits))
    for kind in dict.fromkeys(probes.kinds[usable].tolist()):
        of_kind = np.flatnonzero(usable & (probes.kinds == kind))[:_PROBES_OF_KIND]
        parts.append(probes.features[of_kind])
        for number in range(len(of_kind)):
            chosen.ids.append(f"probe-{kind.replace(' ', '-')}-{number + 1}")
            chosen.queries.append(None)
            chosen.documents.append(None)
            chosen.kinds.append(kind)
    return _Chosen(chosen.ids, chosen.queries, chosen.documents, chosen.kinds, np.concatenate(parts))


def _documents(data: RankingDataset, chosen: _Chosen) -> Iterator[int]:
    """Yields rows of a few queries, evenly spaced, and adds their names."""
    queries = np.unique(np.linspace(0, data.num_queries - 1, _NUM_QUERIES).astype(np.int64))
    for query in queries.tolist():
        start, stop = data.query_start[query : query + 2].tolist()
        for number, row in enumerate(range(start, min(stop, start + _MOST_DOCUMENTS))):
            chosen.ids.append(f"q{query + 1}-d{number + 1}")
            chosen.queries.append(str(data.query_ids[query]))
            chosen.documents.append(None if data.document_ids is None else str(data.document_ids[row]))
            chosen.kinds.append(DOCUMENT)
            yield row


def _by_name(model: ShippedModel, values: NDArray[np.float32]) -> Mapping[str, float | None]:
    """Returns name -> value of a document."""
    return {
        model.feature_names[place]: None if np.isnan(values[place]) else float(values[place])
        for place in _columns(model)
    }


def _columns(model: ShippedModel) -> tuple[int, ...]:
    """Returns the features of a row: all, or of very many those that the model reads."""
    if model.num_features <= MOST_LISTED:
        return tuple(range(model.num_features))
    return tuple(features_read(model.scorer))
