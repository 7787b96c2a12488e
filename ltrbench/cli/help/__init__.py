"""What can be typed: the page of `--help`, shell completion, and the settings.

page         what `--help` shows around the values
completion   completion in the shell: verbs with their options, and overrides
settings     each key of conf/ with its value and its comment
"""
