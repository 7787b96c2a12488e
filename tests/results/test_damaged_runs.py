"""Damaged run folders: every verb refuses them by name, with the remedy, within a second. Among other runs
they count as unfinished."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from composed_jobs import drafted
from messages import naming
from plan_cases import numbered
from toy_runs import search_record

from ltrbench.cli import main
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import DamagedRunError, ResultError
from ltrbench.experiment import ChosenSettings, Experiment, run
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.random import RandomRanker
from ltrbench.runs.record import (
    CURVE_FILE,
    IMPORTANCES_FILE,
    PER_QUERY_FILE,
    RESULT_FILE,
    SCORES_FILE,
    TrialRow,
    find_runs,
    read_run,
)
from ltrbench.runs.spec import RunSpec
from ltrbench.runs.writing import delete_damaged
from ltrbench.sweep.plan import (
    DONE,
    FAILED,
    plan_jobs,
    prepare_sweep,
    read_plan,
    state_of,
    wanted,
)
from ltrbench.sweep.running import JobTask, run_task
from ltrbench.tracking.mlflow.store import read_all

SECONDS = 1.0
"""Of the processor, which a loaded machine does not lengthen."""
CONFIG = {
    "model": {"_target_": "ltrbench.rankers.lightgbm.LightGBMRanker", "num_trees": 3},
    "tracking": {"uri": "http://localhost:5000"},
}


TRIALS = [
    TrialRow(number, "complete", 0.5, 3, 1.0, -0.1, 0.0, {"l2": str(number)})
    for number in range(3)
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished runs on one data set."""
    folder = tmp_path_factory.mktemp("whole")
    source = Synthetic(name="synthetic", num_queries=20)
    rankers = {"lightgbm": LightGBMRanker(num_trees=3), "random": RandomRanker()}
    of_search = ChosenSettings(search_record(), TRIALS)
    for model, ranker in rankers.items():
        experiment = Experiment(
            model=model,
            ranker=ranker,
            source=source,
            spec=RunSpec(settings=CONFIG),
            chosen=of_search if model == "lightgbm" else None,
        )
        run(experiment, folder / "runs" / model)
    return folder


@pytest.fixture
def damaged(whole: Path, tmp_path: Path) -> Path:
    """A copy of one of the runs, beside the other one, to be damaged."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    return tmp_path / "runs" / "lightgbm"


def verbs(folder: Path) -> list[list[str]]:
    """All verbs that read a run folder, and need nothing else to find it damaged."""
    empty = folder.parent.parent / "scores.txt"
    empty.touch()
    return [
        ["show", str(folder)],
        ["compare", str(folder)],
        ["show", str(folder), "--trees"],
        ["predict", str(folder), str(empty)],
        ["export", str(folder), "--format", "scores"],
        [
            "import",
            "other",
            str(empty),
            "--like",
            str(folder),
            "--output",
            str(empty.with_name("imported")),
        ],
        ["ui", str(folder)],
    ]


def set_to(content: str | bytes) -> Callable[[Path], None]:
    """Replaces the content of a file."""

    def write(path: Path) -> None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    return write


def edited(*place: str | int, to: Any) -> Callable[[Path], None]:
    """Sets one value of the JSON in a file."""

    def edit(path: Path) -> None:
        record = json.loads(path.read_text())
        inner = record
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = to
        path.write_text(json.dumps(record))

    return edit


DAMAGED_RESULTS: list[tuple[Callable[[Path], None], *tuple[str, ...]]] = [
    (set_to("{"), "line 1"),
    (set_to("[]"), "None", "format"),
    (set_to("[" * 100_000 + "]" * 100_000), "nested"),
    (edited("metrics", "test/ndcg@10", to=float("nan")), "not finite"),
    (edited("metrics", "test/ndcg@10", to="0.5"), "metrics.test/ndcg@10 is '0.5'"),
    (edited("seconds", "fit", to=-1), "seconds.fit is -1"),
    (edited("status", to="done"), "status is 'done'", "finished", "failed"),
    (edited("started", to="2026-01-31T12:00:00"), "started is '2026-01-31T12:00:00'"),
    (edited("data", "test", to={}), "data.test.fingerprint is missing"),
    (edited("search", to={"name": "random"}), "search.seed"),
]


def refused(
    words: list[str],
    file: Path,
    parts: Sequence[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Asserts that a command refuses a file by name and in one line, with the remedy, within a second."""
    begun = time.process_time()
    code = main(words)
    seconds = time.process_time() - begun
    message = capsys.readouterr().err
    assert code == 2, (words, message)
    assert message.startswith(f"error: {file}"), message
    assert re.search(naming(*parts, "Run it again", "copy its folder"), message), (
        message
    )
    assert message.count("\n") == 1
    assert seconds < SECONDS, words


@pytest.mark.parametrize(
    "damage", DAMAGED_RESULTS, ids=lambda damage: " ".join(damage[1:])
)
def test_a_damaged_result_is_refused_with_the_field_and_the_remedy(
    damaged: Path, damage: tuple[Any, ...]
) -> None:
    damage[0](damaged / RESULT_FILE)
    with pytest.raises(
        ResultError, match=naming(*damage[1:], "Run it again", "copy its folder")
    ) as raised:
        read_run(damaged)
    assert str(raised.value).startswith(str(damaged / RESULT_FILE))


def test_every_verb_refuses_a_damaged_result_by_name_within_a_second(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_to("{")(damaged / RESULT_FILE)
    for words in verbs(damaged):
        refused(words, damaged / RESULT_FILE, ["line 1"], capsys)


def saved(damaged: Path, **changes: Any) -> None:
    """Writes scores.npz with some arrays changed; None: left out."""
    with np.load(damaged / SCORES_FILE) as stored:
        arrays = {**stored, **changes}
    np.savez(
        damaged / SCORES_FILE,
        **{name: item for name, item in arrays.items() if item is not None},
    )


def scores_of(damaged: Path, name: str = "test_scores") -> Any:
    with np.load(damaged / SCORES_FILE) as stored:
        return stored[name]


DAMAGED_SCORES: list[tuple[Callable[[Path], None], *tuple[str, ...]]] = [
    (lambda run: saved(run, test_scores=np.array([{}])), "allow_pickle"),
    (
        lambda run: saved(run, test_scores=scores_of(run)[1:]),
        "test: ",
        "scores",
        "documents",
    ),
    (lambda run: saved(run, test_labels=None), "test: ", "missing", "labels"),
    (
        lambda run: saved(
            run, test_query_start=scores_of(run, "test_query_start")[::-1]
        ),
        "test: query_start",
    ),
    (
        lambda run: edited("data", "test", "documents", to=7)(run / RESULT_FILE),
        "result.json records 7",
    ),
    (lambda run: set_to("PK")(run / SCORES_FILE), "read"),
]


@pytest.mark.parametrize(
    "damage", DAMAGED_SCORES, ids=lambda damage: " ".join(damage[1:])
)
def test_damaged_scores_are_refused_with_the_reason(
    damaged: Path, damage: tuple[Any, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    damage[0](damaged)
    refused(
        ["export", str(damaged), "--format", "scores"],
        damaged / SCORES_FILE,
        damage[1:],
        capsys,
    )


DAMAGED_TABLES: list[tuple[bytes, *tuple[str, ...]]] = [
    (b"a,b,c\n1,2,3\n", ":", "columns"),
    (b"{header}\n1\n", ":2:", "1 cells", "header"),
    (b"\xff\xfe", " cannot be read", "UTF-8"),
    (b'{header}\n"', " cannot be read", "UTF-8"),
    (b"{header}\n{cells}text\n", ": column", "text"),
]
READERS: dict[str, Callable[[Path], object]] = {
    PER_QUERY_FILE: lambda folder: read_run(folder).per_query(),
    CURVE_FILE: lambda folder: read_run(folder).learning_curve(),
    IMPORTANCES_FILE: lambda folder: read_run(folder).importances(),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "damage", DAMAGED_TABLES, ids=lambda damage: " ".join(damage[1:])
)
def test_a_damaged_table_is_refused_with_its_line_or_column(
    damaged: Path, name: str, damage: tuple[Any, ...]
) -> None:
    header = (damaged / name).read_bytes().splitlines()[0]
    content = (
        damage[0]
        .replace(b"{header}", header)
        .replace(b"{cells}", b"1," * header.count(b","))
    )
    (damaged / name).write_bytes(content)
    with pytest.raises(
        ResultError, match=naming(*damage[1:], "Run it again")
    ) as raised:
        READERS[name](damaged)
    assert str(raised.value).startswith(f"{damaged / name}{damage[1]}")
    # What is mirrored is read before anything is sent.
    with pytest.raises(ResultError):
        read_all(read_run(damaged))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def change(path: Path) -> None:
    """Changes a few bytes of the first array; the directory of the archive stays whole."""
    content = bytearray(path.read_bytes())
    content[100:104] = bytes(255 - byte for byte in content[100:104])
    path.write_bytes(content)


DAMAGES = pytest.mark.parametrize(
    ("file", "damage"),
    [(RESULT_FILE, truncate), (SCORES_FILE, truncate), (SCORES_FILE, change)],
)


@DAMAGES
def test_a_damaged_run_is_left_out_with_a_warning(
    damaged: Path,
    file: str,
    damage: Callable[[Path], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    damage(damaged / file)
    (other,) = find_runs([damaged.parent])
    assert other.path == damaged.with_name("random")
    parts = (str(damaged / file), "unfinished", "Run it again")
    assert re.search(naming(*parts), caplog.text)
    # A run that is named, or is the only one, is refused.
    shutil.rmtree(other.path)
    for folder in (damaged, damaged.parent):
        with pytest.raises(DamagedRunError, match=naming(*parts[::2])):
            find_runs([folder])


@DAMAGES
def test_a_damaged_job_is_unfinished_and_trained_again(
    tmp_path: Path, file: str, damage: Callable[[Path], None]
) -> None:
    prepare_sweep(tmp_path)
    words = ["model=random", "data.num_queries=20", "importance=none", "tracking=none"]
    (job,) = plan_jobs(read_plan(tmp_path), [drafted(*words)], numbered)
    task = JobTask(job=job, sweep=tmp_path)
    assert run_task(task).state == DONE
    before = read_run(task.folder).scored("test").scores
    damage(task.folder / file)
    state = state_of(tmp_path, job)
    assert state.name == FAILED
    assert str(task.folder / file) in str(state.reason)
    assert wanted([state], only_failed=True) == wanted([state], only_failed=False)
    assert run_task(task).state == DONE
    assert np.array_equal(read_run(task.folder).scored("test").scores, before)


def test_a_run_of_another_version_is_not_deleted(damaged: Path) -> None:
    edited("format", to=99)(damaged / RESULT_FILE)
    for refused_by in (find_runs, lambda folders: delete_damaged(damaged)):
        with pytest.raises(ResultError, match=naming("99", "format", "version")):
            refused_by([damaged.parent])
    assert (damaged / RESULT_FILE).exists()
