"""Verbs on several runs.

compare     compares finished runs
aa          compares each model with itself
reproduce   compares a rerun with committed results
"""
