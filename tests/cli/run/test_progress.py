"""How far a fit has come: what is reported of an iteration, and what is shown of it where."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ltrbench.cli.progress import Bar, Lines, showing
from ltrbench.data.synthetic import Synthetic
from ltrbench.experiment.loading import Progress
from ltrbench.experiment.run import Experiment, run
from ltrbench.rankers import EarlyStopping
from ltrbench.rankers.native import NativeRanker
from ltrbench.runs import LearningCurve, read_run

SMALL = ["model=native", "data.num_queries=40", "params.num_trees=10", "tracking=none"]
SOME = Progress(3, 300, "ndcg@10", 0.5, 0.4, 0.45, 2, out_of_bag=None, seconds=6.0)
SHOW_CURSOR = "\x1b[?25h"


def experiment(
    *, metrics: tuple[str, ...] = ("ndcg@3", "ndcg@10"), rule: EarlyStopping | None = None
) -> Experiment:
    source = Synthetic(name="synthetic", num_queries=30, valid_share=0.3, test_share=0.3)
    ranker = NativeRanker(num_trees=8, early_stopping=rule)
    return Experiment(model="native", ranker=ranker, source=source, metrics=metrics)


def watched(tested: Experiment, folder: Path) -> tuple[list[Progress], LearningCurve]:
    seen: list[Progress] = []
    run(tested, folder, on_progress=seen.append)
    return seen, read_run(folder).learning_curve()


def test_progress_carries_the_figures_of_the_learning_curve_and_ends_once(tmp_path: Path) -> None:
    seen, curve = watched(experiment(), tmp_path)
    *each, last = seen
    valid = curve.values["valid/ndcg@3"]
    assert [item.iteration for item in each] == curve.iterations
    assert [item.train for item in each] == curve.values["train/ndcg@3"]
    assert [item.valid for item in each] == valid
    assert [item.best for item in each] == np.maximum.accumulate(valid).tolist()
    assert [item.best_iteration for item in each] == [
        int(np.argmax(valid[:count])) + 1 for count in curve.iterations
    ]
    assert {item.num_iterations for item in seen} == {8}
    assert [item.finished for item in seen] == [False] * 8 + [True]
    assert replace(last, finished=False, seconds=each[-1].seconds) == each[-1]
    assert sorted(item.seconds for item in seen) == [item.seconds for item in seen]


def test_lines_are_of_the_first_iteration_one_in_ten_seconds_and_the_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "ltrbench")
    lines = Lines("native")
    for iteration in range(1, 26):
        lines(replace(SOME, iteration=iteration, seconds=float(iteration)))
    lines(replace(SOME, iteration=25, seconds=25.0, finished=True))
    shown = [message.partition(":")[0] for message in caplog.messages]
    assert shown == [f"native {iteration}/300" for iteration in (1, 11, 21, 25)]
    assert caplog.messages[1] == (
        "native 11/300: ndcg@10 train 0.5000, valid 0.4000, best 0.4500 @2, 4:49 left"
    )


class Terminal(io.StringIO):
    """Standard error that says it is a terminal, and can be read."""

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """What stands on the screen in the end: a line is as it was drawn last."""
        drawn = self.getvalue().replace("\x1b[?25l", "").replace(SHOW_CURSOR, "")
        last = [re.split(r"\r(?:\x1b\[2K)?", line)[-1] for line in drawn.rstrip("\n").split("\n")]
        return [re.sub(r"\x1b\[[\d;]*m", "", line).rstrip() for line in last]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Terminal]]:
    """`opened()` makes standard error a terminal, and a handler write messages to it, as a run's does."""
    streams: list[Terminal] = []
    handler = logging.StreamHandler()

    def make() -> Terminal:
        # Not before the test itself runs: pytest puts its own standard error in place between the two.
        streams.append(Terminal())
        monkeypatch.setattr(sys, "stderr", streams[0])
        handler.setStream(streams[0])
        logging.getLogger().addHandler(handler)
        return streams[0]

    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "90")
    yield make
    logging.getLogger().removeHandler(handler)
    assert handler.stream is streams[0], "the messages were not given back"


def test_without_rich_or_in_a_terminal_that_cannot_move_its_cursor_there_are_lines(
    opened: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened()
    with showing("auto", "native") as there:
        assert isinstance(there, Bar)
    with showing("plain", "native") as asked, showing("none", "native") as quiet:
        assert isinstance(asked, Lines)
        assert quiet is None
    with monkeypatch.context() as patch:
        patch.setenv("TERM", "dumb")
        with showing("auto", "native") as there:
            assert isinstance(there, Lines)
    monkeypatch.setitem(sys.modules, "rich.console", None)  # as where it is not installed
    with showing("auto", "native") as there:
        assert isinstance(there, Lines)
