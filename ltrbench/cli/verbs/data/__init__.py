"""Verbs on files of data and of scores."""
