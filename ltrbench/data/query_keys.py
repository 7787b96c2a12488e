"""Content-based keys of queries: queries with the same documents have the same key, whatever their id.

A key is 128 bits, written as 32 hexadecimal digits. It depends on the features and labels of the query's
documents, not on their order and not on the query id. A document's hash is a linear function of the bits of
its features modulo 2^64 (Carter and Wegman, 1979, "Universal classes of hash functions"), followed by the
finaliser of SplitMix64 (Steele, Lea and Flood, 2014, OOPSLA). A query's hash is the sum over its documents.
A key consists of two such hashes with different constants. The arithmetic uses integers only, so that keys
are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.features import SparseRows, csr_of, row_blocks
from ltrbench.errors import DataError
from ltrbench.shapes import Features

if TYPE_CHECKING:
    from ltrbench.data.dataset import RankingDataset

QueryKeys = NDArray[np.str_]
"""(Q,), key of each query; queries with equal keys are the same query."""

DIGITS = 32
"""Number of characters of a key."""

_Hashes = NDArray[np.uint64]  # (n, 2), one column per hash

_STEP = 0x9E3779B97F4A7C15  # SplitMix64's increment, 2^64 over the golden ratio
_SEEDS = (0x243F6A8885A308D3, 0x13198A2E03707344)  # digits of pi
_BLOCK = 2**20
"""Number of feature values hashed at a time, with eight bytes of memory each."""


def content_keys(dataset: RankingDataset) -> QueryKeys:
    """Returns the key of each query.

    If all documents of a query have the same features, as with a single document, the features do not
    identify the query: its key then depends on the query id as well.
    """
    sparse, size = csr_of(dataset.features), max(_BLOCK // dataset.num_features, 1)
    if sparse is None:
        features = _linear((block for _, block in row_blocks(dataset.features, size)), _feature_bits)
    else:
        features = _linear_of_sparse(sparse)
    starts = dataset.query_start[:-1]
    same = (features == np.repeat(features[starts], dataset.query_sizes, axis=0)).all(axis=1)
    alike = np.logical_and.reduceat(same, starts)
    keys = np.add.reduceat(_mixed(features + _of_labels(dataset)), starts, axis=0)
    if alike.any():
        keys[alike] += _mixed(_linear([dataset.query_ids[alike]], _characters))
    return _as_text(_mixed(keys))


def check_query_keys(keys: NDArray[Any], num_queries: int) -> None:
    """Raises DataError if an array does not have the dtype and shape of `num_queries` keys."""
    if keys.dtype.kind != "U" or keys.dtype.itemsize != 4 * DIGITS or keys.shape != (num_queries,):
        raise DataError(
            f"query_keys have dtype {keys.dtype} and shape {keys.shape}; expected one string of {DIGITS} "
            f"characters for each of the {num_queries} queries"
        )


def num_shared(keys: QueryKeys, others: QueryKeys) -> int:
    """Returns the number of distinct keys that occur in both arrays."""
    return len(set(keys.tolist()) & set(others.tolist()))


def _linear(blocks: Iterable[NDArray[Any]], bits: Callable[[NDArray[Any]], NDArray[np.uint32]]) -> _Hashes:
    """Returns sum_j b_ij k_j modulo 2^64 for the words b_i of each row i and random constants k_j.

    Args:
        blocks: consecutive rows, at least one block.
        bits: returns the words of the rows of a block.
    """
    words = map(bits, blocks)
    return np.concatenate([_spread(of_block) @ _constants(of_block.shape[1]) for of_block in words])


def _linear_of_sparse(sparse: SparseRows) -> _Hashes:
    """Returns `_linear` of sparse features from the stored values.

    With the word a of cells that are not stored, the sum over all cells is a sum_j k_j, plus the sum of
    (b_ij - a) k_j over the stored ones.
    """
    constants = _constants(sparse.num_features)
    absent = _spread(_feature_bits(np.array([sparse.absent], dtype=np.float32)))
    hashes = np.empty((len(sparse), 2), dtype=np.uint64)
    size = max(_BLOCK * len(sparse) // max(len(sparse.values), 1), 1)  # rows with about _BLOCK values
    for begin in range(0, len(sparse), size):
        row_start = sparse.row_start[begin : begin + size + 1]
        stored = slice(row_start[0], row_start[-1])
        differences = _spread(_feature_bits(sparse.values[stored])) - absent
        terms = differences[:, np.newaxis] * constants[sparse.columns[stored]]
        sums = np.concatenate([np.zeros((1, 2), dtype=np.uint64), np.cumsum(terms, axis=0)])
        places = row_start - row_start[0]
        hashes[begin : begin + size] = sums[places[1:]] - sums[places[:-1]]
    hashes += absent * constants.sum(axis=0)
    return hashes


@cache
def _constants(num_words: int) -> _Hashes:
    """Returns the (num_words, 2) constants k_j, one column per hash; all are odd."""
    numbers = np.arange(1, num_words + 1, dtype=np.uint64) * np.uint64(_STEP)
    return _splitmix(numbers[:, np.newaxis] + np.array(_SEEDS, dtype=np.uint64)) | np.uint64(1)


def _spread(words: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Returns the words with the high bits mixed into the low bits, which a product modulo 2^64 preserves."""
    return (words ^ (words >> np.uint32(16))).astype(np.uint64)


def _feature_bits(features: NDArray[Any]) -> NDArray[np.uint32]:
    values: Features = features + np.float32(0)  # -0 becomes 0
    values[np.isnan(values)] = np.nan  # the bits of a NaN differ between machines
    bits: NDArray[np.uint32] = values.view(np.uint32)
    return bits


def _characters(texts: NDArray[Any]) -> NDArray[np.uint32]:
    codes: NDArray[np.uint32] = np.ascontiguousarray(texts).view(np.uint32).reshape(len(texts), -1)
    return codes


def _of_labels(dataset: RankingDataset) -> _Hashes:
    labels = (dataset.labels + 0.0).view(np.uint64)
    return _splitmix(labels[:, np.newaxis] + np.array(_SEEDS, dtype=np.uint64))


def _mixed(hashes: _Hashes) -> _Hashes:
    return _splitmix(hashes ^ np.array(_SEEDS, dtype=np.uint64))


def _splitmix(hashes: _Hashes) -> _Hashes:
    mixed = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _as_text(hashes: _Hashes) -> QueryKeys:
    # Big-endian, so that the digits are the same on every machine.
    digits = hashes.astype(">u8").tobytes().hex().encode()
    return np.frombuffer(digits, dtype=f"S{DIGITS}").astype(f"U{DIGITS}")
