"""In what a NativeRanker departs from what the shared parameters say, and so from the other backends."""

from __future__ import annotations

from ltrbench.native.objectives.swaps import parse_layout
from ltrbench.rankers.library import unset_fields
from ltrbench.rankers.native.settings import NativeSettings, changed_lambdas, sizes_of_samples, truncates


def departures(ranker: NativeSettings) -> tuple[str, ...]:
    """Returns the sentences of the findings that are unmatched."""
    sentences = {
        **_in_general(ranker),
        **_of_the_objective(ranker),
        **_of_trees(ranker),
        **_of_sampling(ranker),
    }
    return tuple(sentence for sentence, applies in sentences.items() if applies)


def _in_general(ranker: NativeSettings) -> dict[str, bool]:
    """Sentence -> whether it applies."""
    unset = tuple(name for name in unset_fields(ranker) if name != "truncation" or truncates(ranker))
    return {
        f"Native takes LightGBM's defaults for {', '.join(unset)}.": bool(unset),
        f"Learning continues from the model in {ranker.warm_start}.": ranker.warm_start is not None,
        f"{ranker.preset}'s own settings stand in for the shared parameters, num_trees apart.": (
            bool(ranker.preset)
        ),
    }


def _of_the_objective(ranker: NativeSettings) -> dict[str, bool]:
    lambdas = changed_lambdas(ranker)
    is_another = ranker.objective != "lambdarank" or parse_layout(ranker.metric)[0] != "ndcg"
    return {
        f"{_trained_on(ranker)} is another objective than LambdaMART's of NDCG.": is_another,
        f"A pair weighs the true change of {ranker.metric}: nothing below its cutoff.": "@" in ranker.metric,
        f"Lambdas depart from native's defaults in {', '.join(lambdas)}.": bool(lambdas),
    }


def _of_trees(ranker: NativeSettings) -> dict[str, bool]:
    return {
        "Bin edges are native's own quantiles, and missing values have a bin beside max_bins.": (
            ranker.binning == "quantile"
        ),
        "Features are cut at equal distances, with missing values beside max_bins.": (
            ranker.binning == "equal_width"
        ),
        "Cuts are chosen by least squares: for min_split_gain and min_sum_hessian, hessians are 1.": (
            ranker.split_criterion == "least_squares"
        ),
        "A leaf's value is a mean and no Newton step.": ranker.leaf_value == "mean",
        "Leaves are shrunk by l1, too.": ranker.l1 > 0,
        f"Scores are monotone in {', '.join(ranker.monotone)}.": bool(ranker.monotone),
        f"Trees are grown {ranker.growth.replace('_', ' ')}, and not best-first.": (
            ranker.growth != "best_first"
        ),
    }


def _of_sampling(ranker: NativeSettings) -> dict[str, bool]:
    sizes = sizes_of_samples(ranker)
    return {
        "Queries, documents and features are sampled in native's own way.": sizes != (1, 1, 1, 1),
        "Documents are sampled by GOSS.": ranker.goss_top_rate is not None,
        "DART leaves trees out and weighs them anew.": ranker.drop_rate > 0,
        f"Position bias is corrected: {ranker.position_bias}.": ranker.position_bias is not None,
    }


def _trained_on(ranker: NativeSettings) -> str:
    return f"lambdarank on {ranker.metric}" if ranker.objective == "lambdarank" else ranker.objective
