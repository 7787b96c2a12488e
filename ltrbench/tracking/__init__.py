"""Tracking of runs in external stores. Each tracker is one file; only its YAML imports it.

base              the Tracker contract, and NoTracking
mlflow            logs run folders to MLflow
mlflow_store      the connection to an MLflow store, and the copies of run folders in it
mlflow_entities   tags, parameters, metrics and data sets of a run in MLflow
mlflow_models     models in MLflow
evaluator         the metrics of ltrbench in `mlflow.models.evaluate`
"""

from ltrbench.tracking.base import NoTracking, Tracker

__all__ = ["NoTracking", "Tracker"]
