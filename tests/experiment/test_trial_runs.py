"""Trials of a search see nothing of test; runs know whether they had the machine alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from messages import naming
from test_experiment import Toy, native

from ltrbench.data import Splits
from ltrbench.errors import ConfigError, DataError
from ltrbench.experiment import Experiment, run
from ltrbench.metrics import evaluate
from ltrbench.rankers import Ranker
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.runs.record import FAILED, FINISHED, Run, read_run
from ltrbench.shapes import Features


@dataclass
class WithoutValid(Toy):
    """The toy without a validation set, or with one whose labels are all 0."""

    is_empty: bool = True

    def load(self) -> Splits:
        from dataclasses import replace

        splits = super().load()
        assert splits.valid is not None
        valid = None if self.is_empty else replace(splits.valid, labels=np.zeros_like(splits.valid.labels))
        return replace(splits, valid=valid)


def trial(folder: Path, ranker: Ranker | None = None, **settings: Any) -> Run:
    """Runs a trial in a folder."""
    settings = {"model": "native", "source": Toy(), "metrics": ("ndcg@10",), **settings}
    return run(Experiment(ranker=ranker or native(), is_trial=True, **settings), folder)


def test_a_trial_has_metrics_and_scores_of_valid_and_its_learning_curve_only(tmp_path: Path) -> None:
    trial(tmp_path, metrics=("ndcg@10", "map"), timing="clean")
    done = read_run(tmp_path)
    assert (done.result.status, done.result.trial) == (FINISHED, True)
    assert set(done.result.metrics) == {"valid/ndcg@10", "valid/map"}
    assert set(done.result.seconds) == {"load", "warm_up", "fit", "monitor"}
    assert done.result.drift == {}
    assert {path.name for path in tmp_path.iterdir()} == {"learning_curve.csv", "result.json", "scores.npz"}
    scored = done.scored("valid")
    mean = evaluate(scored.judgments, scored.scores, ["map"]).means["map"]
    assert mean == done.result.metrics["valid/map"]
    with np.load(tmp_path / "scores.npz") as stored:
        assert all(name.startswith("valid_") for name in stored)


def test_a_trial_predicts_the_validation_set_only(tmp_path: Path) -> None:
    @dataclass(kw_only=True)
    class Watched(SingleFeatureRanker):
        seen: ClassVar[list[int]] = []

        def predict(self, features: Features) -> Any:
            self.seen.append(len(features))
            return super().predict(features)

    splits = Toy().load()
    assert splits.valid is not None
    assert splits.valid.num_documents != splits.test.num_documents
    trial(tmp_path, Watched())
    assert set(Watched.seen) == {splits.valid.num_documents}


@pytest.mark.parametrize(
    ("source", "error", "parts"),
    [
        (WithoutValid(), ConfigError, ("trial", "no validation set", "data.valid_share", "search=none")),
        (WithoutValid(is_empty=False), DataError, ("trial", "label of 1", "data.valid", "search=none")),
    ],
    ids=["absent", "irrelevant"],
)
def test_a_trial_without_a_usable_validation_set_is_refused(
    source: Toy, error: type[Exception], parts: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(error, match=naming(*parts)):
        trial(tmp_path, SingleFeatureRanker(), source=source)
    failed = read_run(tmp_path).result
    assert (failed.status, failed.trial) == (FAILED, True)


@pytest.mark.parametrize(
    ("executor", "shared"),
    [
        ({}, False),
        ({"_target_": "ltrbench.sweep.executors.ProcessExecutor", "workers": 2}, True),
    ],
)
def test_jobs_that_run_at_a_time_share_the_machine_and_the_load_is_recorded(
    tmp_path: Path, executor: dict[str, Any], shared: bool
) -> None:
    settings: dict[str, Any] = {"ranker": SingleFeatureRanker(), "source": Toy(), "importance": None}
    done = run(Experiment(model="toy", config={"executor": executor}, **settings), tmp_path / "first")
    copied = run(Experiment(model="toy", **settings), tmp_path / "copy", trained=("first", done))
    for each in (done, copied):
        assert each.result.shared_machine is shared
        assert len(read_run(each.path).result.load) == 2
