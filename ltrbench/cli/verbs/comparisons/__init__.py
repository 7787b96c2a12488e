"""Verbs on several runs."""
