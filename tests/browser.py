"""Pages in headless Chromium: the MLflow UI of a sweep for test_browser.py, and the docs' screenshots.

    python tests/browser.py docs/images                   # writes the committed screenshots
    python tests/browser.py build/docs/images --optional  # those of the built site; none without Chromium

The screenshots, mlflow-ui.png and report.png, show small sweeps over synthetic data. The columns of the
MLflow UI are those of the view that ltrbench stores. The UI keeps in local storage what a user has seen,
under the key of MLflow 3.17 in `open_run_list`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command_line import run
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

LTRBENCH = (sys.executable, "-m", "ltrbench")
_EXPERIMENT = "1"  # of a new store: MLflow's own default is 0
_SECONDS_TO_START = 90
_MILLISECONDS_TO_APPEAR = 60_000
_RUN_LIST_SHOWN = ("model=native,lightgbm,xgboost",)
# Trained on five resamples, so that the report has claims about methods.
_REPORT_SHOWN = (
    *(
        "model=native,lightgbm,xgboost,single_feature,random",
        "replicates=5",
        "params.num_trees=50",
    ),
    *("tracking=none", "importance=null", "hydra.sweep.dir=sweep"),
)


def chromium() -> str | None:
    """The path of a Chromium that Playwright can drive; None where there is none."""
    found = (
        shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")
    )
    return next((path for path in found if path), None)


@dataclass(frozen=True)
class UI:
    """`python -m ltrbench ui` at work on the store of one sweep."""

    address: str
    run_list: str  # the address that the command prints
    parent: str  # the run id of the sweep
    name: str  # of the sweep
    children: Mapping[str, str]  # name -> run id

    def runs(self) -> str:
        return f"{self.address}/#/experiments/{_EXPERIMENT}/runs"

    def run(self, run_id: str, *tab: str) -> str:
        return "/".join((self.runs(), run_id, *tab))


@contextlib.contextmanager
def ui_of_sweep(folder: Path, *overrides: str) -> Iterator[UI]:
    """Runs a sweep in a folder, then `python -m ltrbench ui` there, which is ended whatever happens."""
    _run_sweep(folder, *overrides)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "ui.log"
    with log.open("w") as output:
        command = [*LTRBENCH, "ui", "--port", str(port)]
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
    try:
        yield _opened(f"http://127.0.0.1:{port}", process, log)
    finally:
        # The command ends the server's whole process group.
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _run_sweep(folder: Path, *overrides: str) -> None:
    done = run(*overrides, "-m", folder=folder, check=None)
    if done.returncode != 0:
        raise RuntimeError(f"the sweep failed:\n{done.stderr}")


def _opened(address: str, process: subprocess.Popen[bytes], log: Path) -> UI:
    runs = _search_runs(address, process, log)
    ids = {run["info"]["run_name"]: run["info"]["run_id"] for run in runs}
    (name,) = (
        run["info"]["run_name"]
        for run in runs
        if {"key": "kind", "value": "sweep"} in run["data"]["tags"]
    )
    return UI(
        address, _printed_address(address, process, log), ids.pop(name), name, ids
    )


def _printed_address(address: str, process: subprocess.Popen[bytes], log: Path) -> str:
    """The address that the command prints, in the log of what it says."""
    deadline = time.monotonic() + _SECONDS_TO_START
    while process.poll() is None and time.monotonic() < deadline:
        printed = re.search(rf"{re.escape(address)}\S+", log.read_text())
        if printed:
            return printed[0]
        time.sleep(0.25)
    raise TimeoutError(f"the command prints no address:\n{log.read_text()}")


def _search_runs(
    address: str, process: subprocess.Popen[bytes], log: Path
) -> list[dict[str, Any]]:
    """What the server answers once it does."""
    request = urllib.request.Request(
        f"{address}/api/2.0/mlflow/runs/search",
        data=json.dumps({"experiment_ids": [_EXPERIMENT]}).encode(),
        headers={"Content-Type": "application/json"},
    )
    deadline = time.monotonic() + _SECONDS_TO_START
    while process.poll() is None and time.monotonic() < deadline:
        # Refused until it listens.
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(request, timeout=10) as answer,
        ):
            return list(json.load(answer)["runs"])
        time.sleep(0.25)
    raise TimeoutError(f"{address} does not answer:\n{log.read_text()}")


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    # Chromium's sandbox refuses to be root.
    options = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium(), args=options)
        try:
            yield launched
        finally:
            launched.close()


def new_page(
    launched: Browser, ui: UI, width: int, height: int
) -> contextlib.AbstractContextManager[Page]:
    """A page without memory. It reaches nothing but the UI, and any other request is an error."""
    return confined_page(launched, ui.address, width, height)


@contextlib.contextmanager
def confined_page(
    launched: Browser, address: str, width: int, height: int
) -> Iterator[Page]:
    """A page without memory. Any request for what is not below the address is an error."""
    refused: list[str] = []

    def stay_here(route: Route) -> None:
        if route.request.url.startswith(address):
            route.continue_()
        else:
            refused.append(route.request.url)
            route.abort()

    with launched.new_context(viewport={"width": width, "height": height}) as context:
        context.set_default_timeout(_MILLISECONDS_TO_APPEAR)
        expect.set_options(timeout=_MILLISECONDS_TO_APPEAR)
        context.route("**/*", stay_here)
        yield context.new_page()
    if refused:
        raise AssertionError(f"a page below {address} requested {refused}")


def open_run_list(page: Page, ui: UI) -> None:
    """The list of runs at the address that the command prints, with the sweep's row open."""
    # The assistant opens itself over a third of the list once.
    page.add_init_script(
        "localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true')"
    )
    page.goto(ui.run_list)
    page.locator(f"[row-id='{ui.parent}']").get_by_role("button").first.click()
    for name in (ui.name, *ui.children):
        expect(page.get_by_role("link", name=name, exact=True).first).to_be_visible()


def take_screenshots(folder: Path) -> None:
    """Writes report.png and mlflow-ui.png into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as workspace, browser() as launched:
        _screenshot_report(launched, Path(workspace), folder / "report.png")
        with ui_of_sweep(Path(workspace), *_RUN_LIST_SHOWN) as ui:
            _screenshot_run_list(launched, ui, folder / "mlflow-ui.png")


def _screenshot_report(launched: Browser, workspace: Path, path: Path) -> None:
    """Runs a sweep in the workspace, and takes the first screen of its report."""
    _run_sweep(workspace, *_REPORT_SHOWN)
    report = workspace / "sweep" / "comparison" / "report.html"
    with confined_page(launched, report.as_uri(), 1400, 900) as page:
        page.goto(report.as_uri())
        page.screenshot(path=path)


def _screenshot_run_list(launched: Browser, ui: UI, path: Path) -> None:
    """The run list of the MLflow UI."""
    with new_page(launched, ui, 1500, 540) as page:
        open_run_list(page, ui)
        # It floats over the last column.
        page.get_by_role("button", name="MLflow Assistant").evaluate(
            "it => { it.style.display = 'none' }"
        )
        page.screenshot(path=path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Takes the screenshots of the documentation."
    )
    parser.add_argument(
        "folder", type=Path, help="folder for report.png and mlflow-ui.png"
    )
    parser.add_argument(
        "--optional", action="store_true", help="without Chromium, print a note"
    )
    given = parser.parse_args()
    if chromium() is not None:
        take_screenshots(given.folder)
    elif given.optional:
        print(
            f"No Chromium is installed: {given.folder} keeps the committed screenshots of docs/images."
        )
    else:
        sys.exit("The screenshots need Chromium: sudo apt-get install chromium")


if __name__ == "__main__":
    main()
