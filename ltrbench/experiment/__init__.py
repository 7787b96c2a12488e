"""One run of a backend on a data set.

run          loads, warms up, fits on the clock, predicts on the clock, evaluates, writes, mirrors
watching     the learning curve and the progress of a fit
parameters   which shared parameters a ranker was given, and which settings it has instead
drift        whether a library's own metrics agree with ours
reuse        copies the training of an earlier run, where only a seed differs that changes nothing
inspection   what a data set holds, and what each backend would refuse or mishandle of it
"""
