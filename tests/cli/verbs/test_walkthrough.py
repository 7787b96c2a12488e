"""The verb `walkthrough`: the worked example as tutorials publish it, in a text that is true."""

from __future__ import annotations

import re

import pytest

from docs.walkthrough import (
    tell,
)
from ltrbench.cli import main


@pytest.fixture(scope="module")
def text() -> str:
    return tell()


def cells(text: str, heading: str, column: str) -> list[str]:
    """A column of the first table below a heading that has it."""
    section = text.partition(f"## {heading}")[2]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines()]
    first = next(number for number, line in enumerate(lines) if column in line)
    place = lines[first].index(column)
    end = next(number for number in range(first, len(lines)) if lines[number] == [""])
    return [line[place] for line in lines[first + 2 : end]]


def test_the_numbers_are_those_that_tutorials_publish(text: str) -> None:
    assert re.search(r"DCG .*= 1\.466\n.*ideal DCG.*= 2\.562\n.*NDCG .*= 0\.572\n", text)
    deltas = [cells(text, "2. ", f"with {document}")[0] for document in (4, 5, 7, 8)]
    assert deltas == ["0.222", "0.239", "0.260", "0.267"]
    published = "-0.495 -0.206 -0.104 0.231 0.231 -0.033 0.240 0.247 -0.051 -0.061"
    assert cells(text, "3. ", "lambda") == published.split()


def test_the_verb_prints_what_the_engine_computes(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["walkthrough"]) == 0
    assert capsys.readouterr().out == f"{text}\n", "python docs/walkthrough.py writes it anew"
