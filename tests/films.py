"""Made-up ratings of films, one row per rating: `python films.py FOLDER` writes films.parquet.

The table is like MovieLens: a user is a query, a rating from 0 to 4 is a label. Users differ in what they
like, and most of it shows only in the genres that they rated well before.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

GENRES = ("action", "comedy", "drama", "horror", "romance", "thriller")


def film_ratings(
    num_users: int = 1259, num_films: int = 800, seed: int = 0
) -> pd.DataFrame:
    """Returns 10 to 40 ratings of each user; the same seed gives the same rows."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=num_films)
    year = rng.integers(1950, 2026, num_films)
    has_genre = rng.random((num_films, len(GENRES))) < 0.3
    popularity = np.exp(rng.normal(size=num_films))
    taste = rng.normal(size=(num_users, len(GENRES)))
    # What earlier ratings of a user say about the taste, with the noise of few ratings.
    earlier = taste + rng.normal(0, 1.0, taste.shape)
    num_ratings = rng.integers(10, 41, num_users)
    user = np.repeat(np.arange(num_users), num_ratings)
    film = np.concatenate(
        [
            rng.choice(
                num_films, number, replace=False, p=popularity / popularity.sum()
            )
            for number in num_ratings
        ]
    )
    appeal = quality[film] + 0.5 * (taste[user] * has_genre[film]).sum(axis=1)
    appeal += rng.normal(0, 1.5, len(film))
    label = np.searchsorted([-1.5, -0.3, 0.6, 1.8], appeal)
    columns: dict[str, object] = {
        "user_id": user,
        "film": film,
        "rating": label,
        "mean_rating": quality[film] + rng.normal(0, 0.5, num_films)[film],
        "num_ratings": np.round(popularity[film] * 100),
        "year": year[film],
        "affinity": (earlier[user] * has_genre[film]).sum(axis=1),
    }
    for number, genre in enumerate(GENRES):
        columns[genre] = has_genre[film, number].astype(int)
        columns[f"likes_{genre}"] = earlier[user, number]
    return pd.DataFrame(columns)


if __name__ == "__main__":
    film_ratings().to_parquet(Path(sys.argv[1]) / "films.parquet")
