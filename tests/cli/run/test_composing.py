"""The check of a sweep composes each job as Hydra would, only faster, and refuses keys that nothing reads."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hydra import initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from hydra.types import RunMode
from messages import naming
from omegaconf import DictConfig, OmegaConf, flag_override
from omegaconf.errors import OmegaConfBaseException
from paths import RESULTS

from ltrbench.cli.launch import flags_and_overrides
from ltrbench.cli.sweep import Composer, check_keys, composition_message
from ltrbench.conf_folder import conf_dir
from ltrbench.config import build_experiment, build_tracker, register_schema, resolved
from ltrbench.errors import ConfigError
from ltrbench.rankers.importance import ImportanceSettings


@pytest.fixture
def loader() -> Iterator[ConfigLoader]:
    register_schema()
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        yield GlobalHydra.instance().config_loader()


@pytest.fixture
def own_yamls(tmp_path: Path) -> str:
    """Hydra's setting for a folder with a model of the user's, as --config-dir adds one."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model/mine.yaml").write_text(
        "defaults: [_boosting, _self_]\n_target_: ltrbench.rankers.native.NativeRanker\nmax_depth: 3\n"
    )
    return f"hydra.searchpath=['file://{tmp_path}']"


def without_hydra(config: DictConfig) -> DictConfig:
    with flag_override(config, ["readonly", "struct"], False):
        del config["hydra"]
    return config


def as_hydra_composes(loader: ConfigLoader, master: DictConfig, job: list[str]) -> Any:
    """What is compared: the values with their interpolations, resolved, and the choices; or the error."""
    try:
        config = loader.load_sweep_config(master, job)
        choices = dict(config.hydra.runtime.choices)
        return described(without_hydra(config), choices)
    except (HydraException, OmegaConfBaseException) as error:
        return type(error), str(error)


def as_composed(composer: Composer, job: list[str]) -> Any:
    try:
        with composer.composed(job) as composed:
            return described(composed.config, composed.choices)
    except (HydraException, OmegaConfBaseException) as error:
        return type(error), str(error)


def described(config: DictConfig, choices: dict[str, Any]) -> Any:
    raw = OmegaConf.to_container(config, resolve=False)
    try:
        return raw, OmegaConf.to_container(config, resolve=True), OmegaConf.is_struct(config), choices
    except OmegaConfBaseException as error:
        return raw, str(error), OmegaConf.is_struct(config), choices


JOBS: list[list[str]] = [
    [],
    ["seed=3", "params.num_leaves=15"],
    ["model=lightgbm", "seed=3", "model.num_leaves=7"],
    ["model=mine", "params.max_bins=31"],
    ["model=native", "params=library", "data=mq2008", "data.fold=2"],
    ["experiment=smoke", "seed=4"],
    ["experiment=parity"],
    ["data=letor", "data.train=[a.txt,b.txt]"],
    ["data=letor", "data.train=a.txt", "cv=5", "data.fold=2"],
    ["+model.extra.max_delta=3", "seed=1"],
    ["+foo=1"],
    ["++params.num_leafs=15"],
    ["~early_stopping"],
    ["~experiment", "seed=5"],
    ["early_stopping=null", "importance=none"],
    ["early_stopping.patience=7"],
    ["model.num_leaves=${params.max_bins}"],
    ["params.max_bins=63", "model.num_leaves=${params.max_bins}"],
    ["params.num_trees='${seed}'", "seed=11"],
    ["metrics=[map]"],
    ["metrics=map"],
    ["model.monotone={bm25_body: 1}"],
    ["model.warm_start=a/b"],
    ["seed=1", "seed=2"],
    ["seed=null"],
    ["seed=many"],
    ["seed=1", "params.num_leaves=many"],
    ["params.num_leavs=3"],
    ["model=nothing"],
    ["modl=native"],
    ["+model=random"],
    ["+seed=3"],
    ["~seed=4"],
    ["model.num_leaves=${nowhere}"],
]


@pytest.mark.slow
def test_a_job_is_composed_as_hydra_composes_it(loader: ConfigLoader, own_yamls: str) -> None:
    master = loader.load_configuration("config", [own_yamls, "hydra.sweep.dir=x"], RunMode.MULTIRUN)
    composer = Composer(loader, master)
    by_hydra = [as_hydra_composes(loader, master, job) for job in JOBS]
    # Backwards again, so that a job would show what another one left behind.
    for number in [*range(len(JOBS)), *reversed(range(len(JOBS)))]:
        assert as_composed(composer, JOBS[number]) == by_hydra[number], JOBS[number]


@pytest.mark.slow
def test_200_jobs_are_checked_in_about_10_ms_each(loader: ConfigLoader) -> None:
    master = loader.load_configuration("config", [], RunMode.MULTIRUN)
    models = ("native", "lightgbm", "xgboost", "random")
    for jobs in (
        [[f"model={model}", f"seed={seed}"] for model in models for seed in range(50)],
        [["model=native", f"params.num_leaves={count}"] for count in range(2, 202)],
    ):
        composer = Composer(loader, master)
        check(composer, master, jobs[::50])  # imports the backends
        began = time.process_time()
        check(composer, master, jobs)
        # Twice that, because the machine that runs the tests may be a slow one; tests/bench/bench_check.py
        # measures, and Hydra's own composing takes ten times as long.
        assert (time.process_time() - began) / len(jobs) < (1.0 if sys.gettrace() else 0.02)


def check(composer: Composer, master: DictConfig, jobs: list[list[str]]) -> None:
    for job in jobs:
        with composer.composed(job) as composed:
            check_keys(composed.config, master.hydra)
            settings = resolved(composed.config)
            build_experiment(settings, composed.choices, tuple(job), None)
            build_tracker(settings)


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("+params.num_leafs=15", ("params.num_leafs", "'num_leaves'", "+model.extra.NAME=VALUE")),
        ("++params.num_leafs=15", ("params.num_leafs", "'num_leaves'")),
        ("+foo=1", ("foo is set", "Leave it out")),
        ("+seeds=1", ("seeds", "'seed'")),
        ("+importance.xyz=1", ("importance.xyz is set",)),
        ("+early_stopping.patienc=3", ("early_stopping.patienc", "'patience'")),
        ("+hydra.swep.dir=x", ("hydra.swep", "'sweep'")),
        ("~seed", ("seed was deleted", "leave out ~seed")),
    ],
)
def test_a_key_that_nothing_reads_is_refused_with_the_one_that_was_meant(
    loader: ConfigLoader, override: str, parts: tuple[str, ...]
) -> None:
    config = loader.load_configuration("config", [override], RunMode.RUN)
    hydra = config.hydra
    with pytest.raises(ConfigError, match=naming(*parts)):
        check_keys(without_hydra(config), hydra)


@pytest.mark.parametrize(
    "overrides",
    [
        ["+model.extra.max_cat_threshold=3", "model=lightgbm"],
        ["+depth=3", "model.max_depth=${depth}"],
        ["+params.depth=3", "model.max_depth=${params.depth}"],
        ["+tag=mine", "hydra.run.dir=outputs/${tag}"],
        ["+hydra.job.env_set.NAME=1"],
        ["experiment=parity"],
        ["early_stopping=null", "importance=none"],
    ],
)
def test_a_key_that_is_read_may_be_added(loader: ConfigLoader, overrides: list[str]) -> None:
    config = loader.load_configuration("config", overrides, RunMode.RUN)
    hydra = config.hydra
    check_keys(without_hydra(config), hydra)


def test_a_studys_keys_are_held_to_what_is_read_too(loader: ConfigLoader) -> None:
    config = loader.load_configuration("config", ["experiment=parity", "+study.modls={}"], RunMode.RUN)
    hydra = config.hydra
    with pytest.raises(ConfigError, match=naming("study.modls is set", "'models'")):
        check_keys(without_hydra(config), hydra)


def test_the_kinds_of_importance_are_a_choice_of_a_yaml_and_a_list(loader: ConfigLoader) -> None:
    def composed(*overrides: str) -> Any:
        _, words = flags_and_overrides(list(overrides))
        return loader.load_configuration("config", words, RunMode.RUN).importance

    of_training, predicted = ["split", "gain"], ["permutation_within", "permutation_across", "shap"]
    assert composed().kinds == ImportanceSettings().kinds == of_training
    assert composed("importance=full").kinds == [*of_training, *predicted]
    assert composed("importance=full", "importance.kinds=[shap]").kinds == ["shap"]
    assert composed("importance=null") is composed("importance=none") is None
    assert composed("experiment=native_best_choice", "importance=full").kinds == [*of_training, *predicted]


@pytest.mark.parametrize("name", sorted(path.parent.name for path in RESULTS.glob("*/importances.csv")))
def test_a_committed_study_computes_every_importance_of_its_results(loader: ConfigLoader, name: str) -> None:
    (header, *_) = (RESULTS / name / "importances.csv").read_text().splitlines()
    kinds = {column.rpartition(" ")[2] for column in header.split(",")[2:]}
    config = loader.load_configuration("config", [f"experiment={name}"], RunMode.RUN)
    assert {kind.removesuffix("_low").removesuffix("_high") for kind in kinds} == set(config.importance.kinds)


def test_one_metric_needs_no_brackets(loader: ConfigLoader) -> None:
    def built(override: str) -> Any:
        config = loader.load_configuration("config", ["model=random", override], RunMode.RUN)
        choices = dict(config.hydra.runtime.choices)
        return build_experiment(without_hydra(config), choices, (), None)

    assert built("metrics=ndcg@10").metrics == ("ndcg@10",)
    assert built("metrics=ndcg@10").config["metrics"] == ["ndcg@10"]
    for wrong in ("metrics=5", "metrics=[5]", "metrics=null"):
        with pytest.raises(ConfigError, match=naming("metrics is ", "'metrics=[ndcg@10,map]'")):
            built(wrong)


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        (["model=lightgmb"], ["'lightgmb'", "'lightgbm'", "catboost, lightgbm, native"]),
        (["model=native,random"], ["model=native,random", "add -m", "'model=[native,random]'"]),
        (["seed=1,2"], ["seed=1,2", "add -m"]),
        (["seed=range(3)"], ["seed=range(3)", "add -m"]),
        (["metrics=[ndcg@10"], ["override metrics=[ndcg@10", "bracket", "'metrics=[ndcg@10,map]'"]),
        (["model='native"], ["override model='native", "quote"]),
        (["hydra/launcher=joblib"], ["hydra/launcher=joblib", "executor=processes", "executor=dask"]),
        (["hydra/sweeper=optuna"], ["pip install hydra-optuna-sweeper"]),
        (["hydra/job_logging=colorlog"], ["pip install hydra-colorlog"]),
        (["hydra/sweeper=optna"], ["'optna'", "'optuna'", "ax, nevergrad"]),
        (["modl=native"], ["key modl", "'model'"]),
        (["model.num_leavs=3"], ["key model.num_leavs", "'num_leaves'"]),
        (["model.extra.foo=3"], ["+model.extra.foo=VALUE"]),
        (["modle@x=native"], ["group 'modle@x'", "'model'"]),
        (["~sed"], ["key sed", "'seed'"]),
        (["+params.num_leaves=3"], ["leave out the +", "params.num_leaves=VALUE"]),
        (["seed=many"], ["seed=many", "'many'", "Integer"]),
        (["early_stopping=5"], ["early_stopping.KEY=VALUE", "early_stopping=null"]),
        (["data=store", "data.absent=nan"], ["data.absent", "data build SOURCE", "--read absent="]),
        (["data=store", "data.sort_queries=true"], ["data.sort_queries", "--read sort_queries="]),
        (["distributed.scheduler=tcp://a:1"], ["distributed.scheduler", "distributed=dask"]),
        (["executor.workers=4"], ["executor.workers", "executor=processes"]),
        (["data=store", "data.colour=red"], ["data.colour", "StoreFiles"]),
    ],
)
def test_a_mistake_in_composing_is_one_paragraph_with_the_remedy(
    loader: ConfigLoader, overrides: list[str], parts: list[str]
) -> None:
    with pytest.raises(HydraException) as caught:
        loader.load_configuration("config", overrides, RunMode.RUN)
    message = composition_message(caught.value)
    assert "\n" not in message
    assert "hydra.cc" not in message
    for part in parts:
        assert part in message


@pytest.mark.slow
def test_building_checks_the_same_whether_all_or_some_fields_are_given(loader: ConfigLoader) -> None:
    models = ("native", "lightgbm", "xgboost", "random")
    values = {"seed": ("null", "true", "[1]", "many"), "num_threads": ("1.5", "x"), "num_leaves": ("{a: 1}",)}
    wrong = [f"model.{key}={value}" for key, given in values.items() for value in given]
    for model, override in itertools.product(models, wrong):
        if model == "random" and "num_leaves" in override:
            continue
        config = loader.load_configuration("config", [f"model={model}", override], RunMode.RUN)
        choices = dict(config.hydra.runtime.choices)
        with pytest.raises(ConfigError, match=rf"^{override.partition('=')[0]}: "):
            build_experiment(without_hydra(config), choices, (), None)
