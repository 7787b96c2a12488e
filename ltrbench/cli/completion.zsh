#compdef SCRIPT
_ltrbench_completion() {
    local line value
    local -a whole whole_shown begun begun_shown
    for line in "${(@f)$(VARIABLE=zsh "${words[1]}" "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        value="${line%%$'\t'*}"
        [[ -z "$value" ]] && continue
        if [[ "$value" == *[=./] ]]; then
            begun+=("$value")
            begun_shown+=("${line/$'\t'/  }")
        else
            whole+=("$value")
            whole_shown+=("${line/$'\t'/  }")
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
