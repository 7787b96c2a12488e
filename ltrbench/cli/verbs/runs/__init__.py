"""Verbs on one run, or on the place where runs are tracked; `models.py` loads the model of a run."""
