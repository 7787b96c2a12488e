"""The verb ensemble: members and weights by a plain greedy selection, its row, and what is refused."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from command_line import run, statuses
from run_cases import finished_run, judged
from toy_runs import write

from ltrbench.cli import main
from ltrbench.metrics import evaluate
from ltrbench.runs import Run, find_runs, read_run
from ltrbench.runs.origin import Ensemble
from ltrbench.runs.record import ScoredSplit
from ltrbench.shapes import Scores

METRIC, SIZE = "ndcg@5", 7
NEED_A_MODEL = [
    f"{words} sweep/pair/0"
    for words in ("ship --to c --output new", "serve", "show --trees")
]


def standardised(scored: ScoredSplit) -> Scores:
    queries = np.split(scored.scores.astype(float), scored.judgments.query_start[1:-1])
    return np.concatenate(
        [(each - each.mean()) / (each.std() or 1.0) for each in queries]
    )


def selected(members: Sequence[Run]) -> list[int]:
    """The draws of the plain greedy selection, up to the first highest value."""
    judgments = members[0].scored("valid").judgments
    parts = [standardised(member.scored("valid")) for member in members]
    draws, values = list[int](), list[float]()
    for _ in range(SIZE):
        means = [
            np.mean([parts[each] for each in (*draws, one)], axis=0)
            for one in range(len(parts))
        ]
        reached = [evaluate(judgments, mean, [METRIC]).means[METRIC] for mean in means]
        values.append(max(reached))
        draws.append(reached.index(max(reached)))
    return draws[: values.index(max(values)) + 1]


@pytest.mark.slow
@pytest.mark.usefixtures("migrated_store")
def test_each_cell_has_the_ensemble_of_a_plain_greedy_selection(tmp_path: Path) -> None:
    jobs = "model=native,lightgbm,xgboost,random seed=1,2 cv=2 data.num_queries=60 params.num_trees=6"
    run(
        *jobs.split(),
        "importance=null",
        "metrics=ndcg@5",
        "-m",
        "hydra.sweep.dir=sweep",
        folder=tmp_path,
    )
    run("ensemble", "sweep", "--metric", METRIC, "--size", str(SIZE), folder=tmp_path)
    made = find_runs([tmp_path / "sweep/ensemble"])
    assert len(made) == 4
    for each in made:
        origin = each.result.origin
        assert isinstance(origin, Ensemble)
        test, weights = each.scored("test"), origin.weights
        members = [read_run(tmp_path / folder) for folder in origin.runs.values()]
        assert [member.result.model for member in members] == [
            "native",
            "lightgbm",
            "xgboost",
        ]
        assert (
            len({(one.result.seed, str(one.result.data)) for one in (each, *members)})
            == 1
        )
        draws = selected(members)
        shares = [draws.count(number) / len(draws) for number in range(3)]
        assert [*weights.values()] == pytest.approx(shares)
        parts = [standardised(member.scored("test")) for member in members]
        np.testing.assert_allclose(test.scores, np.array(shares) @ parts, atol=1e-12)
        assert not any(name.startswith("valid/") for name in each.result.metrics)
        drawn = [members[number].result.seconds["predict"] for number in set(draws)]
        assert each.result.seconds["predict"] == pytest.approx(sum(drawn))
    assert "\nensemble " in run("compare", "sweep", folder=tmp_path).stdout
    assert "members" in run("show", str(made[0].path), folder=tmp_path).stdout
    assert ("ensemble on synthetic", "FINISHED") in statuses(tmp_path)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("ensemble sweep --models blind,native", ["blind", "valid", "--models"]),
        ("ensemble sweep --name ../x", ["'../x'", "sweep, such as ensemble"]),
        ("ensemble sweep --models natve,lightgbm", ["'natve'", "'native'?"]),
        ("ensemble sweep --models native,lightgbm --name native", ["native", "--name"]),
        (
            "ensemble sweep --models native,lightgbm --name pair",
            ["sweep/pair", "--name"],
        ),
        ("ensemble sweep --models native,pair", ["pair", "valid", "--models"]),
        (
            "ensemble sweep --models native,lightgbm --name x --metric ndgc@5",
            ["'ndgc@5'", "ndcg"],
        ),
        ("ensemble seen", ["seen/blind", "is its test set", "data.valid"]),
        *(
            (words, ["sweep/pair/0", "no model", "sweep/native"])
            for words in NEED_A_MODEL
        ),
        ("final sweep --model pair", ["pair", "not trained", "--model"]),
    ],
)
def test_what_an_ensemble_cannot_be_or_do_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, parts: list[str]
) -> None:
    for model in ("native", "lightgbm", "blind"):
        finished_run(
            tmp_path / "sweep" / model,
            model,
            valid=model != "blind",
            skill=1 / len(model),
        )
        write(
            tmp_path / "seen" / model,
            model,
            valid="test of fold 1",
            validated=judged(1, "valid"),
        )
    with contextlib.chdir(tmp_path):
        assert (
            main(
                [
                    "ensemble",
                    "sweep",
                    "--models",
                    "native,lightgbm",
                    "--name=pair",
                    "--size=1",
                ]
            )
            == 0
        )
        assert main(words.split()) == 2
    printed = capsys.readouterr().err
    assert all(part in printed for part in parts), printed
    assert not (tmp_path / "sweep/ensemble").exists()
