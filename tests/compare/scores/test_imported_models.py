"""Model files as runs on the data of an existing run: compared, shown, predicted with, or refused."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from golden_files import golden_file
from messages import naming
from model_files import lightgbm_booster, stumps_as_json, with_missing, xgboost_booster
from toy_runs import mentions

from ltrbench.cli import main
from ltrbench.compare import compare
from ltrbench.compare.output.publish import publish
from ltrbench.compare.scores.imported_models import MAY_HAVE_SEEN_TEST, ModelImport, import_model
from ltrbench.data import RankingDataset, Splits, TrainingResample, write_letor
from ltrbench.data.sources import LetorFiles, TableFiles
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import DataError, ResultError
from ltrbench.experiment.run import Experiment, run
from ltrbench.metrics import evaluate, preset
from ltrbench.rankers.imported import ImportedRanker
from ltrbench.rankers.models.importance import ImportanceSettings
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.results import FAILED, RESULT_FILE, Run, RunResult, read_run, write_run

SOURCE = Synthetic(name="synthetic", num_queries=40, test_share=0.25)


@pytest.fixture(scope="module")
def splits() -> Splits:
    return SOURCE.load()


@pytest.fixture(scope="module")
def like(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return finished(tmp_path_factory.mktemp("runs") / "like")


def finished(folder: Path, **changes: object) -> Run:
    """A run of a small ranker."""
    experiment = Experiment(
        model="single_feature",
        ranker=SingleFeatureRanker(),
        source=SOURCE,
        importance=ImportanceSettings(repeats=1),
        overrides=("model=single_feature",),
    )
    return run(replace(experiment, **changes), folder)  # type: ignore[arg-type]


def imported(*words: object, expected: int = 0) -> None:
    assert main(["import", *map(str, words)]) == expected


def test_ranklibs_model_of_mq2008_gives_ranklibs_scores_and_its_figure(
    letor_data: Callable[[str], Path], tmp_path: Path
) -> None:
    """0.4891, as RankLib printed it, where a query without a relevant document counts 0."""
    fold = letor_data("MQ2008") / "Fold1"
    train, valid, test_file = (str(fold / name) for name in ("train.txt", "vali.txt", "test.txt"))
    source = LetorFiles(name="mq2008", train=train, valid=valid, test=test_file)
    like = finished(tmp_path / "like", source=source, importance=None)
    model = golden_file("ranklib_MQ2008_Fold1_model.xml")
    imported("ranklib", model, "--like", like.path, "--output", tmp_path / "ranklib")
    made = read_run(tmp_path / "ranklib")
    test = made.scored("test")
    in_file = np.empty(len(test.scores))
    in_file[slice(None) if test.file_rows is None else test.file_rows] = test.scores
    lines = golden_file("ranklib_MQ2008_Fold1_test_scores.txt").read_text().splitlines()
    expected = np.array([line.split()[-1] for line in lines], dtype=np.float64)
    # RankLib rounds sums to float32, ltrbench also the products of 34 trees, each below 1.
    np.testing.assert_allclose(in_file, expected, rtol=0, atol=34 * 2.0**-24)
    mean = evaluate(test.judgments, test.scores, ["ndcg@10"], preset("ranklib")).means["ndcg@10"]
    assert mean == pytest.approx(0.4891, abs=5e-5)
    assert "valid/ndcg@10" in made.result.metrics


def test_a_model_with_names_is_matched_by_them_in_any_order(
    like: Run, splits: Splits, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = splits.train
    order = np.random.default_rng(0).permutation(train.num_features)
    features = np.asarray(train.features)[:, order]
    booster = xgboost_booster(train, [train.feature_names[column] for column in order], features)
    booster.save_model(tmp_path / "model.json")
    imported("production", tmp_path / "model.json", "--like", like.path, "--output", tmp_path / "made")
    assert mentions(
        capsys.readouterr().out, "production", "test/ndcg@10", "XGBoost, 8 trees", "by their names"
    )
    test = read_run(tmp_path / "made").scored("test")
    expected = booster.inplace_predict(np.asarray(splits.test.features)[:, order], validate_features=False)
    np.testing.assert_array_equal(test.scores, expected)


def test_a_model_of_lightgbm_is_matched_by_names(like: Run, splits: Splits, tmp_path: Path) -> None:
    features = np.asarray(splits.train.features)[:, ::-1]
    booster = lightgbm_booster(splits.train, splits.train.feature_names[::-1], features)
    booster.save_model(tmp_path / "model.txt")
    made = import_model(ModelImport("x", tmp_path / "model.txt"), like, splits, tmp_path / "made")
    assert made.result.settings["model"]["features"] == "names"
    expected = booster.predict(np.asarray(splits.test.features)[:, ::-1])
    np.testing.assert_array_equal(read_run(made.path).scored("test").scores, expected)


def test_a_model_without_names_is_matched_by_position_and_says_so(
    like: Run, splits: Splits, tmp_path: Path
) -> None:
    booster = xgboost_booster(splits.train, [f"q{column}" for column in range(40)])
    booster.save_model(tmp_path / "model.json")
    with pytest.raises(DataError, match=naming("model.json", "q", "--features positions")):
        import_model(ModelImport("x", tmp_path / "model.json"), like, splits, tmp_path / "made")
    system = ModelImport("x", tmp_path / "model.json", "positions")
    made = import_model(system, like, splits, tmp_path / "made")
    assert any("positions" in note for note in made.result.notes)
    xgboost = booster.inplace_predict(np.asarray(splits.test.features), validate_features=False)
    np.testing.assert_array_equal(read_run(made.path).scored("test").scores, xgboost)
    assert made.result.overrides is not None
    assert tuple(made.result.overrides[-2:]) == ("--features", "positions")


@pytest.fixture(scope="module")
def production(like: Run, splits: Splits, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("production")
    features = with_missing(splits.train.features, np.random.default_rng(0))
    xgboost_booster(splits.train, splits.train.feature_names, features).save_model(folder / "model.json")
    return import_model(ModelImport("production", folder / "model.json"), like, splits, folder / "run")


def test_the_table_says_that_it_was_imported_and_may_have_seen_the_test_set(
    like: Run, production: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(like.path), str(production.path)]) == 0
    table = capsys.readouterr().out
    assert mentions(table, "1 (imported)", "not trained", MAY_HAVE_SEEN_TEST)
    (comparison,) = compare([like, production])
    row = comparison.rows[1]
    assert (row.label, row.seconds, row.trees) == ("production", {}, 8)
    publish([comparison], tmp_path / "published")


def test_its_metrics_are_those_of_its_scores_on_valid_and_test(production: Run) -> None:
    for split in ("valid", "test"):
        scored = production.scored(split) if production.held else read_run(production.path).scored(split)
        means = evaluate(scored.judgments, scored.scores, ["ndcg@10"]).means
        assert production.result.metrics[f"{split}/ndcg@10"] == means["ndcg@10"]


def test_it_has_the_importances_that_need_no_training(production: Run) -> None:
    importances = read_run(production.path).importances()
    assert importances.kinds == ("permutation_within", "permutation_across", "split")
    assert importances.values["split"].sum() == pytest.approx(1)


def test_it_is_shown_as_trees_predicts_and_is_logged(
    production: Run, splits: Splits, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["show"], ["trees", "--first", "1"], ["export", "--format", "scores"]):
        assert main([*words, str(production.path)]) == 0
    assert mentions(capsys.readouterr().out, "XGBoost", "tree 1", splits.train.feature_names[0][:3])
    write_letor(splits.test, tmp_path / "test.txt")
    assert main(["predict", str(production.path), str(tmp_path / "test.txt")]) == 0
    scores = np.array(capsys.readouterr().out.split(), dtype=np.float64)
    np.testing.assert_array_equal(scores, read_run(production.path).scored("test").scores)


def test_a_model_file_joins_a_comparison_without_a_run(
    like: Run, production: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    model = next((production.path / "model").glob("model.*"))
    assert main(["compare", str(like.path), f"live={model}"]) == 0
    assert mentions(capsys.readouterr().out, "live", f"{production.result.metrics['test/ndcg@10']:.4f}")


def test_columns_of_a_table_are_matched_by_name(splits: Splits, tmp_path: Path) -> None:
    frame = splits.train.to_frame()
    frame.to_csv(tmp_path / "table.csv", index=False)
    source = TableFiles(name="table", train=str(tmp_path / "table.csv"), test_share=0.3)
    like = finished(tmp_path / "like", source=source, importance=None)
    names = source.load().test.feature_names
    xgboost_booster(splits.train, names).save_model(tmp_path / "model.json")
    imported("live", tmp_path / "model.json", "--like", like.path, "--output", tmp_path / "made")
    assert read_run(tmp_path / "made").result.settings["model"]["features"] == "names"


def test_a_resample_of_the_training_queries_is_not_part_of_an_imported_run(
    splits: Splits, tmp_path: Path
) -> None:
    like = finished(tmp_path / "like", resample=TrainingResample(number=2, index=1), importance=None)
    xgboost_booster(splits.train).save_model(tmp_path / "model.ubj")
    made = import_model(ModelImport("x", tmp_path / "model.ubj"), like, splits, tmp_path / "made")
    assert "resample" not in made.result.data
    assert made.importances().kinds == ()


# Refusals


def test_other_data_than_those_of_the_run_are_refused(like: Run, splits: Splits, tmp_path: Path) -> None:
    (tmp_path / "model.txt").write_text(stumps_as_json([(0, 0.5)]))
    other = Synthetic(name="synthetic", num_queries=40, test_share=0.25, seed=1).load()
    with pytest.raises(DataError, match=naming("test set", like.path, splits.test.fingerprint)):
        import_model(ModelImport("x", tmp_path / "model.txt"), like, other, tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_changed_files_are_noticed_by_their_fingerprint(
    splits: Splits, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_letor(splits.train, tmp_path / "train.txt")
    source = LetorFiles(name="files", train=str(tmp_path / "train.txt"), test_share=0.3)
    like = finished(tmp_path / "like", source=source, importance=None)
    (tmp_path / "model.txt").write_text(stumps_as_json([(0, 0.5)]))
    words = ["x", tmp_path / "model.txt", "--like", like.path, "--output", tmp_path / "made"]
    imported(*words)
    write_letor(splits.test, tmp_path / "train.txt")
    imported(*words[:-1], tmp_path / "again", expected=2)
    assert mentions(capsys.readouterr().err, "test set", "changed", "fingerprint")


@pytest.mark.parametrize(
    "content",
    [
        *(pickle.dumps([0.5]), b"tree\nversion=v4\n", b"<ensemble>", b"## LambdaMART\n\n<ensemble>"),
        *(b'{"learner": 1}', b"{L\x00", b'{"learner":' * 1000),
    ],
)
def test_a_file_that_is_no_valid_model_is_refused_in_one_paragraph(
    content: bytes, like: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.bin").write_bytes(content)
    imported("x", tmp_path / "model.bin", "--like", like.path, "--output", tmp_path / "made", expected=2)
    message = capsys.readouterr().err.strip()
    assert "model.bin" in message
    assert "\n\n" not in message
    assert not (tmp_path / "made").exists()


def test_options_of_models_are_refused_with_a_score_file(
    like: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scores.txt").write_text("0.5\n")
    words = ["x", tmp_path / "scores.txt", "--like", like.path, "--output", tmp_path / "made"]
    imported(*words, "--features", "names", expected=2)
    assert mentions(capsys.readouterr().err, "--features", "scores.txt")


def test_a_failed_run_has_no_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = RunResult(status=FAILED, model="native", params="matched", seed=0, data={"name": "toy"})
    write_run(tmp_path / "failed", failed)
    (tmp_path / "model.txt").write_text(stumps_as_json([(0, 0.5)]))
    words = ["x", tmp_path / "model.txt", "--like", tmp_path / "failed", "--output", tmp_path / "made"]
    imported(*words, expected=2)
    assert mentions(capsys.readouterr().err, tmp_path / "failed", "finished run")


def test_a_data_source_that_a_folder_names_is_not_imported_by_default(
    like: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = json.loads((like.path / RESULT_FILE).read_text())
    record["source"]["class"] = "antigravity.Data"
    (tmp_path / "like").mkdir()
    (tmp_path / "like" / RESULT_FILE).write_text(json.dumps(record))
    (tmp_path / "model.txt").write_text(stumps_as_json([(0, 0.5)]))
    words = ["x", tmp_path / "model.txt", "--like", tmp_path / "like", "--output", tmp_path / "made"]
    imported(*words, expected=2)
    assert mentions(capsys.readouterr().err, "antigravity.Data", "--source")


def test_data_in_memory_cannot_be_loaded_again(
    splits: Splits, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = json.loads((finished(tmp_path / "like", importance=None).path / RESULT_FILE).read_text())
    record["source"] = {
        "class": "ltrbench.data.sources.LetorFiles",
        "fields": {"name": "x", "train": {"fingerprint": "1"}},
    }
    (tmp_path / "like" / RESULT_FILE).write_text(json.dumps(record))
    (tmp_path / "model.txt").write_text(stumps_as_json([(0, 0.5)]))
    words = ["x", tmp_path / "model.txt", "--like", tmp_path / "like", "--output", tmp_path / "made"]
    imported(*words, expected=2)
    assert mentions(capsys.readouterr().err, tmp_path / "like", "cannot be loaded", "data.train")


def test_a_folder_with_a_run_is_not_overwritten(like: Run, splits: Splits, tmp_path: Path) -> None:
    (tmp_path / "model.txt").write_text(stumps_as_json([(0, 0.5)]))
    system = ModelImport("x", tmp_path / "model.txt")
    import_model(system, like, splits, tmp_path / "made")
    with pytest.raises(ResultError, match=naming(tmp_path / "made", "--output DIR")):
        import_model(system, like, splits, tmp_path / "made")


def test_the_saved_model_of_a_run_loads(production: Run, splits: Splits) -> None:
    ranker = ImportedRanker.load(production.path / "model")
    dataset: RankingDataset = splits.test
    np.testing.assert_array_equal(
        ranker.predict(dataset.features), read_run(production.path).scored("test").scores
    )
