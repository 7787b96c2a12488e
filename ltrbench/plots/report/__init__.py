"""Pictures of the report only.

differences     per-query differences, sorted
distributions   distribution of a metric over queries
scatter         two rows, query by query
ranks           critical-difference diagram
variances       components of the variance of each difference
"""
