"""One run of a backend on a data set.

loading   loads each data set once per process, watches a fit, and inspects a data set for every backend
run       load, warm up, timed fit, timed predict, evaluate, write, track
"""
