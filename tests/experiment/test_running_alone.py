"""A run records whether another job of ltrbench ran on the machine while it was timed."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from test_experiment import Toy

from ltrbench.cli import main
from ltrbench.data import RankingDataset
from ltrbench.experiment.run import Experiment, run
from ltrbench.measure.neighbours import Neighbours
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.results import RESULT_FILE, Run, read_run


@dataclass(kw_only=True)
class NextToAnotherJob(SingleFeatureRanker):
    """Another job runs for a moment during the fit."""

    def fit(self, train: RankingDataset, *rest: Any) -> NextToAnotherJob:
        with Neighbours():
            return super().fit(train, *rest)


_BOTH_FIT = threading.Barrier(2, timeout=60)


@dataclass(kw_only=True)
class AtTheSameTime(SingleFeatureRanker):
    """The fits of two runs wait for each other."""

    def fit(self, train: RankingDataset, *rest: Any) -> AtTheSameTime:
        _BOTH_FIT.wait()
        return super().fit(train, *rest)


def experiment(ranker: SingleFeatureRanker) -> Experiment:
    return Experiment(model="toy", ranker=ranker, source=Toy(), importance=None)


@pytest.fixture
def shared(tmp_path: Path) -> Run:
    run(experiment(NextToAnotherJob(seed=1)), tmp_path / "shared")
    return read_run(tmp_path / "shared")


def test_a_run_next_to_another_job_records_it(shared: Run) -> None:
    assert shared.result.shared_machine


def test_runs_one_after_another_have_the_machine_to_themselves(tmp_path: Path) -> None:
    for name in ("first", "second"):
        with Neighbours():
            pass
        run(experiment(SingleFeatureRanker()), tmp_path / name)
        assert read_run(tmp_path / name).result.shared_machine is False


def test_two_runs_at_the_same_time_both_record_it(tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda folder: run(experiment(AtTheSameTime()), folder), folders))
    assert [each.result.shared_machine for each in runs] == [True, True]


def test_a_copy_of_a_training_shared_the_machine_if_its_source_did(shared: Run, tmp_path: Path) -> None:
    copied = run(experiment(NextToAnotherJob(seed=2)), tmp_path / "copy", trained=("shared", shared))
    assert copied.result.reused == "shared"
    assert copied.result.shared_machine


def test_a_run_of_an_older_version_counts_as_one_that_ran_alone(shared: Run) -> None:
    record = json.loads((shared.path / RESULT_FILE).read_text())
    del record["shared_machine"]
    (shared.path / RESULT_FILE).write_text(json.dumps(record))
    assert not read_run(shared.path).result.shared_machine


def test_show_and_mlflow_mark_the_times_of_such_a_run(
    shared: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ltrbench.tracking.mlflow_entities import run_tags

    alone = run(experiment(SingleFeatureRanker()), tmp_path / "alone")
    assert run_tags(shared, "")["shared_machine"] == "true"
    assert "shared_machine" not in run_tags(alone, "")
    for each in (shared, alone):
        assert main(["show", str(each.path)]) == 0
        assert ("another job" in " ".join(capsys.readouterr().out.split())) == each.result.shared_machine
