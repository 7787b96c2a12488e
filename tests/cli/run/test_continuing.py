"""A sweep's folder that several commands are given: what is compared, refused, and said after Ctrl-C."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import COMMAND, run, statuses
from forked import run_forked
from hypothesis import given
from hypothesis import strategies as st
from messages import naming
from run_cases import finished_run

from ltrbench.cli.jobs.continuing import Sweep, announcement, interruption, numbered, runs_of
from ltrbench.cli.run.launch import Session, _interrupted
from ltrbench.errors import ResultError
from ltrbench.results import FAILED, Run, hold, holder, read_run, write_run
from ltrbench.results.overrides import as_products

CHEAP = ("data.num_queries=40", "importance=null", "metrics=ndcg@10")
SLEEPY = """
import time
from dataclasses import dataclass
from ltrbench.rankers.random import RandomRanker

@dataclass(kw_only=True)
class Sleepy(RandomRanker):
    def fit(self, train, valid=None, on_iteration=None):
        if self.seed == 1:
            time.sleep(100)
        return super().fit(train, valid, on_iteration)
"""


def stored(folder: Path, *overrides: str, status: str = "finished") -> Run:
    """A toy run that a command with these overrides left behind."""
    result = finished_run(folder, "native").result
    if status == FAILED:
        shutil.rmtree(folder)
    return write_run(folder, replace(result, overrides=overrides, status=status))


@given(
    values=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    kept=st.sets(st.integers(0, 26)),
)
def test_products_sweep_over_exactly_the_jobs_that_they_are_made_of(
    values: list[int], kept: set[int]
) -> None:
    columns = [[f"key{column}={value}" for value in range(count)] for column, count in enumerate(values)]
    everything = [list(job) for job in itertools.product(*columns)]
    jobs = [job for place, job in enumerate(everything) if place in kept]
    again = []
    for product in as_products(jobs):
        lists = [
            [f"{key}={value}" for value in given.split(",")]
            for key, _, given in (word.partition("=") for word in product)
        ]
        again += [list(job) for job in itertools.product(*lists)]
    assert sorted(again) == sorted(jobs)


def test_the_rest_of_a_sweep_is_at_most_a_product_for_each_of_its_keys() -> None:
    columns = [[f"{key}={value}" for value in range(4)] for key in "abc"]
    everything = [list(job) for job in itertools.product(*columns)]
    for first in range(len(everything)):
        assert len(as_products(everything[first:])) <= len(columns)


def test_jobs_are_numbered_behind_those_in_the_folder_and_a_failed_one_is_replaced(tmp_path: Path) -> None:
    stored(tmp_path / "0", "seed=0")
    stored(tmp_path / "2", "seed=2", status=FAILED)
    (tmp_path / "5").mkdir()
    sweep = Sweep(tmp_path)
    jobs = [["seed=1"], ["seed=2"], ["seed=3"]]
    assert numbered(sweep, jobs, runs_of(tmp_path)) == {2: ("seed=2",), 6: ("seed=1",), 7: ("seed=3",)}


def test_a_job_is_numbered_by_what_hydra_recorded_where_its_folder_has_another_name(tmp_path: Path) -> None:
    for number, status in ((0, "finished"), (1, FAILED)):
        folder = tmp_path / f"{number}_s{number}"
        stored(folder, f"seed={number}", status=status)
        (folder / ".hydra").mkdir()
        (folder / ".hydra/hydra.yaml").write_text(f"hydra:\n  job:\n    name: x\n    num: {number}\n")
    jobs = numbered(Sweep(tmp_path), [["seed=1"], ["seed=2"]], runs_of(tmp_path))
    assert jobs == {1: ("seed=1",), 2: ("seed=2",)}


def test_a_command_says_which_jobs_it_repeats_and_which_it_adds(tmp_path: Path) -> None:
    stored(tmp_path / "0", "seed=0")
    stored(tmp_path / "1", "seed=1", status=FAILED)
    sweep = Sweep(tmp_path, jobs={1: ("seed=1",), 2: ("seed=2",), 4: ("seed=4",)})
    message = announcement(sweep, runs_of(tmp_path))
    assert re.search(naming("repeats job 1 and adds jobs 2, 4", "1 finished", "hydra.sweep.dir="), message)


def test_an_interrupt_that_compiled_code_turns_into_another_error_fails_no_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = Session(interrupted=True, sweep=Sweep(Path("s")))
    monkeypatch.setattr("ltrbench.cli.run.launch.HydraConfig.get", lambda: None)
    with pytest.raises(KeyboardInterrupt):
        session.job(None)  # type: ignore[arg-type]  # what fails in it is no matter
    assert session.errors == []
    assert session.sweep is not None
    assert not session.sweep.failed


def test_an_interrupted_study_is_not_said_to_lose_nothing() -> None:
    of_study = _interrupted(Session(in_study=True), ["experiment=parity"])
    assert "nothing is lost" not in of_study
    assert re.search(naming("study", "python -m ltrbench experiment=parity"), of_study)
    of_run = _interrupted(Session(folders=[Path("not there")]), ["seed=1"])
    assert re.search(naming("before the run", "nothing is lost", "python -m ltrbench seed=1"), of_run)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["seed=1,2", "-m", "hydra.sweeper.max_batch_size=-1"], "max_batch_size is -1"),
        (["model=glob(zzz*)", "-m"], "the sweep has no job"),
        (["model=random,native", "-m", "--cfg", "job"], "leave out -m"),
    ],
)
def test_a_sweep_without_jobs_or_with_a_flag_for_one_job_is_refused(
    words: list[str], place: str, tmp_path: Path
) -> None:
    done = run(*words, "tracking=none", "hydra.sweep.dir=s", folder=tmp_path, check=2)
    assert place in done.stderr


def test_a_finished_job_is_refused_with_the_command_for_the_others(tmp_path: Path) -> None:
    stored(tmp_path / "0", "seed=0", "model=native")
    jobs = [["model=native", "seed=0"], ["model=native", "seed=1"]]
    with pytest.raises(ResultError) as caught:
        numbered(Sweep(tmp_path, ["--config-dir", "my conf"]), jobs, runs_of(tmp_path))
    for part in ("1 of these 2 jobs", str(tmp_path / "0"), "model=native seed=1"):
        assert part in str(caught.value)
    assert "python -m ltrbench --config-dir 'my conf' -m" in str(caught.value)


def test_a_sweep_inside_of_the_folder_is_not_part_of_it(tmp_path: Path) -> None:
    stored(tmp_path / "0", "seed=0")
    stored(tmp_path / "2026-01-01/12-00-00/0", "seed=1")
    (tmp_path / "2026-01-01/12-00-00/multirun.yaml").touch()
    assert [found.path for found in runs_of(tmp_path)] == [tmp_path / "0"]
    assert runs_of(tmp_path / "not there") == []


def test_an_interruption_names_the_state_of_every_job(tmp_path: Path) -> None:
    stored(tmp_path / "0", "seed=0")
    jobs = {number: (f"seed={number}",) for number in range(5)}
    sweep = Sweep(tmp_path, ["hydra.job.num=x"], jobs, started={0, 1, 2}, failed={1})
    message = interruption(sweep, runs_of(tmp_path))
    assert "of 5 jobs: 1 finished, 1 failed, 1 interrupted, 2 not started" in message
    assert re.search(r"failed: +seed=1$", message, re.MULTILINE)
    assert message.endswith("seed=2,3,4")
    done = interruption(replace(sweep, jobs={0: ("seed=0",)}), runs_of(tmp_path))
    assert done.endswith(f"python -m ltrbench compare {tmp_path}")


@pytest.mark.slow
def test_the_table_covers_every_run_of_the_folder_and_the_second_command_says_so(tmp_path: Path) -> None:
    words = ("-m", *CHEAP, "tracking=none", "hydra.sweep.dir=both")
    run("model=single_feature", "seed=0,1", *words, folder=tmp_path)
    done = run("model=random", *words, folder=tmp_path)
    assert re.search(naming("both already", "2 finished, 0 failed"), done.stderr)
    assert "model=single_feature seed=0,1" in done.stderr
    assert "adds job 2" in done.stderr
    assert done.stderr.index("both already") < done.stderr.index("fitting on")
    rows = [line.split("|")[1].strip() for line in done.stdout.splitlines() if line.startswith("| ")]
    assert rows == ["model", "single_feature", "random"]
    assert "| single_feature |" in (tmp_path / "both/comparison/table.md").read_text()
    assert done.stdout.strip() == run("compare", "both", folder=tmp_path).stdout.strip()
    assert "model=single_feature" in (tmp_path / "both/multirun.yaml").read_text()
    assert holder(tmp_path / "both") is None


@pytest.mark.slow
@pytest.mark.usefixtures("migrated_store")
def test_register_chooses_among_all_runs_of_the_folder(tmp_path: Path) -> None:
    words = ("-m", *CHEAP, "hydra.sweep.dir=both")
    run("model=single_feature", *words, folder=tmp_path)
    done = run("model=random", "register=shop", *words, folder=tmp_path)
    assert "Registered:  models:/shop@champion" in done.stderr
    code = (
        "from mlflow import MlflowClient\n"
        "client = MlflowClient('sqlite:///mlflow.db')\n"
        "run = client.get_run(client.get_model_version_by_alias('shop', 'champion').run_id)\n"
        "print(run.data.tags['backend'])\n"
    )
    champion = run_forked(code, [], tmp_path, os.environ)
    assert champion.stdout.strip() == "single_feature", champion.stderr


def test_two_commands_at_a_time_do_not_share_a_folder(tmp_path: Path) -> None:
    words = ("model=random", "-m", *CHEAP, "tracking=none", "hydra.sweep.dir=both")
    with hold(tmp_path / "both"):
        done = run(*words, folder=tmp_path, check=2)
    assert re.search(naming("error: both", "in use", f"process {os.getpid()}", "another folder"), done.stderr)
    assert [path.name for path in (tmp_path / "both").iterdir()] == [".lease-1"]


@pytest.mark.parametrize(
    "words",
    [
        ("hydra.run.dir=file",),
        ("hydra.run.dir=file/below",),
        ("-m", "hydra.sweep.dir=file"),
        ("-m", "hydra.sweep.dir=file/below"),
    ],
)
def test_a_folder_that_cannot_be_written_is_named_with_the_remedy(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    done = run("model=random", "tracking=none", *words, folder=tmp_path, check=2)
    place = words[-1].partition("=")[2]
    assert re.search(naming(f"error: {place} ", "hydra.run.dir=", "hydra.sweep.dir="), done.stderr)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["cv=1"], ("cv is 1", "2 folds")),
        (["cv=0"], ("cv is 0", "2 folds")),
        (["data.fold=0,1"], ("data.fold is 0", "synthetic")),
        (["+params.num_leafs=7,15"], ("params.num_leafs is set", "'num_leaves'")),
        (["model.seed=${nowhere}"], ("model.seed", "'nowhere'")),
    ],
)
def test_a_sweep_is_refused_before_any_job_starts(
    words: list[str], parts: tuple[str, ...], tmp_path: Path
) -> None:
    done = run("model=random", *words, "-m", *CHEAP, "tracking=none", folder=tmp_path, check=2)
    assert re.search(naming(*parts), done.stderr)
    assert "job 0" not in done.stderr
    assert not (tmp_path / "multirun").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("migrated_store")
def test_ctrl_c_says_what_is_finished_and_the_command_it_prints_does_the_rest(tmp_path: Path) -> None:
    yaml = tmp_path / "conf/model/sleepy.yaml"
    yaml.parent.mkdir(parents=True)
    yaml.write_text("defaults: [_yardstick, _self_]\n_target_: sleepy.Sleepy\n")
    (tmp_path / "sleepy.py").write_text(SLEEPY)
    words = ("--config-dir", "conf", "model=sleepy,random", "seed=0,1,2", "-m", *CHEAP, "hydra.sweep.dir=out")
    done = interrupted(words, tmp_path)
    assert "of 6 jobs: 1 finished, 1 interrupted, 4 not started" in done
    assert re.search(r"interrupted: model=sleepy seed=1 ", done)
    assert holder(tmp_path / "out") is None
    assert not [*tmp_path.rglob(".partial-*")]
    assert "KILLED" in statuses(tmp_path).values()
    assert sorted(path.name for path in (tmp_path / "out").glob("[0-9]*")) == ["0", "1"]
    commands = [line.strip() for line in done.splitlines() if line.startswith("  python -m ltrbench ")]
    assert len(commands) == 2
    # The jobs would sleep as before.
    (tmp_path / "sleepy.py").write_text(SLEEPY.replace("100", "0"))
    for command in commands:
        run(*shlex.split(command)[3:], folder=tmp_path)
    results = [read_run(path.parent).result for path in sorted((tmp_path / "out").glob("*/result.json"))]
    assert [(result.status, result.model, result.seed) for result in results] == [
        ("finished", model, seed) for model in ("sleepy", "random") for seed in (0, 1, 2)
    ]


@pytest.mark.slow
def test_ctrl_c_in_a_single_run_says_what_is_lost(tmp_path: Path) -> None:
    yaml = tmp_path / "conf/model/sleepy.yaml"
    yaml.parent.mkdir(parents=True)
    yaml.write_text("defaults: [_yardstick, _self_]\n_target_: sleepy.Sleepy\n")
    (tmp_path / "sleepy.py").write_text(SLEEPY)
    words = ("--config-dir", "conf", "model=sleepy", "seed=1", *CHEAP, "tracking=none", "hydra.run.dir=mine")
    done = interrupted(words, tmp_path)
    assert re.search(naming("interrupted", "no model", "no scores", "result.json in mine"), done)
    assert f"python -m ltrbench {shlex.join(words)}" in done
    assert holder(tmp_path / "mine") is None
    assert not [*tmp_path.rglob(".partial-*")]


def interrupted(words: tuple[str, ...], folder: Path) -> str:
    """What a command says on standard error that gets SIGINT while the model that sleeps is fitted."""
    process = subprocess.Popen(
        [*COMMAND, *words],
        cwd=folder,
        env={**os.environ},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
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
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=100)
    assert process.returncode == 130
    assert "Traceback" not in rest
    return rest
