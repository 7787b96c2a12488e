"""Searches of a sweep: rounds, shared choices, the jobs of trials, and what is refused; without any fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import plan_cases
import pytest
from composed_jobs import drafted
from messages import naming
from run_cases import finished_run

from ltrbench.errors import ConfigError, LtrbenchError
from ltrbench.experiment import ChosenSettings
from ltrbench.runs.origin import Trial
from ltrbench.runs.writing import write_run
from ltrbench.search import Proposal
from ltrbench.sweep.plan import Job, Plan, plan_jobs, read_plan, with_shared_choices
from ltrbench.sweep.searching import JobSearch, Searches, searches_of, trial_job

SYNTHETIC = (
    "data.num_queries=20",
    "params.num_trees=80",
    "importance=none",
    "search=random",
)


@pytest.fixture(scope="module")
def folds(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The override that names a folder with three folds, which have no query in common."""
    root, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    for fold in (1, 2, 3):
        folder = root / f"MQ2008/Fold{fold}"
        folder.mkdir(parents=True)
        for name in ("train", "vali", "test"):
            rows = rng.normal(size=(40, 2))
            lines = [
                f"{row % 3} qid:{row // 8} 1:{x:.6f} 2:{y:.6f}\n"
                for row, (x, y) in enumerate(rows)
            ]
            (folder / f"{name}.txt").write_text("".join(lines))
    return f"data.root={root}"


def of_fold(folds: str, fold: int, *words: str) -> Job:
    return drafted(
        "data=mq2008",
        folds,
        f"data.fold={fold}",
        "search=random",
        "search.trials=3",
        *words,
    )


class Command:
    """A command that searches; `ended` takes the place of the fits.

    Attributes:
        jobs: its jobs with a search, planned.
    """

    def __init__(self, sweep: Path, drafts: Sequence[Job]) -> None:
        (sweep / "plan").mkdir(parents=True, exist_ok=True)
        self.plan = read_plan(sweep)
        self.jobs = plan_jobs(
            self.plan, with_shared_choices(drafts), plan_cases.numbered
        )
        self.searches = Searches(
            sweep, self._planned, searches_of(sweep, self.jobs, self.numbers)
        )

    @property
    def numbers(self) -> list[int]:
        return [job.number for job in self.jobs]

    def _planned(self, drafts: Sequence[Job]) -> list[Job]:
        return plan_jobs(self.plan, drafts, plan_cases.numbered)

    def rounds(self) -> tuple[list[int], dict[int, ChosenSettings | LtrbenchError]]:
        """Ends all trials; returns the number of trials of each round, and the choices."""
        sizes: list[int] = []
        choices: dict[int, ChosenSettings | LtrbenchError] = {}
        while True:
            trials, ended = self.searches.next_round()
            choices |= ended
            if not trials:
                return sizes, choices
            sizes.append(len(trials))
            for job in trials:
                end(self.plan, job)


def end(plan: Plan, trial: Job, value: float | None = None) -> None:
    """Writes the run of a trial; the fewer leaves, the better."""
    if value is None:
        value = 1.0 - float(trial.spec.settings["model"]["num_leaves"]) / 1000
    folder = plan.sweep / trial.folder
    toy = finished_run(
        folder, "native", fold=trial.spec.settings["data"].get("fold") or 1
    )
    of_trial = replace(
        toy.result, key=trial.digest, origin=Trial(), metrics={"valid/ndcg@10": value}
    )
    write_run(folder, of_trial, scored={"valid": toy.scored("valid")})


def settings_of_choice(choice: ChosenSettings | LtrbenchError) -> dict[str, Any]:
    assert isinstance(choice, ChosenSettings), choice
    return dict(choice.record["settings"])


def test_tpe_and_halving_ask_in_rounds_and_a_time_limit_in_batches(
    tmp_path: Path,
) -> None:
    cases = {
        ("search=tpe", "search.trials=12", "search.batch=5"): [5, 5, 2],
        ("search=halving", "search.trials=9", "search.eta=2"): [9, 4, 2],
        ("search.seconds=3", "search.batch=2"): [2, 2],
    }
    for place, (words, expected) in enumerate(cases.items()):
        sizes, _ = Command(
            tmp_path / str(place), [drafted(*SYNTHETIC, *words)]
        ).rounds()
        # Every toy run takes a second.
        assert sizes[: len(expected)] == expected, words


def test_a_search_that_does_not_fit_a_model_is_refused_with_its_name(
    tmp_path: Path,
) -> None:
    words = (*SYNTHETIC, "model=linear", "search=halving")
    with pytest.raises(ConfigError, match=naming("model=linear", "search=tpe")):
        Command(tmp_path, [drafted(*words)]).rounds()


def test_all_models_try_their_first_settings_before_their_second_ones(
    tmp_path: Path,
) -> None:
    words = (*SYNTHETIC, "search.trials=2")
    drafts = [drafted(*words, f"model={model}") for model in ("native", "lightgbm")]
    trials, _ = Command(tmp_path, drafts).searches.next_round()
    models = [job.spec.model for job in trials]
    assert models == ["native", "lightgbm", "native", "lightgbm"]


def test_a_repeated_command_goes_on_with_the_search_that_is_behind(
    tmp_path: Path,
) -> None:
    words = (*SYNTHETIC, "search=tpe", "search.trials=4", "search.batch=2")
    drafts = [drafted(*words, f"model={model}") for model in ("native", "lightgbm")]
    command = Command(tmp_path, drafts)
    *ended, last = command.searches.next_round()[0]
    for job in ended:
        end(command.plan, job)
    sizes, _ = Command(tmp_path, drafts).rounds()
    assert last.spec.model == "lightgbm"
    assert sizes == [1, 4]


def test_an_interrupted_search_asks_only_for_the_trials_that_have_not_ended(
    tmp_path: Path,
) -> None:
    words = [*SYNTHETIC, "search=tpe", "search.trials=12", "search.batch=4"]
    whole = Command(tmp_path / "whole", [drafted(*words)]).rounds()[1]
    command = Command(tmp_path / "parts", [drafted(*words)])
    for job in command.searches.next_round()[0]:
        end(command.plan, job)
    trials, _ = command.searches.next_round()
    assert len(trials) == 4
    for job in trials[:2]:
        end(command.plan, job)
    sizes, choices = Command(tmp_path / "parts", [drafted(*words)]).rounds()
    assert sizes == [2, 4]
    assert settings_of_choice(choices[0]) == settings_of_choice(whole[0])


def test_a_failed_trial_is_tried_once_by_each_command(tmp_path: Path) -> None:
    words = [*SYNTHETIC, "search.trials=2"]
    command = Command(tmp_path, [drafted(*words)])
    first, second = command.searches.next_round()[0]
    plan_cases.fail(command.plan, first, "out of memory")
    end(command.plan, second)
    trials, choices = command.searches.next_round()
    assert trials == []
    assert (
        settings_of_choice(choices[0])["num_leaves"]
        == second.spec.settings["model"]["num_leaves"]
    )
    assert [
        job.number
        for job in Command(tmp_path, [drafted(*words)]).searches.next_round()[0]
    ] == [1]


def test_a_search_without_a_complete_trial_names_the_first_failure(
    tmp_path: Path,
) -> None:
    command = Command(tmp_path, [drafted(*SYNTHETIC, "search.trials=2")])
    for job in command.searches.next_round()[0]:
        plan_cases.fail(command.plan, job, "out of memory")
    _, choices = command.searches.next_round()
    assert isinstance(choices[0], LtrbenchError)
    assert all(part in str(choices[0]) for part in ("2 of 2 trials", "out of memory"))


@pytest.mark.parametrize(
    ("choose", "num_searches"), [("per_fold", 3), ("overall", 2), ("across", 1)]
)
def test_jobs_share_a_search_over_folds_and_data_sets(
    choose: str, num_searches: int, folds: str, tmp_path: Path
) -> None:
    places = [(1, "first"), (2, "first"), (3, "second")]
    drafts = [
        of_fold(folds, fold, f"search.choose={choose}", f"data.name={name}")
        for fold, name in places
    ]
    command = Command(tmp_path, drafts)
    assert len(command.searches.searches) == num_searches
    sizes, choices = command.rounds()
    assert sizes == [9]
    assert {
        number: settings_of_choice(choice) for number, choice in choices.items()
    } == dict.fromkeys(range(3), settings_of_choice(choices[0]))


def test_the_other_folds_take_the_choice_with_which_one_has_finished(
    folds: str, tmp_path: Path
) -> None:
    drafts = [of_fold(folds, fold, "search.choose=overall") for fold in (1, 2, 3)]
    command = Command(tmp_path, drafts)
    choice = command.rounds()[1][0]
    assert isinstance(choice, ChosenSettings)
    record = {**choice.record, "settings": {"num_leaves": 5}}
    run = plan_cases.finish(command.plan, command.jobs[0], search=record)
    write_run(run.path, run.result, trials=choice.trials)
    sizes, choices = Command(tmp_path, drafts).rounds()
    assert sizes == []
    assert [settings_of_choice(choices[number]) for number in (1, 2)] == [
        {"num_leaves": 5}
    ] * 2


def test_a_trial_is_a_job_without_test_metrics_importances_and_search(
    tmp_path: Path,
) -> None:
    job = drafted(
        *SYNTHETIC, "seed=3", "search.seed=7", "metrics=[map,ndcg@5]", "timing=clean"
    )
    search = JobSearch(tmp_path, [job]).search
    proposal = Proposal(
        4, {"num_leaves": 5, "l2": None}, num_trees=2, minimum={1: 0.25}
    )
    trial = trial_job(job, proposal, search)
    experiment = trial.experiment()
    fields: Any = experiment.ranker
    assert (fields.num_leaves, fields.l2, fields.num_trees, fields.seed) == (
        5,
        None,
        2,
        7,
    )
    assert fields.early_stopping.minimum == [[1, 0.25]]
    assert (experiment.origin, experiment.importance, experiment.timing) == (
        Trial(),
        None,
        "monitored",
    )
    assert experiment.metrics == (search.metric,)
    assert not trial.spec.is_search
    assert {"train", "valid", "test"} <= set(job.key.data)


@pytest.mark.parametrize(
    "objective", ["model/objective=listnet", "model.objective=listnet"]
)
def test_the_settings_of_an_objective_are_those_of_the_trial(
    objective: str, tmp_path: Path
) -> None:
    varied = "+search.space.models.native.objective.targets={values: [labels]}"
    job = drafted(
        *SYNTHETIC, "model=native", objective, "params.truncation=null", varied
    )
    search = JobSearch(tmp_path, [job])
    proposals = [
        Proposal(0, {"objective.targets": targets}) for targets in ("labels", "softmax")
    ]
    drafts = [
        trial_job(job, proposal, search.search, search.objective)
        for proposal in proposals
    ]
    rankers: list[Any] = [draft.experiment().ranker for draft in drafts]
    assert [ranker.objective.targets for ranker in rankers] == ["labels", "softmax"]


def test_a_choice_that_would_see_test_queries_is_refused(
    folds: str, tmp_path: Path
) -> None:
    root = folds.partition("=")[2]
    other = [
        f"data.train={root}/MQ2008/Fold2/train.txt",
        f"data.valid={root}/MQ2008/Fold2/vali.txt",
    ]
    drafts = [
        of_fold(folds, 1, "search.choose=across"),
        # Another data set of the same name and fold.
        of_fold(
            folds,
            1,
            "search.choose=across",
            *other,
            f"data.test={root}/MQ2008/Fold1/vali.txt",
        ),
    ]
    with pytest.raises(
        ConfigError,
        match=naming("job 0", "job 1", "5 test queries", "search.choose=per_fold"),
    ):
        Command(tmp_path, drafts)
