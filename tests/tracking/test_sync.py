"""The verb `sync` fills an MLflow store from run folders, each exactly once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import toy_runs
from mlflow import MlflowClient
from mlflow.entities import Run as MlflowRun
from toy_runs import mentions

from ltrbench.cli import main
from ltrbench.cli.session import TRACKING
from ltrbench.runs.record import FAILED, RESULT_FILE
from ltrbench.runs.writing import holder
from ltrbench.sweep.plan import prepare_sweep

pytestmark = [
    pytest.mark.slow,
    # MLflow's own, as in test_mlflow.py.
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
]


@pytest.fixture(autouse=True)
def work_folder(
    tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Makes `tmp_path` the current folder, with an empty store."""
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    monkeypatch.chdir(tmp_path)


def write(
    folder: Path, model: str, sweep: str | None = "sweep", **changes: Any
) -> None:
    """Writes a finished run, and changes fields of its result.json."""
    toy_runs.write(folder, model)
    path = folder / RESULT_FILE
    record = {**json.loads(path.read_text()), "sweep": sweep, **changes}
    record["data"]["train"]["features"] = 3
    path.write_text(json.dumps(record))


def stored(uri: str = "sqlite:///mlflow.db") -> dict[str, list[MlflowRun]]:
    """Kind -> the MLflow runs of the store."""
    client = MlflowClient(f"sqlite:///{Path(uri.removeprefix('sqlite:///')).resolve()}")
    runs = client.search_runs(
        [item.experiment_id for item in client.search_experiments()]
    )
    return {
        kind: [run for run in runs if run.data.tags["kind"] == kind]
        for kind in ("sweep", "run")
    }


def test_a_sweep_is_stored_once_with_its_comparison_and_its_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, model in enumerate(("native", "lightgbm")):
        write(tmp_path / "sweep" / str(number), model)
    write(tmp_path / "sweep/2", "xgboost", status=FAILED, error="no memory")
    # With a plan, whose ledger lists the looks at the sweep.
    prepare_sweep(tmp_path / "sweep")
    before = sorted((tmp_path / "sweep").rglob("*"))
    for num_new in (3, 0):
        assert main(["sync", "sweep"]) == 0
        assert mentions(
            capsys.readouterr().err,
            "3 runs of sweep",
            "sqlite:///mlflow.db",
            f"{num_new} of them",
        )
    # Nothing but the lease of the command that tracks the sweep.
    after = sorted((tmp_path / "sweep").rglob("*"))
    assert [
        path for path in after if not path.name.startswith(f".{TRACKING}-")
    ] == before
    assert holder(tmp_path / "sweep", TRACKING) is None
    runs = stored()
    (parent,) = runs["sweep"]
    assert parent.info.status == "FAILED"
    assert mentions(parent.data.tags["mlflow.note.content"], "native", "lightgbm")
    assert {run.data.tags["mlflow.parentRunId"] for run in runs["run"]} == {
        parent.info.run_id
    }
    assert sorted(run.info.status for run in runs["run"]) == [
        "FAILED",
        "FINISHED",
        "FINISHED",
    ]
    # The failed job is run again.
    shutil.rmtree(tmp_path / "sweep/2")
    write(tmp_path / "sweep/2", "xgboost")
    assert main(["sync", "sweep"]) == 0
    assert mentions(capsys.readouterr().err, "3 runs of sweep", "1 of them new")
    runs = stored()
    assert [run.info.status for run in (*runs["sweep"], *runs["run"])] == [
        "FINISHED"
    ] * 4


def test_the_store_of_the_runs_is_the_default(
    tmp_path: Path, empty_database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = {"uri": "sqlite:///kept/mlflow.db", "experiment": "mine"}
    elsewhere = tmp_path / "elsewhere"
    write(
        tmp_path / "sweep/0",
        "a",
        config={"tracking": recorded},
        started_in=str(elsewhere),
    )
    # The store was on another machine.
    assert main(["sync", "sweep"]) == 0
    assert mentions(
        capsys.readouterr().err,
        elsewhere,
        "--uri",
        "sqlite:///mlflow.db",
        "'ltrbench'",
        "1 run of",
    )
    (elsewhere / "kept").mkdir(parents=True)
    shutil.copy(empty_database, elsewhere / "kept/mlflow.db")
    assert main(["sync", "sweep"]) == 0
    assert mentions(capsys.readouterr().err, elsewhere / "kept/mlflow.db", "'mine'")
    assert len(stored(f"{elsewhere}/kept/mlflow.db")["run"]) == 1
    assert (
        main(["sync", "sweep", "--uri", "sqlite:///mlflow.db", "--experiment", "third"])
        == 0
    )
    assert mentions(capsys.readouterr().err, "sqlite:///mlflow.db", "'third'")


def test_each_sweep_is_stored_in_the_experiment_that_it_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, name in enumerate(("search", "ads", "ads")):
        recorded = {"uri": "sqlite:///mlflow.db", "experiment": name}
        write(
            tmp_path / f"all/{number}",
            f"model{number}",
            sweep=None,
            config={"tracking": recorded},
            started_in=str(tmp_path),
        )
    assert main(["sync", "all"]) == 0
    printed = capsys.readouterr().err
    assert mentions(printed, "1 run of all", "'search'", "2 runs of all", "'ads'")
    # By its whole path, because MLflow keeps the store of an address open for other tests.
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    names = {item.experiment_id: item.name for item in client.search_experiments()}
    stored_in = {
        run.data.tags["backend"]: names[run.info.experiment_id]
        for run in stored()["run"]
    }
    assert stored_in == {"model0": "search", "model1": "ads", "model2": "ads"}


def test_a_damaged_run_is_named_and_the_others_are_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(2):
        write(tmp_path / "sweep" / str(number), f"model{number}")
    damaged = tmp_path / "sweep/0/per_query.csv"
    damaged.write_text("query_id,num_documents\n1,few\n")
    assert main(["sync", "sweep"]) == 2
    assert mentions(capsys.readouterr().err, "sweep/0/per_query.csv", "few")
    assert [run.data.tags["backend"] for run in stored()["run"]] == ["model1"]


@pytest.mark.parametrize(
    "masked", ["http://me:***@127.0.0.1:9", "http://127.0.0.1:9/?token=***"]
)
def test_a_store_that_needs_a_password_is_never_replaced_by_the_default(
    masked: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = {"uri": masked, "experiment": "mine"}
    write(tmp_path / "sweep/0", "a", config={"tracking": recorded})
    assert main(["sync", "sweep"]) == 2
    assert mentions(capsys.readouterr().err, recorded["uri"], "password", "--uri")
    assert stored() == {"sweep": [], "run": []}
    # A wrong address or password: the option of this verb is named, not that of a run.
    assert main(["sync", "sweep", "--uri", "http://me:wrong@127.0.0.1:9"]) == 2
    refused = capsys.readouterr().err
    assert mentions(refused, "http://me:***@127.0.0.1:9", "--uri")
    assert "tracking.uri" not in refused
    assert "wrong" not in refused


def test_a_name_that_no_registry_takes_is_refused_before_the_store_is_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "sweep/0", "a")
    assert main(["sync", "sweep/0", "--register", "a/b"]) == 2
    assert mentions(capsys.readouterr().err, "--register is 'a/b'", "without / and :")
