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
    sizes = np.exp(rng.normal(np.log(median_documents), SIZE_SPREAD, num_queries))
    whole_sizes = np.clip(sizes.astype(np.int64), SMALLEST_QUERY, LARGEST_QUERY)
    num_documents = int(whole_sizes.sum())
    query = _draw_queries(rng, whole_sizes)
    document = _draw_documents(rng, num_documents)
    labels = _grade(_relevance(rng, query, document))
    columns = (
        _match_features(rng, query, document)
        | _count_features(rng, query, document)
        | _document_features(rng, document)
        | _click_features(rng, query, document)
        | _query_features(rng, query)
        | _noise_features(rng, num_documents)
    )
    return RankingDataset(
        features=np.round(
            np.column_stack(list(columns.values())), FEATURE_DECIMALS
        ).astype(np.float32),
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
    return _Query(
        navigational=np.repeat(rng.beta(0.6, 1.0, count), sizes),
        recency=np.repeat(rng.beta(0.5, 1.2, count), sizes),
        level=np.repeat(rng.normal(0.0, 1.4, count), sizes),
        num_terms=np.repeat(1 + rng.poisson(2.0, count), sizes),
        rarity=np.repeat(np.exp(rng.normal(1.0, 0.6, count)), sizes),
        frequency=np.repeat(np.floor(10 * rng.pareto(0.9, count)).clip(max=1e6), sizes),
    )


def _draw_documents(rng: Generator, count: int) -> _Document:
    return _Document(
        topic=rng.normal(size=count),
        authority=rng.normal(size=count),
        freshness=rng.normal(size=count),
        spam=(rng.random(count) < 1 / 8).astype(np.float64),
        length=np.exp(rng.normal(6.0, 0.9, count)),
    )


def _relevance(rng: Generator, query: _Query, document: _Document) -> Values:
    """Computes (D,) relevance by the formula of the module docstring."""
    topic = document.topic
    n = query.navigational
    informational = 1.2 * topic - 0.5 * np.maximum(topic - 1.0, 0.0) ** 2
    navigational = 0.5 * topic + 1.2 * document.authority * np.clip(
        topic + 1.0, 0.0, 1.5
    )
    fresh = 1.2 * query.recency * document.freshness
    judgment = rng.normal(0.0, JUDGMENT_NOISE, len(topic))
    return (
        (1 - n) * informational
        + n * navigational
        + fresh
        - 1.6 * document.spam
        + query.level
        + judgment
    )


def _grade(relevance: Values) -> Values:
    """Returns (D,) grades 0 to 4, quantiles of the relevance with GRADE_SHARES."""
    num_below = np.round(np.cumsum(GRADE_SHARES)[:-1] * len(relevance))
    rank = np.empty(len(relevance))
    rank[np.argsort(relevance, kind="stable")] = np.arange(len(relevance))
    return np.searchsorted(num_below, rank, side="right").astype(np.float64)


def _match_features(rng: Generator, query: _Query, document: _Document) -> Columns:
    """Returns text-match scores: noisy topical match with a scale and an offset that depend on the query."""
    count = len(document.topic)

    def seen(noise: float) -> Values:
        return document.topic + rng.normal(0.0, noise, count)

    scale = query.rarity
    terms = query.num_terms
    body = scale * terms * np.log1p(np.exp(seen(0.9)))
    title = scale * terms * np.maximum(seen(1.0), 0.0)
    anchor = np.where(
        rng.random(count) < 0.35,
        scale * np.exp(0.5 * seen(0.8) + 0.4 * document.authority),
        0.0,
    )
    url = np.where(seen(1.2) + document.authority > 1.8, scale, 0.0)
    return {
        "bm25_body": body,
        "bm25_title": title,
        "bm25_anchor": anchor,
        "bm25_url": url,
        "tfidf_body": body * np.exp(rng.normal(0.0, 0.15, count)),
        "lm_dirichlet_body": -terms * (4.0 + scale) + 0.6 * terms * seen(1.0),
        "lm_jelinek_mercer_title": -terms * (6.0 + scale)
        + 0.8 * terms * np.maximum(seen(1.0), -0.5),
        "embedding_cosine": np.tanh(0.4 * seen(1.1) + 0.3 * np.log(scale)),
    }


def _count_features(rng: Generator, query: _Query, document: _Document) -> Columns:
    """Returns counts of the query terms in the documents."""
    topic = document.topic
    terms = query.num_terms
    share = 1 / (1 + np.exp(-0.8 - topic))
    covered = rng.binomial(terms, share)
    occurrences = rng.poisson(
        np.exp(0.5 * topic) * covered * (document.length / 400) ** 0.5
    )
    return {
        "covered_terms_body": covered,
        "covered_share_body": covered / terms,
        "term_count_body": occurrences,
        "term_density_body": 1000 * occurrences / document.length,
        "term_count_title": rng.binomial(terms, share * 0.4),
        "term_count_anchor": rng.poisson(
            np.exp(0.6 * topic + 0.9 * document.authority - 1.5)
        ),
        "phrase_count_body": rng.poisson(0.15 * np.exp(0.8 * topic)),
        "shortest_window": np.where(
            covered > 1, rng.geometric(0.02 + 0.2 * share) + covered, 0.0
        ),
    }


def _document_features(rng: Generator, document: _Document) -> Columns:
    """Returns query-independent features of the page: links, age, size, signs of spam."""
    authority = document.authority
    spam = document.spam
    count = len(document.topic)
    links = np.exp(1.5 + 1.3 * authority + rng.normal(0.0, 0.8, count) + 1.5 * spam)
    return {
        "inlinks": np.floor(links),
        "linking_sites": np.floor(links**0.7),
        "pagerank": np.exp(0.9 * authority + rng.normal(0.0, 0.7, count)) / 10,
        "site_rank": np.floor(
            1000 * np.exp(-1.2 * authority) * (1 + rng.pareto(2.0, count))
        ),
        "outlinks": rng.geometric(1 / (20 + 60 * spam)),
        "spam_score": 100
        / (1 + np.exp(-(2.2 * spam - 1.1 + rng.normal(0.0, 0.9, count)))),
        "ad_count": rng.poisson(1.0 + 4.0 * spam),
        "age_days": np.floor(
            200 * np.exp(-0.9 * document.freshness + rng.normal(0.0, 0.5, count))
        ),
        "days_since_update": np.floor(
            30 * np.exp(-0.7 * document.freshness + rng.normal(0.0, 1.0, count))
        ),
        "body_length": np.floor(document.length),
        "title_length": 1.0 + rng.poisson(6.0, count),
        "url_depth": rng.poisson(np.exp(0.8 - 0.3 * authority)),
    }


def _click_features(rng: Generator, query: _Query, document: _Document) -> Columns:
    """Returns click features: informative, but most documents have no clicks."""
    attraction = 0.8 * document.topic + 0.6 * query.navigational * document.authority
    shown = (query.frequency * np.exp(rng.normal(-3.0, 1.5, len(attraction)))).astype(
        np.int64
    )
    clicks = rng.binomial(shown, 1 / (1 + np.exp(2.0 - attraction)))
    dwell = 20 * np.exp(0.5 * attraction + rng.normal(0.0, 0.8, len(attraction)))
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
    return {
        "crawl_shard": rng.integers(0, 64, count),
        "fetch_milliseconds": np.floor(np.exp(rng.normal(5.0, 0.8, count))),
        "document_hash": rng.random(count),
        "cache_hits": rng.geometric(0.3, count) - 1.0,
    }
