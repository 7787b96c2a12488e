"""From the fields of NativeRanker to the settings of the engine."""

from __future__ import annotations

from dataclasses import is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar

from ltrbench.metrics import Convention
from ltrbench.metrics.convention import TableGain, Ties, exponential_gain, linear_gain
from ltrbench.native.boosting import BINNINGS, BoostingSettings
from ltrbench.native.dart import DartSettings
from ltrbench.native.objectives import CrossEntropy, ObjectiveSettings, SquaredError
from ltrbench.native.objectives.dialects import FLOAT32_OFFSET, IN_ROW_ORDER, PairSettings, QueryNorm, Sigmoid
from ltrbench.native.sampling import GossSettings, SamplingSettings
from ltrbench.native.tree.splitting import SplitSettings
from ltrbench.rankers.native.fields import NativeFields

Number = TypeVar("Number", int, float)


def settings_of(own: NativeFields) -> BoostingSettings:
    """The engine's settings, with LightGBM's defaults for what is None.

    A whole number given for a float becomes one: kernels are compiled for the types of their arguments.
    """
    learning_rate = float(_or(own.learning_rate, 0.1))
    return BoostingSettings(
        num_trees=own.num_trees,
        learning_rate=learning_rate,
        num_leaves=_or(own.num_leaves, 31),
        max_bins=_or(own.max_bins, 255),
        binning=own.binning,
        growth=own.growth,
        split_criterion=own.split_criterion,
        leaf_value=own.leaf_value,
        monotone=dict(own.monotone),
        seed=own.seed,
        objective=objective_of(own),
        splits=_splits(own),
        sampling=SamplingSettings(
            queries=own.queries_per_tree,
            documents=own.documents_per_tree,
            features=own.features_per_tree,
            features_per_split=own.features_per_split,
            every=own.resample_every,
        ),
        goss=_goss(own, learning_rate),
        dart=DartSettings(
            drop_rate=own.drop_rate,
            skip_drop=own.skip_drop,
            max_drop=own.max_drop,
            by_weight=own.drop_by_weight,
            normalize=own.drop_normalize,
        ),
    )


def _splits(own: NativeFields) -> SplitSettings:
    return SplitSettings(
        min_docs_in_leaf=_or(own.min_docs_in_leaf, 20),
        min_sum_hessian=float(_or(own.min_sum_hessian, 1e-3)),
        min_split_gain=float(_or(own.min_split_gain, 0.0)),
        max_delta_step=float(_or(own.max_delta_step, 0.0)),
        l2=float(_or(own.l2, 0.0)),
        l1=float(own.l1),
        min_docs_in_split=own.min_docs_in_split,
        max_depth=own.max_depth,
        cut_without_gain=own.cut_without_gain,
        highest_of_equals=own.equal_cuts == "highest",
        counts_by_hessian=own.document_counts == "by_hessian",
    )


def _goss(own: NativeFields, learning_rate: float) -> GossSettings | None:
    if own.goss_top_rate is None or own.goss_other_rate is None:
        return None
    return GossSettings(own.goss_top_rate, own.goss_other_rate, num_warm_up=int(1.0 / learning_rate))


def objective_of(own: NativeFields) -> ObjectiveSettings:
    """What the trees are fitted to."""
    if own.objective == "xendcg":
        return CrossEntropy()
    if own.objective == "mart":
        return SquaredError()
    return PairSettings(
        metric=None if own.objective == "ranknet" else own.metric,
        convention=_convention(own),
        truncation=_or(own.truncation, 30) if truncates(own) else own.truncation,
        sigma=float(own.sigma),
        sigmoid=Sigmoid(own.sigmoid),
        normalize_distance=own.normalize_distance,
        distance_offset=float(_or(own.distance_offset, FLOAT32_OFFSET)),
        normalize_query=own.normalize_query,
        query_norm=QueryNorm(own.query_norm),
        hessian_factor=float(own.hessian_factor),
        least_hessian=float(own.least_hessian),
        pairs_per_document=own.pairs_per_document,
        float32_scores=own.float32_scores,
        float32_sums=own.float32_sums,
        float32_norm=own.float32_norm,
    )


def draws_at_random(own: NativeFields, num_documents: int) -> bool:
    """Whether the engine draws a random number that scores may depend on; each is named here."""
    bins_of = BINNINGS[own.binning].sample_size
    sizes = (own.queries_per_tree, own.documents_per_tree, own.features_per_tree, own.features_per_split)
    return (
        (bins_of is not None and num_documents > bins_of)
        or any(size != 1 for size in sizes)
        or own.goss_top_rate is not None
        or own.drop_rate > 0
        or own.pairs_per_document is not None
        or own.objective == "xendcg"
    )


def truncates(own: NativeFields) -> bool:
    """Whether `truncation` means anything to the objective."""
    return own.objective in ("lambdarank", "ranknet") and own.pairs_per_document is None


def _convention(own: NativeFields) -> Convention:
    """What the name of the metric leaves open."""
    gain = linear_gain if own.gain == "linear" else exponential_gain
    return replace(
        IN_ROW_ORDER,
        gain=gain if own.label_gain is None else TableGain(tuple(own.label_gain)),
        ties=Ties(own.ties),
        relevance_threshold=float(own.relevance_threshold),
        highest_grade=float(own.highest_grade),
    )


def _or(value: Number | None, default: Number) -> Number:
    return default if value is None else value


def in_words(settings: Any) -> dict[str, Any]:
    """The engine's settings in words, out of their groups, whose names tell a reader nothing."""
    flat: dict[str, Any] = {}
    for name, value in (settings._asdict() if hasattr(settings, "_asdict") else vars(settings)).items():
        if isinstance(value, Convention):
            flat |= {policy: value.describe()[policy] for policy in ("gain", "discount", "ties")}
        elif is_dataclass(value) or hasattr(value, "_asdict"):
            flat |= in_words(value)
        else:
            word = value.value if isinstance(value, Enum) else value
            flat[name] = word.__name__ if callable(word) else word
    return flat
