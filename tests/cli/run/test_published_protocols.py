"""Experiments with published protocols have the published settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import run
from messages import naming

from ltrbench.runs import find_runs

NUM_QUERIES, NUM_DOCUMENTS = 12, 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("experiment", "settings"),
    [
        ("ltr_baseline", [1000, 63, 0.05, 20, 0.001]),
        ("lightgbm_docs", [500, 255, 0.1, 1, 100.0]),
    ],
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
        naming("MSLR-WEB", str(tmp_path), "Download it from https://", "LTRBENCH_DATA"),
        done.stderr,
    )
    failed = find_runs([tmp_path / "s"])[0]
    names = (
        "num_trees",
        "num_leaves",
        "learning_rate",
        "min_docs_in_leaf",
        "min_sum_hessian",
    )
    model = failed.result.settings["model"]
    assert [model[name] for name in names] == settings
    assert (model["max_bins"], model["l2"], model["early_stopping"]) == (255, 0.0, None)
