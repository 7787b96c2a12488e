"""Fusion: the formulas by their definitions, weights from valid alone, and what cannot be fused is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming
from run_cases import finished_run, judged, noisy
from toy_runs import mentions

from ltrbench.cli import main
from ltrbench.compare import Settings, best_by_validation, compare
from ltrbench.compare.scores.fused_scores import learn_weights, min_max, reciprocal_ranks, z_scores
from ltrbench.compare.scores.fusion import FUSION_METHODS, Fusing, fuse
from ltrbench.data import Judgments
from ltrbench.errors import ConfigError, ResultError
from ltrbench.metrics import evaluate
from ltrbench.results import Run
from ltrbench.shapes import Labels, Scores

QUERIES = Judgments(labels=np.array([0.0, 2, 1, 0, 1]), query_start=np.array([0, 3, 5]))
SCORES = st.lists(st.floats(-1e6, 1e6), min_size=5, max_size=5).map(np.array)


def of_query(scores: Scores) -> list[Scores]:
    return [scores[:3], scores[3:]]


@given(SCORES)
@settings(max_examples=50)
def test_reciprocal_ranks_are_those_of_the_mean_rank_over_all_orders_of_ties(scores: Scores) -> None:
    expected = [
        1 / (60 + 1 + (own > score).sum() + ((own == score).sum() - 1) / 2)
        for own in of_query(scores)
        for score in own
    ]
    np.testing.assert_allclose(reciprocal_ranks(QUERIES, scores), expected, rtol=1e-12)


def test_z_scores_and_min_max_are_taken_within_the_query() -> None:
    scores = np.array([1.0, 2, 6, 5, 5])
    mean, sd = 3, np.sqrt((4 + 1 + 9) / 3)
    np.testing.assert_allclose(
        z_scores(QUERIES, scores), [(1 - mean) / sd, (2 - mean) / sd, (6 - mean) / sd, 0, 0]
    )
    np.testing.assert_allclose(min_max(QUERIES, scores), [0, 1 / 5, 1, 0, 0])


@given(st.lists(st.integers(-50, 50), min_size=5, max_size=5), st.floats(0.5, 8), st.integers(-9, 9))
@settings(max_examples=50)
def test_neither_scale_nor_offset_of_a_systems_scores_matters(
    values: list[int], by: float, plus: int
) -> None:
    scores = np.array(values, dtype=np.float64)
    for normalised in (z_scores, min_max):
        np.testing.assert_allclose(
            normalised(QUERIES, by * scores + plus), normalised(QUERIES, scores), atol=1e-9
        )


@given(st.lists(st.sampled_from([-np.inf, -2.0, 0.0, 5.0, np.inf]), min_size=5, max_size=5).map(np.array))
@settings(max_examples=100)
def test_infinite_scores_keep_their_place_and_every_part_is_finite(scores: Scores) -> None:
    for normalised in (z_scores, min_max):
        for own, part in zip(of_query(scores), of_query(normalised(QUERIES, scores)), strict=True):
            assert np.isfinite(part).all()
            assert (np.diff(part[np.argsort(own)]) >= 0).all()


def test_a_document_that_was_not_retrieved_adds_nothing_by_rank_and_the_least_by_score() -> None:
    scores = np.array([3.0, -np.inf, 1.0, -np.inf, -np.inf])
    assert reciprocal_ranks(QUERIES, scores).tolist() == [1 / 61, 0, 1 / 62, 0, 0]
    assert min_max(QUERIES, scores).tolist() == [1, 0, 0, 0, 0]
    assert z_scores(QUERIES, scores)[1] == z_scores(QUERIES, scores)[2]


def test_learned_weights_reach_on_valid_what_no_single_run_and_no_equal_weights_exceed() -> None:
    valid = judged(1, "valid")
    parts = np.stack(
        [z_scores(valid, noisy(valid, skill, seed)) for seed, skill in enumerate((1.0, 0.6, 0.0))]
    )
    weights = learn_weights(valid, parts, "ndcg@5")

    def reached(each: Scores) -> float:
        return evaluate(valid, each @ parts, ["ndcg@5"]).means["ndcg@5"]

    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()
    assert reached(weights) >= max(map(reached, [*np.eye(3), np.ones(3)]))
    np.testing.assert_array_equal(learn_weights(valid, parts, "ndcg@5"), weights)


def test_equal_weights_stay_where_no_others_are_better() -> None:
    valid = judged(1, "valid")
    same = z_scores(valid, noisy(valid, 1.0, 0))
    np.testing.assert_array_equal(learn_weights(valid, np.stack([same, same]), "ndcg@5"), [0.5, 0.5])


def test_no_weights_are_learned_where_no_query_of_valid_counts() -> None:
    barren = replace(QUERIES, labels=np.zeros(5))
    with pytest.raises(ConfigError, match=naming("validation set", "ndcg@5", "zscore")):
        learn_weights(barren, np.ones((2, 5)), "ndcg@5")


def with_test_labels(run: Run, labels: Labels) -> Run:
    test, valid = run.scored("test"), run.scored("valid")
    other = replace(test, judgments=replace(test.judgments, labels=labels))
    return Run(run.path, run.result, {"test": other, "valid": valid})


@pytest.mark.parametrize("method", FUSION_METHODS)
def test_fused_scores_are_the_same_whatever_the_labels_of_test_are(tmp_path: Path, method: str) -> None:
    runs = [finished_run(tmp_path / model, model, skill=skill) for model, skill in (("a", 1.0), ("b", 2.0))]
    labels = runs[0].scored("test").judgments.labels
    shuffled = [with_test_labels(run, np.random.default_rng(3).permutation(labels)) for run in runs]
    (fused,), (blind,) = fuse(runs, Fusing((method,))), fuse(shuffled, Fusing((method,)))
    np.testing.assert_array_equal(fused.scored("test").scores, blind.scored("test").scores)
    assert fused.result.metrics["test/ndcg@5"] != blind.result.metrics["test/ndcg@5"]


def test_a_row_says_what_it_is_made_of_and_has_its_own_figures(tmp_path: Path) -> None:
    runs = [
        finished_run(tmp_path / f"{model}{fold}", model, fold=fold, skill=2.0)
        for model in ("a", "b", "c")
        for fold in (1, 2)
    ]
    fused = fuse(runs, Fusing(("zscore", "learned"), of=("a", "b")))
    (comparison,) = compare([*runs, *fused], Settings(metric="ndcg@5", num_draws=50))
    rows = {row.label: row for row in comparison.rows}
    assert list(rows) == ["a", "b", "c", "zscore(a + b)", "learned(a + b)"]
    test = [judged(fold, "test") for fold in (1, 2)]
    sums = [
        z_scores(own, runs[n].scored("test").scores) + z_scores(own, runs[2 + n].scored("test").scores)
        for n, own in enumerate(test)
    ]
    expected = [
        evaluate(own, total, ["ndcg@5"]).means["ndcg@5"] for own, total in zip(test, sums, strict=True)
    ]
    assert rows["zscore(a + b)"].metrics["ndcg@5"] == pytest.approx(np.mean(expected))
    notes = [note for note in comparison.notes if note.startswith(("zscore(a + b):", "learned(a + b):"))]
    assert any(mentions(note, "zscore(a + b)", "a, b", "z-scores") for note in notes)
    assert any(mentions(note, "learned(a + b)", "mean over 2 cells", "a 0.") for note in notes)


def test_what_was_learned_on_valid_reports_no_figure_of_it_and_is_not_chosen_by_it(tmp_path: Path) -> None:
    runs = [finished_run(tmp_path / model, model, skill=skill) for model, skill in (("a", 1.0), ("b", 1.1))]
    learned, summed = fuse(runs, Fusing(("learned", "zscore")))
    assert "valid/ndcg@5" not in learned.result.metrics
    assert "valid/ndcg@5" in summed.result.metrics
    (comparison,) = compare([*runs, learned], Settings(num_draws=50))
    chosen = best_by_validation(comparison)
    assert chosen is not None
    assert chosen.run.result.model in ("a", "b")


def test_seeds_are_fused_with_their_like_and_a_model_of_one_run_with_each(tmp_path: Path) -> None:
    runs = [finished_run(tmp_path / f"a{seed}", "a", seed=seed) for seed in (1, 2)]
    runs.append(finished_run(tmp_path / "b", "b", skill=2.0))
    fused = fuse(runs, Fusing(("zscore",)))
    assert [run.result.seed for run in fused] == [1, 2]
    own = judged(1, "test")
    for run, member in zip(fused, runs[:2], strict=True):
        expected = z_scores(own, member.scored("test").scores) + z_scores(own, runs[2].scored("test").scores)
        np.testing.assert_array_equal(run.scored("test").scores, expected)


def test_a_model_that_lacks_a_fold_or_a_seed_is_named(tmp_path: Path) -> None:
    runs = [
        finished_run(tmp_path / f"a{fold}{seed}", "a", fold=fold, seed=seed)
        for fold in (1, 2)
        for seed in (1, 2)
    ]
    runs += [finished_run(tmp_path / f"b{seed}", "b", fold=1, seed=seed) for seed in (1, 3)]
    (fused,) = fuse(runs, Fusing(("rrf",)))
    assert (fused.result.data["fold"], fused.result.seed) == (1, 1)
    lacking = [("b", "seed 2", "toy, fold 1"), ("a", "seed 3", "toy, fold 1"), ("b", "toy, fold 2")]
    for note, (model, *parts) in zip(fused.result.notes[1:], lacking, strict=True):
        assert mentions(note, f"{model} has", *parts, "nothing is fused")


def test_models_without_a_common_cell_cannot_be_fused(tmp_path: Path) -> None:
    runs = [finished_run(tmp_path / model, model, fold=fold) for model, fold in (("a", 1), ("b", 2))]
    with pytest.raises(ResultError, match=naming("a, b", "no common cell", "no run", "toy, fold 1")):
        fuse(runs, Fusing(("rrf",)))


def test_learned_weights_need_scores_of_valid(tmp_path: Path) -> None:
    runs = [finished_run(tmp_path / "a", "a"), finished_run(tmp_path / "b", "b", valid=False)]
    with pytest.raises(
        ConfigError, match=naming("valid,", "b has", "toy, fold 1", "Import", "--fuse-of", "zscore")
    ):
        fuse(runs, Fusing(("learned",)))


@pytest.mark.parametrize(
    ("fusing", "message"),
    [
        ({"methods": ("rff",)}, ("'rff'", "'rrf'?", "zscore, minmax, learned")),
        ({"methods": ()}, tuple(FUSION_METHODS)),
        ({"methods": ("rrf",), "rrf_k": -1.0}, ("k of", "-1.0", "0 or more")),
        ({"methods": ("rrf",), "of": ("natve",)}, ("'natve'", "'native'?", "native, lightgbm")),
        ({"methods": ("rrf",), "of": ("native",)}, ("nothing to fuse", "two models")),
    ],
)
def test_what_cannot_be_fused_is_refused(
    tmp_path: Path, fusing: dict[str, object], message: tuple[str, ...]
) -> None:
    runs = [finished_run(tmp_path / model, model) for model in ("native", "lightgbm")]
    with pytest.raises(ConfigError, match=naming(*message)):
        fuse(runs, Fusing(**fusing))  # type: ignore[arg-type]


def test_the_verb_compares_folders_scores_and_fusions_in_one_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finished_run(tmp_path / "model=native", "native")
    scores = noisy(judged(1, "test"), 2.0, 9).tolist()
    (tmp_path / "scores.txt").write_text("".join(f"{score!r}\n" for score in scores))
    words = ["compare", str(tmp_path / "model=native"), f"ranklib={tmp_path}/scores.txt", "--draws", "50"]
    assert main([*words, "--fuse", "rrf,zscore", "--rrf-k", "10", "--output", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert [row in said for row in ("| ranklib ", "| rrf(native + ranklib) ", "k = 10")] == [True] * 3
    assert "zscore(native + ranklib)" in (tmp_path / "out/table.md").read_text()


def test_scores_without_a_run_to_be_judged_by_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "ranklib=scores.txt"]) == 2
    assert mentions(capsys.readouterr().err, "ranklib=scores.txt", "judgments", "folder of runs")
