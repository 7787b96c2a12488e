"""The verb `reproduce`: whether a rerun gives the figures that were committed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from ltrbench.cli.errors import OK, RUN_FAILED
from ltrbench.cli.files import PATH, PLUGIN_OPTION, echo


@click.command("reproduce")
@click.argument("committed", type=PATH)
@click.argument("runs", type=PATH)
@PLUGIN_OPTION
def reproduce_verb(committed: Path, runs: Path) -> int:
    """Holds the runs below RUNS against the results in the folder COMMITTED; exit code 1 where they differ.

    On the machine type and with the versions of the committed results, every figure must be the same to the
    bit; elsewhere within 0.001.

    \b
        python -m ltrbench reproduce results/mq2008 build/reproduce/mq2008
    """
    from ltrbench.compare import compare
    from ltrbench.compare.output.publish import publish
    from ltrbench.compare.output.reproduce import TOLERANCE
    from ltrbench.compare.output.reproduce import reproduce as hold_against
    from ltrbench.results import find_runs

    with tempfile.TemporaryDirectory() as folder:
        rerun = Path(folder, committed.name)
        publish(compare(find_runs([runs])), rerun)
        reproduction = hold_against(committed, rerun)
    demand = "the same to the bit" if reproduction.exact else f"within {TOLERANCE}"
    echo(
        f"{committed}: {reproduction.num_figures} figures, which must be {demand} ({reproduction.reason}); "
        f"largest difference {reproduction.largest:.3g}."
    )
    for difference in reproduction.differences:
        echo(f"- {difference}")
    echo("Reproduced." if not reproduction.differences else f"{len(reproduction.differences)} differ.")
    return RUN_FAILED if reproduction.differences else OK
