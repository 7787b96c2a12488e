from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import caching

from ltrbench import compilation

compiled = pytest.mark.skipif(
    bool(compilation.config.DISABLE_JIT), reason="nothing is compiled under NUMBA_DISABLE_JIT"
)


def twice(x: float) -> float:
    return x + x


@compiled
def test_compilation_is_announced_once_and_only_if_it_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation.config, "CACHE_DIR", str(tmp_path))
    said: list[str] = []
    for _ in range(2):  # the second function finds what the first has left in the cache
        double = compilation.kernel(twice)
        with compilation.announcing_compilation(said.append):
            assert double(1.5) == 3.0
            assert double(2) == 4
    begun, ended = said
    assert "once" in begun
    assert re.search(r"\d+ s", ended)


@compiled
def test_a_kernel_is_compiled_anew_where_a_kernel_of_another_file_has_changed(tmp_path: Path) -> None:
    (tmp_path / "middle.py").write_text(
        "from inner import f\nfrom ltrbench.compilation import kernel\n\n"
        "@kernel\ndef g(x):\n    return f(x) + 1.0\n"
    )
    (tmp_path / "outer.py").write_text(
        "from ltrbench.compilation import kernel\nfrom middle import g\n\n"
        "@kernel\ndef h(x):\n    return 2.0 * g(x)\n\nprint(h(5.0))\n"
    )
    for factor in (1.0, 3.0):
        (tmp_path / "inner.py").write_text(
            f"from ltrbench.compilation import kernel\n\n@kernel\ndef f(x):\n    return {factor} * x\n"
        )
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        said = subprocess.check_output([sys.executable, "-m", "outer"], env=environment, text=True)
        assert float(said) == 2.0 * (factor * 5.0 + 1.0)


@compiled
def test_a_kernel_compiles_where_neither_package_nor_user_cache_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is left of numba's ways to find a folder is the one that the configuration names.
    configured = [caching.UserProvidedCacheLocator]
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", configured)
    monkeypatch.setattr(compilation.config, "CACHE_DIR", "")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    with pytest.raises(RuntimeError, match="cannot cache"):
        numba.njit(cache=True)(twice)
    assert compilation.kernel(twice)(1.5) == 3.0
    assert list(tmp_path.rglob("*.nbc"))


def test_threads_are_given_back() -> None:
    before = numba.get_num_threads()
    with compilation.threads(1):
        assert numba.get_num_threads() == 1
    assert numba.get_num_threads() == before
    with compilation.threads(10_000):
        assert numba.get_num_threads() == compilation.config.NUMBA_NUM_THREADS


def test_a_sum_is_not_reordered() -> None:
    # 1e16 + 1 is 1e16 again: with reordered or contracted arithmetic the result would be another.
    values = np.array([1e16, 1.0, -1e16, 1.0])
    assert compilation.kernel(_sum_in_order)(values) == 1.0


def _sum_in_order(values: Any) -> Any:
    total = 0.0
    for value in values:
        total += value
    return total
