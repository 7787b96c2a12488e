"""Verbs that help: `completion`, `glossary`.

The verb `completion`: the scripts that bash, zsh and fish run when the user presses tab.

Each script passes the words up to the cursor to `ltrbench` and reads one candidate per line: the word, a tab,
a description. A candidate that ends in `=`, `.` or `/` is incomplete, so no blank follows it.
"""

from __future__ import annotations

import click

from ltrbench.cli.console import COMPLETING, SCRIPT, echo, terminal_width
from ltrbench.glossary import find_term, glossary
from ltrbench.tables import paragraph

# bash splits words at "=" and ":" and replaces only the last part, so the script removes the parts before it
# from the candidates.
_BASH = """\
_ltrbench_completion() {
    local line="${COMP_LINE:0:COMP_POINT}" value rest kept=""
    local -a words
    read -ra words <<< "$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    local word="${words[${#words[@]}-1]}"
    if [[ "$COMP_WORDBREAKS" == *=* && "$word" == *=* ]]; then
        kept="${word%"${word##*[=:]}"}"
    fi
    COMPREPLY=()
    while IFS=$'\\t' read -r value rest; do
        COMPREPLY+=("${value#"$kept"}")
    done < <(VARIABLE=bash "${words[0]}" "${words[@]:1}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == *[=./] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o nosort -F _ltrbench_completion SCRIPT 2>/dev/null || complete -F _ltrbench_completion SCRIPT
"""

_ZSH = """\
#compdef SCRIPT
_ltrbench_completion() {
    local line value
    local -a whole whole_shown begun begun_shown
    for line in "${(@f)$(VARIABLE=zsh "${words[1]}" "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        value="${line%%$'\\t'*}"
        [[ -z "$value" ]] && continue
        if [[ "$value" == *[=./] ]]; then
            begun+=("$value")
            begun_shown+=("${line/$'\\t'/  }")
        else
            whole+=("$value")
            whole_shown+=("${line/$'\\t'/  }")
        fi
    done
    (( $#begun )) && compadd -Q -l -S '' -d begun_shown -a begun
    (( $#whole )) && compadd -Q -l -d whole_shown -a whole
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _ltrbench_completion "$@"
else
    compdef _ltrbench_completion SCRIPT
fi
"""

_FISH = """\
function __ltrbench_completion
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    env VARIABLE=fish $words[1] $words[2..-1] "$word" 2>/dev/null
end
complete --command SCRIPT --no-files --arguments '(__ltrbench_completion)'
"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(_SCRIPTS)))
def completion_verb(shell: str) -> None:
    """Prints the script for one shell that completes ltrbench's verbs, options, settings and values.

    \b
        bash, in ~/.bashrc:  eval "$(ltrbench completion bash)"
        zsh, in ~/.zshrc:    eval "$(ltrbench completion zsh)"     (after: autoload -U compinit; compinit)
        fish:                ltrbench completion fish > ~/.config/fish/completions/ltrbench.fish
    """
    click.echo(_SCRIPTS[shell].replace("VARIABLE", COMPLETING).replace("SCRIPT", SCRIPT), nl=False)


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
