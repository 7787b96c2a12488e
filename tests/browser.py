"""The MLflow UI of a sweep in Debian's Chromium: for test_browser.py, and for the README's picture.

python tests/browser.py docs/images/mlflow-ui.png
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run

LTRBENCH = (sys.executable, "-m", "ltrbench")
_SECONDS_TO_START = 90


def chromium() -> str | None:
    """The path of a Chromium that Playwright can drive; None where there is none."""
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return next((path for path in found if path), None)


@dataclass(frozen=True)
class Sweep:
    """The runs that a sweep has left in the store of a folder."""

    folder: Path
    experiment_id: str
    parent: Run
    children: dict[str, Run]  # by backend


def run_sweep(folder: Path, *overrides: str) -> Sweep:
    """Runs `python -m ltrbench ... -m` in a folder."""
    subprocess.run([*LTRBENCH, *overrides, "-m"], cwd=folder, check=True, capture_output=True)
    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("ltrbench")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    (parent,) = (run for run in runs if run.data.tags["kind"] == "sweep")
    children = {run.data.tags["backend"]: run for run in runs if run.data.tags["kind"] == "run"}
    return Sweep(folder, experiment.experiment_id, parent, children)


@contextlib.contextmanager
def mlflow_ui(folder: Path) -> Iterator[str]:
    """`python -m ltrbench ui` on the store of a folder; yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [*LTRBENCH, "ui", "--port", str(port)],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(f"{address}/health", process)
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _SECONDS_TO_START
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(address, timeout=5).close()
            return
        time.sleep(0.3)
    raise TimeoutError(f"{address} does not answer")


@contextlib.contextmanager
def page(address: str, width: int, height: int) -> Iterator[Any]:
    """A Playwright page that reaches nothing but `address`, in a fresh browser."""
    from playwright.sync_api import sync_playwright

    sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=sandbox)
        try:
            opened = browser.new_page(viewport={"width": width, "height": height})
            opened.set_default_timeout(30_000)
            opened.route(
                "**/*",
                lambda route: route.continue_() if route.request.url.startswith(address) else route.abort(),
            )
            yield opened
        finally:
            browser.close()


def open_run_list(opened: Any, address: str, sweep: Sweep, columns: Sequence[str]) -> None:
    """Opens the list of runs with rows expanded and columns chosen, as the UI itself remembers a choice."""
    state = {
        "selectedColumns": list(columns),
        "runsExpanded": {sweep.parent.info.run_id: True},
        "orderByKey": "attributes.start_time",
        "orderByAsc": False,
    }
    remembered = {
        f'MLflowLocalStorage-1.1-ExperimentPage-["{sweep.experiment_id}"]-ReactComponentState': json.dumps(
            state
        ),
        f"MLflowLocalStorage-1.1-ExperimentView-{sweep.experiment_id}-expandRows": "true",
        # The assistant, which would cover half of the list.
        "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1": "true",
        "mlflow.assistant.panelOpen_v1": "false",
    }
    for key, value in remembered.items():
        opened.add_init_script(f"localStorage.getItem({key!r}) ?? localStorage.setItem({key!r}, {value!r})")
    opened.goto(f"{address}/#/experiments/{sweep.experiment_id}/runs")
    opened.get_by_text("matching runs").wait_for()


def take_screenshot(path: Path) -> None:
    """The run list of a sweep over three backends, with the columns that the README shows."""
    metrics = ("test/ndcg_at_1", "test/ndcg_at_5", "test/ndcg_at_10", "seconds/fit")
    with tempfile.TemporaryDirectory() as folder:
        sweep = run_sweep(Path(folder), "model=native,lightgbm,xgboost")
        columns = ["attributes.`Models`", *(f"metrics.`{name}`" for name in metrics)]
        with mlflow_ui(sweep.folder) as address, page(address, 1400, 560) as opened:
            open_run_list(opened, address, sweep, columns)
            opened.get_by_role("link", name="xgboost").first.wait_for()
            path.parent.mkdir(parents=True, exist_ok=True)
            opened.screenshot(path=path)


if __name__ == "__main__":
    take_screenshot(Path(sys.argv[1]))
