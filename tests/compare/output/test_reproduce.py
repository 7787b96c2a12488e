"""make reproduce: a rerun is compared with the committed results, value by value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from messages import naming
from toy_runs import mentions

from ltrbench.compare.output.reproduce import TOLERANCE, TOLERANCE_NOT_REPEATABLE, reproduce
from ltrbench.errors import ResultError

FIGURE = 0.6896


def write(folder: Path, figure: float | None = FIGURE, per_query: str = "0.5", **changes: Any) -> Path:
    folder.mkdir()
    environment = {
        "machine": {"cpu": "a processor", "cores": 2},
        "versions": {"numpy": "2"},
        "runs": [{"command": "python -m ltrbench model=native", "metrics": {"test/ndcg@10": figure}}],
    }
    (folder / "environment.json").write_text(json.dumps({**environment, **changes}))
    (folder / "per_query.csv").write_text(per_query)
    return folder


def test_the_same_figures_reproduce(tmp_path: Path) -> None:
    found = reproduce(write(tmp_path / "committed"), write(tmp_path / "rerun"))
    assert (found.exact, found.num_figures, found.largest, found.differences) == (True, 1, 0.0, ())


def test_on_the_same_machine_type_the_last_bit_counts(tmp_path: Path) -> None:
    found = reproduce(write(tmp_path / "committed"), write(tmp_path / "rerun", FIGURE + 1e-12))
    assert found.exact
    (difference,) = found.differences
    assert mentions(difference, "python -m ltrbench model=native", "test/ndcg@10", FIGURE, FIGURE + 1e-12)
    (other,) = reproduce(tmp_path / "committed", write(tmp_path / "queries", per_query="0.6")).differences
    assert mentions(other, "per_query.csv")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"machine": {"cpu": "another", "cores": 2}}, ("cpu", "a processor", "another")),
        ({"versions": {"numpy": "3"}}, ("numpy", 2, 3)),
    ],
)
def test_elsewhere_a_metric_may_differ_a_little(
    tmp_path: Path, changes: Any, reason: tuple[object, ...]
) -> None:
    committed = write(tmp_path / "committed")
    near = reproduce(committed, write(tmp_path / "near", FIGURE + 0.9 * TOLERANCE, "0.6", **changes))
    assert (near.exact, near.differences) == (False, ())
    assert mentions(near.reason, *reason)
    far = reproduce(committed, write(tmp_path / "far", FIGURE + 1.1 * TOLERANCE, **changes))
    assert len(far.differences) == 1


def test_a_run_that_is_not_repeatable_may_differ_on_the_same_machine(tmp_path: Path) -> None:
    loose = {"command": "python -m ltrbench model=xgboost distributed=dask", "deterministic": False}
    exact = {"command": "python -m ltrbench model=native distributed=dask"}

    def written(name: str, of_loose: float, of_exact: float) -> Path:
        runs = [{**loose, "metrics": {"map": of_loose}}, {**exact, "metrics": {"map": of_exact}}]
        return write(tmp_path / name, per_query=name, runs=runs)

    committed = written("committed", 0.5, 0.6)
    near = reproduce(committed, written("near", 0.5 + 0.9 * TOLERANCE_NOT_REPEATABLE, 0.6))
    assert (near.exact, near.differences, near.num_not_repeatable) == (True, (), 1)
    (far,) = reproduce(committed, written("far", 0.5 + 1.1 * TOLERANCE_NOT_REPEATABLE, 0.6)).differences
    assert mentions(far, "model=xgboost", "map", 0.5)
    (other,) = reproduce(committed, written("other", 0.5, 0.6 + 1e-12)).differences
    assert mentions(other, "model=native", "map", 0.6)


def test_a_figure_or_a_run_that_is_missing_is_a_difference(tmp_path: Path) -> None:
    committed = write(tmp_path / "committed")
    (gone,) = reproduce(committed, write(tmp_path / "none", None)).differences
    assert mentions(gone, "test/ndcg@10", FIGURE)
    (difference,) = reproduce(committed, write(tmp_path / "fewer", runs=[])).differences
    assert mentions(difference, "python -m ltrbench model=native", "only")


def test_a_rerun_with_another_executor_or_tracking_store_is_the_same_command(
    tmp_path: Path,
) -> None:
    words = "executor=processes executor.workers=2 tracking=none progress=none"
    runs = [{"command": f"python -m ltrbench model=native {words}", "metrics": {"test/ndcg@10": FIGURE}}]
    found = reproduce(write(tmp_path / "committed"), write(tmp_path / "rerun", runs=runs))
    assert (found.num_figures, found.differences) == (1, ())


def test_a_folder_without_results_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=naming("nowhere/environment.json", "make results")):
        reproduce(tmp_path / "nowhere", tmp_path)
