"""The MLflow UI in a real browser: what people look at after a sweep is there, with our figures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("playwright", reason="the UI is looked at with Playwright: pip install playwright")

from browser import UI, browser, chromium, new_page, open_run_list, ui_of_sweep
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        chromium() is None, reason="no Chromium to look at the UI with: sudo apt-get install chromium"
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sweep")


@pytest.fixture(scope="module")
def ui(folder: Path) -> Iterator[UI]:
    overrides = ("model=native,lightgbm", "data.num_queries=60", "params.num_trees=20")
    with ui_of_sweep(folder, *overrides) as opened:
        yield opened


@pytest.fixture(scope="module")
def figures(ui: UI, folder: Path) -> Mapping[str, float]:
    """Model -> its NDCG as result.json has it, not as MLflow does."""
    results = [json.loads(path.read_text()) for path in folder.glob("multirun/*/*/[0-9]/result.json")]
    return {result["model"]: result["metrics"]["test/ndcg@10"] for result in results}


@pytest.fixture(scope="module")
def launched() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture
def page(launched: Browser, ui: UI) -> Iterator[Page]:
    with new_page(launched, ui, 1600, 1000) as opened:
        yield opened


def test_the_run_list_has_the_runs_of_a_sweep_below_it_with_their_ndcg(
    page: Page, ui: UI, figures: Mapping[str, float]
) -> None:
    open_run_list(page, ui)
    expect(page.get_by_role("columnheader", name="test/ndcg_at_10").last).to_be_visible()
    assert ui.children.keys() == figures.keys() == {"native", "lightgbm"}
    for name, run_id in ui.children.items():
        cell = page.locator(f"[row-id='{run_id}'] [col-id='metrics.`test/ndcg_at_10`']")
        assert float(cell.inner_text()) == figures[name]


def test_runs_that_are_selected_in_the_list_are_compared_by_figure_and_by_learning_curve(
    page: Page, ui: UI, figures: Mapping[str, float]
) -> None:
    open_run_list(page, ui)
    for name in figures:
        link = page.get_by_role("link", name=name, exact=True)
        page.get_by_role("row").filter(has=link).get_by_role("checkbox").first.check()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", name="Comparing 2 Runs from 1 Experiment")).to_be_visible()
    names_of_runs = page.get_by_role("row").filter(has_text="Run Name:").get_by_role("cell")
    expect(names_of_runs).to_have_count(len(figures))
    names = names_of_runs.all_inner_texts()
    # The comparison shows three decimals.
    row = row_of_metric(page, "test/ndcg_at_10")
    expect(row).to_have_count(len(figures))
    shown = [float(value) for value in row.all_inner_texts()]
    assert dict(zip(names, shown, strict=True)) == {name: round(value, 3) for name, value in figures.items()}

    # The link to the curve of valid is out of sight in that list, whose names do not scroll in MLflow 3.17.
    link_of_test = page.get_by_role("link", name="test/ndcg_at_10", exact=True).get_attribute("href") or ""
    page.goto(f"{ui.address}/{link_of_test.replace('test%2F', 'valid_by_iteration%2F')}")
    expect(page.get_by_role("heading", name="valid_by_iteration/ndcg_at_10").first).to_be_visible()
    for name in figures:
        link = page.get_by_role("link", name=name, exact=True)
        cells_of_run = page.get_by_role("row").filter(has=link).get_by_role("cell")
        # The table stands before its figures are there.
        expect(cells_of_run.nth(3)).to_contain_text(re.compile(r"\d"))
        cells = cells_of_run.all_inner_texts()
        lowest, highest = (float(cell.split()[0]) for cell in cells[2:4])
        assert lowest < highest, "a curve, not a point"


def row_of_metric(page: Page, metric: str) -> Locator:
    """The figures beside the name of a metric: two grids side by side, without a row in common but height."""
    link = page.get_by_role("link", name=metric, exact=True)
    top = link.locator("..").evaluate("cell => cell.style.top")
    return page.get_by_role("grid", name="grid").last.locator(f"[style*=' top: {top};']")


def test_a_run_shows_its_data_sets_and_its_model(page: Page, ui: UI) -> None:
    page.goto(ui.run(ui.children["native"]))
    expect(page.get_by_role("heading", name="native")).to_be_visible()
    expect(page.get_by_role("button", name="synthetic train")).to_be_visible()
    model = page.get_by_role("gridcell").get_by_role("link", name="native", exact=True)
    expect(model).to_have_attribute("href", re.compile("/models/m-"))


def test_the_description_of_a_sweep_is_the_comparison(
    page: Page, ui: UI, figures: Mapping[str, float]
) -> None:
    page.goto(ui.run(ui.parent))
    expect(page.get_by_role("columnheader", name="ndcg@10", exact=True)).to_be_attached()
    for name, figure in figures.items():
        expect(page.get_by_role("row", name=f"{name} {figure:.4f}")).to_be_attached()
