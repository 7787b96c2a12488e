"""C source, compiled and called for the certificate: `--to c`."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError
from ltrbench.models.c_source import c_identifier, write_c
from ltrbench.shapes import Features
from ltrbench.shipping.target import Engine, Export, ShippedModel, Target

_FILE = "model.c"
_FLAGS = ("-std=c99", "-O2", "-ffp-contract=off")


@dataclass
class CTarget(Target):
    """One C99 file without dependencies."""

    name: ClassVar[str] = "c"

    def export(self, model: ShippedModel) -> Export:
        ensemble = model.trees(self.name)
        name = c_identifier(model.name)
        return Export(
            files={_FILE: write_c(ensemble, model.feature_names, model.name)},
            request=(
                f"double {name}_score(const float *features);\n\ncc {' '.join(_FLAGS)} -c {_FILE} -o model.o"
            ),
            notes=(
                f"{name}_score takes {model.num_features} float32 features, NAN for a missing value.",
                f"It sums in {ensemble.score_dtype}, and gives the scores of the model bit for bit.",
                "Do not compile it with -ffast-math, which ignores missing values.",
            ),
        )

    def engine(self, model: ShippedModel, export: Export) -> Engine | None:
        """Returns the compiled file; None if there is no C compiler `cc`.

        A compiled file runs in this process, so only a file that `export` writes for the model is compiled.

        Raises:
            ConfigError: The file is another one, or the compiler fails.
        """
        compiler = shutil.which("cc")
        if compiler is None:
            return None
        content = export.files[_FILE]
        if content != self.export(model).files[_FILE]:
            raise ConfigError(
                f"{_FILE} is not the file that ltrbench writes for this model, so it is not compiled. "
                "Ship the model again."
            )
        with tempfile.TemporaryDirectory(prefix="ltrbench-c-") as folder:
            function = _compiled(compiler, Path(folder), content, c_identifier(model.name))
        version = _version(compiler)
        dtype = model.trees(self.name).score_dtype
        num_features = model.num_features

        def scores(features: Features) -> NDArray[np.floating[Any]]:
            values = np.ascontiguousarray(features, dtype=np.float32)
            if values.shape[1:] != (num_features,):
                raise ValueError(f"features have shape {values.shape}; expected (documents, {num_features})")
            column = np.empty(len(values))
            function(values.ctypes.data, len(values), num_features, column.ctypes.data)
            return column.astype(dtype)  # the function returns a float32 sum as a double

        return Engine(scores, name="C compiler", version=version, score_dtype=dtype)


def _compiled(compiler: str, folder: Path, content: bytes, name: str) -> Callable[..., None]:
    """Returns the function of a model for many documents: features, D, F, scores.

    The shared object stays loaded after its file is removed.
    """
    (folder / _FILE).write_bytes(content)
    (folder / "batch.c").write_text(_BATCH.format(name=name), encoding="ascii")
    command = [compiler, *_FLAGS, "-shared", "-fPIC", _FILE, "batch.c", "-o", "model.so"]
    result = _run(command, folder)
    if result.returncode:
        reason = "\n".join(result.stderr.splitlines()[:5])
        raise ConfigError(
            f"{compiler} cannot compile {_FILE}, which the certificate needs: {reason}\n"
            "Repair the compiler, or remove it from PATH to ship the model without a verification."
        )
    try:
        function = ctypes.CDLL(str(folder / "model.so")).ltrbench_score_all
    except OSError as error:  # such as a temporary folder that is mounted with noexec
        raise ConfigError(
            f"the compiled {_FILE} cannot be loaded from {folder}: {error}. Set TMPDIR to a folder "
            "from which programs may be run."
        ) from error
    function.argtypes = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    function.restype = None
    typed: Callable[..., None] = function
    return typed


_BATCH = """\
#include <stdint.h>

double {name}_score(const float *features);

void ltrbench_score_all(const float *features, int64_t documents, int64_t width, double *scores);

void ltrbench_score_all(const float *features, int64_t documents, int64_t width, double *scores)
{{
    for (int64_t d = 0; d < documents; d++)
        scores[d] = {name}_score(features + d * width);
}}
"""


def _version(compiler: str) -> str:
    """Returns the first line with which a compiler describes itself."""
    return (_run([compiler, "--version"], Path.cwd()).stdout.splitlines() or ["cc"])[0]


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, encoding="utf-8", errors="replace", check=False
    )
