"""Metrics under the preset of a library are the metrics that the library computes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import exp2, log2
from pathlib import Path

import ir_measures
import lightgbm as lgb
import numpy as np
import pytest
import pytrec_eval
import xgboost as xgb
from catboost.utils import eval_metric
from golden_files import golden_file
from ir_measures import AP, RR, P, R, nDCG
from messages import naming
from numpy.typing import NDArray
from sklearn.metrics import dcg_score, ndcg_score

from ltrbench.data import Judgments, RankingDataset, read_letor, read_score_file
from ltrbench.data.dataset import Unjudged
from ltrbench.errors import ConfigError, DataError, UndefinedMetricError
from ltrbench.metrics import PRESETS, evaluate, preset, with_settings
from ltrbench.metrics.conventions import TableGain
from ltrbench.shapes import PerQuery, Scores

CUTOFFS = (1, 2, 3, 5, 10, 100)
"""The last cutoff exceeds the longest query."""


def at_cutoffs(*metrics: str) -> list[str]:
    return [f"{metric}@{k}" for metric in metrics for k in CUTOFFS]


def judged_queries(
    seed: int = 0, *, highest: int = 4, smallest: int = 1, weighted: bool = False
) -> RankingDataset:
    """Returns 60 queries of up to 40 documents, labels from 0 to `highest`, repeated feature values.

    Every fifth query has no relevant document, and the one after it has only relevant ones.
    """
    rng = np.random.default_rng(seed)
    sizes = np.concatenate(
        [[smallest] * 6, rng.integers(smallest, 40, size=54, endpoint=True)]
    )
    num_documents, query = int(sizes.sum()), np.repeat(np.arange(60), sizes)
    labels = rng.integers(0, highest, size=num_documents, endpoint=True).astype(
        np.float64
    )
    labels[query % 5 == 0] = 0.0
    labels[query % 5 == 1] = np.maximum(labels[query % 5 == 1], 1.0)
    noise = rng.normal(scale=highest / 2, size=(num_documents, 3))
    return RankingDataset(
        features=np.round(labels[:, None] + noise),
        labels=labels,
        query_start=np.concatenate([[0], np.cumsum(sizes)]),
        document_ids=rng.permutation([f"d{number}" for number in range(num_documents)]),
        # Eighths, which float32 represents exactly.
        query_weights=rng.integers(1, 24, size=60) / 8 if weighted else None,
    )


def tied_scores(data: RankingDataset) -> Scores:
    """Returns (D,) scores from a feature with few values: most documents tie with another of their query."""
    return data.features[:, 0].astype(np.float64)


def rows_of_queries(data: RankingDataset) -> list[slice]:
    return [
        slice(a, b)
        for a, b in zip(data.query_start[:-1], data.query_start[1:], strict=True)
    ]


def row_weights(data: RankingDataset) -> NDArray[np.float64] | None:
    """Returns (D,), the weight of the query of each document, for libraries with one weight per row."""
    return (
        None
        if data.query_weights is None
        else data.query_weights[data.query_of_document]
    )


def mean(values: PerQuery, data: RankingDataset) -> float:
    return float(np.average(values, weights=data.query_weights))


# ---- LightGBM, at every iteration.


LIGHTGBM_PARAMETERS = {
    "objective": "lambdarank",
    "metric": ["ndcg", "map"],
    "eval_at": list(CUTOFFS),
    "num_leaves": 4,
    "min_data_in_bin": 1,
    "num_threads": 1,
    "verbosity": -1,
}


def as_lightgbm(
    data: RankingDataset,
    weights: NDArray[np.float64] | None = None,
    scores: Scores | None = None,
    reference: lgb.Dataset | None = None,
) -> lgb.Dataset:
    return lgb.Dataset(
        data.features,
        label=data.labels,
        group=data.query_sizes,
        weight=weights,
        init_score=scores,
        reference=reference,
    )


def by_lightgbm(
    booster: lgb.Booster, data: lgb.Dataset
) -> tuple[Scores, dict[str, float]]:
    """Returns the current scores of a data set, and LightGBM's values for them."""
    seen: list[Scores] = []

    def keep(scores: Scores, _: lgb.Dataset) -> tuple[str, float, bool]:
        seen.append(scores.copy())
        return "scores", 0.0, True

    values = {item[1]: item[2] for item in booster.eval(data, "valid", keep)}
    del values["scores"]
    return seen[0], values


@pytest.mark.parametrize("weighted", [False, True])
def test_lightgbms_values_at_every_iteration_are_ours_under_its_preset(
    weighted: bool,
) -> None:
    train, valid = (
        judged_queries(1, weighted=weighted),
        judged_queries(2, weighted=weighted),
    )
    train_set = as_lightgbm(train, row_weights(train))
    valid_set = as_lightgbm(valid, row_weights(valid), reference=train_set)
    booster = lgb.Booster(LIGHTGBM_PARAMETERS, train_set)
    booster.add_valid(valid_set, "valid")
    for _ in range(8):
        booster.update()
        scores, values = by_lightgbm(booster, valid_set)
        ours = evaluate(
            valid, scores, at_cutoffs("ndcg", "map"), preset("lightgbm")
        ).means
        assert ours == pytest.approx(values, rel=0, abs=1e-9)


def test_a_table_of_gains_is_lightgbms_label_gain() -> None:
    data, gains = judged_queries(4), (0.0, 1.0, 5.0, 6.0, 20.0)
    train_set = as_lightgbm(data, scores=tied_scores(data))
    booster = lgb.Booster(
        {**LIGHTGBM_PARAMETERS, "metric": "ndcg", "label_gain": list(gains)}, train_set
    )
    scores, values = by_lightgbm(booster, train_set)
    convention = replace(preset("lightgbm"), gain=TableGain(gains))
    ours = evaluate(data, scores, at_cutoffs("ndcg"), convention).means
    # LightGBM has one table of label gains per process: restore the default for the next booster.
    lgb.Booster(LIGHTGBM_PARAMETERS, as_lightgbm(data).construct())
    assert ours == pytest.approx(values, rel=0, abs=1e-9)


# ---- XGBoost, at every iteration.


XGBOOST_NAMES = {"ndcg": "ndcg", "map": "map", "precision": "pre"}


def as_xgboost(data: RankingDataset) -> xgb.DMatrix:
    matrix = xgb.DMatrix(data.features, label=data.labels)
    matrix.set_group(data.query_sizes)
    if data.query_weights is not None:
        matrix.set_weight(data.query_weights)
    return matrix


def name_in_xgboost(name: str, end: str) -> str:
    """`precision@5` -> `pre@5`, plus `end`; a minus gives empty queries the value 0."""
    metric, at, cutoff = name.partition("@")
    return XGBOOST_NAMES[metric] + at + cutoff + end


def by_xgboost(
    booster: xgb.Booster, data: xgb.DMatrix, iteration: int
) -> dict[str, float]:
    """Returns XGBoost's values, with all the digits of its text."""
    _, *texts = booster.eval(data, "valid", iteration).split("\t")
    pairs = (text.removeprefix("valid-").rsplit(":", 1) for text in texts)
    return {name: float(value) for name, value in pairs}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("convention", ["xgboost", "xgboost-"])
@pytest.mark.parametrize(
    ("highest", "metrics"), [(4, ["ndcg"]), (1, ["ndcg", "map", "precision"])]
)
def test_xgboosts_values_at_every_iteration_are_ours_under_its_preset(
    weighted: bool, convention: str, highest: int, metrics: list[str]
) -> None:
    train = judged_queries(1, highest=highest, weighted=weighted)
    valid = judged_queries(2, highest=highest, weighted=weighted)
    names = at_cutoffs(*metrics) + metrics
    theirs = {
        name: name_in_xgboost(name, convention.removeprefix("xgboost"))
        for name in names
    }
    train_set, valid_set = as_xgboost(train), as_xgboost(valid)
    parameters = {
        "objective": "rank:ndcg",
        "eval_metric": list(theirs.values()),
        "lambdarank_pair_method": "topk",
        "max_depth": 2,
        "nthread": 1,
    }
    booster = xgb.Booster(parameters, [train_set, valid_set])
    for iteration in range(8):
        booster.update(train_set, iteration)
        scores = booster.predict(valid_set, output_margin=True)
        values = by_xgboost(booster, valid_set, iteration)
        ours = evaluate(valid, scores, names, preset(convention)).means
        assert ours == pytest.approx(
            {name: values[theirs[name]] for name in names}, rel=0, abs=1e-6
        )


@pytest.mark.parametrize("name", ["map", "map@5", "precision@5"])
def test_xgboosts_binary_metrics_are_refused_on_graded_labels(name: str) -> None:
    data = judged_queries(highest=4)
    with pytest.raises(UndefinedMetricError, match=name.partition("@")[0]):
        evaluate(data, np.zeros(data.num_documents), [name], preset("xgboost"))


# ---- CatBoost.


CATBOOST_NAMES = {
    "ndcg": "NDCG",
    "dcg": "DCG",
    "map": "MAP",
    "mrr": "MRR",
    "precision": "PrecisionAt",
    "recall": "RecallAt",
    "err": "ERR",
    "auc": "QueryAUC",
}


def by_catboost(data: RankingDataset, name: str, *options: str) -> float:
    """Returns CatBoost's value of a metric; `ndcg@5` is `NDCG:top=5` there."""
    metric, _, cutoff = name.partition("@")
    settings = [f"top={cutoff}"] * bool(cutoff) + list(options)
    requested = CATBOOST_NAMES[metric] + ":" * bool(settings) + ";".join(settings)
    queries, weights = data.query_of_document, row_weights(data)
    (value,) = eval_metric(
        data.labels,
        tied_scores(data),
        requested,
        group_id=queries,
        group_weight=weights,
    )
    return float(value)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", ["ndcg", "dcg", "map", "mrr", "precision", "recall"])
def test_catboosts_values_on_graded_labels_are_ours_under_its_preset(
    metric: str, weighted: bool
) -> None:
    data = judged_queries(weighted=weighted)
    names = [*at_cutoffs(metric), metric]
    ours = evaluate(data, tied_scores(data), names, preset("catboost")).means
    # CatBoost keeps labels and weights in float32.
    assert ours == pytest.approx(
        {name: by_catboost(data, name) for name in names}, rel=1e-6
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_catboosts_values_on_binary_labels_are_ours_under_its_preset(
    weighted: bool,
) -> None:
    data = judged_queries(highest=1, weighted=weighted)
    names = [*at_cutoffs("err"), "err", "auc"]
    ours = evaluate(data, tied_scores(data), names, preset("catboost")).means
    assert ours == pytest.approx(
        {name: by_catboost(data, name) for name in names}, rel=1e-6
    )


# ---- scikit-learn.


PEERS = {"ndcg": ndcg_score, "dcg": dcg_score}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [*CUTOFFS, None])
@pytest.mark.parametrize("metric", ["ndcg", "dcg"])
def test_sklearns_values_are_ours_under_its_preset(
    metric: str, k: int | None, weighted: bool
) -> None:
    data = judged_queries(smallest=2, weighted=weighted)
    scores, name = tied_scores(data), metric if k is None else f"{metric}@{k}"
    per_query = np.array(
        [
            PEERS[metric]([data.labels[rows]], [scores[rows]], k=k)
            for rows in rows_of_queries(data)
        ]
    )
    ours = evaluate(data, scores, [name], preset("sklearn"))
    np.testing.assert_allclose(ours.per_query[name], per_query, rtol=0, atol=1e-9)
    assert ours.means[name] == pytest.approx(mean(per_query, data), rel=0, abs=1e-9)


def test_a_query_of_one_document_is_refused_as_sklearn_refuses_it() -> None:
    data = judged_queries(smallest=1)
    with pytest.raises(ValueError, match="more than 1 document"):
        ndcg_score([data.labels[:1]], [[0.0]])
    with pytest.raises(UndefinedMetricError, match=naming("sklearn", "fewer than 2")):
        evaluate(data, tied_scores(data), ["ndcg@5"], preset("sklearn"))


# ---- trec_eval.


TREC_NAMES = {
    "ndcg": "ndcg",
    "map": "map",
    "mrr": "recip_rank",
    **{f"ndcg@{k}": f"ndcg_cut_{k}" for k in CUTOFFS},
    **{f"map@{k}": f"map_cut_{k}" for k in CUTOFFS},
    **{f"precision@{k}": f"P_{k}" for k in CUTOFFS},
    **{f"recall@{k}": f"recall_{k}" for k in CUTOFFS},
}


def by_trec_eval(
    data: RankingDataset, scores: Scores, unjudged: Unjudged | None = None
) -> dict[str, PerQuery]:
    """Returns the values of trec_eval for every query; 0, as with -c, if the run does not answer it."""
    judgments, run = {}, {}
    assert data.document_ids is not None
    for query, rows in zip(data.query_ids.tolist(), rows_of_queries(data), strict=True):
        documents = data.document_ids[rows].tolist()
        judgments[query] = dict(
            zip(documents, data.labels[rows].astype(int).tolist(), strict=True)
        )
        retrieved = zip(documents, scores[rows].tolist(), strict=True)
        run[query] = {name: score for name, score in retrieved if not np.isnan(score)}
    if unjudged is not None:
        of_queries = data.query_ids[unjudged.queries].tolist()
        others = zip(unjudged.document_ids.tolist(), unjudged.scores, strict=True)
        for query, (name, score) in zip(of_queries, others, strict=True):
            run[query][name] = float(score)
    run = {query: documents for query, documents in run.items() if documents}
    cutoffs = ",".join(map(str, CUTOFFS))
    measures = {re.sub(r"_\d+$", f".{cutoffs}", name) for name in TREC_NAMES.values()}
    values = pytrec_eval.RelevanceEvaluator(judgments, measures).evaluate(run)
    return {
        name: np.array(
            [values.get(query, {}).get(theirs, 0.0) for query in data.query_ids]
        )
        for name, theirs in TREC_NAMES.items()
    }


@pytest.mark.parametrize("highest", [1, 4])
def test_trec_evals_values_are_ours_under_its_preset(highest: int) -> None:
    data = judged_queries(highest=highest)
    scores = tied_scores(data)
    ours = evaluate(data, scores, list(TREC_NAMES), preset("trec_eval"))
    for name, theirs in by_trec_eval(data, scores).items():
        np.testing.assert_allclose(
            ours.per_query[name], theirs, rtol=0, atol=1e-9, err_msg=name
        )
        assert ours.means[name] == pytest.approx(theirs.mean(), rel=0, abs=1e-9)


def test_scores_that_float32_cannot_tell_apart_are_tied_as_in_trec_eval() -> None:
    data = judged_queries()
    scores = tied_scores(data) + 1e-9 * np.arange(data.num_documents)
    ours = evaluate(data, scores, at_cutoffs("ndcg"), preset("trec_eval"))
    theirs = by_trec_eval(data, scores)
    for name, values in ours.per_query.items():
        np.testing.assert_allclose(
            values, theirs[name], rtol=0, atol=1e-9, err_msg=name
        )


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("highest", [1, 4])
def test_what_a_run_does_not_retrieve_earns_nothing_as_in_trec_eval(
    highest: int, share: float
) -> None:
    data = judged_queries(highest=highest)
    rng = np.random.default_rng(int(100 * share))
    scores = tied_scores(data)
    scores[rng.random(len(scores)) < 0.1] = -np.inf  # retrieved, with the lowest score
    scores[rng.random(len(scores)) < share] = np.nan
    scores[data.query_of_document % 7 == 0] = np.nan
    is_answered = np.logical_or.reduceat(~np.isnan(scores), data.query_start[:-1])
    names = list(TREC_NAMES)
    ours = evaluate(data, scores, names, preset("trec_eval"))
    skipping = with_settings(preset("trec_eval"), {"unanswered": "skip"})
    answered = evaluate(data, scores, names, skipping)
    for name, theirs in by_trec_eval(data, scores).items():
        np.testing.assert_allclose(
            ours.per_query[name], theirs, rtol=0, atol=1e-9, err_msg=name
        )
        assert ours.means[name] == pytest.approx(theirs.mean(), rel=0, abs=1e-9)
        mean = theirs[is_answered].mean()
        assert answered.means[name] == pytest.approx(mean, rel=0, abs=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("highest", [1, 4])
def test_retrieved_documents_without_a_judgment_have_ranks_as_in_trec_eval(
    highest: int, share: float, tmp_path: Path
) -> None:
    data = judged_queries(highest=highest)
    assert data.document_ids is not None
    rng = np.random.default_rng(int(100 * share))
    scores = tied_scores(data)
    scores[rng.random(len(scores)) < share] = np.nan
    scores[data.query_of_document % 7 == 0] = np.nan  # only unjudged ones, or none
    queries = np.sort(rng.integers(0, data.num_queries, 200))
    drawn = rng.choice(scores[~np.isnan(scores)], 200)  # many ties
    names = np.array([f"{rng.choice(['a', 'z'])}{number}" for number in range(200)])
    given = Unjudged(queries, names, drawn)
    judged = zip(data.query_of_document, data.document_ids, scores, strict=True)
    others = zip(queries, names, drawn, strict=True)
    lines = [
        f"{data.query_ids[query]} Q0 {name} 1 {float(score)!r} x\n"
        for query, name, score in (*judged, *others)
        if not np.isnan(score)
    ]
    path = tmp_path / "some.run"
    path.write_text("".join(lines))
    matched = read_score_file(path).match(data, None, "test")
    assert matched.unjudged is not None
    ranked, all_scores = matched.unjudged.added_to(data, matched.scores)
    ours = evaluate(ranked, all_scores, list(TREC_NAMES), preset("trec_eval"))
    for name, theirs in by_trec_eval(data, scores, given).items():
        np.testing.assert_allclose(
            ours.per_query[name], theirs, rtol=0, atol=1e-9, err_msg=name
        )


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_documents_without_a_score_are_refused_where_the_convention_has_none(
    name: str,
) -> None:
    data, convention = judged_queries(highest=1, smallest=2), preset(name)
    metrics = ["ndcg@5"] if convention.metrics is None else [*convention.metrics]
    scores = tied_scores(data)
    scores[-1] = np.nan
    if convention.unanswered is None:
        with pytest.raises(ConfigError, match=naming("unanswered", name, "trec_eval")):
            with_settings(convention, {"unanswered": "0"})
    else:
        scores[:] = np.nan  # of a model that diverged
    place = f"scores[{int(np.isnan(scores).argmax())}]"
    with pytest.raises(DataError, match=naming(place, "query", "trec_eval")):
        evaluate(data, scores, metrics, convention)


def test_trec_evals_preset_needs_document_ids() -> None:
    nameless = replace(judged_queries(), document_ids=None)
    with pytest.raises(
        UndefinedMetricError, match=naming("document ids", "# docid = ID")
    ):
        evaluate(nameless, tied_scores(nameless), ["ndcg@10"], preset("trec_eval"))


# ---- ir-measures, which computes trec_eval's measures with other gains and thresholds.


HIGHEST = 4
EXPONENTIAL = {grade: 2**grade - 1 for grade in range(HIGHEST + 1)}


def by_ir_measures(
    data: RankingDataset, scores: Scores, measure: ir_measures.measures.Measure
) -> PerQuery:
    """Returns (Q,) values of ir-measures."""
    assert data.document_ids is not None
    documents = list(
        zip(data.query_ids[data.query_of_document], data.document_ids, strict=True)
    )
    qrels = [
        ir_measures.Qrel(query, document, int(label))
        for (query, document), label in zip(documents, data.labels, strict=True)
    ]
    run = [
        ir_measures.ScoredDoc(query, document, float(score))
        for (query, document), score in zip(documents, scores, strict=True)
    ]
    by_query = {
        item.query_id: item.value
        for item in ir_measures.iter_calc([measure], qrels, run)
    }
    return np.array([by_query.get(query, np.nan) for query in data.query_ids])


@pytest.mark.parametrize(
    ("name", "settings", "measure"),
    [
        ("ndcg@10", {}, nDCG @ 10),
        ("ndcg@5", {"gain": "exponential"}, nDCG(gains=EXPONENTIAL) @ 5),
        ("ndcg", {"gain": "[0,0,1,5,9]"}, nDCG(gains={0: 0, 1: 0, 2: 1, 3: 5, 4: 9})),
        ("map", {"relevance_threshold": "2"}, AP(rel=2)),
        ("map@5", {"relevance_threshold": "3"}, AP(rel=3) @ 5),
        ("precision@10", {"relevance_threshold": "2"}, P(rel=2) @ 10),
        ("recall@5", {"relevance_threshold": "2"}, R(rel=2) @ 5),
        ("mrr", {"relevance_threshold": "3"}, RR(rel=3)),
    ],
    ids=str,
)
def test_gains_and_thresholds_vary_as_in_ir_measures(
    name: str, settings: dict[str, str], measure: ir_measures.measures.Measure
) -> None:
    data = judged_queries(highest=HIGHEST)
    scores = tied_scores(data)
    ours = evaluate(data, scores, [name], with_settings(preset("trec_eval"), settings))
    np.testing.assert_allclose(
        ours.per_query[name], by_ir_measures(data, scores, measure), rtol=0, atol=1e-9
    )


# ---- A plain implementation of LETOR 4.0's evaluation script.


def ranked_labels(data: RankingDataset, scores: Scores) -> list[list[float]]:
    """Returns the labels of each query by descending score; tied documents in row order."""
    by_query = (
        (data.labels[rows].tolist(), scores[rows].tolist())
        for rows in rows_of_queries(data)
    )
    return [
        [
            labels[row]
            for row in sorted(range(len(labels)), key=lambda row: -scores[row])
        ]
        for labels, scores in by_query
    ]


def letor_dcg(ranked: Sequence[float], k: int) -> float:
    """Returns DCG: positions from 1; the first two have weight 1, position p > 2 has weight 1 / log2(p)."""
    gains = (exp2(label) - 1.0 for label in ranked[:k])
    return sum(
        gain / (1.0 if position <= 2 else log2(position))
        for position, gain in enumerate(gains, 1)
    )


def letor_ndcg(ranked: Sequence[float], k: int) -> float:
    ideal = letor_dcg(sorted(ranked, reverse=True), k)
    return letor_dcg(ranked, k) / ideal if len(ranked) >= k and ideal > 0 else 0.0


def letor_mean_ndcg(ranked: Sequence[float]) -> float:
    return sum(letor_ndcg(ranked, k) for k in range(1, len(ranked) + 1)) / len(ranked)


def letor_precision(ranked: Sequence[float], k: int) -> float:
    return sum(label >= 1 for label in ranked[:k]) / k


def letor_average_precision(ranked: Sequence[float]) -> float:
    found = [position for position, label in enumerate(ranked, 1) if label >= 1]
    return sum(nth / position for nth, position in enumerate(found, 1)) / max(
        len(found), 1
    )


def script_says(data: RankingDataset, scores: Scores) -> dict[str, float]:
    ranked = ranked_labels(data, scores)

    def mean(metric: Callable[..., float], *cutoff: int) -> float:
        return sum(metric(labels, *cutoff) for labels in ranked) / len(ranked)

    return {
        **{f"ndcg@{k}": mean(letor_ndcg, k) for k in CUTOFFS},
        **{f"precision@{k}": mean(letor_precision, k) for k in CUTOFFS},
        "mean_ndcg": mean(letor_mean_ndcg),
        "map": mean(letor_average_precision),
    }


@pytest.mark.parametrize("highest", [1, 2, 4])
def test_the_preset_follows_the_scripts_rules(highest: int) -> None:
    data = judged_queries(highest=highest)
    expected = script_says(data, tied_scores(data))
    ours = evaluate(data, tied_scores(data), list(expected), preset("letor4")).means
    assert ours == pytest.approx(expected, rel=0, abs=1e-12)


# ---- Small cases in which the conventions differ; the values are from the libraries.


SECOND = 1 / log2(3)
"""Discount of the second document."""


def queries(*labels: list[float], weights: list[float] | None = None) -> RankingDataset:
    """Returns a data set with one query per list."""
    flat = np.concatenate(labels)
    return RankingDataset(
        features=np.zeros((len(flat), 1), dtype=np.float32),
        labels=flat,
        query_start=np.cumsum([0] + [len(of_query) for of_query in labels]),
        document_ids=np.array([f"d{number}" for number in range(len(flat))]),
        query_weights=None if weights is None else np.array(weights),
    )


def value_under(
    convention: str, data: RankingDataset, scores: list[float], name: str
) -> float:
    return evaluate(data, np.array(scores), [name], preset(convention)).means[name]


# The other conventions are compared with their library itself, above.
KNOWN_CASES: list[tuple[str, str, list[list[float]], list[float], float]] = [
    (
        "ranklib",
        "ndcg@2",
        [[3, 0, 1, 2]],
        [0.1, 0.2, 0.9, 0.3],
        (1 + 3 * SECOND) / (7 + 3 * SECOND),
    ),
    (
        "pyltr",
        "ndcg@2",
        [[3, 0, 1, 2]],
        [0.1, 0.2, 0.9, 0.3],
        (1 + 3 * SECOND) / (7 + 3 * SECOND),
    ),
    # Ties: the relevant document last, and first.
    ("ranklib", "ndcg@1", [[0, 1]], [0, 0], 0),
    ("ranklib", "ndcg@1", [[1, 0]], [0, 0], 1),
    ("pyltr", "ndcg@1", [[0, 1]], [0, 0], 0),
    ("pyltr", "ndcg@1", [[1, 0]], [0, 0], 0),
    # A query without a relevant document.
    ("ranklib", "ndcg@2", [[0, 1], [0, 0]], [2, 1, 2, 1], SECOND / 2),
    ("pyltr", "ndcg@2", [[0, 1], [0, 0]], [2, 1, 2, 1], SECOND / 2),
    # The divisor of average precision at k, and of precision in a query shorter than k.
    ("ranklib", "map@2", [[1, 1, 1]], [3, 2, 1], 1),
    ("pyltr", "map@2", [[1, 1, 1]], [3, 2, 1], 2 / 3),
    ("ranklib", "precision@4", [[1, 1]], [2, 1], 1),
    # The probability that a label satisfies.
    ("ranklib", "err", [[1, 0]], [2, 1], 1 / 2**4),
    ("pyltr", "err", [[1, 0]], [2, 1], 1 / 2**4),
    ("letor4", "ndcg@3", [[1, 0]], [2, 1], 0),
    ("ranklib", "ndcg@3", [[1, 0]], [2, 1], 1),
]


@pytest.mark.parametrize(
    ("convention", "name", "labels", "scores", "expected"), KNOWN_CASES
)
def test_a_known_case_has_the_value_of_its_convention(
    convention: str,
    name: str,
    labels: list[list[float]],
    scores: list[float],
    expected: float,
) -> None:
    assert value_under(convention, queries(*labels), scores, name) == pytest.approx(
        expected
    )


def test_ranklib_gives_all_queries_the_same_weight() -> None:
    data = queries([0, 1], [0, 0], weights=[3.0, 5.0])
    assert value_under("ranklib", data, [2, 1, 2, 1], "ndcg@2") == pytest.approx(
        SECOND / 2
    )


@pytest.mark.parametrize(("convention", "highest"), [("lightgbm", 30), ("xgboost", 31)])
def test_a_label_that_the_library_has_no_gain_for_is_refused(
    convention: str, highest: int
) -> None:
    assert value_under(convention, queries([highest, 0]), [2, 1], "ndcg@1") == 1
    with pytest.raises(UndefinedMetricError, match=str(highest)):
        value_under(convention, queries([highest + 1, 0]), [2, 1], "ndcg@1")


def test_ranklibs_reciprocal_rank_is_rounded_to_float32() -> None:
    data = Judgments(labels=np.array([0.0, 0, 1]), query_start=np.array([0, 3]))
    assert evaluate(data, np.array([3.0, 2, 1]), ["mrr"], preset("ranklib")).means[
        "mrr"
    ] == np.float32(1 / 3)


# ---- Golden outputs of RankLib and pyltr, which cannot be installed together with ltrbench.


PYLTR_NAMES = {"ndcg@10": "ndcg10", "ndcg@3": "ndcg3", "err@10": "err10", "map": "ap"}


@pytest.mark.parametrize("name", PYLTR_NAMES)
def test_pyltrs_values_of_real_queries_are_ours_under_its_preset(name: str) -> None:
    queries = json.loads(golden_file("pyltr_lambdas.json").read_text())
    labels = np.concatenate([query["labels"] for query in queries])
    data = RankingDataset(
        features=np.zeros((len(labels), 1), dtype=np.float32),
        labels=labels,
        query_start=np.cumsum([0] + [len(query["labels"]) for query in queries]),
    )
    convention = replace(preset("pyltr"), highest_grade=2.0)
    scores = np.concatenate([query["scores"] for query in queries])
    ours = evaluate(data, scores, [name], convention).per_query[name]
    theirs = [query[PYLTR_NAMES[name]]["value"] for query in queries]
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)


def test_ranklibs_ndcg_of_its_own_model_on_mq2008_is_ours_under_its_preset(
    letor_data: Callable[[str], Path],
) -> None:
    scores = np.loadtxt(golden_file("ranklib_MQ2008_Fold1_test_scores.txt"), ndmin=2)[
        :, -1
    ]
    data = read_letor(letor_data("MQ2008") / "Fold1" / "test.txt")
    ours = evaluate(data, scores, ["ndcg@10"], preset("ranklib")).means["ndcg@10"]
    # RankLib prints four decimals.
    assert round(ours, 4) == 0.4891
