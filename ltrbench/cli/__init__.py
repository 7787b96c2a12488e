"""The command line: a known verb goes to its command, all else to Hydra. Only this folder and `config` know
Hydra.

    verbs             the commands on runs, scores and data, a file each
    run               runs and sweeps, which Hydra composes
    help              what can be typed: --help and shell completion
    errors            what is printed of a mistake, and the exit codes
    files             what verbs read and write
    program           how this process was called
    lesson            the numbers of the verb `walkthrough`
    lesson.md         its words
    hydra_internals   the private modules of Hydra
"""

from __future__ import annotations

import os
import sys
import traceback

import click

from ltrbench.cli.errors import as_paragraph, debugging, exit_code
from ltrbench.cli.program import COMPLETING, as_called, program
from ltrbench.errors import ConfigError, did_you_mean
from ltrbench.user_modules import search_current_folder


def main(arguments: list[str] | None = None) -> int:
    """Runs one command line; returns its exit code: 0, 1 for a failed run, 2 for a mistake of the user."""
    words = sys.argv[1:] if arguments is None else arguments
    if COMPLETING in os.environ:
        from ltrbench.cli.help.completion import complete

        complete(words)
        return 0
    # Read when a library starts its threads: threads that spin while they wait slow the next backend down
    # tenfold.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # MLflow otherwise sends reports of its use over the network; who wants that sets it to false.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    try:
        return _dispatch(words)
    except Exception as error:
        if debugging():
            click.echo("".join(traceback.format_exception(error)), err=True)
        click.echo(as_called(as_paragraph(error)), err=True)
        return exit_code(error)


def _dispatch(words: list[str]) -> int:
    # Imported late: a verb needs no Hydra, and a run needs none of the verbs.
    if words and _is_verb_like(words[0]):
        from ltrbench.cli.verbs import all_verbs, find_verb, verbs

        if find_verb(words[0]) is None:
            known = list(all_verbs())
            raise ConfigError(
                f"unknown verb '{words[0]}'{did_you_mean(words[0], known)} Verbs are {', '.join(known)}; "
                "anything else is an override, key=value, or a flag."
            )
        outcome = verbs.main(words, prog_name=program(), standalone_mode=False)
        return outcome if isinstance(outcome, int) else 0
    from ltrbench.cli.run.launch import launch

    # Before a job starts, because with hydra.job.chdir=true each runs in its own folder.
    search_current_folder()
    return launch(words)


def _is_verb_like(word: str) -> bool:
    # "~key" deletes and "+key=value" adds in Hydra's grammar; neither is a verb.
    return not word.startswith(("-", "+", "~")) and "=" not in word
