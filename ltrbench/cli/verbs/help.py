"""Verbs that help: `completion`, `glossary`.

The scripts of `completion` run when the user presses tab. Each passes the words up to the cursor to
`ltrbench` and reads one candidate per line: the word, a tab, a description. A candidate that ends in `=`, `.`
or `/` is incomplete, so no blank follows it.
"""

from __future__ import annotations

from pathlib import Path

import click

from ltrbench.cli.console import COMPLETING, SCRIPT, echo, terminal_width
from ltrbench.glossary import find_term, glossary
from ltrbench.tables import paragraph


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_verb(shell: str) -> None:
    """Prints the script for one shell that completes ltrbench's verbs, options, settings and values.

    \b
        bash, in ~/.bashrc:  eval "$(ltrbench completion bash)"
        zsh, in ~/.zshrc:    eval "$(ltrbench completion zsh)"     (after: autoload -U compinit; compinit)
        fish:                ltrbench completion fish > ~/.config/fish/completions/ltrbench.fish
    """
    script = Path(__file__).parents[1].joinpath(f"completion.{shell}").read_text(encoding="utf-8")
    click.echo(script.replace("VARIABLE", COMPLETING).replace("SCRIPT", SCRIPT), nl=False)


# ---- The verb `glossary`: the meaning of a column or note of a comparison.


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
