"""Searches without any fit: the contract, importances of settings, the journal for Optuna, and spaces."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any

import optuna
import pytest
from hydra import compose, initialize_config_dir
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from ltrbench.config import build, register_schema, resolved
from ltrbench.errors import ConfigError
from ltrbench.folders import conf_dir
from ltrbench.native.objectives.listnet import ListNet
from ltrbench.native.objectives.yetirank import YetiRank
from ltrbench.rankers import Ranker
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.linear import LinearRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.xgboost import XGBoostRanker
from ltrbench.search import (
    OVERALL,
    FullGrid,
    Proposal,
    RandomSearch,
    Range,
    Rung,
    Search,
    SearchedModel,
    SuccessiveHalving,
    TpeSearch,
    Trial,
    Value,
    ask,
    median_minima,
    setting_importances,
    settings_of,
    write_journal,
)
from ltrbench.settings import replaced

SPACE = {
    "learning_rate": Range(0.02, 0.3, log=True),
    "num_leaves": Range(4, 128, log=True),
    "truncation": Range(5, 100),
    "split_criterion": Range(values=["newton", "least_squares"]),
}
DEFAULT: dict[str, Value] = {
    "learning_rate": 0.1,
    "num_leaves": 31,
    "truncation": 30,
    "split_criterion": "newton",
}
NUM_TREES = 300

Quality = Callable[[Proposal], float | None]


def quality(proposal: Proposal) -> float:
    """The value of a fully trained trial: best at a learning rate of 0.1, and with few leaves."""
    settings = proposal.settings
    rate, leaves = settings["learning_rate"], settings["num_leaves"]
    assert isinstance(rate, float)
    assert isinstance(leaves, int)
    return 0.5 - abs(rate - 0.1) - leaves / 1000


def ended(
    proposal: Proposal, value_of: Quality = quality, seconds: float = 1.0
) -> Trial:
    """The trial of a proposal, whose curve rises linearly to its value; `minimum` is applied to it."""
    value = value_of(proposal)
    if value is None:
        return Trial(proposal, None, seconds=seconds)
    trees = proposal.num_trees or NUM_TREES
    curve = {
        number: value * (0.5 + 0.5 * number / NUM_TREES)
        for number in range(1, trees + 1)
    }
    for number in sorted(proposal.minimum):
        if curve[number] < proposal.minimum[number]:
            curve = {trees: value for trees, value in curve.items() if trees <= number}
            return Trial(
                proposal, curve[number], number, seconds, curve, is_pruned=True
            )
    return Trial(proposal, curve[trees], trees, seconds, curve)


def run(
    search: Search,
    space: Mapping[str, Range] = SPACE,
    default: Mapping[str, Value] = DEFAULT,
    value_of: Quality = quality,
    num_folds: int = 1,
    trials: list[Trial] | None = None,
) -> list[Trial]:
    """Runs a search to its end, from trials that have ended already."""
    trials = list(trials or [])
    model = SearchedModel(space, default, NUM_TREES, num_folds)
    while proposals := search.propose(model, trials):
        assert [proposal.number for proposal in proposals] == [
            *range(len(trials), len(trials) + len(proposals))
        ]
        trials += [ended(proposal, value_of) for proposal in proposals]
    return trials


SEARCHES = [RandomSearch, TpeSearch]


MODEL = SearchedModel(SPACE, DEFAULT, NUM_TREES)
COMPLETE: list[Callable[..., Search]] = [
    RandomSearch,
    TpeSearch,
    partial(RandomSearch, pruning="median"),
    partial(TpeSearch, pruning="median"),
    partial(FullGrid, trials=54),
    partial(SuccessiveHalving, trials=20),
]


@pytest.mark.parametrize("kind", COMPLETE, ids=repr)
def test_a_search_is_continued_from_any_trial_with_the_same_trials(
    kind: Callable[..., Search],
) -> None:
    given = (
        {}
        if isinstance(kind, partial) and "trials" in kind.keywords
        else {"trials": 20}
    )
    whole = run(kind(**given))
    for num_ended in (0, 3, 8, 13, 20, len(whole)):
        assert run(kind(**given), trials=whole[:num_ended]) == whole


@pytest.mark.parametrize("kind", [RandomSearch, TpeSearch, FullGrid])
def test_with_seconds_no_trial_begins_after_the_time(kind: type[Search]) -> None:
    assert (
        len(run(kind(trials=1, seconds=9.0))) == 16
    )  # of one second each, in batches of 8
    failing = run(RandomSearch(trials=8), value_of=lambda _: None)
    assert kind is FullGrid or kind(seconds=9.0).propose(MODEL, failing * 2) == []


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: RandomSearch(batch=0), ("search.batch", 0)),
        (
            lambda: RandomSearch(pruning="median", choose=OVERALL),
            ("search.pruning", OVERALL, "per_fold"),
        ),
        (
            lambda: FullGrid(trials=53).propose(MODEL, []),
            (54, 53, "search.trials=54", "3 num_leaves"),
        ),
        (
            lambda: SuccessiveHalving(seconds=60),
            ("search.seconds", 60, "search.trials", "search=tpe"),
        ),
        (
            lambda: SuccessiveHalving().propose(SearchedModel(SPACE, DEFAULT, 30), []),
            ("search.min_trees", 20, 30, "at most 15"),
        ),
        (
            lambda: SuccessiveHalving().propose(SearchedModel(SPACE, DEFAULT, 1), []),
            ("search=halving", "few trees", "search=tpe", "hydra.sweep.dir"),
        ),
    ],
)
def test_wrong_settings_of_a_search_are_refused(
    call: Callable[[], Search], parts: tuple[object, ...]
) -> None:
    with pytest.raises(ConfigError, match=naming(*parts)):
        call()


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    low=st.integers(1, 50),
    width=st.integers(1, 1000),
    log=st.booleans(),
    kind=st.sampled_from(SEARCHES),
)
def test_values_stay_in_their_range_and_whole_numbers_whole(
    seed: int, low: int, width: int, log: bool, kind: type[RandomSearch]
) -> None:
    space = {
        "whole": Range(low, low + width, log=log),
        "part": Range(low / 7, (low + width) / 7, log=log),
        "listed": Range(values=[None, True, 3, 0.5, "word"]),
    }
    default = {"whole": low, "part": low / 7, "listed": None}
    search = (
        TpeSearch(trials=11, batch=4, startup=4)
        if kind is TpeSearch
        else kind(trials=11)
    )
    trials = run(
        search, space, default, lambda proposal: float(proposal.settings["whole"] or 0)
    )
    for trial in trials:
        assert all(
            trial.proposal.settings[name] in values for name, values in space.items()
        )
        assert isinstance(trial.proposal.settings["whole"], int)
        assert isinstance(trial.proposal.settings["part"], float)


def test_backends_try_the_same_values_of_the_settings_that_they_share() -> None:
    part = {name: SPACE[name] for name in ("truncation", "learning_rate")}
    whole, partial = (
        run(RandomSearch(trials=5), space, DEFAULT, lambda _: 0.0)
        for space in (SPACE, part)
    )
    for one, other in zip(whole[1:], partial[1:], strict=True):
        assert other.proposal.settings == {
            name: one.proposal.settings[name] for name in part
        }


def test_tpe_begins_as_random_search_and_then_proposes_better_settings() -> None:
    sums = dict.fromkeys(SEARCHES, 0.0)
    for seed in range(3):
        random, tpe = (run(kind(trials=40, seed=seed)) for kind in SEARCHES)
        assert [trial.proposal for trial in tpe[:8]] == [
            trial.proposal for trial in random[:8]
        ]
        for kind, trials in zip(SEARCHES, (random, tpe), strict=True):
            sums[kind] += sum(trial.value or 0 for trial in trials[16:])
    assert sums[RandomSearch] < sums[TpeSearch]


def test_the_grid_has_every_combination_once_and_the_corners() -> None:
    trials = run(FullGrid(trials=54, levels=3))
    combinations = {tuple(trial.proposal.settings.values()) for trial in trials}
    assert len(trials) == len(combinations) == 3 * 3 * 3 * 2
    ends = [values.values or list(values.bounds) for values in SPACE.values()]
    assert combinations.issuperset(itertools.product(*ends))


def rung_sizes(number: int, eta: int, num_rungs: int) -> list[int]:
    sizes = [number]
    while len(sizes) < num_rungs:
        sizes.append(math.ceil(sizes[-1] / eta))
    return sizes


@settings(max_examples=15, deadline=None)
@given(
    number=st.integers(1, 40),
    eta=st.integers(2, 5),
    min_trees=st.integers(1, 150),
    seed=st.integers(0, 999),
)
def test_each_rung_keeps_the_best_of_the_one_before(
    number: int, eta: int, min_trees: int, seed: int
) -> None:
    search = SuccessiveHalving(trials=number, eta=eta, min_trees=min_trees, seed=seed)
    rungs = search.rungs(NUM_TREES, 1)
    trials = run(search)
    assert trials[0].proposal == Proposal(0, DEFAULT)
    begin = 1
    drawn = RandomSearch(seed=seed, trials=number).propose(
        SearchedModel(SPACE, {}, NUM_TREES), []
    )[1:]
    expected = [proposal.settings for proposal in drawn]
    for rung, size in zip(rungs, rung_sizes(number - 1, eta, len(rungs)), strict=True):
        of_rung = trials[begin : begin + size]
        assert [trial.proposal.settings for trial in of_rung] == expected
        assert {trial.proposal.num_trees for trial in of_rung} <= {rung.num_trees}
        best = sorted(of_rung, key=lambda trial: -(trial.value or 0))[
            : math.ceil(size / eta)
        ]
        expected = [trial.proposal.settings for trial in of_rung if trial in best]
        begin += size
    assert begin == len(trials)


def test_early_rungs_use_fewer_folds() -> None:
    search = SuccessiveHalving(choose=OVERALL)
    assert search.rungs(300, 5) == [Rung(20, 2), Rung(80, 3), Rung(None, None)]
    assert search.rungs(300, 1) == [Rung(20, None), Rung(80, None), Rung(None, None)]
    assert run(search, num_folds=5)[1].proposal.num_folds == 2


def trial(number: int, curve: dict[int, float], is_pruned: bool = False) -> Trial:
    return Trial(
        Proposal(number, {}), max(curve.values()), curve=curve, is_pruned=is_pruned
    )


def flat(number: int, value: float, last: int = 80, is_pruned: bool = False) -> Trial:
    return trial(number, dict.fromkeys(range(1, last + 1), value), is_pruned)


def test_the_median_rule_compares_best_values_so_far_at_the_checkpoints() -> None:
    rising = trial(0, {5: 0.1, 10: 0.2, 15: 0.3, 40: 0.4, 60: 0.5})
    others = [flat(1, 0.25), flat(2, 0.15)]
    assert median_minima([rising, *others], 80) == {
        10: median([0.2, 0.25, 0.15]),
        20: median([0.3, 0.25, 0.15]),
        40: median([0.4, 0.25, 0.15]),
    }


def test_a_fit_that_early_stopping_ended_keeps_its_best_value_and_a_pruned_one_does_not_count() -> (
    None
):
    stopped, pruned = flat(0, 0.3, last=15), flat(1, 0.1, last=15, is_pruned=True)
    assert median_minima([stopped, pruned, Trial(Proposal(2, {}), None)], 80) == {
        10: 0.2,
        20: 0.3,
        40: 0.3,
    }


@pytest.mark.parametrize("kind", [RandomSearch, TpeSearch])
def test_pruning_saves_iterations_and_the_best_trial_stays(
    kind: type[RandomSearch],
) -> None:
    trials = run(kind(trials=40, pruning="median"))
    assert not any(trial.proposal.minimum for trial in trials[:8])
    spent = sum(trial.iterations for trial in trials)
    assert spent < 0.9 * len(trials) * NUM_TREES
    best = max(trials, key=lambda trial: quality(trial.proposal))
    assert best.is_complete


# ---- Importances of settings, and the journal for Optuna's dashboard.


def of_leaves(proposal: Proposal) -> float:
    leaves = proposal.settings["num_leaves"]
    assert isinstance(leaves, int)
    return -abs(leaves - 40.0)


def loaded(path: Path) -> list[optuna.Study]:
    storage = JournalStorage(JournalFileBackend(str(path)))
    return [
        optuna.load_study(study_name=summary.study_name, storage=storage)
        for summary in optuna.get_all_study_summaries(storage)
    ]


def test_the_setting_that_decides_is_the_most_important() -> None:
    trials = run(RandomSearch(trials=50), value_of=of_leaves)
    importances = setting_importances(SPACE, trials)
    assert next(iter(importances)) == "num_leaves"
    assert importances["num_leaves"] > 0.5
    assert set(importances) == set(SPACE)
    assert sum(importances.values()) == pytest.approx(1)
    assert list(importances.values()) == sorted(importances.values(), reverse=True)
    assert setting_importances(SPACE, trials) == importances


def test_trials_of_a_batch_differ_and_do_not_depend_on_trials_outside_the_space() -> (
    None
):
    trials = run(RandomSearch(trials=16))
    proposed = ask(SPACE, 0, trials, range(16, 24))
    assert len({json.dumps(settings) for settings in proposed}) == 8
    outside = ended(Proposal(16, {**DEFAULT, "num_leaves": None}), lambda _: 9.0)
    assert ask(SPACE, 0, [*trials, outside], range(16, 24)) == proposed


def test_the_journal_has_every_trial(tmp_path: Path) -> None:
    space = {**SPACE, "norm": Range(values=[None, True, False])}
    default: dict[str, Value] = {**DEFAULT, "norm": None, "learning_rate": None}
    trials = run(
        SuccessiveHalving(trials=10),
        space,
        default,
        lambda proposal: 0.1 + 0.01 * proposal.number,
    )
    trials = [*trials, Trial(Proposal(len(trials), default), None)]
    path = tmp_path / "optuna.log"
    path.write_text("an old journal")
    write_journal(
        path, {"native fold 1": (space, trials), "native fold 2": (SPACE, [])}
    )

    assert [file.name for file in tmp_path.iterdir()] == ["optuna.log"]
    assert all(json.loads(line) for line in path.read_text().splitlines())
    first, second = sorted(loaded(path), key=lambda study: study.study_name)
    assert (first.study_name, second.study_name) == ("native fold 1", "native fold 2")
    assert second.trials == []
    assert first.best_value == max(
        trial.value or 0 for trial in trials if trial.is_complete
    )
    for trial, stored in zip(trials, first.trials, strict=True):
        assert {**stored.params, **stored.user_attrs} == trial.proposal.settings
        assert stored.intermediate_values == trial.curve
        assert stored.duration is not None
        assert stored.duration.total_seconds() == pytest.approx(trial.seconds)
    assert first.trials[0].user_attrs == {"learning_rate": None}  # outside its range
    assert first.trials[0].state == TrialState.COMPLETE
    assert first.trials[1].state == TrialState.PRUNED  # 15 trees only
    assert first.trials[-1].state == TrialState.FAIL


# ---- Spaces: the shipped YAMLs for every model, ranges from the configuration, and what is refused.


SHARED = (
    "learning_rate",
    "num_leaves",
    "min_docs_in_leaf",
    "min_sum_hessian",
    "l2",
    "truncation",
)
NATIVE = (
    "split_criterion",
    "objective.sigma",
    "queries_per_tree",
    "features_per_tree",
)
RATE = {"low": 0.02, "high": 0.3, "log": True}


def composed(*overrides: str) -> dict[str, Any]:
    register_schema()
    with initialize_config_dir(str(conf_dir()), version_base=None):
        return resolved(compose("config", list(overrides)))


def searched(space: dict[str, Any], **settings: Any) -> Search:
    target = "ltrbench.search.RandomSearch"
    return build(
        {"search": {"_target_": target, "space": space, **settings}}, "search", Search
    )


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("native", (*SHARED, *NATIVE)),
        ("lightgbm", SHARED),
        ("xgboost", [name for name in SHARED if name != "min_docs_in_leaf"]),
        ("catboost", ["learning_rate", "num_leaves", "truncation"]),
        ("random", []),
    ],
)
def test_every_model_varies_the_settings_that_it_has(
    model: str, names: list[str]
) -> None:
    config = composed(f"model={model}", "search=random", "search/space=native")
    ranker = build(config, "model", Ranker)
    space = build(config, "search", Search).space.of(model, ranker)
    assert list(space) == list(names)
    assert settings_of(ranker, space) == {
        name: attrgetter(name)(ranker) for name in names
    }


@pytest.mark.parametrize(
    ("objective", "names"),
    [
        (YetiRank(), ["objective.mode", "objective.decay"]),
        (ListNet(), ["objective.targets"]),
        ("lambdarank", ["objective.sigma"]),
    ],
)
def test_a_setting_of_another_objective_is_left_out(
    objective: Any, names: list[str]
) -> None:
    nested = {"mode": {"values": ["Classic"]}, "targets": {"values": ["labels"]}}
    ranges = {
        "objective": nested,
        "objective.decay": {"low": 0.5, "high": 0.9},
        "objective.sigma": RATE,
    }
    ranker = NativeRanker(objective=objective, truncation=None)
    space = searched({"models": {"native": ranges}}).space.of("native", ranker)
    assert list(space) == names
    assert replaced(ranker, settings_of(ranker, space)) == ranker


@pytest.mark.parametrize(
    ("ranker", "objectives"),
    [
        (LightGBMRanker(), ["lambdarank", "rank_xendcg"]),
        (XGBoostRanker(), ["ndcg", "pairwise"]),
        (LinearRanker(), ["softmax_loss", "hinge"]),
    ],
    ids=lambda each: type(each).__name__,
)
def test_the_objective_itself_may_have_a_range(
    ranker: Ranker, objectives: list[str]
) -> None:
    ranges = {"objective": {"values": objectives}}
    space = searched({"models": {"mine": ranges}}).space.of("mine", ranker)
    assert space == {"objective": Range(values=objectives)}


def test_ranges_of_a_configuration_keep_their_types() -> None:
    ranges = {
        "num_leaves": {"low": 4, "high": 8},
        "learning_rate": {"low": 1, "high": 2.0},
        "l2": {"values": [0, 0.5, None]},
    }
    of_native = {"sigma": RATE, "gain": {"values": ["linear"]}}
    space = searched({"shared": ranges, "models": {"native": of_native}}).space
    assert space.shared["num_leaves"].is_integer
    assert not space.shared["learning_rate"].is_integer
    assert repr(space.shared["l2"].values) == "[0, 0.5, None]"
    assert space.models == {
        "native": {"sigma": Range(0.02, 0.3, True), "gain": Range(values=["linear"])}
    }


def of_native(name: str, values: Any) -> dict[str, Any]:
    return {"models": {"native": {name: values}}}


def shared(name: str, values: Any) -> dict[str, Any]:
    return {"shared": {name: values}}


@pytest.mark.parametrize(
    ("space", "parts"),
    [
        ({"sharde": {}}, ("search", "space", "sharde")),
        (
            shared("learning_rat", RATE),
            ("search.space.shared.learning_rat", "learning_rate"),
        ),
        (
            shared("sigma", RATE),
            ("search.space.shared.sigma", "search.space.models.MODEL.sigma"),
        ),
        (shared("l2", {"lo": 1}), ("search.space.shared.l2.lo",)),
        (
            shared("l2", {"low": 2, "high": 1}),
            ("search.space.shared.l2", "low: 2, high: 1", "low below high"),
        ),
        (
            shared("l2", {"low": 0, "high": 1, "log": True}),
            ("shared.l2", "above 0 with log"),
        ),
        (shared("l2", {"values": []}), ("search.space.shared.l2", "not empty")),
        (
            of_native("objective.sigma", {"lwo": 1}),
            ("search.space.models.native.objective.sigma", "'lwo'", "low: ..."),
        ),
        (of_native("sigma", RATE), ("search.space.models.native.sigma",)),
        (
            of_native("objective.sigmaa", RATE),
            ("search.space.models.native.objective.sigmaa",),
        ),
        (of_native("objective.sigma", {"low": 0.0, "high": 2.0}), ("sigma", "0.0")),
        (
            of_native("num_leaves", {"low": 4.0, "high": 64}),
            ("contains 4.0", "int", "hole numbers"),
        ),
        (
            shared("num_leaves", {"low": 1, "high": 64}),
            ("num_leaves contains 1", "at least 2"),
        ),
        (
            shared("l2", {"low": -5, "high": -1}),
            ("shared.l2 contains -5", "at least 0"),
        ),
        (
            shared("learning_rate", {"values": [-0.1, 0.0]}),
            ("shared.learning_rate contains -0.1", "more than 0"),
        ),
        (of_native("l2", {"values": [True, False]}), ("l2 contains True", "float")),
    ],
)
def test_a_wrong_space_is_refused_at_its_place(
    space: dict[str, Any], parts: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError, match=naming(*parts)):
        searched(space).space.of("native", NativeRanker())


def test_a_value_out_of_range_is_refused_also_where_the_backend_lacks_the_setting() -> (
    None
):
    space = searched(shared("min_docs_in_leaf", {"values": [0, -1]})).space
    with pytest.raises(ConfigError, match=naming("min_docs_in_leaf contains 0", "1")):
        space.of("xgboost", XGBoostRanker())
