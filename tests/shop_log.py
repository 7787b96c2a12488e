"""The log of a made-up shop, one row per product shown: `python shop_log.py FOLDER [QUERIES]` writes it.

The table has what real logs have: text columns with 3, 40 and 5,000 values, a time, missing cells, tastes
that drift over time, and two columns that are known only after the label (revenue, returned).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

LABELS = {"seen": 0, "clicked": 1, "carted": 2, "bought": 3}
"""The label of a product is the furthest step of its customer."""


def shop_log(
    num_queries: int = 2000, documents: int = 20, num_brands: int = 5000, seed: int = 0
) -> pd.DataFrame:
    """Returns a log with num_queries * documents rows, sorted by date; the same seed gives the same rows."""
    rng = np.random.default_rng(seed)
    num_rows = num_queries * documents
    query = np.repeat(np.arange(num_queries), documents)
    day = np.sort(rng.integers(0, 180, num_queries))[query]
    # Frequent brands have small numbers; a brand and a season have their own appeal.
    brand = (num_brands * rng.random(num_rows) ** 2.5).astype(int)
    category, device = (
        rng.integers(0, 40, num_rows),
        rng.integers(0, 3, num_queries)[query],
    )
    brand_appeal, category_appeal = (
        rng.normal(size=num_brands),
        rng.normal(size=(2, 40)),
    )
    price = np.round(np.exp(rng.normal(3, 1, num_rows)), 2)
    rating = np.where(
        rng.random(num_rows) < 0.3, np.nan, np.round(rng.uniform(1, 5, num_rows), 1)
    )
    text_match, stock = rng.normal(size=num_rows), rng.integers(0, 200, num_rows)
    winter = day / 180
    utility = (
        1.2 * text_match
        + 0.8 * brand_appeal[brand]
        + (1 - winter) * category_appeal[0, category]
        + winter * category_appeal[1, category]
        + 0.3 * (np.nan_to_num(rating, nan=3) - 3)
        - 0.4 * np.log(price) * (device == 0)
        + rng.normal(scale=1.5, size=num_rows)
    )
    label = np.digitize(utility, np.quantile(utility, [0.7, 0.88, 0.96]))
    frame = pd.DataFrame(
        {
            "query_id": [f"search {number}" for number in query],
            "document_id": [
                f"product {number}" for number in rng.integers(0, 30_000, num_rows)
            ],
            "date": pd.Timestamp("2026-03-01") + pd.to_timedelta(day, unit="D"),
            "label": label,
            "text_match": text_match,
            "price": price,
            "rating": rating,
            "stock": stock,
            "brand": np.char.add("brand ", brand.astype(str)),
            "category": np.char.add("category ", category.astype(str)),
            "device": np.array(["phone", "tablet", "desktop"])[device],
            "revenue": np.where(label == LABELS["bought"], price, 0.0),
            "returned": (label == LABELS["bought"]) & (rng.random(num_rows) < 0.1),
        }
    )
    return frame.drop_duplicates(["query_id", "document_id"]).reset_index(drop=True)


def write_files(folder: Path, num_queries: int = 2000) -> None:
    """Writes the log as shop.parquet; production.csv, the scores of the ranking in use; new.parquet, the
    products of a query to be ranked, and week.parquet, those of 80 later queries, without what is known only
    later."""
    log = shop_log(num_queries)
    log.to_parquet(folder / "shop.parquet", index=False)
    production = log[["query_id", "document_id"]].assign(
        score=log.text_match - 0.3 * np.log(log.price)
    )
    production.to_csv(folder / "production.csv", index=False)
    known_later = ["date", "label", "revenue", "returned"]
    log.drop(columns=known_later).tail(20).to_parquet(
        folder / "new.parquet", index=False
    )
    shop_log(80, seed=1).drop(columns=known_later).to_parquet(
        folder / "week.parquet", index=False
    )


if __name__ == "__main__":
    write_files(Path(sys.argv[1]), *map(int, sys.argv[2:]))
