"""Splits: by query, from a seed, and without leakage."""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import TINY, run
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming

from ltrbench.data import (
    RankingDataset,
    Splits,
    TrainingResample,
    folds,
    split_latest,
    split_queries,
)
from ltrbench.data.features import SparseRows
from ltrbench.data.letor import read_letor
from ltrbench.data.sources import LetorFiles, TableFiles
from ltrbench.data.splits import check_files, near_duplicates, take_fold
from ltrbench.data.synthetic import Synthetic, make_synthetic
from ltrbench.errors import ConfigError, DataError
from ltrbench.rankers.random import RandomRanker
from ltrbench.runs import find_runs
from ltrbench.runs.origin import Trained


def dataset(num_queries: int, first: int = 0, num_features: int = 1) -> RankingDataset:
    """Returns queries of two documents; the query number, from `first`, is the id and the feature value."""
    numbers = np.arange(first, first + num_queries)
    return RankingDataset(
        features=np.repeat(numbers, 2)[:, None]
        .repeat(num_features, axis=1)
        .astype(np.float32),
        labels=np.tile([0.0, 1.0], num_queries),
        query_start=np.arange(num_queries + 1) * 2,
        query_ids=numbers.astype(np.str_),
    )


@given(
    num_queries=st.integers(2, 60),
    share=st.floats(0.001, 0.999),
    seed=st.integers(0, 2**32),
)
@settings(deadline=None)
def test_each_query_goes_to_one_side_and_stays_in_the_order_of_the_file(
    num_queries: int, share: float, seed: int
) -> None:
    rest, taken = split_queries(dataset(num_queries), share, seed, "test")
    numbers = [int(query_id) for side in (rest, taken) for query_id in side.query_ids]
    assert sorted(numbers) == list(range(num_queries))
    assert numbers[: rest.num_queries] == sorted(numbers[: rest.num_queries])
    assert numbers[rest.num_queries :] == sorted(numbers[rest.num_queries :])
    assert taken.num_queries == min(max(round(share * num_queries), 1), num_queries - 1)


@pytest.mark.parametrize(("leaking", "split"), [(1, "valid"), (2, "test")])
def test_a_query_in_two_splits_is_a_leak(leaking: int, split: str) -> None:
    parts = [dataset(3), dataset(3, first=3), dataset(3, first=6)]
    parts[leaking] = dataset(3, first=2)
    with pytest.raises(
        DataError, match=naming("query 2", "train", f"in {split}", "Remove the query")
    ):
        Splits(*parts)


def test_a_judged_list_under_another_id_is_a_leak() -> None:
    judged = RankingDataset(
        features=np.array([[0.5], [0.25]], dtype=np.float32),
        labels=np.array([0.0, 1.0]),
        query_start=np.array([0, 2]),
        query_ids=np.array(["a"]),
    )
    with pytest.raises(
        DataError,
        match=naming("query a", "train", "in test", "query b", "same documents"),
    ):
        Splits(judged, None, replace(judged, query_ids=np.array(["b"])))
    # The same documents with other labels may be another query, but not under the same id.
    relabelled = replace(judged, labels=np.array([1.0, 0.0]))
    Splits(judged, None, replace(relabelled, query_ids=np.array(["b"])))
    with pytest.raises(DataError, match=naming("query a", "train", "in test")):
        Splits(judged, None, relabelled)


FRAME = pd.DataFrame(
    {"qid": [1, 1], "label": [0, 1], "a": [1.0, 2], "b": [3.0, 4], "c": ["x", "y"]}
)
OTHER = FRAME.assign(qid=2, a=[5.0, 6])
SHOPS = ["x", "y", "z"]


@pytest.mark.parametrize(
    ("frame", "options", "parts"),
    [
        (OTHER[["qid", "label", "b", "a", "c"]], {}, ("feature 1", "'b'", "'a'")),
        (OTHER.rename(columns={"b": "d"}), {}, ("feature 2", "'d'", "'b'")),
        (OTHER.drop(columns="b"), {}, ("2 features", "3")),
        (OTHER, {"categories": {"c": SHOPS}}, ("'c'", "'z'", "categories=")),
        (OTHER.assign(b="2026-01-31"), {"dates": ["b"]}, ("'b'", "2026", "dates=")),
    ],
)
def test_splits_have_the_same_features_in_the_same_order(
    frame: pd.DataFrame, options: dict[str, Any], parts: tuple[str, ...]
) -> None:
    """The remedy restores the order of the training data; data without names have any."""
    categorical = {"categorical": ["c"]}
    train = RankingDataset.from_frame(FRAME, **categorical)
    other = RankingDataset.from_frame(frame, **{**categorical, **options})
    with pytest.raises(DataError, match=naming("test", "train", *parts)):
        Splits(train, None, other)
    with pytest.raises(DataError, match=naming("valid", "train", *parts)):
        RandomRanker().fit(train, other)
    with pytest.raises(DataError, match=naming("X", "train", *parts)):
        RandomRanker().fit(train).score(other)
    in_order = RankingDataset.from_frame(
        OTHER[["c", "label", "b", "a", "qid"]],
        feature_names=train.feature_names,
        categories=train.categories,
        dates=train.dates,
        encode=train.encoded,
    )
    Splits(train, None, in_order)


def test_numbers_as_names_of_features_are_no_names() -> None:
    train = dataset(2, num_features=2)
    other = dataset(2, first=5, num_features=2)
    for names in (("0", "1"), ("a", "b")):
        Splits(train, None, other.with_fields(feature_names=names))
    with pytest.raises(DataError, match=naming("feature 1", "'2'", "'1'")):
        Splits(train, None, other.with_fields(feature_names=("2", "1")))


@pytest.mark.parametrize("sparse", [False, True])
def test_the_whole_data_are_every_judged_query_with_weights_in_one_unit(
    sparse: bool,
) -> None:
    parts = [dataset(3), dataset(2, first=3), dataset(2, first=5)]
    weights = [np.array([1.0, 2.0, 6.0]), np.array([2.0, 1.0]), np.array([3.0, 3.0])]
    train, valid, test = (
        part.with_fields(
            query_weights=weight,
            kept={"price": part.features[:, 0]},
            features=SparseRows.of(part.features) if sparse else part.features,
        )
        for part, weight in zip(parts, weights, strict=True)
    )
    # Each file numbers its queries from 0.
    clash = test.with_fields(query_ids=np.array(["0", "1"]))
    whole = Splits(train, valid, clash).whole().train.in_memory(keep_sparse=True)
    assert isinstance(whole.features, SparseRows) == sparse
    np.testing.assert_array_equal(whole.features[:, 0], np.repeat(np.arange(7), 2))
    np.testing.assert_array_equal(whole.kept["price"], np.repeat(np.arange(7), 2))
    assert whole.query_ids.tolist() == [
        "0",
        "1",
        "2",
        "3#valid",
        "4#valid",
        "0#test",
        "1#test",
    ]
    np.testing.assert_array_equal(whole.labels, np.tile([0.0, 1.0], 7))
    expected = np.concatenate(weights)
    np.testing.assert_allclose(whole.query_weights, expected / expected.mean())  # type: ignore[arg-type]
    unjudged = Splits(train, valid, clash.with_fields(labels=np.zeros(4))).whole()
    assert (unjudged.train.num_queries, unjudged.valid) == (5, None)


def with_twins(num_queries: int, twins: list[int]) -> RankingDataset:
    """Returns queries of two documents; query `twins[i]` has the judged list of query i and another id."""
    source = [*twins, *range(len(twins), num_queries)]
    features = np.array(
        [[query, row] for query in source for row in (0, 1)], dtype=np.float32
    )
    return RankingDataset(
        features=features,
        labels=np.tile([0.0, 1.0], num_queries),
        query_start=np.arange(num_queries + 1) * 2,
    )


@given(
    twins=st.lists(st.integers(5, 11), max_size=5),
    num_folds=st.integers(2, 5),
    seed=st.integers(0, 99),
    share=st.floats(0.01, 0.99),
)
@settings(deadline=None)
def test_every_query_is_in_one_fold_and_queries_of_one_judged_list_in_the_same(
    twins: list[int], num_folds: int, seed: int, share: float
) -> None:
    whole, tested = with_twins(12, twins), []
    for fold in range(1, num_folds + 1):
        train, test = take_fold(whole, fold, num_folds, seed)
        Splits(train, None, test)  # which refuses a leak
        assert train.num_queries + test.num_queries == 12
        assert twins or test.num_queries in (12 // num_folds, -(-12 // num_folds))
        tested += test.query_ids.tolist()
    assert sorted(tested, key=int) == whole.query_ids.tolist()
    rest, taken = split_queries(whole, share, seed, "test")
    Splits(rest, None, taken)


def random_queries(
    seed: int, num_queries: int = 60, levels: int = 2**20
) -> RankingDataset:
    """Returns queries of 6 to 19 documents with 12 features, of which a third are 0, with `levels` values."""
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(rng.integers(6, 20, num_queries))])
    values = rng.integers(0, levels, (starts[-1], 12)) / 1000
    return RankingDataset(
        features=np.where(rng.random(values.shape) < 1 / 3, 0, values).astype(
            np.float32
        ),
        labels=rng.integers(0, 3, starts[-1]).astype(np.float64),
        query_start=starts,
        query_ids=np.array([f"{seed}-{number}" for number in range(num_queries)]),
    )


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("relative", "absolute"), [(1e-6, 0), (0, 1e-6), (1e-5, 1e-6), (1e-4, 0)]
)
def test_noisy_copies_of_queries_are_refused_in_two_files_and_stay_together_in_the_splits_of_one(
    relative: float, absolute: float, sparse: bool
) -> None:
    train, test = random_queries(1), random_queries(2)
    copied = test.take_queries(np.arange(0, 60, 6))
    noise = np.random.default_rng(0).standard_normal((2, *copied.features.shape))
    features = copied.features * (1 + relative * noise[0]) + absolute * noise[1]
    copies = copied.with_fields(
        features=features.astype(np.float32),
        query_ids=np.char.add("noisy ", copied.query_ids),
    )
    leaking = Splits(train, None, copies).whole().train
    if sparse:
        leaking = leaking.with_fields(features=SparseRows.of(leaking.features))
    first = ("noisy 2-0 and 2-0", "noisy 2-6 and 2-6", "noisy 2-12 and 2-12; ...")
    with pytest.raises(
        DataError, match=naming("train", "test", "10 pairs", *first, "leak", "Remove")
    ):
        check_files({"train": leaking, "valid": None, "test": test})
    unique = Splits(train, None, test).whole().train
    whole = Splits(unique, None, copies).whole().train
    for fold in range(1, 6):
        for rest, taken in (
            take_fold(whole, fold, 5, 0),
            split_queries(whole, fold / 6, fold, "test"),
        ):
            originals = [
                {each.split()[-1].split("#")[0] for each in ids(side)}
                for side in (rest, taken)
            ]
            assert originals[0].isdisjoint(originals[1])
            assert rest.num_queries + taken.num_queries == 130


def test_near_duplicates_leave_no_split_and_no_fold_empty() -> None:
    unique = random_queries(1, 11)
    near = unique.take_queries([0]).with_fields(query_ids=np.array(["near"]))
    features = near.features.copy()
    features[0] += 1
    near = near.with_fields(features=features)
    whole = Splits(unique, None, near).whole().train
    pair = [0, 11]
    for seed in range(30):
        for num_folds in (2, 5, 10, 11):
            parts = [part.tolist() for part in folds(whole, num_folds, seed)]
            assert all(parts)
            assert sorted(itertools.chain(*parts)) == list(range(12))
            assert any({*pair} <= {*part} for part in parts)
        for share in (0.001, 0.05, 0.5, 0.95):
            rest, taken = split_queries(whole, share, seed, "test")
            assert rest.num_queries + taken.num_queries == 12
    with pytest.raises(DataError, match=naming("cv is 12", "11 groups", "smaller cv")):
        folds(whole, 12, 0)


@given(
    seed=st.integers(0, 2**32),
    levels=st.integers(2, 100),
    num_features=st.integers(1, 12),
)
@settings(deadline=None)
def test_queries_of_few_different_documents_are_no_near_duplicates(
    seed: int, levels: int, num_features: int
) -> None:
    drawn = random_queries(seed, 80, levels)
    features = drawn.features[:, :num_features]
    assert not near_duplicates(
        [drawn.with_fields(features=features, feature_names=())]
    ).size


def test_a_published_fold_has_no_near_duplicates(
    letor_data: Callable[[str], Path],
) -> None:
    parts = [
        read_letor(letor_data("MQ2008") / "Fold1" / f"{name}.txt")
        for name in ("train", "vali", "test")
    ]
    assert not near_duplicates(parts).size
    check_files(dict(zip(("train", "valid", "test"), parts, strict=True)))


def test_an_id_in_two_files_is_refused_unless_each_file_numbers_its_queries(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def check(*of_file: list[str]) -> None:
        parts = [
            dataset(len(each)).with_fields(query_ids=np.array(each)) for each in of_file
        ]
        check_files({"train": parts[0], "valid": None, "test": parts[1]})

    with pytest.raises(
        DataError, match=naming("train", "test", "2 common", "b; c", "different ids")
    ):
        check(["a", "b", "c"], ["c", "d", "b"])
    check(["1", "2", "3", "4"], ["1", "2", "3"])
    assert not caplog.records  # data without ids are numbered, too
    check(["1", "2", "3", "4"], ["2", "9"])
    assert "train and test have 1 common query ids (2)" in caplog.text


@pytest.mark.parametrize("ending", ["csv", "txt", "query"])
def test_equal_numbers_as_ids_of_two_files_are_a_warning_if_they_are_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ending: str
) -> None:
    paths = {}
    for name, num_queries, first in (("train", 20, 0), ("test", 10, 100)):
        rows = [(query, f"{first + query}.5") for query in range(1, num_queries + 1)]
        path = tmp_path / f"{name}.txt"
        if ending == "csv":
            path = tmp_path / f"{name}.csv"
            lines = ["query_id,label,bm25", *(f"{a},1,{b}" for a, b in rows)]
        elif ending == "txt":
            lines = [f"1 qid:{a} 1:{b}" for a, b in rows]
        else:
            lines = [f"1 1:{b}" for _, b in rows]
            (tmp_path / f"{name}.txt.query").write_text("1\n" * num_queries)
        path.write_text("\n".join(lines))
        paths[name] = str(path)
    source = TableFiles if ending == "csv" else LetorFiles
    source(name="mine", train=paths["train"], test=paths["test"]).load()
    is_warned = "10 common query ids" in caplog.text
    assert is_warned is (ending != "query")


# Splits of tables by a column: by time, and by groups of queries that stay together.


Write = Callable[..., str]


def ids(split: RankingDataset | None) -> list[str]:
    assert split is not None
    return [str(query_id) for query_id in split.query_ids]


def frame(times: Sequence[Any], column: str = "date") -> pd.DataFrame:
    """Returns a table with a query of two documents for each time."""
    size = 2 * len(times)
    return pd.DataFrame(
        {
            "query_id": np.repeat(np.arange(len(times)), 2),
            "label": np.tile([0, 1], len(times)),
            column: [time for time in times for _ in range(2)],
            "bm25": np.arange(size) / 4,
        }
    )


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a table and returns its path."""

    def write(table: pd.DataFrame, name: str = "train.csv") -> str:
        path = tmp_path / name
        (table.to_csv if path.suffix == ".csv" else table.to_parquet)(path, index=False)
        return str(path)

    return write


def load(train: str, **settings: Any) -> Splits:
    return TableFiles(name="mine", train=train, **settings).load()


# Any data set


@given(
    times=st.lists(st.integers(0, 12), min_size=2, max_size=40).filter(
        lambda times: len(set(times)) > 1
    ),
    share=st.floats(0.01, 0.99),
    groups=st.lists(st.integers(0, 30), min_size=40, max_size=40),
)
@settings(deadline=None)
def test_every_query_held_out_by_time_is_later_than_every_other_query(
    times: list[int], share: float, groups: list[int]
) -> None:
    time_of = {str(query): time for query, time in enumerate(times)}
    earlier, latest = split_latest(dataset(len(times)), time_of, share, "test")
    assert sorted([*ids(earlier), *ids(latest)], key=int) == list(time_of)
    assert max(time_of[query] for query in ids(earlier)) < min(
        time_of[query] for query in ids(latest)
    )
    # No other boundary between two times is closer to the share.
    off = abs(latest.num_queries - share * len(times))
    assert all(
        off <= abs(sum(time >= first for time in times) - share * len(times)) + 1e-9
        for first in sorted(set(times))[1:]
    )
    group_of = dict(zip(time_of, map(str, groups), strict=False))
    try:
        earlier, latest = split_latest(
            dataset(len(times)), time_of, share, "test", group_of
        )
    except DataError:  # all groups have the same latest time
        return
    assert not {group_of[query] for query in ids(earlier)} & {
        group_of[query] for query in ids(latest)
    }
    assert max(time_of[query] for query in ids(earlier)) < max(
        time_of[query] for query in ids(latest)
    )


@given(
    groups=st.lists(st.integers(0, 8), min_size=4, max_size=40),
    num_folds=st.integers(2, 4),
    seed=st.integers(0, 99),
)
@settings(deadline=None)
def test_a_group_is_on_one_side_of_every_random_split_and_in_one_fold(
    groups: list[int], num_folds: int, seed: int
) -> None:
    group_of = {str(query): f"g{group}" for query, group in enumerate(groups)}
    whole, num_groups = dataset(len(groups)), len(set(groups))
    if num_groups < num_folds:
        with pytest.raises(
            DataError,
            match=naming(f"cv is {num_folds}", f"{num_groups} group", "smaller cv"),
        ):
            folds(whole, num_folds, seed, group_of)
        return
    rest, taken = split_queries(whole, 0.3, seed, "test", group_of)
    assert not {group_of[query] for query in ids(rest)} & {
        group_of[query] for query in ids(taken)
    }
    parts = folds(whole, num_folds, seed, group_of)
    assert sorted(query for part in parts for query in part) == list(range(len(groups)))
    groups_of_fold = [{groups[query] for query in part} for part in parts]
    assert sum(map(len, groups_of_fold)) == num_groups
    # The difference of two folds is at most the largest group.
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= max(map(groups.count, groups))


# Tables


DAYS = [
    datetime.datetime(2026, 1, 1) + datetime.timedelta(days=day) for day in range(10)
]

TIMES = {
    "days": [day.strftime("%Y-%m-%d") for day in DAYS],
    "zones": [f"2026-01-01T00:00:00+{9 - number:02}:00" for number in range(10)],
    "numbers of several digits": list(range(5, 15)),
    "datetimes": DAYS,
    "datetimes in a zone": [day.replace(tzinfo=datetime.UTC) for day in DAYS],
}


@pytest.mark.parametrize("name", ["train.csv", "train.parquet"])
@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
def test_the_latest_queries_are_the_test_set_and_those_before_are_validation(
    write: Write, name: str, times: list[Any]
) -> None:
    order = [3, 0, 9, 4, 1, 8, 2, 7, 5, 6]
    table = frame([times[place] for place in order])
    table.loc[0, "date"] = times[0]  # a query has the latest time of its rows
    train = write(table, name)
    splits = load(train, split_by="date")
    assert splits.train.feature_names == ("bm25",)
    by_time = [str(order.index(place)) for place in range(10)]
    # A fifth of ten queries, and a fifth of the eight that remain.
    assert ids(splits.test) == sorted(by_time[8:])
    assert ids(splits.valid) == sorted(by_time[6:8])
    assert ids(splits.train) == sorted(by_time[:6])
    # Neither the seed of the splits nor the order of the rows matters.
    assert ids(load(train, split_by="date", split_seed=7).test) == ids(splits.test)
    assert load(train, split_by="date", valid_share=0).valid is None


def months(*sizes: int) -> list[str]:
    """Returns times of queries: `sizes[i]` of them in month i + 1."""
    return [
        f"2026-{month:02}" for month, size in enumerate(sizes, 1) for _ in range(size)
    ]


def test_a_split_that_ties_make_far_larger_is_refused_and_another_states_its_share(
    write: Write,
) -> None:
    train = write(frame(months(20, 25, 75)), "train.csv")
    parts = ("test", "75 of 120", "62.5 %", "20 %", "2026-03", "data.test_share=0.625")
    with pytest.raises(DataError, match=naming(*parts, "data.split_by")):
        load(train, split_by="date")
    accepted = load(train, split_by="date", test_share=0.625, valid_share=0.5)
    assert accepted.test.num_queries == 75
    assert "test: latest 62.5 % of" in accepted.rule
    assert "55.6 % (50 % asked for) of the remaining" in accepted.rule
    (note,) = accepted.notes
    assert re.search(naming("valid", "25 of 45", "55.6 %", "50 %", "2026-02"), note)
    even = load(write(frame(months(*[1] * 12)), "even.csv"), split_by="date")
    assert even.notes == []


def test_times_that_vary_within_a_query_are_in_the_record_and_a_note(
    write: Write,
) -> None:
    table = frame(months(*[1] * 10))
    table.loc[0, "date"] = "2025-01"
    splits = load(write(table, "train.csv"), split_by="date")
    for text in (splits.rule, *splits.notes):
        assert re.search(naming("date", "1 queries", "several", "latest"), text)


@pytest.mark.parametrize(
    ("times", "parts"),
    {
        "an American date": (
            ["2026-01-02", "01/31/2026"],
            [":4:", "'date'", "'01/31/2026'", "2026-01-31"],
        ),
        "a word": (
            ["yesterday", 2],
            [":2:", "'yesterday'", "ISO 8601", "data.split_by"],
        ),
        "a missing time": ([1, None], [":4:", "'date'", "''", "every row"]),
        "a number among dates": (["2026-01-01", "17"], [":4:", "'17'", "all dates"]),
        "one time": (
            ["2026-01-01"] * 3,
            ["data.split_by", "3 queries", "2026-01-01", "test", "remove"],
        ),
    }.values(),
)
def test_a_column_that_gives_no_order_is_refused(
    write: Write, times: list[Any], parts: list[str]
) -> None:
    with pytest.raises(DataError, match=naming(*parts)):
        load(write(frame(times)), split_by="date")


@pytest.mark.parametrize(
    ("times", "gap"),
    [
        ([day.strftime("%Y-%m-%d") for day in DAYS], "3d"),
        ([day.strftime("%Y-%m-%d") for day in DAYS], "72h"),
        ([int(day.strftime("%Y%m%d")) for day in DAYS], "3d"),
        (list(range(10)), 3),
    ],
    ids=str,
)
def test_every_query_of_train_and_valid_is_a_gap_before_the_next_split(
    write: Write, times: list[Any], gap: str | int
) -> None:
    train = write(frame(times))
    splits = load(train, split_by="date", gap=gap)
    # Test begins at time 8, with 6 and 7 in the gap; valid, a fifth of 0 to 5, at 5, with 3 and 4 in the gap.
    assert [ids(split) for _, split in splits] == [["0", "1", "2"], ["5"], ["8", "9"]]
    assert splits.num_in_gaps == 4
    ends = {"train": (0, 2), "valid": (5, 5), "test": (8, 9)}
    written = [str(day.date()) for day in DAYS] if isinstance(gap, str) else times
    assert splits.spans == {
        name: (str(written[a]), str(written[b])) for name, (a, b) in ends.items()
    }
    with pytest.raises(DataError, match=naming("data.gap", "before valid", "smaller")):
        load(
            train, split_by="date", gap=str(gap).replace("3", "6").replace("72", "144")
        )


@pytest.mark.parametrize(
    ("times", "gap"), [(DAYS, "0d"), (DAYS, "0h"), (list(range(10)), 0)], ids=str
)
def test_a_gap_of_nothing_is_no_gap(
    write: Write, times: list[Any], gap: object
) -> None:
    train = write(frame(times))
    ways: list[dict[str, Any]] = [{}, {"cv": 3, "fold": 2, "cv_split": "forward"}]
    for way in ways:
        without = load(train, split_by="date", **way)
        splits = load(train, split_by="date", gap=gap, **way)
        expected = [ids(split) for _, split in without]
        assert [ids(split) for _, split in splits] == expected
        assert splits.num_in_gaps == without.num_in_gaps


def test_folds_in_order_of_time_train_on_earlier_queries_only(write: Write) -> None:
    order = [3, 0, 9, 4, 1, 8, 2, 7, 5, 6]
    train = write(frame([DAYS[place] for place in order]))
    settings: dict[str, Any] = {
        "split_by": "date",
        "cv": 4,
        "cv_split": "forward",
        "valid_share": 0.5,
    }
    place_of = {str(query): place for query, place in enumerate(order)}
    windows = []
    for fold in range(1, 5):
        parts = [
            {place_of[query] for query in ids(split)}
            for _, split in load(train, fold=fold, **settings)
        ]
        # Without a gap every query before the window is used.
        assert sorted(parts[0] | parts[1]) == list(range(min(parts[2])))
        assert max(parts[0]) < min(parts[1])
        windows.append(sorted(parts[2]))
    assert windows == [[2, 3], [4, 5], [6, 7], [8, 9]]
    _, _, test = (split for _, split in load(train, fold=3, gap="2d", **settings))
    assert {place_of[query] for query in ids(test)} == {6, 7}
    source = TableFiles(name="mine", train=train, fold=1, gap="2d", **settings)
    assert source.with_all_queries().load().whole().train.num_queries == 10
    with pytest.raises(
        DataError, match=naming("cv=10", "10 different times", "smaller cv")
    ):
        load(train, **{**settings, "cv": 10}, fold=1)


def test_a_final_model_trains_on_all_queries_also_if_the_runs_had_a_subset(
    tmp_path: Path,
) -> None:
    lines = [f"{row % 2} qid:{row // 2} 1:{row}\n" for row in range(80)]
    path = tmp_path / "train.txt"
    path.write_text("".join(lines))
    source = LetorFiles(name="mine", train=str(path), subset=0.1)
    assert source.load().whole().train.num_queries < 40
    assert source.with_all_queries().load().whole().train.num_queries == 40
    assert source.subset == 0.1


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"gap": "7d"}, ["data.gap", "7d", "data.split_by"]),
        (
            {"cv_split": "forward", "split_by": "date"},
            ["cv_split=forward", "cv", "(null)"],
        ),
        (
            {"cv_split": "forward", "cv": 3, "fold": 1},
            ["cv_split=forward", "data.split_by", "(null)"],
        ),
        ({"split_by": "date", "gap": "7"}, ["data.gap", "'7'", "7d"]),
        ({"split_by": "date", "gap": "a week"}, ["data.gap", "'a week'", "7d"]),
        (
            {"split_by": "bm25", "gap": "7d", "ignore": ["date"]},
            ["data.gap", "'7d'", "numbers"],
        ),
        ({"split_by": "date", "gap": "200000d"}, ["data.gap", "'200000d'", "7d"]),
        ({"split_by": "date", "gap": f"{'9' * 400}d"}, ["data.gap", "999", "7d"]),
        (
            {"split_by": "date", "cv": 5, "fold": 1},
            ["split_by=date", "cv_split=forward", "data.train"],
        ),
        (
            {"split_by": "date", "test": "x.csv"},
            ["split_by=date", "data.valid", "data.test"],
        ),
    ],
    ids=str,
)
def test_settings_of_time_that_do_not_fit_are_refused(
    write: Write, settings: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises(ConfigError, match=naming(*parts)):
        load(write(frame(DAYS).assign(age=1)), **settings)


def test_a_group_in_two_files_is_a_leak(write: Write) -> None:
    train = write(frame(["a", "b"], "cluster"))
    test = frame(["c", "b"], "cluster").assign(
        query_id=[7, 7, 8, 8], bm25=[8, 9, 10, 11]
    )
    path = write(test, "test.csv")
    with pytest.raises(
        DataError,
        match=naming("'b'", "query 1", "train", "query 8", "test", "one file"),
    ):
        load(train, test=path, group_by="cluster", valid_share=0)
    write(test.assign(cluster="c"), "test.csv")
    assert ids(load(train, test=path, group_by="cluster", valid_share=0).test) == [
        "7",
        "8",
    ]
    write(test.drop(columns="cluster"), "test.csv")
    with pytest.raises(DataError, match=naming("test.csv", "'cluster'", "group_by")):
        load(train, test=path, group_by="cluster", valid_share=0)


# Training on resamples of the training queries: the draw, the record, and the sweep.


SOURCE = Synthetic(name="synthetic", num_queries=30, valid_share=0.25)


def test_a_bootstrap_holds_a_query_as_often_as_it_was_drawn() -> None:
    train = make_synthetic(10)
    drawn = np.sort(np.random.default_rng([7, 2]).integers(0, 10, 10))
    made = TrainingResample(number=3, index=2, seed=7).of(train)
    assert (
        made.query_keys.tolist() == train.query_keys[drawn].tolist()
    )  # of features and labels


@pytest.mark.slow
def test_a_sweep_trains_every_model_on_every_resample_and_records_which(
    tmp_path: Path,
) -> None:
    words = (
        "model=native,single_feature",
        "replicates=2",
        "seed=5",
        "-m",
        "hydra.sweep.dir=s",
    )
    run(*words, *TINY, folder=tmp_path)
    sweep, splits = find_runs([tmp_path / "s"]), SOURCE.load()
    of_job = [
        (done.result.model, done.result.data["resample"]["index"]) for done in sweep
    ]
    assert of_job == [
        ("native", 1),
        ("native", 2),
        ("single_feature", 1),
        ("single_feature", 2),
    ]
    for done, (_, index) in zip(sweep, of_job, strict=True):
        drawn, data = TrainingResample(number=2, index=index), done.result.data
        assert data["resample"] == {
            **{
                "kind": "bootstrap",
                "share": 1.0,
                "number": 2,
                "index": index,
                "seed": 0,
            },
            **{"train": splits.train.fingerprint, "queries": splits.train.num_queries},
        }
        trained_on = Splits(drawn.of(splits.train), splits.valid, splits.test)
        for name, split in trained_on:
            assert data[name]["fingerprint"] == split.fingerprint
        assert data["train"]["queries"] == trained_on.train.num_queries
        assert done.result.seed == done.result.ranker["fields"]["seed"] == 5 + index - 1
        assert done.result.swept["replicates.index"] == ["1", "2"]
        assert done.result.origin == Trained()
