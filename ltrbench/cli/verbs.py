"""The verbs: commands on runs (here, `comparing.py`, `aa.py`, `show.py`, `trees.py`, `exporting.py`,
`importing.py`), on scores (`evaluating.py`, `explain.py`), and on data (`inspecting.py`).

None runs an experiment. Those in this file read run folders and know nothing of Hydra.
"""

from __future__ import annotations

import contextlib
import copy
import os
import signal
import subprocess
import sys
from pathlib import Path

import click

from ltrbench.cli.aa import aa
from ltrbench.cli.comparing import compare
from ltrbench.cli.evaluating import conventions, evaluate
from ltrbench.cli.explain import explain, walkthrough
from ltrbench.cli.exporting import export
from ltrbench.cli.files import PATH, READ_OPTION, opened, typed_options
from ltrbench.cli.importing import import_
from ltrbench.cli.inspecting import inspect
from ltrbench.cli.models import RANKER_OPTION, load_model
from ltrbench.cli.program import as_called
from ltrbench.cli.reproducing import reproduce
from ltrbench.cli.shells import completion
from ltrbench.cli.show import show
from ltrbench.cli.trees import trees
from ltrbench.errors import ResultError, TrackingError
from ltrbench.results import find_runs, read_run

_SQLITE = "sqlite:///"


class _Verbs(click.Group):
    """Shows the commands in a verb's help as this process was called."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if command is None:
            return None
        shown = copy.copy(command)
        shown.help = as_called(command.help or "")
        return shown


@click.group(cls=_Verbs)
def verbs() -> None:
    """Commands on runs, scores and data. All else on the command line is a run: python -m ltrbench --help."""


@verbs.command()
@click.argument("run", type=PATH)
@click.argument("data", type=PATH)
@click.option("--output", type=PATH, help="Write the scores to this file instead of standard output.")
@RANKER_OPTION
@READ_OPTION
def predict(run: Path, data: Path, output: Path | None, ranker: str | None, reading: tuple[str, ...]) -> None:
    """Scores the documents of the file DATA with the model of the finished RUN, a line a document.

    DATA is a file as those in training; the columns of a table are found by their names. It needs neither
    labels nor queries: a LETOR line may begin with qid:ID or with its first feature, and a table may lack
    these columns. Scores stand in the order of the file. A score is printed in full, so that reading it back
    gives the same number.

    \b
      python -m ltrbench predict outputs/2026-01-31/12-00-00 test.txt --output scores.txt
    """
    from ltrbench.data.formats.reading import read_features, reading_options

    finished = read_run(run)
    model = load_model(finished, ranker)
    train = finished.result.data["train"]
    # As in training, but that a table's columns may stand in another order; a LETOR file has no names.
    as_trained = {"num_features": int(train["features"]), "feature_names": train.get("feature_names")}
    options = reading_options(data, finished.result.settings.get("data", {}))
    scores = model.predict(read_features(data, **{**as_trained, **options, **typed_options(reading)}))
    with opened(output) as file:
        file.writelines(f"{score!s}\n" for score in scores)


@verbs.command()
@click.argument("folder", type=PATH, default=Path())
@click.option("--uri", help="The store; by default the one that the newest run below FOLDER went to.")
@click.option(
    "--experiment", default="ltrbench", show_default=True, help="The MLflow experiment, with --uri."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to bind to.")
@click.option("--port", default=5000, show_default=True, help="The port to listen on.")
def ui(folder: Path, uri: str | None, experiment: str, host: str, port: int) -> int:
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


_VERBS = (
    aa,
    compare,
    completion,
    evaluate,
    conventions,
    explain,
    export,
    import_,
    inspect,
    reproduce,
    show,
    trees,
    walkthrough,
)
for _verb in _VERBS:
    verbs.add_command(_verb)


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
