"""Verbs on files of data and of scores.

inspect    what a data set holds
evaluate   the metrics of a file of scores; `conventions` too: the same under every convention
explain    the lambdas of one query
"""
