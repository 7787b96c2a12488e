"""One run of a backend on a data set.

run          loads, warms up, fits on the clock, predicts on the clock, evaluates, writes, mirrors
reuse        copies the training of an earlier run, where only a seed differs that changes nothing
inspection   what a data set holds, and what each backend would refuse or mishandle of it
"""
