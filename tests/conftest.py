"""Fixtures that more than one room's tests use."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# The first example of a test may have to compile a kernel, which no deadline of one example allows for.
settings.register_profile("kernels", deadline=None)
settings.load_profile("kernels")


@pytest.fixture(scope="session")
def letor_data() -> Callable[[str], Path]:
    """`letor_data("MQ2008")`: the folder of that real data set. The test skips where it is absent."""

    def find(name: str) -> Path:
        checkout = Path(__file__).parents[1]
        folder = Path(os.environ.get("LTRBENCH_DATA") or checkout / "data", name)
        if not folder.is_dir():
            pytest.skip(f"{name} is neither in $LTRBENCH_DATA nor in data/; conf/data says how to obtain it")
        return folder

    return find
