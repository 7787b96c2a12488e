"""The MLflow UI of a sweep in Debian's Chromium: for test_browser.py, and for the README's picture.

    python tests/browser.py docs/images/mlflow-ui.png

The columns are those of the view that ltrbench stores. What a user has seen, the UI keeps in local storage,
under the key of MLflow 3.17 in `open_run_list`.
"""

from __future__ import annotations

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

from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

LTRBENCH = (sys.executable, "-m", "ltrbench")
_EXPERIMENT = "1"  # of a new store: MLflow's own default is 0
_SECONDS_TO_START = 90
_MILLISECONDS_TO_APPEAR = 60_000


def chromium() -> str | None:
    """The path of a Chromium that Playwright can drive; None where there is none."""
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
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
    done = subprocess.run([*LTRBENCH, *overrides, "-m"], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"the sweep failed:\n{done.stderr}")
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


def _opened(address: str, process: subprocess.Popen[bytes], log: Path) -> UI:
    runs = _search_runs(address, process, log)
    ids = {run["info"]["run_name"]: run["info"]["run_id"] for run in runs}
    (name,) = (
        run["info"]["run_name"] for run in runs if {"key": "kind", "value": "sweep"} in run["data"]["tags"]
    )
    return UI(address, _printed_address(address, process, log), ids.pop(name), name, ids)


def _printed_address(address: str, process: subprocess.Popen[bytes], log: Path) -> str:
    """The address that the command prints, in the log of what it says."""
    deadline = time.monotonic() + _SECONDS_TO_START
    while process.poll() is None and time.monotonic() < deadline:
        printed = re.search(rf"{re.escape(address)}\S+", log.read_text())
        if printed:
            return printed[0]
        time.sleep(0.25)
    raise TimeoutError(f"the command prints no address:\n{log.read_text()}")


def _search_runs(address: str, process: subprocess.Popen[bytes], log: Path) -> list[dict[str, Any]]:
    """What the server answers once it does."""
    request = urllib.request.Request(
        f"{address}/api/2.0/mlflow/runs/search",
        data=json.dumps({"experiment_ids": [_EXPERIMENT]}).encode(),
        headers={"Content-Type": "application/json"},
    )
    deadline = time.monotonic() + _SECONDS_TO_START
    while process.poll() is None and time.monotonic() < deadline:
        # Refused until it listens.
        with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=10) as answer:
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


@contextlib.contextmanager
def new_page(launched: Browser, ui: UI, width: int, height: int) -> Iterator[Page]:
    """A page without memory. It reaches nothing but the UI, and asking for more is an error."""
    refused: list[str] = []

    def stay_here(route: Route) -> None:
        if route.request.url.startswith(ui.address):
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
        raise AssertionError(f"the UI asked for {refused}")


def open_run_list(page: Page, ui: UI) -> None:
    """The list of runs at the address that the command prints, with the sweep's row open."""
    # The assistant opens itself over a third of the list once.
    page.add_init_script("localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true')")
    page.goto(ui.run_list)
    page.locator(f"[row-id='{ui.parent}']").get_by_role("button").first.click()
    for name in (ui.name, *ui.children):
        expect(page.get_by_role("link", name=name, exact=True).first).to_be_visible()


def take_screenshot(path: Path) -> None:
    """The run list of a sweep over three backends, for the README."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ui_of_sweep(Path(folder), "model=native,lightgbm,xgboost") as ui,
        browser() as launched,
        new_page(launched, ui, 1500, 540) as page,
    ):
        open_run_list(page, ui)
        path.parent.mkdir(parents=True, exist_ok=True)
        # It floats over the last column.
        page.get_by_role("button", name="MLflow Assistant").evaluate("it => { it.style.display = 'none' }")
        page.screenshot(path=path)


if __name__ == "__main__":
    take_screenshot(Path(sys.argv[1]))
