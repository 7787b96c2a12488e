"""Search for hyperparameters on validation data, with equal budgets for all models.

base      the contract of a search: proposals and trials
space     the settings that a search varies, and their ranges
choice    trials from their run folders, the choice of the best, its record
"""
