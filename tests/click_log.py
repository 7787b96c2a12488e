"""Writes a simulated log of clicks, and the scores of two rankers: python click_log.py FOLDER."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

NUM_QUERIES, NUM_SESSIONS, NUM_DOCUMENTS = 300, 4000, 10


def main(folder: Path) -> None:
    rng = np.random.default_rng(0)
    text, price, rating = rng.normal(size=(3, NUM_QUERIES, NUM_DOCUMENTS))
    is_good = text + 0.5 * price + 0.5 * rng.normal(size=text.shape) > 0.9
    attraction = np.where(is_good, 0.9, 0.1)
    # Each list is shown by one of two rankers; users look at position k with probability 1 / (k + 1).
    scores = np.stack([0.3 * rating + 0.2 * text, text + 0.3 * rating])
    popularity = np.arange(1.0, NUM_QUERIES + 1) ** -0.7
    shares = popularity / popularity.sum()
    queries = rng.choice(NUM_QUERIES, NUM_SESSIONS, p=shares)
    rankers = rng.integers(2, size=NUM_SESSIONS)
    shown = np.argsort(-scores[rankers, queries], axis=1)
    seen = rng.random(shown.shape) < 1 / np.arange(1, NUM_DOCUMENTS + 1)
    liked = rng.random(shown.shape) < np.take_along_axis(attraction[queries], shown, 1)
    rows = {
        "session": np.repeat(np.arange(NUM_SESSIONS), NUM_DOCUMENTS),
        "query": [f"query {query}" for query in np.repeat(queries, NUM_DOCUMENTS)],
        "document": shown.ravel(),
        "position": np.tile(np.arange(NUM_DOCUMENTS), NUM_SESSIONS),
        "click": (seen & liked).ravel().astype(int),
        "ranker": np.repeat(np.array(["production", "test"])[rankers], NUM_DOCUMENTS),
    }
    cells = (np.repeat(queries, NUM_DOCUMENTS), shown.ravel())
    for name, values in {"text": text, "price": price, "rating": rating}.items():
        rows[name] = values[cells]
    pd.DataFrame(rows).to_csv(folder / "log.csv", index=False)

    query, document = np.indices(text.shape).reshape(2, -1)
    for name, values in zip(["production", "candidate"], scores, strict=True):
        pd.DataFrame(
            {
                "query_id": [f"query {number}" for number in query],
                "document_id": document,
                "score": values.ravel(),
            }
        ).to_csv(folder / f"{name}.csv", index=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
