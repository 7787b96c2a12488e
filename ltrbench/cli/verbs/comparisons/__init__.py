"""Verbs on several runs.

compare     finished runs side by side
aa          each model against itself
reproduce   a rerun against committed results
"""
