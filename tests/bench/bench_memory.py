"""Benchmark of memory: peak memory of a fit with native and with LightGBM, each in a separate process.

    python tests/bench/bench_memory.py [--documents 1000000] [--leaves 255] [--trees 5] [--threads 2]

The features are generated once and read from a file, so that a process only contains the data and its engine.
The benchmark reports the peak of the whole process, including the data, and the increase during the fit.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from pathlib import Path

import numpy as np
from bench_jobs import fit_lightgbm, fit_native, in_new_process, lightgbm_parameters, make_dataset, options

from ltrbench.data import RankingDataset
from ltrbench.measure import MemoryMeter
from ltrbench.rankers.native import NativeRanker

ENGINES = ("native", "force_row_wise", "force_col_wise")


def fit(engine: str, folder: Path, arguments: Namespace) -> dict[str, float | None]:
    """Returns MB above the data, and MB of the data; runs in the engine's process."""
    arrays = {name: np.load(folder / f"{name}.npy") for name in ("features", "labels", "query_start")}
    train = RankingDataset(**arrays)
    if engine == "native":
        NativeRanker().warm_up()
    with MemoryMeter() as meter:
        if engine == "native":
            fit_native(train, arguments.trees, arguments.leaves, arguments.threads)
        else:
            parameters = lightgbm_parameters(arguments.leaves, arguments.threads, engine)
            fit_lightgbm(train, arguments.trees, parameters)
    return {"above": meter.rise_mb, "data": train.features.nbytes / 1e6}


def main() -> None:
    arguments = options(__doc__, documents=1_000_000, leaves=255, trees=5, threads=2)
    with tempfile.TemporaryDirectory() as name:
        made = make_dataset(arguments.documents, seed=0)
        for field in ("features", "labels", "query_start"):
            np.save(Path(name) / f"{field}.npy", getattr(made, field))
        del made
        above = {}
        for engine in ENGINES:
            used = in_new_process(fit, engine, Path(name), arguments)
            print(f"{engine:16} {used['above']:7.0f} MB above {used['data']:.0f} MB of features", flush=True)
            above[engine] = used["above"]
    best = min(above["force_row_wise"], above["force_col_wise"])
    print(f"peak above the data: native / LightGBM = {above['native'] / best:.2f}")


if __name__ == "__main__":
    main()
