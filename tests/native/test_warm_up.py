from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest

from ltrbench.native import warm_up as warming
from ltrbench.native.boosting import BoostingSettings, boost
from ltrbench.native.warm_up import compile_growth, four_documents


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
    boost(four_documents(), BoostingSettings(num_trees=1, num_leaves=3, splits=warming.LOOSE_SPLITS))
    with numba.core.event.install_recorder("numba:compile") as recorder:
        grown = compile_growth()
    assert recorder.buffer == []
    assert len(grown.leaf_node) == 2


COLD_RUN = """
import json, numba, numpy as np
from ltrbench.data.synthetic import make_synthetic
from ltrbench.metrics import evaluate, warm_up_metrics
from ltrbench.rankers.base import EarlyStopping
from ltrbench.rankers.native import NativeRanker

data = make_synthetic(num_queries=20)
warm_up_metrics()
NativeRanker().warm_up()
with numba.core.event.install_recorder("numba:compile") as recorder:
    ranker = NativeRanker(num_trees=2, early_stopping=EarlyStopping()).fit(data, data)
    evaluate(data, ranker.predict(data.features), ["ndcg@10", "map", "mrr", "precision@10"])
print(len(recorder.buffer))
"""


@pytest.mark.slow
def test_a_cold_warm_up_compiles_each_kernel_of_dense_data_once_and_a_fit_none(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert subprocess.check_output([sys.executable, "-c", COLD_RUN], env=environment, text=True) == "0\n"
    kernels, specialisations = ([*tmp_path.rglob(f"*.{kind}")] for kind in ("nbi", "nbc"))
    assert len(kernels) == len(specialisations)
    names = {path.name.partition("-")[0] for path in kernels}
    assert "growing.grow_best_first" in names
    of_later_use = (
        "sparse.sum_stored",
        "forest._all_stored",
        "forest._one_stored",
        "attribution.",
        "pairwise.",
        "position_bias.",
    )
    assert not [name for name in names if name.startswith(of_later_use)]
