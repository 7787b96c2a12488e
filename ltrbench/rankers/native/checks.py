"""What NativeRanker refuses: values out of range, and fields without effect beside the others."""

from __future__ import annotations

import json
from dataclasses import fields

from ltrbench.errors import ConfigError
from ltrbench.native.boosting import BINNINGS
from ltrbench.native.dart import NORMALIZATIONS
from ltrbench.native.objectives import ORDERS_OF_TIES, check_settings
from ltrbench.native.objectives.dialects import QueryNorm, Sigmoid
from ltrbench.native.objectives.position_bias import correctable
from ltrbench.native.objectives.swaps import parse_layout
from ltrbench.native.sampling import ROOTS, SampleSize
from ltrbench.native.tree.binning import COLUMN_BINS
from ltrbench.native.tree.grower import ORDERS
from ltrbench.rankers.base import require
from ltrbench.rankers.library import require_choice
from ltrbench.rankers.native.fields import OF_METRICS, OF_PAIRS, OF_POSITION_BIAS, NativeFields
from ltrbench.rankers.native.translation import objective_of

_LIKE_CRITERION_LIKE_VALUE = (("newton", "newton"), ("least_squares", "mean"))


def check(own: NativeFields) -> None:
    """Raises ConfigError on the first of them."""
    _check_objective(own)
    _check_trees(own)
    _check_sampling(own)
    _check_dart(own)
    _check_position_bias(own)
    if own.extra:
        raise ConfigError(
            f"extra.{next(iter(own.extra))} has no effect: the native engine has no parameters but its "
            f"fields, which are {', '.join(field.name for field in fields(own) if field.init)}."
        )


def _check_objective(own: NativeFields) -> None:
    require_choice("objective", own.objective, ["lambdarank", "ranknet", "xendcg", "mart"])
    require_choice("gain", own.gain, ["exponential", "linear"])
    require_choice("sigmoid", own.sigmoid, [item.value for item in Sigmoid])
    require_choice("query_norm", own.query_norm, [item.value for item in QueryNorm])
    require_choice("ties", own.ties, [item.value for item in ORDERS_OF_TIES])
    require("sigma", own.sigma, above=0)
    require("distance_offset", own.distance_offset, above=0)
    require("hessian_factor", own.hessian_factor, above=0)
    require("least_hessian", own.least_hessian, at_least=0)
    require("relevance_threshold", own.relevance_threshold, above=0)
    require("highest_grade", own.highest_grade, above=0)
    require("pairs_per_document", own.pairs_per_document, at_least=1)
    if own.label_gain is not None and (own.gain != "exponential" or len(own.label_gain) < 2):
        raise ConfigError(
            f"label_gain is {own.label_gain} beside gain={own.gain}; give the gains of two labels or "
            "more, and leave gain at exponential."
        )
    _refuse_idle_fields(own)
    check_settings(objective_of(own))


def _refuse_idle_fields(own: NativeFields) -> None:
    """Raises ConfigError where something is set that the objective does not look at."""
    neutral = {field.name: field.default for field in fields(own)}
    metric = parse_layout(own.metric)[0]
    idle = [name for name, metrics in OF_METRICS.items() if metric not in metrics]
    chosen = f"metric={own.metric}"
    if own.objective != "lambdarank":
        idle, chosen = ["metric", *OF_METRICS], f"objective={own.objective}"
    if own.objective not in ("lambdarank", "ranknet"):
        idle += ["truncation", *OF_PAIRS]
    for name in idle:
        if getattr(own, name) != neutral[name]:
            raise ConfigError(
                f"{name} is {getattr(own, name)}, which {chosen} does not look at; set "
                f"{name}={json.dumps(neutral[name])}, or another {chosen.partition('=')[0]}."
            )


def _check_trees(own: NativeFields) -> None:
    require_choice("binning", own.binning, list(BINNINGS))
    require_choice("split_criterion", own.split_criterion, ["newton", "least_squares"])
    require_choice("leaf_value", own.leaf_value, ["newton", "mean"])
    require_choice("growth", own.growth, list(ORDERS))
    require_choice("equal_cuts", own.equal_cuts, ["lowest", "highest"])
    require_choice("document_counts", own.document_counts, ["exact", "by_hessian"])
    require("max_depth", own.max_depth, at_least=0)
    require("min_docs_in_split", own.min_docs_in_split, at_least=2)
    require("l1", own.l1, at_least=0)
    _check_monotone(own)
    if own.equal_cuts == "highest" and (own.max_bins or 255) > COLUMN_BINS:
        raise ConfigError(
            f"max_bins is {own.max_bins}, but equal_cuts=highest can only tell {COLUMN_BINS} bins of a "
            f"feature apart; set max_bins={COLUMN_BINS} or equal_cuts=lowest."
        )
    if own.cut_without_gain and own.min_split_gain:
        raise ConfigError(
            f"min_split_gain is {own.min_split_gain}, but cut_without_gain takes every cut; set "
            "min_split_gain=0 or cut_without_gain=false."
        )


def _check_monotone(own: NativeFields) -> None:
    for name, sign in own.monotone.items():
        if sign not in (-1, 0, 1):
            raise ConfigError(f"monotone.{name} is {sign}; it must be 1, -1 or, for neither, 0.")
    if own.monotone and (own.split_criterion, own.leaf_value) not in _LIKE_CRITERION_LIKE_VALUE:
        raise ConfigError(
            f"monotone is set beside split_criterion={own.split_criterion} and "
            f"leaf_value={own.leaf_value}; cuts bound values of their own kind only: set newton and "
            "newton, or least_squares and mean."
        )


def _check_sampling(own: NativeFields) -> None:
    _require_size("queries_per_tree", own.queries_per_tree)
    _require_size("documents_per_tree", own.documents_per_tree)
    _require_size("features_per_tree", own.features_per_tree, tuple(ROOTS))
    _require_size("features_per_split", own.features_per_split, tuple(ROOTS))
    require("resample_every", own.resample_every, at_least=1)
    top, other = own.goss_top_rate, own.goss_other_rate
    require("goss_top_rate", top, above=0, at_most=1)
    require("goss_other_rate", other, above=0, at_most=1)
    if (top is None) != (other is None):
        raise ConfigError(
            f"goss_top_rate is {top} and goss_other_rate is {other}; set both for GOSS, or neither."
        )
    if top is not None and other is not None:
        require("goss_top_rate + goss_other_rate", top + other, at_most=1)
        if (own.queries_per_tree, own.documents_per_tree) != (1, 1):
            raise ConfigError(
                "goss_top_rate is set beside queries_per_tree or documents_per_tree; GOSS draws the "
                "documents of a tree itown: leave those at 1.0."
            )


def _check_dart(own: NativeFields) -> None:
    require("drop_rate", own.drop_rate, at_least=0, at_most=1)
    require("skip_drop", own.skip_drop, at_least=0, at_most=1)
    require("max_drop", own.max_drop, at_least=0)
    require_choice("drop_normalize", own.drop_normalize, tuple(NORMALIZATIONS))


def _check_position_bias(own: NativeFields) -> None:
    require_choice("position_bias", own.position_bias, list(OF_POSITION_BIAS))
    require_choice("position_bias_cost", own.position_bias_cost, ["logistic", "mirrored"])
    require("position_bias_l2", own.position_bias_l2, at_least=0)
    require("position_bias_norm", own.position_bias_norm, at_least=0)
    neutral = {field.name: field.default for field in fields(own)}
    for correction, names in OF_POSITION_BIAS.items():
        for name in names:
            if own.position_bias != correction and getattr(own, name) != neutral[name]:
                raise ConfigError(
                    f"{name} is {getattr(own, name)}, which has no effect without "
                    f"position_bias={correction}; set that, or {name}={neutral[name]}."
                )
    if own.position_bias == "propensity":
        correctable(objective_of(own))


def _require_size(name: str, size: SampleSize, words: tuple[str, ...] = ()) -> None:
    """Raises ConfigError on what is no size of a sample."""
    if not _is_size(size, words):
        alternatives = "".join(f" or {word}" for word in words)
        raise ConfigError(
            f"{name} is {size}; it must be a share above 0 and up to 1, or a count from 2{alternatives}."
        )


def _is_size(size: SampleSize, words: tuple[str, ...]) -> bool:
    if isinstance(size, str):
        return size in words
    return 0 < size <= 1 or (size > 1 and float(size).is_integer())
