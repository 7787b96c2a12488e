# mypy: strict-optional=False
"""The decision on a shop's log: its verdict changes as planted effects do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import run
from numpy.typing import NDArray
from shop_log import shop_log
from toy_runs import keys_of, mentions, write

from ltrbench.compare import Answer, Guard, Settings, answer_of, compare
from ltrbench.compare.decision import Decision, decide
from ltrbench.data import Judgments
from ltrbench.runs.record import Run, ScoredSplit

LOG = shop_log(num_queries=1000, seed=1)
SIZES = LOG.groupby("query_id", sort=False).size().to_numpy()
WEIGHTS = np.arange(1, len(SIZES) + 1) ** np.float64(-0.5)
JUDGED = Judgments(
    labels=LOG.label.to_numpy(dtype=np.float64),
    query_start=np.concatenate([[0], SIZES.cumsum()]),
    query_weights=WEIGHTS,
    kept={"revenue": LOG.revenue.to_numpy(), "device": LOG.device.to_numpy(dtype=str)},
)
RNG = np.random.default_rng(0)
IN_USE = LOG.label.to_numpy() + RNG.normal(scale=2, size=len(LOG))
SIMILAR = IN_USE + RNG.normal(scale=0.01, size=len(LOG))
NOISY = IN_USE + np.random.default_rng(1).normal(scale=0.3, size=len(LOG))
PRICE = np.log(LOG.price.to_numpy())
SHARE = (WEIGHTS.cumsum() - WEIGHTS / 2) / WEIGHTS.sum()
PART_OF_DOCUMENT = np.array(["head", "torso", "tail"])[(3 * SHARE).astype(int)][
    JUDGED.query_of_document
]
Scores = NDArray[np.float64]


def decision(
    folder: Path, guards: list[str], **scores: Scores
) -> tuple[Decision, Answer]:
    """Returns the decision about models with these scores, and its words."""
    runs = []
    for model, of_model in {"in_use": IN_USE, **scores}.items():
        written = write(folder / model, model, fold=None, judged=JUDGED)
        held = {"test": ScoredSplit(JUDGED, of_model, keys_of(JUDGED))}
        runs.append(Run(written.path, written.result, held))
    parsed = tuple(map(Guard.parse, guards))
    settings = Settings(
        "value@5:revenue", guards=parsed, baseline="in_use", num_draws=200
    )
    (comparison,) = compare(runs, settings=settings)
    return decide(comparison), answer_of(comparison)


BETTER = IN_USE + (LOG.revenue.to_numpy() > 0)
SHUFFLED_TAIL = np.where(PART_OF_DOCUMENT == "tail", RNG.permutation(BETTER), BETTER)


@pytest.mark.parametrize(
    ("new", "verdict", "parts"),
    [
        (
            BETTER,
            "ship",
            [
                "Ship new",
                "revenue in the first 5 is higher",
                "ndcg@10 is not lower",
                "ndcg@10:tail is not",
            ],
        ),
        # Expensive products first: more revenue, less relevance.
        (
            IN_USE + PRICE,
            "keep",
            [
                "Keep in_use",
                "new: ndcg@10 is lower by more than 0.005",
                "revenue in the first 5 is higher",
            ],
        ),
        (
            SHUFFLED_TAIL,
            "keep",
            ["Keep in_use", "ndcg@10:tail is lower by more than 0.1"],
        ),
        (
            SIMILAR,
            "undecided",
            [
                "Undecided, keep in_use",
                "revenue in the first 5 is undecided",
            ],
        ),
        (
            2 * IN_USE - BETTER,
            "keep",
            ["Keep in_use", "new: revenue in the first 5 is not higher"],
        ),
    ],
)
def test_the_verdict_changes_as_planted_effects_do(
    tmp_path: Path, new: Scores, verdict: str, parts: list[str]
) -> None:
    guards = ["ndcg@10=-0.005", "ndcg@10:tail=-0.1"]
    decided, answer = decision(tmp_path, guards, new=new)
    assert decided.kind == verdict, answer.headline
    assert mentions(" ".join(answer.sentences), *parts), answer.sentences
    assert decided.models == ("new" if verdict == "ship" else "in_use",)


def test_queries_are_planned_for_the_limits_and_not_for_the_differences_found(
    tmp_path: Path,
) -> None:
    decided, answer = decision(tmp_path, ["ndcg@10=-0.003", "map=0"], new=NOISY)
    (checks,) = decided.checks.values()
    assert {check.state for check in checks[1:]} <= {"undecided", "holds"}
    (sentence,) = [text for text in answer.sentences if "To decide on new" in text]
    # Revenue has no region of equivalence, so that no difference is known to matter.
    assert "revenue" not in sentence
    numbers = {
        float(limit): int(number.replace(",", ""))
        for number, limit in re.findall(
            r"([\d,]+) queries for a difference of ([\d.]+)", sentence
        )
    }
    # For a difference of 0.01 in map, the width of the region of equivalence, there are enough.
    assert numbers.keys() == {0.003}
    for number in numbers.values():
        # More than there are, with two significant figures.
        assert number > len(SIZES)
        assert re.fullmatch(r"\d\d0*", str(number))


@pytest.mark.slow
def test_latency_and_memory_are_those_of_the_saved_model(tmp_path: Path) -> None:
    log = LOG.head(4000)
    log.to_parquet(tmp_path / "shop.parquet")
    log[["query_id", "document_id"]].assign(score=-log.price).to_csv(
        tmp_path / "production.csv", index=False
    )
    words = "model=native,random params.num_trees=5 data=table data.train=shop.parquet data.split_by=date"
    data = "data.categorical=[brand,category,device] data.keep=[revenue] data.ignore=[returned]"
    run(
        *words.split(),
        *data.split(),
        *["tracking=none", "importance=null", "-m", "hydra.sweep.dir=shop"],
        folder=tmp_path,
    )

    def compared(*guards: str, baseline: str = "production", expected: int = 0) -> Any:
        options = ["--primary", "ndcg@10", "--baseline", baseline, "--json"]
        options += [word for guard in guards for word in ("--guard", guard)]
        return run(
            "compare",
            "shop",
            "production=production.csv",
            *options,
            folder=tmp_path,
            check=expected,
        )

    done = compared(
        "value@10:revenue=-9", "latency=5s", "memory=9GB", "memory=0.00001MB"
    )
    decided = json.loads(done.stdout)["comparisons"][0]["decision"]
    checks = decided["checks"]["native"]
    assert [each["name"] for each in checks] == [
        "ndcg@10",
        "value@10:revenue",
        "latency",
        "memory",
        "memory",
    ]
    assert decided["checks"].keys() == {"native"}
    # Of the baseline it is not shown that it is better than random, nor that it is worse.
    assert (decided["kind"], decided["unbeaten"]) == ("keep", [])
    assert 0 < checks[2]["value"] < 5000
    assert [each["state"] for each in checks] == ["holds"] * 4 + ["fails"]
    refused = compared("latency=5s", baseline="native", expected=2)
    assert mentions(
        refused.stderr, "latency", "production", "imported scores", "trained run"
    )
    run(
        "import",
        "old",
        "production.csv",
        "--like",
        "shop/0",
        "--output",
        "shop/old",
        folder=tmp_path,
    )
    done = compared("latency=5s", "ndcg@10=-0.1")
    decided = json.loads(done.stdout)["comparisons"][0]["decision"]
    of_latency = {
        label: [each["name"] for each in of_row]
        for label, of_row in decided["checks"].items()
    }
    assert of_latency == {
        "native": ["ndcg@10", "latency"],
        "old (imported)": ["ndcg@10", "latency"],
    }
    assert decided["checks"]["old (imported)"][1]["state"] == "undecided"
