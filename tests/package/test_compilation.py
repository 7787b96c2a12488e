from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from ltrbench import compilation

compiled = pytest.mark.skipif(
    bool(compilation.config.DISABLE_JIT),
    reason="nothing is compiled under NUMBA_DISABLE_JIT",
)


def twice(x: float) -> float:
    return x + x


twice.__module__ = "ltrbench.test"  # machine code of other modules is not cached


@compiled
def test_compilation_is_announced_once_and_only_if_it_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation.config, "CACHE_DIR", str(tmp_path))
    said: list[str] = []
    compiled_twice = []
    for _ in range(2):  # the second function finds what the first has left in the cache
        double = compilation.kernel(twice)
        compiled_twice.append(
            double
        )  # numba loads code of a pretended module only beside the first function
        with compilation.announcing_compilation(said.append):
            assert double(1.5) == 3.0
            assert double(2) == 4
    begun, ended = said
    assert "once" in begun
    assert re.search(r"\d+ s", ended)


@pytest.mark.slow
@compiled
@pytest.mark.parametrize(
    ("package", "imported", "call", "decorator"),
    [
        (
            "ltrbench.",
            "from ltrbench.middle import g",
            "g",
            "ltrbench.compilation.kernel",
        ),
        ("", "import middle", "middle.g", "numba.njit"),
    ],
)
def test_a_kernel_is_compiled_anew_where_a_kernel_of_another_file_has_changed(
    tmp_path: Path, package: str, imported: str, call: str, decorator: str
) -> None:
    (tmp_path / "middle.py").write_text(
        f"from {package}inner import f\nimport ltrbench, numba\n\n"
        f"@{decorator}\ndef g(x):\n    return f(x) + 1.0\n"
    )
    (tmp_path / "outer.py").write_text(
        f"import {package}inner as inner\nfrom ltrbench.compilation import kernel\n{imported}\n\n"
        f"@kernel\ndef h(s):\n    return 2.0 * {call}(s.x)\n\nprint(h(inner.settings))\n"
    )
    for factor in (1.0, 30.0):
        # The class of an argument has another name in the second round. The file has another length, because
        # Python itself takes a file of the same second and the same length for the old one.
        (tmp_path / "inner.py").write_text(
            "from typing import NamedTuple\nfrom ltrbench.compilation import kernel\n\n"
            f"class Settings{factor:g}(NamedTuple):\n    x: float\n\nsettings = Settings{factor:g}(5.0)\n\n"
            f"@kernel\ndef f(x):\n    return {factor} * x\n"
        )
        code = f"import ltrbench; ltrbench.__path__.append({str(tmp_path)!r}); import {package}outer"
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])
        }
        said = subprocess.check_output(
            [sys.executable, "-c", code], env=environment, text=True
        )
        assert float(said) == 2.0 * (factor * 5.0 + 1.0)


def _first(arrays: tuple[np.ndarray, np.ndarray], row: int) -> float:
    left, right = arrays
    return float(left[row] + right[row])


def _copied(values: np.ndarray) -> float:
    return float(values.copy()[0])


@compiled
def test_a_borrowing_kernel_counts_no_references_and_may_not_create_arrays() -> None:
    borrowing = compilation.borrowing_kernel(_first)
    assert borrowing((np.ones(2), np.ones(2)), 1) == 2.0
    (assembly,) = borrowing.inspect_asm().values()  # type: ignore[attr-defined]
    assert "NRT_incref" not in assembly
    with pytest.raises(numba.core.errors.NumbaError):
        compilation.borrowing_kernel(_copied)(np.ones(2))


@compiled
def test_the_arrays_of_a_disjoint_kernel_do_not_overlap_for_the_compiler() -> None:
    num_promises = []
    for decorate in (compilation.borrowing_kernel, compilation.disjoint_kernel):
        compiled_first: Any = decorate(_first)
        compiled_first((np.ones(2), np.ones(2)), 1)
        (code,) = compiled_first.inspect_llvm().values()
        num_promises.append(code.count(" noalias "))
    assert num_promises[1] > num_promises[0]
