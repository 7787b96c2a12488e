"""Fixtures that the tests of several folders use."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from forked import run_forked
from hypothesis import settings
from temporary_folder import use_own_temporary_folder

if TYPE_CHECKING:
    from ltrbench.tracking.mlflow import MLflowTracker

LONG = ("slow", "browser", "installation")
"""The marks of tests that `make test-fast` leaves out."""

use_own_temporary_folder()

# As `make` sets it: the threads of LightGBM and XGBoost would otherwise spin beside other processes.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# NumPy's threads spin too, and no policy forbids it; the test processes keep all cores busy without them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# The workers of a cluster are forked from a process that has imported Dask, which takes seconds.
os.environ.setdefault("DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD", "forkserver")
# Networks are compiled for seconds for each shape of a batch; the next run of the suite reads them from here.
_COMPILED_NETWORKS = Path(__file__).parents[1] / "build" / "networks"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_COMPILED_NETWORKS))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

# The first example of a test may have to compile a kernel, which no deadline of one example allows for.
settings.register_profile("explore", deadline=None)
# The same examples in every run, so that a change is judged by itself; `make test-explore` draws new ones.
settings.register_profile(
    "repeatable", parent=settings.get_profile("explore"), derandomize=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects the tests without garbage collections: what modules define stays, and looking through it
    again and again takes half of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)  # when all marks are set
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the files with long tests first, so that no process waits for the others at the end."""
    long = {
        item.path
        for item in items
        if any(item.get_closest_marker(name) for name in LONG)
    }
    items.sort(key=lambda item: item.path not in long)


@pytest.hookimpl(trylast=True)  # when the fixtures of the test have ended
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Ends the workers that the tests of a folder share, before a test of another folder."""
    shared = sys.modules.get("local_workers")
    if shared is None:
        return
    if nextitem is None or nextitem.path.parent != item.path.parent:
        shared.end_cluster()


@pytest.fixture(autouse=True, scope="module")
def frozen_imports() -> None:
    """Keeps what is imported by now out of later garbage collections: each run collects before it measures
    memory, which takes half a second in a process that has imported every backend."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_handler_stays() -> Iterator[None]:
    """Removes the log handlers of a run in this process: they write to a test's streams, which are closed."""
    root = logging.getLogger()
    before = list(root.handlers)
    yield
    for handler in set(root.handlers) - set(before):
        root.removeHandler(handler)
        handler.close()


@pytest.fixture(scope="session")
def letor_data() -> Callable[[str], Path]:
    """`letor_data("MQ2008")`: the folder of that real data set. The test skips where it is absent."""

    def find(name: str) -> Path:
        checkout = Path(__file__).parents[1]
        folder = Path(os.environ.get("LTRBENCH_DATA") or checkout / "data", name)
        if not folder.is_dir():
            pytest.skip(
                f"{name} is neither in $LTRBENCH_DATA nor in data/; conf/data says how to obtain it"
            )
        return folder

    return find


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database with its migrations done, which take seconds, to copy from."""
    # Late, because most tests can do without the seconds that MLflow's import takes.
    from ltrbench.tracking.mlflow.store import MLflowStore

    database = tmp_path_factory.mktemp("database") / "mlflow.db"
    MLflowStore(f"sqlite:///{database}", "warm", models=False).open(None)
    return database


@pytest.fixture(scope="session")
def migrated_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database with its migrations done and no experiment of ours yet."""
    folder = tmp_path_factory.mktemp("migrated")
    code = "from mlflow import MlflowClient; MlflowClient('sqlite:///mlflow.db')"
    done = run_forked(code, [], folder, os.environ)
    assert done.returncode == 0, done.stderr
    return folder / "mlflow.db"


@pytest.fixture
def migrated_store(tmp_path: Path, migrated_database: Path) -> None:
    """Puts that database where commands in `tmp_path` look for it, which saves each its migrations."""
    shutil.copy(migrated_database, tmp_path / "mlflow.db")


@pytest.fixture
def tracker(tmp_path: Path, empty_database: Path) -> MLflowTracker:
    """A tracker on a store of its own, not yet opened."""
    from ltrbench.tracking.mlflow import MLflowTracker

    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return MLflowTracker(uri=f"sqlite:///{tmp_path / 'mlflow.db'}")


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes bytes or text into a file of the test's folder, and returns its path."""

    def write_file(content: bytes | str, name: str = "train.txt") -> Path:
        (tmp_path / name).write_bytes(
            content.encode() if isinstance(content, str) else content
        )
        return tmp_path / name

    return write_file


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a verb in this process, and returns what it prints on standard output."""
    from ltrbench.cli import main

    def run(*words: object) -> str:
        assert main([*map(str, words)]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run
