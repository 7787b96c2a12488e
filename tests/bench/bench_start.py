"""Benchmark of short commands: wall and CPU seconds of a default sweep, resume, sync and inspect.

    python tests/bench/bench_start.py [--repeats 3]

The targets on an idle machine with two cores are 15 s for the sweep, 10 s of them fits, 4 s for resume with
nothing to do, 6 s for sync and 3 s for inspect of 3,000 rows. The sweep runs once before, to compile the
engine and to create the store. The least of the repeats is printed.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from bench_jobs import Finished, options, run_command

from ltrbench.data.letor import write_letor
from ltrbench.data.synthetic import make_synthetic

_SWEEP = ("-m", "ltrbench", "model=native,lightgbm", "-m")


def main() -> None:
    repeats = options(__doc__, repeats=3).repeats
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_letor(make_synthetic(60, 0).take_queries(range(34)), folder / "rows.txt")
        run_command([*_SWEEP, "hydra.sweep.dir=first"], folder)
        sweeps = [
            run_command([*_SWEEP, f"hydra.sweep.dir={number}"], folder)
            for number in range(repeats)
        ]
        _print("sweep", sweeps)
        records = [
            json.loads((folder / "0" / job / "result.json").read_text())
            for job in ("0", "1")
        ]
        for record in records:
            seconds = record["seconds"]
            print(
                f"  {record['model']}: fit {seconds['fit']:.2f}, importances {seconds['importances']:.4f}"
            )
        for command in (("resume", "0"), ("sync", "0"), ("inspect", "rows.txt")):
            _print(
                command[0],
                [
                    run_command(["-m", "ltrbench", *command], folder)
                    for _ in range(repeats)
                ],
            )


def _print(name: str, finished: list[Finished]) -> None:
    seconds, cpu = (
        min(getattr(each, field) for each in finished)
        for field in ("seconds", "cpu_seconds")
    )
    print(f"{name}: {seconds:.1f} s, {cpu:.1f} s of processor time", flush=True)


if __name__ == "__main__":
    main()
