"""The page of `--help`, shell completion, and the explained settings.

page         the contents of the `--help` page
completion   shell completion of verbs, options and overrides
settings     each key of conf/ with its value and its comment
"""
