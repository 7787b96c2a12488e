"""The verb `reproduce`: checks that a rerun gives the committed figures."""

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
    """Compares the runs below RUNS with the committed results in the folder COMMITTED.

    The exit code is 1 if they differ.
    With the machine type and the versions of the committed results, every figure must be bit-identical;
    otherwise it must agree within 0.001. Runs whose fit is not repeatable, such as those of LightGBM and
    XGBoost on several workers, must agree within 0.02.

    \b
        python -m ltrbench reproduce results/mq2008 build/reproduce/mq2008
    """
    from ltrbench.compare import compare
    from ltrbench.compare.output.publish import publish
    from ltrbench.compare.output.reproduce import TOLERANCE, TOLERANCE_NOT_REPEATABLE
    from ltrbench.compare.output.reproduce import reproduce as compare_with
    from ltrbench.results import find_runs

    with tempfile.TemporaryDirectory() as folder:
        rerun = Path(folder, committed.name)
        publish(compare(find_runs([runs])), rerun)
        reproduction = compare_with(committed, rerun)
    demand = "be bit-identical" if reproduction.exact else f"agree within {TOLERANCE}"
    echo(
        f"{committed}: {reproduction.num_figures} figures, which must {demand} ({reproduction.reason}); "
        f"largest difference {reproduction.largest:.3g}."
    )
    if reproduction.num_not_repeatable:
        echo(
            f"{reproduction.num_not_repeatable} of the runs are not repeatable (distributed.deterministic is "
            f"false in result.json): their figures must agree within {TOLERANCE_NOT_REPEATABLE}."
        )
    for difference in reproduction.differences:
        echo(f"- {difference}")
    echo(
        "Reproduced." if not reproduction.differences else f"{len(reproduction.differences)} figures differ."
    )
    return RUN_FAILED if reproduction.differences else OK
