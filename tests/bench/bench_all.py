"""One table of the benchmarks: every claim about speed and memory, as a ratio or a time, beside its goal.

    python tests/bench/bench_all.py [--only bench_fit bench_read] [--output build/bench.md]

Each benchmark runs in a process of its own, one after another, with data of moderate size; the whole takes
less than half an hour on an idle machine with two cores. What it prints while it runs has the details. The
benchmarks themselves have options for other sizes.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from bench_jobs import Row, in_new_process, options

from ltrbench.measure import Stopwatch, machine
from ltrbench.tables import Table

BENCHMARKS = (
    "bench_start",
    "bench_fit",
    "bench_memory",
    "bench_predict",
    "bench_read",
    "bench_objectives",
    "bench_networks",
    "bench_compare",
    "bench_full_size",
)


def rows_of(name: str) -> list[Row]:
    """Returns the rows of a benchmark; runs in the benchmark's process."""
    rows = []
    for row in importlib.import_module(name).rows():
        print(row, flush=True)
        rows.append(row)
    return rows


def main() -> None:
    arguments = options(
        __doc__, only=list(BENCHMARKS), output=Path("build", "bench.md")
    )
    rows: list[Row] = []
    elapsed = Stopwatch()
    with elapsed:
        for name in arguments.only:
            print(f"\n{name}", flush=True)
            rows += in_new_process(rows_of, name)
    cells = [
        [row.what, f"{row.value:.2f}{row.unit}", f"{row.goal:g}{row.unit}"]
        for row in rows
    ]
    table = Table.of(["what", "measured", "goal"], cells)
    this = machine()
    of_machine = f"{this['cpu']}, {this['cores']} cores"
    text = f"{table.markdown()}\n\n{of_machine}; {elapsed.seconds / 60:.0f} minutes.\n"
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(text, encoding="utf-8")
    print(f"\n{text}")


if __name__ == "__main__":
    main()
