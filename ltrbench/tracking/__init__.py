"""Tracking: where runs are shown. Each tracker is one file, imported by its YAML only.

base              the contract, and no tracking
mlflow            MLflow, fed from run folders
mlflow_entities   tags, parameters, metrics and data sets of a run in MLflow
mlflow_models     models in MLflow
mlflow_view       the columns of MLflow's run list
evaluator         our metrics in `mlflow.models.evaluate`
system_metrics    processor, memory, disk and network during a run
"""

from ltrbench.tracking.base import NoTracking, Tracker

__all__ = ["NoTracking", "Tracker"]
