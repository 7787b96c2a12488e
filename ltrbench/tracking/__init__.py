"""Tracking of runs in external stores. Each tracker is one file; only its YAML imports it.

base              the Tracker contract, and NoTracking
mlflow            logs run folders to MLflow
mlflow_store      the connection to an MLflow store
mlflow_copies     copies of run folders in an MLflow experiment
mlflow_entities   tags, parameters, metrics and data sets of a run in MLflow
mlflow_models     models in MLflow
mlflow_view       the columns of MLflow's run list
evaluator         the metrics of ltrbench in `mlflow.models.evaluate`
system_metrics    CPU, memory, disk and network usage during a run
"""

from ltrbench.tracking.base import NoTracking, Tracker

__all__ = ["NoTracking", "Tracker"]
