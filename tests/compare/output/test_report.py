"""report.html as text: it shows the values of the comparison, and names are never markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import naming
from report_pages import DRAWS, HOSTILE_MODEL, HOSTILE_QUERY, comparisons, judged, many_queries, report
from toy_runs import mentions
from toy_runs import write as write_run

from ltrbench.cli.verbs.runs.show import costs
from ltrbench.compare import Comparison, Settings, compare, interactions, render, slices
from ltrbench.compare.analysis.slices import ATTRIBUTES
from ltrbench.compare.output.report import write_report
from ltrbench.compare.output.report.sections import section, sections_by_place
from ltrbench.compare.output.report.sections.evidence.conventions import outcomes
from ltrbench.compare.output.report.shown import Shown
from ltrbench.data import Judgments
from ltrbench.metrics import PRESETS, Convention, evaluate
from ltrbench.results import TIMES, Run
from ltrbench.statistics import METHODS, SCOPES, SMALLEST_GROUP, risks
from ltrbench.tables import numbers

SECTIONS = [
    "leaderboard",
    "pairs",
    "folds",
    "power",
    "distribution",
    "queries",
    "risk",
    "slices",
    "cutoffs",
    "learning",
    "costs",
    "conventions",
    "hyperparameters",
    "data",
    "notes",
]

SECTIONS_IN_ORDER = [
    *["leaderboard", "pairs", "folds", "aa", "power"],
    *["distribution", "queries", "risk", "slices", "cutoffs", "learning"],
    *["costs", "conventions", "importances", "hyperparameters", "data", "published", "notes"],
]
"""In the order in which they are read; further ones may stand between them."""


NOTHING_TO_FIND = Judgments(labels=np.zeros(6), query_start=np.array([0, 3, 6]))
ONE_QUERY = Judgments(labels=np.array([1.0, 0.0, 2.0]), query_start=np.array([0, 3]))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Comparison]:
    return comparisons(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def page(found: list[Comparison], tmp_path_factory: pytest.TempPathFactory) -> str:
    return report(found, tmp_path_factory.mktemp("report") / "report.html").read_text()


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


def test_sections_are_found_in_the_order_of_their_places() -> None:
    makers = sections_by_place()
    assert list(makers) == sorted(makers)
    names = [make.__name__.removesuffix("_section") for make in makers.values()]
    assert [name for name in names if name in SECTIONS_IN_ORDER] == SECTIONS_IN_ORDER


def test_two_sections_at_one_place_are_refused() -> None:
    taken = sections_by_place()[10]
    with pytest.raises(ValueError, match=naming("another", "leaderboard_section", "10")):

        @section(place=10)
        def another(shown: Shown) -> None:
            del shown

    assert sections_by_place()[10] is taken


def test_every_section_stands_in_the_page_and_in_its_contents(page: str) -> None:
    reader = _Reader(page)
    anchors = [f"data-1-{name}" for name in SECTIONS]
    assert [name for name in reader.ids if name in anchors] == anchors
    assert {f"#{anchor}" for anchor in anchors} <= set(reader.references)


def test_no_id_stands_twice_and_every_reference_stays_in_the_page(page: str) -> None:
    reader = _Reader(page)
    assert len(reader.ids) == len(set(reader.ids))
    local = {reference[1:] for reference in reader.references if reference.startswith("#")}
    assert local <= set(reader.ids)
    assert all(reference.startswith("#") or reference == "data:," for reference in reader.references)
    assert "http://" not in page
    assert "https://" not in page


def test_names_of_models_and_queries_are_text(page: str) -> None:
    reader = _Reader(page)
    said = "".join(reader.texts)
    assert HOSTILE_MODEL in said
    assert HOSTILE_QUERY in said
    assert reader.tags.count("script") == 1
    assert not {"img", "b"} & set(reader.tags)


def test_the_page_allows_no_script_but_its_own_and_fetches_nothing(page: str) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert re.search(r"script-src &#39;sha256-[\w+/=]+&#39;|script-src 'sha256-[\w+/=]+'", policy[1])


_NO_NUMBER = re.compile(r"\b(?:nan|NaN|None|inf)\b")


def test_what_is_not_a_number_is_never_printed(page: str) -> None:
    assert not _NO_NUMBER.search(" ".join(_Reader(page).texts))


@pytest.mark.parametrize("judgments", [NOTHING_TO_FIND, ONE_QUERY, judged(2)])
def test_data_that_leave_nothing_to_say_have_dashes(tmp_path: Path, judgments: Judgments) -> None:
    # Names of one length make scores of one kind, so that the two models are identical.
    runs = [write_run(tmp_path / name, name, judged=judgments) for name in ("one", "two")]
    path = report(compare(runs, Settings(metric="ndcg@10", num_draws=20)), tmp_path / "report.html")
    said = " ".join(_Reader(path.read_text()).texts)
    assert not _NO_NUMBER.search(said)
    assert numbers.EN_DASH in said


def test_means_differences_and_p_values_are_those_of_the_comparison(
    found: list[Comparison], page: str
) -> None:
    said = " ".join(_Reader(page).texts)
    (comparison,) = found
    for row in comparison.rows:
        assert numbers.quality(row.metrics["ndcg@10"]) in said
    for pair in comparison.pairs:
        assert numbers.difference(pair.statistics.difference) in said
        assert numbers.p_value(pair.p_adjusted["holm"]["randomisation"]) in said


def test_the_risk_of_each_model_is_that_of_the_queries_values(found: list[Comparison], page: str) -> None:
    said = " ".join(_Reader(page).texts)
    (comparison,) = found
    assert comparison.queries is not None
    base = comparison.queries.labels.index(comparison.baseline)
    for alpha in (1, 5):
        assert f"GeoRisk, alpha {alpha}" in said
        for item in risks(comparison.queries.sample, base, alpha):
            assert numbers.quality(item.geo_risk) in said
            assert numbers.difference(item.u_risk) in said
            assert numbers.signed(item.t_risk) in said


def test_queries_above_below_and_on_the_diagonal_are_wins_losses_and_ties(
    found: list[Comparison], page: str
) -> None:
    said = " ".join(_Reader(page).texts)
    for row in found[0].rows:
        if row.to_baseline is not None:
            own = row.to_baseline.statistics
            assert mentions(said, f"{own.wins} above", f"{own.losses} below", f"{own.ties} on")


def test_the_shares_of_queries_at_0_and_at_1_are_counted(found: list[Comparison], page: str) -> None:
    said = " ".join(_Reader(page).texts)
    (comparison,) = found
    assert comparison.queries is not None
    for values in comparison.queries.sample.values:
        assert numbers.share((values == 0).mean()) in said
        assert numbers.share((values == 1).mean()) in said


def test_a_metric_that_may_exceed_1_has_no_share_of_queries_at_1(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, name, judged=judged(2)) for name in ("one", "three")]
    for metric, expected in (("dcg@10", False), ("ndcg@10", True)):
        found = compare(runs, Settings(metric=metric, num_draws=20))
        texts = _Reader(report(found, tmp_path / "report.html").read_text()).texts
        assert "at 0" in texts
        assert ("at 1" in texts) == expected


def test_interactions_are_adjusted_over_all_of_the_report(found: list[Comparison], page: str) -> None:
    said = " ".join(_Reader(page).texts)
    (comparison,) = found
    tested = interactions(comparison, slices(comparison, [*ATTRIBUTES]))
    assert {item.attribute for item in tested} == {*ATTRIBUTES}
    for item in tested:
        assert numbers.p_value(item.p_value) in said
        assert numbers.p_value(item.p_adjusted) in said
        assert item.note in said


def test_slices_with_too_few_queries_have_a_reason_instead_of_a_table_of_tests(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, name, judged=judged(2)) for name in ("one", "three")]
    path = report(compare(runs, Settings(metric="ndcg@10", num_draws=20)), tmp_path / "report.html")
    said = " ".join(_Reader(path.read_text()).texts)
    assert mentions(said, "not tested", f"{SMALLEST_GROUP} queries")
    assert "slices tested" not in said


def test_a_scope_that_all_claims_have_stands_once_above_the_matrix_of_pairs(page: str) -> None:
    matrix = page[page.index("Row minus column") : page.index("Tests of these trained models")]
    # The caption is also the label of the region.
    assert matrix.count(SCOPES[METHODS]) == matrix.count("Row minus column")


def test_the_same_comparison_gives_the_same_bytes(found: list[Comparison], page: str, tmp_path: Path) -> None:
    assert report(found, tmp_path / "report.html").read_text() == page


def test_the_command_can_be_copied(page: str) -> None:
    assert "python -m ltrbench compare 'some folder'" in "".join(_Reader(page).texts)


def test_means_are_those_under_every_convention(found: list[Comparison]) -> None:
    (comparison,) = found
    defined = [outcome for outcome in outcomes(comparison) if not outcome.reason]
    for outcome in defined:
        for row in comparison.rows:
            own = [
                evaluate(item.judgments, item.scores, ["ndcg@10"], outcome.convention).means["ndcg@10"]
                for item in row.evaluated
            ]
            assert outcome.means[row.label] == pytest.approx(sum(own) / len(own), abs=1e-15)
    assert [outcome.convention.name for outcome in defined] == [
        name for name in PRESETS if name != "trec_eval"
    ]


def test_a_metric_that_a_convention_does_not_define_has_its_reason(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, name, judged=judged(1)) for name in ("native", "lightgbm")]
    (comparison,) = compare(runs, Settings(metric="mrr", num_draws=20))
    reasons = {outcome.convention.name: outcome.reason for outcome in outcomes(comparison)}
    assert mentions(reasons["lightgbm"], "mrr", "lightgbm")
    assert reasons["ranklib"] == ""


def decided_under(runs: list[Run], convention: Convention, **given: Any) -> dict[str, str]:
    """Label -> the claim against the baseline of a comparison that is made under a convention."""
    (comparison,) = compare(runs, Settings(metric="ndcg@10", convention=convention, num_draws=DRAWS, **given))
    return {row.label: row.to_baseline.claim for row in comparison.rows if row.to_baseline is not None}


@pytest.mark.parametrize("folds", [(1,), (1, 2, 3)])
@pytest.mark.parametrize("baseline", [None, "weak"])
def test_claims_under_a_convention_are_those_of_a_comparison_under_it(
    tmp_path: Path, folds: tuple[int, ...], baseline: str | None
) -> None:
    skills = {"native": 1.2, "close": 1.15, "weak": 0.8, "random": 0.0}
    runs = [
        write_run(tmp_path / f"{name}{fold}", name, fold=fold, skill=skill, judged=judged(fold, 150))
        for name, skill in skills.items()
        for fold in folds
    ]
    given: dict[str, Any] = {"baseline": baseline, "rope": 0.02}
    (comparison,) = compare(runs, Settings(metric="ndcg@10", num_draws=DRAWS, **given))
    own, *others = (outcome for outcome in outcomes(comparison) if not outcome.reason)
    assert own.claims == decided_under(runs, comparison.settings.convention, **given)
    assert len(others) > 5
    for outcome in others:
        assert outcome.claims == decided_under(runs, outcome.convention, **given)


def test_a_claim_that_another_convention_does_not_allow_is_marked(tmp_path: Path) -> None:
    # Every query has five documents, and letor4 counts a query of fewer than ten as 0.
    runs = [
        write_run(tmp_path / name, name, skill=skill, judged=judged(2))
        for name, skill in (("native", 3.0), ("random", 0.0))
    ]
    (comparison,) = compare(runs, Settings(metric="ndcg@10", num_draws=DRAWS))
    own, *others = outcomes(comparison)
    assert own.claims == {"random": "worse"}
    assert {other.convention.name for other in others if other.changed(own)} == {"letor4"}
    text = report([comparison], tmp_path / "report.html").read_text()
    said = " ".join(_Reader(text).texts)
    assert mentions(said, "against native change", "letor4 (random)", "worse under default")


def test_claims_that_no_convention_changes_are_said_to_be_the_same(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / name, name, skill=skill, judged=judged(2))
        for name, skill in (("native", 3.0), ("random", 0.0))
    ]
    found = compare(runs, Settings(metric="ndcg@5", num_draws=DRAWS))
    count = sum(not outcome.reason for outcome in outcomes(found[0]))
    said = " ".join(_Reader(report(found, tmp_path / "report.html").read_text()).texts)
    assert mentions(said, "claims against native", "the same", f"all {count} conventions")


def test_the_parts_of_the_error_stand_in_a_picture_and_in_numbers(found: list[Comparison], page: str) -> None:
    said = " ".join(_Reader(page).texts)
    (comparison,) = found
    assert "Parts of the error" in said
    for pair in comparison.pairs:
        assert pair.inference is not None
        assert pair.inference.standard_error is not None
        parts = pair.inference.parts
        assert f"SE {pair.inference.standard_error:.4f}" in said
        assert numbers.share(parts.query / parts.total) in said


def test_trained_models_have_no_parts_of_the_error(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, name, judged=judged(2)) for name in ("native", "random")]
    text = report(compare(runs, Settings(num_draws=DRAWS)), tmp_path / "report.html").read_text()
    assert "Parts of the error" not in text


def test_the_report_names_what_a_difference_needs_only_where_one_was_named(
    found: list[Comparison], page: str, tmp_path: Path
) -> None:
    said = " ".join(_Reader(page).texts)
    (comparison,) = found
    for pair in comparison.pairs:
        assert numbers.quality(pair.power.detectable) in said
        for need in pair.power.needs:
            assert f"{need.kind} for 0.01" in said
            assert f"now {numbers.count(need.present)}" in said
            assert "no number" in said if need.number is None else numbers.count(need.number) in said
    runs = [run for row in comparison.rows for run in row.runs]
    unasked = report(compare(runs, Settings(num_draws=DRAWS)), tmp_path / "report.html").read_text()
    assert mentions(unasked, "inimum detectable difference")
    assert not mentions(unasked, "To detect")


def test_one_model_alone_has_a_report_without_comparisons(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "native", fold=None, judged=judged(2), seconds={}, peak_memory_mb=None)
    path = report(compare([run], Settings(metric="ndcg@10", num_draws=20)), tmp_path / "report.html")
    ids = _Reader(path.read_text()).ids
    assert "data-1-leaderboard" in ids
    assert "data-1-pairs" not in ids
    assert "data-1-folds" not in ids


def test_an_attribute_of_the_users_stands_beside_those_that_all_data_have(
    found: list[Comparison], tmp_path: Path
) -> None:
    (comparison,) = found
    assert comparison.queries is not None
    ids = [query_id for own in comparison.queries.judgments for query_id in own.query_ids.tolist()]
    given = {"<market>": {query_id: f"shop {number % 2}" for number, query_id in enumerate(ids)}}
    write_report(found, tmp_path / "report.html", {comparison.data: slices(comparison, ["<market>"], given)})
    said = " ".join(_Reader((tmp_path / "report.html").read_text()).texts)
    for expected in ("<market>", "shop 0", "shop 1", "Number of documents", "Entropy of the labels"):
        assert expected in said


def test_two_data_sets_have_a_chapter_each_and_the_reason_why_there_is_no_test_over_both(
    tmp_path: Path,
) -> None:
    page = report(comparisons(tmp_path, ("one", "two")), tmp_path / "report.html").read_text()
    reader = _Reader(page)
    assert [name for name in reader.ids if re.fullmatch(r"data-\d+", name)] == ["data-1", "data-2"]
    assert mentions(" ".join(reader.texts), "2 data sets", "folds are not")


@pytest.mark.slow
def test_a_report_on_thirty_thousand_queries_is_below_six_megabytes(tmp_path: Path) -> None:
    path = report(many_queries(tmp_path / "runs"), tmp_path / "report.html")
    assert path.stat().st_size < 1e6


def test_a_single_test_set_is_not_called_all_folds(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, name, judged=judged(2)) for name in ("one", "three")]
    path = report(compare(runs, Settings(metric="ndcg@10", num_draws=20)), tmp_path / "report.html")
    said = " ".join(_Reader(path.read_text()).texts)
    assert "Data card" in said
    assert "all folds together" not in said


def test_several_folds_are_called_all_folds(page: str) -> None:
    assert mentions(" ".join(_Reader(page).texts), "all folds together")


def test_a_time_has_one_name_in_the_table_the_report_and_show(tmp_path: Path) -> None:
    seconds = {"load": 1.0, "fit": 3.0, "monitor": 1.0, "fit_clean": 2.0, "predict": 0.5}
    runs = [write_run(tmp_path / name, name, judged=judged(2), seconds=seconds) for name in ("one", "three")]
    (found,) = compare(runs, Settings(metric="ndcg@10", num_draws=20))
    texts = _Reader(report([found], tmp_path / "report.html").read_text()).texts
    table, shown = render(found), dict(costs(runs[0].result))["seconds"]
    for kind in ("fit", "monitor", "fit_clean", "predict"):
        assert f"{TIMES[kind]} s" in table
        assert f"{TIMES[kind]} {seconds[kind]:.3f}" in shown
        assert any(text.strip().startswith(TIMES[kind]) for text in texts)
