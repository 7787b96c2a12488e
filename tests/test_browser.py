"""The MLflow UI in a real browser: what people look at after a sweep is there, with our figures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("playwright", reason="the UI is looked at with playwright: pip install playwright")

from browser import Sweep, chromium, mlflow_ui, open_run_list, page, run_sweep

METRIC = "test/ndcg_at_10"

pytestmark = [
    pytest.mark.skipif(chromium() is None, reason="no Chromium here: apt-get install chromium"),
    # MLflow's own, with SQLAlchemy 2.1.
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    folder = tmp_path_factory.mktemp("sweep")
    return run_sweep(folder, "model=native,lightgbm", "data.num_queries=60", "params.num_trees=20")


@pytest.fixture(scope="module")
def address(sweep: Sweep) -> Iterator[str]:
    with mlflow_ui(sweep.folder) as started:
        yield started


@pytest.fixture
def opened(address: str) -> Iterator[Any]:
    with page(address, 1600, 900) as fresh:
        yield fresh


def figure(sweep: Sweep, backend: str) -> float:
    """What result.json says, not what MLflow does."""
    results = [json.loads(path.read_text()) for path in sweep.folder.glob("multirun/*/*/[0-9]/result.json")]
    (own,) = (result for result in results if result["model"] == backend)
    return float(own["metrics"]["test/ndcg@10"])


def test_the_run_list_shows_the_runs_of_a_sweep_below_it_with_their_ndcg(
    opened: Any, address: str, sweep: Sweep
) -> None:
    open_run_list(opened, address, sweep, [f"metrics.`{METRIC}`"])
    opened.get_by_text(METRIC).first.wait_for()
    opened.get_by_text(sweep.parent.info.run_name).first.wait_for()
    for backend in ("native", "lightgbm"):
        opened.get_by_role("link", name=backend, exact=True).first.wait_for()
        opened.get_by_text(f"{figure(sweep, backend):.6f}"[:5]).first.wait_for()


def test_the_comparison_of_the_runs_shows_both_figures(opened: Any, address: str, sweep: Sweep) -> None:
    ids = json.dumps([run.info.run_id for run in sweep.children.values()])
    experiments = json.dumps([sweep.experiment_id])
    opened.goto(f"{address}/#/compare-runs?runs={ids}&experiments={experiments}")
    opened.get_by_text("Comparing 2 Runs").first.wait_for()
    opened.get_by_text(METRIC, exact=True).first.wait_for()
    for backend in sweep.children:
        opened.get_by_text(backend, exact=True).first.wait_for()
        opened.get_by_text(f"{round(figure(sweep, backend), 3):g}", exact=True).first.wait_for()


def test_a_run_shows_its_data_sets_its_model_and_its_pictures(
    opened: Any, address: str, sweep: Sweep
) -> None:
    run_id = sweep.children["native"].info.run_id
    opened.goto(f"{address}/#/experiments/{sweep.experiment_id}/runs/{run_id}")
    fingerprint = sweep.children["native"].data.tags["fingerprint.train"]
    opened.get_by_text(f"synthetic train ({fingerprint})").first.wait_for()
    opened.get_by_text("native", exact=True).first.wait_for()
    opened.goto(
        f"{address}/#/experiments/{sweep.experiment_id}/runs/{run_id}/artifacts/pictures/importances.png"
    )
    opened.locator("img[src^='blob:']").first.wait_for()


def test_the_parents_description_is_the_comparison(opened: Any, address: str, sweep: Sweep) -> None:
    opened.goto(f"{address}/#/experiments/{sweep.experiment_id}/runs/{sweep.parent.info.run_id}")
    opened.get_by_text("synthetic: test ndcg@10 and others").first.wait_for()
    assert opened.get_by_role("link", name="native", exact=True).count() > 0
