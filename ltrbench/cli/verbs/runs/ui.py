"""The verb `ui`: opens the MLflow UI on the tracking store of the runs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import click

from ltrbench.cli.files import PATH
from ltrbench.cli.jobs.mirroring import recorded_store
from ltrbench.errors import ResultError, TrackingError
from ltrbench.results import find_runs_and_trials


@click.command("ui")
@click.argument("folder", type=PATH, default=Path())
@click.option("--uri", help="Tracking store; default: the store of the newest run below FOLDER.")
@click.option(
    "--experiment", default="ltrbench", show_default=True, help="MLflow experiment; only with --uri."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to bind to.")
@click.option("--port", default=5000, show_default=True, help="Port to listen on.")
def ui_verb(folder: Path, uri: str | None, experiment: str, host: str, port: int) -> int:
    """Opens the MLflow UI on the tracking store of the runs in FOLDER.

    FOLDER is the current folder by default. Prints the address of the run list, with columns for NDCG and the
    fit time.

    \b
        python -m ltrbench ui --port 5001
    """
    store, experiment = (uri, experiment) if uri else _newest_store(folder)
    if store.startswith(("http://", "https://")):
        try:
            path = _run_list(store, experiment)
        except TrackingError as error:
            # A browser may have access through its own login where this process has none.
            click.echo(f"The address of the run list with NDCG columns is not available: {error}", err=True)
            path = "/"
        click.echo(f"The runs are on a server: open {store.rstrip('/')}{path}")
        return 0
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", store]
    command += ["--host", host, "--port", str(port), "--workers", "1"]
    # Without MLflow's job runner, which would take seconds and many processes; ltrbench schedules no jobs.
    environment = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", **os.environ}
    # In a separate process group, ended as a whole, because the workers of MLflow's server outlive it.
    server = subprocess.Popen(command, env=environment, start_new_session=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        # Looked up while the server starts, because importing MLflow takes seconds.
        address = f"http://{host}:{port}{_run_list(store, experiment)}"
        click.echo(f"MLflow UI on {store}: {address} (Ctrl-C to stop)", err=True)
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
    """Returns the store and the experiment of the newest tracked run, resolved from any current folder.

    Raises:
        ResultError: There is no tracked run, or its store does not exist.
    """
    try:
        runs = find_runs_and_trials([folder])
    except ResultError as error:
        raise ResultError(f"{error} Or give a store with --uri.") from None
    store = recorded_store(runs)
    if store is None:
        raise ResultError(
            f"no run below {folder} was tracked; start one with tracking=mlflow, or give a store with --uri."
        )
    if store.database is not None and not store.database.exists():
        raise ResultError(
            f"the store {store.database} of the newest run does not exist; give a store with --uri."
        )
    return store
