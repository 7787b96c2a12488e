"""Benchmark of data at full size: peak memory and time of each step of a whole run on a generated store.

    python tests/bench/bench_full_size.py [--documents 3771125] [--features 136] [--trees 100] [--leaves 63]
        [--model native] [--threads 2] [--folder DIR] [--store STORE]

The defaults are the size of MSLR-WEB30K; Istella's is --documents 10454629 --features 220 --trees 10. The
store is generated through a temporary file, with about 120 documents per query and labels from 0 to 4. The
command that a user would type then runs in a separate process: it loads, fits, predicts, evaluates, computes
importances, writes the run and tracks it in MLflow. The peak is the largest resident memory of that process,
read every 50 ms, because the run itself resets the peak that the system records.

Every second of the process is in one step. `start` is the start of the process with its imports, `evaluate`
also has the hashes of the data, and `track` also has the table of the results.
"""

from __future__ import annotations

import json
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from bench_jobs import Row, options, run_command

from ltrbench.data import RankingDataset
from ltrbench.data.features import CheckedFeatures, array_in_file
from ltrbench.data.store import write_store

_DOCUMENTS_PER_BLOCK = 60_000
_DOCUMENTS_PER_QUERY = 120
_OF_THE_PROCESS = ("start", "warm_up")
"""Steps that take the same time for data of any size."""


def generated(num_documents: int, num_features: int, folder: Path) -> RankingDataset:
    """Returns a data set in a temporary file: some features are whole numbers, a few decide the labels."""
    rng = np.random.default_rng(0)
    num_documents -= num_documents % _DOCUMENTS_PER_QUERY
    features = array_in_file(folder, (num_documents, num_features), 0.0)
    labels = np.empty(num_documents)
    for first in range(0, num_documents, _DOCUMENTS_PER_BLOCK):
        block = features[first : first + _DOCUMENTS_PER_BLOCK]
        block[:] = rng.random(block.shape, dtype=np.float32)
        block[:, ::3] = np.floor(20 * block[:, ::3])
        utility = (
            block[:, 1] + block[:, 4] * block[:, 7] + rng.normal(0, 0.3, len(block))
        )
        labels[first : first + len(block)] = np.clip(np.floor(2.5 * utility), 0, 4)
    features.flags.writeable = False  # so that blocks which were read need no memory
    query_start = np.arange(0, num_documents + 1, _DOCUMENTS_PER_QUERY)
    checked: Any = CheckedFeatures(features)
    return RankingDataset(features=checked, labels=labels, query_start=query_start)


def run(store: Path, folder: Path, arguments: Namespace) -> float:
    """Runs the command of a user, and prints its peak memory and the time of each step; returns the time
    outside the fit, as a share of the whole."""
    command = [
        *(
            "-m",
            "ltrbench",
            f"model={arguments.model}",
            "data=store",
            f"data.train={store}",
        ),
        *(
            f"params.num_trees={arguments.trees}",
            f"params.num_leaves={arguments.leaves}",
        ),
        *(f"num_threads={arguments.threads}", "early_stopping=null"),
        f"hydra.run.dir={folder / 'run'}",
    ]
    begun = datetime.now(UTC)
    done = run_command(command, folder, OMP_WAIT_POLICY="PASSIVE")
    seconds = seconds_of_steps(folder / "run" / "result.json", begun, datetime.now(UTC))
    size = sum(file.stat().st_size for file in store.rglob("*.npy")) / 1e9
    print(
        f"{arguments.model}: peak {done.peak_mb / 1000:.2f} GB for a store of {size:.2f} GB"
    )
    print(
        "seconds:", ", ".join(f"{step} {value:.1f}" for step, value in seconds.items())
    )
    print(f"CPU seconds of all steps: {done.cpu_seconds:.1f}")
    outside = sum(seconds.values()) - seconds["fit"]
    of_process = sum(seconds[step] for step in _OF_THE_PROCESS)
    without = " and ".join(_OF_THE_PROCESS)
    shares = outside / seconds["fit"], (outside - of_process) / seconds["fit"]
    print(
        f"outside the fit: {shares[0]:.0%} of the fit; without {without}: {shares[1]:.0%}"
    )
    return outside / (outside + seconds["fit"])


def seconds_of_steps(
    result: Path, begun: datetime, ended: datetime
) -> dict[str, float]:
    """Returns the seconds of each step of a process that wrote a result, in their order."""
    record = json.loads(result.read_text())
    started, finished = (
        datetime.fromisoformat(record[name]) for name in ("started", "finished")
    )
    written = datetime.fromtimestamp(result.stat().st_mtime, UTC)
    timed = {
        step: record["seconds"][step]
        for step in ("load", "warm_up", "fit", "predict", "importances")
    }
    return {
        "start": (started - begun).total_seconds(),
        **timed,
        "evaluate": (finished - started).total_seconds() - sum(timed.values()),
        "write": (written - finished).total_seconds(),
        "track": (ended - written).total_seconds(),
    }


def rows() -> Iterator[Row]:
    """Yields the rows of the table of all benchmarks."""
    arguments = Namespace(model="native", trees=100, leaves=63, threads=2)
    with tempfile.TemporaryDirectory() as name:
        store = Path(name, "train.store")
        write_store(store, generated(1_000_000, 40, Path(name)))
        of_run = run(store, Path(name), arguments)
        of_sweep = share_outside_fits(store, Path(name))
    # The goal is one of the sweep; a run of one model has the same start and end for fewer fits.
    yield Row("a sweep of 1,000,000 documents, off the fits", 100 * of_sweep, 20, " %")
    yield Row("a run with 1,000,000 documents, off the fit", 100 * of_run, 20, " %")


def share_outside_fits(store: Path, folder: Path) -> float:
    """Runs native and LightGBM with default settings; returns the share of the time outside their fits."""
    command = [
        *("-m", "ltrbench", "model=native,lightgbm", "data=store"),
        *(f"data.train={store}", "num_threads=2", "-m"),
        f"hydra.sweep.dir={folder / 'sweep'}",
    ]
    done = run_command(command, folder, OMP_WAIT_POLICY="PASSIVE")
    results = sorted((folder / "sweep").glob("*/result.json"))
    fits = 0.0
    for path in results:
        fits += json.loads(path.read_text())["seconds"]["fit"]
    print(f"sweep of {len(results)} models: {done.seconds:.1f} s, fits {fits:.1f} s")
    return 1 - fits / done.seconds


def main() -> None:
    arguments = options(
        __doc__,
        documents=3_771_125,
        features=136,
        trees=100,
        leaves=63,
        model="native",
        threads=2,
        folder=None,
        store=None,
    )
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        store = arguments.store or Path(name, "train.store")
        if arguments.store is None:
            write_store(
                store, generated(arguments.documents, arguments.features, Path(name))
            )
        run(store, Path(name), arguments)


if __name__ == "__main__":
    main()
