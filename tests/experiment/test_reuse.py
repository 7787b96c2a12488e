"""A model that the seed cannot change trains once: which runs are copies, of what, and what they say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_line import TINY
from command_line import run as run_command
from test_experiment import Recorder, Toy

from ltrbench.data import RankingDataset, TrainingResample
from ltrbench.experiment.run import Experiment, run
from ltrbench.rankers import EarlyStopping, Ranker
from ltrbench.rankers.capabilities import SupportsSeedMatters
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.models.importance import ImportanceSettings
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.random import RandomRanker
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.rankers.xgboost import XGBoostRanker
from ltrbench.results import RESULT_FILE, RUN_FILES, Run, find_runs, read_run

FEW = 1000


@pytest.mark.parametrize(
    "ranker",
    [
        NativeRanker(),
        NativeRanker(objective="mart"),
        LightGBMRanker(),
        LightGBMRanker(extra={"lambda_l1": 1.0}),
        XGBoostRanker(),
        XGBoostRanker(extra={"reg_alpha": 1.0}),
        SingleFeatureRanker(),
    ],
    ids=repr,
)
def test_without_random_numbers_the_seed_does_not_matter(ranker: Ranker) -> None:
    assert isinstance(ranker, SupportsSeedMatters)
    assert not ranker.seed_matters(FEW)


@pytest.mark.parametrize(
    "ranker",
    [
        NativeRanker(queries_per_tree=0.5),
        NativeRanker(documents_per_tree=0.5),
        NativeRanker(features_per_tree="sqrt"),
        NativeRanker(features_per_split=0.5),
        NativeRanker(goss_top_rate=0.2, goss_other_rate=0.1),
        NativeRanker(drop_rate=0.1),
        NativeRanker(pairs_per_document=1),
        NativeRanker(objective="xendcg"),
        LightGBMRanker(bagging_fraction=0.5, bagging_freq=1),
        LightGBMRanker(feature_fraction=0.5),
        LightGBMRanker(feature_fraction_bynode=0.5),
        LightGBMRanker(objective="rank_xendcg"),
        LightGBMRanker(deterministic=False),
        LightGBMRanker(extra={"extra_trees": True}),
        XGBoostRanker(subsample=0.5),
        XGBoostRanker(colsample_bytree=0.5),
        XGBoostRanker(colsample_bylevel=0.5),
        XGBoostRanker(colsample_bynode=0.5),
        XGBoostRanker(lambdarank_pair_method="mean"),
        XGBoostRanker(extra={"tree_method": "approx"}),
        RandomRanker(),
    ],
    ids=repr,
)
def test_what_draws_random_numbers_or_is_not_known_says_that_the_seed_matters(ranker: Ranker) -> None:
    assert not isinstance(ranker, SupportsSeedMatters) or ranker.seed_matters(FEW)


def test_bins_of_many_documents_are_chosen_from_a_sample_which_the_seed_draws() -> None:
    for ranker in (NativeRanker(), LightGBMRanker()):
        assert not ranker.seed_matters(200_000)
        assert ranker.seed_matters(200_001)
    assert not NativeRanker(binning="equal_width").seed_matters(200_001)


@dataclass(kw_only=True)
class Counting(SingleFeatureRanker):
    """Counts the fits of all of its kind."""

    fits = 0

    def fit(self, train: RankingDataset, *rest: Any) -> Counting:
        type(self).fits += 1
        return super().fit(train, *rest)


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run with seed 1."""
    monkeypatch.setattr(Counting, "fits", 0)
    return run(experiment(), tmp_path / "0")


def experiment(seed: int = 1, **fields: Any) -> Experiment:
    fields = {"ranker": Counting(seed=seed), "source": Toy(), "importance": None, **fields}
    return Experiment(model="counting", sweep="s", overrides=(f"seed={seed}",), **fields)


def test_a_run_that_differs_in_such_a_seed_alone_copies_the_earlier_one(trained: Run, tmp_path: Path) -> None:
    tracker = Recorder()
    run(experiment(2), tmp_path / "1", tracker, trained=("0", trained))
    copied = read_run(tmp_path / "1")
    assert Counting.fits == 1
    assert copied.result.reused == "0"
    assert copied.result.seed == copied.result.ranker["fields"]["seed"] == 2
    assert copied.result.overrides == ["seed=2"]
    assert copied.result.started > trained.result.started
    assert copied.result.finished >= copied.result.started
    for name in ("data", "metrics", "seconds", "best_iteration", "drift", "own_settings", "swept"):
        assert getattr(copied.result, name) == getattr(read_run(trained.path).result, name)
    files = sorted(path.relative_to(trained.path) for path in trained.path.rglob("*"))
    assert files == sorted(path.relative_to(copied.path) for path in copied.path.rglob("*"))
    for file in files:
        if (trained.path / file).is_file() and file.name != RESULT_FILE:
            assert (copied.path / file).read_bytes() == (trained.path / file).read_bytes()
    assert [seen.result.reused for seen in tracker.seen] == ["0"]
    assert not list(copied.path.glob(".*"))


def test_a_copy_names_the_run_that_trained_and_not_another_copy(trained: Run, tmp_path: Path) -> None:
    second = run(experiment(2), tmp_path / "1", trained=("0", trained))
    third = run(experiment(3), tmp_path / "2", earlier={"1": second, "0": trained})
    assert third.result.reused == "0"


def test_a_run_without_earlier_ones_trains(trained: Run, tmp_path: Path) -> None:
    assert run(experiment(2), tmp_path / "1").result.reused is None
    assert Counting.fits == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"metrics": ("map",)},
        {"timing": "clean"},
        {"importance": ImportanceSettings(kinds=["split"])},
        {"source": Toy(name="other")},
        {"ranker": Counting(seed=2, metric="map")},
        {"ranker": Counting(seed=2, num_threads=1)},
        {"ranker": SingleFeatureRanker(seed=2)},
        {"resample": TrainingResample(number=2, index=1)},
    ],
    ids=repr,
)
def test_a_run_that_differs_in_more_than_the_seed_trains(
    trained: Run, fields: dict[str, Any], tmp_path: Path
) -> None:
    assert run(experiment(2, **fields), tmp_path / "1", trained=("0", trained)).result.reused is None


def test_a_run_reuses_the_training_on_its_own_resample(tmp_path: Path) -> None:
    earlier: dict[str, Run] = {}
    for job, (seed, index) in enumerate([(0, 1), (0, 2), (9, 1), (9, 2)]):
        drawn = TrainingResample(number=2, index=index)
        done = run(experiment(seed + index, resample=drawn), tmp_path / str(job), earlier=earlier)
        earlier[str(job)] = done
    assert [done.result.reused for done in earlier.values()] == [None, None, "0", "1"]
    for copied in ("2", "3"):
        data = earlier[copied].result.data
        assert data == earlier[earlier[copied].result.reused or ""].result.data


def test_a_run_whose_folder_is_gone_is_not_reused(trained: Run, tmp_path: Path) -> None:
    (trained.path / RESULT_FILE).unlink()
    assert run(experiment(2), tmp_path / "1", trained=("0", trained)).result.reused is None


def test_a_model_with_trees_is_copied_with_its_curve_and_its_importances(tmp_path: Path) -> None:
    def native(seed: int) -> Experiment:
        ranker = NativeRanker(seed=seed, num_trees=3, early_stopping=EarlyStopping("ndcg@10", 3))
        return experiment(seed, ranker=ranker, importance=ImportanceSettings(kinds=["split"]))

    first = run(native(0), tmp_path / "0")
    copied = run(native(1), tmp_path / "1", trained=("0", first))
    assert copied.result.reused == "0"
    assert all((copied.path / name).exists() for name in RUN_FILES)
    assert copied.learning_curve().values == first.learning_curve().values
    assert (copied.importances().values["split"] == first.importances().values["split"]).all()


@pytest.mark.slow
def test_a_sweep_trains_once_what_the_seed_does_not_change_and_says_so(tmp_path: Path) -> None:
    done = run_command("model=native,random", "seed=0,1", "-m", "hydra.sweep.dir=s", *TINY, folder=tmp_path)
    runs = find_runs([tmp_path / "s"])
    assert [(each.result.model, each.result.seed, each.result.reused) for each in runs] == [
        ("native", 0, None),
        ("native", 1, "0"),
        ("random", 0, None),
        ("random", 1, None),
    ]
    assert "seed=1" in (runs[1].result.overrides or ())
    assert runs[1].result.config["seed"] == 1
    assert runs[1].result.metrics == runs[0].result.metrics
    (line,) = re.findall(r".*reused.*", done.stderr)
    assert "seed" in line
    assert "job 0" in line
    # Another command into the same folder does not know whether the data are still the same.
    run_command("model=native", "seed=2", "-m", "hydra.sweep.dir=s", *TINY, folder=tmp_path)
    assert read_run(tmp_path / "s/4").result.reused is None


def test_mlflow_shows_which_run_was_reused(trained: Run, tmp_path: Path) -> None:
    from ltrbench.tracking.mlflow_entities import run_tags

    copied = run(experiment(2), tmp_path / "1", trained=("0", trained))
    assert run_tags(copied, "")["reused"] == "0"
    assert "reused" not in run_tags(trained, "")
