"""A run on disk: the primary record, from which tables, reports and tracking servers are derived.

The folder of a run contains

    result.json          the settings and results of the run: the fields of RunResult
    scores.npz           raw scores of valid and test in the dtype of the backend, with labels, query starts,
                         query ids, document ids and weights, so that any metric can be computed later; the
                         row numbers in the file, if the reader grouped rows by query; and a key per query,
                         which depends only on the documents of the query
    per_query.csv        one row per query of test, one column per metric, empty if skipped; before these the
                         number of documents, and the weight if queries have weights
    learning_curve.csv   one row per iteration
    importances.csv      one row per feature, one column per kind of importance
    input_example.csv    features of the first documents of test, one row per document: example input
    trials.csv           one row per trial of the search that chose the settings, if there was one
    model/               the files written by the ranker's `save`

A trial of a search has only result.json, learning_curve.csv, and scores.npz with the scores of valid.

`result.json` is written last, so a folder without it is not a run. Nothing is pickled.

    record      the fields of result.json, names of files; a run in memory; finds runs; loads their models
    writing     writes a run into a folder, which one process at a time uses
"""

from __future__ import annotations

from ltrbench.runs.record import LoadedModel, Run, RunResult, find_runs, load, read_run

__all__ = ["LoadedModel", "Run", "RunResult", "find_runs", "load", "read_run"]
