"""Search for hyperparameters on validation data, with equal budgets for all models.

base      the contract of a search, the settings that it varies and their ranges, pruning, and the grid
sampled   random search, TPE and successive halving, drawn by Optuna
"""
