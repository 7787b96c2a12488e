"""A model that the seed cannot change trains once: which runs are copies, of what, and what they say."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from plan_cases import SETTINGS, numbered
from test_experiment import Recorder, Toy

from ltrbench.config import Config
from ltrbench.data import RankingDataset, TrainingResample
from ltrbench.experiment import Experiment, run
from ltrbench.measure import plain
from ltrbench.native.objectives.lambdarank import LambdaRank
from ltrbench.rankers import Ranker
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.random import RandomRanker
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.rankers.xgboost import XGBoostRanker
from ltrbench.runs.origin import Copied
from ltrbench.runs.record import RESULT_FILE, Run, read_run
from ltrbench.runs.spec import SETTINGS_OF_COMMAND, RunSpec
from ltrbench.sweep.plan import Job, draft, plan_jobs, prepare_sweep, read_plan

FEW = 1000


@pytest.mark.parametrize(
    "ranker",
    [
        NativeRanker(),
        LightGBMRanker(extra={"lambda_l1": 1.0}),
        XGBoostRanker(extra={"reg_alpha": 1.0}),
        SingleFeatureRanker(),
    ],
    ids=repr,
)
def test_without_random_numbers_the_seed_does_not_matter(ranker: Ranker) -> None:
    assert not ranker.seed_matters(FEW)


@pytest.mark.parametrize(
    "ranker",
    [
        NativeRanker(queries_per_tree=0.5),
        NativeRanker(features_per_tree="sqrt"),
        NativeRanker(goss_top_rate=0.2, goss_other_rate=0.1),
        NativeRanker(drop_rate=0.1),
        NativeRanker(objective=LambdaRank(pairs_per_document=1)),
        NativeRanker(objective="xendcg"),
        LightGBMRanker(bagging_fraction=0.5, bagging_freq=1),
        LightGBMRanker(feature_fraction=0.5),
        LightGBMRanker(objective="rank_xendcg"),
        LightGBMRanker(deterministic=False),
        LightGBMRanker(extra={"extra_trees": True}),
        XGBoostRanker(subsample=0.5),
        XGBoostRanker(colsample_bytree=0.5),
        XGBoostRanker(lambdarank_pair_method="mean"),
        XGBoostRanker(extra={"tree_method": "approx"}),
        RandomRanker(),
    ],
    ids=repr,
)
def test_what_draws_random_numbers_or_is_not_known_says_that_the_seed_matters(
    ranker: Ranker,
) -> None:
    assert ranker.seed_matters(FEW)


@dataclass(kw_only=True)
class Counting(SingleFeatureRanker):
    """Counts the fits of all of its kind."""

    fits = 0

    def fit(self, train: RankingDataset, *rest: Any, **others: Any) -> Counting:
        type(self).fits += 1
        return super().fit(train, *rest, **others)


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run with seed 1."""
    monkeypatch.setattr(Counting, "fits", 0)
    return run(experiment(), tmp_path / "0")


def experiment(seed: int = 1, **fields: Any) -> Experiment:
    fields = {
        "ranker": Counting(seed=seed),
        "source": Toy(),
        "importance": None,
        **fields,
    }
    measured = {
        name: fields[name]
        for name in ("metrics", "importance", "timing")
        if name in fields
    }
    return Experiment(
        model="counting",
        spec=RunSpec(sweep="s", overrides=(f"seed={seed}",), settings=plain(measured)),
        **fields,
    )


def test_a_run_that_differs_in_such_a_seed_alone_copies_the_earlier_one(
    trained: Run, tmp_path: Path
) -> None:
    tracker = Recorder()
    run(experiment(2), tmp_path / "1", tracker, trained=("0", trained))
    copied = read_run(tmp_path / "1")
    assert Counting.fits == 1
    assert copied.result.origin == Copied(run="0")
    assert copied.result.seed == copied.result.ranker["fields"]["seed"] == 2
    assert copied.result.overrides == ["seed=2"]
    assert copied.result.started > trained.result.started
    assert copied.result.finished >= copied.result.started
    for name in (
        "data",
        "metrics",
        "seconds",
        "best_iteration",
        "own_settings",
        "swept",
    ):
        assert getattr(copied.result, name) == getattr(
            read_run(trained.path).result, name
        )
    files = sorted(path.relative_to(trained.path) for path in trained.path.rglob("*"))
    assert files == sorted(
        path.relative_to(copied.path) for path in copied.path.rglob("*")
    )
    for file in files:
        if (trained.path / file).is_file() and file.name != RESULT_FILE:
            assert (copied.path / file).read_bytes() == (
                trained.path / file
            ).read_bytes()
    assert [seen.result.origin for seen in tracker.seen] == [Copied(run="0")]
    assert not list(copied.path.glob(".*"))


def planned(sweep: Path, *experiments: Experiment) -> list[Job]:
    """Returns the jobs of these experiments, planned after those of earlier commands."""
    prepare_sweep(sweep)
    choices = {"model": "counting", "params": "matched", "data": "toy"}
    drafts = []
    for each in experiments:
        seed = each.ranker.seed
        spec = replace(
            each.spec,
            settings={**SETTINGS, "seed": seed, **each.spec.settings},
            choices=choices,
            started_in=str(Path.cwd()),
        )
        drafts.append(draft(replace(each, spec=spec)))
    return plan_jobs(read_plan(sweep), drafts, numbered)


def copied_of(jobs: Iterable[Job]) -> list[str | None]:
    """Returns the folder of the job whose training each job copies; None: it trains."""
    return [job.same_training for job in jobs]


def test_jobs_that_differ_in_such_a_seed_alone_copy_the_first_and_never_a_copy(
    tmp_path: Path,
) -> None:
    assert copied_of(
        planned(tmp_path, experiment(1), experiment(2), experiment(3))
    ) == [None, "0", "0"]
    # Another command in the same folder copies the same job, because the key covers the data and the code.
    assert copied_of(planned(tmp_path, experiment(3), experiment(4))) == ["0", "0"]


@pytest.mark.parametrize(
    "fields",
    [
        {"metrics": ("map",)},
        {"source": Toy(name="other")},
        {"ranker": Counting(seed=2, metric="map")},
        {"resample": TrainingResample(number=2, index=1)},
    ],
    ids=repr,
)
def test_a_job_that_differs_in_more_than_the_seed_trains(
    fields: dict[str, Any], tmp_path: Path
) -> None:
    jobs = planned(tmp_path, experiment(1), experiment(2, **fields), experiment(3))
    assert copied_of(jobs) == [None, None, "0"]


NOT_COPIED = [
    item.name
    for item in dataclasses.fields(Config)
    # Ranker, data source and resample are described themselves; a job with a search is never a copy.
    if item.name not in ("seed", "model", "data", "replicates", "search")
]


@pytest.mark.parametrize("name", NOT_COPIED)
def test_a_job_with_another_value_of_any_setting_of_a_result_trains(
    name: str, tmp_path: Path
) -> None:
    other = experiment(2)
    spec = other.spec.with_settings(**{name: {"another": 1}})
    jobs = planned(tmp_path, experiment(1), replace(other, spec=spec))
    copied = "0" if name in SETTINGS_OF_COMMAND else None
    assert copied_of(jobs) == [None, copied]
