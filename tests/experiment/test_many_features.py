"""Runs with more features than a person reads: their files list the features in use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ltrbench.data.sources import LetorFiles
from ltrbench.experiment import Experiment, run
from ltrbench.rankers import Ranker
from ltrbench.rankers.importance import (
    ACROSS,
    GAIN,
    MOST_LISTED,
    SHAP,
    SPLIT,
    WITHIN,
    ImportanceSettings,
)
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.runs import Run, read_run

NUM_FEATURES = 3 * MOST_LISTED


@pytest.fixture(scope="module")
def letor_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a file of 40 queries, whose labels depend on two of many features."""
    rng, lines = np.random.default_rng(0), []
    for query in range(40):
        for _ in range(10):
            first, second = rng.normal(size=2)
            columns = np.unique(rng.integers(2, NUM_FEATURES, 5))
            others = "".join(f" {column}:{rng.random():.3f}" for column in columns)
            label = int(np.clip(round(first + second), 0, 3))
            lines.append(f"{label} qid:{query} 1:{first:.3f}{others} {NUM_FEATURES}:{second:.3f}\n")
    path = tmp_path_factory.mktemp("many") / "train.txt"
    path.write_text("".join(lines))
    return path


def run_of(ranker: Ranker, letor_file: Path, folder: Path) -> Run:
    source = LetorFiles(name="many", train=str(letor_file), sparse=True)
    model = {"_target_": f"{type(ranker).__module__}.{type(ranker).__qualname__}"}
    kinds = ImportanceSettings(kinds=[SPLIT, GAIN, WITHIN, ACROSS, SHAP])
    experiment = Experiment(
        ranker=ranker, source=source, model=type(ranker).__name__, importance=kinds, config={"model": model}
    )
    return run(experiment, folder)


def boosted(seed: int = 0) -> LightGBMRanker:
    return LightGBMRanker(num_trees=3, num_leaves=4, min_docs_in_leaf=5, seed=seed, feature_fraction=0.5)


def test_the_files_of_a_run_list_the_features_in_use(letor_file: Path, tmp_path: Path) -> None:
    finished = run_of(boosted(), letor_file, tmp_path)
    assert finished.result.data["train"]["features"] == NUM_FEATURES
    assert "feature_names" not in finished.result.data["train"]
    names = read_run(tmp_path).result.feature_names
    assert names is not None
    assert (names[0], names[-1], len(names)) == ("1", str(NUM_FEATURES), NUM_FEATURES)
    importances = read_run(tmp_path).importances()
    assert importances.is_part
    assert 1 <= len(importances.feature_names) < 50
    for kind in ("split", "gain", "shap"):
        assert importances.values[kind].sum() == pytest.approx(1)
    assert {"permutation_within", "permutation_across"} <= importances.values.keys()
    assert sum(path.stat().st_size for path in tmp_path.iterdir() if path.is_file()) < 100_000
