"""The verb `ui`: the MLflow UI on the store that runs went to."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import click

from ltrbench.cli.files import PATH
from ltrbench.errors import ResultError, TrackingError
from ltrbench.results import find_runs

_SQLITE = "sqlite:///"


@click.command("ui")
@click.argument("folder", type=PATH, default=Path())
@click.option("--uri", help="The store; by default the one that the newest run below FOLDER went to.")
@click.option(
    "--experiment", default="ltrbench", show_default=True, help="The MLflow experiment, with --uri."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to bind to.")
@click.option("--port", default=5000, show_default=True, help="The port to listen on.")
def ui_verb(folder: Path, uri: str | None, experiment: str, host: str, port: int) -> int:
    """Opens the MLflow UI on the store that the runs in FOLDER went to (by default the current folder).

    Prints the address of the run list with a column for each NDCG.

    \b
        python -m ltrbench ui --port 5001
    """
    store, experiment = (uri, experiment) if uri else _newest_store(folder)
    if store.startswith(("http://", "https://")):
        try:
            path = _run_list(store, experiment)
        except TrackingError as error:
            # A browser may get in where this process does not, through a login of its own.
            click.echo(f"The run list with its NDCG columns was not looked up: {error}", err=True)
            path = "/"
        click.echo(f"The runs are on a server: open {store.rstrip('/')}{path}")
        return 0
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", store]
    command += ["--host", host, "--port", str(port), "--workers", "1"]
    # Without MLflow's runner of scheduled jobs, of which there are none: it takes seconds and many processes.
    environment = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", **os.environ}
    # In a process group of its own, which is ended as a whole: MLflow's server has workers that outlive it.
    server = subprocess.Popen(command, env=environment, start_new_session=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        # Looked up while the server starts: importing MLflow takes seconds.
        address = f"http://{host}:{port}{_run_list(store, experiment)}"
        click.echo(f"MLflow UI on {store}: {address} (Ctrl-C ends it)", err=True)
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait()


def _run_list(store: str, experiment: str) -> str:
    from ltrbench.tracking.mlflow import run_list_of

    return run_list_of(store, experiment)


def _newest_store(folder: Path) -> tuple[str, str]:
    """The store and the experiment of the newest tracked run, wherever the command is given."""
    try:
        runs = find_runs([folder])
    except ResultError as error:
        raise ResultError(f"{error} Or name a store with --uri.") from None
    tracked = [run for run in runs if run.result.config.get("tracking", {}).get("uri")]
    if not tracked:
        raise ResultError(f"no run below {folder} was tracked; run one, or name a store with --uri.")
    result = max(tracked, key=lambda run: run.result.started).result
    uri, experiment = (str(result.config["tracking"].get(key)) for key in ("uri", "experiment"))
    database = uri.removeprefix(_SQLITE)
    if database == uri:
        return uri, experiment
    # A relative path starts where the run was started.
    path = Path(result.started_in, database)
    if not path.exists():
        raise ResultError(
            f"the store {path}, which the newest run went to, is not there; name one with --uri."
        )
    return f"{_SQLITE}{path}", experiment
