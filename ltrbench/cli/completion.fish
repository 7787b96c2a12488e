function __ltrbench_completion
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    env VARIABLE=fish $words[1] $words[2..-1] "$word" 2>/dev/null
end
complete --command SCRIPT --no-files --arguments '(__ltrbench_completion)'
