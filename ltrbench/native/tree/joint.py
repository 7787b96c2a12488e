"""The search for the split of a leaf whose documents several members have.

Every member has the histogram of the whole leaf, so that every member finds the same best split of each
column. Only the documents must be counted together: one exchange per column that `splitting.choose` would
count, usually one per leaf. The result is that of `splitting.find_split` on all documents.
"""

from __future__ import annotations

from functools import partial

import numba
import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import parallel_kernel
from ltrbench.native.team import Team
from ltrbench.native.tree.histogram import Histogram, Quantised
from ltrbench.native.tree.sparse.layout import AnyBins
from ltrbench.native.tree.splitting import (
    FindSplit,
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


def prepare_joint_search(
    binned: AnyBins,
    bin_start: NDArray[np.int64],
    quantised: Quantised,
    settings: SplitSettings,
    team: Team,
) -> FindSplit:
    """Returns the search for splits of one tree."""
    return partial(find_joint_split, team, binned, bin_start, split_terms(settings, quantised))


def find_joint_split(
    team: Team, binned: AnyBins, bin_start: NDArray[np.int64], terms: SplitTerms, leaf: LeafToCut
) -> Split | None:
    """Returns the best split of a leaf, or None if no split is allowed."""
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
        counts_of[column] = counts = _counts(team, binned, terms, leaf, column, sums)
        if docs_of_smaller(counts, cuts[column]) >= terms.min_docs:
            break
        gains[column], *cuts[column] = best_cut_counted(leaf.histogram, bins, counts, terms)
    last_bin, missing_left = (int(part) for part in cuts[column])
    if sums[-1] == 0:
        missing_left = int(left_is_larger(sums, last_bin))
    num_left = None
    if not terms.counts_by_hessian:
        counts = counts_of[column]
        num_left = int(counts[: last_bin + 1].sum() + missing_left * counts[-1])
    return Split(float(gains[column]), column, last_bin, bool(missing_left), num_left=num_left)


def _counts(
    team: Team, binned: AnyBins, terms: SplitTerms, leaf: LeafToCut, column: int, sums: Histogram
) -> NDArray[np.int64]:
    """Returns the (bins,) number of documents of all members in each bin of a column."""
    if terms.counts_by_hessian:
        return estimated_counts(sums, leaf.size)
    return team.total(np.bincount(binned.bins_of(column, leaf.rows), minlength=len(sums)))


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
