"""In what a NativeRanker departs from what the shared parameters say, and so from the other backends."""

from __future__ import annotations

from dataclasses import fields

from ltrbench.native.objectives.swaps import parse_layout
from ltrbench.rankers.library import unset_fields
from ltrbench.rankers.native.fields import OF_METRICS, OF_PAIRS, NativeFields
from ltrbench.rankers.native.translation import truncates


def departures(own: NativeFields) -> tuple[str, ...]:
    """A sentence each, as `Ranker.unmatched` returns them."""
    sentences = {**_in_general(own), **_of_the_objective(own), **_of_trees(own), **_of_sampling(own)}
    return tuple(sentence for sentence, applies in sentences.items() if applies)


def _in_general(own: NativeFields) -> dict[str, bool]:
    """Sentence -> whether it applies."""
    unset = tuple(name for name in unset_fields(own) if name != "truncation" or truncates(own))
    return {
        f"Native takes LightGBM's defaults for {', '.join(unset)}.": bool(unset),
        f"Learning continues from the model in {own.warm_start}.": own.warm_start is not None,
        f"{own.preset}'s own settings stand in for the shared parameters, num_trees apart.": bool(own.preset),
    }


def _of_the_objective(own: NativeFields) -> dict[str, bool]:
    lambdas = _of_lambdas(own)
    is_another = own.objective != "lambdarank" or parse_layout(own.metric)[0] != "ndcg"
    return {
        f"{_trained_on(own)} is another objective than LambdaMART's of NDCG.": is_another,
        f"A pair weighs the true change of {own.metric}: nothing below its cutoff.": "@" in own.metric,
        f"Lambdas depart from native's defaults in {', '.join(lambdas)}.": bool(lambdas),
    }


def _of_trees(own: NativeFields) -> dict[str, bool]:
    return {
        "Bin edges are native's own quantiles, and missing values have a bin beside max_bins.": (
            own.binning == "quantile"
        ),
        "Features are cut at equal distances, with missing values beside max_bins.": (
            own.binning == "equal_width"
        ),
        "Cuts are chosen by least squares: for min_split_gain and min_sum_hessian, hessians are 1.": (
            own.split_criterion == "least_squares"
        ),
        "A leaf's value is a mean and no Newton step.": own.leaf_value == "mean",
        "Leaves are shrunk by l1, too.": own.l1 > 0,
        f"Scores are monotone in {', '.join(own.monotone)}.": bool(own.monotone),
        f"Trees are grown {own.growth.replace('_', ' ')}, and not best-first.": own.growth != "best_first",
    }


def _of_sampling(own: NativeFields) -> dict[str, bool]:
    sizes = own.queries_per_tree, own.documents_per_tree, own.features_per_tree, own.features_per_split
    return {
        "Queries, documents and features are sampled in native's own way.": sizes != (1, 1, 1, 1),
        "Documents are sampled by GOSS.": own.goss_top_rate is not None,
        "DART leaves trees out and weighs them anew.": own.drop_rate > 0,
        f"Position bias is corrected: {own.position_bias}.": own.position_bias is not None,
    }


def _trained_on(own: NativeFields) -> str:
    return f"lambdarank on {own.metric}" if own.objective == "lambdarank" else own.objective


def _of_lambdas(own: NativeFields) -> list[str]:
    neutral = {field.name: field.default for field in fields(own)}
    return [name for name in (*OF_METRICS, *OF_PAIRS) if getattr(own, name) != neutral[name]]
