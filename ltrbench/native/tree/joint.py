"""The search for splits of leaves whose documents several members have.

Every member has the histograms of the whole leaves, so that every member finds the same best split of each
column. Only the documents must be counted together, for each column that `splitting.choose` would count:
usually one per leaf. The counts of several leaves are exchanged at once. The result is that of
`splitting.find_split` on all documents.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import kernel, parallel_kernel
from ltrbench.native.team import Team
from ltrbench.native.tree.binning import Rows, read_words
from ltrbench.native.tree.histogram import Histogram, Quantised
from ltrbench.native.tree.sparse.layout import AnyBins
from ltrbench.native.tree.splitting import (
    DOCUMENTS_COUNTED,
    LeafToCut,
    Split,
    SplitSettings,
    SplitTerms,
    best_cut_counted,
    best_cuts,
    docs_of_smaller,
    estimated_counts,
    left_is_larger,
    split_terms,
)

FindSplits = Callable[[Sequence[LeafToCut]], list[Split | None]]
"""Returns the best split of each leaf, or None if no split is allowed."""

_Search = Generator[NDArray[np.int64], NDArray[np.int64], Split | None]
"""Yields this member's counts of documents, receives those of all members, and returns the split."""


def prepare_joint_search(
    binned: AnyBins,
    bin_start: NDArray[np.int64],
    quantised: Quantised,
    settings: SplitSettings,
    team: Team,
) -> FindSplits:
    """Returns the search for splits of one tree."""
    terms = split_terms(settings, quantised)

    def find_splits(leaves: Sequence[LeafToCut]) -> list[Split | None]:
        return _run_together([_search(binned, bin_start, terms, leaf) for leaf in leaves], team)

    return find_splits


def _run_together(searches: Sequence[_Search], team: Team) -> list[Split | None]:
    """Returns the results of the searches; each exchange has the counts of all searches that wait for one."""
    splits: list[Split | None] = [None] * len(searches)
    received: dict[int, NDArray[np.int64] | None] = dict.fromkeys(range(len(searches)))
    while received:
        sent: dict[int, NDArray[np.int64]] = {}
        for number, counts in received.items():
            try:
                # None starts a generator.
                sent[number] = searches[number].send(counts)  # type: ignore[arg-type]
            except StopIteration as end:
                splits[number] = end.value
        received = {}
        if sent:
            totals = team.total(np.concatenate(list(sent.values())))
            ends = np.cumsum([len(counts) for counts in sent.values()])
            received = dict(zip(sent, np.split(totals, ends[:-1]), strict=True))
    return splits


def _search(binned: AnyBins, bin_start: NDArray[np.int64], terms: SplitTerms, leaf: LeafToCut) -> _Search:
    gains, cuts = np.full(binned.num_columns, -np.inf), np.empty((binned.num_columns, 2), dtype=np.int64)
    _best_cuts_of_all(bin_start, leaf.histogram, leaf.columns, terms, gains, cuts)
    counts_of: dict[int, NDArray[np.int64]] = {}
    while True:
        column = int(np.argmax(gains))  # the first of equal gains
        if not gains[column] > terms.gain_to_exceed:
            return None
        bins = int(bin_start[column]), int(bin_start[column + 1])
        sums = leaf.histogram[bins[0] : bins[1]]
        if column in counts_of:
            break
        if terms.counts_by_hessian:
            counts = estimated_counts(sums, leaf.size)
        else:
            counts = yield _counts(binned.words, column, leaf.rows, len(sums))
        counts_of[column] = counts
        if docs_of_smaller(counts, cuts[column]) >= terms.min_docs:
            break
        gains[column], *cuts[column] = best_cut_counted(leaf.histogram, bins, counts, terms)
    return _split(float(gains[column]), column, cuts[column], sums, counts_of[column], terms)


def _split(
    gain: float,
    column: int,
    cut: NDArray[np.int64],
    sums: Histogram,
    counts: NDArray[np.int64],
    terms: SplitTerms,
) -> Split:
    last_bin, missing_left = int(cut[0]), int(cut[1])
    if sums[-1] == 0:
        missing_left = int(left_is_larger(sums, last_bin))
    num_left = None  # the counts are estimates
    if not terms.counts_by_hessian:
        num_left = int(counts[: last_bin + 1].sum() + missing_left * counts[-1])
    return Split(gain, column, last_bin, bool(missing_left), num_left=num_left)


@kernel
def _counts(words: NDArray[np.uint64], column: int, rows: Rows, num_bins: int) -> NDArray[np.int64]:
    """Returns the (bins,) number of this member's documents in each bin of a column of dense bins."""
    counts, ahead = np.zeros(256, dtype=np.int64), np.empty(DOCUMENTS_COUNTED, dtype=np.uint64)
    shift = np.uint64(8 * (column % 8))
    for start in range(0, len(rows), DOCUMENTS_COUNTED):
        block = rows[start : start + DOCUMENTS_COUNTED]
        read_words(words, column // 8, block, ahead)
        for i in range(len(block)):
            counts[(ahead[i] >> shift) & np.uint64(255)] += 1
    return counts[:num_bins]


@parallel_kernel
def _best_cuts_of_all(
    bin_start: NDArray[np.int64],
    histogram: Histogram,
    columns: NDArray[np.bool_],
    terms: SplitTerms,
    gains: NDArray[np.float64],
    cuts: NDArray[np.int64],
) -> None:
    """Writes the best split of each column; threads search groups of eight columns."""
    num_columns = len(columns)
    for group in numba.prange((num_columns + 7) // 8):
        column_range = 8 * group, min(8 * group + 8, num_columns)
        best_cuts(column_range, bin_start, histogram, columns, terms, gains, cuts)
