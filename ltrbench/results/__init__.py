"""A run on disk: the source of truth, which tables, reports and tracking servers are read from.

A run's folder holds

    result.json          what was run and what came out: the fields of RunResult
    scores.npz           raw scores of valid and test in the backend's own dtype, with labels, query starts,
                         query ids, document ids and weights: any metric can be computed from it later; and
                         the rows' places in the file, where a reader brought the rows of queries together;
                         and a key for each query, which is the same wherever its documents are the same
    per_query.csv        a row a query of test, a column a metric; empty where a query is skipped
    learning_curve.csv   a row an iteration
    importances.csv      a row a feature, a column a kind of importance
    input_example.csv    the features of the first documents of test, a row a document: what the model takes
    model/               what the ranker's `save` wrote

`result.json` is written last, so that a folder without it is not a run. Nothing here is pickled.

    files       the names of those files
    record      what result.json holds
    overrides   overrides as command lines spell them
    run         a run in memory
    reading     finding and reading runs
    writing     claiming a folder, and writing a run into it
"""

from ltrbench.results.files import (
    CURVE_FILE,
    EXAMPLE_FILE,
    IMPORTANCES_FILE,
    MODEL_FOLDER,
    PER_QUERY_FILE,
    RESULT_FILE,
    RUN_FILES,
    SCORES_FILE,
)
from ltrbench.results.reading import find_runs, holds_runs, read_run
from ltrbench.results.record import (
    FAILED,
    FINISHED,
    FUSED,
    IMPORTED,
    NO_PARAMETERS,
    OWN,
    TIMES,
    RunResult,
    check_readable,
)
from ltrbench.results.run import LearningCurve, Run, ScoredSplit, mean_importances, naming
from ltrbench.results.writing import claim, copy_run, occupy, write_run

__all__ = [
    "CURVE_FILE",
    "EXAMPLE_FILE",
    "FAILED",
    "FINISHED",
    "FUSED",
    "IMPORTANCES_FILE",
    "IMPORTED",
    "MODEL_FOLDER",
    "NO_PARAMETERS",
    "OWN",
    "PER_QUERY_FILE",
    "RESULT_FILE",
    "RUN_FILES",
    "SCORES_FILE",
    "TIMES",
    "LearningCurve",
    "Run",
    "RunResult",
    "ScoredSplit",
    "check_readable",
    "claim",
    "copy_run",
    "find_runs",
    "holds_runs",
    "mean_importances",
    "naming",
    "occupy",
    "read_run",
    "write_run",
]
