"""CPU, memory, disk and network usage during a run, measured by MLflow's monitors."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

from mlflow.entities import Metric

from ltrbench.errors import TrackingError

_SECONDS_BETWEEN = 2.0


class SystemMetrics:
    """Samples while a block runs. MLflow's sampler needs an open run, but ltrbench logs only completed runs.

    Raises:
        TrackingError: psutil is not installed.
    """

    def __init__(self) -> None:
        try:
            import psutil  # noqa: F401  # required by MLflow's monitors
        except ImportError:
            raise TrackingError(
                "tracking.system_metrics=true needs psutil: pip install 'ltrbench[system]'."
            ) from None
        self._points: list[Metric] = []

    @contextlib.contextmanager
    def sampling(self) -> Iterator[None]:
        """Discards earlier samples, and samples in a thread until the block ends."""
        self._points, ended = [], threading.Event()
        thread = threading.Thread(target=self._sample, args=(ended,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def metrics(self) -> list[Metric]:
        """Returns the samples, under the names that MLflow's UI shows as system metrics."""
        return self._points

    def _sample(self, ended: threading.Event) -> None:
        from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
        from mlflow.system_metrics.metrics.disk_monitor import DiskMonitor
        from mlflow.system_metrics.metrics.network_monitor import NetworkMonitor

        kinds: list[Any] = [CPUMonitor, DiskMonitor, NetworkMonitor]
        monitors = [kind() for kind in kinds]
        step = 0
        while True:
            for monitor in monitors:
                monitor.collect_metrics()
                for name, value in monitor.aggregate_metrics().items():
                    self._points.append(Metric(f"system/{name}", value, int(1000 * time.time()), step))
                monitor.clear_metrics()
            step += 1
            if ended.wait(_SECONDS_BETWEEN):
                return
