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
JUDGMENT_NOISE = (
    1.0  # relevance has a spread of about 2: boosting improves for some 50 to 200 trees
)
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
    columns = _match_features(rng, query, document)
    columns |= _count_features(rng, query, document)
    columns |= _document_features(rng, document)
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


@dataclass(frozen=True)
class _Query:
    """Latent variables of the queries, repeated for each document: (D,) each."""

    navigational: Values
    recency: Values
    level: Values
    num_terms: NDArray[np.int64]
    rarity: Values  # rarity of the query terms: the scale of text-match scores
    frequency: Values


@dataclass(frozen=True)
class _Document:
    """Latent variables of the documents: (D,) each."""

    topic: Values
    authority: Values
    freshness: Values
    spam: Values
    length: Values


def _draw_queries(rng: Generator, sizes: NDArray[np.int64]) -> _Query:
    count = len(sizes)
    navigational = rng.beta(0.6, 1.0, count)
    recency = rng.beta(0.5, 1.2, count)
    level = rng.normal(0.0, 1.4, count)
    num_terms = 1 + rng.poisson(2.0, count)
    rarity = np.exp(rng.normal(1.0, 0.6, count))
    frequency = np.floor(10 * rng.pareto(0.9, count)).clip(max=1e6)
    return _Query(
        navigational=np.repeat(navigational, sizes),
        recency=np.repeat(recency, sizes),
        level=np.repeat(level, sizes),
        num_terms=np.repeat(num_terms, sizes),
        rarity=np.repeat(rarity, sizes),
        frequency=np.repeat(frequency, sizes),
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


def _match_features(rng: Generator, query: _Query, document: _Document) -> Columns:
    """Returns text-match scores: noisy topical match with a scale and an offset that depend on the query."""
    count = len(document.topic)

    def seen(noise: float) -> Values:
        return document.topic + rng.normal(0.0, noise, count)

    scale = query.rarity
    terms = query.num_terms
    term_scale = scale * terms
    body = term_scale * np.log1p(np.exp(seen(0.9)))
    title = term_scale * np.maximum(seen(1.0), 0.0)
    has_anchor = rng.random(count) < 0.35
    anchor = scale * np.exp(0.5 * seen(0.8) + 0.4 * document.authority)
    is_in_url = seen(1.2) + document.authority > 1.8
    columns: Columns = {}
    columns["bm25_body"] = body
    columns["bm25_title"] = title
    columns["bm25_anchor"] = np.where(has_anchor, anchor, 0.0)
    columns["bm25_url"] = np.where(is_in_url, scale, 0.0)
    noise = np.exp(rng.normal(0.0, 0.15, count))
    columns["tfidf_body"] = body * noise
    matching = 0.6 * terms * seen(1.0)
    columns["lm_dirichlet_body"] = -terms * (4.0 + scale) + matching
    title_matching = 0.8 * terms * np.maximum(seen(1.0), -0.5)
    columns["lm_jelinek_mercer_title"] = -terms * (6.0 + scale) + title_matching
    similarity = 0.4 * seen(1.1) + 0.3 * np.log(scale)
    columns["embedding_cosine"] = np.tanh(similarity)
    return columns


def _count_features(rng: Generator, query: _Query, document: _Document) -> Columns:
    """Returns counts of the query terms in the documents."""
    topic = document.topic
    terms = query.num_terms
    share = 1 / (1 + np.exp(-0.8 - topic))
    covered = rng.binomial(terms, share)
    mean = np.exp(0.5 * topic) * covered * (document.length / 400) ** 0.5
    occurrences = rng.poisson(mean)
    columns: Columns = {}
    columns["covered_terms_body"] = covered
    columns["covered_share_body"] = covered / terms
    columns["term_count_body"] = occurrences
    columns["term_density_body"] = 1000 * occurrences / document.length
    columns["term_count_title"] = rng.binomial(terms, share * 0.4)
    mean = np.exp(0.6 * topic + 0.9 * document.authority - 1.5)
    columns["term_count_anchor"] = rng.poisson(mean)
    mean = 0.15 * np.exp(0.8 * topic)
    columns["phrase_count_body"] = rng.poisson(mean)
    window = rng.geometric(0.02 + 0.2 * share) + covered
    columns["shortest_window"] = np.where(covered > 1, window, 0.0)
    return columns


def _document_features(rng: Generator, document: _Document) -> Columns:
    """Returns query-independent features of the page: links, age, size, signs of spam."""
    authority = document.authority
    spam = document.spam
    count = len(document.topic)

    def noise(deviation: float) -> Values:
        return rng.normal(0.0, deviation, count)

    columns: Columns = {}
    links = np.exp(1.5 + 1.3 * authority + noise(0.8) + 1.5 * spam)
    columns["inlinks"] = np.floor(links)
    columns["linking_sites"] = np.floor(links**0.7)
    columns["pagerank"] = np.exp(0.9 * authority + noise(0.7)) / 10
    of_host = 1 + rng.pareto(2.0, count)
    columns["site_rank"] = np.floor(1000 * np.exp(-1.2 * authority) * of_host)
    columns["outlinks"] = rng.geometric(1 / (20 + 60 * spam))
    suspicion = 2.2 * spam - 1.1 + noise(0.9)
    columns["spam_score"] = 100 / (1 + np.exp(-suspicion))
    columns["ad_count"] = rng.poisson(1.0 + 4.0 * spam)
    age = 200 * np.exp(-0.9 * document.freshness + noise(0.5))
    columns["age_days"] = np.floor(age)
    since_update = 30 * np.exp(-0.7 * document.freshness + noise(1.0))
    columns["days_since_update"] = np.floor(since_update)
    columns["body_length"] = np.floor(document.length)
    columns["title_length"] = 1.0 + rng.poisson(6.0, count)
    columns["url_depth"] = rng.poisson(np.exp(0.8 - 0.3 * authority))
    return columns


def _click_features(rng: Generator, query: _Query, document: _Document) -> Columns:
    """Returns click features: informative, but most documents have no clicks."""
    of_authority = 0.6 * query.navigational * document.authority
    attraction = 0.8 * document.topic + of_authority
    share_shown = np.exp(rng.normal(-3.0, 1.5, len(attraction)))
    shown = (query.frequency * share_shown).astype(np.int64)
    clicks = rng.binomial(shown, 1 / (1 + np.exp(2.0 - attraction)))
    noise = rng.normal(0.0, 0.8, len(attraction))
    dwell = 20 * np.exp(0.5 * attraction + noise)
    columns: Columns = {}
    columns["impressions"] = shown
    columns["clicks"] = clicks
    columns["click_rate"] = clicks / np.maximum(shown, 1)
    columns["dwell_seconds"] = np.where(clicks > 0, dwell, 0.0)
    return columns


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
    columns: Columns = {}
    columns["crawl_shard"] = rng.integers(0, 64, count)
    fetch_time = np.exp(rng.normal(5.0, 0.8, count))
    columns["fetch_milliseconds"] = np.floor(fetch_time)
    columns["document_hash"] = rng.random(count)
    columns["cache_hits"] = rng.geometric(0.3, count) - 1.0
    return columns
