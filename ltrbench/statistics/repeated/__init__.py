"""Statistics of training that was repeated.

folds        over folds: corrected resampled t, Bayesian correlated t
replicates   several trainings: multi-reader multi-case analysis, resampled training sets, folds
aa           one model against itself: halvings of its replicates
power        the minimum detectable difference; the queries, trainings or folds that one needs
"""
