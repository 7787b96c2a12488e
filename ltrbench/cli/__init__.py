"""The command line: runs the command of a known verb, and passes everything else to Hydra.

Only this folder and `config` import Hydra.

    verbs             commands on runs, scores and data, one file each
    run               runs and sweeps, composed by Hydra
    jobs              what a new and a resumed sweep share
    help              --help, shell completion and the explained settings
    errors            error messages and exit codes
    files             options, input and output that verbs share
    program           the name under which this process was called
    lesson            the numbers of the verb `walkthrough`
    lesson.md         the text of the verb `walkthrough`
    hydra_internals   imports from private modules of Hydra
"""

from __future__ import annotations

import os
import sys
import traceback

import click

from ltrbench.cli.errors import RUN_INTERRUPTED, as_paragraph, exit_code
from ltrbench.cli.program import COMPLETING, as_called, program
from ltrbench.errors import ConfigError, debugging, did_you_mean
from ltrbench.user_modules import search_current_folder


def main(arguments: list[str] | None = None) -> int:
    """Runs a command line and returns 0; 1 for a failed run, 2 for a user error, 130 for Ctrl-C."""
    words = sys.argv[1:] if arguments is None else arguments
    if COMPLETING in os.environ:
        from ltrbench.cli.help.completion import complete

        complete(words)
        return 0
    # OpenMP reads it when a library starts its threads. Threads that spin while waiting slow the next backend
    # down tenfold.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # By default MLflow sends usage reports over the network; set this variable to false to allow them.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    try:
        return _dispatch(words)
    except click.Abort:  # Ctrl-C during a verb
        click.echo("interrupted", err=True)
        return RUN_INTERRUPTED
    except Exception as error:
        if debugging():
            click.echo("".join(traceback.format_exception(error)), err=True)
        click.echo(as_called(as_paragraph(error)), err=True)
        return exit_code(error)


def _dispatch(words: list[str]) -> int:
    # Imported late, because a verb needs no Hydra and a run needs no verb.
    if words and _is_verb_like(words[0]):
        from ltrbench.cli.verbs import all_verbs, find_verb, verbs

        if find_verb(words[0]) is None:
            known = list(all_verbs())
            raise ConfigError(
                f"unknown verb '{words[0]}'{did_you_mean(words[0], known)} The verbs are {', '.join(known)}. "
                "Everything else is an override, key=value, or a flag."
            )
        outcome = verbs.main(words, prog_name=program(), standalone_mode=False)
        return outcome if isinstance(outcome, int) else 0
    from ltrbench.cli.run.launch import launch

    # Before a job starts, because with hydra.job.chdir=true each job changes into its folder.
    search_current_folder()
    return launch(words)


def _is_verb_like(word: str) -> bool:
    # In Hydra's grammar "~key" deletes and "+key=value" adds; neither is a verb.
    return not word.startswith(("-", "+", "~")) and "=" not in word
