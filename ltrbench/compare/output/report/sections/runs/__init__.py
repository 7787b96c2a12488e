"""Sections on the runs.

curves            NDCG@k, and learning curves
costs             times, sizes, memory
importances       importances of features
hyperparameters   settings side by side
data_card         the data, and published values
notes             notes by group, with links to the glossary
"""
