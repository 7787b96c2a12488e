"""Searches in the report and in the folder of a comparison."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from searched_runs import DEFAULT, METRIC, searched, trials
from toy_runs import mentions, write

from ltrbench.compare import Comparison, Settings, compare
from ltrbench.compare.analysis.tuning import tunings
from ltrbench.compare.output.publish import publish
from ltrbench.compare.output.report.parts import Section
from ltrbench.compare.output.report.sections.search.alike import alike_section
from ltrbench.compare.output.report.sections.search.budgets import search_section
from ltrbench.compare.output.report.sections.search.settings import settings_section
from ltrbench.compare.output.report.shown import Shown
from ltrbench.compare.output.search_pictures import search_pictures
from ltrbench.results import Run
from ltrbench.tables import Table

VALUES = {1: [0.40, 0.45, 0.47, 0.465], 2: [0.50, 0.49, 0.52, math.nan]}
PICTURES = ["search.png", "setting_importances.png", "settings_lightgbm.png", "settings_native.png"]


def compared(runs: list[Run]) -> Comparison:
    (comparison,) = compare(runs, Settings(metric=METRIC, num_draws=100))
    return comparison


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("runs")
    return compared(
        [
            searched(folder / f"{model}{fold}", model, trials(VALUES[fold], fold), fold=fold, skill=skill)
            for model, skill in (("native", 2.0), ("lightgbm", 1.0))
            for fold in VALUES
        ]
    )


@pytest.fixture(scope="module")
def unsearched(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("runs")
    return compared([write(folder / model, model) for model in ("native", "lightgbm")])


def shown(comparison: Comparison) -> Shown:
    return Shown(comparison, "data-1", [])


def tables(section: Section | None) -> dict[str, list[list[str]]]:
    """Caption -> header and rows, as text."""
    assert section is not None
    return {
        part.caption: [part.header, *([cell.text or "" for cell in row] for row in part.cells("-"))]
        for part in section.parts
        if isinstance(part, Table)
    }


def test_without_a_search_there_are_no_sections_and_no_pictures(
    unsearched: Comparison, tmp_path: Path
) -> None:
    for make in (search_section, settings_section, alike_section):
        assert make(shown(unsearched)) is None
    publish([unsearched], tmp_path / "out")
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(("search", "setting"))]


def test_the_section_on_the_search_has_budgets_and_values(comparison: Comparison) -> None:
    section = search_section(shown(comparison))
    budgets, values = tables(section).values()
    assert [dict(zip(budgets[0], row, strict=True)) for row in budgets[1:]] == [
        {
            "model": model,
            "search": "random",
            "settings varied": "2",
            "searches": "2",
            "trials": "4",
            "iterations fitted": "370",
            "fit time": "10 s",
        }
        for model in ("native", "lightgbm")
    ]
    of_row = dict(zip(values[0], values[1], strict=True))
    assert of_row["default, validation"] == "0.4500"
    assert of_row["chosen, validation"] == "0.4950"
    assert of_row["tunability"] == "+0.0450"
    assert mentions(section, "never sees test", "evaluated on test", "equal budgets")


def test_a_search_with_dependent_trials_says_that_no_value_is_expected(tmp_path: Path) -> None:
    run = searched(tmp_path / "native", "native", trials(VALUES[1]), search={"name": "tpe"})
    section = search_section(shown(compared([run])))
    assert mentions(section, "so far", "not defined")


def test_a_tuned_row_beside_its_default_has_a_claim_on_test(tmp_path: Path) -> None:
    tuned = searched(tmp_path / "tuned", "native", trials(VALUES[1]), skill=2.0)
    default = write(tmp_path / "default", "native", skill=0.0, settings=DEFAULT, params="library")
    section = tables(search_section(shown(compared([tuned, default]))))
    header, row = section["Tuned against default settings on test"]
    claim = dict(zip(header, row, strict=True))
    assert (claim["tuned"], claim["default settings"]) == ("native params=matched", "native params=library")
    assert claim["claim"] == "better"
    assert claim[METRIC].startswith("+")


def test_the_section_on_the_settings_has_the_chosen_ones_by_fold(comparison: Comparison) -> None:
    header, *rows = tables(settings_section(shown(comparison)))["native: chosen settings"]
    searches = tunings(comparison)[0].searches
    assert [row[0] for row in rows] == ["default", "fold 1", "fold 2"]
    assert rows[0][header.index("num_leaves")] == "31"
    for row, search in zip(rows[1:], searches, strict=True):
        assert row[header.index("num_leaves")] == search.record["settings"]["num_leaves"]
        assert float(row[header.index("learning_rate")]) == pytest.approx(
            float(search.record["settings"]["learning_rate"]), rel=1e-3
        )


def test_settings_that_are_not_told_apart_are_listed_with_the_cheapest(comparison: Comparison) -> None:
    section = alike_section(shown(comparison))
    assert mentions(section, "may take", "cheapest", "trained again")
    header, first, second = tables(section)["native"]
    of_fold = dict(zip(header, first, strict=True))
    assert (of_fold["complete trials"], of_fold["not told apart"]) == ("4", "2")
    assert (of_fold["chosen: iterations"], of_fold["cheapest: iterations"]) == ("90", "85")
    assert second[header.index("settings of the cheapest")] == "the chosen ones"


def test_one_search_for_all_folds_is_one_row(tmp_path: Path) -> None:
    runs = [
        searched(tmp_path / str(fold), "native", trials(VALUES[1]), fold=fold, search={"choose": "overall"})
        for fold in (1, 2)
    ]
    _, *rows = tables(settings_section(shown(compared(runs))))["native: chosen settings"]
    assert [row[0] for row in rows] == ["default", "all folds"]


def test_the_sections_stand_in_the_report_and_the_pictures_in_the_folder(
    comparison: Comparison, tmp_path: Path
) -> None:
    publish([comparison], tmp_path / "out")
    page = (tmp_path / "out/report.html").read_text()
    places = [page.index(f'id="data-1-{name}"') for name in ("search", "settings", "alike")]
    assert places == sorted(places)
    assert not re.search(r">\s*(nan|None)\s*<", page)
    assert [name for name in PICTURES if not (tmp_path / "out" / name).exists()] == []


def test_the_same_searches_give_the_same_bytes(comparison: Comparison, tmp_path: Path) -> None:
    for name in ("first", "second"):
        publish([comparison], tmp_path / name)
    for name in [*PICTURES, "report.html"]:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_rows_with_equal_letters_have_pictures_of_their_own(tmp_path: Path) -> None:
    runs = [
        searched(tmp_path / "a", "my model", trials(VALUES[1])),
        searched(tmp_path / "b", "my_model", trials(VALUES[1])),
    ]
    names = list(search_pictures(tunings(compared(runs))))
    assert len(names) == 4
    assert all(re.fullmatch(r"[\w.]+", name) for name in names)


def test_a_search_without_its_trials_shows_its_budget(tmp_path: Path) -> None:
    run = searched(tmp_path / "native", "native", trials(VALUES[1]))
    (run.path / "trials.csv").unlink()
    comparison = compared([run])
    budgets, values = tables(search_section(shown(comparison))).values()
    assert budgets[1][budgets[0].index("trials")] == "4"
    assert values[1][values[0].index("tunability")] == "-"
    assert alike_section(shown(comparison)) is None
    assert settings_section(shown(comparison)) is not None
