"""Runs the command line in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from forked import run_forked
from paths import ROOT

COMMAND = [sys.executable, "-m", "ltrbench"]
TINY = [
    "data.num_queries=30",
    "params.num_trees=3",
    "tracking=none",
    "importance=none",
    "metrics=ndcg@10",
]
"""Settings of a run that takes a second."""


def run(
    *words: str, folder: Path, check: int | None = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs a command line in a forked process, which does without the seconds that imports take."""
    return _checked(
        run_forked_command(words, folder, {**os.environ, **environment}), check
    )


def run_forked_command(
    words: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Like `run`, in exactly this environment and with any exit code."""
    arguments = [str(ROOT / "ltrbench/__main__.py"), *words]
    return run_forked("import ltrbench.__main__", arguments, folder, environment)


def run_process(
    *words: str, folder: Path, check: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """Runs a command line as a shell does: `python -m ltrbench`, in a new process."""
    done = subprocess.run(
        [*COMMAND, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return _checked(done, check)


def _checked(
    done: subprocess.CompletedProcess[str], exit_code: int | None
) -> subprocess.CompletedProcess[str]:
    if exit_code is not None:
        assert done.returncode == exit_code, done.stdout + done.stderr
    return done


def statuses(folder: Path) -> list[tuple[str, str]]:
    """Returns name and status of each run in the MLflow store of a folder, by name."""
    code = (
        "import json; from mlflow import MlflowClient\n"
        "runs = MlflowClient('sqlite:///mlflow.db').search_runs(['1'])\n"
        "print(json.dumps([(run.info.run_name, run.info.status) for run in runs]))\n"
    )
    done = _checked(run_forked(code, [], folder, os.environ), 0)
    return sorted((name, status) for name, status in json.loads(done.stdout))


def champion(folder: Path, name: str) -> str:
    """Returns the version of the champion of a registered model in the MLflow store of a folder."""
    code = (
        "import sys; from mlflow import MlflowClient\n"
        "client = MlflowClient('sqlite:///mlflow.db')\n"
        "print(client.get_model_version_by_alias(sys.argv[1], 'champion').version)\n"
    )
    return _checked(run_forked(code, ["", name], folder, os.environ), 0).stdout.strip()
