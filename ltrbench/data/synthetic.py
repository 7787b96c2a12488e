"""Default data set: synthetic web-search data from a seed, so that a comparison needs no download.

Latent variables of a query and its documents:

    size        number of documents: lognormal, median 65 if not set, clipped to 5..500
    intent      n navigational (one known site), r recency (fresh pages); in [0, 1]
    level       b, general level of relevance; a few queries have no relevant documents
    document    t topical match, a authority, f freshness, standard normal; s spam, 1 for one page in eight

    relevance = (1 - n) (1.2 t - 0.5 max(t - 1, 0)^2) + n (0.5 t + 1.2 a clip(t + 1, 0, 1.5))
                + 1.2 r f - 1.6 s + b + e

Topical match saturates, authority matters only for navigational queries and on-topic pages, freshness matters
only for recency queries, and e is judgment noise that no feature explains. Grades are quantiles of the
relevance of all documents, with the shares of MSLR-WEB30K.

Backends do not receive the latent variables. They receive 40 features, most of which are a noisy, nonlinear
or partial function of one or two latent variables: text-match scores have a scale and an offset that depend
on the query, link counts are heavy-tailed, clicks and anchor texts are mostly absent, some features are
redundant, four are constant within a query, and four are noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ltrbench.data.dataset import RankingDataset
from ltrbench.data.sources import SplitSource
from ltrbench.data.splits import Splits
from ltrbench.errors import require
from ltrbench.shapes import Values

Columns = dict[str, NDArray[Any]]  # feature name -> (D,) values

GRADE_SHARES = (0.515, 0.325, 0.133, 0.019, 0.008)  # grades 0 to 4 in MSLR-WEB30K
SIZE_SPREAD = 0.75  # lognormal: the mean is 1.3 times the median, 85 by default; MSLR-WEB30K has 120
SMALLEST_QUERY = 5
LARGEST_QUERY = 500
# Relevance has a spread of about 2: boosting improves for some 50 to 200 trees.
JUDGMENT_NOISE = 1.0
FEATURE_DECIMALS = 4  # as in data files; further decimals may differ between processors, as exp and log do


@dataclass(kw_only=True)
class Synthetic(SplitSource):
    """Synthetic data; see the module docstring.

    Args:
        num_queries: number of queries before the split.
        median_documents: median number of documents of a query.
        seed: random seed; the same seed gives the same data.
    """

    num_queries: int = 500
    median_documents: int = 65
    seed: int = 0
    valid_share: float = 0.25

    def load(self) -> Splits:
        """Generates the data and splits it by query.

        Raises:
            DataError: `num_queries` is too small for a split, or a share is not between 0 and 1.
        """
        return self.complete(
            make_synthetic(self.num_queries, self.seed, self.median_documents)
        )


def make_synthetic(
    num_queries: int = 500, seed: int = 0, median_documents: int = 65
) -> RankingDataset:
    """Returns synthetic web-search data; the same seed gives the same data.

    Returns:
        About 1.3 * median_documents * num_queries documents with 40 named features and grades 0 to 4.

    Raises:
        ConfigError: `num_queries`, `seed` or `median_documents` is out of range.

    >>> data = make_synthetic(num_queries=20, seed=1)
    >>> data.num_queries, data.num_features, data.feature_names[:3]
    (20, 40, ('bm25_body', 'bm25_title', 'bm25_anchor'))
    >>> make_synthetic(num_queries=20, seed=1).fingerprint == data.fingerprint
    True
    """
    require("data.num_queries", num_queries, at_least=1)
    require("data.seed", seed, at_least=0)
    require("data.median_documents", median_documents, at_least=1)
    rng = np.random.default_rng(seed)
    log_sizes = rng.normal(np.log(median_documents), SIZE_SPREAD, num_queries)
    sizes = np.exp(log_sizes).astype(np.int64)
    whole_sizes = np.clip(sizes, SMALLEST_QUERY, LARGEST_QUERY)
    num_documents = int(whole_sizes.sum())
    query = _draw_queries(rng, whole_sizes)
    document = _draw_documents(rng, num_documents)
    labels = _grade(_relevance(rng, query, document))
    columns = _bm25_features(rng, query, document)
    columns |= _similarity_features(rng, query, document, columns["bm25_body"])
    columns |= _count_features(rng, query, document)
    columns |= _link_features(rng, document)
    columns |= _spam_features(rng, document)
    columns |= _page_features(rng, document)
    columns |= _click_features(rng, query, document)
    columns |= _query_features(rng, query)
    columns |= _noise_features(rng, num_documents)
    matrix = np.column_stack(list(columns.values()))
    return RankingDataset(
        features=np.round(matrix, FEATURE_DECIMALS).astype(np.float32),
        labels=labels,
        query_start=np.concatenate([[0], np.cumsum(whole_sizes)]),
        feature_names=tuple(columns),
    )


@dataclass(frozen=True, kw_only=True)
class _Query:
    """Latent variables of the queries, repeated for each document: (D,) each."""

    navigational: Values
    recency: Values
    level: Values
    num_terms: NDArray[np.int64]
    rarity: Values  # rarity of the query terms: the scale of text-match scores
    frequency: Values


@dataclass(frozen=True, kw_only=True)
class _Document:
    """Latent variables of the documents: (D,) each."""

    topic: Values
    authority: Values
    freshness: Values
    spam: Values
    length: Values

    def noisy_topic(self, rng: Generator, deviation: float) -> Values:
        """Returns topical match as one text-match score measures it."""
        return self.topic + rng.normal(0.0, deviation, len(self.topic))


def _draw_queries(rng: Generator, sizes: NDArray[np.int64]) -> _Query:
    count = len(sizes)
    navigational = rng.beta(0.6, 1.0, count)
    recency = rng.beta(0.5, 1.2, count)
    level = rng.normal(0.0, 1.4, count)
    num_terms = 1 + rng.poisson(2.0, count)
    rarity = np.exp(rng.normal(1.0, 0.6, count))
    searches = 10 * rng.pareto(0.9, count)
    return _Query(
        navigational=np.repeat(navigational, sizes),
        recency=np.repeat(recency, sizes),
        level=np.repeat(level, sizes),
        num_terms=np.repeat(num_terms, sizes),
        rarity=np.repeat(rarity, sizes),
        frequency=np.repeat(np.floor(searches).clip(max=1e6), sizes),
    )


def _draw_documents(rng: Generator, count: int) -> _Document:
    topic = rng.normal(size=count)
    authority = rng.normal(size=count)
    freshness = rng.normal(size=count)
    is_spam = rng.random(count) < 1 / 8
    return _Document(
        topic=topic,
        authority=authority,
        freshness=freshness,
        spam=is_spam.astype(np.float64),
        length=np.exp(rng.normal(6.0, 0.9, count)),
    )


def _relevance(rng: Generator, query: _Query, document: _Document) -> Values:
    """Computes (D,) relevance by the formula of the module docstring."""
    topic = document.topic
    n = query.navigational
    saturation = 0.5 * np.maximum(topic - 1.0, 0.0) ** 2
    informational = 1.2 * topic - saturation
    match = np.clip(topic + 1.0, 0.0, 1.5)
    navigational = 0.5 * topic + 1.2 * document.authority * match
    fresh = 1.2 * query.recency * document.freshness
    judgment = rng.normal(0.0, JUDGMENT_NOISE, len(topic))
    of_intent = (1 - n) * informational + n * navigational
    return of_intent + fresh - 1.6 * document.spam + query.level + judgment


def _grade(relevance: Values) -> Values:
    """Returns (D,) grades 0 to 4, quantiles of the relevance with GRADE_SHARES."""
    shares_below = np.cumsum(GRADE_SHARES)[:-1]
    num_below = np.round(shares_below * len(relevance))
    rank = np.empty(len(relevance))
    order = np.argsort(relevance, kind="stable")
    rank[order] = np.arange(len(relevance))
    return np.searchsorted(num_below, rank, side="right").astype(np.float64)


def _logistic(values: Values) -> Values:
    return 1 / (1 + np.exp(-values))


def _bm25_features(rng: Generator, query: _Query, document: _Document) -> Columns:
    """Returns text-match scores: noisy topical match with a scale and an offset that depend on the query."""
    scale = query.rarity
    term_scale = scale * query.num_terms
    body = np.log1p(np.exp(document.noisy_topic(rng, 0.9)))
    title = np.maximum(document.noisy_topic(rng, 1.0), 0.0)
    has_anchor = rng.random(len(scale)) < 0.35
    anchor_topic = document.noisy_topic(rng, 0.8)
    anchor = np.exp(0.5 * anchor_topic + 0.4 * document.authority)
    is_in_url = document.noisy_topic(rng, 1.2) + document.authority > 1.8
    return {
        "bm25_body": term_scale * body,
        "bm25_title": term_scale * title,
        "bm25_anchor": np.where(has_anchor, scale * anchor, 0.0),
        "bm25_url": np.where(is_in_url, scale, 0.0),
    }


def _similarity_features(
    rng: Generator, query: _Query, document: _Document, bm25_body: Values
) -> Columns:
    """Returns further text-match scores, partly redundant."""
    terms = query.num_terms
    scale = query.rarity
    noise = np.exp(rng.normal(0.0, 0.15, len(scale)))
    body = 0.6 * terms * document.noisy_topic(rng, 1.0)
    title_topic = np.maximum(document.noisy_topic(rng, 1.0), -0.5)
    title = 0.8 * terms * title_topic
    embedded_topic = document.noisy_topic(rng, 1.1)
    similarity = 0.4 * embedded_topic + 0.3 * np.log(scale)
    return {
        "tfidf_body": bm25_body * noise,
        "lm_dirichlet_body": -terms * (4.0 + scale) + body,
        "lm_jelinek_mercer_title": -terms * (6.0 + scale) + title,
        "embedding_cosine": np.tanh(similarity),
    }


def _count_features(rng: Generator, query: _Query, document: _Document) -> Columns:
    """Returns counts of the query terms in the documents."""
    topic = document.topic
    terms = query.num_terms
    share = _logistic(0.8 + topic)
    covered = rng.binomial(terms, share)
    per_term = np.exp(0.5 * topic)
    length = (document.length / 400) ** 0.5
    occurrences = rng.poisson(per_term * covered * length)
    in_title = rng.binomial(terms, share * 0.4)
    log_of_anchors = 0.6 * topic + 0.9 * document.authority - 1.5
    in_anchors = rng.poisson(np.exp(log_of_anchors))
    phrases = rng.poisson(0.15 * np.exp(0.8 * topic))
    window = rng.geometric(0.02 + 0.2 * share) + covered
    return {
        "covered_terms_body": covered,
        "covered_share_body": covered / terms,
        "term_count_body": occurrences,
        "term_density_body": 1000 * occurrences / document.length,
        "term_count_title": in_title,
        "term_count_anchor": in_anchors,
        "phrase_count_body": phrases,
        "shortest_window": np.where(covered > 1, window, 0.0),
    }


def _link_features(rng: Generator, document: _Document) -> Columns:
    """Returns counts of links and measures of authority, which spam inflates."""
    authority = document.authority
    spam = document.spam
    count = len(authority)
    log_links = 1.5 + 1.3 * authority + rng.normal(0.0, 0.8, count)
    links = np.exp(log_links + 1.5 * spam)
    log_rank = 0.9 * authority + rng.normal(0.0, 0.7, count)
    host = 1 + rng.pareto(2.0, count)
    obscurity = np.exp(-1.2 * authority)
    outlinks = rng.geometric(1 / (20 + 60 * spam))
    return {
        "inlinks": np.floor(links),
        "linking_sites": np.floor(links**0.7),
        "pagerank": np.exp(log_rank) / 10,
        "site_rank": np.floor(1000 * obscurity * host),
        "outlinks": outlinks,
    }


def _spam_features(rng: Generator, document: _Document) -> Columns:
    spam = document.spam
    noise = rng.normal(0.0, 0.9, len(spam))
    suspicion = 2.2 * spam - 1.1 + noise
    return {
        "spam_score": 100 / (1 + np.exp(-suspicion)),
        "ad_count": rng.poisson(1.0 + 4.0 * spam),
    }


def _page_features(rng: Generator, document: _Document) -> Columns:
    """Returns the age and the size of a page."""
    freshness = document.freshness
    count = len(freshness)
    log_age = -0.9 * freshness + rng.normal(0.0, 0.5, count)
    log_days = -0.7 * freshness + rng.normal(0.0, 1.0, count)
    title_length = 1.0 + rng.poisson(6.0, count)
    mean_depth = np.exp(0.8 - 0.3 * document.authority)
    return {
        "age_days": np.floor(200 * np.exp(log_age)),
        "days_since_update": np.floor(30 * np.exp(log_days)),
        "body_length": np.floor(document.length),
        "title_length": title_length,
        "url_depth": rng.poisson(mean_depth),
    }


def _click_features(rng: Generator, query: _Query, document: _Document) -> Columns:
    """Returns click features: informative, but most documents have no clicks."""
    of_authority = 0.6 * query.navigational * document.authority
    attraction = 0.8 * document.topic + of_authority
    share_shown = np.exp(rng.normal(-3.0, 1.5, len(attraction)))
    shown = (query.frequency * share_shown).astype(np.int64)
    clicks = rng.binomial(shown, _logistic(attraction - 2.0))
    noise = rng.normal(0.0, 0.8, len(attraction))
    dwell = 20 * np.exp(0.5 * attraction + noise)
    return {
        "impressions": shown,
        "clicks": clicks,
        "click_rate": clicks / np.maximum(shown, 1),
        "dwell_seconds": np.where(clicks > 0, dwell, 0.0),
    }


def _query_features(rng: Generator, query: _Query) -> Columns:
    """Returns query features: constant within a query, useful only in combination with other features."""
    return {
        "query_terms": query.num_terms,
        "query_rarity": query.rarity,
        "query_navigational": query.navigational,
        "query_recency": query.recency,
    }


def _noise_features(rng: Generator, count: int) -> Columns:
    """Returns uninformative noise features."""
    shard = rng.integers(0, 64, count)
    fetch_time = np.exp(rng.normal(5.0, 0.8, count))
    return {
        "crawl_shard": shard,
        "fetch_milliseconds": np.floor(fetch_time),
        "document_hash": rng.random(count),
        "cache_hits": rng.geometric(0.3, count) - 1.0,
    }
