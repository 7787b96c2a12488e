"""What a comparison refuses, and what the message must name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from messages import naming
from model_files import stumps_as_json
from run_cases import finished_run
from toy_runs import write

from ltrbench.cli.verbs.runs import load_splits
from ltrbench.compare import (
    Guard,
    Settings,
    answer_of,
    compare,
    read_attributes,
    slices,
)
from ltrbench.compare.derived import Fusing, Import, fuse, import_like, import_runs
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import LtrbenchError
from ltrbench.metrics import preset
from ltrbench.runs.record import FAILED, Run, RunResult
from ltrbench.runs.writing import write_run


def pair(folder: Path, **second: Any) -> list[Run]:
    return [write(folder / "a", "native"), write(folder / "b", "xgboost", **second)]


def fusable(folder: Path, **second: Any) -> list[Run]:
    return [
        finished_run(folder / "a", "native"),
        finished_run(folder / "b", "lightgbm", **second),
    ]


def failed(folder: Path) -> Run:
    result = RunResult(
        status=FAILED, model="native", params="matched", seed=0, data={"name": "toy"}
    )
    return write_run(folder / "failed", result)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def sliced(folder: Path, name: str, attributes: str = "query_id,kind\n1,a\n") -> object:
    given = read_attributes(written(folder / "kinds.csv", attributes))
    return slices(compare(pair(folder))[0], [name], given)


def guarded(folder: Path, guard: str) -> object:
    settings = Settings(guards=(Guard.parse(guard),), baseline="native")
    return answer_of(compare(pair(folder), settings=settings)[0])


def two_settings(folder: Path) -> list[Run]:
    return [write(folder / l2, "native", settings={"l2": l2}) for l2 in "01"]


def split_by_seeds(folder: Path) -> list[Run]:
    return [
        write(
            folder / model,
            model,
            fold=None,
            train=model,
            data_settings={"split_seed": seed},
        )
        for seed, model in enumerate(("native", "xgboost"))
    ]


def import_of_other_data(folder: Path) -> object:
    system = Import("x", str(written(folder / "model.txt", stumps_as_json([(0, 0.5)]))))
    other = Synthetic(name="synthetic", num_queries=40, test_share=0.25).load()
    return import_like(
        system,
        finished_run(folder / "like", "native"),
        folder / "made",
        lambda _, **__: other,
    )


def imported(system: Import, runs: list[Run]) -> object:
    return import_runs(system, runs, load_splits)


Call = Callable[[Path], object]
REFUSALS: list[tuple[Call, tuple[object, ...]]] = [
    (lambda _: Settings(rope=0), ("rope", "0;", "more than 0")),
    (lambda _: compare("runs"), ("'runs'", "find_runs")),  # type: ignore[arg-type]
    (lambda _: compare(["a"]), ("runs[0]", "'a'", "find_runs")),  # type: ignore[list-item]
    (
        lambda t: compare(pair(t), settings="map"),  # type: ignore[call-overload]
        ("settings", "'map'", "Settings("),
    ),
    (lambda t: compare(pair(t))[0].row("natve"), ("'natve'", "'native'?", "xgboost")),
    (lambda t: compare(pair(t))[0].claim("natve"), ("'natve'", "'native'?", "xgboost")),
    (lambda _: Settings(detect=0), ("detect", "0;", "more than 0")),
    (
        lambda t: compare(pair(t), settings=Settings(baseline="natve")),
        ("baseline", "'natve'", "'native'?", "one of"),
    ),
    (lambda t: compare(pair(t), settings=Settings(metric="nope")), ("'nope'",)),
    (
        lambda t: compare(two_settings(t), settings=Settings(baseline="native")),
        ("'native'", "2 rows", "native l2=0, native l2=1"),
    ),
    (
        lambda t: compare(
            pair(t),
            settings=Settings(family=("ndcg@10", "map"), convention=preset("xgboost")),
        ),
        ("map",),
    ),
    (
        lambda t: compare(pair(t, train="another")),
        (
            "toy, fold 1",
            "native and xgboost",
            "train of fol",
            "another",
            "--allow-mismatch",
        ),
    ),
    (
        lambda t: compare(split_by_seeds(t)),
        ("data.split_seed=0 and toy data.split_seed=1",),
    ),
    (
        lambda t: sliced(t, "query_sise"),
        ("'query_sise'", "'query_size'?", "--attributes"),
    ),
    (lambda _: Guard.parse("latncy=2ms"), ("latncy=2ms", "'latency'?", "ndcg")),
    (lambda _: Guard.parse("latency=2"), ("'2'", "unit", "latency=2ms")),
    (lambda _: Guard.parse("ndcg@10"), ("ndcg@10:", "''", "ndcg@10=-0.005")),
    (lambda _: Guard.parse("ndcg@10=0.01"), ("'0.01'", "ndcg@10=-0.005")),
    (lambda t: guarded(t, "latency=2ms"), ("latency=2ms", "Settings")),
    (lambda t: guarded(t, "value@10=-1"), ("'value@10'", "data.keep")),
    (lambda t: guarded(t, "ndcg@10:tial=-0.01"), ("'tial'", "'tail'?", "head, torso")),
    (lambda t: guarded(t, "ndcg@10:tail=-0.01"), ("no query", "'tail'", "`weight`")),
    (
        lambda t: guarded(t, "ndcg@10:query_size=7=-0.01"),
        ("query_size", "'7'", "one of 6"),
    ),
    (
        lambda t: guarded(t, "ndcg@10:query_sise=6=-0.01"),
        ("'query_sise'", "'query_size'?"),
    ),
    (lambda t: guarded(t, "ctr@10:clicks=-0.01"), ("'clicks'", "data.keep=[clicks]")),
    (lambda t: sliced(t, "kind"), ("test queries", "kind", "query '2'")),
    (
        lambda t: sliced(t, "kind", "query_id,kind\n1,a\n1,b\n"),
        ("kinds.csv:3", "query '1'", "one line"),
    ),
    (
        lambda t: sliced(t, "kind", "query,kind\n1,a\n"),
        ("kinds.csv:1", "query, kind", "query_id"),
    ),
    (
        lambda t: fuse(fusable(t), Fusing(("rff",))),
        ("'rff'", "'rrf'?", "zscore, minmax"),
    ),
    (
        lambda t: fuse(fusable(t), Fusing(("rrf",), rrf_k=-1.0)),
        ("k of", "-1.0", "at least 0"),
    ),
    (
        lambda t: fuse(fusable(t), Fusing(("rrf",), of=("natve",))),
        ("'natve'", "'native'?", "lightgbm"),
    ),
    (
        lambda t: fuse(fusable(t), Fusing(("rrf",), of=("native",))),
        ("nothing to fuse", "two models"),
    ),
    (
        lambda t: fuse(fusable(t, fold=2), Fusing(("rrf",))),
        ("native, lightgbm", "no run", "toy fold 1"),
    ),
    (lambda _: Import("x", "fold{fold"), ("x=fold{fold", "in braces", "{fold}")),
    (lambda _: Import("x", "{part}.txt"), ("{part}", "'part'", "{data}, {fold}")),
    (lambda _: Import("", "scores.txt"), ("a name and", "ranklib=scores.txt")),
    (
        lambda t: imported(
            Import("x", str(written(t / "s.txt", "0.5\n" * 3))), fusable(t)
        ),
        ("3 scores", "test of toy fold 1", "121 documents"),
    ),
    (
        lambda t: imported(
            Import("x", str(written(t / "s.txt", "0.5\n" * 121))), fusable(t, fold=2)
        ),
        ("s.txt", "test of toy fold 2", "{fold}"),
    ),
    (
        lambda t: imported(Import("x", "s.txt"), [failed(t)]),
        ("x=s.txt", "no finished run"),
    ),
    (
        lambda t: import_like(Import("x", "s.txt"), failed(t), t / "x", load_splits),
        ("failed", "no judgments", "finished run"),
    ),
    (import_of_other_data, ("set of", "like", "has changed")),
]


@pytest.mark.parametrize(("call", "parts"), REFUSALS)
def test_what_a_comparison_cannot_use_is_refused(
    tmp_path: Path, call: Call, parts: tuple[object, ...]
) -> None:
    with pytest.raises(LtrbenchError, match=naming(*parts)):
        call(tmp_path)
    assert not (tmp_path / "made").exists()
