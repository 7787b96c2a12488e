"""Statistics of repeated training.

folds        over folds: corrected resampled t, Bayesian correlated t
replicates   several trainings: multi-reader multi-case analysis, resampled training sets, folds
aa           A/A test: one model against itself, by halves of its replicates
power        minimum detectable difference; required numbers of queries, trainings and folds
"""
