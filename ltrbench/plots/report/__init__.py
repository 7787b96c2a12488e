"""Pictures of the report only, and of searches.

differences     per-query differences, sorted
distributions   distribution of a metric over queries
scatter         two rows, query by query
ranks           critical-difference diagram
budgets         best value on validation by number of trials of a search
settings        settings of a search: importance, value against each
variances       components of the variance of each difference
"""
