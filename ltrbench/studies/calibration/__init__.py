"""Measured error rates of the statistics: levels of tests, and coverage of intervals.

The studies use the same code as a comparison, on data with a known true difference.

    study                Calibration, on simulated values; run by conf/experiment/calibration.yaml
    tests_and_intervals  trained models, on queries drawn from a population
    two_way              methods, with variation of training and of queries
    linear_learner       resampled training sets and folds, with a learner that is linear in its data
    models               ModelCalibration, with models of the native engine; run by calibration_models.yaml
    training_data        training and test data of these models
    rates                counts with upper bounds, and their tables
"""

from ltrbench.studies.calibration.models import Exchangeable, ExchangeableFolds, ModelCalibration, SameMethod
from ltrbench.studies.calibration.study import Calibration

__all__ = ["Calibration", "Exchangeable", "ExchangeableFolds", "ModelCalibration", "SameMethod"]
