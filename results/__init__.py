"""Committed results. A study that is not a sweep of runs has its code beside its results, as run.py.

Each run.py has one class derived from `ltrbench.study.Study`, which the `study.what._target_` of a YAML in
conf/experiment names. `python -m ltrbench experiment=NAME` in the root of a checkout runs it.

    parity              compares the presets of the native engine with the libraries
    calibration         measures the error rates of the statistics, on simulated values
    calibration_models  the same with trained models of the native engine
    click_estimators    coverage and bias of the estimates from clicks, on simulated logs
"""
