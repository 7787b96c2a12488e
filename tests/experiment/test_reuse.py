"""A model that the seed cannot change trains once: which runs are copies, of what, and what they say."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from command_line import TINY
from composed_jobs import drafted
from plan_cases import SETTINGS, numbered
from search_records import search_record
from test_experiment import Recorder, Toy

from ltrbench.data import RankingDataset, TrainingResample
from ltrbench.experiment.run import Experiment, run
from ltrbench.provenance import plain
from ltrbench.rankers import EarlyStopping, Ranker
from ltrbench.rankers.base import SupportsSeedMatters
from ltrbench.rankers.importance import ImportanceSettings
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.random import RandomRanker
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.rankers.xgboost import XGBoostRanker
from ltrbench.runs import FAILED, RESULT_FILE, RUN_FILES, TRIALS_FILE, Run, TrialRow, find_runs, read_run
from ltrbench.sweep.job import Job
from ltrbench.sweep.plan import DONE, draft, plan_jobs, prepare_sweep, read_plan
from ltrbench.sweep.running import JobTask, run_task

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
    measured = {name: fields[name] for name in ("metrics", "importance", "timing") if name in fields}
    return Experiment(
        model="counting", sweep="s", overrides=(f"seed={seed}",), config=plain(measured), **fields
    )


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


def planned(sweep: Path, *experiments: Experiment) -> list[Job]:
    """Returns the jobs of these experiments, planned after those of earlier commands."""
    prepare_sweep(sweep)
    choices = {"model": "counting", "params": "matched", "data": "toy"}
    drafts = [
        draft(each, {**SETTINGS, "seed": each.ranker.seed, **each.config}, choices, (), str(Path.cwd()))
        for each in experiments
    ]
    return plan_jobs(read_plan(sweep), drafts, numbered)


def copied_of(jobs: Iterable[Job]) -> list[str | None]:
    """Returns the folder of the job whose training each job copies; None: it trains."""
    return [job.same_training for job in jobs]


def test_jobs_that_differ_in_such_a_seed_alone_copy_the_first_and_never_a_copy(tmp_path: Path) -> None:
    assert copied_of(planned(tmp_path, experiment(1), experiment(2), experiment(3))) == [None, "0", "0"]
    # Another command in the same folder copies the same job, because the key covers the data and the code.
    assert copied_of(planned(tmp_path, experiment(3), experiment(4))) == ["0", "0"]


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
def test_a_job_that_differs_in_more_than_the_seed_trains(fields: dict[str, Any], tmp_path: Path) -> None:
    jobs = planned(tmp_path, experiment(1), experiment(2, **fields), experiment(3))
    assert copied_of(jobs) == [None, None, "0"]


def test_a_job_copies_the_training_on_its_own_resample(tmp_path: Path) -> None:
    resampled = [
        experiment(seed + index, resample=TrainingResample(number=2, index=index))
        for seed, index in [(0, 1), (0, 2), (9, 1), (9, 2)]
    ]
    jobs = planned(tmp_path, *resampled)
    assert copied_of(jobs) == [None, None, "0", "1"]
    runs: dict[str | None, Run] = {}
    for each, job in zip(resampled, jobs, strict=True):
        leader = job.same_training
        trained = None if leader is None else (leader, runs[leader])
        runs[job.folder] = run(each, tmp_path / job.folder, trained=trained)
    assert [done.result.reused for done in runs.values()] == [None, None, "0", "1"]
    for copied in ("2", "3"):
        assert runs[copied].result.data == runs[runs[copied].result.reused].result.data
    assert runs["2"].result.data != runs["3"].result.data


@pytest.fixture
def tasks(tmp_path: Path) -> list[JobTask]:
    """Three planned jobs that differ in a seed without effect."""
    experiments = [
        replace(
            drafted("model=single_feature", f"seed={seed}", *TINY, sweep=str(tmp_path)),
            started_in=str(Path.cwd()),
        )
        for seed in (1, 2, 3)
    ]
    prepare_sweep(tmp_path)
    jobs = plan_jobs(read_plan(tmp_path), experiments, numbered)
    assert copied_of(jobs) == [None, "0", "0"]
    trained = [None, ("0", jobs[0].digest), ("0", jobs[0].digest)]
    return [JobTask(job=job, sweep=tmp_path, trained=of) for job, of in zip(jobs, trained, strict=True)]


def test_jobs_run_as_they_are_planned(tasks: list[JobTask], tmp_path: Path) -> None:
    assert [run_task(task).state for task in tasks] == [DONE] * 3
    runs = find_runs([tmp_path])
    assert [each.result.reused for each in runs] == [None, "0", "0"]
    assert [each.result.key for each in runs] == [task.job.digest for task in tasks]
    assert [each.result.seed for each in runs] == [1, 2, 3]


@pytest.mark.parametrize(
    "changes", [{"status": FAILED, "error": "by design"}, {"key": "another"}, {"reused": "5"}], ids=repr
)
def test_a_run_that_failed_or_is_of_another_job_or_is_a_copy_is_not_copied(
    tasks: list[JobTask], tmp_path: Path, changes: dict[str, str]
) -> None:
    run_task(tasks[0])
    path = tmp_path / "0" / RESULT_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    run_task(tasks[1])
    assert read_run(tmp_path / "1").result.reused is None


def test_a_model_with_trees_is_copied_with_its_curve_and_its_importances(tmp_path: Path) -> None:
    def native(seed: int) -> Experiment:
        ranker = NativeRanker(seed=seed, num_trees=3, early_stopping=EarlyStopping("ndcg@10", 3))
        return experiment(seed, ranker=ranker, importance=ImportanceSettings(kinds=["split"]))

    first = run(native(0), tmp_path / "0")
    copied = run(native(1), tmp_path / "1", trained=("0", first))
    assert copied.result.reused == "0"
    assert [name for name in RUN_FILES if not (copied.path / name).exists()] == [TRIALS_FILE]
    assert copied.learning_curve().values == first.learning_curve().values
    assert (copied.importances().values["split"] == first.importances().values["split"]).all()


@pytest.mark.parametrize("is_trial", [False, True])
def test_a_trial_never_copies_a_run_without_a_search_nor_the_reverse(is_trial: bool, tmp_path: Path) -> None:
    first, other, same = (
        experiment(seed, is_trial=of_trial)
        for seed, of_trial in enumerate((is_trial, not is_trial, is_trial))
    )
    assert copied_of(planned(tmp_path, first, other, same)) == [None, None, None if is_trial else "0"]


def test_a_copy_has_its_search_and_not_that_of_the_copied_run(tmp_path: Path) -> None:
    trials = [(TrialRow(0, "complete", value, 3, 1.0, 0.0, 0.0, {"l2": "1"}),) for value in (0.25, 0.5)]
    of = [{"search": search_record(seed=seed, chosen=0), "trials": trials[seed]} for seed in (0, 1)]
    first = run(experiment(1, **of[0]), tmp_path / "0")
    run(experiment(2, **of[1]), tmp_path / "1", trained=("0", first))
    run(experiment(3), tmp_path / "2", trained=("0", first))
    copied, alone = read_run(tmp_path / "1"), read_run(tmp_path / "2")
    assert (copied.result.search, tuple(copied.trials())) == (of[1]["search"], of[1]["trials"])
    assert (alone.result.search, alone.trials()) == ({}, [])
