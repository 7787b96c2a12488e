"""How far a fit has come: what is reported of an iteration, and what is shown of it where."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ltrbench.cli.console import showing
from ltrbench.data.synthetic import Synthetic
from ltrbench.experiment import Experiment, run
from ltrbench.experiment.loading import Lines, Progress
from ltrbench.rankers.native import NativeRanker
from ltrbench.runs import read_run

SOME = Progress(
    3,
    300,
    "ndcg@10",
    0.5,
    0.4,
    0.45,
    2,
    out_of_bag=None,
    seconds=6.0,
    seconds_of_first=1.0,
)


def test_progress_carries_the_values_of_the_learning_curve_and_ends_once(
    tmp_path: Path,
) -> None:
    seen: list[Progress] = []
    source = Synthetic(
        name="synthetic", num_queries=30, valid_share=0.3, test_share=0.3
    )
    metrics = ("ndcg@3", "ndcg@10")
    experiment = Experiment(
        model="native", ranker=NativeRanker(num_trees=8), source=source, metrics=metrics
    )
    run(experiment, tmp_path, on_progress=seen.append)
    curve = read_run(tmp_path).learning_curve()
    *each, last = seen
    valid = curve.values["valid/ndcg@3"]
    assert [item.iteration for item in each] == curve.iterations
    assert [item.train for item in each] == curve.values["train/ndcg@3"]
    assert [item.valid for item in each] == valid
    assert [item.best for item in each] == np.maximum.accumulate(valid).tolist()
    assert {item.num_iterations for item in seen} == {8}
    assert [item.finished for item in seen] == [False] * 8 + [True]
    assert replace(last, finished=False, seconds=each[-1].seconds) == each[-1]


def test_lines_are_of_the_first_iteration_one_in_ten_seconds_and_the_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "ltrbench")
    lines = Lines("native")
    lines(replace(SOME, iteration=0, seconds=0.0))
    for iteration in range(1, 26):
        lines(replace(SOME, iteration=iteration, seconds=float(iteration)))
    lines(replace(SOME, iteration=25, seconds=25.0, finished=True))
    shown = [message.partition(":")[0] for message in caplog.messages]
    assert shown == [f"native {iteration}/300" for iteration in (0, 1, 11, 21, 25)]
    assert caplog.messages[2] == (
        "native 11/300: ndcg@10 train 0.5000, valid 0.4000, best 0.4500 @2, 4:49 left"
    )


def test_in_a_terminal_one_line_is_redrawn_and_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    with showing("auto", "native") as drawn:
        assert drawn is not None
        for seconds in (1.0, 1.1, 2.0):
            drawn(replace(SOME, seconds=seconds))
    assert capsys.readouterr().err == "\rnative 3/300: ndcg@10 train 0\x1b[K" * 2 + "\n"
    with showing("plain", "native") as plain, showing("none", "native") as quiet:
        assert isinstance(plain, Lines)
        assert quiet is None
