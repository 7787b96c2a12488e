"""Names of the files in the folder of a run."""

from __future__ import annotations

RESULT_FILE = "result.json"
SCORES_FILE = "scores.npz"
PER_QUERY_FILE = "per_query.csv"
CURVE_FILE = "learning_curve.csv"
IMPORTANCES_FILE = "importances.csv"
EXAMPLE_FILE = "input_example.csv"
TRIALS_FILE = "trials.csv"
MODEL_FOLDER = "model"
RUN_FILES = (
    MODEL_FOLDER,
    SCORES_FILE,
    PER_QUERY_FILE,
    CURVE_FILE,
    IMPORTANCES_FILE,
    EXAMPLE_FILE,
    TRIALS_FILE,
    RESULT_FILE,
)
"""Files of a run, in the order in which they are moved to its folder."""

RUN_REMEDY = "Run it again, or copy its folder again from its source"
"""Remedy for a file of a run that cannot be read."""
