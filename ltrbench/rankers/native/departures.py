"""Differences of a NativeRanker from the shared parameters, and therefore from the other backends."""

from __future__ import annotations

from ltrbench.native.objectives.swaps import parse_layout
from ltrbench.rankers.library import unset_fields
from ltrbench.rankers.native.settings import NativeSettings, changed_lambdas, sizes_of_samples, truncates


def departures(ranker: NativeSettings) -> tuple[str, ...]:
    """Returns the sentences of the findings with severity `UNMATCHED`."""
    sentences = {
        **_in_general(ranker),
        **_of_the_objective(ranker),
        **_of_trees(ranker),
        **_of_sampling(ranker),
    }
    return tuple(sentence for sentence, applies in sentences.items() if applies)


def _in_general(ranker: NativeSettings) -> dict[str, bool]:
    """Returns sentence -> whether it applies."""
    unset = tuple(name for name in unset_fields(ranker) if name != "truncation" or truncates(ranker))
    return {
        f"LightGBM's defaults are used for {', '.join(unset)}.": bool(unset),
        f"Training continues from the saved model in {ranker.warm_start}.": ranker.warm_start is not None,
        f"{ranker.preset}'s settings are used instead of the shared parameters, except num_trees.": (
            bool(ranker.preset)
        ),
    }


def _of_the_objective(ranker: NativeSettings) -> dict[str, bool]:
    lambdas = changed_lambdas(ranker)
    is_another = ranker.objective != "lambdarank" or parse_layout(ranker.metric)[0] != "ndcg"
    return {
        f"The objective is {_trained_on(ranker)}, not LambdaMART on NDCG.": is_another,
        f"The weight of a pair is its exact change of {ranker.metric}, so a pair with both documents below "
        "the cutoff has weight 0.": "@" in ranker.metric,
        f"These settings of the lambdas differ from native's defaults: {', '.join(lambdas)}.": bool(lambdas),
    }


def _of_trees(ranker: NativeSettings) -> dict[str, bool]:
    return {
        "Bin edges differ from other backends: native bins features by its own quantiles, and max_bins does "
        "not count the bin of missing values.": ranker.binning == "quantile",
        "Bin edges differ from other backends: native uses bins of equal width, and max_bins does not count "
        "the bin of missing values.": ranker.binning == "equal_width",
        "Splits are chosen by least squares: min_split_gain and min_sum_hessian apply with every hessian "
        "equal to 1.": ranker.split_criterion == "least_squares",
        "The value of a leaf is the mean of its negative gradients, not a Newton step.": (
            ranker.leaf_value == "mean"
        ),
        f"Leaf values have L1 regularisation (l1={ranker.l1:g}).": ranker.l1 > 0,
        f"Scores are constrained to be monotone in {', '.join(ranker.monotone)}.": bool(ranker.monotone),
        f"Trees are grown {ranker.growth.replace('_', ' ')}, not best-first.": ranker.growth != "best_first",
    }


def _of_sampling(ranker: NativeSettings) -> dict[str, bool]:
    sizes = sizes_of_samples(ranker)
    return {
        "Samples differ from other backends: native samples queries, documents and features by its own "
        "algorithm.": sizes != (1, 1, 1, 1),
        "Documents are sampled by the size of their gradients (GOSS).": ranker.goss_top_rate is not None,
        "Trees are dropped at random and rescaled during training (DART).": ranker.drop_rate > 0,
        f"Position bias is corrected (position_bias={ranker.position_bias}).": (
            ranker.position_bias is not None
        ),
    }


def _trained_on(ranker: NativeSettings) -> str:
    return f"lambdarank on {ranker.metric}" if ranker.objective == "lambdarank" else ranker.objective
