"""Verbs on data files and score files.

inspect    summarizes a data set
evaluate   metrics of a score file; also `conventions`: the same under every convention
explain    the lambdas of one query
data       commands that prepare data sets; each is a file in subcommands
"""
