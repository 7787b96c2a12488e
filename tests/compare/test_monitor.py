"""New data against training: distances by their definitions, drift that is found, and false alarms."""

# mypy: strict-optional=False

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import run
from messages import naming
from shop_log import shop_log

from ltrbench.compare.monitor import as_chapter, monitor
from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError
from ltrbench.rankers.random import RandomRanker
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.statistics.drift import (
    Sample,
    bins_of,
    kolmogorov_smirnov,
    psi,
    simultaneous,
)

TEXTS = ["brand", "category", "device"]


def test_distances_are_those_of_their_definitions() -> None:
    rng = np.random.default_rng(0)
    then = np.where(rng.random(60) < 0.2, np.nan, rng.integers(0, 30, 60)).astype(
        np.float32
    )
    now = np.where(rng.random(40) < 0.4, np.nan, rng.integers(5, 50, 40)).astype(
        np.float32
    )
    before, after = Sample(np.arange(0, 61, 5), 0), Sample(np.arange(0, 41, 4), 1)
    known_then, known_now = then[~np.isnan(then)], now[~np.isnan(now)]
    largest = max(
        abs((known_then <= x).mean() - (known_now <= x).mean()) for x in range(51)
    )
    assert kolmogorov_smirnov(then, now, before, after).value == pytest.approx(largest)
    for is_category in (False, True):
        index, bins = 0.0, bins_of(then, now, is_category)
        used = np.unique(np.concatenate(bins))
        for number in used:
            p, q = (
                ((each == number).sum() + 0.5) / (len(each) + len(used) / 2)
                for each in bins
            )
            index += (q - p) * np.log(q / p)
        (interval,) = simultaneous([psi(*bins, before, after)])
        assert interval[0] == pytest.approx(index)
        assert interval[1] < index < interval[2]
        assert (bins[0] == used[-1]).tolist() == np.isnan(then).tolist()
    hundred = np.arange(100, dtype=np.float32)
    assert np.bincount(bins_of(hundred, hundred, False)[0]).tolist() == [10] * 10


@pytest.mark.parametrize(
    ("lowest", "share", "other"), [(1.0, 1.0, 0.0), (0.0, 0.6, -1.0), (1.0, 0.95, 0.0)]
)
def test_values_below_a_frequent_one_have_a_bin_of_their_own(
    lowest: float, share: float, other: float
) -> None:
    is_frequent = np.arange(1000) < 1000 * share
    above = np.linspace(2, 3, 1000)
    then = np.where(is_frequent, lowest, above).astype(np.float32)
    now = np.where(is_frequent, other, above).astype(np.float32)
    sample = Sample(np.arange(0, 1001, 10), 0)
    index = psi(*bins_of(then, now, False), sample, sample).value ** 2
    # All documents of one bin are in another: both bins add nearly share * ln(2 * 1000 * share).
    assert index == pytest.approx(2 * share * np.log(2000 * share), rel=0.01)
    flag = np.repeat([0.0, 1.0], [50, 950]).astype(np.float32)
    assert len(np.unique(bins_of(flag, flag, False))) == 2


def test_the_overlap_is_of_queries_with_more_than_ten_documents() -> None:
    sizes = [9, 10, 11, 25] * 6
    starts = np.concatenate([[0], np.cumsum(sizes)])
    features = np.random.default_rng(0).normal(size=(starts[-1], 2)).astype(np.float32)
    data = RankingDataset(
        features=features, labels=np.zeros(len(features)), query_start=starts
    )
    models = []
    for column in features.T:
        # The column itself ranks these labels best.
        labelled = data.with_fields(labels=(column > 0).astype(np.float64))
        models.append((SingleFeatureRanker().fit(labelled), data))
    shares = []
    for start, end in itertools.pairwise(starts):
        first, second = (-features[start:end]).argsort(axis=0)[:10].T
        if end - start > 10:
            shares.append(len(np.intersect1d(first, second)) / 10)
    measures = {item.name: item.value for item in monitor(data, models, {})}
    assert measures["overlap"] == pytest.approx(np.mean(shares))


def test_a_metric_that_no_query_has_is_no_measure() -> None:
    data = RankingDataset(
        features=np.arange(60, dtype=np.float32)[:, None] % 7,
        labels=np.full(60, 0.5),
        query_start=np.arange(0, 61, 3),
    )
    models = [(RandomRanker().fit(data), data)]
    measures = monitor(data, models, {}, "map")
    assert "map" not in {item.name for item in measures}
    chapter = as_chapter("week", data, measures, "map")
    assert any("map" in text for text in chapter.answer)
    with pytest.raises(ConfigError, match=naming("fall", "metric")):
        monitor(data, models, {"fall": 0.1}, "map")


@pytest.mark.slow
def test_drift_is_found_where_it_is_and_false_alarms_occur_in_at_most_five_per_cent_of_the_weeks() -> (
    None
):
    log = RankingDataset.from_frame(
        shop_log(4300, 10)[["query_id", "label", "text_match", "price", *TEXTS[:2]]],
        categorical=TEXTS[:2],
    )
    train = log.take_queries(np.arange(4000, 4300))
    ranker = RandomRanker().fit(train)
    price, found, alarms = log.feature_names.index("price"), 0, 0
    for week in range(100):
        new = log.take_queries(np.arange(40 * week, 40 * week + 40))
        new = new.with_fields(labels=np.zeros(new.num_documents))
        # A threshold of 0 is the strictest one.
        limits = {"psi": 0.0, "ks": 0.0}
        alarms += any(
            item.is_past for item in monitor(train, [(ranker, new)], limits, seed=week)
        )
        if week % 10 == 0:
            features = np.array(new.features)
            features[:, price] *= 1.5
            planted = [(ranker, new.with_fields(features=features))]
            drifted = monitor(train, planted, limits, seed=week)
            found += {item.feature for item in drifted if item.is_past} == {"price"}
    assert alarms <= 5
    assert found >= 9


def shop(*brands: str) -> pd.DataFrame:
    """Returns 40 queries of two documents with these brands."""
    table = pd.DataFrame({"query_id": np.repeat(np.arange(40), 2)})
    table["brand"] = brands * 40
    table["label"] = [0, 1] * 40
    table["price"] = np.arange(80.0)
    table["store"] = np.arange(80) % 4
    table["sale"] = "True"
    return table


def measures_of_week(folder: Path, *words: str) -> pd.Series[Any]:
    """Returns the values of the measures of week.csv, by name and feature."""
    run("monitor", "run", *words, "--output=out", folder=folder)
    record = json.loads((folder / "out/monitor.json").read_text())
    return pd.DataFrame(record["measures"]).set_index(["name", "feature"])["value"]


@pytest.mark.parametrize("option", ["categorical", "encode"])
def test_a_new_category_of_the_week_is_not_that_of_the_reference(
    tmp_path: Path, option: str
) -> None:
    week = shop("NA", "z")
    week.loc[:7, "brand"] = None
    week["sale"] = "TRUE"
    week = week.astype({"store": "category"})  # which has numbers in training
    week.to_parquet(tmp_path / "week.parquet")
    week.to_csv(tmp_path / "week.csv", index=False)
    shop("NA", "b").to_parquet(tmp_path / "shop.parquet")
    shop("NA", "b").to_csv(tmp_path / "shop.csv", index=False)
    shop("NA", "y").to_csv(tmp_path / "reference.csv", index=False)
    data = ["data=table", "data.train=shop.parquet", f"data.{option}=[brand,sale]"]
    options = ["importance=none", "tracking=none", "hydra.run.dir=run"]
    run("model=random", *data, *options, folder=tmp_path)
    for reference in ("shop", "reference"):
        words = ["week.parquet", f"--reference={reference}.csv"]
        measures = measures_of_week(tmp_path, *words)
        assert measures["unseen", "brand"] == pytest.approx(0.45)
        assert measures["missing", "brand"] == pytest.approx(0.1)
        assert measures["unseen", "sale"] == 0
        assert ("ks", "store") in measures
    for name in ("week.parquet", "week.csv"):
        of_run = measures_of_week(tmp_path, name)
        assert of_run["unseen", "brand"] == pytest.approx(0.45)
        assert of_run["missing", "brand"] == pytest.approx(0.1)


def test_features_of_categories_are_measured_like_those_of_training(
    tmp_path: Path,
) -> None:
    table = shop("a", "b")
    of_brand = {"brand=a": [1, 0] * 40, "brand=b": [0, 1] * 40}
    table.to_csv(tmp_path / "shop.csv", index=False)
    encoded = table.drop(columns="brand").assign(**of_brand)
    encoded.to_csv(tmp_path / "week.csv", index=False)
    data = [
        "data=table",
        "data.train=shop.csv",
        "data.encode=[brand]",
        "data.ignore=[sale]",
    ]
    options = ["importance=none", "tracking=none", "hydra.run.dir=run"]
    run("model=random", *data, *options, folder=tmp_path)
    for words in (
        ["week.csv"],
        ["week.csv", "--reference=shop.csv"],
        ["shop.csv", "--reference=week.csv"],
    ):
        measures = measures_of_week(tmp_path, *words)
        assert measures["psi"].filter(like="brand").max() < 0.1


@pytest.mark.slow
def test_a_week_of_the_shop_is_compared_with_the_training_data_of_a_run(
    tmp_path: Path,
) -> None:
    shop_log(300, 12).to_csv(tmp_path / "shop.csv", index=False)
    week = shop_log(60, 12, seed=1)
    week.to_csv(tmp_path / "week.csv", index=False)
    week.drop(columns="price").to_csv(tmp_path / "other.csv", index=False)
    drifted = week.assign(price=3 * week.price, category="category new", rating=np.nan)
    drifted.drop(columns=["label", "date", "revenue", "returned"]).to_parquet(
        tmp_path / "drifted.parquet"
    )
    data = "data=table data.train=shop.csv data.categorical=[brand,category,device] data.split_by=date"
    data += " data.ignore=[returned] data.keep=[revenue] params.num_trees=5 tracking=none importance=null"
    run(
        "model=native,single_feature",
        *data.split(),
        "-m",
        "hydra.sweep.dir=study",
        folder=tmp_path,
    )

    limits = ["--max-psi=0.2", "--max-ks=0.1", "--max-unseen=0.5", "--min-overlap=1"]
    assert (
        "ndcg@10"
        in run("monitor", "study/0", "week.csv", *limits[:2], folder=tmp_path).stdout
    )
    words = [
        "monitor",
        "study/0",
        "drifted.parquet",
        *limits,
        "--against=study/1",
        "--output=out",
    ]
    told = run(*words, folder=tmp_path, check=3).stdout
    record = json.loads((tmp_path / "out/monitor.json").read_text())
    measures = pd.DataFrame(record["measures"]).set_index(["name", "feature"])
    limit = measures.check.map(lambda check: check["limit"] if check else np.inf)
    past = measures[
        (measures.low > limit) & (measures.index.get_level_values(0) != "overlap")
    ]
    assert {*past.index.get_level_values(1)} == {"price", "category", "rating"}
    assert (
        measures.value["unseen", "category"] == measures.value["missing", "rating"] == 1
    )
    assert not {("unseen", "price"), ("ndcg@10", "model")} & {*measures.index}
    assert 0 < measures.high["overlap", "model"] < 1
    page = (tmp_path / "out/monitor.html").read_text()
    assert all("no labels" in text and "price" in text for text in (told, page))
    for file, options, parts in (
        ("other.csv", [], ["other.csv", "'price'", "Add it"]),
        ("drifted.parquet", ["--max-fall=0.1"], ["0.1", "fall", "labels"]),
    ):
        error = run(
            "monitor", "study/0", file, *options, folder=tmp_path, check=2
        ).stderr
        assert re.search(naming(*parts), error), error
    (tmp_path / "shop.csv").unlink()
    error = run("monitor", "study/0", "week.csv", folder=tmp_path, check=2).stderr
    assert re.search(naming("shop.csv", "--reference"), error), error
    run("monitor", "study/0", "week.csv", "--reference=week.csv", folder=tmp_path)
