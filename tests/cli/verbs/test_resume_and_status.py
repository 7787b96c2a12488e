"""The verbs resume and status: what runs again, what is shown, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import TINY, run
from toy_runs import mentions

SWEEP = [*TINY, "hydra.sweep.dir=s", "-m"]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished sweep of one model that trains and copies: seeds change nothing."""
    folder = tmp_path_factory.mktemp("swept")
    run(*SWEEP, "model=native", "seed=1,2", folder=folder)
    return folder


@pytest.fixture
def sweep(swept: Path, tmp_path: Path) -> Path:
    """A copy whose plan begins in its new folder."""
    shutil.copytree(swept, tmp_path, dirs_exist_ok=True)
    for path in tmp_path.glob("s/plan/[0-9]*.json"):
        path.write_text(path.read_text().replace(str(swept), str(tmp_path)))
    return tmp_path


def test_status_shows_each_state_and_resume_runs_exactly_what_is_missing(sweep: Path) -> None:
    shutil.rmtree(sweep / "s/1")
    before = (sweep / "s/0/result.json").read_bytes()
    assert json.loads(run("status", "s", "--json", folder=sweep).stdout) == {
        "finished": {"count": 1, "folders": ["0"]},
        "running": {"count": 0, "folders": []},
        "failed": {"count": 0, "folders": []},
        "waiting": {"count": 1, "folders": ["1"]},
    }
    assert mentions(
        run("resume", "s", "--dry-run", folder=sweep).stdout, "job 1", "waiting", "seed=2", "1 of 2"
    )
    assert not (sweep / "s/1").exists()
    run("resume", "s", folder=sweep)
    assert json.loads((sweep / "s/1/result.json").read_text())["reused"] == "0"
    assert (sweep / "s/0/result.json").read_bytes() == before
    assert mentions(run("status", "s", "--watch", folder=sweep).stdout, "2 finished", "0 waiting")
    wider = run(*SWEEP, "model=native", "seed=1,2,3", folder=sweep)
    assert mentions(wider.stderr, "3 jobs", "2 finished, 1 waiting", "runs 1")
    again = run(*SWEEP, "model=native", "seed=1,2,3", folder=sweep)
    assert again.stdout == wider.stdout
    assert "fitting on" not in again.stderr
    assert (sweep / "s/0/result.json").read_bytes() == before


def test_resume_starts_a_cluster_of_the_plan_only_on_request(sweep: Path) -> None:
    shutil.rmtree(sweep / "s/1")
    cluster = {"_target_": "dask.distributed.LocalCluster", "n_workers": 1, "preload": "anything.py"}
    for path in sweep.glob("s/plan/[0-9]*.json"):
        record = json.loads(path.read_text())
        record["settings"]["executor"] = {
            "_target_": "ltrbench.sweep.dask.DaskExecutor",
            "cluster": cluster,
        }
        path.write_text(json.dumps(record))
    done = run("resume", "s", folder=sweep, check=2)
    assert mentions(done.stderr, "plan/1.json", "LocalCluster", "preload", "--start-cluster")
    assert not (sweep / "s/1").exists()


def test_resume_loads_no_module_from_a_folder_that_the_plan_names(sweep: Path) -> None:
    (sweep / "hostile.py").write_text("open('loaded', 'w').close()\n")
    for path in sweep.glob("s/plan/[0-9]*.json"):
        record = json.loads(path.read_text())
        record["settings"]["plugins"] = ["hostile"]
        path.write_text(json.dumps(record))
    elsewhere = sweep / "elsewhere"
    elsewhere.mkdir()
    done = run("resume", "../s", folder=elsewhere, check=2)
    assert mentions(done.stderr, "plugins", "hostile")
    assert not list(sweep.rglob("loaded"))
