"""One run, built by hand, without Hydra."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from messages import naming
from numpy.typing import NDArray

from ltrbench.compare import compare
from ltrbench.compare.leaderboard import comparisons_as_json
from ltrbench.data import RankingDataset, Splits, split_queries
from ltrbench.data.sources import DataSource, LetorFiles
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import ConfigError, DataError, TrackingError
from ltrbench.experiment import Experiment, run
from ltrbench.metrics import evaluate
from ltrbench.rankers import BoostingRanker, EarlyStopping, Ranker
from ltrbench.rankers.base import SavedModelError
from ltrbench.rankers.importance import (
    ACROSS,
    GAIN,
    MOST_LISTED,
    SHAP,
    SPLIT,
    WITHIN,
    ImportanceSettings,
)
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.random import RandomRanker
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.runs.origin import Trial
from ltrbench.runs.record import FAILED, FINISHED, INTERRUPTED, Run, RunResult, read_run
from ltrbench.runs.spec import RunSpec
from ltrbench.shapes import Features
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
        labels = np.digitize(features[:, 2] + rng.normal(size=1500), [0.5, 1.5]).astype(
            np.float64
        )
        everything = RankingDataset(
            features=features, labels=labels, query_start=np.arange(101) * 15
        )
        rest, test = split_queries(everything, 0.3, 0, "test")
        train, valid = split_queries(rest, 0.3, 0, "valid")
        return Splits(train, valid, test)


@dataclass
class Recorder(Tracker):
    """A tracker that remembers, or that is lost."""

    lost: bool = False
    seen: list[Run] = field(default_factory=list)

    def open(self, sweep: str | None, identity: str = "") -> None: ...

    def log(self, run: Run) -> None:
        if self.lost:
            raise TrackingError("the server is gone")
        self.seen.append(run)

    def close(self, status: str) -> None: ...


def native(**fields: object) -> NativeRanker:
    return NativeRanker(
        num_trees=30, early_stopping=EarlyStopping("ndcg@10", 5), **fields
    )


def test_everything_that_a_run_must_carry_stands_in_its_folder(tmp_path: Path) -> None:
    experiment = Experiment(
        model="native", ranker=native(), source=Toy(), metrics=("ndcg@3", "map")
    )
    tracker = Recorder()
    run(experiment, tmp_path, tracker)
    stored = read_run(tmp_path)
    result = stored.result
    assert result.status == FINISHED
    assert set(result.metrics) == {
        f"{split}/{name}" for split in ("valid", "test") for name in ("ndcg@3", "map")
    }
    assert set(result.seconds) == {
        "load",
        "warm_up",
        "fit",
        "monitor",
        "predict",
        "importances",
    }
    assert stored.importances().kinds == ("gain", "split")
    assert 0 < result.seconds["monitor"] < result.seconds["fit"]
    assert result.data["test"]["fingerprint"] == Toy().load().test.fingerprint
    assert result.convention["name"] == "default"
    assert result.versions["numpy"] == np.__version__
    assert tracker.seen[0].path == tmp_path
    scored = stored.scored("test")
    assert (
        evaluate(scored.judgments, scored.scores, ["map"]).means["map"]
        == result.metrics["test/map"]
    )


def test_the_learning_curve_is_of_the_ndcgs_and_its_best_iteration_is_the_one_kept(
    tmp_path: Path,
) -> None:
    metrics = ("ndcg@3", "map", "ndcg@10")
    run(
        Experiment(model="native", ranker=native(), source=Toy(), metrics=metrics),
        tmp_path,
    )
    stored = read_run(tmp_path)
    curve = stored.learning_curve()
    assert set(curve.values) == {
        f"{split}/ndcg@{k}" for split in ("train", "valid") for k in (3, 10)
    }
    valid = curve.values["valid/ndcg@10"]
    assert stored.result.best_iteration == int(np.argmax(valid)) + 1
    assert stored.result.metrics["valid/ndcg@10"] == pytest.approx(max(valid), abs=1e-9)


def test_a_failure_is_recorded_with_its_reason_and_raised(tmp_path: Path) -> None:
    tracker = Recorder()
    with pytest.raises(DataError, match="no label"):
        run(
            Experiment(model="random", ranker=RandomRanker(), source=Toy(broken=True)),
            tmp_path,
            tracker,
        )
    result = read_run(tmp_path).result
    assert (result.status, result.error) == (FAILED, "toy.txt:3: no label.")
    assert tracker.seen[0].result.status == FAILED


@pytest.mark.parametrize("in_compiled_code", [False, True])
def test_a_run_that_ctrl_c_ends_is_interrupted(
    in_compiled_code: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(ranker: RandomRanker, *_: object) -> None:
        if in_compiled_code:  # as numba raises it
            raise SystemError(
                "returned a result with an exception set"
            ) from KeyboardInterrupt()
        raise KeyboardInterrupt

    monkeypatch.setattr(RandomRanker, "fit", interrupt)
    with pytest.raises((KeyboardInterrupt, SystemError)):
        run(Experiment(model="random", ranker=RandomRanker(), source=Toy()), tmp_path)
    assert read_run(tmp_path).result.error == INTERRUPTED


class Forgetful(RandomRanker):
    """Predicts other scores after loading."""

    @classmethod
    def load(cls, folder: Path) -> Self:
        ranker = super().load(folder)
        ranker.seed += 1
        return ranker


class Unread(RandomRanker):
    """Cannot be loaded."""

    @classmethod
    def load(cls, folder: Path) -> Self:
        raise NotImplementedError("to be written")


@pytest.mark.parametrize(
    ("kind", "reason"), [(Forgetful, "other scores"), (Unread, "to be written")]
)
def test_a_run_whose_model_cannot_be_used_fails_with_the_reason(
    kind: type[RandomRanker], reason: str, tmp_path: Path
) -> None:
    tracker = Recorder()
    with pytest.raises(
        SavedModelError, match=naming(f"{kind.__name__}.load", reason)
    ) as raised:
        run(Experiment(model="broken", ranker=kind(), source=Toy()), tmp_path, tracker)
    result = read_run(tmp_path).result
    assert (result.status, result.error) == (FAILED, str(raised.value))
    assert tracker.seen[0].result == result
    assert not (tmp_path / "model").exists()
    assert {path.name for path in tmp_path.iterdir()} >= {"scores.npz", "per_query.csv"}
    run(Experiment(model="random", ranker=RandomRanker(), source=Toy()), tmp_path)
    assert read_run(tmp_path).result.status == FINISHED


def test_a_lost_tracker_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(
        Experiment(model="random", ranker=RandomRanker(), source=Toy()),
        tmp_path,
        Recorder(lost=True),
    )
    assert read_run(tmp_path).result.status == FINISHED
    assert all(
        part in caplog.text
        for part in (str(tmp_path), "not tracked", "the server is gone")
    )


def small(ranker: Ranker, folder: Path, model: str = "mine", **settings: Any) -> Run:
    """A run from Python on little data."""
    source = settings.pop("source", Synthetic(name="small", num_queries=30))
    experiment = Experiment(
        model=model, ranker=ranker, source=source, importance=None, **settings
    )
    return run(experiment, folder)


def test_a_run_from_python_records_the_class_and_every_field_of_its_ranker(
    tmp_path: Path,
) -> None:
    small(
        NativeRanker(
            num_trees=3, num_leaves=8, early_stopping=EarlyStopping("ndcg@5", 2)
        ),
        tmp_path,
    )
    record = json.loads((tmp_path / "result.json").read_text())
    assert record["ranker"]["class"] == "ltrbench.rankers.native.NativeRanker"
    recorded = record["ranker"]["fields"]
    assert set(recorded) == {item.name for item in fields(NativeRanker) if item.init}
    assert (recorded["num_leaves"], recorded["l2"]) == (8, None)
    assert recorded["early_stopping"]["metric"] == "ndcg@5"
    assert record["source"]["class"] == "ltrbench.data.synthetic.Synthetic"
    assert record["source"]["fields"]["num_queries"] == 30
    assert record["overrides"] is None


@dataclass(kw_only=True)
class Weighted(RandomRanker):
    """A backend of a user's that takes no shared parameter."""

    is_yardstick: ClassVar[bool] = False
    prior: NDArray[np.float64] | None = None
    power: float = 2.0


@dataclass(kw_only=True)
class Boosted(BoostingRanker, RandomRanker):
    """One that has every shared parameter."""

    is_yardstick: ClassVar[bool] = False


SHARED = {"num_trees": 30, "learning_rate": 0.1, "num_leaves": 31}


def matched(ranker: Ranker, folder: Path, model: str) -> Run:
    """As a command runs it, with the values of conf/params."""
    return small(
        ranker,
        folder,
        model,
        params="matched",
        spec=RunSpec(settings={"params": SHARED}),
    )


def test_matched_is_said_only_of_models_that_take_the_shared_parameters(
    tmp_path: Path,
) -> None:
    runs = [
        matched(
            Boosted(num_trees=30, learning_rate=0.1, num_leaves=31),
            tmp_path / "taking",
            "taking",
        ),
        matched(
            Boosted(num_trees=30, learning_rate=0.1, num_leaves=7),
            tmp_path / "fixed",
            "fixed",
        ),
        matched(Boosted(), tmp_path / "unwired", "unwired"),
        matched(Weighted(), tmp_path / "ignoring", "ignoring"),
        matched(RandomRanker(), tmp_path / "random", "random"),
    ]
    assert [done.result.params for done in runs] == [
        "matched",
        "matched",
        "own",
        "own",
        "none",
    ]
    assert [done.result.own_settings for done in runs] == [
        {},
        {"num_leaves": 7},
        {"num_trees": 100, "learning_rate": None, "num_leaves": None},
        {"prior": None, "power": 2.0},
        {},
    ]
    (comparison,) = compare(runs)
    exceptions = naming(
        "matched",
        "fixed (num_leaves=7)",
        "unwired (num_trees=100, learning_rate=null, num_leaves=null)",
        "ignoring (prior=null, power=2.0)",
    )
    assert any(re.search(exceptions, note) for note in comparison.notes)
    record = comparisons_as_json([comparison])
    assert any(re.search(exceptions, note) for note in record["notes"])
    assert [item["own_settings"] for item in record["runs"]] == [
        item.result.own_settings for item in runs
    ]


def test_the_total_time_has_every_part_once_and_no_warm_up() -> None:
    seconds = {"load": 1.0, "warm_up": 8.0, "fit": 2.0, "monitor": 0.5, "predict": 4.0}
    result = RunResult(
        status=FINISHED, model="m", params="own", seed=0, seconds=seconds
    )
    assert result.total_seconds == 7.0


# Trials of a search see nothing of test; runs know whether they had the machine alone.


@dataclass
class WithoutValid(Toy):
    """The toy without a validation set, or with one whose labels are all 0."""

    is_empty: bool = True

    def load(self) -> Splits:
        from dataclasses import replace

        splits = super().load()
        assert splits.valid is not None
        valid = (
            None
            if self.is_empty
            else replace(splits.valid, labels=np.zeros_like(splits.valid.labels))
        )
        return replace(splits, valid=valid)


def trial(folder: Path, ranker: Ranker | None = None, **settings: Any) -> Run:
    """Runs a trial in a folder."""
    settings = {"model": "native", "source": Toy(), "metrics": ("ndcg@10",), **settings}
    return run(
        Experiment(ranker=ranker or native(), origin=Trial(), **settings), folder
    )


def test_a_trial_has_metrics_and_scores_of_valid_and_its_learning_curve_only(
    tmp_path: Path,
) -> None:
    trial(tmp_path, metrics=("ndcg@10", "map"), timing="clean")
    done = read_run(tmp_path)
    assert (done.result.status, done.result.origin) == (FINISHED, Trial())
    assert set(done.result.metrics) == {"valid/ndcg@10", "valid/map"}
    assert set(done.result.seconds) == {"load", "warm_up", "fit", "monitor"}
    assert {path.name for path in tmp_path.iterdir()} == {
        "learning_curve.csv",
        "result.json",
        "scores.npz",
    }
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
        (
            WithoutValid(),
            ConfigError,
            ("trial", "no validation set", "data.valid_share", "search=none"),
        ),
        (
            WithoutValid(is_empty=False),
            DataError,
            ("trial", "label of 1", "data.valid", "search=none"),
        ),
    ],
    ids=["absent", "irrelevant"],
)
def test_a_trial_without_a_usable_validation_set_is_refused(
    source: Toy, error: type[Exception], parts: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(error, match=naming(*parts)):
        trial(tmp_path, SingleFeatureRanker(), source=source)
    failed = read_run(tmp_path).result
    assert (failed.status, failed.origin) == (FAILED, Trial())


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
    settings: dict[str, Any] = {
        "ranker": SingleFeatureRanker(),
        "source": Toy(),
        "importance": None,
    }
    done = run(
        Experiment(
            model="toy", spec=RunSpec(settings={"executor": executor}), **settings
        ),
        tmp_path / "first",
    )
    copied = run(
        Experiment(model="toy", **settings), tmp_path / "copy", trained=("first", done)
    )
    for each in (done, copied):
        assert each.result.shared_machine is shared
        assert len(read_run(each.path).result.load) == 2


# Runs with more features than a person reads: their files list the features in use.


NUM_FEATURES = 3 * MOST_LISTED


@pytest.fixture
def letor_file(tmp_path: Path) -> Path:
    """Returns a file of 40 queries, whose labels depend on two of many features."""
    rng, lines = np.random.default_rng(0), []
    for query in range(40):
        for _ in range(10):
            first, second = rng.normal(size=2)
            columns = np.unique(rng.integers(2, NUM_FEATURES, 5))
            others = "".join(f" {column}:{rng.random():.3f}" for column in columns)
            label = int(np.clip(round(first + second), 0, 3))
            lines.append(
                f"{label} qid:{query} 1:{first:.3f}{others} {NUM_FEATURES}:{second:.3f}\n"
            )
    path = tmp_path / "train.txt"
    path.write_text("".join(lines))
    return path


def test_the_files_of_a_run_list_the_features_in_use(
    letor_file: Path, tmp_path: Path
) -> None:
    ranker = LightGBMRanker(
        num_trees=3, num_leaves=4, min_docs_in_leaf=5, feature_fraction=0.5
    )
    kinds = ImportanceSettings(kinds=[SPLIT, GAIN, WITHIN, ACROSS, SHAP])
    source = LetorFiles(name="many", train=str(letor_file), sparse=True)
    finished = run(
        Experiment(model="many", ranker=ranker, source=source, importance=kinds),
        tmp_path / "run",
    )
    assert finished.result.data["train"]["features"] == NUM_FEATURES
    assert "feature_names" not in finished.result.data["train"]
    names = finished.result.feature_names
    assert names is not None
    assert (names[0], names[-1], len(names)) == ("1", str(NUM_FEATURES), NUM_FEATURES)
    importances = read_run(finished.path).importances()
    assert importances.is_part
    assert 1 <= len(importances.feature_names) < 50
    for kind in ("split", "gain", "shap"):
        assert importances.values[kind].sum() == pytest.approx(1)
    assert {"permutation_within", "permutation_across"} <= importances.values.keys()
    assert (
        sum(path.stat().st_size for path in finished.path.iterdir() if path.is_file())
        < 100_000
    )
