"""One run, built by hand, without Hydra."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from pickling_backends import PICKLING, Forgetful, Pickled, Unread

from ltrbench.data import RankingDataset, Splits, split_queries
from ltrbench.data.sources import DataSource
from ltrbench.errors import ConfigError, DataError, ResultError, TrackingError
from ltrbench.experiment import Experiment, run
from ltrbench.metrics import evaluate
from ltrbench.rankers import EarlyStopping
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.random import RandomRanker
from ltrbench.rankers.saved import SavedModelError
from ltrbench.results import FAILED, FINISHED, Run, read_run
from ltrbench.tracking import Tracker


@dataclass
class Toy(DataSource):
    """A hundred queries whose labels follow their only informative feature."""

    name: str = "toy"
    broken: bool = False

    def load(self) -> Splits:
        if self.broken:
            raise DataError("toy.txt:3: no label.")
        rng = np.random.default_rng(0)
        features = rng.normal(size=(1500, 4)).astype(np.float32)
        labels = np.digitize(features[:, 2] + rng.normal(size=1500), [0.5, 1.5]).astype(np.float64)
        everything = RankingDataset(features=features, labels=labels, query_start=np.arange(101) * 15)
        rest, test = split_queries(everything, 0.3, 0, "test")
        train, valid = split_queries(rest, 0.3, 0, "valid")
        return Splits(train, valid, test)


@dataclass
class Recorder(Tracker):
    """A tracker that remembers, or that is lost."""

    lost: bool = False
    seen: list[Run] = field(default_factory=list)

    def open(self, sweep: str | None) -> None: ...

    def log(self, run: Run) -> None:
        if self.lost:
            raise TrackingError("the server is gone")
        self.seen.append(run)

    def close(self, status: str) -> None: ...


def native(**fields: object) -> NativeRanker:
    return NativeRanker(num_trees=30, early_stopping=EarlyStopping("ndcg@10", 5), **fields)  # type: ignore[arg-type]


def test_everything_that_a_run_must_carry_stands_in_its_folder(tmp_path: Path) -> None:
    experiment = Experiment(model="native", ranker=native(), source=Toy(), metrics=("ndcg@3", "map"))
    tracker = Recorder()
    run(experiment, tmp_path, tracker)
    stored = read_run(tmp_path)
    result = stored.result
    assert result.status == FINISHED
    assert set(result.metrics) == {
        f"{split}/{name}" for split in ("valid", "test") for name in ("ndcg@3", "map")
    }
    assert set(result.seconds) == {"load", "warm_up", "fit", "monitor", "predict", "importances"}
    assert stored.importances().kinds == ("permutation_within", "permutation_across", "shap", "gain", "split")
    assert 0 < result.seconds["monitor"] < result.seconds["fit"]
    assert result.data["test"]["fingerprint"] == Toy().load().test.fingerprint
    assert result.convention["name"] == "default"
    assert result.versions["numpy"] == np.__version__
    assert tracker.seen[0].path == tmp_path
    scored = stored.scored("test")
    assert evaluate(scored.judgments, scored.scores, ["map"]).means["map"] == result.metrics["test/map"]


def test_the_learning_curve_is_of_the_ndcgs_and_its_best_iteration_is_the_one_kept(tmp_path: Path) -> None:
    metrics = ("ndcg@3", "map", "ndcg@10")
    run(Experiment(model="native", ranker=native(), source=Toy(), metrics=metrics), tmp_path)
    stored = read_run(tmp_path)
    curve = stored.learning_curve()
    assert set(curve.values) == {f"{split}/ndcg@{k}" for split in ("train", "valid") for k in (3, 10)}
    valid = curve.values["valid/ndcg@10"]
    assert stored.result.best_iteration == int(np.argmax(valid)) + 1
    assert stored.result.metrics["valid/ndcg@10"] == pytest.approx(max(valid), abs=1e-9)


def test_clean_timing_adds_a_fit_without_an_evaluator(tmp_path: Path) -> None:
    run(Experiment(model="native", ranker=native(), source=Toy(), timing="clean"), tmp_path)
    assert read_run(tmp_path).result.seconds["fit_clean"] > 0


def test_the_same_seed_gives_the_same_numbers(tmp_path: Path) -> None:
    for name in ("a", "b"):
        experiment = Experiment(model="native", ranker=native(seed=7, documents_per_tree=0.5), source=Toy())
        run(experiment, tmp_path / name)
    for name in ("per_query.csv", "learning_curve.csv", "scores.npz"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_failure_is_recorded_with_its_reason_and_raised(tmp_path: Path) -> None:
    tracker = Recorder()
    with pytest.raises(DataError, match="no label"):
        run(Experiment(model="random", ranker=RandomRanker(), source=Toy(broken=True)), tmp_path, tracker)
    result = read_run(tmp_path).result
    assert (result.status, result.error) == (FAILED, "toy.txt:3: no label.")
    assert tracker.seen[0].result.status == FAILED


@pytest.mark.parametrize("kind", PICKLING)
def test_a_run_whose_model_is_a_pickle_fails_with_the_file_and_the_remedy(
    kind: type[RandomRanker], tmp_path: Path
) -> None:
    tracker = Recorder()
    with pytest.raises(
        SavedModelError, match=rf"{kind.__name__}\..* into model/.* pickle .*numpy.savez"
    ) as raised:
        run(Experiment(model="pickled", ranker=kind(), source=Toy()), tmp_path, tracker)
    result = read_run(tmp_path).result
    assert (result.status, result.error) == (FAILED, str(raised.value))
    assert tracker.seen[0].result == result
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Forgetful, "other scores .* for document 0"),
        (Unread, "cannot read .*NotImplementedError"),
    ],
)
def test_a_run_whose_model_cannot_be_used_fails(
    kind: type[RandomRanker], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(SavedModelError, match=reason):
        run(Experiment(model="other", ranker=kind(), source=Toy()), tmp_path)


def test_of_a_run_without_its_model_all_else_is_kept_until_it_is_run_again(tmp_path: Path) -> None:
    with pytest.raises(SavedModelError):
        run(Experiment(model="random", ranker=Pickled(), source=Toy()), tmp_path / "pickled")
    run(Experiment(model="random", ranker=RandomRanker(), source=Toy()), tmp_path / "whole")
    pickled, whole = read_run(tmp_path / "pickled"), read_run(tmp_path / "whole")
    assert pickled.result.metrics == whole.result.metrics
    assert set(pickled.result.seconds) == set(whole.result.seconds)
    for split in ("valid", "test"):
        np.testing.assert_array_equal(pickled.scored(split).scores, whole.scored(split).scores)
    run(Experiment(model="random", ranker=RandomRanker(), source=Toy()), tmp_path / "pickled")
    assert read_run(tmp_path / "pickled").result.status == FINISHED


def test_unpickling_works_as_before_after_a_run(tmp_path: Path) -> None:
    before = {name: getattr(pickle, name) for name in ("load", "loads", "Unpickler")}
    run(Experiment(model="random", ranker=RandomRanker(), source=Toy()), tmp_path)
    assert {name: getattr(pickle, name) for name in before} == before
    assert pickle.loads(pickle.dumps(Toy())) == Toy()


def test_a_lost_tracker_loses_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(Experiment(model="random", ranker=RandomRanker(), source=Toy()), tmp_path, Recorder(lost=True))
    assert read_run(tmp_path).result.status == FINISHED
    assert "was not tracked: the server is gone" in caplog.text


def test_a_taken_folder_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    experiment = Experiment(model="random", ranker=RandomRanker(), source=Toy())
    run(experiment, tmp_path)
    before = (tmp_path / "result.json").read_bytes()
    with pytest.raises(ResultError, match=r"already holds model, scores\.npz"):
        run(experiment, tmp_path)
    assert (tmp_path / "result.json").read_bytes() == before


def test_a_wrong_choice_is_refused() -> None:
    with pytest.raises(ConfigError, match="timing is 'fast'"):
        Experiment(model="random", ranker=RandomRanker(), source=Toy(), timing="fast")
    with pytest.raises(ConfigError, match="unknown metric 'ndgc'"):
        Experiment(model="random", ranker=RandomRanker(), source=Toy(), metrics=("ndgc",))
    with pytest.raises(ConfigError, match="metrics is empty"):
        Experiment(model="random", ranker=RandomRanker(), source=Toy(), metrics=())
