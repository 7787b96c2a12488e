"""Studies that are no run of a model.

base          the contract
parity        holds the presets of the native engine to the libraries
search        tries settings on validation data
calibration   measures what the statistics promise
"""
