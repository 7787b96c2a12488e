"""Tables of the shared parameters: their meaning, the presets, and the parameters that are not matched."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any

from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from hydra.types import RunMode

from docs.macros.configuration import choices
from docs.macros.tables import code, folded, table, words
from docs.macros.yamls import Key, config_files
from ltrbench.cli.launch import Composer
from ltrbench.config import build, register_schema
from ltrbench.errors import ConfigError
from ltrbench.folders import conf_dir
from ltrbench.rankers import BoostingRanker, Ranker
from ltrbench.rankers.base import SHARED, departures_of
from ltrbench.rankers.native import NativeRanker

# Settings that may cause further findings; a setting that a backend does not have is skipped.
_PROBES = (
    "params.l2=1",
    "params.min_split_gain=1",
    "params.max_delta_step=1",
    "model.feature_fraction=0.5",
    "model.features_per_tree=0.5",
    "model.documents_per_tree=0.5",
    "model.goss_top_rate=0.2 model.goss_other_rate=0.1",
    "model.drop_rate=0.1",
    "model.position_bias=additive",
    "model.subsample=0.5",
    "model.rsm=0.5",
    "model.objective=rank_xendcg params.truncation=null",
    "model.objective=pairwise",
    "model.objective=xendcg params.truncation=null",
    "model.objective.metric=map",
    "model.objective.metric=ndcg@10",
    "model.objective.ties=worst",
    "model.loss=YetiRank params.truncation=null",
)


@cache
def ranker_of(model: str, *overrides: str) -> Ranker:
    """Returns the unfitted ranker of `model=NAME` with these settings.

    Raises:
        ConfigError: the ranker refuses the settings.
        HydraException: a key does not exist.
    """
    config, _ = _composer().composed([f"model={model}", "num_threads=1", *overrides])
    return build(config, "model", Ranker)


@cache
def _composer() -> Composer:
    """Returns a composer of commands, which reads the YAMLs of a model only once."""
    register_schema()
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
    master = loader.load_configuration("config", [], RunMode.MULTIRUN)
    return Composer(loader, master)


@cache
def boosting_models() -> dict[str, BoostingRanker]:
    """Returns name -> ranker under params=matched, of all backends with the shared parameters.

    Of the models of the native engine only `native` is included: the others differ from it by settings alone.
    """
    models = {}
    for name in choices("model"):
        ranker = ranker_of(name)
        is_native = isinstance(ranker, NativeRanker)
        if isinstance(ranker, BoostingRanker) and (name == "native" or not is_native):
            models[name] = ranker
    return models


@cache
def preset_models() -> dict[str, NativeRanker]:
    """Returns name -> ranker of the presets of the native engine that follow a library."""
    models = {}
    for name in choices("model"):
        ranker = ranker_of(name)
        if isinstance(ranker, NativeRanker) and ranker.preset is not None:
            models[name] = ranker
    return models


def presets() -> str:
    """Returns a table with one row per setting that differs from `model=native` and one column per preset."""
    models = {"native": ranker_of("native"), **preset_models()}
    settings = [_settings_of(ranker) for ranker in models.values()]
    rows = []
    for name, native_value in settings[0].items():
        values = [of_model[name] for of_model in settings]
        if any(value != native_value for value in values):
            cells = [code(words(value)) for value in values]
            rows.append([code(name), *cells])
    return table(["setting", *map(code, models)], rows)


def _settings_of(ranker: Any) -> dict[str, Any]:
    """Returns the settings of a model of the native engine, then those of its objective."""
    settings = {}
    for field in fields(ranker):
        if field.init and field.name != "objective":
            settings[field.name] = getattr(ranker, field.name)
    for name, value in vars(ranker.objective).items():
        settings[f"objective.{name}"] = value
    return settings


def shared_parameters() -> str:
    """Returns a table of the shared parameters with their values under params=matched and params=library."""
    matched = _keys_of_params("matched")
    library = _keys_of_params("library")
    unset = Key("", "null", "")
    rows = []
    for name in SHARED:
        key = matched.get(name, unset)
        under_library = library.get(name, unset).comment
        rows.append(
            [code(f"params.{name}"), code(key.value), key.comment, under_library]
        )
    return table(["parameter", "matched", "meaning", "params=library"], rows)


def _keys_of_params(choice: str) -> dict[str, Key]:
    """Returns parameter -> its key in a YAML of conf/params."""
    (file,) = (
        item for item in config_files() if (item.group, item.name) == ("params", choice)
    )
    return {key.name.removeprefix("params."): key for key in file.keys}


def given_to_libraries() -> str:
    """Returns all library parameters of each backend under params=matched, including seeds and threads."""
    blocks = []
    for model, ranker in boosting_models().items():
        parameters = ranker.library_parameters()
        lines = [f"{name}: {value}" for name, value in parameters.items()]
        block = "\n".join(["```yaml", *lines, "```"])
        blocks.append(folded(model, block))
    return "\n\n".join(blocks)


def unmatched() -> str:
    """Returns, per backend, a table of its remaining differences and the settings under which they apply."""
    sections = []
    for model in boosting_models():
        rows = [
            [sentence, ", ".join(settings)]
            for sentence, settings in _settings_by_difference(model).items()
        ]
        differences = table(["difference", "applies with"], rows)
        sections.append(f"### `model={model}`\n\n{differences}")
    return "\n\n".join(sections)


def _settings_by_difference(model: str) -> dict[str, list[str]]:
    """Returns the sentence of each difference -> the settings under which it applies."""
    always = departures_of(ranker_of(model))
    settings_of = {sentence: ["`params=matched`"] for sentence in always}
    for sentence in departures_of(ranker_of(model, "params=library")):
        settings_of.setdefault(sentence, []).append("`params=library`")
    for probe in _PROBES:
        settings = " with ".join(map(code, probe.split()))
        for sentence in _unmatched_under(model, probe):
            if sentence not in always:
                settings_of.setdefault(sentence, []).append(settings)
    return settings_of


def _unmatched_under(model: str, probe: str) -> tuple[str, ...]:
    try:
        return departures_of(ranker_of(model, *probe.split()))
    except (ConfigError, HydraException):  # which the model does not have
        return ()
