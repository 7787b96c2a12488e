"""The check of a sweep composes each job as Hydra would, only faster, and refuses keys that nothing reads."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
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
from paths import CONF

from ltrbench.cli import launch
from ltrbench.cli.launch import Composer, Composition, check_keys, new_folder
from ltrbench.config import (
    build_experiment,
    build_tracker,
    composed,
    register_schema,
)
from ltrbench.errors import ConfigError, ResultError
from ltrbench.experiment import Experiment
from ltrbench.folders import conf_dir, find_class
from ltrbench.rankers import Ranker
from ltrbench.rankers.random import RandomRanker
from ltrbench.runs.spec import RunSpec
from ltrbench.sweep.plan import FolderOf, Job


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


def test_a_full_disk_is_named_with_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(ResultError, match=naming(tmp_path, "No space left")):
        launch._save_config(OmegaConf.create({}), "config.yaml", tmp_path)


def without_hydra(config: DictConfig) -> DictConfig:
    with flag_override(config, ["readonly", "struct"], False):
        del config["hydra"]
    return config


def composed_by_hydra(
    loader: ConfigLoader, master: DictConfig, job: list[str]
) -> Composition:
    config = loader.load_sweep_config(master, job)
    choices = dict(config.hydra.runtime.choices)
    return without_hydra(config), choices


def outcome(compose: Callable[[], Composition]) -> Any:
    """What is compared: the values with their interpolations, resolved, and the choices; or the error."""
    try:
        return described(*compose())
    except (HydraException, OmegaConfBaseException) as error:
        return type(error), str(error)


def described(config: DictConfig, choices: dict[str, Any]) -> Any:
    raw = OmegaConf.to_container(config, resolve=False)
    try:
        return (
            raw,
            OmegaConf.to_container(config, resolve=True),
            OmegaConf.is_struct(config),
            choices,
        )
    except OmegaConfBaseException as error:
        return raw, str(error), OmegaConf.is_struct(config), choices


JOBS: list[list[str]] = [
    [],
    ["model=lightgbm", "seed=3", "model.num_leaves=7"],
    ["model=mine", "params.max_bins=31"],
    ["model=native", "params=library", "data=mq2008", "data.fold=2"],
    ["experiment=parity"],
    ["data=letor", "data.train=[a.txt,b.txt]"],
    ["+model.extra.max_delta=3", "seed=1"],
    ["++params.num_leafs=15"],
    ["~experiment", "seed=5"],
    ["params.max_bins=63", "model.num_leaves=${params.max_bins}"],
    ["params.num_trees='${seed}'", "seed=11"],
    ["model.monotone={bm25_body: 1}"],
    ["seed=1", "seed=2"],
    ["model=nothing"],
    ["+seed=3"],
    ["model.num_leaves=${nowhere}"],
]


@pytest.mark.slow
def test_a_job_is_composed_as_hydra_composes_it(
    loader: ConfigLoader, own_yamls: str
) -> None:
    master = loader.load_configuration(
        "config", [own_yamls, "hydra.sweep.dir=x"], RunMode.MULTIRUN
    )
    composer = Composer(loader, master)
    by_hydra = [
        outcome(partial(composed_by_hydra, loader, master, job)) for job in JOBS
    ]
    # Backwards again, so that a job would show what another one left behind.
    for number in [*range(len(JOBS)), *reversed(range(len(JOBS)))]:
        assert outcome(partial(composer.composed, JOBS[number])) == by_hydra[number], (
            JOBS[number]
        )


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        (
            "+params.num_leafs=15",
            ("params.num_leafs", "'num_leaves'", "+model.extra.NAME=VALUE"),
        ),
        ("+foo=1", ("foo is set", "Leave it out")),
        ("+early_stopping.patienc=3", ("early_stopping.patienc", "'patience'")),
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
        ["+params.depth=3", "model.max_depth=${params.depth}"],
        ["+tag=mine", "hydra.run.dir=outputs/${tag}"],
        ["early_stopping=null", "importance=none"],
    ],
)
def test_a_key_that_is_read_may_be_added(
    loader: ConfigLoader, overrides: list[str]
) -> None:
    config = loader.load_configuration("config", overrides, RunMode.RUN)
    hydra = config.hydra
    check_keys(without_hydra(config), hydra)


class Undecorated(RandomRanker):
    margin: float = 1.0


def test_a_class_outside_the_environment_is_named() -> None:
    with pytest.raises(
        ConfigError,
        match=naming("'no_such_module.Ranker'", "module named 'no_such_module'"),
    ):
        find_class("no_such_module.Ranker", Ranker, "model")
    with pytest.raises(ConfigError, match=naming("results.study.Study", "checkout")):
        find_class("results.study.Study", Ranker, "study")
    with pytest.raises(ConfigError, match=naming("ltrbench.rankers.random", "'Randm'")):
        find_class("ltrbench.rankers.random.Randm", Ranker, "model")
    for target, lacks in (
        ("ltrbench.rankers.base.BoostingRanker", "define fit"),
        ("ltrbench.data.RankingDataset", "derived"),
        (f"{__name__}.Undecorated", "@dataclass(kw_only=True)"),
    ):
        with pytest.raises(
            ConfigError, match=naming("model._target_", f"'{target}'", lacks, "Ranker")
        ):
            find_class(target, Ranker, "model")


@pytest.mark.parametrize("path", ["lä.txt", "b(1).txt", "day=1/a.txt", "a's & b.txt"])
def test_a_path_needs_no_quotes_whatever_its_characters(path: str) -> None:
    _, overrides = launch.flags_and_overrides(["data=letor", f"data.train={path}"])
    assert composed(*overrides).data.train == path


@pytest.mark.parametrize("value", ["[lä.txt,b.txt]", "lä.txt,b.txt", "choice(1,2"])
def test_a_value_that_cannot_be_parsed_is_named_with_the_remedy(value: str) -> None:
    words = [f"data.train={value}"]
    _, overrides = launch.flags_and_overrides(["data=letor", *words])
    message = naming(words[0], 'data.train=["')
    with pytest.raises(ConfigError, match=message):
        composed(*overrides)


def test_a_name_that_no_registry_takes_is_refused_before_any_work() -> None:
    tracking = {"_target_": "ltrbench.tracking.mlflow.MLflowTracker"}
    for name in ("a/b", " "):
        with pytest.raises(
            ConfigError, match=naming("register", f"'{name}'", "without / and :")
        ):
            build_tracker({"tracking": tracking, "register": name})
    assert build_tracker({"tracking": tracking, "register": "web shop"})


def test_commands_that_start_in_the_same_second_have_different_folders(
    tmp_path: Path,
) -> None:
    name = str(tmp_path / "multirun/12-00-00")
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(new_folder, [name] * 20))
    assert len(set(folders)) == 20
    assert all(Path(folder).is_dir() for folder in folders)
    config = OmegaConf.load(CONF / "config.yaml")
    defaults = OmegaConf.to_container(config.hydra, resolve=False)
    assert isinstance(defaults, dict)
    assert all("${new_folder:" in defaults[key]["dir"] for key in ("run", "sweep"))


def test_a_command_builds_each_job_once_to_check_and_to_plan_it(
    loader: ConfigLoader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    built: list[RunSpec] = []
    planned: list[Job] = []

    def plan(sweep: Path, drafts: Sequence[Job], folder_of: FolderOf) -> None:
        planned.extend(drafts)

    def build(spec: RunSpec) -> Experiment:
        built.append(spec)
        return build_experiment(spec)

    monkeypatch.setattr(launch, "build_experiment", build)
    session: Any = SimpleNamespace(run_sweep=plan)
    words = ["tracking=none", "progress=none", "data.num_queries=20"]
    master = loader.load_configuration("config", words, RunMode.MULTIRUN)
    overrides = [[*words, "model=random", f"seed={seed}"] for seed in (1, 2)]
    jobs = launch._composed(loader, master, overrides)
    command = launch._Command(session, ["--config-dir", "mine"])
    command.sweep(tmp_path / "s", jobs, master, lambda _, number: str(number))
    assert len(built) == 2
    for draft, job in zip(planned, overrides, strict=True):
        spec = draft.spec
        assert (spec.overrides, spec.sweep) == (tuple(job), "s")
        assert spec.swept == {"seed": ["1", "2"]}
        assert spec.flags == ["--config-dir", "mine"]
        # The data of the draft are those that were loaded for its key.
        assert {"train", "valid", "test"} <= set(draft.key.data)
