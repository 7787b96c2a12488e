"""One tree: from feature values to bins, from gradients to cuts, and from cuts to leaves.

In reading order, the core first:

    binning        feature values to small integers
    histogram      sums of gradients by bin
    splitting      the best cut of a leaf
    partition      a leaf's documents shared out between those below its cut
    nodes          what a grown tree is
    grower         growing one tree

and then what differs by settings:

    constrained    splitting with monotone features and an l1 penalty
    fast_growth    the steps of `grower` in one compiled loop, where the leaf of the highest gain is cut next
"""
