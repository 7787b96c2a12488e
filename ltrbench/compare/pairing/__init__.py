"""Which runs may be compared, and what a pair of them shows.

overlap      queries in several test sets
cells        runs by label and cell (data, fold, split)
fairness     what was not held equal
inference    the scope of a claim
power        the smallest difference that the queries can show
pairs        difference, interval and claim of two models
"""
