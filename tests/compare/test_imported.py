# mypy: strict-optional=False
"""Scores and models of other systems as runs, and fused runs: matched, compared, or refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
import pytest
from claim_cases import only
from golden_files import golden_file
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import naming
from model_files import stumps_as_json, xgboost_booster
from run_cases import finished_run, judged, noisy
from scipy.sparse import csr_matrix
from toy_runs import FINAL, METRICS, mentions

from ltrbench.cli import main
from ltrbench.cli.verbs.comparisons import _find
from ltrbench.cli.verbs.runs import load_model, load_splits
from ltrbench.compare import Settings, compare, render
from ltrbench.compare.derived import (
    FUSION_METHODS,
    Fusing,
    Import,
    fuse,
    import_like,
    import_runs,
    min_max,
    reciprocal_ranks,
    z_scores,
)
from ltrbench.data import Judgments, Splits
from ltrbench.data.score_files import document_names, trec_run_lines
from ltrbench.data.sources import FileSource, LetorFiles, StoreFiles, TableFiles
from ltrbench.data.store import write_store
from ltrbench.data.synthetic import Synthetic
from ltrbench.data.tables import read_table, write_frame
from ltrbench.errors import ConfigError, DataError, ResultError
from ltrbench.experiment import Experiment
from ltrbench.experiment import run as run_experiment
from ltrbench.metrics import evaluate, preset, with_settings
from ltrbench.rankers.importance import ImportanceSettings
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.runs import Run, load, read_run
from ltrbench.runs.record import FAILED, RunResult
from ltrbench.runs.spec import RunSpec
from ltrbench.runs.writing import rewrite_result, write_run
from ltrbench.serve import answer, reader_of
from ltrbench.shapes import Labels, Scores


def write_lines(path: Path, scores: Scores) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{score!r}\n" for score in scores.tolist()))
    return path


def test_a_file_a_fold_joins_the_table_and_has_no_times(tmp_path: Path) -> None:
    runs = [finished_run(tmp_path / str(fold), "native", fold=fold) for fold in (1, 2)]
    expected = [noisy(judged(fold, "test"), 3.0, 7) for fold in (1, 2)]
    for fold, scores in zip((1, 2), expected, strict=True):
        write_lines(tmp_path / f"scores/fold{fold}.txt", scores)
    imported = import_runs(
        Import("ranklib", f"{tmp_path}/scores/fold{{fold}}.txt"), runs, load_splits
    )
    for run, scores in zip(imported, expected, strict=True):
        np.testing.assert_array_equal(run.scored("test").scores, scores)
    (comparison,) = compare([*runs, *imported])
    _, ranklib = comparison.rows
    means = [
        evaluate(judged(fold, "test"), expected[fold - 1], METRICS).means
        for fold in (1, 2)
    ]
    assert ranklib.metrics["ndcg@5"] == pytest.approx(
        np.mean([mean["ndcg@5"] for mean in means])
    )
    assert (ranklib.seconds, ranklib.peak_memory_mb, ranklib.trees) == ({}, None, None)
    assert (
        next(
            line
            for line in render(comparison).splitlines()
            if line.startswith("| ranklib")
        ).count(" - |")
        >= 3
    )


def test_one_run_for_all_folds_is_matched_by_query_and_document(tmp_path: Path) -> None:
    runs = [finished_run(tmp_path / str(fold), "native", fold=fold) for fold in (1, 2)]
    lines = []
    for fold in (2, 1):
        judgments = judged(fold, "test")
        names, _ = document_names(judgments)
        lines += list(
            trec_run_lines(judgments, noisy(judgments, 1.0, fold), names, "neural")
        )
    (tmp_path / "run.trec").write_text("".join(lines))
    imported = import_runs(
        Import("neural", str(tmp_path / "run.trec")), runs, load_splits
    )
    for fold, run in zip((1, 2), imported, strict=True):
        np.testing.assert_array_equal(
            run.scored("test").scores, noisy(judged(fold, "test"), 1.0, fold)
        )
    for run in imported:
        (note,) = run.result.notes
        assert mentions(note, "imported", "not trained")


def test_models_are_fused_beside_a_run_that_failed(
    tmp_path: Path, printed: Callable[..., str]
) -> None:
    failed = RunResult(status=FAILED, model="xgboost", params="matched", seed=0)
    write_run(tmp_path / "runs/0", failed)
    for model in ("native", "lightgbm"):
        finished_run(tmp_path / "runs" / model, model)
    words = ("compare", tmp_path / "runs", "--fuse", "zscore")
    assert "zscore(" in printed(*words)


def test_how_to_match_features_is_refused_for_scores(tmp_path: Path) -> None:
    like = finished_run(tmp_path / "like", "native")
    (tmp_path / "s.txt").write_text("0.5\n")
    system = Import("x", str(tmp_path / "s.txt"), "names")
    with pytest.raises(ConfigError, match=naming("--features names", "s.txt")):
        import_like(system, like, tmp_path / "made", load_splits)


def test_unjudged_documents_have_ranks_under_trec_eval_from_a_file_and_from_a_folder(
    tmp_path: Path,
) -> None:
    like = finished_run(tmp_path / "like", "native")
    test = like.scored("test").judgments
    names, _ = document_names(test)
    lines = [*trec_run_lines(test, noisy(test, 1.0, 1), names, "bm25")]
    lines += [f"{query} Q0 new 1 1e9 bm25\n" for query in test.query_ids]
    (tmp_path / "bm25.run").write_text("".join(lines))
    system = Import("bm25", str(tmp_path / "bm25.run"))
    (held,) = import_runs(system, [like], load_splits)
    written = import_like(system, like, tmp_path / "made", load_splits)
    for run in (held, read_run(written.path)):
        means = []
        for judged_only in ("true", "false"):
            convention = with_settings(
                preset("trec_eval"), {"judged_only": judged_only}
            )
            settings = Settings(metric="mrr", convention=convention)
            (comparison,) = compare([like, run], settings=settings)
            (row,) = [row for row in comparison.rows if "bm25" in row.label]
            means.append(row.metrics["mrr"])
        # The first relevant document is one rank lower in every query.
        assert means[1] < means[0]
        assert means[1] <= 0.5


def test_a_run_that_retrieves_only_some_documents_is_compared_under_trec_eval_only(
    tmp_path: Path,
) -> None:
    runs = [finished_run(tmp_path / str(seed), "native", seed=seed) for seed in (1, 2)]
    judgments = judged(1, "test")
    scores = noisy(judgments, 1.0, 1)
    names, _ = document_names(judgments)
    lines = [*trec_run_lines(judgments, scores, names, "bm25")]
    # The first query is not answered, and the others lack their last documents.
    retrieved = [line for line in lines if int(line.split()[3]) < 4]
    answered = [line for line in retrieved if line.split()[0] != lines[0].split()[0]]
    (tmp_path / "bm25.run").write_text("".join(answered))
    system = Import("bm25", str(tmp_path / "bm25.run"))
    (made,) = import_runs(system, runs, load_splits)
    assert set(made.result.metrics.values()) == {None}
    found = {tuple(line.split()[:3:2]) for line in answered}
    queries = judgments.query_ids[judgments.query_of_document].tolist()
    pairs = zip(queries, names.tolist(), strict=True)
    kept = np.array([pair in found for pair in pairs])
    expected = np.where(kept, scores, np.nan)
    np.testing.assert_array_equal(made.scored("test").scores, expected)
    convention = preset("trec_eval")
    of_trec_eval = Settings(metric="ndcg@5", convention=convention)
    (comparison,) = compare([*runs, made], settings=of_trec_eval)
    row = next(row for row in comparison.rows if row.label.startswith("bm25"))
    means = evaluate(judgments, expected, ["ndcg@5"], convention).means
    assert row.metrics["ndcg@5"] == means["ndcg@5"]
    with pytest.raises(DataError, match=naming("bm25.run", "score", "trec_eval")):
        compare([*runs, made])
    first = f"{str(names[~kept][0])!r} of query {queries[0]!r}"
    parts = ("bm25.run", first, "--convention trec_eval")
    with pytest.raises(DataError, match=naming(*parts)):
        import_like(system, runs[0], tmp_path / "made", load_splits)
    for method in ("rrf", "zscore", "minmax"):
        fused = fuse([runs[0], made], Fusing((method,)))[0].scored("test").scores
        assert np.isfinite(fused).all()


@pytest.mark.parametrize(
    "skill", [3.0, 5.0]
)  # one interval reaches 1, and one is [1, 1]
def test_the_interval_of_a_mean_has_only_values_that_the_metric_can_have(
    tmp_path: Path, skill: float
) -> None:
    run = finished_run(tmp_path / "native", "native")
    scores = write_lines(tmp_path / "scores", noisy(judged(1, "test"), skill, 1))
    imported = import_runs(Import("nearly", str(scores)), [run], load_splits)
    (comparison,) = compare([run, *imported])
    row = next(row for row in comparison.rows if row.label.startswith("nearly"))
    value = row.metrics[comparison.metric]
    interval = comparison.intervals[row.label]
    assert 0 < interval.low <= value <= interval.high == 1


def test_a_final_model_has_no_test_set_to_import_scores_for(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "native", "native")
    final = rewrite_result(run, replace(run.result, origin=FINAL))
    scores = write_lines(tmp_path / "scores", noisy(judged(1, "test"), 1.0, 1))
    with pytest.raises(ResultError, match=naming(final.path, "final", "sweep/3")):
        import_like(Import("x", str(scores)), final, tmp_path / "made", load_splits)


def test_two_files_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match=naming("prod=b.txt", "prod", "prod2=FILE")):
        _find(["runs", "other=a.txt", "prod=b.txt", "prod=a.txt"])


def test_a_fold_without_a_file_is_left_out_and_no_file_at_all_is_an_error(
    tmp_path: Path,
) -> None:
    runs = [finished_run(tmp_path / str(fold), "native", fold=fold) for fold in (1, 2)]
    wanted = Import("ranklib", f"{tmp_path}/scores/{{fold}}.txt")
    with pytest.raises(DataError, match=naming("scores/1.txt", "no such file", wanted)):
        import_runs(wanted, runs, load_splits)
    write_lines(tmp_path / "scores/2.txt", noisy(judged(2, "test"), 1.0, 0))
    (run,) = import_runs(wanted, runs, load_splits)
    assert run.result.data["fold"] == 2


QUERIES = Judgments(labels=np.array([0.0, 2, 1, 0, 1]), query_start=np.array([0, 3, 5]))
SCORES = st.lists(st.floats(-1e6, 1e6), min_size=5, max_size=5).map(np.array)


@given(SCORES)
@settings(max_examples=50)
def test_reciprocal_ranks_are_those_of_the_mean_rank_over_all_orders_of_ties(
    scores: Scores,
) -> None:
    expected = [
        1 / (60 + 1 + (of_query > score).sum() + ((of_query == score).sum() - 1) / 2)
        for of_query in (scores[:3], scores[3:])
        for score in of_query
    ]
    np.testing.assert_allclose(reciprocal_ranks(QUERIES, scores), expected, rtol=1e-12)


def test_z_scores_and_min_max_are_taken_within_the_query() -> None:
    scores = np.array([1.0, 2, 6, 5, 5])
    mean, sd = 3, np.sqrt((4 + 1 + 9) / 3)
    np.testing.assert_allclose(
        z_scores(QUERIES, scores),
        [(1 - mean) / sd, (2 - mean) / sd, (6 - mean) / sd, 0, 0],
    )
    np.testing.assert_allclose(min_max(QUERIES, scores), [0, 1 / 5, 1, 0, 0])


def with_test_labels(run: Run, labels: Labels) -> Run:
    test, valid = run.scored("test"), run.scored("valid")
    other = replace(test, judgments=replace(test.judgments, labels=labels))
    return Run(run.path, run.result, {"test": other, "valid": valid})


def test_what_was_learned_on_valid_reports_no_metric_of_it(tmp_path: Path) -> None:
    runs = [
        finished_run(tmp_path / model, model, skill=skill)
        for model, skill in (("a", 1.0), ("b", 1.1))
    ]
    learned, summed = fuse(runs, Fusing(("greedy", "zscore")))
    assert "valid/ndcg@5" not in learned.result.metrics
    assert "valid/ndcg@5" in summed.result.metrics


@pytest.mark.parametrize("method", FUSION_METHODS)
def test_fused_scores_are_the_same_whatever_the_labels_of_test_are(
    tmp_path: Path, method: str
) -> None:
    runs = [
        finished_run(tmp_path / model, model, skill=skill)
        for model, skill in (("a", 1.0), ("b", 2.0))
    ]
    labels = runs[0].scored("test").judgments.labels
    shuffled = [
        with_test_labels(run, np.random.default_rng(3).permutation(labels))
        for run in runs
    ]
    (fused,), (blind,) = (
        fuse(runs, Fusing((method,))),
        fuse(shuffled, Fusing((method,))),
    )
    np.testing.assert_array_equal(
        fused.scored("test").scores, blind.scored("test").scores
    )
    assert fused.result.metrics["test/ndcg@5"] != blind.result.metrics["test/ndcg@5"]
    assert fused.result.origin == blind.result.origin


def test_seeds_are_fused_with_their_like_and_a_model_of_one_run_with_each(
    tmp_path: Path,
) -> None:
    runs = [finished_run(tmp_path / f"a{seed}", "a", seed=seed) for seed in (1, 2)]
    runs.append(finished_run(tmp_path / "b", "b", skill=2.0))
    fused = fuse(runs, Fusing(("zscore",)))
    assert [run.result.seed for run in fused] == [1, 2]
    judgments = judged(1, "test")
    for fused_run, member in zip(fused, runs[:2], strict=True):
        expected = sum(
            z_scores(judgments, run.scored("test").scores) for run in (member, runs[2])
        )
        np.testing.assert_array_equal(fused_run.scored("test").scores, expected)


@pytest.mark.parametrize("methods", [("rrf", "greedy"), ("greedy", "rrf")])
def test_a_fused_row_does_not_depend_on_the_other_methods(
    tmp_path: Path, methods: tuple[str, ...]
) -> None:
    runs = [finished_run(tmp_path / f"a{seed}", "a", seed=seed) for seed in (1, 2)]
    runs.append(finished_run(tmp_path / "b", "b", seed=1, skill=2.0))
    together = fuse(runs, Fusing(methods))
    alone = [run for method in methods for run in fuse(runs, Fusing((method,)))]
    for a, b in zip(together, alone, strict=True):
        assert (a.result.model, a.result.seed) == (b.result.model, b.result.seed)
        assert a.result.notes == b.result.notes
        np.testing.assert_array_equal(a.scored("test").scores, b.scored("test").scores)


def test_every_seed_that_a_member_lacks_is_named(tmp_path: Path) -> None:
    runs = []
    for fold in (1, 2):
        for seed in (1, 2, 3):
            a = finished_run(tmp_path / f"a{fold}{seed}", "a", fold=fold, seed=seed)
            runs.append(a)
        b = finished_run(tmp_path / f"b{fold}", "b", fold=fold, seed=1, skill=2.0)
        runs.append(b)
    learned = fuse(runs, Fusing(("greedy",)))
    assert [run.result.seed for run in learned] == [1, 1]
    notes = only([*runs, *learned]).notes
    (note,) = [note for note in notes if mentions(note, "greedy(a + b)", "no run")]
    assert mentions(note, "seed 2", "seed 3", "fold 1", "fold 2")
    apart = [
        finished_run(tmp_path / f"c{seed}", f"c{seed}", seed=seed) for seed in (1, 2)
    ]
    with pytest.raises(ResultError, match=naming("c2", "seed 1", "c1", "seed 2")):
        fuse(apart, Fusing(("greedy",)))


SOURCE = Synthetic(name="synthetic", num_queries=40, test_share=0.25)


@pytest.fixture(scope="module")
def splits() -> Splits:
    return SOURCE.load()


def test_a_table_of_ranks_has_the_columns_of_the_data_and_is_said_to_be_upside_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"session": np.repeat(np.arange(40), 6)})
    table["movieId"] = [f"m{row}" for row in rng.permutation(240)]
    table["label"] = rng.integers(0, 3, size=240)
    table["bm25"] = table.label + rng.normal(size=240)
    write_frame(table, tmp_path / "movies.csv")
    source = TableFiles(
        name="movies",
        train=str(tmp_path / "movies.csv"),
        query="session",
        document="movieId",
    )
    like = finished(tmp_path / "like", source=source, importance=None)
    ranks = table[["session", "movieId"]].assign(
        score=table.groupby("session").bm25.rank(ascending=False)
    )
    write_frame(ranks, tmp_path / "ranks.csv")
    write_frame(ranks.assign(score=-ranks.score), tmp_path / "negated.csv")
    write_frame(ranks.rename(columns={"movieId": "film"}), tmp_path / "film.csv")
    words = ["compare", str(like.path)]
    said = naming("ranks.csv", "constant", "reverse", "upside down", "ranks")
    with caplog.at_level("WARNING"):
        assert main([*words, f"prod={tmp_path / 'ranks.csv'}"]) == 0
        # Other messages may be about the load of the machine.
        (warning,) = [text for text in caplog.messages if "ranks.csv:" in text]
        assert re.search(said, warning)
        caplog.clear()
        for fold in (1, 2):
            of_fold = replace(source, cv=2, fold=fold)
            finished(tmp_path / "folds" / str(fold), source=of_fold, importance=None)
        of_folds = ["compare", str(tmp_path / "folds")]
        assert main([*of_folds, f"prod={tmp_path / 'ranks.csv'}"]) == 0
        (once,) = [text for text in caplog.messages if "upside down" in text]
        assert "2 of 2 test sets" in once
        caplog.clear()
        assert main([*words, f"prod={tmp_path / 'negated.csv'}"]) == 0
        assert not [text for text in caplog.messages if "negated.csv:" in text]
    assert main([*words, f"prod={tmp_path / 'film.csv'}"]) == 2
    expected = naming("film.csv", "movieId", "document_id", "'film'")
    assert re.search(expected, capsys.readouterr().err)
    system = Import("prod", str(tmp_path / "ranks.csv"))
    made = import_like(system, like, tmp_path / "made", load_splits)
    assert made.result.notes[-1] == warning
    scored = made.scored("test")
    reverse = evaluate(scored.judgments, -scored.scores, ["ndcg@10"]).means["ndcg@10"]
    assert f"{reverse:.4f} in the reverse order" in warning


@pytest.fixture(scope="module")
def like(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return finished(tmp_path_factory.mktemp("runs") / "like")


def finished(folder: Path, **changes: object) -> Run:
    """A run of a small ranker."""
    experiment = Experiment(
        model="single_feature",
        ranker=SingleFeatureRanker(),
        source=SOURCE,
        importance=ImportanceSettings(
            kinds=["split", "permutation_within", "permutation_across"], repeats=1
        ),
        spec=RunSpec(overrides=("model=single_feature",)),
    )
    return run_experiment(replace(experiment, **changes), folder)  # type: ignore[arg-type]


def test_ranklibs_model_of_mq2008_gives_ranklibs_scores_and_its_ndcg(
    letor_data: Callable[[str], Path], tmp_path: Path
) -> None:
    """0.4891, as RankLib printed it, where a query without a relevant document counts 0."""
    fold = letor_data("MQ2008") / "Fold1"
    train, valid, test_file = (
        str(fold / name) for name in ("train.txt", "vali.txt", "test.txt")
    )
    source = LetorFiles(name="mq2008", train=train, valid=valid, test=test_file)
    like = finished(tmp_path / "like", source=source, importance=None)
    model = golden_file("ranklib_MQ2008_Fold1_model.xml")
    words = ("ranklib", model, "--like", like.path, "--output", tmp_path / "ranklib")
    assert main(["import", *map(str, words)]) == 0
    made = read_run(tmp_path / "ranklib")
    test = made.scored("test")
    in_file = np.empty(len(test.scores))
    in_file[slice(None) if test.file_rows is None else test.file_rows] = test.scores
    lines = golden_file("ranklib_MQ2008_Fold1_test_scores.txt").read_text().splitlines()
    expected = np.array([line.split()[-1] for line in lines], dtype=np.float64)
    # RankLib rounds sums to float32, ltrbench also the products of 34 trees, each below 1.
    np.testing.assert_allclose(in_file, expected, rtol=0, atol=34 * 2.0**-24)
    mean = evaluate(test.judgments, test.scores, ["ndcg@10"], preset("ranklib")).means[
        "ndcg@10"
    ]
    assert mean == pytest.approx(0.4891, abs=5e-5)
    assert "valid/ndcg@10" in made.result.metrics


def days_table() -> pd.DataFrame:
    """Returns a table in which odd days have the label 1; in float32 they are equal to even ones."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"query_id": rng.permutation(np.repeat(np.arange(40), 6))})
    table["label"] = rng.integers(0, 2, len(table))
    table["date"] = 20260100 + 2 * rng.integers(1, 14, len(table)) + table.label
    table["a"] = 1 + rng.random(len(table)) * 2.0**-22
    return table


def days_model(table: pd.DataFrame, path: Path) -> lightgbm.Booster:
    by_query = table.sort_values("query_id", kind="stable")
    booster = lightgbm.train(
        {"objective": "lambdarank", "min_data_in_leaf": 5, "verbose": -1},
        lightgbm.Dataset(by_query[["date", "a"]], by_query.label, group=[6] * 40),
        num_boost_round=10,
    )
    booster.save_model(path)
    return booster


def imported_on(source: FileSource, model: Path, folder: Path) -> Run:
    """Returns the run of a model that was imported by command on the data of a source."""
    like = finished(folder / "like", source=source, importance=None)
    words = ["prod", model, "--like", like.path, "--output", folder / "made"]
    assert main(["import", *map(str, words), "--features", "positions"]) == 0
    return read_run(folder / "made")


@pytest.mark.parametrize("form", ["csv", "parquet", "txt", "sparse"])
def test_a_model_of_lightgbm_scores_the_values_of_the_file_as_lightgbm_does(
    form: str, tmp_path: Path
) -> None:
    table = days_table()
    booster = days_model(table, tmp_path / "model.txt")
    path = tmp_path / f"t.{'txt' if form == 'sparse' else form}"
    source: FileSource = TableFiles(name="t", train=str(path), sort_queries=True)
    if path.suffix == ".txt":
        rows = zip(*table.to_dict("list").values(), strict=True)
        lines = [f"{label} qid:{q} 1:{date} 2:{a!r}\n" for q, label, date, a in rows]
        path.write_text("".join(lines))
        is_sparse = form == "sparse"
        source = LetorFiles(
            name="t", train=str(path), sort_queries=True, sparse=is_sparse
        )
    else:
        write_frame(table, path)
    made = imported_on(source, tmp_path / "model.txt", tmp_path)
    test = made.scored("test")
    queries = test.judgments.query_ids[test.judgments.query_of_document].astype(int)
    in_order = pd.concat(
        [table[table.query_id == query] for query in dict.fromkeys(queries.tolist())]
    )
    features = in_order[["date", "a"]]
    expected = np.asarray(booster.predict(features))
    rounded = np.asarray(booster.predict(features.astype(np.float32)))
    assert not np.array_equal(expected, rounded)
    np.testing.assert_array_equal(test.scores, expected)
    words = ["predict", made.path, path, "--output", tmp_path / "scores.txt"]
    assert main([*map(str, words)]) == 0
    np.testing.assert_array_equal(
        np.loadtxt(tmp_path / "scores.txt"), booster.predict(table[["date", "a"]])
    )


def test_a_note_names_the_first_day_of_a_date_that_an_imported_model_reads(
    tmp_path: Path,
) -> None:
    table = days_table()
    days_model(table, tmp_path / "model.txt")
    write_frame(table.assign(date=table.date.astype(int)), tmp_path / "t.csv")
    path = str(tmp_path / "t.csv")
    source = TableFiles(name="t", train=path, sort_queries=True, dates=["date"])
    made = imported_on(source, tmp_path / "model.txt", tmp_path)
    assert any(mentions(note, "date", "2026-01-0") for note in made.result.notes)


@pytest.mark.parametrize(
    ("absent", "cells", "is_noted"),
    [(0.0, "", True), (np.nan, "", False), (0.0, "1:0.25", False)],
)
def test_a_note_says_that_xgboost_reads_absent_features_as_missing(
    absent: float, cells: str, is_noted: bool, tmp_path: Path
) -> None:
    # Without a value of feature 1, 0 is left of the threshold and a missing value right.
    (tmp_path / "model.json").write_text(stumps_as_json([(0, 0.5)]))
    lines = []
    for row in range(40):
        given = "1:0.75" if row % 2 else cells
        lines.append(f"{row % 2} qid:{row // 4} {given} 40:{1 + row}\n")
    (tmp_path / "t.txt").write_text("".join(lines))
    source = LetorFiles(name="t", train=str(tmp_path / "t.txt"), absent=absent)
    made = imported_on(source, tmp_path / "model.json", tmp_path)
    noted = [mentions(note, "XGBoost", "data.absent=nan") for note in made.result.notes]
    assert any(noted) == is_noted


def test_a_model_of_lightgbm_takes_float64_in_python_and_is_served_and_shipped_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = days_table()
    booster = days_model(table, tmp_path / "model.txt")
    write_frame(table, tmp_path / "t.csv")
    source = TableFiles(name="t", train=str(tmp_path / "t.csv"), sort_queries=True)
    made = imported_on(source, tmp_path / "model.txt", tmp_path)
    features = table[["date", "a"]]
    expected = np.asarray(booster.predict(features))
    ranker = load_model(made, None)
    sparse = csr_matrix(features.to_numpy())
    for each in (features, features.to_numpy(), sparse):
        np.testing.assert_array_equal(ranker.predict(each), expected)
    documents = [
        {"id": number, "features": row}
        for number, row in enumerate(features.to_numpy().tolist())
    ]
    model, body = load(made.path), json.dumps({"documents": documents}).encode()
    answered = json.loads(answer(model, reader_of(model), body))["documents"]
    assert {each["id"]: each["score"] for each in answered} == dict(enumerate(expected))
    words = ["ship", str(made.path), "--output"]
    assert main([*words, str(tmp_path / "kept"), "--to", "lightgbm"]) == 0
    capsys.readouterr()
    assert main([*words, str(tmp_path / "lost"), "--to", "elasticsearch"]) == 1
    assert mentions(capsys.readouterr().err, "float64", "float32", "--to lightgbm")


def test_a_store_that_merges_values_is_refused_for_a_model_that_compares_float64(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = days_table()
    days_model(table, tmp_path / "model.txt")
    for name, merged in (("store", ["date"]), ("other", [])):
        stored = read_table(table.assign(date=table.date - 20260100), sort_queries=True)
        write_store(tmp_path / name, stored.with_fields(merged=tuple(merged)))
    source = StoreFiles(name="t", train=str(tmp_path / "other"))
    made = imported_on(source, tmp_path / "model.txt", tmp_path)
    assert any(mentions(note, "float32", "LightGBM") for note in made.result.notes)
    capsys.readouterr()
    assert main(["predict", str(made.path), str(tmp_path / "store")]) == 2
    assert mentions(capsys.readouterr().err, "date", "float64", "float32", "score")


@pytest.mark.slow
def test_a_model_without_names_is_matched_by_position_and_says_so(
    like: Run, splits: Splits, tmp_path: Path
) -> None:
    booster = xgboost_booster(splits.train, [f"q{column}" for column in range(40)])
    booster.save_model(tmp_path / "model.json")
    system = Import("x", str(tmp_path / "model.json"))
    with pytest.raises(
        DataError, match=naming("model.json", "q", "--features positions")
    ):
        import_like(system, like, tmp_path / "made", lambda _, **__: splits)
    by_position = replace(system, features="positions")
    made = import_like(by_position, like, tmp_path / "made", lambda _, **__: splits)
    assert any("positions" in note for note in made.result.notes)
    xgboost = booster.inplace_predict(
        np.asarray(splits.test.features), validate_features=False
    )
    for split in ("valid", "test"):
        scored = read_run(made.path).scored(split)
        means = evaluate(scored.judgments, scored.scores, ["ndcg@10"]).means
        assert made.result.metrics[f"{split}/ndcg@10"] == means["ndcg@10"]
    np.testing.assert_array_equal(scored.scores, xgboost)
    assert tuple(made.result.overrides[-2:]) == ("--features", "positions")
