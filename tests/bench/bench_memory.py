"""Benchmark of memory: peak memory of a fit with native and with LightGBM, each in a separate process.

    python tests/bench/bench_memory.py [--documents 1000000] [--leaves 255] [--trees 5] [--threads 2]

The features are generated once and read from a file, so that a process only contains the data and its engine.
The benchmark reports the peak of the whole process, including the data, and the increase during the fit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from bench_jobs import fit_lightgbm, fit_native, lightgbm_parameters, make_dataset

from ltrbench.data import RankingDataset
from ltrbench.measure import MemoryMeter
from ltrbench.rankers.native import NativeRanker

ENGINES = ("native", "force_row_wise", "force_col_wise")


def fit(engine: str, folder: Path, arguments: argparse.Namespace) -> dict[str, float | None]:
    """Prints MB above the data, and MB of the data; runs in the engine's process."""
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--leaves", type=int, default=255)
    parser.add_argument("--trees", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.engine:
        print(json.dumps(fit(arguments.engine, arguments.folder, arguments)))
        return
    with tempfile.TemporaryDirectory() as name:
        made = make_dataset(arguments.documents, seed=0)
        for field in ("features", "labels", "query_start"):
            np.save(Path(name) / f"{field}.npy", getattr(made, field))
        del made
        above = {engine: measure(engine, name) for engine in ENGINES}
    best = min(above["force_row_wise"], above["force_col_wise"])
    print(f"peak above the data: native / LightGBM = {above['native'] / best:.2f}")


def measure(engine: str, folder: str) -> float:
    command = [sys.executable, __file__, *sys.argv[1:], "--engine", engine, "--folder", folder]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    figures = json.loads(answer.splitlines()[-1])
    print(f"{engine:16} {figures['above']:7.0f} MB above {figures['data']:.0f} MB of features", flush=True)
    return float(figures["above"])


if __name__ == "__main__":
    main()
