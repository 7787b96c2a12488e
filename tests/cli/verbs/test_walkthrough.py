"""The verb `walkthrough`: the worked example as tutorials publish it, in a text that is true."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace

import numpy as np
import pytest
from paths import ROOT

from ltrbench.cli import main
from ltrbench.cli.lesson import (
    DIALECT,
    DIALECTS,
    Walk,
    best_cut,
    cuts_of,
    leaf_values,
    one_cut,
    tell,
    tutorial_cut,
    walk,
)
from ltrbench.metrics import DEFAULT, evaluate
from ltrbench.metrics.conventions import Ties
from ltrbench.native.objectives.lambdas import LambdaSettings, lambdas, ndcg_data
from ltrbench.native.objectives.pairs import pair_lambdas


@pytest.fixture(scope="module")
def walked() -> Walk:
    return walk()


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


def test_the_tutorials_cut_has_its_published_means_and_errors(walked: Walk) -> None:
    cut = tutorial_cut(walked)
    assert (np.flatnonzero(cut.left) + 1).tolist() == [1, 2, 3, 9]
    assert (round(cut.mean_left, 3), round(cut.mean_right, 3)) == (-0.214, 0.143)
    assert (round(cut.error_left, 4), round(cut.error_right, 4)) == (0.1173, 0.1082)


def test_gains_of_cuts_are_what_their_formulas_give(walked: Walk) -> None:
    pushes, hessians = -walked.pairs[0].gradients, walked.pairs[0].hessians
    for cut in cuts_of(walked, 1):
        sides, every = (cut.left, ~cut.left), np.ones(10, dtype=bool)
        for gain, counts in ((cut.least_squares, np.ones(10)), (cut.newton, hessians)):
            left, right, both = (pushes[s].sum() ** 2 / counts[s].sum() for s in (*sides, every))
            assert gain == pytest.approx(left + right - both)
        assert cut.error_left + cut.error_right == pytest.approx(
            np.square(pushes - pushes.mean()).sum() - cut.least_squares
        )


def test_the_engine_takes_the_best_cut_of_the_table(walked: Walk) -> None:
    tree, best = one_cut(walked.trees[0]), best_cut(walked, 1)
    assert (tree.feature, tree.threshold) == (1, best.threshold)
    assert tree.gain == pytest.approx(best.least_squares)
    # What the text says of it:
    assert (walked.data.labels[best.left] == 0).all()
    assert (walked.data.labels[~best.left] == 1).all()
    assert best.newton == max(cut.newton for cut in cuts_of(walked, 1))
    assert best_cut(walked, 5).least_squares == pytest.approx(best.least_squares)


def test_a_leafs_value_is_its_newton_step(walked: Walk) -> None:
    pairs = walked.pairs[0]
    for cut in (best_cut(walked, 1), tutorial_cut(walked)):
        steps = [-pairs.gradients[side].sum() / pairs.hessians[side].sum() for side in (cut.left, ~cut.left)]
        assert leaf_values(walked, cut.left, "newton") == pytest.approx(steps)
    tree, two_over_sigma = one_cut(walked.trees[0]), 2.0 / DIALECT.sigma
    assert (tree.value_left, tree.value_right) == pytest.approx((-two_over_sigma, two_over_sigma))


def test_the_criteria_part_on_a_document_for_the_reason_that_is_given(walked: Walk) -> None:
    without, with_it = (cut for cut in cuts_of(walked, 1) if cut.left.sum() in (3, 4))
    assert without.least_squares > with_it.least_squares
    assert without.newton < with_it.newton
    document = int(np.flatnonzero(without.left ^ with_it.left)[0])
    pushes, hessians = -walked.pairs[0].gradients, walked.pairs[0].hessians
    assert abs(pushes[document] - without.mean_right) < abs(pushes[document] - without.mean_left)
    steps = pushes / hessians
    assert steps[document] == pytest.approx(steps[without.left])


def test_the_second_iteration_starts_from_the_shrunk_steps_and_asks_for_a_margin(walked: Walk) -> None:
    tree, labels = one_cut(walked.trees[0]), walked.data.labels
    values = np.where(labels == 1, tree.value_right, tree.value_left)
    assert walked.scores[1] == pytest.approx(0.1 * values)
    assert walked.metric("ndcg", walked.scores[1]) == 1.0
    assert (-walked.pairs[1].gradients[labels == 1] > 0).all()
    assert one_cut(walked.trees[1]).value_right < tree.value_right


def test_what_is_told_is_what_training_computes(walked: Walk) -> None:
    judgements = ndcg_data(walked.data, 10)
    settings = LambdaSettings(truncation=10, normalize_distance=False, normalize_query=False)
    for scores, pairs in zip(walked.scores[:2], walked.pairs[:2], strict=True):
        gradients, hessians = lambdas(judgements, scores.astype(np.float64), settings)
        assert gradients == pytest.approx(pairs.gradients)
        assert hessians == pytest.approx(pairs.hessians)


def test_dialects_differ_as_the_text_says(walked: Walk) -> None:
    first = {name: pair_lambdas(walked.data.labels, np.zeros(10), item) for name, item in DIALECTS.items()}
    ranklib = first["ranklib"].gradients
    total = np.abs(ranklib).sum()
    for name in ("native", "lightgbm", "xgboost"):
        assert first[name].gradients == pytest.approx(ranklib * np.log2(1.0 + total) / total, rel=1e-5)
    assert first["xgboost"].hessians == pytest.approx(2.0 * first["native"].hessians, rel=1e-5)
    convention = replace(DEFAULT, ties=Ties(DIALECTS["pyltr"].ties))
    worst = evaluate(walked.data, np.zeros(10), ["ndcg"], convention).means["ndcg"]
    assert worst < walked.metric("ndcg", np.zeros(10))


def test_every_function_that_is_named_is_where_the_text_says(text: str) -> None:
    named = re.findall(r"`(\w+)`\s+in\s+`(ltrbench/[\w/]+)\.py`", text)
    assert len(named) > 10
    for name, path in named:
        assert (ROOT / f"{path}.py").is_file()
        assert hasattr(importlib.import_module(path.replace("/", ".")), name)


def test_the_verb_prints_the_text(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["walkthrough"]) == 0
    assert capsys.readouterr().out == f"{text}\n"
