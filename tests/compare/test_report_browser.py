"""report.html in a real browser: it is drawn, sorts and fits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip(
    "playwright",
    reason="the report is looked at with Playwright: pip install playwright",
)

from browser import browser, chromium
from playwright.sync_api import expect
from report_pages import comparisons, report

from ltrbench.compare import Report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Request

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        chromium() is None,
        reason="no Chromium to look at the report with: sudo apt-get install chromium",
    ),
]

WIDTHS = (400, 1600)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    return report(comparisons(folder), folder / "report.html")


@pytest.fixture(scope="module")
def launched() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture
def page(launched: Browser, path: Path) -> Iterator[Page]:
    with opened(launched, path) as page:
        yield page


@contextlib.contextmanager
def opened(launched: Browser, path: Path, width: int = 1600) -> Iterator[Page]:
    """The report in a new page, which logs no error and requests nothing else."""
    complaints: list[str] = []

    def look_at(request: Request) -> None:
        if request.url != path.as_uri():
            complaints.append(f"requested {request.url}")

    with launched.new_context(viewport={"width": width, "height": 900}) as context:
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", look_at)
        page.goto(path.as_uri())
        yield page
    assert complaints == []


def test_every_drawing_is_drawn_and_said_in_words(page: Page) -> None:
    boxes = "all => all.map(it => it.getBBox()).map(it => [it.width, it.height])"
    sizes = page.locator("svg").evaluate_all(boxes)
    assert len(sizes) > 5
    assert all(width > 0 and height > 0 for width, height in sizes)
    words = page.locator("[role=img]").evaluate_all(
        "all => all.map(it => it.ariaLabel.length)"
    )
    assert min(words) > 10


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_its_window(
    launched: Browser, path: Path, width: int
) -> None:
    with opened(launched, path, width) as page:
        page.evaluate(
            "document.querySelectorAll('details').forEach(it => { it.open = true })"
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        widths = "all => all.map(it => it.getBoundingClientRect().width)"
        assert min(page.locator(".drawing svg").evaluate_all(widths)) > 250


def test_a_link_of_the_report_in_a_notebook_stays_in_its_frame(
    launched: Browser, path: Path
) -> None:
    cell = path.with_name("cell.html")
    cell.write_text(
        f"<link rel=icon href=data:,>{Report(path.read_text())._repr_html_()}"
    )
    with opened(launched, cell) as page:
        frame = page.frames[1]
        frame.locator("a[href='#glossary']").last.click()
        expect(frame.locator("#glossary")).to_be_in_viewport()


def test_tables_sort_by_a_click_and_by_the_keyboard_both_ways_and_by_value(
    page: Page,
) -> None:
    table = page.locator("#data-1-leaderboard table").first
    header = table.locator("thead th").nth(1)
    for key in (None, "Enter"):
        button = header.get_by_role("button")
        if key is None:
            button.click()
        else:
            button.press(key)
        values = keys(table, 1)
        way = header.get_attribute("aria-sort")
        assert way == ("descending" if key is None else "ascending")
        assert values == sorted(values, reverse=way == "descending")
    table.locator("thead th").nth(0).get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "none")
    names = table.locator("tbody th").evaluate_all(
        "all => all.map(it => it.dataset.key)"
    )
    assert names[-1] == "random"


def keys(table: Locator, column: int) -> list[float]:
    cells = table.locator("tbody tr").evaluate_all(
        f"all => all.map(it => it.cells[{column}].dataset.key)"
    )
    return [float(cell) for cell in cells]
