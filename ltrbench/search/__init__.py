"""Search for hyperparameters on validation data, with equal budgets for all models.

base          the contract of a search: proposals and trials
space         the settings that a search varies, and their ranges
random        random search
tpe           tree-structured Parzen estimator, which learns from earlier trials
halving       successive halving: few trees for many settings, more for the best
grid          every combination of evenly spaced values
choice        trials from their run folders, the choice of the best, its record
pruning       ends fits of random search and TPE by the learning curves of earlier trials
optuna_study  Optuna: draws settings, computes importances, writes a file for its dashboard
"""
