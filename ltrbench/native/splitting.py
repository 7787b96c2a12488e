"""Splitting: the best split of a leaf, over all columns, thresholds and both directions of missing values.

Let G be a sum of gradients and H a sum of hessians over documents:

    gain = score(G_left, H_left) + score(G_right, H_right) - score(G, H)
    score(G, H) = -step * (2 * G + (H + l2) * step)
    step = -G / (H + l2), clipped to [-max_delta_step, max_delta_step]

Without clipping, the score is G^2 / (H + l2) (Chen and Guestrin, 2016, "XGBoost: A Scalable Tree Boosting
System", equation 7, without the factor 1/2). If every hessian is 1, the criterion is least squares, as in
Friedman's MART and in RankLib. H is then the number of documents n, and

    gain = G_left^2 / n_left + G_right^2 / n_right - G^2 / n
         = n_left n_right / n * (G_left / n_left - G_right / n_right)^2

The second line is scikit-learn's friedman_mse, which pyltr uses (Friedman, 2001, "Greedy Function
Approximation", equation 35): if all hessians are 1, both are the same criterion.

The gain of a split must exceed min_split_gain, and each side must have at least min_docs_in_leaf documents
and a sum of hessians of at least min_sum_hessian. Among equal gains, the first split is chosen, in the order
of feature, threshold, and missing values right before left; with highest_of_equals, the last threshold of the
feature. If a leaf has no missing values, later missing values go to the side with the larger sum of hessians.

Histograms do not count documents, so that the search has two steps. First it computes the best split of every
column without the limit on documents; its gain is an upper bound. Then it takes the column with the highest
bound and counts the leaf's documents per bin until both sides have enough, usually after a few hundred. If
one side has too few, it computes the column's best split with the limit, and takes the column with the
highest bound again. With counts_by_hessian, documents are not counted: as in LightGBM, a bin with hessian h,
in a leaf of n documents and hessian H, is assumed to have n h / H documents, rounded; the first bin has the
remaining documents.

A split on a categorical feature sends a set of categories left and all others right; see the end of the file.

In identifiers, a `cut` is a candidate split, and a `Split` is the result of the search.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import (
    Part,
    borrowing_kernel,
    in_parts,
    inlined_kernel,
    kernel,
)
from ltrbench.errors import ConfigError, did_you_mean
from ltrbench.native.bins import Rows, SparseLayout, read_column
from ltrbench.native.histogram import Histogram, Quantised, Task, num_numeric
from ltrbench.native.team import Team
from ltrbench.settings import part, setting
from ltrbench.shapes import Gradients, Hessians, Values


@dataclass(kw_only=True)
class SplitOptions:
    """Settings of splits: requirements, and choices between equal splits."""

    max_depth: int = setting(0, at_least=0)
    """Maximum depth of a tree (XGBoost, LightGBM, pyltr); 0: no limit. It limits the number of interacting
    features."""
    min_docs_in_split: int = setting(2, at_least=2)
    """Minimum number of documents a leaf needs to be split (pyltr's min_samples_split)."""
    cut_without_gain: bool = setting(False)
    """Splits a leaf even without gain (RankLib, pyltr); requires min_split_gain=0. Trees then reach
    num_leaves, unless all gradients of each leaf are equal."""
    l1: float = setting(0.0, at_least=0)
    """L1 penalty on leaf values (LightGBM's lambda_l1, XGBoost's reg_alpha). It is subtracted from a leaf's
    |G|, in units of LightGBM's gradients: if the gradients of a leaf almost cancel, its value is 0."""
    equal_cuts: str = setting("lowest", choices=("lowest", "highest"))
    """Threshold among splits with equal gain: lowest (XGBoost, RankLib) or highest (LightGBM). Examples are
    thresholds with no document of the leaf in between; new documents may lie in between."""
    document_counts: str = setting("exact", choices=("exact", "by_hessian"))
    """Counts for min_docs_in_leaf: exact, or by_hessian: estimated from hessians (LightGBM). The estimate,
    from the share of the leaf's hessian, allows smaller leaves of documents with large hessians."""
    cat_smooth: float = setting(10.0, at_least=0)
    """Minimum number of documents of a category to go left, and smoothing of its gradient over hessian. Of
    categorical features, as in LightGBM: documents are estimated from hessians, and categories are sorted by
    G / (H + cat_smooth)."""
    cat_l2: float = setting(10.0, at_least=0)
    """L2 penalty in addition to l2, for splits that sort categories and for the leaves below (LightGBM)."""
    max_cat_threshold: int = setting(32, at_least=1)
    """Maximum number of categories that a split sends left (LightGBM)."""
    max_cat_to_onehot: int = setting(4, at_least=1)
    """Number of categories, with the missing one, up to which a split sends one category left (LightGBM)."""
    min_data_per_group: int = setting(100, at_least=1)
    """Minimum number of documents by which two sets of categories that are tried differ (LightGBM). As many
    must go right; both are estimated from hessians."""


@dataclass(kw_only=True)
class SplitSettings(SplitOptions):
    """Requirements of a leaf and its split; BoostingRanker documents the fields that backends share."""

    min_docs_in_leaf: int = 20
    min_sum_hessian: float = 1e-3
    min_split_gain: float = 0.0
    max_delta_step: float = 0.0
    l2: float = 0.0
    monotone: Mapping[str, int] = field(default_factory=dict)

    @property
    def highest_of_equals(self) -> bool:
        return self.equal_cuts == "highest"

    @property
    def counts_by_hessian(self) -> bool:
        return self.document_counts == "by_hessian"

    @property
    def gain_to_exceed(self) -> float:
        """Gain that a split must exceed; -inf with cut_without_gain: rounding can make a gain negative."""
        if self.cut_without_gain:
            return -np.inf
        return self.min_split_gain

    @property
    def least_docs(self) -> int:
        """Minimum number of documents a leaf needs to be split."""
        return max(2 * self.min_docs_in_leaf, self.min_docs_in_split)

    @property
    def largest_step(self) -> float:
        return self.max_delta_step or np.inf

    @property
    def least_hessian(self) -> float:
        """Minimum sum of hessians per side; above 0, because a Newton step divides by it."""
        return max(self.min_sum_hessian, np.finfo(np.float64).tiny)


Bounds = tuple[float, float]
"""(minimum, maximum) step of a leaf and all leaves below it."""
UNBOUNDED: Bounds = (-np.inf, np.inf)


class Split(NamedTuple):
    """A split: documents in bins up to `bin` go left; missing values go left if `missing_left`.

    For a categorical column, `bin` and `missing_left` are the number and the side of a `CategoryCut`.
    `num_left` is the number of documents of all members that go left; None: the search did not count them.
    """

    gain: float
    column: int
    bin: int
    missing_left: bool
    left_bounds: Bounds = UNBOUNDED
    right_bounds: Bounds = UNBOUNDED
    num_left: int | None = None


class SplitTerms(NamedTuple):
    """The settings in the integer units of a tree's histograms.

    Attributes:
        l2: L2 penalty, added to a sum of hessians.
        largest_step: maximum absolute step of a leaf.
        least_hessian: minimum sum of hessians per side.
        min_docs: minimum number of documents per side.
        gain_unit: gain that 1 represents.
        gain_to_exceed: gain that a split must exceed; not in units.
        highest_of_equals: as in SplitSettings.
        counts_by_hessian: as in SplitSettings.
        cat_smooth: added to the sum of hessians of a category.
        min_docs_of_category: the same as a minimum number of documents; not in units.
        cat_l2: L2 penalty in addition to l2.
        max_cat_threshold: as in SplitSettings.
        max_cat_to_onehot: as in SplitSettings.
        min_data_per_group: as in SplitSettings.
    """

    l2: float
    largest_step: float
    least_hessian: float
    min_docs: int
    gain_unit: float
    gain_to_exceed: float
    highest_of_equals: bool
    counts_by_hessian: bool
    cat_smooth: float
    min_docs_of_category: float
    cat_l2: float
    max_cat_threshold: int
    max_cat_to_onehot: int
    min_data_per_group: int


def split_terms(settings: SplitSettings, quantised: Quantised) -> SplitTerms:
    """Returns the settings in the units of these gradients and hessians."""
    gradient_unit = quantised.gradient_unit
    hessian_unit = quantised.hessian_unit
    return part(
        settings,
        SplitTerms,
        # The square must be finite for every unit.
        l2=min(settings.l2 / hessian_unit, 1e100),
        largest_step=settings.largest_step * hessian_unit / gradient_unit,
        least_hessian=settings.least_hessian / hessian_unit,
        min_docs=settings.min_docs_in_leaf,
        gain_unit=gradient_unit * gradient_unit / hessian_unit,
        cat_smooth=settings.cat_smooth / hessian_unit,
        min_docs_of_category=float(settings.cat_smooth),
        cat_l2=min(settings.cat_l2 / hessian_unit, 1e100),
    )


def newton_step(
    gradients: Gradients,
    hessians: Hessians,
    settings: SplitSettings,
    bounds: Bounds = UNBOUNDED,
    more_l2: float | NDArray[np.float64] = 0.0,
) -> NDArray[np.float64]:
    """Returns the steps of leaves with these sums of gradients and hessians.

    A step is 0 if the sum of hessians is too small. Constraints: see the constrained search below. `more_l2`
    is added to l2, for leaves below a split on a categorical feature.
    """
    shrunk = gradients - np.clip(gradients, -settings.l1, settings.l1)
    has_step = hessians >= settings.least_hessian
    divisor = hessians + settings.l2 + more_l2
    zeros = np.zeros_like(shrunk)
    step = np.divide(-shrunk, divisor, out=zeros, where=has_step)
    clipped: NDArray[np.float64] = np.clip(
        step, -settings.largest_step, settings.largest_step
    )
    return np.clip(clipped, *bounds)


def score(
    gradients: Gradients,
    hessians: Hessians,
    steps: NDArray[np.float64],
    settings: SplitSettings,
) -> NDArray[np.float64]:
    """Returns the scores of leaves with these sums of gradients and hessians and these steps."""
    shrunk = gradients - np.clip(gradients, -settings.l1, settings.l1)
    damped = (hessians + settings.l2) * steps
    scores: NDArray[np.float64] = -steps * (2.0 * shrunk + damped)
    return scores


def reference_split(
    gradients: Gradients,
    hessians: Hessians,
    bins: NDArray[np.uint8],
    num_bins: NDArray[np.int64],
    settings: SplitSettings,
    signs: NDArray[np.int8] | None = None,
    bounds: Bounds = UNBOUNDED,
) -> Split | None:
    """Specification: tries every split of a leaf.

    Args:
        gradients: (n,), of the leaf's documents.
        hessians: (n,), of the leaf's documents.
        bins: (C, n).
        num_bins: (C,).
        settings: requirements of a split.
        signs: (C,), monotone constraints; None: no constraint.
        bounds: bounds of the step with constraints.
    """
    best = None
    if settings.cut_without_gain and gradients.min() == gradients.max():
        return None  # no split has a gain, and RankLib tries none
    g_whole = np.array([gradients.sum()])
    h_whole = np.array([hessians.sum()])
    step = newton_step(g_whole, h_whole, settings)
    score_of_leaf = score(g_whole, h_whole, step, settings)[0]
    for c, b, missing_left in _all_cuts(num_bins):
        missing = bins[c] == num_bins[c] - 1
        left = np.where(missing, missing_left, bins[c] <= b)
        counts = _reference_counts(hessians, bins[c], num_bins[c], settings)
        num_left = counts[: b + 1].sum()
        num_left += missing_left * counts[-1]
        if min(num_left, len(left) - num_left) < settings.min_docs_in_leaf:
            continue
        sides = (left, ~left)
        g = np.array([gradients[side].sum() for side in sides])
        h = np.array([hessians[side].sum() for side in sides])
        steps = newton_step(g, h, settings, bounds)
        if h.min() < settings.least_hessian:
            continue
        rise = np.diff(steps)
        if signs is not None and signs[c] * rise < 0:
            continue
        gain = float(score(g, h, steps, settings).sum() - score_of_leaf)
        if not missing.any():
            missing_left = bool(h[0] >= h[1])
        found = Split(gain, c, b, missing_left)
        if _comes_first(found, best, settings):
            best = found
    return best


def _comes_first(found: Split, best: Split | None, settings: SplitSettings) -> bool:
    """Returns whether a split replaces the best one before it: a higher gain or, with highest_of_equals, an
    equal gain of the same column and a higher bin."""
    if best is None:
        return found.gain > settings.gain_to_exceed
    if found.gain != best.gain:
        return found.gain > best.gain
    is_later = found.column == best.column and found.bin > best.bin
    return settings.highest_of_equals and is_later


def _reference_counts(
    hessians: Hessians, bins: NDArray[np.uint8], num_bins: int, settings: SplitSettings
) -> NDArray[np.int64]:
    """Returns the (bins,) number of documents in each bin of a column; estimates with counts_by_hessian."""
    counts: NDArray[np.int64] = np.bincount(bins, minlength=num_bins)
    if not settings.counts_by_hessian:
        return counts
    shares = np.bincount(bins, hessians, minlength=num_bins) / hessians.sum()
    counts = np.floor(shares * len(bins) + 0.5)
    counts = counts.astype(np.int64)
    counts[0] = len(bins) - counts[1:].sum()
    return counts


def _all_cuts(num_bins: NDArray[np.int64]) -> Iterator[tuple[int, int, bool]]:
    for c in range(len(num_bins)):
        for b in range(num_bins[c] - 1):
            yield c, b, False
            yield c, b, True


def may_be_cut(
    settings: SplitSettings,
    quantised: Quantised,
    rows: Rows,
    depth: int,
    num_documents: int,
    team: Team,
) -> bool:
    """Returns whether a leaf may be split.

    Args:
        settings: requirements of a split.
        quantised: gradients of this member's documents.
        rows: this member's documents in the leaf.
        depth: depth of the leaf.
        num_documents: number of documents of all members in the leaf.
        team: the members of the fit.
    """
    if num_documents < settings.least_docs or 0 < settings.max_depth <= depth:
        return False
    return not (
        settings.cut_without_gain and _all_are_equal(quantised.packed[rows] >> 32, team)
    )


def _all_are_equal(gradients: NDArray[np.int64], team: Team) -> bool:
    """Returns whether the gradients of all members are equal; a member may have none."""
    extremes = np.full(2, -np.inf)
    if len(gradients):
        extremes[:] = -gradients.min(), gradients.max()
    lowest, highest = team.largest(extremes)
    return bool(-lowest == highest)


class Leaf(NamedTuple):
    """A leaf that is searched for a split.

    Attributes:
        histogram: (B,), sums over the documents of all members.
        rows: (n,), this member's documents in the leaf.
        columns: (C,), mask of the columns that may be used; empty: the leaf is not searched.
        num_documents: number of documents of all members in the leaf.
        best: (3, C), best split of each column so far: its gain (-inf: none), its last bin on the left, and
            whether missing values go left.
    """

    histogram: Histogram
    rows: Rows
    columns: NDArray[np.bool_]
    num_documents: int
    best: NDArray[np.float64]


@kernel
def leaf_to_search(
    histogram: Histogram, rows: Rows, columns: NDArray[np.bool_], num_documents: int
) -> Leaf:
    return Leaf(
        histogram, rows, columns, num_documents, np.full((3, len(columns)), -np.inf)
    )


BestCut = tuple[float, int, int, int]
"""Gain of a split, its column, its bin, and whether missing values go left."""
Counts = NDArray[np.int64]
"""Numbers of documents in bins."""
Search = Generator[Counts, Counts, Split | None]
"""The search for the best split of a leaf: yields this member's counts of documents, receives those of all
members, and returns the split, or None if no split is allowed."""


def find_splits(searches: Sequence[Search], team: Team) -> list[Split | None]:
    """Returns the results of the searches; each exchange has the counts of all searches that wait for one.

    Every member has the histograms of the whole leaves, so that all members find the same splits. Only the
    documents are counted together, for each column whose gain is the highest: usually one per leaf.
    """
    splits: list[Split | None] = [None] * len(searches)
    waiting = range(len(searches))
    received: dict[int, Counts | None] = dict.fromkeys(waiting)
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
            of_searches = np.split(totals, ends[:-1])
            received = dict(zip(sent, of_searches, strict=True))
    return splits


def search(
    task: Task,
    layout: SparseLayout | None,
    leaf: Leaf,
    terms: SplitTerms,
    constraints: Constraints | None,
) -> Search:
    """Finds the split that `choose` finds if one member has all documents of the leaf."""
    _best_cuts_of_all(task, leaf, terms, constraints)
    counts_of: dict[int, NDArray[np.int64]] = {}
    while True:
        column = int(np.argmax(leaf.best[0]))  # the first of equal gains
        if not leaf.best[0, column] > terms.gain_to_exceed:
            return None
        start = task.bin_start[column]
        sums = leaf.histogram[start : task.bin_start[column + 1]]
        if column in counts_of:
            break
        if terms.counts_by_hessian:
            counts_of[column] = estimated_counts(sums, leaf.num_documents)
        else:
            counts_of[column] = yield count(
                task, layout, column, leaf, len(leaf.rows) + 1
            )
        if has_enough(column, counts_of[column], task, leaf, terms, constraints):
            break
    gain = float(leaf.best[0, column])
    last_bin, missing_left = map(int, leaf.best[1:, column])
    is_categorical = column >= num_numeric(task)
    bounds = (UNBOUNDED, UNBOUNDED)
    if constraints is not None:
        bounds = _bounds_below(constraints, column, sums, last_bin, missing_left)
    if sums[-1] == 0 and not is_categorical:
        missing_left = int(left_is_larger(sums, last_bin))
    num_left = None  # the counts are estimates, or those of categories in another order
    if not terms.counts_by_hessian and not is_categorical:
        counts = counts_of[column]
        missing = missing_left * counts[-1]
        num_left = int(counts[: last_bin + 1].sum() + missing)
    return Split(gain, column, last_bin, bool(missing_left), *bounds, num_left)


DOCUMENTS_COUNTED = 256
"""Number of documents counted between two checks of whether they are enough."""


def _best_cuts_of_all(
    task: Task, leaf: Leaf, terms: SplitTerms, constraints: Constraints | None
) -> None:
    """Writes the best split of each column."""
    num_columns = num_numeric(task)
    in_parts(_best_cuts, num_columns, task, leaf, terms, constraints)
    num_categorical = len(leaf.columns) - num_columns
    in_parts(_best_category_cuts, num_categorical, task, leaf, terms, constraints)


@kernel
def _best_cuts(
    part: Part,
    task: Task,
    leaf: Leaf,
    terms: SplitTerms,
    constraints: Constraints | None,
) -> None:
    best_cuts(part, task.bin_start, leaf, terms, constraints)


@kernel
def _best_category_cuts(
    part: Part,
    task: Task,
    leaf: Leaf,
    terms: SplitTerms,
    constraints: Constraints | None,
) -> None:
    uncounted = np.zeros(0, dtype=np.int64)
    num_columns = num_numeric(task)
    for c in range(num_columns + part[0], num_columns + part[1]):
        best_category_cut(c, task.bin_start, leaf, uncounted, terms, constraints)


@kernel
def best_cuts(
    columns: tuple[int, int],
    bin_start: NDArray[np.int64],
    leaf: Leaf,
    terms: SplitTerms,
    constraints: Constraints | None,
) -> None:
    """Writes the best split of each column in a range, without the limit on documents."""
    uncounted = np.zeros((2, 0), dtype=np.int64)
    space = _space()
    histogram = leaf.histogram
    is_used = leaf.columns
    best = leaf.best
    for c in range(columns[0], columns[1]):
        if is_used[c]:
            bins = bin_start[c], bin_start[c + 1]
            cut = _best_cut(c, bins, histogram, uncounted, terms, constraints, space)
            best[0, c], best[1, c], best[2, c] = cut


COLUMNS_OF_BLOCK = 128
"""Number of columns whose highest gain is computed again after one of them has changed."""


@kernel
def _best_of_blocks(gains: Values) -> Values:
    num_blocks = (len(gains) - 1) // COLUMNS_OF_BLOCK + 1
    best = np.empty(num_blocks)
    for block in range(num_blocks):
        best[block] = np.max(_of_block(gains, block))
    return best


@inlined_kernel
def _of_block(gains: Values, block: int) -> Values:
    start = block * COLUMNS_OF_BLOCK
    return gains[start : start + COLUMNS_OF_BLOCK]


@kernel
def choose(
    task: Task, layout: SparseLayout | None, leaf: Leaf, terms: SplitTerms
) -> BestCut:
    """Returns the best split with enough documents on both sides, or column -1 if there is none.

    The leaf has the result of `best_cuts`; its gains are upper bounds.
    """
    if len(leaf.columns) == 0:
        return -np.inf, -1, 0, 0
    is_counted = np.zeros(len(leaf.columns), dtype=np.bool_)
    gains = leaf.best[0]
    # A leaf of sparse features may have thousands of candidates with too few documents.
    best_of_block = _best_of_blocks(gains)
    while True:
        block = int(np.argmax(best_of_block))
        # The first of equal gains.
        place = int(np.argmax(_of_block(gains, block)))
        c = block * COLUMNS_OF_BLOCK + place
        if not gains[c] > terms.gain_to_exceed:
            return -np.inf, -1, 0, 0
        sums = leaf.histogram[task.bin_start[c] : task.bin_start[c + 1]]
        if is_counted[c]:
            break
        if terms.counts_by_hessian:
            counts = estimated_counts(sums, leaf.num_documents)
        else:
            counts = count(task, layout, c, leaf, terms.min_docs)
        if has_enough(c, counts, task, leaf, terms, None):
            break
        is_counted[c] = True
        best_of_block[block] = np.max(_of_block(gains, block))
    last_bin = int(leaf.best[1, c])
    missing_left = int(leaf.best[2, c])
    if sums[-1] == 0 and c < num_numeric(task):
        missing_left = left_is_larger(sums, last_bin)
    return gains[c], c, last_bin, missing_left


@inlined_kernel
def has_enough(
    c: int,
    counts: NDArray[np.int64],
    task: Task,
    leaf: Leaf,
    terms: SplitTerms,
    constraints: Constraints | None,
) -> bool:
    """Returns whether both sides of a column's best split have enough documents; if not, writes the best
    split whose sides have."""
    is_enough = (
        docs_of_smaller(counts, leaf.best[1, c], leaf.best[2, c]) >= terms.min_docs
    )
    if c >= num_numeric(task):
        is_enough = _category_has_enough(
            task.categories, c, counts, (task, leaf), (terms, constraints)
        )
    elif not is_enough:
        bins = (task.bin_start[c], task.bin_start[c + 1])
        docs = _docs_left(counts)
        best = _best_cut(c, bins, leaf.histogram, docs, terms, constraints, _space())
        leaf.best[0, c], leaf.best[1, c], leaf.best[2, c] = best
    return is_enough


@kernel
def _category_has_enough(
    categories: NDArray[np.uint16] | None,
    c: int,
    counts: NDArray[np.int64],
    searched: tuple[Task, Leaf],
    rules: tuple[SplitTerms, Constraints | None],
) -> bool:
    """Does what `has_enough` does, for a categorical column."""
    is_enough = False
    if categories is not None:
        task, leaf = searched
        terms, constraints = rules
        cut = int(leaf.best[1, c]), int(leaf.best[2, c])
        num_left = _sum(counts * bins_on_left(c, task.bin_start, leaf, cut, terms))
        is_enough = min(num_left, _sum(counts) - num_left) >= terms.min_docs
        if not is_enough:
            best_category_cut(c, task.bin_start, leaf, counts, terms, constraints)
    return is_enough


@inlined_kernel
def left_is_larger(sums: Histogram, last_bin: int) -> int:
    return int(
        2 * (_sum(sums[: last_bin + 1]) & 0xFFFFFFFF) >= (_sum(sums) & 0xFFFFFFFF)
    )


@kernel
def _sum(values: NDArray[np.int64]) -> int:
    """Returns the sum; this loop is vectorised, unlike numba's version of NumPy's sum."""
    total = 0
    for i in range(len(values)):
        total += values[i]
    return total


@inlined_kernel
def count(
    task: Task, layout: SparseLayout | None, column: int, leaf: Leaf, min_docs: int
) -> NDArray[np.int64]:
    """Returns the (bins,) number of documents in each bin of a column.

    Counting stops as soon as both sides of the column's best split have min_docs documents.
    """
    num_bins = task.bin_start[column + 1] - task.bin_start[column]
    counts = np.zeros(num_bins, dtype=np.int64)
    ahead = np.empty(DOCUMENTS_COUNTED, dtype=np.uint64)
    if column >= num_numeric(task):
        _count_categories(
            task.categories, column - num_numeric(task), leaf.rows, counts
        )
        return counts
    for start in range(0, len(leaf.rows), DOCUMENTS_COUNTED):
        block = leaf.rows[start : start + DOCUMENTS_COUNTED]
        shift = read_column(task.words, layout, column, block, ahead)
        for i in range(len(block)):
            counts[(ahead[i] >> shift) & np.uint64(255)] += 1
        if (
            docs_of_smaller(counts, leaf.best[1, column], leaf.best[2, column])
            >= min_docs
        ):
            break
    return counts


@kernel
def _count_categories(
    categories: NDArray[np.uint16] | None,
    number: int,
    rows: Rows,
    counts: NDArray[np.int64],
) -> None:
    if categories is not None:
        bins = categories[number]
        for row in rows:
            counts[np.uint64(bins[np.uint64(row)])] += 1


@kernel
def docs_of_smaller(
    counts: NDArray[np.int64], last_bin: float, missing_left: float
) -> int:
    """Returns the number of documents on the smaller side of a split."""
    left = _sum(counts[: int(last_bin) + 1]) + int(missing_left) * counts[-1]
    return int(min(left, _sum(counts) - left))


@kernel
def estimated_counts(sums: Histogram, num_docs: int) -> NDArray[np.int64]:
    """Returns the (bins,) estimated numbers of documents, assuming equal hessians of all documents."""
    counts = np.empty(len(sums), dtype=np.int64)
    docs_per_hessian = num_docs / float(_sum(sums) & 0xFFFFFFFF)
    for b in range(len(sums)):
        counts[b] = int(float(sums[b] & 0xFFFFFFFF) * docs_per_hessian + 0.5)
    counts[0] = num_docs - _sum(counts[1:])
    return counts


@inlined_kernel
def _docs_left(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the (2, bins) documents left of the split after each bin: missing values right, then left."""
    docs = np.empty((2, len(counts)), dtype=np.int64)
    total = 0
    for b in range(len(counts)):
        total += counts[b]
        docs[0, b] = total
        docs[1, b] = total + counts[-1]
    return docs


class Cuts(NamedTuple):
    """Working memory for the splits of a column.

    Attributes:
        bin: (256,), last bin that goes left.
        left: (256,), packed sum of the left side.
        score: (256,), sum of the scores of both sides.
    """

    bin: NDArray[np.int64]
    left: NDArray[np.int64]
    score: Values


@kernel
def _space() -> Cuts:
    return Cuts(
        np.empty(256, dtype=np.int64), np.empty(256, dtype=np.int64), np.empty(256)
    )


@borrowing_kernel
def _best_cut(
    c: int,
    bins: tuple[int, int],
    histogram: Histogram,
    docs: NDArray[np.int64],
    terms: SplitTerms,
    constraints: Constraints | None,
    cuts: Cuts,
) -> tuple[float, int, int]:
    """Returns a column's best split: gain (-inf if none is allowed), bin, whether missing values go left.

    The bins of the column are bins[0], ..., bins[1] - 1 of the histogram. docs, (2, bins), is the number of
    documents left of each split, or empty if documents are not counted. The integers are below 2^53, so that
    floats represent them exactly.
    """
    if constraints is not None:
        return _best_constrained_cut(
            histogram[bins[0] : bins[1]], docs, terms, constraints, c
        )
    keep_all = terms.highest_of_equals or docs.size > 0
    missing = histogram[bins[1] - 1]
    num_cuts, total = _cuts_that_differ(histogram, bins, keep_all, cuts)
    total += missing
    # NumPy floats, because without compilation a division of Python floats by zero raises an error.
    leaf = _gradient(total), _hessian(total)
    best = -np.inf
    cut = 0
    missing_left = 0
    for side in range(2 if missing != 0 else 1):
        score, number = _best_score(
            cuts, num_cuts, side * missing, leaf, docs, side, terms
        )
        comes_first = number > cut if terms.highest_of_equals else number < cut
        if score > best or (score == best and comes_first):
            best = score
            cut = number
            missing_left = side
    return (
        terms.gain_unit * (best - _score(leaf[0], leaf[1], terms)),
        cuts.bin[cut],
        missing_left,
    )


@inlined_kernel
def _cuts_that_differ(
    histogram: Histogram, bins: tuple[int, int], keep_all: bool, cuts: Cuts
) -> tuple[int, int]:
    """Writes the splits of a column; returns their number and the sum of all values that are not missing.

    A split after an empty bin is the same as the split after the previous bin. It is only kept if `keep_all`
    is True, or if it is the first. Most bins of a small leaf are empty.
    """
    total = histogram[bins[0]]
    keep = np.uint64(keep_all)
    cuts.bin[0], cuts.left[0], num_cuts = 0, total, np.uint64(1)
    for b in range(bins[0] + 1, bins[1] - 1):
        value = histogram[np.uint64(b)]
        total += value
        # Always written but not always counted, which avoids an unpredictable branch.
        cuts.bin[num_cuts] = b - bins[0]
        cuts.left[num_cuts] = total
        num_cuts += np.uint64(value != 0) | keep
    return int(np.int64(num_cuts)), int(total)


@inlined_kernel
def _best_score(
    cuts: Cuts,
    num_cuts: int,
    missing: int,
    leaf: tuple[float, float],
    docs: NDArray[np.int64],
    side: int,
    terms: SplitTerms,
) -> tuple[float, int]:
    """Returns the highest score of an allowed split with `missing` on its left, or -inf, and its index.

    leaf is (gradient, hessian); docs[side] is the number of documents left of each split. Hessians and
    documents on the left increase with the bin, so that the allowed splits are adjacent.
    """
    hessian = leaf[1]
    first = 0
    end = num_cuts
    while first < end and _hessian(cuts.left[first] + missing) < terms.least_hessian:
        first += 1
    while (
        first < end
        and hessian - _hessian(cuts.left[end - 1] + missing) < terms.least_hessian
    ):
        end -= 1
    if docs.size > 0:
        num_docs = docs[1, num_cuts - 1]  # the last split has all values on its left
        while first < end and docs[side, first] < terms.min_docs:
            first += 1
        while first < end and num_docs - docs[side, end - 1] < terms.min_docs:
            end -= 1
    if first == end:
        return -np.inf, 0
    _score_cuts(cuts.left[first:end], missing, leaf, terms, cuts.score[first:end])
    if terms.highest_of_equals:
        best = _last_largest(cuts.score, first, end)
    else:
        best = _first_largest(cuts.score, first, end)
    return (cuts.score[best], best) if cuts.score[best] >= 0.0 else (-np.inf, 0)


@inlined_kernel
def _score_cuts(
    left: NDArray[np.int64],
    missing: int,
    leaf: tuple[float, float],
    terms: SplitTerms,
    scores: Values,
) -> None:
    """Writes the sum of both sides' scores of each split; without a branch, so that it can be vectorised."""
    gradient, hessian = leaf
    if terms.largest_step < np.inf:
        for i in range(len(left)):
            g_left = _gradient(left[i] + missing)
            h_left = _hessian(left[i] + missing)
            scores[i] = _score(g_left, h_left, terms) + _score(
                gradient - g_left, hessian - h_left, terms
            )
    else:  # with one division instead of two
        for i in range(len(left)):
            g_left = _gradient(left[i] + missing)
            h_left = _hessian(left[i] + missing)
            g_right = gradient - g_left
            h_right = hessian - h_left + terms.l2
            h_left += terms.l2
            scores[i] = (g_left * g_left * h_right + g_right * g_right * h_left) / (
                h_left * h_right
            )


# Integers of 32 bits, because only AVX-512 converts several integers of 64 bits to floats at once.
@kernel
def _gradient(packed: np.int64) -> np.float64:
    return np.float64(np.int32(packed >> 32))


@kernel
def _hessian(packed: np.int64) -> np.float64:
    return np.float64(np.uint32(packed & 0xFFFFFFFF))


@kernel
def _score(gradient: float, hessian: float, terms: SplitTerms) -> float:
    hessian += terms.l2
    step = max(-terms.largest_step, min(terms.largest_step, -gradient / hessian))
    return -step * (2.0 * gradient + hessian * step)


@inlined_kernel
def _first_largest(scores: Values, first: int, end: int) -> int:
    """Returns the index of the largest score, the first among equals; no score may be between -1 and 0.

    As integers, the bits of such floats have the same order, and integer comparisons can be vectorised.
    """
    bits = scores.view(np.int64)
    largest = bits[first]
    index = first
    for i in range(first, end):
        largest = max(largest, bits[np.uint64(i)])
    while bits[np.uint64(index)] != largest:
        index += 1
    return index


@inlined_kernel
def _last_largest(scores: Values, first: int, end: int) -> int:
    last = end - 1
    for b in range(last - 1, first - 1, -1):
        if scores[b] > scores[last]:
            last = b
    return last


# ---- Splitting with an l1 penalty and monotone constraints.
#
#     shrink(G)   = sign(G) * max(|G| - l1, 0)
#     step(G, H)  = -shrink(G) / (H + l2), clipped as above, then to the bounds of the leaf
#     score(G, H) = -step * (2 * shrink(G) + (H + l2) * step)
#
# l1 is LightGBM's lambda_l1 and XGBoost's reg_alpha: a leaf with |G| below l1 has step 0. Monotone
# constraints follow LightGBM's "basic" method, which XGBoost also uses: a split on a feature with sign +1
# is rejected if the step of its right side is below that of its left side. After a valid split, the steps
# of all leaves below either side are bounded by the mean of the two steps. As in LightGBM, the score of the
# unsplit leaf ignores its bounds, so that bounds may leave no positive gain. Unlike in LightGBM, a feature
# without a positive gain in a leaf is tried again in the leaves below it.
#
# The search is the one above. Only the best split of a column is computed by another loop, so that the loop
# without constraints stays fast.

# 1: scores must not decrease with the feature; -1: not increase; 0: unconstrained.
Signs = NDArray[np.int8]


class Constraints(NamedTuple):
    """The l1 penalty and the monotone constraints of a leaf.

    Attributes:
        signs: (C,).
        gradient_unit: gradient that the integer 1 represents.
        hessian_unit: hessian that the integer 1 represents.
        l1: as in SplitSettings.
        l2: as in SplitSettings.
        largest_step: as in SplitSettings.
        least_hessian: as in SplitSettings.
        low: minimum step.
        high: maximum step.
    """

    signs: Signs
    gradient_unit: float
    hessian_unit: float
    l1: float
    l2: float
    largest_step: float
    least_hessian: float
    low: float
    high: float


def monotone_signs(
    feature_names: Sequence[str],
    monotone: Mapping[str, int],
    categorical: Collection[str] = (),
) -> Signs:
    """Returns the (F,) signs of the features, given signs by feature name.

    Raises:
        ConfigError: If no feature has one of the names, or it is categorical.

    >>> monotone_signs(["bm25", "age"], {"age": -1}).tolist()
    [0, -1]
    """
    signs = np.zeros(len(feature_names), dtype=np.int8)
    for name, sign in monotone.items():
        if name not in feature_names:
            raise ConfigError(
                f"monotone.{name} is {sign}, but no feature has that name{did_you_mean(name, feature_names)}"
            )
        if name in categorical:
            raise ConfigError(
                f"monotone.{name} is {sign}, but the categories of this feature have no order. Remove "
                "the constraint, or read the column as a number."
            )
        signs[list(feature_names).index(name)] = sign
    return signs


def constraints_of(
    settings: SplitSettings, quantised: Quantised, signs: Signs, bounds: Bounds
) -> Constraints:
    """Returns the constraints of a leaf, given the (C,) signs of the columns and the bounds of its step."""
    units = {
        "gradient_unit": quantised.gradient_unit,
        "hessian_unit": quantised.hessian_unit,
    }
    low, high = map(float, bounds)
    return part(settings, Constraints, signs=signs, **units, low=low, high=high)


def _bounds_below(
    constraints: Constraints,
    column: int,
    sums: Histogram,
    last_bin: int,
    missing_left: int,
) -> tuple[Bounds, Bounds]:
    """Returns the bounds of the left and the right child of a split."""
    low = constraints.low
    high = constraints.high
    missing = missing_left * sums[-1]
    left = sums[: last_bin + 1].sum() + missing
    sides = [
        _constrained_step(side, constraints, low, high)
        for side in (left, sums.sum() - left)
    ]
    middle = sum(step for step, _ in sides) / 2
    match int(constraints.signs[column]):
        case 1:
            return (low, middle), (middle, high)
        case -1:
            return (middle, high), (low, middle)
    return (low, high), (low, high)


@kernel
def _best_constrained_cut(
    sums: Histogram,
    docs: NDArray[np.int64],
    terms: SplitTerms,
    constraints: Constraints,
    c: int,
) -> tuple[float, int, int]:
    """Returns what `_best_cut` returns, given the sums of the column's bins."""
    total = np.int64(_sum(sums))
    low = constraints.low
    high = constraints.high
    _, score_of_leaf = _constrained_step(total, constraints, -np.inf, np.inf)
    left = np.int64(0)
    best = -np.inf
    cut = 0
    missing_left = 0
    for b in range(len(sums) - 1):
        left += sums[b]
        for side in range(2):
            on_left = left + side * sums[-1]
            on_right = total - on_left
            smaller = (
                min(_hessian(on_left), _hessian(on_right)) * constraints.hessian_unit
            )
            if smaller < constraints.least_hessian:
                continue
            if (
                docs.size > 0
                and min(docs[side, b], docs[1, -2] - docs[side, b]) < terms.min_docs
            ):
                continue
            step_left, score_left = _constrained_step(on_left, constraints, low, high)
            step_right, score_right = _constrained_step(
                on_right, constraints, low, high
            )
            gain = score_left + score_right - score_of_leaf
            follows_sign = constraints.signs[c] * (step_right - step_left) >= 0.0
            is_higher_equal = terms.highest_of_equals and gain == best and b > cut
            if follows_sign and (gain > best or is_higher_equal):
                best = gain
                cut = b
                missing_left = side
    return best, cut, missing_left


@kernel
def _constrained_step(
    packed: np.int64,
    constraints: Constraints,
    low: float,
    high: float,
    more_l2: float = 0.0,
) -> tuple[float, float]:
    """Returns the step and the score of a leaf with this packed sum; more_l2, in units, is added to l2."""
    gradient = _gradient(packed) * constraints.gradient_unit
    hessian = _hessian(packed) * constraints.hessian_unit
    shrunk = gradient - max(-constraints.l1, min(constraints.l1, gradient))
    step = 0.0
    l2 = constraints.l2 + more_l2 * constraints.hessian_unit
    if hessian >= constraints.least_hessian:
        step = -shrunk / (hessian + l2)
    step = max(-constraints.largest_step, min(constraints.largest_step, step))
    step = max(low, min(high, step))
    return step, -step * (2.0 * shrunk + (hessian + l2) * step)


# ---- Splitting on a categorical feature, as in LightGBM.
#
# Of all partitions of the categories into two sets, one with the highest gain separates the categories in the
# order of G / H (Fisher, 1958, "On Grouping for Maximum Homogeneity"). Let b be a bin, with one category, and
# n_b = round(n H_b / H) its estimated number of documents, in a leaf of n documents:
#
#     1  take the bins with n_b >= cat_smooth, without bin 0 (missing, rare and unknown categories)
#     2  sort them by G_b / (H_b + cat_smooth), in the order of bins if equal
#     3  try to send the first i of them left, or the last i: i = 1, 2, ..., up to max_cat_threshold and half
#        of them, rounded up; but only sets that have at least min_data_per_group documents more than the
#        last set tried, and leave as many to the right
#
# The score of both sides has cat_l2 in addition to l2, that of the unsplit leaf has not. A column of at most
# max_cat_to_onehot bins is not sorted: each bin except bin 0 is tried alone, without the limits of steps 1
# and 3, and without cat_l2. All bins that are not sent left go right. min_docs_in_leaf applies to estimated
# numbers and, with document_counts=exact, to true numbers too.

CategoryCut = tuple[int, int]
"""Index of the last category that goes left in the order of step 2, and side: 0: from the front; 1: from the
back. Histogram and settings determine the order, so that the set need not be stored for candidates."""


def reference_category_cut(
    sums: NDArray[np.float64], num_documents: int, settings: SplitSettings
) -> tuple[float, NDArray[np.int64]]:
    """Specification: returns the highest gain of a split of a categorical column and the bins that go left;
    -inf if no split is allowed.

    Args:
        sums: (2, bins), sums of gradients and of hessians.
        num_documents: number of documents of the leaf; those of each bin are estimated.
        settings: requirements of a split.
    """
    documents_by_hessian = num_documents / sums[1].sum()
    counts = np.floor(sums[1] * documents_by_hessian + 0.5).astype(np.int64)
    bins = np.arange(1, sums.shape[1])
    group = settings.min_data_per_group
    l2 = settings.l2 + settings.cat_l2
    if sums.shape[1] <= settings.max_cat_to_onehot:
        candidates = [bins[i : i + 1] for i in range(len(bins))]
        group = 0
        l2 = settings.l2
    else:
        bins = bins[counts[1:] >= settings.cat_smooth]
        hessians = sums[1, bins] + settings.cat_smooth
        keys = sums[0, bins] / hessians
        bins = bins[np.argsort(keys, kind="stable")]
        most = min(settings.max_cat_threshold, (len(bins) + 1) // 2)
        candidates = [bins[:i] for i in range(1, most + 1)]
        descending = bins[::-1]
        candidates += [descending[:i] for i in range(1, most + 1)]
    total = sums.sum(axis=1)
    smoothed = replace(settings, l2=l2)
    whole = total[:1], total[1:]
    score_of_leaf = score(*whole, newton_step(*whole, settings), settings)
    best = -np.inf
    best_bins = bins[:0]
    tried = bins[:0]
    for left in candidates:
        if len(left) == 1:
            tried = tried[:0]
        num_left = counts[left].sum()
        new = num_left - counts[tried].sum()
        others = num_documents - num_left
        of_left = sums[:, left].sum(axis=1)
        g, h = np.column_stack([of_left, total - of_left])
        if min(num_left, others) < settings.min_docs_in_leaf:
            continue
        if h.min() < settings.least_hessian or min(new, others) < group:
            continue
        tried = left
        scores_of_sides = score(g, h, newton_step(g, h, smoothed), smoothed)
        gain = float(scores_of_sides.sum() - score_of_leaf[0])
        if gain > best:
            best = gain
            best_bins = left
    return best, best_bins


@kernel
def category_order(
    sums: Histogram, docs_per_hessian: float, terms: SplitTerms
) -> NDArray[np.int64]:
    """Returns the bins that may go left in the order of step 2."""
    if len(sums) <= terms.max_cat_to_onehot:
        return np.arange(1, len(sums))
    used = np.empty(len(sums), dtype=np.int64)
    keys = np.empty(len(sums))
    num_used = 0
    # Integers first, because most bins of a small leaf are empty.
    least_hessian = int((terms.min_docs_of_category - 0.5) / docs_per_hessian) - 1
    for b in range(1, len(sums)):
        is_large = sums[b] & 0xFFFFFFFF >= least_hessian
        if (
            is_large
            and _estimated(sums[b], docs_per_hessian) >= terms.min_docs_of_category
        ):
            used[num_used] = b
            keys[num_used] = _gradient(sums[b]) / (_hessian(sums[b]) + terms.cat_smooth)
            num_used += 1
    return used[np.argsort(keys[:num_used], kind="mergesort")]


@kernel
def _estimated(packed: np.int64, docs_per_hessian: float) -> int:
    return int(_hessian(packed) * docs_per_hessian + 0.5)


@kernel
def bins_on_left(
    c: int,
    bin_start: NDArray[np.int64],
    leaf: Leaf,
    cut: CategoryCut,
    terms: SplitTerms,
) -> NDArray[np.bool_]:
    """Returns the (bins,) mask of the bins that a split of a categorical column sends left."""
    sums = leaf.histogram[bin_start[c] : bin_start[c + 1]]
    (last, side) = cut
    order = category_order(
        sums, leaf.num_documents / _hessian(np.int64(_sum(sums))), terms
    )
    is_left = np.zeros(len(sums), dtype=np.bool_)
    for i in range(last if len(sums) <= terms.max_cat_to_onehot else 0, last + 1):
        is_left[order[len(order) - 1 - i if side else i]] = True
    return is_left


@kernel
def sides_of_bins(
    categories: NDArray[np.uint16] | None,
    bin_start: NDArray[np.int64],
    chosen: tuple[int, int, int],
    leaf: Leaf,
    terms: SplitTerms,
) -> NDArray[np.bool_]:
    """Returns the mask of `bins_on_left`; empty if no column is categorical.

    Args:
        chosen: column, and the `CategoryCut`.
    """
    if categories is None:
        return np.zeros(0, dtype=np.bool_)
    cut = (chosen[1], chosen[2])
    return bins_on_left(chosen[0], bin_start, leaf, cut, terms)


@kernel
def best_category_cut(
    c: int,
    bin_start: NDArray[np.int64],
    leaf: Leaf,
    docs: NDArray[np.int64],
    terms: SplitTerms,
    constraints: Constraints | None,
) -> None:
    """Writes the best split of a categorical column.

    docs is the true number of documents of each bin, or empty if documents are not counted.
    """
    if len(leaf.columns) == 0 or not leaf.columns[c]:
        return
    sums = leaf.histogram[bin_start[c] : bin_start[c + 1]]
    num_docs = leaf.num_documents
    total = np.int64(_sum(sums))
    docs_per_hessian = num_docs / _hessian(total)
    order = category_order(sums, docs_per_hessian, terms)
    is_one_hot = len(sums) <= terms.max_cat_to_onehot
    num_tried = (
        len(order)
        if is_one_hot
        else min(terms.max_cat_threshold, (len(order) + 1) // 2)
    )
    min_group, l2 = (0, 0.0) if is_one_hot else (terms.min_data_per_group, terms.cat_l2)
    best = -np.inf
    last = 0
    best_side = 0
    for side in range(1 if is_one_hot else 2):
        left = np.int64(0)
        docs_left = 0
        counted = 0
        group = 0
        for i in range(num_tried):
            b = order[len(order) - 1 - i if side else i]
            if is_one_hot:
                left = np.int64(0)
                docs_left = 0
                counted = 0
            estimate = _estimated(sums[b], docs_per_hessian)
            left += sums[b]
            docs_left += docs[b] if len(docs) > 0 else estimate
            counted += estimate
            group += estimate
            is_allowed = min(docs_left, num_docs - docs_left) >= terms.min_docs
            is_allowed &= bool(
                min(_hessian(left), _hessian(total - left)) >= terms.least_hessian
            )
            if is_allowed and group >= min_group and num_docs - counted >= min_group:
                group = 0
                gain = _gain_of_categories(left, total, l2, terms, constraints)
                if gain > best:
                    best = gain
                    last = i
                    best_side = side
    leaf.best[0, c] = best
    leaf.best[1, c] = last
    leaf.best[2, c] = best_side


@kernel
def _gain_of_categories(
    left: np.int64,
    total: np.int64,
    l2: float,
    terms: SplitTerms,
    constraints: Constraints | None,
) -> float:
    """Returns the gain of a split with l2 in addition to the l2 of the settings."""
    right = total - left
    if constraints is None:
        gain = _score(_gradient(left), _hessian(left) + l2, terms)
        gain += _score(_gradient(right), _hessian(right) + l2, terms)
        return terms.gain_unit * (
            gain - _score(_gradient(total), _hessian(total), terms)
        )
    low = constraints.low
    high = constraints.high
    _, gain = _constrained_step(left, constraints, low, high, l2)
    _, gain_of_right = _constrained_step(right, constraints, low, high, l2)
    _, score_of_leaf = _constrained_step(total, constraints, -np.inf, np.inf)
    return gain + gain_of_right - score_of_leaf
