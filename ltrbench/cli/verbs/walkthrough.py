"""The verb `walkthrough`: LambdaMART on ten documents."""

from __future__ import annotations

import click

from ltrbench.cli.files import echo


@click.command("walkthrough")
def walkthrough_verb() -> None:
    """Explains LambdaMART step by step on ten documents.

    The native engine computes every number.

    \b
        python -m ltrbench walkthrough
    """
    from ltrbench.cli.lesson import tell

    echo(tell())
