"""Pictures that the report alone shows.

differences     differences by query, sorted
distributions   a metric over queries
scatter         two rows, query by query
ranks           the critical-difference diagram
variances       the parts of the variance of each difference
"""
