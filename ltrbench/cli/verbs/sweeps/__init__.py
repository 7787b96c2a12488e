"""Verbs on sweeps.

resume   runs the jobs of a sweep that have not finished
status   shows the state of each job
sync     stores runs in MLflow that are not stored yet
"""
