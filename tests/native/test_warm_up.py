from __future__ import annotations

import subprocess
import sys

import numba

from ltrbench.native import boosting as warming
from ltrbench.native.boosting import BoostingSettings, boost, compile_growth, four_documents


def test_the_other_process_compiles_what_a_fit_grows_its_trees_by() -> None:
    boost(four_documents(), BoostingSettings(num_trees=1, num_leaves=3, splits=warming.LOOSE_SPLITS))
    with numba.core.event.install_recorder("numba:compile") as recorder:
        grown = compile_growth()
    assert recorder.buffer == []
    assert len(grown.leaf_node) == 2


WARM_RUN = """
import sys
from numba.core.registry import CPUDispatcher
from ltrbench.data.synthetic import make_synthetic
from ltrbench.metrics import evaluate, warm_up_metrics
from ltrbench.rankers.base import EarlyStopping
from ltrbench.rankers.native import NativeRanker

modules = [sys.modules[name] for name in sorted(sys.modules) if name.startswith("ltrbench")]
kernels = {value for module in modules for value in vars(module).values() if isinstance(value, CPUDispatcher)}

def specialisations():
    return sum(len(kernel.signatures) for kernel in kernels)

data = make_synthetic(num_queries=20)
warm_up_metrics()
NativeRanker().warm_up()
before = specialisations()
ranker = NativeRanker(num_trees=2, early_stopping=EarlyStopping()).fit(data, data)
evaluate(data, ranker.predict(data.features), ["ndcg@10", "map", "mrr", "precision@10"])
print(before > 5, specialisations() - before)
"""


def test_a_fit_after_the_warm_up_needs_no_further_specialisation_of_a_kernel() -> None:
    assert subprocess.check_output([sys.executable, "-c", WARM_RUN], text=True) == "True 0\n"
