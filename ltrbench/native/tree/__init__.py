"""One tree: from feature values to bins, from gradients to splits, and from splits to leaves.

In reading order, the core first:

    binning        feature values to small integers
    histogram      sums of gradients and hessians per bin
    splitting      the best split of a leaf
    partition      the documents of a leaf moved to its two children
    nodes          the arrays of a tree
    grower         growing one tree

and then variants that depend on settings:

    constrained    splitting with monotone constraints and an l1 penalty
    joint          the split of a leaf whose documents several members have
    fast_growth    the steps of `grower` for best-first growth, in one compiled loop
    sparse         bins of sparse features, with one byte for several features
"""
