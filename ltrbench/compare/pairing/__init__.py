"""Which runs may be compared, and what a pair of them shows.

overlap     queries in several test sets
cells       the evaluated runs of each row, and their queries in pairs
fairness    what was not held equal
inference   the scope of a claim
power       the smallest difference that the queries can show
pairs       difference, interval and claim of two models
"""
