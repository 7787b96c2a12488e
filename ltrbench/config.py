"""The typed schema of an experiment, and the construction of objects from the `_target_` of a YAML.

The schema types the top level only. `build` checks the YAML of a model, data set or tracker against the
dataclass that `_target_` names, so a new one needs no line here."""

from __future__ import annotations

import dataclasses
import functools
import keyword
import re
import shlex
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from ltrbench.data import TrainingResample
from ltrbench.data.sources import FORWARD, TEST, VALID, DataSource
from ltrbench.distributed import Distribution, OneProcess
from ltrbench.errors import ConfigError, did_you_mean, require, require_choice
from ltrbench.experiment import ChosenSettings, Experiment, Study
from ltrbench.folders import conf_dir, find_class
from ltrbench.metrics import DEFAULT, load_plugins
from ltrbench.native.objectives.base import Objective, yamls
from ltrbench.rankers import BoostingRanker, EarlyStopping, Ranker
from ltrbench.rankers.base import SHARED, debiased
from ltrbench.rankers.importance import ImportanceSettings
from ltrbench.runs.origin import Origin, Trained
from ltrbench.runs.spec import JobKey, RunSpec
from ltrbench.search import NoSearch, Search
from ltrbench.settings import replaced
from ltrbench.tracking import Tracker

Built = TypeVar("Built")

PROGRESS = ("auto", "plain", "none")
"""Ways to show the progress of a fit; conf/config.yaml explains each."""


_TYPES = typing.get_type_hints(BoostingRanker)

Params: Any = dataclasses.make_dataclass(
    "Params",
    [(name, _TYPES[name], MISSING if name == "num_trees" else None) for name in SHARED],
)
"""The shared parameters, which are fields of `BoostingRanker`. null: the default of the library."""


@dataclass
class Config:
    """The top level of conf/config.yaml, which explains each key."""

    model: dict[str, Any] = MISSING
    params: Params = field(default_factory=Params)
    data: dict[str, Any] = MISSING
    tracking: dict[str, Any] = MISSING
    executor: dict[str, Any] = MISSING
    distributed: dict[str, Any] = MISSING
    search: dict[str, Any] = MISSING
    register: str | None = None
    # A name, or a mapping of name and options.
    target: Any = None
    looks: int = 1
    only_trials: bool = False
    stop_after: float | None = None
    early_stopping: EarlyStopping | None = field(default_factory=EarlyStopping)
    plugins: list[str] = field(default_factory=list)
    # Any, because one metric may be given without the brackets of a list.
    metrics: Any = MISSING
    importance: ImportanceSettings | None = None
    timing: str = MISSING
    progress: str = MISSING
    seed: int = MISSING
    num_threads: int = MISSING
    cv: int | None = None
    cv_split: str = TEST
    cv_repeats: int = 1
    # The fields of `TrainingResample`, which checks them.
    replicates: dict[str, Any] | None = field(default_factory=dict)
    debias: str | None = None
    study: dict[str, Any] | None = None


def register_schema() -> None:
    """Registers the schema with Hydra under the name that the defaults list of conf/config.yaml uses, and the
    shared parameters under the name that conf/model/_boosting.yaml uses."""
    # Imported late, because it takes a quarter of a second, and most verbs compose nothing.
    from hydra.core.config_store import ConfigStore

    ConfigStore.instance().store(name="schema", node=Config)
    shared = {name: f"${{params.{name}}}" for name in SHARED}
    ConfigStore.instance().store(group="model", name="_shared", node=shared)


def composed(*overrides: str) -> DictConfig:
    """Returns the configuration of a command line, composed by Hydra.

    Raises:
        ConfigError: There is no such key or YAML.
    """
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException

    register_schema()
    try:
        with initialize_config_dir(str(conf_dir()), version_base="1.3"):
            return compose("config", list(overrides))
    except HydraException as error:
        raise ConfigError(composition_message(error)) from error


def composition_message(error: BaseException) -> str:
    """Returns Hydra's message about a configuration, with its cause, and with the key that was meant."""
    from hydra.errors import OverrideParseException

    if isinstance(error, OverrideParseException) and "=" in error.override:
        return _no_such_value(error.override)
    text = str(error).strip()
    cause = error.__cause__
    key = re.search(r"Could not (?:override|delete from config\.) '([^']+)'", text)
    if key:
        # data@data.from, if a data set without it is chosen.
        return _no_such_key(key[1].rpartition("@")[2], cause)
    text = text.partition("\nConfig search path:")[0].replace("\t", "  ")
    choice = re.search(
        r"Could not find '(.+)/(.+)'\s+Available options in .+:([\s\w]*)", text
    )
    if choice:
        return _no_such_choice(choice[1], choice[2], choice[3].split())
    if cause is None or str(cause) in text:
        return text
    return f"{text}\n{cause}"


def _no_such_value(override: str) -> str:
    """Returns the message about a setting that Hydra cannot parse."""
    key = override.partition("=")[0]
    example = shlex.quote(f'{key}=["lä.txt","b (1).txt"]')
    return (
        f"{override} has a value that cannot be parsed. Close each bracket and quote, and put texts with "
        f"letters such as ä, parentheses or = in double quotes, as in {example}."
    )


def _no_such_key(key: str, cause: BaseException | None) -> str:
    """Returns the message about an unknown key, where Hydra only suggests to add it with +.

    Args:
        cause: what OmegaConf raised, with the node above the key.
    """
    parent, _, name = key.rpartition(".")
    node = getattr(cause, "parent_node", None)
    known: list[str] = []
    target = ""
    objective: Iterable[Any] = ()
    if isinstance(node, DictConfig):
        known = [str(each) for each in node]
        target = str(node.get("_target_", ""))
        objective = node.get("objective") or ()
    if not known and not parent:
        known = [item.name for item in dataclasses.fields(Config)]
    # A sweep over models sets the key in all of them.
    lacking = ""
    if target:
        lacking = f" {target.rpartition('.')[2]} has no such setting."
    if "_target_" in known and not target.startswith("ltrbench."):
        # Also if _target_ has no value yet; the YAML need not list the fields of the class.
        lacking = f" To set a field of a class of yours, write +{key}=VALUE."
    if name in list(objective):
        lacking = f" It is a setting of the objective: {parent}.objective.{name}."
    hint = ""
    if ".extra" in parent:
        hint = f" To add a parameter of the library, write +{key}=VALUE."
    # The key itself may be correct, and a key above it misspelt.
    missing = re.search(r"Key '([^']+)' (?:not in|is not in)", str(cause))
    similar = did_you_mean(missing[1] if missing else name, known)
    return f"there is no key {key}{similar}{lacking}{hint}"


def _no_such_choice(group: str, name: str, listed: Sequence[str]) -> str:
    """Returns the message about an unknown YAML of a group, whose YAMLs Hydra lists."""
    # Names with an underscore are parts of others.
    options = [option for option in listed if not option.startswith("_")]
    meant = did_you_mean(name, options)
    dot = ""
    if meant == "." and group == "model/objective":
        dot = f", or, with a dot, model.objective={name}"
    return f"{group} is '{name}'{meant} It must be one of {', '.join(options)}{dot}."


def resolved(config: DictConfig) -> dict[str, Any]:
    """Returns a composed configuration as plain values, without interpolations.

    Raises:
        ConfigError: A key without a value, an interpolation that names no key, or `metrics` is not a list of
            names.
    """
    values = _resolved(config, "the configuration")
    settings = {str(key): value for key, value in values.items()}
    for key, nothing in (("search", NoSearch), ("distributed", OneProcess)):
        if settings[key]["_target_"] == f"{nothing.__module__}.{nothing.__qualname__}":
            settings[key] = None
    if "metrics" in settings:
        settings["metrics"] = _metrics(settings["metrics"])
    return settings


def build_experiment(
    spec: RunSpec,
    key: JobKey | None = None,
    origin: Origin | None = None,
    chosen: ChosenSettings | None = None,
) -> Experiment:
    """Builds and checks the experiment that a command asks for, without running it.

    Args:
        key, origin, chosen: as in `Experiment`; origin None: `Trained`. `chosen` replaces settings of the
            model.

    Raises:
        ConfigError: A setting does not exist, has the wrong type, or is out of range.
    """
    settings: Any = dict(spec.settings)
    choices = spec.choices
    load_plugins(settings["plugins"], "plugins")
    # Checked here too, because a model without early stopping never builds it.
    _typed(settings, "early_stopping", EarlyStopping)
    require_choice("progress", settings["progress"], PROGRESS)
    require("looks", settings.get("looks", 1), at_least=0)
    require("stop_after", settings.get("stop_after"), above=0)
    _check_folds(settings, choices)
    _check_repeats(settings, str(choices.get("data")))
    model = _with_objective(settings["model"], choices, spec.overrides or ())
    settings["model"] = model
    ranker = build(settings, "model", Ranker)
    debias = settings.get("debias")
    if debias is not None:
        ranker = debiased(ranker, debias, spec.model)
    resample = _resample(settings["replicates"])
    if settings["search"] is not None:
        _check_search(build(settings, "search", Search), ranker)
    if resample is not None:
        ranker = dataclasses.replace(ranker, seed=resample.seed_of_ranker(ranker.seed))
    destination = None
    if settings.get("target") is not None:
        from ltrbench.shipping.destination import Destination  # takes half a second

        destination = Destination.of(settings["target"])
        destination.check_ranker(ranker)
    distributed = None
    if settings["distributed"] is not None:
        distributed = build(settings, "distributed", Distribution)
    if chosen is not None:
        ranker = replaced(ranker, chosen.record["settings"])
    return Experiment(
        model=spec.model,
        ranker=ranker,
        source=build(settings, "data", DataSource),
        resample=resample,
        metrics=tuple(settings["metrics"]),
        params=str(choices["params"]),
        importance=_typed(settings, "importance", ImportanceSettings),
        timing=settings["timing"],
        spec=replace(spec.without_passwords(), settings=settings),
        key=key,
        origin=Trained() if origin is None else origin,
        chosen=chosen,
        distributed=distributed,
        debias=debias,
        destination=destination,
    )


def _check_folds(settings: Mapping[str, Any], choices: Mapping[str, Any]) -> None:
    """Raises ConfigError if folds are asked for of data with a fixed test set."""
    for key, default in (("cv", None), ("cv_split", TEST)):
        if settings.get(key, default) != default and key not in settings["data"]:
            raise ConfigError(
                f"{key} is {settings[key]}, but data={choices['data']} has a fixed test set. Leave out "
                f"{key}, use the publisher's data.fold=1,2,3,4,5 -m, or your files with data=letor or table."
            )


def _is_set(key: str, overrides: Sequence[str]) -> bool:
    """Returns whether the command sets a key, given as a regular expression."""
    return any(re.match(rf"\+*{key}=", word) for word in overrides)


def _with_objective(
    model: Mapping[str, Any], choices: Mapping[str, Any], overrides: Sequence[str]
) -> Mapping[str, Any]:
    """Returns the settings of a model in which its objective agrees with `model/objective`.

    The name of an objective, as in model.objective=ranknet, keeps those settings of the model's lambdarank
    that the objective has. An objective without pairs has no truncation, unless the command sets one.
    """
    chosen = choices.get("model/objective") or "none"
    objective = model.get("objective")
    if isinstance(objective, str):
        is_chosen = _is_set("model/objective", overrides)
        if chosen.startswith("lambdarank") and not is_chosen:
            return _with_named_objective(model, objective, yamls()[chosen])
        if chosen != "none":
            raise ConfigError(
                f"model/objective={chosen} excludes model.objective={objective}; leave one out."
            )
    is_set = _is_set(r"(params|model)\.truncation", overrides)
    if not isinstance(objective, Mapping) or is_set or "truncation" not in model:
        return model
    kind: Any = find_class(str(objective.get("_target_")), Objective, "model.objective")
    from ltrbench.native.objectives.pairs import PairSettings

    # In LightGBM and XGBoost an objective of pairs has the default truncation; another value is refused.
    ranker = find_class(str(model["_target_"]), Ranker, "model")
    is_of_library = hasattr(ranker, "library")
    is_default = model["truncation"] == PairSettings.truncation
    samples_pairs = bool(objective.get("pairs_per_document"))
    if not kind.has_pairs or (is_of_library and is_default and not samples_pairs):
        return {**model, "truncation": None}
    return model


def _with_named_objective(
    model: Mapping[str, Any], name: str, of_model: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Returns the settings of a model with the objective of a name, which keeps the settings of the model's
    own objective that it has, too."""
    named = yamls().get(name, {})
    common = [key for key in named if key in of_model and key != "_target_"]
    if not common:
        return model
    kept = {key: of_model[key] for key in common}
    return {**model, "objective": {**named, **kept}}


def _check_repeats(settings: Mapping[str, Any], name: str) -> None:
    """Raises ConfigError if the folds of a cross-validation cannot be drawn again, or there are none."""
    repeats = settings.get("cv_repeats", 1)
    data = settings["data"]
    require("cv_repeats", repeats, at_least=1)
    reason = {
        FORWARD: "cv_split is forward, and windows of time cannot be drawn again. Leave out cv_repeats",
        VALID: "cv_split is valid, whose folds share one test set. Leave out cv_repeats, and set seed=0,1,2",
    }.get(data.get("cv_split", TEST), "")
    if data.get("cv") is None:
        reason = f"data={name} has no folds, because cv is null. Set cv=5, or leave out cv_repeats"
    if data.get("num_folds"):
        reason = (
            f"data={name} has published folds. Leave out cv_repeats, or list the files of one fold in "
            "data.train of data=letor, with cv=5"
        )
    if repeats > 1 and reason:
        raise ConfigError(f"cv_repeats is {repeats}, but {reason}.")


def _check_search(search: Search, ranker: Ranker) -> None:
    """Raises ConfigError if the pruning of a search contradicts the early stopping of the ranker."""
    pruning = getattr(search, "pruning", None)
    rule = getattr(ranker, "early_stopping", None)
    if pruning is None or ranker.is_yardstick:
        return
    stops_by = None
    if rule is not None:
        stops_by = (rule.metric, rule.convention)
    if stops_by != (search.metric, DEFAULT.name):
        given = "null"
        if stops_by is not None:
            given = " under ".join(stops_by)
        raise ConfigError(
            f"search.pruning is {pruning}, which ends fits by the metric of early stopping, but that is "
            f"{given} and search.metric is {search.metric}. Set search.pruning=null, or the same metric and "
            "convention=default for early_stopping."
        )


def run_study(config: DictConfig) -> Path:
    """Runs the study of `config.study` with its models and data sets, and returns the path of its table.

    Raises:
        ConfigError: A setting does not exist, has the wrong type, or is out of range.
    """
    load_plugins(config.plugins, "plugins")
    study = build(config.study, "what", Study)
    models = {
        str(name): build(config.study.models, str(name), Ranker)
        for name in config.study.models
    }
    data = {
        str(name): build(config.study.data, str(name), DataSource)
        for name in config.study.data
    }
    return study.run(models, data)


def _metrics(given: Any) -> list[str]:
    """Returns the metrics as a list; a single metric may be a plain string."""
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(
            f"metrics is {given!r}; list metric names, as in 'metrics=[ndcg@10,map]'."
        )
    return names


def _resample(settings: Mapping[str, Any] | None) -> TrainingResample | None:
    """Returns the resample that a job trains on; None: all training queries.

    Raises:
        ConfigError: Only one of number and index is set, or a value is out of range.
    """
    if settings is None:
        return None
    number = settings["number"]
    index = settings["index"]
    if number is index is None:
        return None
    if number is None:
        raise ConfigError(
            f"replicates.index is {index}, but replicates.number is null. Set both or none."
        )
    if index is None:
        raise ConfigError(
            f"replicates.number is {number}, but replicates.index is null. Set replicates.index=1 to "
            f"{number}, or add -m to train on all resamples."
        )
    resample: TrainingResample = _instance(TrainingResample, settings, "replicates")
    return resample


def build_tracker(config: DictConfig | Mapping[str, Any]) -> Tracker:
    """Builds the tracker that a configuration names, without opening it.

    Raises:
        ConfigError: A setting does not exist, or `register` is set and no model can be registered.
    """
    tracker = build(config, "tracking", Tracker)
    if config["register"] is not None:
        # Before hours of training.
        check_registered_name("register", config["register"])
        _check_register(config, tracker)
    return tracker


def check_registered_name(setting: str, name: str) -> None:
    """
    Raises:
        ConfigError: The name cannot be part of the address models:/NAME@champion.
    """
    if not re.fullmatch(r"[^/:]*[^/:\s][^/:]*", name):
        raise ConfigError(f"{setting} is '{name}'; use a name without / and :.")


def _check_register(config: DictConfig | Mapping[str, Any], tracker: Tracker) -> None:
    """Raises ConfigError if the command that `config` is of could register no model."""
    register = config["register"]
    if not tracker.has_registry:
        raise ConfigError(
            f"register is '{register}', but tracking has no model registry. Set tracking=mlflow and "
            "tracking.models=true, or register=null."
        )
    if config.get("looks", 1) == 0:
        raise ConfigError(
            f"register is '{register}', but looks is 0, and without a comparison no model is the best. Leave "
            "out looks=0, or register a model after `compare` with sync --register."
        )
    data = config.get("data") or {}
    replicates = config.get("replicates") or {}
    part = ""
    if data.get("cv") is not None:
        part = f"folds (cv={data['cv']})"
    if replicates.get("number") is not None:
        part = f"resamples (replicates={replicates['number']})"
    if part:
        raise ConfigError(
            f"register is '{register}', but the models of {part} are trained without a part of the queries. "
            "Leave out register, train the chosen settings on all queries with `final DIR`, and register "
            f"that model with `sync DIR/final --register {register}`."
        )


def build(config: DictConfig | Mapping[Any, Any], key: str, kind: type[Built]) -> Built:
    """Builds the object that `config[key]` describes, and checks every field against the class in `_target_`.

    Args:
        config: composed by Hydra, or already resolved into plain values.
        kind: the base class that the class in `_target_` must have.

    Raises:
        ConfigError: The class cannot be imported or is not a `kind`, a field is unknown, or a value has the
            wrong type.
    """
    node = config[key]
    settings = _resolved(node, key) if isinstance(node, DictConfig) else dict(node)
    target = settings.pop("_target_", None)
    if target is None:
        raise ConfigError(
            f"{key} has no _target_. Name the class in its YAML, as in _target_: my_module.MyRanker."
        )
    instance = _instance(find_class(str(target), kind, key), settings, key)
    # find_class checked it; repeated for the type checker.
    assert isinstance(instance, kind)
    return instance


def _typed(
    settings: Mapping[str, Any], key: str, built_class: type[Built]
) -> Built | None:
    """Builds an object of a known class from `settings[key]`; None for null."""
    node = settings[key]
    return None if node is None else _instance(built_class, node, key)


def _instance(built_class: Any, settings: Mapping[Any, Any], key: str) -> Any:
    """Builds an object after checking names and types of its fields.

    Raises:
        ConfigError: A field is unknown, or a value has the wrong type or is out of range.
    """
    settings = _by_field(getattr(built_class, "with_objective", dict)(settings))
    target = f"{built_class.__module__}.{built_class.__qualname__}"
    known = [item.name for item in dataclasses.fields(built_class) if item.init]
    _check_names(settings, known, key, target)
    try:
        changed = _changed(built_class, settings, known)
        for name, kind in _NESTED.items():
            if isinstance(changed.get(name), Mapping):
                whole = f"{key}.{name.rstrip('_')}"
                changed[name] = build({whole: changed[name]}, whole, kind)
        typed = OmegaConf.merge(_schema(built_class, frozenset(changed)), changed)
        return built_class(**vars(OmegaConf.to_object(typed)))
    except OmegaConfBaseException as error:
        where = getattr(error, "full_key", None)
        if where in settings and "ListConfig" in str(error):
            value = settings[where]
            raise ConfigError(
                f"{key}.{where} is {value!r}; write a list: {key}.{where}=[{value}]."
            ) from None
        raise ConfigError(f"{key}.{where or target}: {_first_line(error)}.") from None
    except ConfigError as error:
        message = str(error)
        if not message.startswith(f"{key}."):
            message = f"{key}: {message}"
        raise ConfigError(message) from None


_NESTED: Mapping[str, type[Any]] = {"objective": Objective, "from_": DataSource}
"""Field -> class of what a field describes by a `_target_` of its own."""


def _by_field(settings: Mapping[Any, Any]) -> dict[Any, Any]:
    """Returns the settings by fields: `from_` for the key `from`, because no field is a word of Python."""
    by_field = dict(settings)
    for name in settings:
        if keyword.iskeyword(str(name)):
            by_field[f"{name}_"] = by_field.pop(name)
    return by_field


@functools.cache
def _defaults(built_class: Any) -> Mapping[Any, Any]:
    """Returns field -> default as a plain value. The result is shared: do not modify it."""
    # Without the fields that only the class itself sets, which may have types that OmegaConf does not know.
    names = frozenset(
        item.name for item in dataclasses.fields(built_class) if item.init
    )
    defaults = OmegaConf.to_container(_schema(built_class, names))
    assert isinstance(defaults, dict)
    return defaults


@functools.cache
def _schema(built_class: Any, names: frozenset[str]) -> DictConfig:
    """Returns an OmegaConf schema of some fields of a dataclass. The result is shared: do not modify it.

    It has only the fields that differ from their default, because OmegaConf needs about as long for one field
    as `built_class` for all of its checks, and most settings of a YAML are the default.
    """
    # OmegaConf has no union of a text and a class; the ranker checks the value.
    hints = typing.get_type_hints(built_class)
    columns: list[tuple[str, Any, Any]] = []
    for item in dataclasses.fields(built_class):
        hint = hints[item.name]
        if Objective in (hint, *typing.get_args(hint)):
            columns.append((item.name, Any, None))
        else:
            default = field(default=item.default, default_factory=item.default_factory)
            columns.append((item.name, hint, default))
    columns = [column for column in columns if column[0] in names]
    schema = OmegaConf.structured(
        dataclasses.make_dataclass(built_class.__name__, columns, kw_only=True)
    )
    assert isinstance(schema, DictConfig)
    return schema


def _check_names(
    settings: Mapping[str, Any], known: Sequence[str], key: str, target: str
) -> None:
    """
    Raises:
        ConfigError: A setting is no field of the class.
    """
    if "objective" in settings and "objective" not in known:
        remedy = ""
        if "loss" in known:
            remedy = (
                ", and choose its own loss, as in model.loss=YetiRank params=library"
            )
        raise ConfigError(
            f"{target} has no objectives of native. Leave out model/objective{remedy}."
        )
    for name, value in settings.items():
        # Every objective sets truncation to null, also in rankers without it.
        if name not in known and (name != "truncation" or value is not None):
            raise ConfigError(
                f"{key}.{name}: {target} has no field '{name}'{did_you_mean(str(name), known)}"
            )


def _changed(
    built_class: Any, settings: Mapping[str, Any], known: Sequence[str]
) -> dict[str, Any]:
    """Returns the fields that are not the default."""
    defaults = _defaults(built_class)
    changed = {}
    for name in known:
        if name in settings and not _same(settings[name], defaults[name]):
            changed[name] = settings[name]
    return changed


def _same(value: Any, other: Any) -> bool:
    """Returns whether two plain values are equal and have the same type: 1, 1.0 and True all differ."""
    return type(value) is type(other) and repr(value) == repr(other)


def _resolved(node: DictConfig, key: str) -> dict[Any, Any]:
    try:
        settings = OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        name = getattr(error, "full_key", None) or key
        raise ConfigError(f"{name} has no value; set it, as in {name}=VALUE.") from None
    except OmegaConfBaseException as error:
        name = getattr(error, "full_key", None) or key
        raise ConfigError(f"{name}: {_first_line(error)}.") from None
    assert isinstance(settings, dict)
    return settings


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0].rstrip(".")
