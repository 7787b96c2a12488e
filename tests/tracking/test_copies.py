"""A run folder has one copy in the store, whatever was interrupted; a lost store costs only one call."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from messages import naming
from mlflow import MlflowClient
from mlflow.entities import Run as MlflowRun
from mlflow.entities import ViewType
from test_mlflow import make_run
from werkzeug.serving import make_server

from ltrbench.errors import TrackingError
from ltrbench.runs import FAILED
from ltrbench.runs.record import INTERRUPTED
from ltrbench.tracking import mlflow as mlflow_tracker
from ltrbench.tracking.mlflow import MLflowTracker

pytestmark = [
    pytest.mark.slow,
    # MLflow's own, as in test_mlflow.py.
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
]


def stored(tracker: MLflowTracker, kind: str, view: int = ViewType.ACTIVE_ONLY) -> list[MlflowRun]:
    """The parents ("sweep") or the copies ("run") of the store, the first created first."""
    client = MlflowClient(tracker.uri)
    experiments = [item.experiment_id for item in client.search_experiments()]
    runs = client.search_runs(experiments, f"tags.kind = '{kind}'", run_view_type=view)
    return sorted(runs, key=lambda run: (run.info.start_time, run.info.run_name))


def statuses(tracker: MLflowTracker, kind: str = "run") -> list[str]:
    return [run.info.status for run in stored(tracker, kind)]


def parents(tracker: MLflowTracker) -> set[str | None]:
    """The parents of all copies."""
    return {run.data.tags.get("mlflow.parentRunId") for run in stored(tracker, "run")}


def test_a_sweep_that_is_logged_twice_has_one_parent_and_one_copy_of_each_run(
    tracker: MLflowTracker, tmp_path: Path
) -> None:
    runs = [make_run(tmp_path / "sweep/0"), make_run(tmp_path / "sweep/1", status=FAILED)]
    for _ in range(2):
        tracker.open(str(tmp_path / "sweep"), "abc")
        for run in (*runs, *runs):
            tracker.log(run)
        assert statuses(tracker, "sweep") == ["RUNNING"]
        tracker.close("failed")
    assert statuses(tracker, "sweep") == ["FAILED"]
    assert sorted(statuses(tracker)) == ["FAILED", "FINISHED"]
    (parent,) = stored(tracker, "sweep")
    assert parents(tracker) == {parent.info.run_id}
    assert parent.data.tags["sweep_id"] == "abc"
    assert {run.data.tags["job"] for run in stored(tracker, "run")} == {"0", "1"}


@pytest.mark.parametrize("status", ["RUNNING", "KILLED"])
def test_an_incomplete_copy_is_replaced(
    tracker: MLflowTracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    run = make_run(tmp_path / "sweep/0")
    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "log_artifacts", refuse)
        if status == "RUNNING":  # as after a process was killed, or where the store fails again
            patched.setattr(MlflowClient, "set_terminated", refuse)
        tracker.open(str(tmp_path / "sweep"), "abc")
        for _ in range(2):
            with pytest.raises(TrackingError, match=naming(tracker.uri, "no space", "ltrbench sync DIR")):
                tracker.log(run)
        assert statuses(tracker) == [status, status]
    again = MLflowTracker(uri=tracker.uri)
    again.open(str(tmp_path / "sweep"), "abc")
    again.log(run)
    assert statuses(tracker) == ["FINISHED"]
    assert len(stored(tracker, "run", ViewType.ALL)) == 3


def refuse(*_: Any, **__: Any) -> None:
    raise OSError("no space")


def test_an_interrupted_job_is_killed_stored_once_and_replaced_by_its_finished_run(
    tracker: MLflowTracker, tmp_path: Path
) -> None:
    sweep = tmp_path / "sweep"
    interrupted = make_run(sweep / "0", status=FAILED, error=INTERRUPTED)
    for _ in range(2):  # a new process, such as sync, finds the copy in the store
        again = MLflowTracker(uri=tracker.uri)
        again.open(str(sweep), "abc")
        again.log(interrupted)
    (run,) = stored(tracker, "run", ViewType.ALL)
    assert (run.info.status, run.data.tags["error"]) == ("KILLED", "interrupted")
    shutil.rmtree(sweep / "0")
    again = MLflowTracker(uri=tracker.uri)
    again.open(str(sweep), "abc")
    again.log(make_run(sweep / "0", seed=2))
    assert statuses(tracker) == ["FINISHED"]


def test_a_run_that_was_logged_alone_becomes_a_child_of_its_sweep(
    tracker: MLflowTracker, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "sweep/0")
    for _ in range(2):
        tracker.open(None)
        tracker.log(run)
    assert parents(tracker) == {None}
    for _ in range(2):
        tracker.open(str(tmp_path / "sweep"), "abc")
        tracker.log(run)
    assert parents(tracker) == {stored(tracker, "sweep")[0].info.run_id}
    assert len(stored(tracker, "run")) == 1


class Server:
    """MLflow's tracking server in this process, which can be lost and return at the same address."""

    def __init__(self) -> None:
        from mlflow.server import app

        self._app = app
        self.requests_left: int | None = None
        self._server = self._serve(0)
        self.port = self._server.server_port

    def _serve(self, port: int) -> Any:
        server = make_server("127.0.0.1", port, self._answer, threaded=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if self.requests_left == 0:
            start_response("400 Bad Request", [])
            return []
        if self.requests_left is not None:
            self.requests_left -= 1
        return self._app(environ, start_response)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def start(self) -> None:
        self._server = self._serve(self.port)


@pytest.fixture
def server(tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    monkeypatch.setenv("_MLFLOW_SERVER_FILE_STORE", f"sqlite:///{tmp_path / 'mlflow.db'}")
    monkeypatch.setenv("_MLFLOW_SERVER_ARTIFACT_ROOT", (tmp_path / "artifacts").as_uri())
    # The server creates its store once per process.
    monkeypatch.setattr("mlflow.server.handlers._tracking_store", None)
    server = Server()
    yield server
    server.stop()


@pytest.mark.filterwarnings("ignore:starlette.middleware.wsgi is deprecated")  # MLflow's server imports it
def test_a_server_that_is_lost_costs_only_the_calls_until_it_returns(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = MLflowTracker(uri=f"http://127.0.0.1:{server.port}")
    runs = [make_run(tmp_path / f"sweep/{number}", seed=number) for number in range(4)]
    failure = naming(tracker.uri, "ltrbench sync DIR")
    tracker.open(str(tmp_path / "sweep"), "abc")
    tracker.log(runs[0])
    server.requests_left = 3  # lost in the middle of a call
    with pytest.raises(TrackingError, match=failure):
        tracker.log(runs[1])
    server.requests_left = None
    server.stop()
    began = time.monotonic()
    with pytest.raises(TrackingError, match=failure):
        tracker.log(runs[2])
    assert time.monotonic() - began < 5
    monkeypatch.setitem(mlflow_tracker.LIMITS, "MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    # A server that accepts connections and never answers.
    with socket.create_server(("127.0.0.1", server.port)), pytest.raises(TrackingError, match=failure):
        tracker.log(runs[2])
    assert time.monotonic() - began < 10
    server.start()
    tracker.log(runs[3])
    tracker.close("failed")
    assert sorted(statuses(tracker)) in (["FINISHED", "FINISHED", status] for status in ("KILLED", "RUNNING"))
    tracker.open(str(tmp_path / "sweep"), "abc")
    for run in runs:
        tracker.log(run)
    tracker.close("finished")
    assert (statuses(tracker), statuses(tracker, "sweep")) == (["FINISHED"] * 4, ["FINISHED"])
