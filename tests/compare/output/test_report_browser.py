"""report.html in a real browser: it is drawn, sorts, fits, and can be read in the light and in the dark."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

pytest.importorskip("playwright", reason="the report is looked at with Playwright: pip install playwright")

from browser import browser, chromium
from playwright.sync_api import expect
from report_pages import HOSTILE_QUERY, comparisons, report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Request

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        chromium() is None, reason="no Chromium to look at the report with: sudo apt-get install chromium"
    ),
]

WIDTHS = (400, 1600)
ENOUGH_CONTRAST = 4.5
"""Of text to what it stands on (W3C, 2023, Web Content Accessibility Guidelines 2.2, criterion 1.4.3)."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    names = tuple(f"toy{number}" for number in range(5))
    return report(comparisons(folder, names), folder / "report.html")


@pytest.fixture(scope="module")
def launched() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture
def page(launched: Browser, path: Path) -> Iterator[Page]:
    with opened(launched, path) as page:
        yield page


@contextlib.contextmanager
def opened(
    launched: Browser, path: Path, width: int = 1600, scheme: Literal["light", "dark"] = "light"
) -> Iterator[Page]:
    """The report in a page of its own, which may neither complain nor fetch anything else."""
    complaints: list[str] = []

    def look_at(request: Request) -> None:
        if request.url != path.as_uri():
            complaints.append(f"asked for {request.url}")

    with launched.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme) as context:
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", look_at)
        page.goto(path.as_uri())
        yield page
    assert complaints == []


def unfold(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(it => { it.open = true })")


def test_every_drawing_is_drawn_and_said_in_words(page: Page) -> None:
    boxes = "all => all.map(it => it.getBBox()).map(it => [it.width, it.height])"
    sizes = page.locator("svg").evaluate_all(boxes)
    assert len(sizes) > 10
    assert all(width > 0 and height > 0 for width, height in sizes)
    words = page.locator("[role=img]").evaluate_all("all => all.map(it => it.ariaLabel.length)")
    assert min(words) > 20


def test_five_data_sets_are_compared_by_a_critical_difference_diagram(page: Page) -> None:
    diagram = page.get_by_role("img", name="Nemenyi")
    expect(diagram).to_be_visible()
    expect(diagram).to_contain_text("critical difference")


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_its_window(launched: Browser, path: Path, width: int) -> None:
    with opened(launched, path, width) as page:
        unfold(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        widths = "all => all.map(it => it.getBoundingClientRect().width)"
        assert min(page.locator(".drawing svg").evaluate_all(widths)) > 250


def test_tables_sort_by_a_click_and_by_the_keyboard_both_ways_and_by_value(page: Page) -> None:
    table = page.locator("#data-1-leaderboard table")
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
    names = table.locator("tbody th").evaluate_all("all => all.map(it => it.dataset.key)")
    assert names[1:] == ["native", "random"]


def test_what_is_not_known_is_sorted_last_both_ways(page: Page) -> None:
    # The baseline has no difference to itself.
    table = page.locator("#data-1-leaderboard table")
    button = table.locator("thead th").nth(2).get_by_role("button")
    for _ in range(2):
        button.click()
        last = table.locator("tbody tr").last.locator("td").nth(1)
        assert last.get_attribute("data-key") is None


def keys(table: Locator, column: int) -> list[float]:
    cells = table.locator("tbody tr").evaluate_all(f"all => all.map(it => it.cells[{column}].dataset.key)")
    return [float(cell) for cell in cells]


def test_a_link_of_a_note_opens_its_entry_in_the_folded_glossary(page: Page) -> None:
    entry = page.locator("#glossary-convention")
    expect(entry).to_be_hidden()
    page.locator("#data-1-notes a", has_text="convention").first.click()
    expect(entry).to_be_visible()
    expect(entry).to_be_in_viewport()


def test_a_query_whose_name_is_markup_does_nothing(page: Page) -> None:
    unfold(page)
    expect(page.get_by_text(HOSTILE_QUERY).first).to_be_visible()
    assert page.evaluate("window.hacked") is None


def test_a_command_is_selected_and_copied_by_its_button(page: Page) -> None:
    page.get_by_role("button", name="copy").last.click()
    expect(page.locator("button.copy").last).not_to_have_text("copy")
    assert page.evaluate("getSelection().toString()") == "python -m ltrbench compare 'some folder'"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_told_from_what_it_stands_on(
    launched: Browser, path: Path, scheme: Literal["light", "dark"]
) -> None:
    with opened(launched, path, scheme=scheme) as page:
        unfold(page)
        worst = page.evaluate(_LOWEST_CONTRAST)
        assert worst["contrast"] >= ENOUGH_CONTRAST, worst


def test_the_button_turns_light_into_dark_and_back(page: Page) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.get_by_role("button", name="Switch between light and dark").click()
    dark = page.evaluate(paper)
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.evaluate(paper) == light != dark


def test_on_paper_everything_is_unfolded_light_and_without_controls(launched: Browser, path: Path) -> None:
    with opened(launched, path, scheme="dark") as page:
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("main details:not([open])").count() == 0
        expect(page.locator("nav")).to_be_hidden()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("main details[open]").count() == 0


# The least contrast of any text to the first ground below it that is not transparent.
_LOWEST_CONTRAST = """() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => parts(colour).slice(0, 3)
    .map(value => value / 255)
    .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
    .reduce((sum, value, place) => sum + value * [0.2126, 0.7152, 0.0722][place], 0);
  const ground = element => {
    for (let it = element; it; it = it.parentElement) {
      const colour = getComputedStyle(it).backgroundColor;
      if ((parts(colour)[3] ?? 1) > 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  let worst = { contrast: 21 };
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own || element.closest("script") || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const ink = element.namespaceURI.includes("svg") ? style.fill : style.color;
    const [text, paper] = [light(ink), light(ground(element))];
    const contrast = (Math.max(text, paper) + 0.05) / (Math.min(text, paper) + 0.05);
    if (contrast < worst.contrast) worst = { contrast, text: element.textContent.trim().slice(0, 60) };
  }
  return worst;
}"""
