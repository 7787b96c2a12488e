"""Studies: experiments that are not runs of a model.

base          interface of a study
parity        compares the presets of the native engine with the libraries
halving       regret of successive halving
curves        validation curves of many settings, kept in files
ablation      trains a tuned model with one setting at a time back at its default
calibration   measures the error rates of the statistics
"""
