"""The contract of a place where one fit runs: this process, or several processes.

To add a place, write one dataclass derived from `Distribution` and one YAML in conf/distributed whose
`_target_` names it. This module imports no numerical library and not Dask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ltrbench.distributed.workers import Workers


@dataclass(kw_only=True)
class Distribution(ABC):
    """Where one fit runs."""

    @abstractmethod
    def open(self) -> AbstractContextManager[Workers | None]:
        """Returns a context with the workers that fit together; None: this process fits alone.

        Raises:
            ConfigError: The workers cannot be reached or started, or are too few.
        """


@dataclass(kw_only=True)
class OneProcess(Distribution):
    """This process fits alone. `ltrbench.config.resolved` replaces it by null."""

    def open(self) -> AbstractContextManager[Workers | None]:
        return nullcontext()
