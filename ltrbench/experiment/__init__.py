"""One run of a backend on a data set.

loading      loads each data set once per process
run          load, warm up, timed fit, timed predict, evaluate, write, track
places       where a run works: in this process, or on several workers together
watching     the learning curve and the progress of a fit
parameters   the shared parameters of a ranker, and the settings that replace them
drift        compares the metrics of a library with those of ltrbench
reuse        copies the training of an earlier run that differs only in a seed without effect
inspection   summarizes a data set, with its problems for each backend
"""
