"""Scope and inference of the claim about a pair of rows.

The scope follows from what varied between the runs: only queries, also seeds, or also training sets (folds,
or resamples of the training queries). If the replicates of tuned rows have searches with different seeds, the
variance of tuning is a part of theirs, and the scope says so. `ltrbench.statistics.repeated.replicates` has
the formulas.
"""

from __future__ import annotations

from dataclasses import replace

from ltrbench.compare.pairing.cells import PairedQueries, Trainings
from ltrbench.compare.pairing.overlap import clustered
from ltrbench.shapes import PerQuery
from ltrbench.statistics import (
    METHODS,
    MODELS,
    RETRAINED,
    RETUNED,
    TUNED_METHODS,
    Inference,
    fold_replicates,
    independent_replicates,
    resampling_factor,
    shared_replicates,
)

_WITH_TUNING = {RETRAINED: RETUNED, METHODS: TUNED_METHODS}


def infer(queries: PairedQueries, a: int, b: int) -> tuple[str, Inference | None]:
    """Returns the scope of a claim about row a minus row b, and its inference.

    The inference is None if training was not repeated: the scope is then the trained models, and
    `statistics.simultaneous_intervals` over queries decide.
    """
    scope, inference = _infer(queries, a, b)
    tuned = [row for row in (a, b) if is_tuned(queries, row)]
    tuned_again = bool(tuned) and all(is_tuned_again(queries, row) for row in tuned)
    return _WITH_TUNING.get(scope, scope) if tuned_again else scope, inference


def is_tuned(queries: PairedQueries, row: int) -> bool:
    """Returns whether searches chose the settings of a row."""
    return all(of_cell.search_seeds for of_cell in queries.trainings[row])


def is_tuned_again(queries: PairedQueries, row: int) -> bool:
    """Returns whether a row has searches with several seeds in each cell."""
    return all(len(of_cell.search_seeds) > 1 for of_cell in queries.trainings[row])


def _infer(queries: PairedQueries, a: int, b: int) -> tuple[str, Inference | None]:
    """Returns the scope by the trainings alone, and the inference."""
    if are_folds(queries):
        return METHODS, _infer_over_folds(queries, a, b)
    # Models with different training sets allow no claim about training on either of them.
    if len(queries.cells) > 1 or queries.cells[0].train is None:
        return MODELS, None
    of_a, of_b = (of_distinct_queries(queries, row) for row in (a, b))
    return _on_one_split(of_a, of_b, queries.distinct.weights)


def of_distinct_queries(queries: PairedQueries, row: int) -> Trainings:
    """Returns the trainings of a row in the only cell, on the queries of `queries.distinct`."""
    (trainings,) = queries.trainings[row]
    if queries.distinct is queries.sample:
        return trainings
    sample = replace(queries.sample, values=trainings.values)
    return replace(trainings, values=clustered(sample, queries.query_keys).values)


def are_folds(queries: PairedQueries) -> bool:
    """Returns whether the cells are folds: different numbers and test queries, and known training sets."""
    folds = {cell.fold for cell in queries.cells} - {None}
    return (
        len(folds) > 1
        and len(folds) == len(queries.cells)
        and not queries.repeats_a_cell
        # The training set is None if models have different ones.
        and not any(cell.train is None for cell in queries.cells)
        and queries.test_share is not None
        and len(queries.counting_cells) > 1
    )


def _on_one_split(a: Trainings, b: Trainings, shares: PerQuery) -> tuple[str, Inference | None]:
    if a.resample is not None or b.resample is not None:
        common = sorted(set(a.keys) & set(b.keys))
        if a.resample is None or a.resample != b.resample or len(common) < 2:
            return MODELS, None
        factor = resampling_factor(a.resample["kind"], len(common), a.resample["share"])
        return METHODS, shared_replicates(a.values_of(common), b.values_of(common), shares, factor)
    if not _is_repeated(a, b):
        return MODELS, None
    if a.ranker_class == b.ranker_class and a.keys == b.keys:
        # A seed draws the same sample in both models.
        return RETRAINED, shared_replicates(a.values, b.values, shares)
    return RETRAINED, independent_replicates(a.values, b.values, shares)


def _is_repeated(a: Trainings, b: Trainings) -> bool:
    """Returns whether training was repeated in both rows, or in one if seeds change nothing in the other."""
    repeated = [len(row.keys) > 1 for row in (a, b)]
    return all(repeated) or (any(repeated) and (a.is_constant or b.is_constant))


def _infer_over_folds(queries: PairedQueries, a: int, b: int) -> Inference:
    assert queries.test_share is not None  # checked by `are_folds`
    folds, query_parts = [], []
    # Folds in which no query counts are left out.
    for number, inside in queries.counting_cells.items():
        shares = queries.sample.weights[inside]
        shares = shares / shares.sum()
        of_a, of_b = queries.trainings[a][number], queries.trainings[b][number]
        _, within = _on_one_split(of_a, of_b, shares)
        alone = independent_replicates(of_a.values.mean(axis=0)[None], of_b.values.mean(axis=0)[None], shares)
        folds.append(alone if within is None else within)
        query_parts.append(alone.parts.query)
    return fold_replicates(folds, query_parts, queries.test_share)
