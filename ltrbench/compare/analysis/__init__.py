"""What a comparison says.

verdict       the comparison in a few sentences
methods       how it was tested, in words
next_step     the command that would allow a claim
slices        differences by kinds of queries
across        tests over several data sets
aa            each model against itself
importances   features of several models side by side
"""
