"""Bins of sparse features: memory and time in proportion to the stored values, and the trees of dense bins.

In reading order:

    layout         where the bin of a document in a column is stored, and how kernels read it
    thresholds     thresholds of all columns at once
    bundling       exclusive feature bundling: features that share a byte
    bins           from compressed sparse rows to bins
    sums           histograms from the stored bins
"""
