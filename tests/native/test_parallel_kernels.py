"""Every parallel kernel compiles independently of the kernels that were compiled before it.

numba compiles the kernels that are not in the disk cache, in the order of their calls. A kernel that only
compiles after another one would fail for a user whose cache already contains the other one.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from engine_cases import COMPILED, make_dataset
from forked import run_forked
from numba.core.caching import NullCache
from numba.core.dispatcher import Dispatcher

import ltrbench.native
from ltrbench.compilation import config, is_cached, parallel_kernel
from ltrbench.data.features import SparseRows
from ltrbench.rankers.native import NativeRanker

pytestmark = [COMPILED, pytest.mark.slow]

FITS: list[dict[str, Any]] = [
    {},
    {"metric": "err@10"},
    {"objective": "xendcg", "truncation": None},
    {"position_bias": "propensity", "metric": "ndcg", "early_stopping": None},
    {"drop_rate": 0.5},
    {"features_per_split": 0.5},
]
"""Settings of native that together call each parallel kernel at least once."""


def parallel_kernels() -> Iterator[tuple[str, str]]:
    """Yields the module and name of each parallel kernel of the engine; none if numba is disabled."""
    for module in pkgutil.walk_packages(ltrbench.native.__path__, "ltrbench.native."):
        for name, value in vars(importlib.import_module(module.name)).items():
            is_parallel = isinstance(value, Dispatcher) and "parallel" in value.targetoptions
            if is_parallel and value.targetoptions["parallel"] and value.py_func.__module__ == module.name:
                yield module.name, name


NAMES = sorted(parallel_kernels())


def compile_alone(module: str, name: str) -> None:
    """Compiles one kernel for the argument types in its cache index; loads all others from the cache."""
    kernel: Any = getattr(importlib.import_module(module), name)
    signatures = [key[0] for key in kernel._cache._cache_file._load_index()]
    kernel._cache = NullCache()
    with numba.core.event.install_recorder("numba:compile") as recorder:
        for signature in signatures:
            kernel.compile(signature)
    functions = [event.data["dispatcher"].py_func for _, event in recorder.buffer]
    compiled = {f.__name__ for f in functions if f.__module__.startswith("ltrbench.")}  # not numba's own
    print(json.dumps([len(signatures), sorted(compiled)]))


def call_every_kernel() -> None:
    train = make_dataset(1)
    positioned = train.__class__(
        features=train.features,
        labels=train.labels,
        query_start=train.query_start,
        positions=np.concatenate([np.arange(size) for size in train.query_sizes]),
    )
    # One stored value per document: with more, they would be binned like dense features.
    sparse: Any = SparseRows.of(np.where(np.arange(train.num_features) == 0, train.features, np.float32(0)))
    for features_per_split in (1.0, 0.5):
        ranker = NativeRanker(num_trees=1, features_per_split=features_per_split)
        ranker.fit(replace(train, features=sparse))
    for settings in FITS:
        data = positioned if "position_bias" in settings else train
        ranker = NativeRanker(num_trees=3, min_docs_in_leaf=5, **settings).fit(data)
        ranker.contributions(data.features)
    NativeRanker().warm_up_member()


@pytest.fixture(scope="module")
def everything_cached() -> None:
    call_every_kernel()


@pytest.mark.parametrize(("module", "name"), NAMES)
@pytest.mark.usefixtures("everything_cached")
def test_a_parallel_kernel_compiles_alone_with_all_others_cached(
    module: str, name: str, tmp_path: Path
) -> None:
    assert is_cached(getattr(importlib.import_module(module), name)), f"no fit of FITS calls {module}.{name}"
    for _ in range(3):
        number, compiled = json.loads(in_new_process(f"compile_alone({module!r}, {name!r})", tmp_path))
        if compiled == [name]:
            return
        # Another process of the suite that compiles at the same time may have dropped entries of the cache's
        # index. The attempt has restored those of other kernels.
        if number == 0:
            in_new_process("call_every_kernel()", tmp_path)
    pytest.fail(f"{compiled} were compiled, and not {name} alone")


def in_new_process(call: str, folder: Path) -> str:
    """Calls a function of this file in a process without kernels in memory; returns what it prints."""
    path = f"import sys; sys.path[:0] = {sys.path!r}; "
    function = call.partition("(")[0]
    done = run_forked(f"{path}from test_parallel_kernels import {function}; {call}", [], folder, os.environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_numba_parallelises_nothing_but_prange_in_every_kernel_and_for_every_type_of_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def filled(values: Any) -> Any:
        zeros = np.zeros(len(values))
        values[:] = 1.0
        for i in numba.prange(len(values)):
            values[i] += zeros[i]
        return values

    for folder in ("first", "second"):  # separate caches, so that both compile
        monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / folder))
        kernel: Any = parallel_kernel(filled)
        for dtype in (np.float32, np.float64):
            assert kernel(np.zeros(3, dtype=dtype)).tolist() == [1.0, 1.0, 1.0]
            diagnostics = kernel.get_metadata(kernel.signatures[-1])["parfor_diagnostics"]
            assert diagnostics.count_parfors() == 1
