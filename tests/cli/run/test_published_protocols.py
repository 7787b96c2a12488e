"""Experiments with published protocols, on small files in the layouts of the publishers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from command_line import run
from messages import naming

from ltrbench.metrics import Convention, evaluate, preset
from ltrbench.runs import Run, find_runs

NUM_QUERIES, NUM_DOCUMENTS = 12, 20
FEW_TREES = (
    *("params.num_trees=3", "params.num_leaves=4", "params.min_docs_in_leaf=1"),
    *("params.min_sum_hessian=0.001", "tracking=none"),
)
"""Settings that make the protocols small."""


def part_of(number: int) -> str:
    """Returns LETOR text of queries of their own; every fourth query has no relevant document."""
    rng, lines = np.random.default_rng(number), []
    for query in range(NUM_QUERIES):
        labels = rng.integers(0, 5, NUM_DOCUMENTS) if query % 4 else np.zeros(NUM_DOCUMENTS, int)
        for label in labels:
            features = [label + rng.normal(scale=3), *rng.normal(size=2)]
            words = " ".join(f"{index}:{value:.4f}" for index, value in enumerate(features, start=1))
            lines.append(f"{label} qid:{100 * number + query} {words}\n")
    return "".join(lines)


def write_parts(file: Path, parts: Iterable[int]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(map(part_of, parts)))


def write_five_folds(root: Path) -> None:
    """Writes five folds: fold k trains on parts k, k + 1 and k + 2; k + 3 is valid, k + 4 is test."""
    for fold in range(5):
        first, second, third, valid, test = ((fold + place) % 5 for place in range(5))
        write_parts(root / f"Fold{fold + 1}/train.txt", (first, second, third))
        write_parts(root / f"Fold{fold + 1}/vali.txt", (valid,))
        write_parts(root / f"Fold{fold + 1}/test.txt", (test,))


def run_protocol(folder: Path, *words: str) -> tuple[str, list[Run]]:
    """Returns the printed table and the runs."""
    done = run(*words, *FEW_TREES, "hydra.sweep.dir=s", folder=folder, LTRBENCH_DATA=str(folder))
    return done.stdout, find_runs([folder / "s"])


def figures(table: str, origin: str) -> dict[str, list[str]]:
    """Returns model -> figures of the rows of an origin in the table of published values."""
    rows = re.findall(rf"^\| {origin} *\| (\S+) *\|(.*)\|$", table, re.MULTILINE)
    return {model: [cell.strip() for cell in cells.split("|")] for model, cells in rows}


def mean(runs: list[Run], model: str, metric: str, convention: Convention) -> float:
    """Returns the mean over folds of a metric of a model's stored scores."""
    scored = [one.scored("test") for one in runs if one.result.model == model]
    return fmean(evaluate(item.judgments, item.scores, [metric], convention).means[metric] for item in scored)


def fitted(one: Run, *names: str) -> list[Any]:
    return [one.result.settings["model"][name] for name in names]


def test_the_protocol_of_ltr_baseline_runs_all_folds_beside_its_published_values(tmp_path: Path) -> None:
    write_five_folds(tmp_path / "MSLR-WEB30K")
    table, runs = run_protocol(tmp_path, "experiment=ltr_baseline", "data=mslr_web30k")
    assert sorted((one.result.model, one.result.data["fold"]) for one in runs) == [
        (model, fold) for model in ("lightgbm", "native") for fold in (1, 2, 3, 4, 5)
    ]
    assert figures(table, "published") == {
        "LightGBM": ["0.4865", "0.5046"],
        "jforests": ["0.4843", "0.5025"],
        "QuickRank": ["0.4773", "0.4942"],
    }
    # Empty queries are skipped, as in the protocol.
    assert figures(table, "here, folds 1, 2, 3, 4, 5") == {
        model: [f"{mean(runs, model, f'ndcg@{k}', preset('default')):.4f}" for k in (5, 10)]
        for model in ("native", "lightgbm")
    }


@pytest.mark.parametrize(
    ("experiment", "settings"),
    [("ltr_baseline", [1000, 63, 0.05, 20, 0.001]), ("lightgbm_docs", [500, 255, 0.1, 1, 100.0])],
)
def test_a_protocol_has_the_published_settings(
    experiment: str, settings: list[float], tmp_path: Path
) -> None:
    # The data is absent, so that nothing is fitted, but the failed run records its settings.
    done = run(
        f"experiment={experiment}",
        *("model=lightgbm", "tracking=none", "hydra.sweep.dir=s"),
        folder=tmp_path,
        check=2,
        LTRBENCH_DATA=str(tmp_path),
    )
    assert re.search(
        naming("MSLR-WEB", str(tmp_path), "Download it from https://", "LTRBENCH_DATA"), done.stderr
    )
    failed = find_runs([tmp_path / "s"])[0]
    names = ("num_trees", "num_leaves", "learning_rate", "min_docs_in_leaf", "min_sum_hessian")
    assert fitted(failed, *names) == settings
    assert fitted(failed, "max_bins", "l2", "early_stopping") == [255, 0.0, None]
