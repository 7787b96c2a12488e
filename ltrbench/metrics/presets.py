"""Presets: the conventions of libraries and evaluation scripts.

Under the preset of a library, scores give the value that the library itself reports. A preset lists the
metrics that its library defines; no other metric is computed under it. To add a preset, write its
`Convention` here, from the library's source, and a test in tests/metrics that compares it with the library.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ltrbench.errors import ConfigError, did_you_mean
from ltrbench.metrics.convention import (
    DEFAULT,
    Aggregation,
    Convention,
    Denominator,
    NoRelevant,
    Ties,
    letor_discount,
    linear_gain,
)

ABOVE_HALF = math.nextafter(0.5, math.inf)
"""Relevance threshold of libraries in which a document is relevant if its label exceeds 0.5."""

# LightGBM 4.7: src/metric/rank_metric.hpp, map_metric.hpp and dcg_calculator.cpp.
LIGHTGBM = Convention(
    name="lightgbm",
    ties=Ties.ROW_ORDER,
    no_relevant=NoRelevant.ONE,
    relevance_threshold=ABOVE_HALF,
    metrics=frozenset({"ndcg", "map"}),
    by_metric={
        "ndcg": {
            "aggregation": Aggregation.UNWEIGHTED_EMPTY,
            "largest_label": 30.0,
            "most_documents": 10_000,
        }
    },
    quirks=(
        "A query without a relevant document has the value 1, so the mean rises with their share.",
        "In the weighted NDCG such a query adds 1 to the sum, regardless of its weight, and its weight to "
        "the divisor.",
        "Tied documents keep their row order, so rows sorted by descending label increase the value.",
        "The weight of a query is the mean of the weights of its rows, summed in float32.",
        "A query with more than 10,000 documents is an error in NDCG.",
    ),
)

# XGBoost 3.2: src/metric/rank_metric.cc. Its auc is left out, because within a query it also counts pairs of
# documents with equal labels.
XGBOOST = Convention(
    name="xgboost",
    ties=Ties.ROW_ORDER,
    no_relevant=NoRelevant.ONE,
    default_cutoff=32,
    precision_denominator=Denominator.K_UP_TO_SIZE,
    score_dtype="float32",
    metrics=frozenset({"ndcg", "map", "precision"}),
    binary_metrics=frozenset({"map", "precision"}),
    by_metric={
        "ndcg": {
            "aggregation": Aggregation.UNWEIGHTED_EMPTY,
            "largest_label": 31.0,
            "largest_mean": 1.0,
        },
        "precision": {"no_relevant": NoRelevant.ZERO},
    },
    quirks=(
        "A query without a relevant document has the value 1 in NDCG and AP, 0 in precision.",
        "In the weighted NDCG such a query adds 1 to the sum, regardless of its weight, and its weight to "
        "the divisor; a resulting mean above 1 is an error.",
        "Tied documents keep their row order, so rows sorted by descending label increase the value.",
        "A name without a cutoff has the cutoff 32: ndcg is ndcg@32.",
        "Scores are rounded to float32; scores that become equal are tied.",
    ),
)

XGBOOST_MINUS = replace(
    XGBOOST,
    name="xgboost-",
    no_relevant=NoRelevant.ZERO,
    by_metric={"ndcg": {"largest_label": 31.0}},
    quirks=(
        "XGBoost uses this convention for a name with a trailing minus, such as ndcg@10-.",
        "A query without a relevant document has the value 0.",
        *XGBOOST.quirks[2:],
    ),
)

# CatBoost 1.2: catboost/libs/metrics/metric.cpp, dcg.cpp and precision_recall_at_k.cpp.
_CATBOOST_UNWEIGHTED = {"aggregation": Aggregation.UNWEIGHTED}
CATBOOST = Convention(
    name="catboost",
    gain=linear_gain,
    ties=Ties.WORST,
    no_relevant=NoRelevant.ZERO,
    relevance_threshold=ABOVE_HALF,
    precision_denominator=Denominator.K_UP_TO_SIZE,
    highest_grade=0.0,  # a document with label 1 satisfies with probability 1
    metrics=frozenset({"ndcg", "dcg", "map", "mrr", "precision", "recall", "err", "auc"}),
    binary_metrics=frozenset({"err", "auc"}),
    by_metric={
        "ndcg": {"no_relevant": NoRelevant.ONE},
        "map": _CATBOOST_UNWEIGHTED,
        "precision": _CATBOOST_UNWEIGHTED,
        "recall": {**_CATBOOST_UNWEIGHTED, "no_relevant": NoRelevant.ONE},
        "auc": {**_CATBOOST_UNWEIGHTED, "ties": Ties.EXPECTED},
    },
    quirks=(
        "A query without a relevant document has the value 1 in NDCG and recall, 0 in the other metrics.",
        "Query weights are used in NDCG, DCG, MRR and ERR only.",
        "ERR uses the label as the probability that the document satisfies the user.",
        "AUC counts a tied pair as 1/2; the other metrics rank the lower label first.",
        "A query whose documents are all relevant has the value 0 in AUC.",
        "The gain is the label; with NDCG:type=Exp, which is not the default, it is 2^label - 1.",
    ),
)

# scikit-learn 1.9: sklearn/metrics/_ranking.py, dcg_score and ndcg_score.
SKLEARN = Convention(
    name="sklearn",
    gain=linear_gain,
    ties=Ties.EXPECTED,
    no_relevant=NoRelevant.ZERO,
    fewest_documents=2,
    metrics=frozenset({"ndcg", "dcg"}),
    quirks=(
        "The gain is the label, not 2^label - 1.",
        "A query without a relevant document has the value 0, so the mean falls with their share.",
        "A query with one document is an error.",
    ),
)

# RankLib 2.x: ciir.umass.edu.metric, NDCGScorer, APScorer, PrecisionScorer, ReciprocalRankScorer, ERRScorer.
RANKLIB = Convention(
    name="ranklib",
    ties=Ties.ROW_ORDER,
    no_relevant=NoRelevant.ZERO,
    average_precision_denominator=Denominator.RELEVANT,
    average_precision_cutoff=False,
    precision_denominator=Denominator.K_UP_TO_SIZE,
    aggregation=Aggregation.UNWEIGHTED,
    metrics=frozenset({"ndcg", "dcg", "map", "precision", "mrr", "err"}),
    by_metric={"mrr": {"value_dtype": "float32"}},
    quirks=(
        "A query without a relevant document has the value 0, so the mean falls with their share.",
        "AP ignores its cutoff: map@k is map.",
        "Tied documents keep their row order, so rows sorted by descending label increase the value.",
        "The highest grade of ERR is 4 for any labels, unless -gmax sets it.",
        "The reciprocal rank is rounded to float32.",
    ),
)

# pyltr 0.2.6: pyltr/metrics/dcg.py, err.py, ap.py and roc.py. Its Kendall's tau is left out: it is not tau-b.
PYLTR = Convention(
    name="pyltr",
    ties=Ties.WORST,
    no_relevant=NoRelevant.ZERO,
    relevance_threshold=0.5,
    average_precision_denominator=Denominator.RELEVANT,
    aggregation=Aggregation.UNWEIGHTED,
    metrics=frozenset({"ndcg", "dcg", "map", "err", "auc"}),
    quirks=(
        "Tied documents are ranked with the lowest label first, so ties never increase the value.",
        "A query without a relevant document has the value 0, so the mean falls with their share.",
        "The default cutoff of pyltr is k = 10; here a name without a cutoff has none.",
    ),
)

# The evaluation script of LETOR 4.0 (Qin and Liu, 2013, "Introducing LETOR 4.0 Datasets").
LETOR4 = Convention(
    name="letor4",
    discount=letor_discount,
    ties=Ties.ROW_ORDER,
    no_relevant=NoRelevant.ZERO,
    zero_if_shorter_than_k=True,
    average_precision_denominator=Denominator.RELEVANT,
    average_precision_cutoff=False,
    aggregation=Aggregation.UNWEIGHTED,
    metrics=frozenset({"ndcg", "mean_ndcg", "map", "precision"}),
    quirks=(
        "The second document is not discounted: D = 1, 1, 1/log2(3), 1/log2(4), ...",
        "A query with fewer than k documents has the value 0 in NDCG@k.",
        "A query without a relevant document has the value 0, so the mean falls with their share.",
        "Average precision has no cutoff: map@k is map.",
    ),
)

# trec_eval 9: m_ndcg_cut.c, m_map_cut.c, m_P.c, m_recall.c, m_recip_rank.c; form_res_rels.c orders the ties.
TREC_EVAL = Convention(
    name="trec_eval",
    gain=linear_gain,
    ties=Ties.DOCUMENT_ID,
    no_relevant=NoRelevant.ZERO,
    average_precision_denominator=Denominator.RELEVANT,
    aggregation=Aggregation.UNWEIGHTED,
    score_dtype="float32",
    metrics=frozenset({"ndcg", "map", "precision", "recall", "mrr"}),
    uncut_metrics=frozenset({"mrr"}),
    quirks=(
        "Tied documents are ranked by descending document id, regardless of the order of their rows.",
        "Scores are rounded to float32; scores that become equal are tied.",
        "The gain is the label, not 2^label - 1.",
        "AP@k divides by the number of all relevant documents; with more than k of them it cannot reach 1.",
        "A query without a relevant document has the value 0, so the mean falls with their share.",
    ),
)

PRESETS: dict[str, Convention] = {
    convention.name: convention
    for convention in (
        DEFAULT,
        LIGHTGBM,
        XGBOOST,
        XGBOOST_MINUS,
        CATBOOST,
        SKLEARN,
        RANKLIB,
        PYLTR,
        LETOR4,
        TREC_EVAL,
    )
}


def preset(name: str) -> Convention:
    """Returns the convention with this name.

    Raises:
        ConfigError: If there is no such convention.

    >>> preset("letor4").quirks[1]
    'A query with fewer than k documents has the value 0 in NDCG@k.'
    """
    if name not in PRESETS:
        raise ConfigError(
            f"unknown convention '{name}'{did_you_mean(name, PRESETS)} Conventions: {', '.join(PRESETS)}."
        )
    return PRESETS[name]
