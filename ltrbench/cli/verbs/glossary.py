"""The verb `glossary`: the meaning of a column or note of a comparison."""

from __future__ import annotations

import click

from ltrbench.cli.files import echo, terminal_width
from ltrbench.glossary import find_term, glossary
from ltrbench.tables import paragraph


@click.command("glossary")
@click.argument("term", nargs=-1)
def glossary_verb(term: tuple[str, ...]) -> None:
    """Prints the meaning of TERM, a column or note of a comparison, or without TERM all terms.

    \b
        python -m ltrbench glossary
        python -m ltrbench glossary simultaneous interval
    """
    if not term:
        echo("\n".join(glossary()))
        return
    name = find_term(" ".join(term))
    echo(f"{name}\n\n{paragraph(glossary()[name], terminal_width())}")
