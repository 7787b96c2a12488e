# bash splits words at "=" and ":" and replaces only the last part, so the parts before it are removed from the
# candidates.
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
    while IFS=$'\t' read -r value rest; do
        COMPREPLY+=("${value#"$kept"}")
    done < <(VARIABLE=bash "${words[0]}" "${words[@]:1}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == *[=./] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o nosort -F _ltrbench_completion SCRIPT 2>/dev/null || complete -F _ltrbench_completion SCRIPT
