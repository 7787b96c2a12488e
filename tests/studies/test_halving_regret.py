"""The study of successive halving: recorded curves, their replay, and the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ltrbench.data.splits import Splits
from ltrbench.data.synthetic import Synthetic
from ltrbench.rankers import EarlyStopping
from ltrbench.rankers.native import NativeRanker
from ltrbench.search import OVERALL, Range, Space, SuccessiveHalving
from results.halving.run import Curve, HalvingStudy, curve_of, replay

MODEL = NativeRanker(
    num_trees=20, num_leaves=7, num_threads=1, early_stopping=EarlyStopping(patience=5)
)
HALVING = SuccessiveHalving(trials=4, min_trees=5, eta=2)


@pytest.fixture(scope="module")
def splits() -> Splits:
    return Synthetic(name="made up", num_queries=60).load()


def recorded(model: NativeRanker, splits: Splits, folder: Path) -> Curve:
    assert splits.valid is not None
    return curve_of(model, splits.train, splits.valid, folder)


@pytest.mark.parametrize("num_trees", [1, 4, 11])
def test_a_fit_with_fewer_trees_is_the_beginning_of_a_fit_with_more(
    num_trees: int, splits: Splits, tmp_path: Path
) -> None:
    whole = recorded(MODEL, splits, tmp_path)
    assert len(whole) > 4
    shorter = recorded(replace(MODEL, num_trees=num_trees), splits, tmp_path)
    np.testing.assert_array_equal(shorter, whole[:num_trees])


def curve(*values: float) -> Curve:
    return np.array(values)


def test_a_replay_counts_the_iterations_of_all_rungs_and_the_regret_of_the_choice() -> (
    None
):
    # The last setting is the best one after 4 trees, but the worst one after 2.
    curves = [
        [curve(0.1, 0.1, 0.1, 0.1)],
        [curve(0.2, 0.3, 0.3, 0.4)],
        [curve(0.1, 0.2, 0.2, 0.2)],
    ]
    curves.append([curve(0.0, 0.1, 0.3, 0.9)])
    search = SuccessiveHalving(trials=4, min_trees=2, eta=4)
    outcome = replay(search, curves, num_trees=4)
    # The default is fitted fully, the three others with 2 trees, and the best of them with 4.
    assert outcome.iterations == 4 + 3 * 2 + 4
    assert outcome.full_iterations == 4 * 4
    assert outcome.regret == pytest.approx(0.9 - 0.4)
    # 14 iterations are enough for three full fits.
    assert outcome.shorter_regret == pytest.approx(0.9 - 0.4)
    assert outcome.share == 14 / 16


def test_a_replay_on_several_folds_compares_means_and_uses_fewer_folds_first() -> None:
    low, high = curve(0.1, 0.2, 0.3, 0.4), curve(0.5, 0.6, 0.7, 0.8)
    # On the first fold alone, the second setting is the best one.
    curves = [[low, low], [high, low], [low, high + 0.1]]
    search = SuccessiveHalving(trials=3, min_trees=2, eta=2, choose=OVERALL)
    outcome = replay(search, curves, num_trees=4)
    assert outcome.iterations == 8 + 2 * 2 + 8
    assert outcome.regret == pytest.approx(0.05)


def study(folder: Path) -> HalvingStudy:
    return HalvingStudy(
        output=str(folder / "table"),
        curves=str(folder / "curves"),
        space=Space(
            shared={"num_leaves": Range(2, 15), "l2": Range(0.1, 50.0, log=True)}
        ),
        pool=6,
        seeds=3,
        seed=1,
        halving=HALVING,
        other_min_trees=[10],
    )


def test_the_table_has_a_row_per_data_set_and_choice_and_a_row_per_seed(
    tmp_path: Path,
) -> None:
    data = {
        f"fold{seed}": Synthetic(name="made up", num_queries=60, seed=seed)
        for seed in (0, 1)
    }
    table = study(tmp_path).run({"native": MODEL}, data).read_text()
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in table.splitlines()
        if line[:2] == "| "
    ]
    choices = {(row[1], row[2]): int(row[3]) for row in rows if row[0] == "made up"}
    rungs = {"per_fold": 6, "overall": 3}
    assert choices == {
        (choose, trees): number
        for choose, number in rungs.items()
        for trees in ("5, 10 and 20", "10 and 20")
    }
    assert [row[0] for row in rows][-3:] == ["0", "1", "2"]
    assert all(float(row[6]) >= 0 for row in rows if row[0] == "made up")
    assert len(list((tmp_path / "curves").glob("*.npz"))) == 6 * 2
