from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from messages import naming

TESTS = Path(__file__).parents[1]
THREE_WORDS = re.compile(r"[A-Za-z]{2,} [a-z]{2,} [a-z]{2,}")


def test_a_pattern_finds_every_part_in_any_order() -> None:
    pattern = naming("train.txt", "line 3", -1)
    assert re.search(pattern, "line 3 of train.txt:\nthe label is -1")
    assert not re.search(pattern, "line 3 of train.txt: the label is 1")


def test_a_sentence_is_no_part() -> None:
    with pytest.raises(ValueError, match=naming("finite grade")):
        naming("a label is a finite grade")


def test_no_test_matches_the_wording_of_a_message() -> None:
    sentences = [
        f"{path.relative_to(TESTS)}:{node.lineno}: {literal.value!r}"
        for path in sorted(TESTS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.keyword)
        and node.arg == "match"
        and isinstance(node.value, ast.Constant | ast.JoinedStr)
        for literal in ast.walk(node.value)
        if isinstance(literal, ast.Constant) and THREE_WORDS.search(str(literal.value))
    ]
    assert sentences == [], "Use naming(...) of tests/messages.py with the value, the place and the remedy."
