"""Kept columns and categories of a table: from the file through a run to metrics and slices of its folder."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml  # type: ignore[import-untyped]
from messages import naming
from shop_log import shop_log

from ltrbench.cli import main
from ltrbench.cli.verbs.runs import (
    check_columns,
    load_model,
    options_as_trained,
    source_with,
)
from ltrbench.compare import compare, slices
from ltrbench.compare.groups import column_of_queries
from ltrbench.data import Judgments, RankingDataset, read_table
from ltrbench.data.sources import (
    LetorFiles,
    StoreFiles,
    TableFiles,
    provenance_of,
    read_data,
    read_features,
)
from ltrbench.data.store import write_store
from ltrbench.data.tables import write_frame
from ltrbench.errors import ConfigError, DataError
from ltrbench.experiment import Experiment, run
from ltrbench.experiment.columns import DataPlan, propose
from ltrbench.rankers.random import RandomRanker
from ltrbench.runs.record import Run, read_run

CATEGORICAL, KEEP = ["brand"], ["revenue", "market"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Thirty queries of five documents, the brands of the last six only there, with blanks in the ids."""
    rng, queries = np.random.default_rng(0), np.repeat(np.arange(30), 5)
    brands = np.where(queries < 24, rng.choice(["ä", "b c", ""], 150), "new")
    columns: dict[str, Any] = {
        "query_id": [f"red lamp {query}" for query in queries],
        "document_id": [f"p {row}" for row in range(150)],
        "label": rng.integers(0, 3, 150),
        "bm25": rng.normal(size=150),
        "brand": brands,
        "revenue": rng.random(150),
        "market": np.where(queries % 3 == 0, "at", "de"),
    }
    pd.DataFrame(columns).to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


def test_a_run_folder_has_the_columns_for_metrics_slices_and_files(
    table: Path, tmp_path: Path
) -> None:
    source = TableFiles(
        name="shop", train=str(table), categorical=CATEGORICAL, keep=KEEP
    )
    done = run(
        Experiment(model="random", ranker=RandomRanker(), source=source),
        tmp_path / "run",
    )
    test, judgments = source.load().test, read_run(done.path).scored("test").judgments
    assert judgments.columns.keys() == {"brand", *KEEP}
    for name in (*judgments.columns, "query_id", "document_id"):
        np.testing.assert_array_equal(judgments.column(name), test.column(name))
    # A file with some of the categories gets the codes of training.
    (part := tmp_path / "part.csv").write_text("bm25,brand\n0.5,ä\n0.5,none\n")
    options = options_as_trained(done, load_model(done, None), part, ())
    np.testing.assert_array_equal(
        read_features(part, **options), [[0.5, 2], [0.5, np.nan]]
    )
    comparison = compare([done])[0]
    sizes = {item.name: item.num_queries for item in slices(comparison, ["market"])}
    assert sizes == Counter(column_of_queries(test, "market"))
    with pytest.raises(ConfigError, match=r"brnd.*'brand'"):
        slices(comparison, ["brnd"])


@pytest.mark.parametrize(
    "read", ["features=[bm25]", "categorical=[]", "dates=[bm25]", "feature_names=[x]"]
)
def test_options_that_change_the_features_of_a_model_are_refused(
    table: Path, tmp_path: Path, read: str
) -> None:
    source = TableFiles(
        name="shop", train=str(table), categorical=CATEGORICAL, keep=KEEP
    )
    experiment = Experiment(model="random", ranker=RandomRanker(), source=source)
    done = run(experiment, tmp_path / "run")
    with pytest.raises(ConfigError, match=naming(read.partition("=")[0], done.path)):
        options_as_trained(done, load_model(done, None), table, [read])


def test_names_of_another_letor_file_must_be_those_of_the_run(tmp_path: Path) -> None:
    data = tmp_path / "train.txt"
    lines = [f"{row % 2} qid:{row // 4} 1:{row} 2:{-row}\n" for row in range(80)]
    data.write_text("".join(lines))
    same = tmp_path / "same.txt"
    same.write_text("bm25, 1\nprice, 2\n")
    swapped = tmp_path / "swapped.txt"
    swapped.write_text("price, 1\nbm25, 2\n")
    source = LetorFiles(name="shop", train=str(data), feature_names=str(same))
    experiment = Experiment(model="random", ranker=RandomRanker(), source=source)
    done = run(experiment, tmp_path / "run")
    model = load_model(done, None)
    read = f"feature_names={same}"
    assert options_as_trained(done, model, data, [read])["feature_names"] == str(same)
    with pytest.raises(DataError, match=naming(swapped, "'price'", "'bm25'")):
        options_as_trained(done, model, data, [f"feature_names={swapped}"])


def run_on_store(source: LetorFiles | TableFiles, folder: Path, **options: Any) -> Run:
    """A run on a store of the training file of a source that was read with options."""
    [data] = source.existing("train")
    provenance = provenance_of([data], options)
    write_store(folder / "store", read_data(data, **options), provenance=provenance)
    stores = StoreFiles(name="mine", train=str(folder / "store"))
    experiment = Experiment(model="random", ranker=RandomRanker(), source=stores)
    return run(experiment, folder / "run")


@pytest.mark.parametrize(
    ("row", "options"),
    [
        (
            "{label} qid:{query} {row}:{row}",
            {"absent": float("nan"), "num_features": 90},
        ),
        ("{label} qid:{query} 0:{row} 1:2", {"first_index": 0}),
        ("{label} qid:{query} 1:{row} 2:1e39", {"overflow": "cap"}),
        ("{label} qid:{query} 1:{row} 2:NULL", {"nulls": "missing"}),
        ("{query},{label},-1,2026-01-2{label}", {"missing": ["-1"], "dates": ["day"]}),
        ("{query},{label},-1,{label}", {"categorical": ["day"], "encode": ["day"]}),
    ],
)
def test_a_file_is_read_like_the_source_of_the_store_of_a_run(
    tmp_path: Path, row: str, options: dict[str, Any]
) -> None:
    source: LetorFiles | TableFiles
    lines = []
    for number in range(1, 81):
        values = {"row": number, "label": number % 2, "query": number // 4}
        lines.append(row.format(**values) + "\n")
    if "qid" in row:
        data = tmp_path / "data.txt"
        source = LetorFiles(name="mine", train=str(data))
    else:
        data = tmp_path / "data.csv"
        lines.insert(0, "query_id,label,bm25,day\n")
        source = TableFiles(name="mine", train=str(data))
    data.write_text("".join(lines))
    done = run_on_store(source, tmp_path, **options)
    model = load_model(done, None)
    part = tmp_path / f"part{data.suffix}"
    is_table = data.suffix == ".csv"
    part.write_text("".join([*lines[:is_table], *lines[-8:]]))
    of_part = read_features(part, **options_as_trained(done, model, part, ()))
    np.testing.assert_array_equal(of_part, read_data(data, **options).features[-8:])
    store = tmp_path / "store"
    of_store = read_features(store, **options_as_trained(done, model, store, ()))
    np.testing.assert_array_equal(of_store[:][-8:], of_part)


@pytest.mark.parametrize("is_store", [True, False])
def test_a_store_that_was_read_in_another_way_than_the_run_is_refused(
    tmp_path: Path, is_store: bool
) -> None:
    data = tmp_path / "data.txt"
    lines = [f"{row % 2} qid:{row // 4} {1 + row % 2}:{row}\n" for row in range(80)]
    data.write_text("".join(lines))
    source = LetorFiles(name="mine", train=str(data), absent=float("nan"))
    if is_store:
        done = run_on_store(source, tmp_path, absent=float("nan"))
    else:
        experiment = Experiment(model="random", ranker=RandomRanker(), source=source)
        done = run(experiment, tmp_path / "run")
    other = tmp_path / "other"
    write_store(other, read_data(data), provenance=provenance_of([data], {}))
    options = options_as_trained(done, load_model(done, None), other, ())
    with pytest.raises(DataError, match=naming(other, "absent=0", "absent=nan")):
        read_features(other, **options)
    if is_store:
        with pytest.raises(DataError, match=naming(other, "--read absent=nan")):
            source_with([other], done)


def _run_of_table(frame: pd.DataFrame, folder: Path, **settings: Any) -> Run:
    frame.to_parquet(folder / "train.parquet")
    train = str(folder / "train.parquet")
    source = TableFiles(name="mine", train=train, sort_queries=True, **settings)
    experiment = Experiment(model="random", ranker=RandomRanker(), source=source)
    return run(experiment, folder / "run")


@pytest.fixture
def shops() -> pd.DataFrame:
    rows = np.arange(120)
    columns = {
        "query_id": rows // 4,
        "label": rows % 2,
        "price": rows % 7,
        "cat_shop": rows % 12,
        "day": [f"2026-01-{1 + row % 9:02}" for row in rows],
    }
    return pd.DataFrame(columns)


def test_other_tables_have_the_features_of_the_run_with_their_kinds(
    shops: pd.DataFrame, tmp_path: Path
) -> None:
    typed = shops.assign(price=shops.price.astype("category"))
    done = _run_of_table(typed, tmp_path, categorical=["cat_*"], dates=["da*"])
    newer = shops.assign(cat_leak=shops.label.astype(str), data=shops.day)
    newer.to_csv(tmp_path / "newer.csv", index=False)
    newer.to_parquet(tmp_path / "newer.parquet")
    for name in ("train.parquet", "newer.csv", "newer.parquet"):
        file = tmp_path / name
        train = source_with([file], done).load().train
        check_columns(train, [file], done)
        assert train.feature_names == ("price", "cat_shop", "day"), name
        assert train.categories.keys() == {"price", "cat_shop"}, name
        assert train.dates.keys() == {"day"}, name


def test_a_type_of_categories_does_not_change_the_kind_of_a_known_feature(
    shops: pd.DataFrame, tmp_path: Path
) -> None:
    done = _run_of_table(shops, tmp_path, ignore=["day"])
    typed = shops.assign(price=shops.price.astype("category"))
    file = tmp_path / "typed.parquet"
    typed.to_parquet(file)
    train = source_with([file], done).load().train
    with pytest.raises(DataError, match=naming(file, "price", done.path)):
        check_columns(train, [file], done)
    # As predict reads it.
    options = options_as_trained(done, load_model(done, None), file, ())
    read = read_data(file, **options)
    assert not read.categories


@pytest.mark.parametrize(
    ("changes", "options", "name"),
    [
        ({"cat_leak": "a"}, {"categorical": ["cat_*"], "dates": ["day"]}, "cat_leak"),
        ({}, {"categorical": ["cat_*"], "ignore": ["price", "day"]}, "price"),
        ({}, {"dates": ["day"]}, "cat_shop"),
        ({"day": 3}, {"categorical": ["cat_*"]}, "day"),
    ],
)
def test_other_stores_must_have_the_features_of_the_run_with_their_kinds(
    shops: pd.DataFrame,
    tmp_path: Path,
    changes: dict[str, Any],
    options: dict[str, Any],
    name: str,
) -> None:
    data = tmp_path / "data.csv"
    shops.to_csv(data, index=False)
    source = TableFiles(name="mine", train=str(data))
    done = run_on_store(source, tmp_path, categorical=["cat_*"], dates=["day"])
    other = tmp_path / "other"
    write_store(other, read_table(shops.assign(**changes), **options))
    train = source_with([other], done).load().train
    with pytest.raises(DataError, match=naming(other, name, done.path)):
        check_columns(train, [other], done)


@pytest.mark.parametrize("kind", ["table", "store", "click_simulation"])
def test_verbs_read_the_tables_of_a_run_whatever_their_extension(
    shops: pd.DataFrame, tmp_path: Path, kind: str
) -> None:
    data = tmp_path / "week.txt"
    rows = shops.assign(label=shops.price % 3, stock=np.arange(len(shops)))
    rows.to_csv(data, index=False)
    rows.to_csv(tmp_path / "week.csv", index=False)
    options = ["categorical=[cat_shop]", "ignore=[day]"]
    words = [f"data.train={data}", *(f"data.{option}" for option in options)]
    if kind == "store":
        store = str(tmp_path / "store")
        build = ["data", "build", str(data), "--output", store]
        for option in (*options, "as_table=true"):
            build += ["--read", option]
        assert main(build) == 0
        words = [f"data.train={store}"]
    elif kind == "click_simulation":
        of_labelled = [word.replace("data.", "data.from.", 1) for word in words]
        words = ["data.from=table", *of_labelled, "data.propensity=power:1"]
    folder = str(tmp_path / "run")
    usual = ["model=native", "params.num_trees=2", "tracking=none", "importance=none"]
    assert main([f"data={kind}", *words, *usual, f"hydra.run.dir={folder}"]) == 0
    scores = []
    for name in ("week.txt", "week.csv"):
        file = str(tmp_path / name)
        output = tmp_path / f"scores.{name}.csv"
        assert main(["predict", folder, file, "--output", str(output)]) == 0
        scores.append(output.read_text())
        unlabelled = str(tmp_path / f"new.{name}")
        rows.drop(columns="label").to_csv(unlabelled, index=False)
        assert main(["monitor", folder, unlabelled, "--reference", file]) == 0
        ship = ["ship", folder, "--to", "c", "--output", f"{folder}.{name}"]
        assert main([*ship, "--data", file]) == 0
    assert scores[0] == scores[1]


def test_a_file_is_read_like_the_labelled_data_of_a_simulation(tmp_path: Path) -> None:
    data = tmp_path / "data.txt"
    lines = [f"{row % 2} qid:{row // 4} 0:{row} 1:{row % 3}\n" for row in range(400)]
    data.write_text("".join(lines))
    words = [f"data.from.train={data}", "data.from=letor", "data.from.first_index=0"]
    folder = tmp_path / "run"
    words += ["data.propensity=power:1", f"hydra.run.dir={folder}"]
    words += ["tracking=none", "model=random"]
    assert main(["data=click_simulation", *words]) == 0
    done = read_run(folder)
    options_of_run = options_as_trained(done, load_model(done, None), data, ())
    assert options_of_run["first_index"] == 0


@dataclass
class Unfitted(RandomRanker):
    def fit(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("was fitted")


def test_negative_values_in_the_test_set_are_refused_before_the_fit(
    table: Path, tmp_path: Path
) -> None:
    rows = pd.read_csv(table)
    rows.loc[rows.index[-1], "revenue"] = -4
    paths = {"train": rows[:50], "valid": rows[50:100], "test": rows[100:]}
    for name, part in paths.items():
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    files: dict[str, Any] = {name: str(tmp_path / f"{name}.csv") for name in paths}
    source = TableFiles(name="shop", **files, categorical=CATEGORICAL, keep=KEEP)
    experiment = Experiment(
        model="random",
        ranker=Unfitted(),
        source=source,
        metrics=("nvalue@2:revenue",),
    )
    with pytest.raises(DataError, match=naming("revenue", -4, "value@k:revenue")):
        run(experiment, tmp_path / "run")


def test_a_column_has_one_value_per_query_the_mean_or_the_most_frequent() -> None:
    kept: Any = {
        "price": [1, 2, np.nan, 4, 4, 7],
        "brand": ["b", "a", "a", "d", "c", ""],
        "stock": [2, 2, 3, np.nan, 4, np.nan],
    }
    judgments = Judgments(
        labels=np.zeros(6), query_start=np.array([0, 3, 5, 6]), kept=kept
    )
    assert column_of_queries(judgments, "price").tolist() == [1.5, 4, 7]
    assert column_of_queries(judgments, "brand").tolist() == ["a", "d", "missing"]
    np.testing.assert_equal(column_of_queries(judgments, "stock"), [7 / 3, 4, np.nan])
    with pytest.raises(DataError, match=r"'brnd'.*'brand'.*data.keep"):
        judgments.column("brnd")


def test_every_split_has_the_codes_of_the_training_file_also_from_the_cache_and_from_stores(
    table: Path, tmp_path: Path
) -> None:
    rows = pd.read_csv(table, keep_default_na=False)
    parts = {
        "train": rows[:100],
        "test": rows.iloc[100:, ::-1],
    }  # columns are matched by name
    paths: dict[str, Any] = {name: str(tmp_path / f"{name}.csv") for name in parts}
    for name, part in parts.items():
        part.to_csv(paths[name], index=False)
    options: dict[str, Any] = {"categorical": CATEGORICAL, "keep": KEEP}
    source = TableFiles(name="shop", **paths, **options, cache=str(tmp_path / "cache"))
    first, second = source.load(), source.load()
    assert first.test.categories == first.train.categories == {"brand": ("b c", "ä")}
    assert {split.feature_names for _, split in first} == {("bm25", "brand")}
    assert (
        first.test.column("brand").tolist()
        == parts["test"]["brand"].replace("new", "").tolist()
    )
    stores: dict[str, Any] = {name: str(tmp_path / f"{name}.store") for name in parts}
    for name, store in stores.items():
        write_store(
            Path(store),
            read_table(paths[name], **options, categories=first.train.categories),
        )
    stored = StoreFiles(name="shop", **stores).load()
    for splits in (second, stored):
        assert [split.fingerprint for _, split in splits] == [
            split.fingerprint for _, split in first
        ]
    write_store(
        tmp_path / "other.store", RankingDataset.from_frame(parts["test"], **options)
    )
    with pytest.raises(DataError, match=r"'brand'.*categories=train.categories"):
        StoreFiles(
            name="shop", train=stores["train"], test=str(tmp_path / "other.store")
        ).load()


def _read_as_in_yaml(plan: DataPlan) -> RankingDataset:
    options = yaml.safe_load(plan.yaml())
    if "split_by" in options:
        options.setdefault("ignore", []).append(options.pop("split_by"))
    for name in ("defaults", "name", "train", "gap"):
        options.pop(name, None)
    return read_table(plan.path, **options)


@pytest.mark.parametrize("can_split_categories", [True, False])
def test_a_plan_has_the_data_set_that_its_yaml_reads(
    tmp_path: Path, can_split_categories: bool
) -> None:
    path = tmp_path / "shop.parquet"
    shop_log(100).to_parquet(path)
    plan = propose(path, {}, can_split_categories=can_split_categories)
    assert {"brand", "revenue"} <= plan.left_out.keys()
    expected = _read_as_in_yaml(plan)
    for name in ("fingerprint", "feature_names", "categories", "encoded", "dates"):
        assert getattr(plan.dataset, name) == getattr(expected, name), name
    assert plan.dataset.num_features == expected.num_features


def test_a_plan_names_columns_of_numbers_with_a_type_of_categories(
    shops: pd.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / "shops.parquet"
    typed = shops.assign(price=shops.price.astype("category"))
    typed.to_parquet(path)
    assert propose(path, {}).categorical == ["price"]
    encoded = propose(path, {}, can_split_categories=False)
    assert encoded.encode == ["price"]
    assert not encoded.dataset.categories


@pytest.mark.parametrize(
    ("usual", "odd", "row", "parts"),
    [
        ("2026-01-{:02}", "01/02/2026", 6, ["t.csv:8 ", "'01/02/2026'", "ISO 8601"]),
        ("{:02}/03/2026", "28/03/2026", 0, ["t.csv:2 ", "'28/03/2026'", "ISO 8601"]),
        ("{}", "-", 6, ["t.csv:8 ", "'-'", "--missing - ", '"null", "-"]']),
        (
            "{}",
            "non spécifié",
            6,
            [
                "t.csv:8 ",
                "'non spécifié'",
                "--missing 'non spécifié' ",
                '"null", "non spécifié"]',
            ],
        ),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_column_of_numbers_or_dates_with_a_mistake_is_left_out_with_its_first_cell(
    tmp_path: Path, suffix: str, usual: str, odd: str, row: int, parts: list[str]
) -> None:
    table = shop_log(100)[["query_id", "label", "price"]]
    table["when"] = [usual.format(number % 28 + 1) for number in range(len(table))]
    table.loc[row, "when"] = odd
    path = tmp_path / f"t.{suffix}"
    write_frame(table, path)
    place, *others = parts
    if suffix == "parquet":
        place = f"t.parquet: row {row + 1} "
    reason = propose(path, {}).left_out["when"]
    assert all(part in reason for part in (place, *others)), reason
    assert propose(path, {}, kept={"when"}).categorical == ["when"]


@pytest.mark.parametrize("usual", ["{}", "2026-01-{:02}"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_text_that_is_named_as_missing_leaves_a_column_its_numbers_or_dates(
    tmp_path: Path, suffix: str, usual: str
) -> None:
    table = shop_log(100)[["query_id", "label", "price"]]
    table["when"] = [usual.format(number % 28 + 1) for number in range(len(table))]
    table.loc[[6, 7], "when"] = "Unknown"
    path = tmp_path / f"t.{suffix}"
    write_frame(table, path)
    plan = propose(path, {}, missing=["unknown", "-", "0"])
    assert "when" in plan.dataset.feature_names
    assert not plan.categorical
    column = plan.dataset.feature_names.index("when")
    assert np.isnan(plan.dataset.features[:, column]).nonzero()[0].tolist() == [6, 7]
    assert _read_as_in_yaml(plan).fingerprint == plan.dataset.fingerprint


@pytest.mark.parametrize(
    ("times", "gap"),
    [
        ([f"2026-01-{day:02}" for day in range(1, 31)] * 2, "1d"),
        ([20260101 + day for day in range(30)] * 2, "1d"),
        ([1767225600 + 100 * number for number in range(60)], "236"),
    ],
)
def test_the_gap_of_a_plan_has_the_units_of_its_times(
    tmp_path: Path, times: list[object], gap: object
) -> None:
    rows = {"query_id": range(60), "label": [0, 1] * 30, "bm25": np.arange(60) % 7}
    path = tmp_path / "t.csv"
    pd.DataFrame({**rows, "time": times}).to_csv(path, index=False)
    plan = propose(path, {})
    assert plan.roles["split_by"] == "time"
    assert plan.gap == gap
    assert plan.source().load().test.num_queries > 0


@dataclass(frozen=True)
class Guess:
    """A table of 60 queries with ten documents each, and what is guessed of its columns.

    Attributes:
        columns: its columns beside query_id, label and bm25.
        kept: features that stay.
        roles: roles beside or instead of those of query_id and label.
        left_out: columns that are no features.
        categorical, dates: features of these kinds.
    """

    columns: dict[str, Any]
    kept: tuple[str, ...] = ()
    roles: dict[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()


ROW = np.arange(600)
QUERY = ROW // 10
LABELS = np.random.default_rng(1).integers(0, 2, 600)
HOURS = pd.Series(pd.Timestamp("2026-01-01") + pd.to_timedelta(QUERY, unit="h"))
DAYS = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(ROW * 7 % 400, unit="D"))
TEXTS = pd.Series(ROW).astype(str)
GUESSES = {
    "the times of clicks": Guess(
        {"clicked_at": HOURS.where(LABELS == 1), "timestamp": HOURS},
        roles={"split_by": "timestamp"},
        left_out=("clicked_at",),
    ),
    "dates of documents": Guess({"release_date": DAYS}, dates=("release_date",)),
    "weights of documents": Guess({"weight": ROW / 7}, left_out=("weight",)),
    "weights that are kept": Guess({"weight": ROW / 7}, kept=("weight",)),
    "weights of queries": Guess({"weight": 1 + QUERY}, roles={"weight": "weight"}),
    "a missing position": Guess(
        {"position": np.where(ROW == 3, np.nan, ROW % 10)}, left_out=("position",)
    ),
    "kinds of products": Guess(
        {"product": np.array(["bag", "shoe"])[ROW % 2]}, categorical=("product",)
    ),
    "values of one label each": Guess(
        {"event": np.where(LABELS, "click", np.array(["hover", "seen"])[ROW % 2])},
        left_out=("event",),
    ),
    "sessions with searches": Guess(
        {"query_id": None, "session_id": QUERY // 3, "search_id": QUERY},
        roles={"query": "search_id"},
        left_out=("session_id",),
    ),
    "decimals and truth values": Guess(
        {
            "price": [Decimal(f"{row}.5") for row in (ROW % 70).tolist()],
            "is_new": pd.Series(ROW % 3 == 0).where(ROW != 3, None),
        }
    ),
    "digits that are no dates": Guess(
        {"barcode": "4006381" + TEXTS.str.zfill(6)}, left_out=("barcode",)
    ),
    "texts of queries, and an index": Guess(
        {"title": "words " + pd.Series(QUERY).astype(str), "": ROW},
        left_out=("title", ""),
    ),
}


@pytest.mark.parametrize("guess", GUESSES.values(), ids=list(GUESSES))
def test_roles_and_kinds_follow_from_names_and_cells(
    guess: Guess, tmp_path: Path
) -> None:
    usual = {"query_id": QUERY, "label": LABELS, "bm25": np.sin(ROW)}
    table = pd.DataFrame({**usual, **guess.columns}).dropna(axis=1, how="all")
    path = tmp_path / "t.parquet"
    table.to_parquet(path, index=False)
    plan = propose(path, {}, kept={*guess.kept})
    roles = {"query": "query_id", "label": "label", **guess.roles}
    assert plan.roles == roles
    assert {*plan.left_out} == {*guess.left_out}
    assert {*plan.categorical} == {*guess.categorical}
    assert {*plan.dates} == {*guess.dates}
    train = plan.source().load().train
    no_features = {*roles.values(), *guess.left_out}
    assert {*train.feature_names} == {*table.columns} - no_features
