"""The settings of NativeRanker: the engine's fields, checked together, and passed back to the engine.

Each setting is declared once, in the dataclass of the engine stage that uses it, with its default, range,
documentation, and the settings that it needs to have an effect. `NativeSettings` inherits them all, and
`part` of `ltrbench.native.settings` maps them back by name. This file adds the checks across several
settings, and the two settings that have another form in the engine: the objective and the convention of its
metric. A field that is None has LightGBM's default, because the engine follows LightGBM where the literature
leaves a choice.
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
    """A separate class, so that records show the field before the engine's settings."""

    preset: str | None = None
    """Name of the library whose settings these are; used only in the notes about unmatched parameters."""


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
    """All settings of NativeRanker: those of the engine's stages, and the hyperparameters that all
    boosted-tree backends share."""

    warm_start: str | None = None
    """Folder of a saved native model, or of its run, to continue training from; num_trees includes its
    trees."""


# To the engine.


def engine_settings(ranker: NativeSettings) -> BoostingSettings:
    """Returns the engine's settings, with the engine's default for every field that is None."""
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
    # If pairs are drawn at random, None means no truncation, not the engine's default.
    drawn = {} if truncates(ranker) else {"truncation": ranker.truncation}
    return part(ranker, PairSettings, metric=metric, convention=_convention(ranker), **drawn)


def _convention(ranker: NativeSettings) -> Convention:
    """Returns the metric's convention: gains, relevance threshold and highest grade."""
    gain = linear_gain if ranker.gain == "linear" else exponential_gain
    return replace(
        DEFAULT,
        gain=gain if ranker.label_gain is None else TableGain(tuple(ranker.label_gain)),
        relevance_threshold=float(ranker.relevance_threshold),
        highest_grade=float(ranker.highest_grade),
    )


def truncates(ranker: NativeSettings) -> bool:
    """Returns whether `truncation` has an effect on the objective."""
    return ranker.objective in ("lambdarank", "ranknet") and ranker.pairs_per_document is None


def draws_at_random(ranker: NativeSettings, num_documents: int) -> bool:
    """Returns whether the engine draws random numbers that may change the scores; all cases are listed."""
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
    """Returns the sizes of the four samples; 1 means no sampling."""
    return (
        ranker.queries_per_tree,
        ranker.documents_per_tree,
        ranker.features_per_tree,
        ranker.features_per_split,
    )


def changed_lambdas(ranker: NativeSettings) -> list[str]:
    """Returns the settings of the lambdas, except objective and metric, that differ from their default."""
    names = changed(ranker, ObjectiveOptions, PairOptions)
    return [name for name in names if name not in ("objective", "metric")]


def flat_settings(settings: Any) -> dict[str, Any]:
    """Returns the engine's settings as one dictionary, without the names of their groups."""
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


# Checks.


def check_settings_of(ranker: NativeSettings) -> None:
    """Raises ConfigError on the first setting that is out of range, has no effect, or contradicts another."""
    check(ranker)
    _check_objective(ranker)
    _check_trees(ranker)
    _check_goss(ranker)
    if ranker.position_bias == "propensity":
        correctable(objective_of(ranker))
    if ranker.extra:
        raise ConfigError(
            f"extra.{next(iter(ranker.extra))} has no effect, because native needs no extra parameters. Set "
            f"one of its fields: {', '.join(item.name for item in fields(ranker) if item.init)}."
        )


def _check_objective(ranker: NativeSettings) -> None:
    if ranker.label_gain is not None and (ranker.gain != "exponential" or len(ranker.label_gain) < 2):
        raise ConfigError(
            f"label_gain is {ranker.label_gain} with gain={ranker.gain}; give the gains of at least two "
            "labels, and set gain=exponential."
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
            f"monotone is set with split_criterion={ranker.split_criterion} and "
            f"leaf_value={ranker.leaf_value}, but it needs a criterion and leaf values of the same kind. Set "
            "split_criterion=newton and leaf_value=newton, or split_criterion=least_squares and "
            "leaf_value=mean."
        )
    if ranker.equal_cuts == "highest" and engine_settings(ranker).max_bins > COLUMN_BINS:
        raise ConfigError(
            f"max_bins is {ranker.max_bins}, but equal_cuts=highest supports at most {COLUMN_BINS} bins per "
            f"feature. Set max_bins={COLUMN_BINS} or equal_cuts=lowest."
        )
    if ranker.cut_without_gain and ranker.min_split_gain:
        raise ConfigError(
            f"min_split_gain is {ranker.min_split_gain}, but has no effect with cut_without_gain=true, which "
            "accepts splits without gain. Set min_split_gain=0 or cut_without_gain=false."
        )


def _check_goss(ranker: NativeSettings) -> None:
    top_rate, other_rate = ranker.goss_top_rate, ranker.goss_other_rate
    if (top_rate is None) != (other_rate is None):
        raise ConfigError(
            f"goss_top_rate is {top_rate} and goss_other_rate is {other_rate}; set both for GOSS, or both to "
            "null."
        )
    if top_rate is not None and other_rate is not None:
        require("goss_top_rate + goss_other_rate", top_rate + other_rate, at_most=1)
        if (ranker.queries_per_tree, ranker.documents_per_tree) != (1, 1):
            raise ConfigError(
                f"goss_top_rate is {top_rate} with queries_per_tree={ranker.queries_per_tree} and "
                f"documents_per_tree={ranker.documents_per_tree}, but GOSS samples the documents of a tree "
                "itself. Set queries_per_tree=1.0 and documents_per_tree=1.0."
            )
