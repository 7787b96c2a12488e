"""Fairness checks, and differences, intervals and claims of pairs.

overlap     queries in several test sets
cells       evaluated runs of each row, and paired queries
searches    searches of tuned models, and notes on unequal budgets
fairness    mismatched data, and notes on inequalities
inference   scope of a claim
power       minimum detectable difference
pairs       difference, interval and claim of two models
"""
