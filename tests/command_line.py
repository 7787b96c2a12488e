"""Runs the command line in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-m", "ltrbench"]
TINY = ["data.num_queries=30", "params.num_trees=3", "tracking=none", "importance=null", "metrics=ndcg@10"]
"""Settings of a run that takes a second."""


def run(
    *words: str, folder: Path, check: int | None = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *words],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if check is not None:
        assert done.returncode == check, done.stdout + done.stderr
    return done


def statuses(folder: Path) -> dict[str, str]:
    """Run name -> status in the MLflow store of a folder."""
    code = (
        "import json; from mlflow import MlflowClient\n"
        "runs = MlflowClient('sqlite:///mlflow.db').search_runs(['1'])\n"
        "print(json.dumps({run.info.run_name: run.info.status for run in runs}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    return dict(json.loads(done.stdout))
