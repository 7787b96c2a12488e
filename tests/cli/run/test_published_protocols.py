"""Experiments with published protocols have the published settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from composed_jobs import composed
from messages import naming

from ltrbench.errors import DataError


@pytest.mark.parametrize(
    ("experiment", "settings"),
    [
        ("ltr_baseline", [1000, 63, 0.05, 20, 0.001]),
        ("lightgbm_docs", [500, 255, 0.1, 1, 100.0]),
    ],
)
def test_a_protocol_has_the_published_settings(
    experiment: str,
    settings: list[float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LTRBENCH_DATA", str(tmp_path))
    protocol = composed(f"experiment={experiment}", "model=lightgbm")
    ranker: Any = protocol.ranker
    assert [
        ranker.num_trees,
        ranker.num_leaves,
        ranker.learning_rate,
        ranker.min_docs_in_leaf,
        ranker.min_sum_hessian,
    ] == settings
    assert (ranker.max_bins, ranker.l2, ranker.early_stopping) == (255, 0.0, None)
    # The data is absent.
    parts = ("MSLR-WEB", str(tmp_path), "Download it from https://", "LTRBENCH_DATA")
    with pytest.raises(DataError, match=naming(*parts)):
        protocol.source.load()
