"""Tables of the shared parameters: their meaning, the presets, and the parameters that are not matched."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException

from docs.macros.configuration import choices
from docs.macros.tables import code, folded, table, words
from docs.macros.yamls import Key, config_files
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
    register_schema()
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        config = compose(
            "config", overrides=[f"model={model}", "num_threads=1", *overrides]
        )
    return build(config, "model", Ranker)


@cache
def boosting_models() -> dict[str, BoostingRanker]:
    """Returns name -> ranker under params=matched, of all backends with the shared parameters.

    Of the models of the native engine only `native` is included: the others differ from it by settings alone.
    """
    rankers = {name: ranker_of(name) for name in choices("model")}
    return {
        name: ranker
        for name, ranker in rankers.items()
        if isinstance(ranker, BoostingRanker)
        and (name == "native" or not isinstance(ranker, NativeRanker))
    }


@cache
def preset_models() -> dict[str, NativeRanker]:
    """Returns name -> ranker of the presets of the native engine that follow a library."""
    rankers = {name: ranker_of(name) for name in choices("model")}
    return {
        name: ranker
        for name, ranker in rankers.items()
        if isinstance(ranker, NativeRanker) and ranker.preset is not None
    }


def presets() -> str:
    """Returns a table with one row per setting that differs from `model=native` and one column per preset."""
    models = [ranker_of("native"), *preset_models().values()]
    settings = [vars(ranker) | _of_objective(ranker) for ranker in models]
    names = [
        field.name
        for field in fields(NativeRanker)
        if field.init and field.name != "objective"
    ]
    rows = [
        [code(name), *(code(words(of[name])) for of in settings)]
        for name in [*names, *_of_objective(models[0])]
        if any(of[name] != settings[0][name] for of in settings)
    ]
    return table(["setting", *map(code, ("native", *preset_models()))], rows)


def _of_objective(ranker: Any) -> dict[str, Any]:
    return {
        f"objective.{name}": value for name, value in vars(ranker.objective).items()
    }


def shared_parameters() -> str:
    """Returns a table of the shared parameters with their values under params=matched and params=library."""
    matched, library = (
        {key.name.removeprefix("params."): key for key in item.keys}
        for name in ("matched", "library")
        for item in config_files()
        if (item.group, item.name) == ("params", name)
    )
    unset = Key("", "null", "")
    rows = [
        [
            code(f"params.{name}"),
            code(key.value),
            key.comment,
            library.get(name, unset).comment,
        ]
        for name, key in ((name, matched.get(name, unset)) for name in SHARED)
    ]
    return table(["parameter", "matched", "meaning", "params=library"], rows)


def given_to_libraries() -> str:
    """Returns all library parameters of each backend under params=matched, including seeds and threads."""
    blocks = []
    for model, ranker in boosting_models().items():
        lines = "\n".join(
            f"{name}: {value}" for name, value in ranker.library_parameters().items()
        )
        blocks.append(folded(model, f"```yaml\n{lines}\n```"))
    return "\n\n".join(blocks)


def unmatched() -> str:
    """Returns, per backend, a table of its remaining differences and the settings under which they apply."""
    sections = []
    for model, ranker in boosting_models().items():
        under = {sentence: ["`params=matched`"] for sentence in departures_of(ranker)}
        for sentence in departures_of(ranker_of(model, "params=library")):
            under.setdefault(sentence, []).append("`params=library`")
        for probe in _PROBES:
            for sentence in _unmatched_under(model, probe):
                if sentence not in departures_of(ranker):
                    under.setdefault(sentence, []).append(
                        " with ".join(map(code, probe.split()))
                    )
        rows = [[sentence, ", ".join(settings)] for sentence, settings in under.items()]
        sections.append(
            f"### `model={model}`\n\n{table(['difference', 'applies with'], rows)}"
        )
    return "\n\n".join(sections)


def _unmatched_under(model: str, probe: str) -> tuple[str, ...]:
    try:
        return departures_of(ranker_of(model, *probe.split()))
    except (ConfigError, HydraException):  # which the model does not have
        return ()
