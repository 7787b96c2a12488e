"""Sections on the runs.

curves            NDCG@k, and learning curves
costs             times, sizes, memory
importances       importances of features
hyperparameters   settings side by side
data_card         the data, and published figures
notes             what a reader of the numbers must know
"""
