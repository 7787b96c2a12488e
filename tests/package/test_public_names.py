"""`import ltrbench`: the public names stand on the package itself, and cost nothing until they are used."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import ltrbench

HEAVY = {
    "numpy",
    "numba",
    "pandas",
    "scipy",
    "lightgbm",
    "xgboost",
    "catboost",
    "mlflow",
    "hydra",
    "matplotlib",
}


def in_a_new_process(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_imports_nothing_but_the_standard_library(tmp_path: Path) -> None:
    code = "import ltrbench, sys; dir(ltrbench); hasattr(ltrbench, 'nothing'); print(*sys.modules)"
    imported = {name.partition(".")[0] for name in in_a_new_process(code, tmp_path).split()}
    assert imported.isdisjoint(HEAVY)


@pytest.mark.parametrize("name", [*ltrbench.__all__, "CatBoostRanker"])
def test_a_public_name_is_that_of_the_module_it_comes_from(name: str) -> None:
    if name in ("__version__", "compare"):
        return
    home = importlib.import_module(ltrbench._MODULE_OF[name])
    assert getattr(ltrbench, name) is getattr(home, name)
    assert name in dir(ltrbench)
