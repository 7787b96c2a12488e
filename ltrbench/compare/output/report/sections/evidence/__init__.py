"""Sections on claims and their evidence.

leaderboard   means, differences to the baseline, claims
pairs         every pair of models
folds         inference over folds
aa            each model against itself
power         minimum detectable differences, and the parts of the error
conventions   the same scores under every convention
"""
