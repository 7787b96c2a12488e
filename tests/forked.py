"""Runs Python code in processes forked from one that has imported the libraries, which takes seconds.

A forked process has its own folder, environment, streams, exit code and end, like one that a shell starts. A
variable that a library reads at its import has no effect in it.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

_IMPORTED = (
    "alembic.command",
    "hydra.main",
    "lightgbm",
    "xgboost",
    "matplotlib.backends.backend_svg",
    "matplotlib.pyplot",
    "mlflow.pyfunc",
    "mlflow.tracking",
    "mlflow.store.tracking.sqlalchemy_store",
    "mlflow.store.tracking.sqlalchemy_workspace_store",
    "mlflow.utils.requirements_utils",
    "optuna.importance",
    "pyarrow.csv",
    "sqlalchemy.dialects.sqlite",
    "ltrbench.cli.launch",
    "ltrbench.cli.verbs",
    "ltrbench.cli.verbs.comparisons",
    "ltrbench.cli.verbs.data",
    "ltrbench.cli.verbs.deployment",
    "ltrbench.cli.verbs.runs",
    "ltrbench.cli.verbs.sweeps",
    "ltrbench.compare.publish",
    "ltrbench.data.synthetic",
    "ltrbench.frontier",
    "ltrbench.rankers.lightgbm",
    "ltrbench.rankers.native",
    "ltrbench.sweep.ledger",
    "ltrbench.sweep.searching",
    "ltrbench.tracking.mlflow.store",
)


def run_forked(
    code: str,
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    timeout: int = 300,
) -> subprocess.CompletedProcess[str]:
    """Runs Python code in a folder, with `sys.argv` and the environment as given.

    Args:
        timeout: seconds, after which the process is ended: its exit code is then -SIGALRM.
    """
    with tempfile.TemporaryDirectory() as streams:
        request = {
            "code": code,
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": dict(environment),
            "timeout": timeout,
            "streams": streams,
        }
        server = _server()
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        exit_code = int(server.stdout.readline())
        stdout, stderr = (
            Path(streams, name).read_text() for name in ("stdout", "stderr")
        )
    return subprocess.CompletedProcess([*arguments], exit_code, stdout, stderr)


@functools.cache
def _server() -> subprocess.Popen[str]:
    """The process that the others are forked from; it ends with this one."""
    # As the command line sets it before it imports MLflow.
    environment = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "OMP_WAIT_POLICY": "PASSIVE",
        **os.environ,
    }
    server = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )

    def stop() -> None:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.close()
        server.wait(60)
        server.stdout.close()

    atexit.register(stop)
    return server


def _serve() -> None:
    for name in _IMPORTED:
        importlib.import_module(name)
    _prepare_compiled_code()
    _fill_caches()
    gc.freeze()  # each run collects garbage before it measures memory
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(**request)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _prepare_compiled_code() -> None:
    """Loads what Numba needs to load compiled code, and that of the metrics. The engine's code would start
    threads, which a forked process lacks."""
    from ltrbench.metrics import warm_up_metrics

    warm_up_metrics()


def _fill_caches() -> None:
    """Does once what a process of each library does at its first use: MLflow lists the files of all packages,
    Hydra's parser learns its grammar, and Matplotlib finds its fonts."""
    from matplotlib.figure import Figure
    from mlflow.utils.requirements_utils import _init_modules_to_packages_map

    from ltrbench.cli.hydra_private import read_yaml_in_c
    from ltrbench.config import composed

    _init_modules_to_packages_map()  # type: ignore[no-untyped-call]
    read_yaml_in_c()
    composed("model=native", "params.num_trees=3", "metrics=[ndcg@10]")
    figure = Figure(layout="constrained")
    figure.add_subplot().set_title("title")
    for form in ("png", "svg"):
        figure.savefig(io.BytesIO(), format=form)


def _run(
    *,
    code: str,
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    timeout: int,
    streams: str,
) -> NoReturn:
    signal.alarm(timeout)  # ends this process
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for stream, path in (
        (0, os.devnull),
        (1, f"{streams}/stdout"),
        (2, f"{streams}/stderr"),
    ):
        opened = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, stream)
        os.close(opened)
    sys.argv = arguments
    sys.path[0] = folder
    exit_code = _exit_code_of(code)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    # The interpreter's end would take a second, because it takes every imported module apart.
    os._exit(exit_code)


def _exit_code_of(code: str) -> int:
    try:
        exec(code, {"__name__": "__main__"})
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    _serve()
