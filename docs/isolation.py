"""Removes what an example or a test adds to this process: imported modules, registered metrics."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from ltrbench.metrics import evaluation
from ltrbench.metrics.functions import METRICS


@contextlib.contextmanager
def modules_of(folder: Path) -> Iterator[None]:
    """Forgets, at its end, the modules imported from the folder and the metrics defined in between."""
    metrics = dict(METRICS)
    loaded = set(evaluation._loaded)
    evaluation._loaded.clear()
    try:
        yield
    finally:
        METRICS.clear()
        METRICS.update(metrics)
        evaluation._loaded.clear()
        evaluation._loaded.update(loaded)
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(str(folder)):
                del sys.modules[name]
