"""Benchmark of scaling: native's time by number of documents, and compilation time.

    python tests/bench/bench_scaling.py [--documents 100000] [--threads 1] [--repeats 5]

With four times the documents, a fit should take about four times as long. The warm-up of the engine and of
the metrics is timed in new processes, with an empty and with a filled cache of compiled code.
"""

from __future__ import annotations

import tempfile
from functools import partial

from bench_jobs import fit_native, make_dataset, median_seconds, options, run_command

from ltrbench.rankers.native import NativeRanker

WARM_UP = """
from ltrbench.measure import Stopwatch
from ltrbench.metrics import warm_up_metrics
from ltrbench.rankers.native import NativeRanker
watch = Stopwatch()
with watch:
    warm_up_metrics()
    NativeRanker().warm_up()
print(watch.seconds)
"""


def bench_documents(num_documents: int, num_threads: int, repeats: int) -> None:
    taken = []
    for count in (num_documents, 4 * num_documents):
        train = make_dataset(count, seed=0)
        taken.append(
            median_seconds(partial(fit_native, train, 20, 31, num_threads), repeats)
        )
        print(f"{count} documents, 20 trees of 31 leaves: {taken[-1]:.2f} s")
    print(f"  four times the documents: {taken[1] / taken[0]:.2f} times as long")


def bench_warm_up() -> None:
    with tempfile.TemporaryDirectory() as cache:
        for state in ("an empty", "a filled"):
            done = run_command(["-c", WARM_UP], NUMBA_CACHE_DIR=cache)
            elapsed = float(done.output.splitlines()[-1])
            print(
                f"warm-up on {state} cache: {elapsed:.2f} s; {done.cpu_seconds:.1f} CPU s with all imports"
            )


def main() -> None:
    arguments = options(__doc__, documents=100_000, threads=1, repeats=5)
    NativeRanker().warm_up()
    bench_documents(arguments.documents, arguments.threads, arguments.repeats)
    bench_warm_up()


if __name__ == "__main__":
    main()
