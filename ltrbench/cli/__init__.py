"""The command line: runs the command of a known verb, and passes everything else to Hydra.

Only this folder and `config` import Hydra.

    auto              the verb `auto`: from a table to a model, by the steps of other commands
    verbs             commands on runs, scores and data
    launch            runs and sweeps, composed by Hydra
    hydra_private     the private names of Hydra that it needs
    session           what new and resumed sweeps share, and copies of runs in a tracker
    help.txt          the page of --help; --help verbs is click's, --help settings is Hydra's
    console           error messages, exit codes, options and files that verbs share, progress of fits
    walkthrough.md    the text of the verb `walkthrough`, written by docs/walkthrough.py
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import traceback
from pathlib import Path

import click

from ltrbench.cli.console import PROGRAM, RUN_INTERRUPTED, as_paragraph, exit_code
from ltrbench.errors import ConfigError, debugging, did_you_mean
from ltrbench.folders import search_current_folder

_OBJECTS_BETWEEN_COLLECTIONS = 100_000


def main(arguments: list[str] | None = None) -> int:
    """Runs a command line and returns its exit code, which `ltrbench.cli.console` defines."""
    # OpenMP reads it when a library starts its threads. Threads that spin while waiting slow the next backend
    # down tenfold.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # By default MLflow sends usage reports over the network; set this variable to false to allow them.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    # Collections during the imports of large libraries find no garbage, and take a tenth of a short command.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    # The interpreter would visit all objects of these libraries once more before it ends: 0.9 s after MLflow.
    atexit.register(gc.freeze)
    try:
        return _dispatch(sys.argv[1:] if arguments is None else arguments)
    except click.Abort:  # Ctrl-C during a verb
        click.echo("interrupted", err=True)
        return RUN_INTERRUPTED
    except Exception as error:
        if debugging():
            click.echo("".join(traceback.format_exception(error)), err=True)
        click.echo(as_paragraph(error), err=True)
        return exit_code(error)


def _dispatch(words: list[str]) -> int:
    if words in (["--help"], ["-h"]):
        click.echo(
            Path(__file__).with_name("help.txt").read_text(encoding="utf-8"), nl=False
        )
        return 0
    # Imported late, because a verb needs no Hydra and a run needs no verb.
    # In Hydra's grammar "~key" deletes and "+key=value" adds; neither is a verb.
    if words and not words[0].startswith(("-", "+", "~")) and "=" not in words[0]:
        return _run_verb(words)
    if words == ["--help", "verbs"]:
        from ltrbench.cli.verbs import verbs

        click.echo(verbs.get_help(click.Context(verbs, info_name=PROGRAM)))
        return 0
    from ltrbench.cli.launch import launch

    # Before a job starts, because with hydra.job.chdir=true each job changes into its folder.
    search_current_folder()
    return launch(words)


def _run_verb(words: list[str]) -> int:
    from ltrbench.cli.verbs import MODULE_OF, verbs

    verb = words[0]
    if verb not in MODULE_OF:
        raise ConfigError(
            f"unknown verb '{verb}'{did_you_mean(verb, MODULE_OF)} The verbs are "
            f"{', '.join(sorted(MODULE_OF))}. Everything else is an override, key=value, or a flag."
        )
    outcome = verbs.main(words, prog_name=PROGRAM, standalone_mode=False)
    return outcome if isinstance(outcome, int) else 0
