"""Imports: public names cost nothing until they are used, and the extra of a missing package is named."""

from __future__ import annotations

import importlib
import json
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


def without(packages: list[str], code: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a new process in which packages cannot be imported."""
    blocked = f"import sys; sys.modules.update(dict.fromkeys({packages}))\n"
    return subprocess.run(
        [sys.executable, "-c", blocked + code],
        capture_output=True,
        text=True,
        check=False,
    )


def test_importing_the_package_imports_nothing_but_the_standard_library() -> None:
    done = without(
        [],
        "import ltrbench; dir(ltrbench); hasattr(ltrbench, 'nothing'); print(*sys.modules)",
    )
    assert HEAVY.isdisjoint(name.partition(".")[0] for name in done.stdout.split())
    assert "ltrbench" in done.stdout


@pytest.mark.parametrize(
    "name",
    sorted(
        {*ltrbench.__all__, "CatBoostRanker", "MlpRanker"} - {"__version__", "compare"}
    ),
)
def test_a_public_name_is_that_of_the_module_it_comes_from(name: str) -> None:
    home = importlib.import_module(ltrbench._MODULE_OF[name])
    assert getattr(ltrbench, name) is getattr(home, name)
    assert name in dir(ltrbench)


@pytest.mark.parametrize(
    ("package", "code", "extra"),
    [
        ("catboost", "import ltrbench.rankers.catboost", "catboost"),
        ("jax", "import ltrbench.rankers.mlp", "neural"),
        ("optax", "import ltrbench.rankers.mlp", "neural"),
        ("xgboost", "import ltrbench.distributed.cluster", "dask"),
        ("onnxruntime", "import ltrbench.shipping.targets.onnx", "onnx"),
        ("optuna", "from ltrbench.search import FullGrid; FullGrid()", "search"),
        ("orjson", "import ltrbench.serve", "serve"),
    ],
)
def test_the_extra_of_a_missing_package_is_named(
    package: str, code: str, extra: str
) -> None:
    done = without([package], code)
    assert done.returncode != 0
    assert f"pip install 'ltrbench[{extra}]'" in done.stderr.splitlines()[-1]


def test_the_workers_of_a_sweep_need_no_xgboost() -> None:
    done = without(["xgboost"], "import ltrbench.sweep.dask")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_inspect_names_the_extra_of_a_backend_and_inspects_the_data_for_the_others(
    tmp_path: Path,
) -> None:
    data = tmp_path / "train.txt"
    data.write_text("2 qid:1 1:0.5 2:1\n0 qid:1 1:0.1 2:3\n")
    command = f"from ltrbench.cli import main; sys.exit(main(['inspect', {str(data)!r}, '--json']))"
    done = without(
        ["catboost", "jax", "onnx", "treelite", "dask", "distributed"], command
    )
    assert done.returncode == 0, done.stderr
    concerns = json.loads(done.stdout)["concerns"]
    assert list(concerns) == sorted(concerns)
    (sentence,) = concerns["catboost"]
    assert "pip install 'ltrbench[catboost]'" in sentence
    assert not any("pip install" in sentence for sentence in concerns["xgboost"])
