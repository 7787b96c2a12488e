"""The verb `walkthrough`: LambdaMART on ten documents."""

from __future__ import annotations

import click

from ltrbench.cli.files import echo


@click.command("walkthrough")
def walkthrough_verb() -> None:
    """Teaches LambdaMART on ten documents, step by step, in numbers that the native engine computes.

    \b
        python -m ltrbench walkthrough
    """
    from ltrbench.cli.lesson import tell

    echo(tell())
