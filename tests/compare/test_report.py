# mypy: strict-optional=False
"""report.html as text: it shows the values of the comparison, and names are never markup."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from report_pages import (
    HOSTILE_MODEL,
    HOSTILE_QUERY,
    comparisons,
    judged,
    report,
)
from toy_runs import write as write_run

from ltrbench.compare import Comparison, Settings, compare, slices
from ltrbench.compare.report import SECTIONS
from ltrbench.compare.views import Figures, Folded, Section, Shown, View, section_text
from ltrbench.data import Judgments
from ltrbench.rankers.importance import GAIN, Importances
from ltrbench.tables import Table, glossary

_NO_NUMBER = re.compile(r"\b(?:nan|NaN|None|inf)\b")

NOTHING_TO_FIND = Judgments(labels=np.zeros(6), query_start=np.array([0, 3, 6]))
ONE_QUERY = Judgments(labels=np.array([1.0, 0.0, 2.0]), query_start=np.array([0, 3]))


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Comparison]:
    return comparisons(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def page(
    compared: Sequence[Comparison], tmp_path_factory: pytest.TempPathFactory
) -> str:
    return report(
        compared, tmp_path_factory.mktemp("report") / "report.html"
    ).read_text()


class _Reader(HTMLParser):
    """The visible text, the ids, and what the page refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "xlink:href"):
                self.references.append(value or "")

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] not in (["style"], ["script"]):
            self.texts.append(data)


@pytest.fixture(scope="module")
def little(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Comparison]:
    """Comparisons that leave little to show: identical models on hardly any queries, and one model alone."""
    folder, made = tmp_path_factory.mktemp("little"), []
    for number, judgments in enumerate((NOTHING_TO_FIND, ONE_QUERY, judged(2))):
        # Names of one length make scores of one kind, so that the two models are identical.
        runs = [
            write_run(folder / f"{name}{number}", name, judged=judgments)
            for name in ("one", "two")
        ]
        made += compare(runs, settings=Settings(metric="ndcg@10", num_draws=20))
    return [*made, *compare(runs[:1], settings=Settings(num_draws=20))]


HEADERS = (
    "difference",
    "documents",
    "feature",
    "query",
    "relevant",
    "setting",
    "slice",
)
"""Headers of tables that have a column per model as well."""


@pytest.fixture(scope="module")
def named_as_headers(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Comparison]:
    """A comparison of models whose names are headers of tables."""
    folder = tmp_path_factory.mktemp("headers")
    runs = []
    for number, name in enumerate(HEADERS):
        shares = np.array([0.9, 0.1 * number])
        run = write_run(
            folder / name,
            name,
            judged=judged(1),
            skill=number,
            settings={"num_leaves": 8 + number},
            importances=Importances(("a", "b"), {GAIN: shares}),
        )
        runs.append(run)
    comparisons = compare(runs, settings=Settings(metric="ndcg@10", num_draws=20))
    return [replace(each, slices=slices(each, ["query_size"])) for each in comparisons]


def test_a_model_may_have_the_name_of_a_header(
    named_as_headers: Sequence[Comparison],
) -> None:
    headers = set[str]()
    for make in SECTIONS:
        section = make(Shown(named_as_headers[0]))
        views = [] if section is None else views_of(section)
        for table in views:
            if isinstance(table, Table) and len(set(table.header)) < len(table.header):
                headers |= {name for name in HEADERS if table.header.count(name) == 2}
    assert headers == {*HEADERS}


def views_of(section: Section) -> Iterator[View]:
    for view in section.parts:
        yield from view.parts if isinstance(view, Folded) else [view]


@pytest.mark.parametrize("make", SECTIONS, ids=lambda make: make.__name__)
def test_a_section_keeps_its_contract(
    make: Callable[[Shown], Section | None],
    compared: Sequence[Comparison],
    little: list[Comparison],
    named_as_headers: list[Comparison],
    page: str,
) -> None:
    for comparison in (*compared, *little, *named_as_headers):
        section = make(Shown(comparison))
        if section is None:
            continue
        assert section.title
        assert set(section.terms) <= glossary().keys()
        texts = [section.lead, section_text(section, 100), section_text(section, None)]
        for view in views_of(section):
            if isinstance(view, Table):
                assert {len(row) for row in view.cells()} <= {len(view.columns)}
                texts += [cell.text or "" for row in view.cells() for cell in row]
            elif isinstance(view, Figures):
                assert all(figure.drawing.get_label() for figure in view.figures)
        assert not _NO_NUMBER.search(" ".join(texts))
        if comparison is compared[0]:
            assert f'id="data-1-{section.name}"' in page
            assert f'href="#data-1-{section.name}"' in page


def test_no_id_stands_twice_and_every_reference_stays_in_the_page(page: str) -> None:
    reader = _Reader(page)
    assert len(reader.ids) == len(set(reader.ids))
    local = {
        reference[1:] for reference in reader.references if reference.startswith("#")
    }
    assert local <= set(reader.ids)
    assert all(
        reference.startswith("#") or reference == "data:,"
        for reference in reader.references
    )
    assert "http://" not in page
    assert "https://" not in page


def test_names_and_versions_are_text(page: str) -> None:
    reader = _Reader(page)
    text = "".join(reader.texts)
    assert HOSTILE_MODEL in text
    assert HOSTILE_QUERY in text
    assert {"2.4.6", "3.11.7"} <= {*reader.texts}, "versions of NumPy and Python"
    assert reader.tags.count("script") == 1
    assert not {"img", "b"} & set(reader.tags)


def test_the_same_comparison_gives_the_same_bytes(
    compared: Sequence[Comparison], page: str, tmp_path: Path
) -> None:
    assert report(compared, tmp_path / "report.html").read_text() == page
