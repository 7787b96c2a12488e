from __future__ import annotations

import subprocess
from typing import Any

import numba
import pytest

from ltrbench.native import warm_up as warming
from ltrbench.native.boosting import BoostingSettings, boost
from ltrbench.native.objectives.dialects import NATIVE
from ltrbench.native.warm_up import compile_engine, compile_growth, four_documents, four_sparse_documents


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Records the processes that a warm-up starts."""
    started: list[subprocess.Popen[bytes]] = []

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    return started


def test_the_other_process_compiles_what_a_fit_grows_its_trees_by() -> None:
    settings = BoostingSettings(num_trees=1, num_leaves=3, splits=warming.LOOSE_SPLITS)
    for data in (four_documents(), four_sparse_documents()):
        boost(data, settings)
    with numba.core.event.install_recorder("numba:compile") as recorder:
        grown = compile_growth()
    assert recorder.buffer == []
    assert [len(tree.leaf_node) for tree in grown] == [2, 2]


def test_another_process_compiles_where_the_cache_is_empty(
    processes: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warming, "is_cached", lambda kernel: False)
    compile_engine(NATIVE, None, num_threads=2)
    assert [process.returncode for process in processes] == [0]


@pytest.mark.parametrize(("cached", "num_threads"), [(True, 2), (False, 1)])
def test_there_is_no_other_process_without_work_or_a_thread_for_it(
    processes: list[subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
    cached: bool,
    num_threads: int,
) -> None:
    monkeypatch.setattr(warming, "is_cached", lambda kernel: cached)
    compile_engine(NATIVE, None, num_threads)
    assert processes == []
