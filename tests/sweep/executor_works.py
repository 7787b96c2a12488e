"""The work that tests give to executors. Worker processes import it from here."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any


def call(job: tuple[Any, ...]) -> Any:
    """Runs the function of this module that the first item names, with the other items."""
    name, *arguments = job
    return globals()[name](*arguments)


def lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def square(number: int) -> int:
    return number**2


def note(file: str, text: str) -> str:
    """Adds a line to a file that several processes write."""
    with Path(file).open("a", encoding="utf-8") as lines:
        lines.write(f"{text}\n")
    return text


def fail(text: str) -> None:
    raise ValueError(text)


def die(file: str, number: int, times: int = 1_000) -> str:
    """Notes each attempt, and dies of a signal in the first `times`."""
    note(file, "attempt")
    if len(lines(Path(file))) <= times:
        os.kill(os.getpid(), number)
        time.sleep(60)  # a signal may be handled by another thread
    return "survived"


def hang(file: str, seconds: float = 60.0) -> None:
    """Notes its process and its end, if that is an interruption."""
    note(file, str(os.getpid()))
    try:
        time.sleep(seconds)
    except KeyboardInterrupt:
        note(file, "interrupted")
        raise


def hang_for_good(file: str) -> None:
    """Ignores every interruption."""
    note(file, str(os.getpid()))
    while True:
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            note(file, "interrupted")


def cores(file: str) -> tuple[int, list[int]]:
    """Returns its process and cores when two jobs run at the same time."""
    note(file, "here")
    end = time.monotonic() + 20
    while len(lines(Path(file))) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    return os.getpid(), sorted(os.sched_getaffinity(0))


def alone(file: str) -> bool:
    """Returns whether no other job ran in the same time."""
    with Path(file).open("x"):
        time.sleep(0.1)
    Path(file).unlink()
    return True
