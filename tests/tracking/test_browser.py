"""The MLflow UI in a real browser: what people look at after a sweep is there, with our values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip(
    "playwright", reason="the UI is looked at with Playwright: pip install playwright"
)

from browser import UI, browser, chromium, new_page, open_run_list, ui_of_sweep
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        chromium() is None,
        reason="no Chromium to look at the UI with: sudo apt-get install chromium",
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sweep")


@pytest.fixture(scope="module")
def ui(folder: Path) -> Iterator[UI]:
    small = ("data.num_queries=60", "params.num_trees=20", "importance=none")
    overrides = ("model=native,lightgbm", *small)
    with ui_of_sweep(folder, *overrides) as opened:
        yield opened


@pytest.fixture(scope="module")
def values(ui: UI, folder: Path) -> Mapping[str, float]:
    """Model -> its NDCG as result.json has it, not as MLflow does."""
    results = [
        json.loads(path.read_text())
        for path in folder.glob("multirun/*/*/[0-9]/result.json")
    ]
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
    page: Page, ui: UI, values: Mapping[str, float]
) -> None:
    open_run_list(page, ui)
    expect(
        page.get_by_role("columnheader", name="test/ndcg_at_10").last
    ).to_be_visible()
    assert ui.children.keys() == values.keys() == {"native", "lightgbm"}
    for name, run_id in ui.children.items():
        cell = page.locator(f"[row-id='{run_id}'] [col-id='metrics.`test/ndcg_at_10`']")
        assert float(cell.inner_text()) == values[name]
