"""Scores of other systems as runs: matched to the stored judgments, or refused with the numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from golden_files import golden_file
from messages import naming
from run_cases import METRICS, finished_run, judged, noisy
from toy_runs import mentions

from ltrbench.cli import main
from ltrbench.compare import compare, render
from ltrbench.compare.output.publish import publish
from ltrbench.compare.scores.imported import Import, import_like, import_scores
from ltrbench.data import read_letor
from ltrbench.data.formats.score_files import read_score_file
from ltrbench.data.formats.trec import document_names, trec_run_lines
from ltrbench.errors import ConfigError, DataError, ResultError
from ltrbench.metrics import evaluate, preset
from ltrbench.results import FAILED, RunResult, read_run, write_run
from ltrbench.shapes import Scores


def write_lines(path: Path, scores: Scores) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{score!r}\n" for score in scores.tolist()))
    return path


def test_a_file_a_fold_joins_the_table_and_has_no_times(tmp_path: Path) -> None:
    runs = [finished_run(tmp_path / str(fold), "native", fold=fold) for fold in (1, 2)]
    expected = [noisy(judged(fold, "test"), 3.0, 7) for fold in (1, 2)]
    for fold, scores in zip((1, 2), expected, strict=True):
        write_lines(tmp_path / f"scores/fold{fold}.txt", scores)
    imported = import_scores(Import("ranklib", f"{tmp_path}/scores/fold{{fold}}.txt"), runs)
    for run, scores in zip(imported, expected, strict=True):
        np.testing.assert_array_equal(run.scored("test").scores, scores)
    (comparison,) = compare([*runs, *imported])
    _, ranklib = comparison.rows
    means = [evaluate(judged(fold, "test"), expected[fold - 1], METRICS).means for fold in (1, 2)]
    assert ranklib.metrics["ndcg@5"] == pytest.approx(np.mean([mean["ndcg@5"] for mean in means]))
    assert (ranklib.seconds, ranklib.peak_memory_mb, ranklib.trees) == ({}, None, None)
    assert (
        next(line for line in render(comparison).splitlines() if line.startswith("| ranklib")).count(" - |")
        >= 3
    )
    publish([comparison], tmp_path / "published")


def test_one_run_for_all_folds_is_matched_by_query_and_document(tmp_path: Path) -> None:
    runs = [finished_run(tmp_path / str(fold), "native", fold=fold) for fold in (1, 2)]
    lines = []
    for fold in (2, 1):
        judgments = judged(fold, "test")
        names, _ = document_names(judgments)
        lines += list(trec_run_lines(judgments, noisy(judgments, 1.0, fold), names, "neural"))
    (tmp_path / "run.trec").write_text("".join(lines))
    imported = import_scores(Import("neural", str(tmp_path / "run.trec")), runs)
    for fold, run in zip((1, 2), imported, strict=True):
        np.testing.assert_array_equal(run.scored("test").scores, noisy(judged(fold, "test"), 1.0, fold))
    for run in imported:
        (note,) = run.result.notes
        assert mentions(note, "imported", "not trained")


def test_queries_that_no_run_has_are_left_out_in_number(tmp_path: Path) -> None:
    runs = [finished_run(tmp_path / str(fold), "native", fold=fold) for fold in (1, 2)]
    lines: list[str] = []
    for fold in (1, 2, 3):
        own = judged(fold, "test")
        lines += trec_run_lines(own, noisy(own, 1.0, fold), document_names(own)[0], "neural")
    file = tmp_path / "run.trec"
    file.write_text("".join(lines))
    for run in import_scores(Import("neural", str(file)), runs):
        (note,) = run.result.notes[1:]
        assert mentions(note, file, "20 of its 60 queries", "left out")


def test_scores_a_line_cannot_be_those_of_several_folds(tmp_path: Path) -> None:
    runs = [finished_run(tmp_path / str(fold), "native", fold=fold) for fold in (1, 2)]
    file = write_lines(tmp_path / "scores.txt", noisy(judged(1, "test"), 1.0, 0))
    with pytest.raises(DataError, match=naming(file, "test of toy fold 2", "{fold}")):
        import_scores(Import("ranklib", str(file)), runs)


def test_another_number_of_scores_is_refused_with_both_numbers(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run", "native")
    file = write_lines(tmp_path / "scores.txt", np.zeros(3))
    with pytest.raises(DataError, match=naming("3 scores", "test of toy fold 1", "121 documents")):
        import_scores(Import("ranklib", str(file)), [run])


def test_a_cell_has_one_run_however_many_seeds_unless_the_files_tell_seeds_apart(tmp_path: Path) -> None:
    runs = [finished_run(tmp_path / str(seed), "native", seed=seed) for seed in (1, 2)]
    for seed in (1, 2):
        write_lines(tmp_path / f"{seed}.txt", noisy(judged(1, "test"), 1.0, seed))
    assert len(import_scores(Import("one", str(tmp_path / "1.txt")), runs)) == 1
    each = import_scores(Import("each", f"{tmp_path}/{{seed}}.txt"), runs)
    assert [run.result.seed for run in each] == [1, 2]


def test_a_fold_without_a_file_is_left_out_and_no_file_at_all_is_an_error(tmp_path: Path) -> None:
    runs = [finished_run(tmp_path / str(fold), "native", fold=fold) for fold in (1, 2)]
    wanted = Import("ranklib", f"{tmp_path}/scores/{{fold}}.txt")
    with pytest.raises(DataError, match=naming("scores/1.txt", "no such file", wanted)):
        import_scores(wanted, runs)
    write_lines(tmp_path / "scores/2.txt", noisy(judged(2, "test"), 1.0, 0))
    (run,) = import_scores(wanted, runs)
    assert run.result.data["fold"] == 2


def test_with_a_split_in_the_name_the_scores_of_valid_are_read_where_they_are(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run", "native")
    wanted = Import("ranklib", f"{tmp_path}/{{split}}.txt")
    write_lines(tmp_path / "test.txt", noisy(judged(1, "test"), 1.0, 0))
    (without,) = import_scores(wanted, [run])
    write_lines(tmp_path / "valid.txt", noisy(judged(1, "valid"), 1.0, 0))
    (with_valid,) = import_scores(wanted, [run])
    assert "valid/ndcg@5" not in without.result.metrics
    assert "valid/ndcg@5" in with_valid.result.metrics


def test_scores_are_in_the_order_of_the_file_where_its_queries_stood_apart(tmp_path: Path) -> None:
    file_rows = np.random.default_rng(0).permutation(121)
    run = finished_run(tmp_path / "run", "native", valid=False, file_rows=file_rows.tolist())
    in_file = np.arange(121.0)
    (imported,) = import_scores(Import("x", str(write_lines(tmp_path / "scores.txt", in_file))), [run])
    np.testing.assert_array_equal(imported.scored("test").scores, file_rows)


@pytest.mark.parametrize(
    ("name", "pattern", "message"),
    [
        ("x", "fold{fold", ("x=fold{fold", "in braces", "{fold}")),
        ("x", "{part}.txt", ("{part}", "{data}, {fold}")),
        ("", "scores.txt", ("a name and", "ranklib=scores.txt")),
    ],
)
def test_a_pattern_that_cannot_be_filled_in_is_refused(
    name: str, pattern: str, message: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError, match=naming(*message)):
        Import(name, pattern)


def test_an_imported_run_is_a_folder_that_is_shown_compared_and_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    like = finished_run(tmp_path / "like", "native")
    file = write_lines(tmp_path / "scores.txt", noisy(judged(1, "test"), 2.0, 5))
    words = ["import", "ranklib", str(file), "--like", str(like.path), "--output", str(tmp_path / "ranklib")]
    assert main(words) == 0
    assert "ranklib, test/ndcg@5" in capsys.readouterr().out
    run = read_run(tmp_path / "ranklib")
    np.testing.assert_array_equal(run.scored("test").scores, noisy(judged(1, "test"), 2.0, 5))
    for verb in (["show"], ["export", "--format", "trec-run"], ["compare"]):
        assert main([*verb, str(run.path)]) == 0
    said = capsys.readouterr().out
    assert mentions(said, "imported", "not trained")
    assert "Threads:" not in said  # nothing was trained
    publish(compare([run]), tmp_path / "published")


def test_a_model_that_was_imported_cannot_predict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    like = finished_run(tmp_path / "like", "native")
    file = write_lines(tmp_path / "scores.txt", noisy(judged(1, "test"), 2.0, 5))
    run = import_like(Import("ranklib", str(file)), like, tmp_path / "ranklib")
    assert main(["predict", str(run.path), "data.txt"]) == 2
    assert mentions(capsys.readouterr().err, run.path, "no model", "ranklib")


def test_a_failed_run_has_no_judgments_to_import_by(tmp_path: Path) -> None:
    failed = RunResult(status=FAILED, model="native", params="matched", seed=0, data={"name": "toy"})
    run = write_run(tmp_path / "failed", failed)
    with pytest.raises(ResultError, match=naming("x=scores.txt", "no finished run")):
        import_scores(Import("x", "scores.txt"), [run])
    with pytest.raises(ResultError, match=naming(run.path, "no judgments", "finished run")):
        import_like(Import("x", "scores.txt"), run, tmp_path / "x")


def test_ranklibs_own_scores_of_mq2008_give_ranklibs_own_figure(letor_data: Callable[[str], Path]) -> None:
    """0.4891, as RankLib printed it, where a query without a relevant document counts 0."""
    scores = golden_file("ranklib_MQ2008_Fold1_test_scores.txt")
    data = read_letor(letor_data("MQ2008") / "Fold1/test.txt")
    matched = read_score_file(scores).match(data, data.file_rows, "test")
    mean = evaluate(data, matched.scores, ["ndcg@10"], preset("ranklib")).means["ndcg@10"]
    assert mean == pytest.approx(0.4891, abs=5e-5)
