"""What the statistics promise, measured: tests that reject as often as they say, intervals that cover.

Everything is judged by the code that judges a comparison, where the true difference is known.

    study                Calibration, of made-up values: conf/experiment/calibration.yaml runs it
    tests_and_intervals  trained models, on queries drawn from a population
    two_way              methods whose training varies as well as queries
    linear_learner       resampled training sets, and folds, of a learner that is linear in its data
    models               ModelCalibration, of models of the native engine: calibration_models.yaml runs it
    training_data        what these are trained and tested on
    rates                counts with their upper bounds, and tables of them
"""

from ltrbench.studies.calibration.models import Exchangeable, ExchangeableFolds, ModelCalibration, SameMethod
from ltrbench.studies.calibration.study import Calibration

__all__ = ["Calibration", "Exchangeable", "ExchangeableFolds", "ModelCalibration", "SameMethod"]
