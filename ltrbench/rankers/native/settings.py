"""The settings of NativeRanker: the engine's own fields, checked together, and brought back to the engine.

Each setting is declared once, in the dataclass of the stage of the engine that uses it: default, range,
documentation, and what it needs to have an effect. `NativeSettings` inherits them all, and `part` of
`ltrbench.native.settings` maps them back by name. What stands here is what no single field can say: checks of
several settings together, and the two settings that are something else in the engine, the objective and the
convention of its metric. A field that is None takes LightGBM's default: the engine follows LightGBM where the
literature leaves a choice.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from ltrbench.errors import ConfigError, require
from ltrbench.metrics import DEFAULT, Convention
from ltrbench.metrics.convention import TableGain, exponential_gain, linear_gain
from ltrbench.native.boosting import BINNINGS, BoostingSettings, TreeOptions
from ltrbench.native.dart import DartSettings
from ltrbench.native.objectives import CrossEntropy, ObjectiveSettings, SquaredError, check_settings
from ltrbench.native.objectives.dialects import ObjectiveOptions, PairOptions, PairSettings
from ltrbench.native.objectives.position_bias import PositionBiasSettings, correctable
from ltrbench.native.objectives.swaps import parse_layout
from ltrbench.native.sampling import SamplingSettings
from ltrbench.native.settings import changed, check, check_effects, part
from ltrbench.native.tree.binning import COLUMN_BINS
from ltrbench.native.tree.splitting import SplitOptions, SplitSettings
from ltrbench.rankers.base import BoostingRanker

_CRITERION_AND_VALUE_OF_ONE_KIND = (("newton", "newton"), ("least_squares", "mean"))


@dataclass(kw_only=True)
class _Preset(BoostingRanker):
    """In a class of its own, so that records show it before the engine's settings."""

    preset: str | None = None
    """The library whose settings these are; only named, where results say what was not matched."""


@dataclass(kw_only=True)
class NativeSettings(
    PositionBiasSettings,
    DartSettings,
    SamplingSettings,
    SplitOptions,
    TreeOptions,
    PairOptions,
    ObjectiveOptions,
    _Preset,
):
    """Every setting of NativeRanker: those of each stage of the engine, and those that all boosted trees
    share."""

    warm_start: str | None = None
    """A saved native model, or the folder of its run, to continue from; its trees count among num_trees."""


# To the engine.


def engine_settings(ranker: NativeSettings) -> BoostingSettings:
    """Returns the engine's settings, with its own defaults for what is None."""
    return part(
        ranker,
        BoostingSettings,
        objective=objective_of(ranker),
        splits=part(ranker, SplitSettings),
        sampling=part(ranker, SamplingSettings),
        dart=part(ranker, DartSettings),
    )


def objective_of(ranker: NativeSettings) -> ObjectiveSettings:
    """Returns the settings of the objective that the trees are fitted to."""
    if ranker.objective == "xendcg":
        return CrossEntropy()
    if ranker.objective == "mart":
        return SquaredError()
    return pairs_of(ranker)


def pairs_of(ranker: NativeSettings) -> PairSettings:
    """Returns the settings of the pairs of lambdarank and ranknet."""
    metric = None if ranker.objective == "ranknet" else ranker.metric
    # Where partners are drawn, None means that there is no truncation, and not the engine's default.
    drawn = {} if truncates(ranker) else {"truncation": ranker.truncation}
    return part(ranker, PairSettings, metric=metric, convention=_convention(ranker), **drawn)


def _convention(ranker: NativeSettings) -> Convention:
    """Returns what the name of the metric leaves open."""
    gain = linear_gain if ranker.gain == "linear" else exponential_gain
    return replace(
        DEFAULT,
        gain=gain if ranker.label_gain is None else TableGain(tuple(ranker.label_gain)),
        relevance_threshold=float(ranker.relevance_threshold),
        highest_grade=float(ranker.highest_grade),
    )


def truncates(ranker: NativeSettings) -> bool:
    """Whether `truncation` means anything to the objective."""
    return ranker.objective in ("lambdarank", "ranknet") and ranker.pairs_per_document is None


def draws_at_random(ranker: NativeSettings, num_documents: int) -> bool:
    """Whether the engine draws a random number that scores may depend on; each is named here."""
    bins_of = BINNINGS[ranker.binning].sample_size
    return (
        (bins_of is not None and num_documents > bins_of)
        or any(size != 1 for size in sizes_of_samples(ranker))
        or ranker.goss_top_rate is not None
        or ranker.drop_rate > 0
        or ranker.pairs_per_document is not None
        or ranker.objective == "xendcg"
    )


def sizes_of_samples(ranker: NativeSettings) -> tuple[int | float | str, ...]:
    """Returns the sizes of the four samples; 1 where nothing is drawn."""
    return (
        ranker.queries_per_tree,
        ranker.documents_per_tree,
        ranker.features_per_tree,
        ranker.features_per_split,
    )


def changed_lambdas(ranker: NativeSettings) -> list[str]:
    """Returns the settings of lambdas, the objective and metric apart, that do not have their default."""
    names = changed(ranker, ObjectiveOptions, PairOptions)
    return [name for name in names if name not in ("objective", "metric")]


def flat_settings(settings: Any) -> dict[str, Any]:
    """Returns the engine's settings in words, out of their groups, whose names tell a reader nothing."""
    flat: dict[str, Any] = {}
    for name, value in vars(settings).items():
        if isinstance(value, Convention):
            described = value.describe()
            flat |= {policy: described[policy] for policy in ("gain", "discount")}
        elif is_dataclass(value):
            flat |= flat_settings(value)
        else:
            flat[name] = value
    return flat


# What is refused.


def check_settings_of(ranker: NativeSettings) -> None:
    """Raises ConfigError on the first setting out of its range, without effect, or against another one."""
    check(ranker)
    _check_objective(ranker)
    _check_trees(ranker)
    _check_goss(ranker)
    if ranker.position_bias == "propensity":
        correctable(objective_of(ranker))
    if ranker.extra:
        raise ConfigError(
            f"extra.{next(iter(ranker.extra))} has no effect: the native engine has no parameters but its "
            f"fields, which are {', '.join(item.name for item in fields(ranker) if item.init)}."
        )


def _check_objective(ranker: NativeSettings) -> None:
    if ranker.label_gain is not None and (ranker.gain != "exponential" or len(ranker.label_gain) < 2):
        raise ConfigError(
            f"label_gain is {ranker.label_gain} beside gain={ranker.gain}; give the gains of two labels or "
            "more, and leave gain at exponential."
        )
    metric = parse_layout(ranker.metric)[0]
    chosen = {"objective": ranker.objective, "metric": metric, "position_bias": ranker.position_bias}
    check_effects(ranker, chosen)
    if ranker.truncation is not None and ranker.objective in ("xendcg", "mart"):
        raise ConfigError(
            f"truncation is {ranker.truncation}, but has no effect with objective={ranker.objective}; set "
            "truncation=null, or objective to lambdarank or ranknet."
        )
    check_settings(objective_of(ranker))


def _check_trees(ranker: NativeSettings) -> None:
    kinds = (ranker.split_criterion, ranker.leaf_value)
    if ranker.monotone and kinds not in _CRITERION_AND_VALUE_OF_ONE_KIND:
        raise ConfigError(
            f"monotone is set beside split_criterion={ranker.split_criterion} and "
            f"leaf_value={ranker.leaf_value}; cuts bound values of their own kind only: set newton and "
            "newton, or least_squares and mean."
        )
    if ranker.equal_cuts == "highest" and engine_settings(ranker).max_bins > COLUMN_BINS:
        raise ConfigError(
            f"max_bins is {ranker.max_bins}, but equal_cuts=highest can only tell {COLUMN_BINS} bins of a "
            f"feature apart; set max_bins={COLUMN_BINS} or equal_cuts=lowest."
        )
    if ranker.cut_without_gain and ranker.min_split_gain:
        raise ConfigError(
            f"min_split_gain is {ranker.min_split_gain}, but cut_without_gain takes every cut; set "
            "min_split_gain=0 or cut_without_gain=false."
        )


def _check_goss(ranker: NativeSettings) -> None:
    top_rate, other_rate = ranker.goss_top_rate, ranker.goss_other_rate
    if (top_rate is None) != (other_rate is None):
        raise ConfigError(
            f"goss_top_rate is {top_rate} and goss_other_rate is {other_rate}; set both for GOSS, or neither."
        )
    if top_rate is not None and other_rate is not None:
        require("goss_top_rate + goss_other_rate", top_rate + other_rate, at_most=1)
        if (ranker.queries_per_tree, ranker.documents_per_tree) != (1, 1):
            raise ConfigError(
                "goss_top_rate is set beside queries_per_tree or documents_per_tree; GOSS draws the "
                "documents of a tree itself: leave those at 1.0."
            )
