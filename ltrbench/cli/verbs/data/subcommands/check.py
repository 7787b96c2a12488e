"""The command `data check`: verifies every array of a store."""

from __future__ import annotations

from pathlib import Path

import click

from ltrbench.cli.errors import OK, USER_MISTAKE
from ltrbench.cli.files import PATH, echo, wrapped


@click.command("check")
@click.argument("store", type=PATH)
def check_verb(store: Path) -> int:
    """Verifies STORE: its manifest, the checksum of every array, the invariants of a data set, and its
    fingerprint.

    Prints a paragraph for each problem. The exit code is 0 if there is none, else 2. Runs and other commands
    verify the checksums of a store as well, but end at the first problem.

    \b
        python -m ltrbench data check train.store
    """
    from ltrbench.data.store.checking import problems_of

    problems = problems_of(store)
    for problem in problems:
        # The mark is added last, so that a long path does not leave it alone on its line.
        echo(f"- {wrapped(problem, '  ')}", err=True)
    if problems:
        return USER_MISTAKE
    echo(f"{store}: no problems.")
    return OK
