"""Native LambdaMART, written to be read; `python -m ltrbench walkthrough` shows it on ten documents.

Start with the reference: the algorithm with its default settings on one page of NumPy, independent of all
other files. A test requires that the engine grows the same trees.

    reference      bins, lambdas, splits, trees, boosting, prediction

For the engine itself start at the loop in `boosting` and follow its calls. The core has about 1,200 lines of
code without docstrings and comments. Each file imports only from files above it:

    objectives/lambdas  gradients and hessians of NDCG
    bins                feature values to small integers; the documents of a leaf moved to its children
    histogram           sums of gradients and hessians per bin, which do not depend on the order of documents
    splitting           the best split of a leaf
    nodes               the arrays of a tree
    growing             growing one tree
    boosting            the loop over trees, samples of queries and documents, DART

Objectives and the growth of trees do not import each other. Other files:

    objectives     gradients and hessians of every objective, in the dialect of every library
    sparse         bins of sparse features; exclusive feature bundling
    forest         scores of many trees
    attribution    TreeSHAP
    team           the members of a fit, among which the queries are divided
    warm_up        compiles what the data of a fit need, in two processes, before timing starts

A file with a compiled loop contains, in this order, the formula, the plain NumPy reference, the public
function and the loop. A test compares reference and loop. Stored results have the same bits on any number of
threads: threads only compute independent outputs. Sums over the documents of several queries are sums of
integers, so that they do not depend on the order of queries; sums over a query have a fixed order.
"""
