"""Rehearsal of a published protocol at full size: a sweep that is killed and resumed, and its comparison.

    python tests/bench/bench_rehearsal.py [--documents 3771125] [--features 136] [--trees 100]
        [--models native,lightgbm,xgboost] [--threads 2] [--folder DIR]

The defaults are the size of MSLR-WEB30K. The store is generated as in `bench_full_size.py`. The sweep trains
all models on the first of five folds. It is killed during its first fit; `resume` runs all jobs. The first
model is then trained again in another folder, without an interruption: its model and its scores must have the
same bytes. `compare` writes the report. The peak is the largest resident memory of the process of a step.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from bench_full_size import generated
from bench_jobs import options, run_command

from ltrbench.data.store import write_store
from ltrbench.measure import Stopwatch

COMPARED = ("model", "scores")
"""A file of a run is compared if its name begins with one of these."""


def words_of_sweep(
    store: Path, folder: Path, models: str, arguments: Namespace
) -> list[str]:
    """Returns the command of a sweep over models, without the interpreter."""
    return [
        "-m",
        "ltrbench",
        f"model={models}",
        "data=store",
        f"data.train={store}",
        "cv=5",
        "data.fold=1",
        f"params.num_trees={arguments.trees}",
        f"num_threads={arguments.threads}",
        "tracking=none",
        f"hydra.sweep.dir={folder}",
        "-m",
    ]


def kill_in_first_fit(words: list[str], folder: Path) -> None:
    """Starts a command, and kills it at the first line about an iteration."""
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if " valid " in line:
            os.killpg(process.pid, signal.SIGKILL)
            break
    process.communicate()
    if process.returncode != -signal.SIGKILL:
        sys.exit("The sweep ended before it was killed.")


def step(name: str, words: list[str], folder: Path) -> float:
    """Runs a command, prints its time and peak memory, and returns the peak in GB."""
    done = run_command(words, folder, OMP_WAIT_POLICY="PASSIVE")
    peak = done.peak_mb / 1000
    print(f"{name:32} {done.seconds:7.1f} s, peak {peak:5.2f} GB", flush=True)
    return peak


def files_of(run: Path) -> dict[str, bytes]:
    """Returns the name and the content of the files of a run that must be equal."""
    return {
        str(file.relative_to(run)): file.read_bytes()
        for file in sorted(run.rglob("*"))
        if file.is_file() and file.name.startswith(COMPARED)
    }


def rehearse(store: Path, folder: Path, arguments: Namespace) -> None:
    sweep = folder / "sweep"
    again = folder / "again"
    words = words_of_sweep(store, sweep, arguments.models, arguments)
    kill_in_first_fit(words, folder)
    peaks = [
        step(
            "resume after the kill",
            ["-m", "ltrbench", "resume", str(sweep)],
            folder,
        )
    ]
    first = arguments.models.split(",")[0]
    alone = words_of_sweep(store, again, first, arguments)
    peaks.append(step(f"{first} without an interruption", alone, folder))
    report = [
        "-m",
        "ltrbench",
        "compare",
        str(sweep),
        "--output",
        str(folder / "report"),
    ]
    peaks.append(step("compare and report", report, folder))
    resumed = files_of(sweep / "0")
    whole = files_of(again / "0")
    if not resumed or resumed != whole:
        names = sorted(name for name in resumed if resumed[name] != whole.get(name))
        sys.exit(f"Other bytes after the kill: {names or 'no files'}.")
    print(f"the same bytes after the kill: {', '.join(resumed)}")
    print(f"largest peak {max(peaks):.2f} GB")


def main() -> None:
    arguments = options(
        __doc__,
        documents=3_771_125,
        features=136,
        trees=100,
        models="native,lightgbm,xgboost",
        threads=2,
        folder=None,
    )
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        store = folder / "train.store"
        elapsed = Stopwatch()
        with elapsed:
            made = generated(arguments.documents, arguments.features, folder)
            write_store(store, made)
        size = sum(file.stat().st_size for file in store.rglob("*.npy")) / 1e9
        print(
            f"generated a store of {size:.2f} GB in {elapsed.seconds:.0f} s", flush=True
        )
        rehearse(store, folder, arguments)


if __name__ == "__main__":
    main()
