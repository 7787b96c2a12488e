"""`python -m ltrbench` as a user types it, in a process and a folder of its own."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import TINY, run, run_process, statuses
from messages import naming
from paths import USER_BACKEND

from ltrbench.cli import main
from ltrbench.cli.launch import flags_and_overrides
from ltrbench.cli.verbs import MODULE_OF
from ltrbench.data import RankingDataset, read_letor
from ltrbench.data.letor import write_letor
from ltrbench.folders import conf_dir
from ltrbench.runs import read_run

pytestmark = pytest.mark.slow

BRIEF = ("importance=none", "metrics=ndcg@10")
SMALL = ["data.num_queries=40", "params.num_trees=10", "tracking=none"]


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the demo's command was typed, with fewer queries and trees."""
    folder = tmp_path_factory.mktemp("sweep")
    small = ("data.num_queries=100", "params.num_trees=30")
    done = run_process("model=native,lightgbm", "-m", *small, folder=folder)
    (folder / "stdout.txt").write_text(done.stdout)
    (folder / "stderr.txt").write_text(done.stderr)
    return folder


@pytest.fixture(scope="module")
def letor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small LETOR file of three features."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(240, 3)).round(4).astype(np.float32)
    dataset = RankingDataset(
        features=features,
        labels=np.clip(np.round(features[:, 1] + 0.5 * rng.normal(size=240)), 0, 2),
        query_start=np.arange(0, 241, 8),
        document_ids=np.array([f"d{row}" for row in range(240)]),
    )
    path = tmp_path_factory.mktemp("letor") / "all.txt"
    write_letor(dataset, path)
    return path


def test_a_sweep_prints_one_table_on_standard_output_and_the_rest_on_standard_error(
    sweep: Path,
) -> None:
    stdout, stderr = (
        (sweep / "stdout.txt").read_text(),
        (sweep / "stderr.txt").read_text(),
    )
    names = re.findall(r"^(\S+)  ", stdout, re.MULTILINE)
    assert sorted(names) == ["lightgbm", "model", "native"]
    assert "fitting on" not in stdout
    assert "fitting on" in stderr
    report = re.search(r"^Report: (multirun/\S+)", stderr, re.MULTILINE)
    assert report is not None
    assert (sweep / report[1]).exists()
    assert "python -m ltrbench ui" in stderr
    assert "training data:" not in stderr  # there is nothing to warn of


def test_a_sweep_warns_of_its_data_once_before_it_trains_and_of_a_model_with_one_tree(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    sizes = np.array([1, 9] * 30)
    labels = np.clip(rng.integers(0, 3, size=300), np.repeat(sizes == 1, sizes), None)
    documents = np.array([f"d{row}" for row in range(300)])
    documents[2::10] = documents[1::10]
    table = pd.DataFrame(
        {
            "query_id": np.repeat(np.arange(60), sizes),
            "document_id": documents,
            "label": labels,
            "rating": labels + 0.1 * rng.random(300),
            "shop_id": rng.integers(0, 20, size=300),
            "price": rng.random(300),
        }
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ["model=lightgbm,single_feature", "data=table", "data.train=t.csv", "cv=2"]
    few = ["tracking=none", "importance=none", "params.num_trees=30", "progress=none"]
    sweep = run(*words, *few, "-m", folder=tmp_path)
    before, _, after = sweep.stderr.partition("job 0:")
    for parts in (
        ("rating", "ndcg@10"),
        ("shop_id", "id"),
        ("single document",),
        ("repeat",),
    ):
        (line,) = (text for text in before.splitlines() if parts[0] in text)
        assert re.search(naming("data: ", *parts), line)
        assert line not in after
    assert "one tree" in after
    runs = [read_run(path) for path in (tmp_path / "multirun").glob("*/*/[0-9]*")]
    of_one_tree = [run for run in runs if run.result.best_iteration == 1]
    assert of_one_tree
    for trained in of_one_tree:
        assert any("one tree" in note for note in trained.result.notes)
    alone = run(*words[1:3], *few, "model=lightgbm", folder=tmp_path).stderr
    assert alone.index("rating has ndcg@10") < alone.index("fitting on")


def test_compare_reads_the_folders_and_json_stands_alone_on_standard_output(
    sweep: Path,
) -> None:
    table = run("compare", "multirun", folder=sweep).stdout
    assert table.strip() == (sweep / "stdout.txt").read_text().strip()
    done = run(
        "compare",
        "multirun",
        "--json",
        "--metric",
        "map",
        "--baseline",
        "lightgbm",
        folder=sweep,
    )
    content = json.loads(done.stdout)
    assert content["metric"] == "map"
    assert {item["model"] for item in content["runs"]} == {"native", "lightgbm"}
    assert {row["baseline"] for row in content["rows"]} == {"lightgbm"}
    run("compare", "multirun", "--output", "toy", folder=sweep)
    published = {path.name for path in (sweep / "toy").iterdir()}
    assert {
        "comparison.json",
        "per_query.csv",
        "report.html",
        "table.csv",
        "table.md",
    } <= published
    with (sweep / "toy/per_query.csv").open(newline="") as file:
        header = next(csv.reader(file))
    assert header[3:] == ["native ndcg@10", "lightgbm ndcg@10"]


def test_predict_gives_the_scores_of_the_run_a_line_a_document(
    letor: Path, tmp_path: Path
) -> None:
    run(
        *("model=native,lightgbm", "-m", "data=letor", f"data.train={letor}"),
        *("params.num_trees=5", "tracking=none", *BRIEF),
        folder=tmp_path,
    )
    for folder in tmp_path.glob("multirun/*/*/[0-9]"):
        scored = read_run(folder).scored("test")
        predicted = [
            float(line)
            for line in run(
                "predict", str(folder), str(letor), folder=tmp_path
            ).stdout.split()
        ]
        everything = read_letor(letor)
        assert len(predicted) == everything.num_documents
        ids = everything.document_ids
        assert ids is not None
        scores = dict(zip(ids.tolist(), predicted, strict=True))
        assert scored.judgments.document_ids is not None
        expected = [scores[name] for name in scored.judgments.document_ids.tolist()]
        np.testing.assert_array_equal(
            scored.scores, np.array(expected, dtype=scored.scores.dtype)
        )
    run("predict", str(folder), str(letor), "--output", "scores.txt", folder=tmp_path)
    assert [
        float(line) for line in (tmp_path / "scores.txt").read_text().split()
    ] == predicted
    (tmp_path / "wide.txt").write_text("1 qid:1 1:0.5 4:0.5\n")
    done = run("predict", str(folder), "wide.txt", folder=tmp_path, check=2)
    assert re.search(naming("wide.txt:1: ", "4"), done.stderr)
    done = run("predict", "nowhere", "wide.txt", folder=tmp_path, check=2)
    assert re.search(naming("nowhere", "result.json", "outputs/DATE/TIME"), done.stderr)


def test_a_users_own_backend_is_one_file_and_one_yaml(
    letor: Path, tmp_path: Path
) -> None:
    for path in ("mean_feature.py", "conf/model/mean_feature.yaml"):
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((USER_BACKEND / path).read_bytes())
    models = "model=mean_feature,random,lightgbm"
    words = ("--config-dir", "conf", models, "-m", "data=letor", f"data.train={letor}")
    done = run(*words, "tracking=none", *BRIEF, folder=tmp_path)
    assert re.search(r"^mean_feature +\d", done.stdout, re.MULTILINE)
    # It takes none of the shared parameters, and must not be said to.
    table = only(tmp_path, "multirun/*/*/comparison/table.md").read_text()
    assert re.search(r"matched\b[^.]*mean_feature \(power=1\.0\)", table)
    folder = str(only(tmp_path, "multirun/*/*/0").relative_to(tmp_path))
    done = run("predict", folder, str(letor), folder=tmp_path, check=2)
    assert re.search(
        naming(folder, "trust", "--ranker mean_feature.MeanFeatureRanker"), done.stderr
    )
    done = run(
        "predict",
        folder,
        str(letor),
        "--ranker",
        "mean_feature.MeanFeatureRanker",
        folder=tmp_path,
    )
    assert len(done.stdout.split()) == 240


def test_help_answers_without_importing_a_backend_or_a_tracker(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ltrbench", "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "predict" in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert imported.isdisjoint(
        {"lightgbm", "xgboost", "mlflow", "numba", "pandas", "scipy.stats"}
    )


def test_help_has_a_page_for_settings_with_their_values_and_one_for_verbs(
    tmp_path: Path,
) -> None:
    page = run(
        "--help", "settings", "model=lightgbm", "params.num_trees=7", folder=tmp_path
    ).stdout
    assert "feature_fraction_bynode" in page
    assert "num_trees: 7" in page
    for group in ("data", "model", "tracking"):
        names = sorted(path.stem for path in (conf_dir() / group).glob("*.yaml"))
        line = next(line for line in page.splitlines() if line.startswith(f"{group}: "))
        assert set(names) <= set(line.removeprefix(f"{group}: ").split(", "))
    verbs = run("--help", "verbs", folder=tmp_path).stdout
    assert all(f"\n  {name} " in verbs for name in MODULE_OF)
    assert max(map(len, run("--help", folder=tmp_path).stdout.splitlines())) <= 110


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (
            ["predct"],
            ("'predct'", "'predict'", "compare, conventions,", "key=value"),
        ),
        (["compare", "nowhere"], ("nowhere", "multirun/DATE/TIME")),
        (["ui"], ("result.json",)),
        (["model=natve"], ("'natve'", "'native'")),
        (["model/objective=lisnet"], ("'lisnet'", "'listnet'", "of approx_ndcg")),
        (
            ["model=native,random", "seed=0"],
            ("model", "python -m ltrbench model=native,random seed=0 -m"),
        ),
        (
            ["metrics=ndcg@10,map"],
            ("metrics=ndcg@10,map -m", "'metrics=[ndcg@10,map]'"),
        ),
        (["params.num_leaves=choice(3,7)"], ("'params.num_leaves=choice(3,7)' -m",)),
        (["model=random", "hydra.run.dir=/dev/null"], ("/dev/null", "another folder")),
        (
            ["model=random", "hydra.sweep.dir=/dev/null/s", "-m"],
            ("/dev/null/s", "another folder"),
        ),
        (["--model", "native"], ("--model", "params.num_trees=100")),
        (
            ["model=lightgbm", "model.queries_per_tree=0.5"],
            ("model.queries_per_tree", "LightGBMRanker"),
        ),
        (
            ["model/objective=lambdaloss", "model.mu=2"],
            ("model.mu", "model.objective.mu"),
        ),
        (["params.num_leaves=1"], ("num_leaves is 1", "at least 2")),
        (["metrics=[ndgc@10]"], ("'ndgc@10'", "'ndcg'")),
        (["data=letor"], ("data.train", "data.train=VALUE")),
        (["stop_after=5"], ("stop_after is 5", "-m")),
        (["data=null"], ("data=null", "synthetic", "leave out data")),
        (["executor=null"], ("executor=null", "inline", "processes")),
        (["only_trials=true"], ("only_trials=true", "-m")),
        (["executor=processes"], ("executor=processes", "-m")),
        (["looks=3"], ("looks=3", "-m")),
        (["hydra.sweep.dir=s"], ("hydra.sweep.dir=s", "-m")),
        (["hydra.run.dir=r", "seed=1,2", "-m"], ("hydra.run.dir=r", "hydra.sweep.dir")),
        (["replicates.kind=subsample"], ("replicates.kind", "replicates.number=5")),
        (
            ["replicates=2", "replicates.share=0.3", "-m"],
            ("replicates.share=0.3", "replicates.kind=subsample"),
        ),
        (["cv_split=valid"], ("cv_split=valid", "cv=5")),
        (["progress=lots"], ("progress is 'lots'", "auto, plain, none")),
        (["looks=-1"], ("looks is -1", "at least 0")),
        (["looks=0", "register=shop"], ("register is 'shop'", "looks is 0")),
        (["cv=3", "-m", "register=shop"], ("'shop'", "cv=3", "final", "sync")),
        (["replicates=3", "-m", "register=shop"], ("'shop'", "replicates=3", "final")),
        (["target=elastcsearch"], ("target is 'elastcsearch'", "elasticsearch")),
        (["target={name: solr, absnt: zero}"], ("target absnt", "absent")),
        (["model=native,mlp", "target=solr", "-m"], ("target is solr", "MlpRanker")),
        (["model=random", "executor=inline,processes", "-m"], ("executor differs",)),
        (["model=random", "tracking=none,mlflow", "-m"], ("tracking differs",)),
        (
            [
                "model=random",
                "tracking=none",
                "executor=processes",
                "executor.workers=0",
                "-m",
            ],
            ("executor.workers is 0", "at least 1"),
        ),
        (
            ["model=random", "tracking=none", "executor=dask", "-m"],
            ("executor.scheduler", "executor.cluster._target_="),
        ),
        (
            ["model=random", "hydra.job.chdir=true", "-m"],
            ("hydra.job.chdir", "single runs"),
        ),
        (
            ["tracking.uri=http://127.0.0.1:9"],
            ("http://127.0.0.1:9", "tracking.uri=", "tracking=none"),
        ),
    ],
)
def test_a_users_mistake_is_one_paragraph_and_exit_code_2(
    words: list[str], parts: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "multirun").mkdir(exist_ok=True)
    done = run(*words, folder=tmp_path, check=2)
    assert re.search(naming(*parts), done.stderr)
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert (
        len(
            [
                line
                for line in done.stderr.splitlines()
                if line.startswith(("error:", "failed:"))
            ]
        )
        == 1
    )


@pytest.mark.parametrize(
    ("typed", "whole"),
    [
        ("tracking=null", "tracking=none"),
        ("search=null", "search=none"),
        ("importance=null", "importance=none"),
        ("model/objective=null", "model/objective=none"),
        ("early_stopping=none", "early_stopping=null"),
        ("debias=null", "debias=null"),
    ],
)
def test_null_and_none_are_the_same_of_a_group(typed: str, whole: str) -> None:
    assert flags_and_overrides([typed]) == ([], [whole])


@pytest.mark.parametrize("text", ["num_leaves: [3\nnum_trees: 4", "seed: 1\nseed: 2"])
def test_a_yaml_that_cannot_be_read_is_named_with_its_line(
    text: str, tmp_path: Path
) -> None:
    file = tmp_path / "conf/model/mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(f"defaults: [native, _self_]\n{text}\n")
    for words in (["model=mine"], ["model=mine,random", "-m"]):
        done = run("--config-dir", "conf", *words, folder=tmp_path, check=2)
        assert done.stderr.count("error: ") == 1
        assert f"{file}:3: " in done.stderr


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        ("compare runs --attributes kinds.csv", "--slice"),
        ("compare runs --fuse-of native", "--fuse"),
        ("compare runs --fuse zscore --rrf-k 60", "--fuse rrf"),
        ("compare runs --json --columns all", "--json"),
        ("inspect a.csv --target solr", "--yaml"),
        ("inspect a.csv --keep-feature b", "--yaml"),
        ("inspect a.csv --json --yaml a.yaml", "--yaml"),
        ("export run --metric map --format csv", "--format ranklib-idv"),
        ("show run --first 3", "--trees"),
        ("show run --ranker a.b", "--trees"),
        ("ui --experiment mine", "--uri"),
        ("sync runs --anyway", "--register"),
        ("ship run --to solr --check answers.json", "--check"),
        ("ship run --read query=q --output out --to solr", "--data"),
        ("auto a.csv --set absent=missing", "--target"),
    ],
)
def test_an_option_without_the_option_that_it_needs_is_refused(
    words: str, needed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "has no effect" in printed.err
    assert needed in printed.err


def test_a_sweep_for_a_target_that_holds_no_categories_ends_before_it_trains(
    tmp_path: Path,
) -> None:
    rows = [f"q{row // 4},{row % 3},{row % 5},{'abc'[row % 3]}" for row in range(80)]
    text = "\n".join(["query_id,label,price,brand", *rows])
    (tmp_path / "shop.csv").write_text(text)
    data = ("data=table", "data.train=shop.csv", "data.categorical=[brand]")
    words = ("model=native,lightgbm", "target=elasticsearch", "-m", *SMALL[1:])
    done = run(*data, *words, folder=tmp_path, check=2)
    assert re.search(naming("target is elasticsearch", "brand"), done.stderr)
    assert not [*tmp_path.rglob("result.json")]


@pytest.mark.usefixtures("migrated_store")
def test_a_failing_job_is_recorded_the_others_go_on_and_the_exit_code_tells(
    tmp_path: Path,
) -> None:
    broken = tmp_path / "conf/model/broken.yaml"
    broken.parent.mkdir(parents=True)
    broken.write_text("defaults: [_yardstick, _self_]\n_target_: broken.Broken\n")
    (tmp_path / "broken.py").write_text(
        "from dataclasses import dataclass\n"
        "from ltrbench.rankers.random import RandomRanker\n"
        "@dataclass(kw_only=True)\n"
        "class Broken(RandomRanker):\n"
        "    def fit(self, train, valid=None, on_iteration=None):\n"
        "        raise ZeroDivisionError('by design')\n"
    )
    words = (
        "--config-dir",
        "conf",
        "model=random,broken,single_feature",
        "-m",
        *SMALL[:2],
        *BRIEF,
        "register=shop",
    )
    done = run(*words, folder=tmp_path, check=1)
    assert re.search(naming("'shop'", "1 of 3 jobs"), done.stderr)
    assert "Registered:" not in done.stderr
    results = [
        read_run(path).result for path in sorted(tmp_path.glob("multirun/*/*/[0-9]"))
    ]
    assert [result.status for result in results] == ["finished", "failed", "finished"]
    assert results[1].error is not None
    assert "ZeroDivisionError: by design" in results[1].error
    assert "broken failed" in done.stdout
    assert "Traceback" not in done.stderr
    assert statuses(tmp_path) == [
        ("broken", "FAILED"),
        ("random", "FINISHED"),
        ("random, broken, single_feature on synthetic", "FAILED"),
        ("single_feature", "FINISHED"),
    ]
    assert [result.flags for result in results] == [["--config-dir", "conf"]] * 3
    assert not [*tmp_path.rglob(".hydra")]
    # Only the failed job runs again.
    folder = str(only(tmp_path, "multirun/*/*/1").parent.relative_to(tmp_path))
    resumed = run("resume", folder, "--failed", folder=tmp_path, check=1).stderr
    assert [number for number in range(3) if f"job {number}:" in resumed] == [1]


@pytest.mark.usefixtures("migrated_store")
def test_every_job_of_a_sweep_records_what_is_swept_and_the_registered_model_its_reason(
    tmp_path: Path,
) -> None:
    words = (
        "model=lightgbm",
        "seed=1,2",
        "-m",
        "data.num_queries=40",
        "params.num_trees=5",
        *BRIEF,
        "register=shop",
    )
    done = run(*words, folder=tmp_path)
    results = [
        read_run(path).result for path in sorted(tmp_path.glob("multirun/*/*/[0-9]"))
    ]
    assert [result.swept for result in results] == [{"seed": ["1", "2"]}] * 2
    names = [name for name, _ in statuses(tmp_path)]
    assert names == [
        "lightgbm on synthetic: seed",
        "lightgbm seed=1",
        "lightgbm seed=2",
    ]
    mean = np.mean([result.metrics["valid/ndcg@10"] for result in results])
    (line,) = (
        line for line in done.stderr.splitlines() if line.startswith("Registered:")
    )
    assert re.search(naming("models:/shop@champion", "version 1", "lightgbm"), line)
    assert re.search(naming("validation ndcg@10", f"{mean:.4f}"), line)


EXPERIMENT = """
# @package _global_
defaults: [override /executor: one_process]
hydra: {mode: MULTIRUN, sweep: {dir: s}, sweeper: {params: {seed: "1,2"}}}
"""

EXECUTOR = """
_target_: ltrbench.sweep.executors.ProcessExecutor
workers: 1
"""


def test_an_executor_is_chosen_by_an_experiment_in_the_folder_of_a_user(
    tmp_path: Path,
) -> None:
    for group, name, text in (
        ("experiment", "mine", EXPERIMENT),
        ("executor", "one_process", EXECUTOR),
    ):
        (tmp_path / "conf" / group).mkdir(parents=True)
        (tmp_path / "conf" / group / f"{name}.yaml").write_text(text)
    words = ("--config-dir", "conf", "experiment=mine", "model=random", *TINY)
    done = run(*words, folder=tmp_path)
    assert "1 worker x" in done.stderr
    assert "fitting on" not in done.stderr
    for number in (0, 1):
        result = json.loads((tmp_path / f"s/{number}/result.json").read_text())
        assert (result["status"], result["seed"]) == ("finished", number + 1)
        log = (tmp_path / f"s/{number}/ltrbench.log").read_text()
        assert "fitting on" in log
        assert f"seed={number + 1}" in log
        assert f"seed={2 - number}" not in log


def test_no_file_of_a_command_has_the_password_of_the_tracking_store(
    tmp_path: Path,
) -> None:
    secret = "s3/cr@t"
    (tmp_path / "own_store.py").write_text(
        "from dataclasses import dataclass\n"
        "from ltrbench.tracking import NoTracking\n"
        "@dataclass(frozen=True)\n"
        "class Store(NoTracking):\n"
        "    uri: str = ''\n"
    )
    address = f"http://me@work:{secret}@host:5000/?sslpassword={secret}&token={secret}"
    uri = f"+tracking.uri='{address}'"
    store = ["tracking=none", "tracking._target_=own_store.Store", uri]
    words = [word for word in TINY if word != "tracking=none"] + store
    run("model=random", *words, "hydra.run.dir=alone", folder=tmp_path)
    search = ["search=random", "search.trials=2", "hydra.sweep.dir=sweep", "-m"]
    refused = ["model=native", "params.num_leaves=4,5", "+model.extra.unknown=1"]
    run(*refused, *words, *search[2:], folder=tmp_path, check=None)
    run("model=native", *words, *search, folder=tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"multirun.yaml", "config.yaml", "result.json", "ltrbench.log"} <= names
    assert [path for path in files if b"cr@t" in path.read_bytes()] == []
