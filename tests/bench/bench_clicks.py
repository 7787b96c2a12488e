"""Benchmark of logs of clicks: seconds to read a million impressions, to estimate, and to compare ten models.

    python tests/bench/bench_clicks.py [--sessions 100000]

Events are those of half of the sessions as JSON lines, about 80 MB.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))

from click_cases import make_log, make_world

from ltrbench.clicks.log import read_log
from ltrbench.clicks.source import METRICS, ClickSource
from ltrbench.metrics import evaluate

NUM_QUERIES = 5000
NUM_MODELS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=100_000)
    num_sessions = parser.parse_args().sessions
    frame = make_log(make_world(0, NUM_QUERIES), num_sessions=num_sessions)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "log.csv")
        events = Path(folder, "events.ndjson")
        frame.to_csv(table, index=False)
        write_events(frame[frame["session"] < num_sessions // 2], events)
        with timed(f"read {table.stat().st_size / 1e6:.0f} MB of CSV"):
            log = read_log(table)
        with timed(f"read {events.stat().st_size / 1e6:.0f} MB of events"):
            read_log(events)
        source = ClickSource(name="clicks", log=str(table))
        with timed("examination, its influence, the check by replay, and the splits"):
            test = source.splits_of(log).test
        with timed(f"metrics of {NUM_MODELS} models"):
            for seed in range(NUM_MODELS):
                scores = np.random.default_rng(seed).normal(size=test.num_documents)
                evaluate(test, scores, METRICS)


def write_events(frame: pd.DataFrame, path: Path) -> None:
    with path.open("w") as file:
        for row in frame.itertuples():
            shown = {"object": {"object_id": str(row.document)}}
            event = {
                "action_name": "impression",
                "query_id": str(row.session),
                "user_query": row.query,
                "event_attributes": {**shown, "position": {"ordinal": row.position}},
            }
            file.write(json.dumps(event) + "\n")
            if row.click:
                clicked = {"action_name": "click", "event_attributes": shown}
                file.write(json.dumps({**event, **clicked}) + "\n")


@contextmanager
def timed(what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    print(f"{time.perf_counter() - start:6.2f} s  {what}")


if __name__ == "__main__":
    main()
