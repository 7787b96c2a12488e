"""Benchmark of the limit of a fit: how close native comes to the least time that its histograms need.

    python tests/bench/bench_limits.py [--documents 150000] [--trees 50] [--leaves 31] [--repeats 5]

A fit adds the gradient of each document to one cell of the histogram of each column, for the documents of the
root and of the smaller child of each split. This number of additions does not depend on the implementation.
The least time of an addition is measured in a loop whose bins and histograms stay in the nearest cache.
"""

from __future__ import annotations

from functools import partial

import numba
import numpy as np
from bench_jobs import (
    fit_native,
    make_dataset,
    median_seconds,
    options,
)
from numpy.typing import NDArray

from ltrbench.compilation import kernel
from ltrbench.native import NO_FEATURE
from ltrbench.native.histogram import _add
from ltrbench.rankers.base import check_fitted
from ltrbench.rankers.native import NativeRanker

WORDS_IN_CACHE = 512


@kernel
def add_again(
    words: NDArray[np.uint64],
    values: NDArray[np.int64],
    sums: NDArray[np.int64],
    times: int,
) -> None:
    for _ in range(times):
        _add(words, values, sums)


def seconds_of_addition(repeats: int) -> float:
    """Returns the seconds of an addition to a cell, in the histograms of eight columns with 255 bins."""
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**63, WORDS_IN_CACHE).astype(np.uint64)
    values = rng.integers(0, 1000, WORDS_IN_CACHE)
    sums = np.zeros(8 * 256, dtype=np.int64)
    add_again(words, values, sums, 1)
    times = 2000
    taken = median_seconds(partial(add_again, words, values, sums, times), repeats)
    return taken / (times * WORDS_IN_CACHE * 8)


def num_additions(ranker: NativeRanker, num_columns: int) -> int:
    """Returns the number of additions of a fit: documents of the root and of the smaller children, times
    columns. The children of the last split of a tree are leaves, and have no histograms."""
    documents = 0
    for tree in check_fitted(ranker._forest).trees():
        counts = tree.num_documents
        of_smaller = np.minimum(counts[tree.left], counts[tree.right])
        of_smaller[tree.feature == NO_FEATURE] = 0
        last_split = np.argmax(tree.left * (tree.feature != NO_FEATURE))
        documents += int(counts[0] + of_smaller.sum() - of_smaller[last_split])
    return documents * num_columns


def main() -> None:
    arguments = options(__doc__, documents=150_000, trees=50, leaves=31, repeats=5)
    numba.set_num_threads(1)
    train = make_dataset(arguments.documents, seed=0)
    fit = partial(fit_native, train, arguments.trees, arguments.leaves, 1)
    ranker = fit()
    additions = num_additions(ranker, train.num_features)
    each = seconds_of_addition(arguments.repeats)
    taken = median_seconds(fit, arguments.repeats)
    print(
        f"{additions / 1e9:.2f} billion additions of {1e9 * each:.2f} ns: at least {additions * each:.2f} s; "
        f"the fit takes {taken:.2f} s, {additions * each / taken:.0%} of it is needed."
    )


if __name__ == "__main__":
    main()
