"""Simulated logs of clicks, and the impressions of small tables of counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltrbench.clicks.log import checked
from ltrbench.clicks.rows import Rows
from ltrbench.clicks.simulation import CLICK_MODELS, Logging, simulate
from ltrbench.clicks.source import ClickSource, _Lists
from ltrbench.data import Judgments, RankingDataset
from ltrbench.data.impressions import Impressions

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parent / "clicks" / "golden.json").read_text()
)

NUM_DOCUMENTS = 10
THETA = 1 / np.arange(1.0, NUM_DOCUMENTS + 1)


class World(NamedTuple):
    """Queries with documents of known attraction, and the scores of two rankers; all (Q, 10)."""

    attraction: NDArray[np.float64]
    production: NDArray[np.float64]
    candidate: NDArray[np.float64]

    def expected_clicks(
        self, scores: NDArray[np.float64], k: int = NUM_DOCUMENTS
    ) -> NDArray[np.float64]:
        """(Q,), the clicks on the first k of the list of a ranker, by the position-based model."""
        ranks = np.argsort(np.argsort(-scores, axis=1), axis=1)
        theta = np.where(ranks < k, THETA[ranks], 0.0)
        clicks: NDArray[np.float64] = (theta * self.attraction).sum(axis=1)
        return clicks


def make_world(seed: int, num_queries: int = 300) -> World:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(num_queries, NUM_DOCUMENTS, 3))
    quality = features[..., 0] + 0.5 * features[..., 1]
    attraction = np.where(quality > 0.9, 0.9, 0.1)
    production = 0.3 * features[..., 2] + 0.2 * features[..., 0]
    return World(attraction, production, features[..., 0] + 0.3 * features[..., 1])


def make_log(
    world: World,
    seed: int = 0,
    num_sessions: int = 3000,
    rankers: str = "PB",
    model: str = "pbm",
) -> pd.DataFrame:
    """A simulated log of sessions, each shown by one ranker: P (production with noise) or B (candidate)."""
    shape = world.attraction.shape
    noise = np.random.default_rng(seed).normal(size=shape)
    scores = {"P": world.production + 0.3 * noise, "B": world.candidate}
    sessions = simulate(
        world.attraction.ravel(),
        np.arange(shape[0] + 1) * NUM_DOCUMENTS,
        [scores[name].ravel() for name in rankers],
        Logging(num_sessions=num_sessions, depth=NUM_DOCUMENTS),
        click_model=CLICK_MODELS[model],
        seed=seed,
    )
    rows = sessions.documents.ravel()
    names = np.array([f"query {number}" for number in range(shape[0])], dtype=object)
    return pd.DataFrame(
        {
            "session": np.repeat(np.arange(num_sessions), NUM_DOCUMENTS),
            "query": names[rows // NUM_DOCUMENTS],
            "document": rows % NUM_DOCUMENTS,
            "position": np.tile(np.arange(NUM_DOCUMENTS), num_sessions),
            "click": sessions.clicks.ravel().astype(int),
            "ranker": np.repeat(np.array([*rankers])[sessions.rankers], NUM_DOCUMENTS),
            "feature": world.candidate.ravel()[rows],
        }
    )


def dataset_of(frame: pd.DataFrame, **settings: Any) -> RankingDataset:
    """All lists of a log in memory."""
    roles = [name for name in frame if name not in ("feature",)]
    others = [name for name in frame if name in ("feature",)]
    rows = Rows(frame[roles], frame[others], lambda row: f"log.csv:{row + 2}")
    source = ClickSource(name="clicks", log="log.csv", **settings)
    return _Lists(checked(rows), source).whole


def impressions_of_counts(shown: Any, clicks: Any, **columns: Any) -> Impressions:
    """(U, K) numbers of displays and clicks of each document at each position."""
    units, positions = np.nonzero(np.asarray(shown))
    num = len(units)
    num_positions = np.asarray(shown).shape[1]
    fields = {
        "rankers": np.zeros(num, dtype=np.int64),
        "is_randomised": np.zeros(num, dtype=np.bool_),
        "is_compared": np.ones(num, dtype=np.bool_),
        "propensities": np.full(num, np.nan),
    }
    return Impressions(
        rows=units,
        positions=positions,
        units=units,
        shown=np.asarray(shown, dtype=np.float64)[units, positions],
        clicks=np.asarray(clicks, dtype=np.float64)[units, positions],
        theta=np.full(num_positions, np.nan),
        influence=np.zeros((0, num_positions)),
        method=np.array([""]),
        **(fields | columns),
    )


def golden_judgments() -> Judgments:
    """The log of the golden values: three queries of three documents."""
    theta = np.array(GOLDEN["ips"]["theta"])
    # The position of each document in each session, and whether the document was clicked.
    positions = np.array(GOLDEN["ips"]["shown"]).ravel()
    queries = np.repeat(GOLDEN["ips"]["query"], 3)
    rows = 3 * queries + np.tile(np.arange(3), len(GOLDEN["ips"]["shown"]))
    order = np.argsort(rows, kind="stable")
    num = len(rows)
    impressions = Impressions(
        rows=rows[order],
        positions=positions[order],
        units=rows[order],
        shown=np.ones(num),
        clicks=np.array(GOLDEN["ips"]["clicks"], dtype=np.float64).ravel()[order],
        rankers=np.zeros(num, dtype=np.int64),
        is_randomised=np.zeros(num, dtype=np.bool_),
        is_compared=np.ones(num, dtype=np.bool_),
        propensities=theta[positions[order]],
        theta=theta,
        influence=np.zeros((3, 3)),
        method=np.array(["column"]),
    )
    return Judgments(
        labels=np.zeros(9),
        query_start=np.array([0, 3, 6, 9]),
        query_weights=np.array(GOLDEN["ips"]["sessions_per_query"], dtype=np.float64),
        impressions=impressions,
    )
