"""Without the package of an extra, the message of a user names the extra, and everything else works."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def without(packages: list[str], code: str) -> subprocess.CompletedProcess[str]:
    blocked = f"import sys; sys.modules.update(dict.fromkeys({packages}))\n"
    return subprocess.run([sys.executable, "-c", blocked + code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("package", "code", "extra"),
    [
        ("catboost", "import ltrbench.rankers.catboost", "catboost"),
        ("xgboost", "import ltrbench.distributed.cluster", "dask"),
        ("onnxruntime", "import ltrbench.shipping.targets.onnx", "onnx"),
        ("optuna", "from ltrbench.search import FullGrid; FullGrid()", "search"),
        ("orjson", "import ltrbench.serve", "serve"),
    ],
)
def test_the_extra_of_a_missing_package_is_named(package: str, code: str, extra: str) -> None:
    done = without([package], code)
    assert done.returncode != 0
    assert f"pip install 'ltrbench[{extra}]'" in done.stderr.splitlines()[-1]


def test_inspect_names_the_extra_of_a_backend_and_inspects_the_data_for_the_others(tmp_path: Path) -> None:
    data = tmp_path / "train.txt"
    data.write_text("2 qid:1 1:0.5 2:1\n0 qid:1 1:0.1 2:3\n")
    command = f"from ltrbench.cli import main; sys.exit(main(['inspect', {str(data)!r}, '--json']))"
    done = without(["catboost", "onnx", "treelite", "dask", "distributed"], command)
    assert done.returncode == 0, done.stderr
    concerns = json.loads(done.stdout)["concerns"]
    assert list(concerns) == sorted(concerns)
    (sentence,) = concerns["catboost"]
    assert "pip install 'ltrbench[catboost]'" in sentence
    assert not any("pip install" in sentence for sentence in concerns["xgboost"])
