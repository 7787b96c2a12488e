"""The verbs resume and status: what runs again, is shown, and is refused; the command after Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from command_line import COMMAND, TINY, champion, run, statuses
from forked import run_forked
from messages import naming
from toy_runs import mentions

from ltrbench.runs.record import RESULT_FILE, SCORES_FILE, read_run
from ltrbench.runs.writing import holder

pytestmark = pytest.mark.slow

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


def test_status_shows_each_state_and_resume_runs_exactly_what_is_missing(
    sweep: Path,
) -> None:
    shutil.rmtree(sweep / "s/1")
    before = (sweep / "s/0/result.json").read_bytes()
    assert json.loads(run("status", "s", "--json", folder=sweep).stdout) == {
        "finished": {"count": 1, "folders": ["0"]},
        "running": {"count": 0, "folders": []},
        "failed": {"count": 0, "folders": []},
        "waiting": {"count": 1, "folders": ["1"]},
    }
    assert mentions(
        run("resume", "s", "--dry-run", folder=sweep).stdout,
        "job 1",
        "waiting",
        "seed=2",
        "1 of 2",
    )
    assert not (sweep / "s/1").exists()
    run("resume", "s", folder=sweep)
    assert json.loads((sweep / "s/1/result.json").read_text())["origin"] == {
        "kind": "copied",
        "run": "0",
    }
    assert (sweep / "s/0/result.json").read_bytes() == before
    assert mentions(
        run("status", "s", "--watch", folder=sweep).stdout, "2 finished", "0 waiting"
    )
    wider = run(*SWEEP, "model=native", "seed=1,2,3", folder=sweep)
    assert mentions(wider.stderr, "3 jobs", "2 finished, 1 waiting", "runs 1")
    again = run(*SWEEP, "model=native", "seed=1,2,3", folder=sweep)
    assert again.stdout == wider.stdout
    assert "fitting on" not in again.stderr
    assert (sweep / "s/0/result.json").read_bytes() == before


def test_a_sweep_without_time_begins_no_job_and_names_the_command_for_the_others(
    sweep: Path,
) -> None:
    shutil.rmtree(sweep / "s/1")
    words = ("model=native", "seed=1,2", "stop_after=1e-6")
    stopped = run(*SWEEP, *words, folder=sweep, check=124)
    assert mentions(stopped.stderr, "1 finished, 1 waiting", "resume s")
    resumed = run("resume", "s", "--stop-after", "1e-6", folder=sweep, check=124)
    assert mentions(resumed.stderr, "1 finished, 1 waiting", "resume s")
    assert not (sweep / "s/1").exists()


@pytest.mark.usefixtures("migrated_store")
def test_resume_leaves_a_champion_that_a_later_command_has_named(
    tmp_path: Path,
) -> None:
    models = "model=random,single_feature"
    words = (models, *SWEEP, "tracking=mlflow", "register=shop")
    registered = run(*words, folder=tmp_path).stderr
    assert "shop@champion is version 1 (single_feature" in registered
    assert "register" not in run("compare", "s", folder=tmp_path).stdout
    run("sync", "s/0", "--register", "shop", folder=tmp_path)
    # The best model is trained again in the last command.
    for trained in ((), ("0",), ("1",)):
        for folder in trained:
            shutil.rmtree(tmp_path / "s" / folder)
        run("resume", "s", folder=tmp_path)
        assert champion(tmp_path, "shop") == "2"
    # The command that names it moves it back.
    run(*words, folder=tmp_path)
    assert champion(tmp_path, "shop") == "3"


def test_resume_refuses_a_plan_with_trials_alone(tmp_path: Path) -> None:
    search = ("search=random", "search.trials=1", "only_trials=true")
    run(*SWEEP, "model=native", *search, "stop_after=1e-6", folder=tmp_path, check=124)
    refused = run("resume", "s", folder=tmp_path, check=2)
    assert mentions(refused.stderr, "only trials", "repeat")


def test_resume_starts_a_cluster_of_the_plan_only_on_request(sweep: Path) -> None:
    shutil.rmtree(sweep / "s/1")
    cluster = {
        "_target_": "dask.distributed.LocalCluster",
        "n_workers": 1,
        "preload": "anything.py",
    }
    for path in sweep.glob("s/plan/[0-9]*.json"):
        record = json.loads(path.read_text())
        record["spec"]["settings"]["executor"] = {
            "_target_": "ltrbench.sweep.dask.DaskExecutor",
            "cluster": cluster,
        }
        path.write_text(json.dumps(record))
    done = run("resume", "s", folder=sweep, check=2)
    assert mentions(
        done.stderr, "plan/1.json", "LocalCluster", "preload", "--start-cluster"
    )
    assert not (sweep / "s/1").exists()


def test_resume_loads_no_module_from_a_folder_that_the_plan_names(sweep: Path) -> None:
    (sweep / "hostile.py").write_text("open('loaded', 'w').close()\n")
    for path in sweep.glob("s/plan/[0-9]*.json"):
        record = json.loads(path.read_text())
        record["spec"]["settings"]["plugins"] = ["hostile"]
        path.write_text(json.dumps(record))
    elsewhere = sweep / "elsewhere"
    elsewhere.mkdir()
    done = run("resume", "../s", folder=elsewhere, check=2)
    assert mentions(done.stderr, "plugins", "hostile")
    assert not list(sweep.rglob("loaded"))


# ---- Ctrl-C.


CHEAP = ("data.num_queries=40", "importance=null", "metrics=ndcg@10")
SLEEPY = """
import time
from dataclasses import dataclass
from pathlib import Path
from ltrbench.rankers.random import RandomRanker

@dataclass(kw_only=True)
class Sleepy(RandomRanker):
    def fit(self, train, valid=None, on_iteration=None):
        if self.seed == 1 and not Path("awake").exists():
            Path("asleep").touch()
            time.sleep(100)
        return super().fit(train, valid, on_iteration)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("migrated_store")
def test_ctrl_c_says_what_is_finished_and_the_command_it_prints_does_the_rest(
    tmp_path: Path,
) -> None:
    yaml = tmp_path / "conf/model/sleepy.yaml"
    yaml.parent.mkdir(parents=True)
    yaml.write_text("defaults: [_yardstick, _self_]\n_target_: sleepy.Sleepy\n")
    (tmp_path / "sleepy.py").write_text(SLEEPY)
    words = (
        "--config-dir",
        "conf",
        "model=sleepy,random",
        "seed=0,1,2",
        "-m",
        *CHEAP,
        "hydra.sweep.dir=out",
    )
    done = interrupted(words, tmp_path)
    # The job that was interrupted lost its work, and waits like the others.
    table = (tmp_path / "stdout.txt").read_text()
    assert table.index("\nsleepy ") < table.index("5 of 6 jobs")
    assert "of 6 jobs: 1 finished, 5 waiting" in done
    assert read_run(tmp_path / "out/1").result.error == "interrupted"
    assert holder(tmp_path / "out") is holder(tmp_path / "out/1") is None
    assert not [*tmp_path.rglob(".partial-*")]
    assert "KILLED" in dict(statuses(tmp_path)).values()
    assert sorted(path.name for path in (tmp_path / "out").glob("[0-9]*")) == ["0", "1"]
    (command,) = [
        line.strip()
        for line in done.splitlines()
        if line.startswith("  python -m ltrbench ")
    ]
    assert command == "python -m ltrbench resume out"
    before = (tmp_path / "out/0" / RESULT_FILE).read_bytes()
    (tmp_path / "awake").touch()
    run(*shlex.split(command)[3:], folder=tmp_path)
    assert (tmp_path / "out/0" / RESULT_FILE).read_bytes() == before
    results = [
        read_run(path.parent).result
        for path in sorted((tmp_path / "out").glob("*/result.json"))
    ]
    assert [(result.status, result.model, result.seed) for result in results] == [
        ("finished", model, seed)
        for model in ("sleepy", "random")
        for seed in (0, 1, 2)
    ]
    assert {status for _, status in statuses(tmp_path)} == {"FINISHED"}


def interrupted(words: tuple[str, ...], folder: Path) -> str:
    """What a command says on standard error that gets SIGINT while the model that sleeps is fitted."""
    with (folder / "stdout.txt").open("w") as table:
        process = subprocess.Popen(
            [*COMMAND, *words],
            cwd=folder,
            env={**os.environ},
            stderr=subprocess.PIPE,
            stdout=table,
            text=True,
            # A shell makes what it starts in the background deaf to SIGINT, these tests' children included.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    assert process.stderr is not None
    sweeping = "-m" in words
    for line in process.stderr:
        sweeping = sweeping and not line.startswith("job 1:")
        if line.startswith("sleepy: fitting") and not sweeping:
            break
    # Compiled code may swallow an interrupt that comes before the fit.
    while not (folder / "asleep").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=100)
    assert process.returncode == 130
    assert "Traceback" not in rest
    return rest


@pytest.mark.usefixtures("migrated_store")
def test_the_answer_comes_before_files_and_tracking_which_resume_completes(
    tmp_path: Path,
) -> None:
    interrupt = (
        "import sys; from ltrbench.cli import main; from ltrbench.compare import publish\n"
        "def interrupt(*arguments): raise KeyboardInterrupt\n"
        "publish.publish = interrupt\n"
        "sys.exit(main())"
    )
    words = ["model=random,single_feature", "hydra.sweep.dir=out", "-m", *CHEAP]
    done = run_forked(interrupt, ["ltrbench", *words], tmp_path, os.environ)
    assert done.returncode == 130
    assert "\nsingle_feature " in done.stdout
    assert "2 finished" in done.stderr
    assert not (tmp_path / "out/comparison/report.html").exists()
    assert "FINISHED" not in dict(statuses(tmp_path)).values()
    run("resume", "out", folder=tmp_path)
    assert (tmp_path / "out/comparison/report.html").exists()
    assert {status for _, status in statuses(tmp_path)} == {"FINISHED"}
    assert len(statuses(tmp_path)) == 3


# ---- Times of finished jobs that shared the machine are taken again.


TWO_MODELS = (
    "model=single_feature,random",
    "seed=1,2",
    "-m",
    "hydra.sweep.dir=s",
    *TINY,
)


def pretend_to_have_shared_the_machine(folder: Path) -> None:
    """Changes the record of a run, as if other jobs had slowed it down."""
    record = json.loads((folder / RESULT_FILE).read_text())
    record |= {"shared_machine": True, "seconds": {**record["seconds"], "fit": 999.0}}
    (folder / RESULT_FILE).write_text(json.dumps(record))


@pytest.mark.slow
def test_times_are_taken_again_and_nothing_else_changes(tmp_path: Path) -> None:
    run(*TWO_MODELS, folder=tmp_path)
    folders = [tmp_path / "s" / str(number) for number in range(4)]
    for folder in folders[:3]:
        pretend_to_have_shared_the_machine(folder)
    before = [json.loads((folder / RESULT_FILE).read_text()) for folder in folders]
    files = [(folder / SCORES_FILE).read_bytes() for folder in folders]
    shown = run("resume", "s", "--timing", "--dry-run", folder=tmp_path).stdout
    # Job 1 copied the training of job 0, and gets its times.
    assert re.findall(r"^job (\d)", shown, re.MULTILINE) == ["0", "2"]
    begun = run("resume", "s", "--timing", folder=tmp_path).stderr
    assert re.search(naming("2 of 4 jobs"), begun)
    after = [json.loads((folder / RESULT_FILE).read_text()) for folder in folders]
    assert [record["shared_machine"] for record in after] == [False] * 4
    assert all(record["seconds"]["fit"] < 900 for record in after)
    assert after[1]["seconds"] == after[0]["seconds"]
    assert after[3] == before[3]
    of_times = (
        "seconds",
        "shared_machine",
        "load",
        "peak_memory_mb",
        "threads",
        "machine",
    )
    for one, other in zip(before, after, strict=True):
        assert {key: value for key, value in one.items() if key not in of_times} == {
            key: value for key, value in other.items() if key not in of_times
        }
    assert [(folder / SCORES_FILE).read_bytes() for folder in folders] == files
    assert not [path for folder in folders for path in folder.glob(".*")]
    nothing = run("resume", "s", "--timing", folder=tmp_path).stderr
    assert re.search(naming("0 of 4 jobs"), nothing)
    both = run("resume", "s", "--timing", "--failed", folder=tmp_path, check=2)
    assert re.search(naming("--timing", "--failed"), both.stderr)
