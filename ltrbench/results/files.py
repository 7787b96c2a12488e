"""The names of the files in a run's folder."""

from __future__ import annotations

RESULT_FILE = "result.json"
SCORES_FILE = "scores.npz"
PER_QUERY_FILE = "per_query.csv"
CURVE_FILE = "learning_curve.csv"
IMPORTANCES_FILE = "importances.csv"
EXAMPLE_FILE = "input_example.csv"
MODEL_FOLDER = "model"
RUN_FILES = (
    MODEL_FOLDER,
    SCORES_FILE,
    PER_QUERY_FILE,
    CURVE_FILE,
    IMPORTANCES_FILE,
    EXAMPLE_FILE,
    RESULT_FILE,
)
"""What a run writes into its folder, in the order in which it is moved there."""

RUN_REMEDY = "Run it again, or copy its folder again from where it came from"
"""What helps where a file of a run cannot be read."""
