"""Workers on this machine, with one thread each."""

from __future__ import annotations

import contextlib

from ltrbench.distributed.cluster import DaskWorkers, Workers


def local_workers(num_workers: int) -> contextlib.AbstractContextManager[Workers]:
    return DaskWorkers(workers=num_workers, threads_per_worker=1).open()
