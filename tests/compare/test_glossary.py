"""Every column and every note has an entry in the glossary, and every entry is used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from claim_cases import only, runs_of
from messages import naming
from paths import ROOT
from toy_runs import write

import ltrbench
from ltrbench.cli import main
from ltrbench.compare import Comparison, render
from ltrbench.compare.analysis.methods import all_notes
from ltrbench.compare.notes import GROUPS, ON_BACKENDS, ON_CLAIMS, Note, by_group
from ltrbench.compare.output.publish import as_markdown, publish
from ltrbench.compare.output.report import write_report
from ltrbench.compare.output.tables import _columns, column_terms, terms_of
from ltrbench.errors import ConfigError
from ltrbench.glossary import anchor, extract, find_term, glossary

PACKAGE = Path(ltrbench.__file__).parent


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("runs")
    sentences = ("It cannot bound leaves.", "It has its own bins.")
    return only(
        [
            *runs_of(folder, "native", (1,), skill=3.0),
            *runs_of(folder, "xgboost", (1,), unmatched=sentences, seconds={"fit": 1.0, "fit_clean": 0.5}),
        ]
    )


def _strings(node: ast.expr) -> Iterator[str]:
    return (str(item.value) for item in ast.walk(node) if isinstance(item, ast.Constant))


def declared_terms() -> set[str]:
    """The terms that notes, sections and chapters are made with, read from the source."""
    terms: set[str] = set()
    for path in (PACKAGE / "compare").rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            if isinstance(node, ast.Call) and name == "Note":
                terms |= {*_strings(node.args[1])}
            if isinstance(node, ast.Call) and name == "Section":
                terms |= {text for argument in node.args[4:] for text in _strings(argument)}
            if isinstance(node, ast.Call) and name == "Chapter":
                terms |= {
                    text for word in node.keywords if word.arg == "terms" for text in _strings(word.value)
                }
            # Terms that are given a name first.
            if isinstance(node, ast.Assign) and {"terms", "_TERMS"} & {
                ast.unparse(item) for item in node.targets
            }:
                terms |= {*_strings(node.value)}
            # `_method_notes` has its terms as keys.
            if isinstance(node, ast.FunctionDef) and node.name == "_method_notes":
                terms |= {
                    text
                    for item in ast.walk(node)
                    if isinstance(item, ast.Dict)
                    for text in map(_key, item.keys)
                }
    return terms


def _key(node: ast.expr | None) -> str:
    return str(ast.literal_eval(node)) if node is not None else ""


def test_every_note_and_column_has_an_entry_and_every_entry_is_used(comparison: Comparison) -> None:
    used = declared_terms() | {item.term for item in _columns(comparison)}
    assert used - glossary().keys() == set()
    assert glossary().keys() - used == set()


def test_the_terms_of_a_comparison_are_declared(comparison: Comparison) -> None:
    assert {note.term for note in all_notes(comparison)} <= declared_terms()
    assert set(terms_of(comparison)) <= glossary().keys()


def test_entries_are_one_to_four_sentences_and_have_anchors_of_their_own() -> None:
    for term, text in glossary().items():
        assert 1 <= len(re.findall(r"[.!?](?= |$)", text)) <= 5, term
    assert len(set(map(anchor, glossary()))) == len(glossary())


def test_notes_are_grouped_in_one_order_without_empty_groups(comparison: Comparison) -> None:
    groups = by_group(all_notes(comparison))
    assert list(groups) == [group for group in GROUPS if group in groups]
    text = render(comparison, width=100)
    headings = [line.partition(" (glossary: ") for line in text.splitlines() if " (glossary: " in line]
    assert [name for name, _, _ in headings] == list(groups)
    assert headings[0][2].rstrip(")").split(", ")[0] == groups[headings[0][0]][0].term
    assert len(GROUPS) <= 5


def test_differences_of_a_backend_are_one_bullet(comparison: Comparison) -> None:
    notes = by_group(all_notes(comparison))[ON_BACKENDS]
    (of_backend,) = (note for note in notes if note.subject == "xgboost")
    assert names(of_backend, "xgboost: ", "It cannot bound leaves. It has its own bins.")
    assert "xgboost: It has its own bins." in comparison.notes


def names(note: Note, *parts: str) -> bool:
    return all(part in str(note) for part in parts)


def test_a_table_in_markdown_links_each_note_and_column_to_the_extract_beside_it(
    comparison: Comparison, tmp_path: Path
) -> None:
    publish([comparison], tmp_path / "out")
    text = (tmp_path / "out/table.md").read_text()
    linked = set(re.findall(r"\]\(glossary\.md#([\w-]+)\)", text))
    headings = re.findall(r"^## (.+)$", (tmp_path / "out/glossary.md").read_text(), re.MULTILINE)
    assert linked == {anchor(term) for term in headings}
    assert set(headings) == set(terms_of(comparison))


def test_the_report_holds_the_glossary_and_links_to_it(comparison: Comparison, tmp_path: Path) -> None:
    write_report([comparison], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for term in glossary():
        assert f'id="glossary-{anchor(term)}"' in page
    for term in (note.term for note in all_notes(comparison)):
        assert f'href="#glossary-{anchor(term)}"' in page


def test_the_documentation_includes_the_same_file() -> None:
    assert '--8<-- "ltrbench/glossary.md"' in (ROOT / "docs/lookup/glossary.md").read_text()
    assert "glossary.md" in (ROOT / "mkdocs.yml").read_text()


def test_the_verb_lists_terms_prints_entries_and_suggests_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["glossary"]) == 0
    assert capsys.readouterr().out.split("\n")[:-1] == list(glossary())
    for words in (["simultaneous", "interval"], ["Simultaneous-Interval"]):
        assert main(["glossary", *words]) == 0
        assert glossary()["simultaneous interval"] in capsys.readouterr().out
    assert main(["glossary", "simultanous interval"]) == 2
    assert re.search(naming("simultanous interval", "'simultaneous interval'?"), capsys.readouterr().err)
    with pytest.raises(ConfigError, match=naming("zzz", "python -m ltrbench glossary")):
        find_term("zzz")


def test_the_last_line_of_the_terminal_table_names_the_verb(comparison: Comparison) -> None:
    assert "python -m ltrbench glossary TERM" in render(comparison, width=80).splitlines()[-1]


def test_an_extract_has_each_term_once_in_the_order_of_the_glossary() -> None:
    text = extract(["scope", "claim", "scope"])
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["claim", "scope"]


def test_a_clean_fit_has_a_column_with_its_term(comparison: Comparison) -> None:
    assert "clean fit s" in column_terms(comparison)


def test_notes_without_a_subject_stay_apart() -> None:
    notes = by_group(
        [Note(ON_CLAIMS, "claim", "One."), Note(ON_CLAIMS, "claim", "Two."), Note(ON_CLAIMS, "claim", "One.")]
    )
    assert [str(note) for note in notes[ON_CLAIMS]] == ["One.", "Two."]


def test_missing_runs_are_a_note_on_the_data(tmp_path: Path) -> None:
    runs = [write(tmp_path / f"n{fold}", "native", fold=fold) for fold in (1, 2)]
    found = only([*runs, write(tmp_path / "x", "xgboost", fold=2)])
    (note,) = (note for note in found.note_entries if note.term == "missing runs")
    assert names(note, "xgboost", "fold 1")


def test_a_table_without_a_glossary_beside_it_has_no_links(comparison: Comparison) -> None:
    text = as_markdown([comparison], "toy", {})
    assert "](" not in text
    assert "(glossary: " in text
