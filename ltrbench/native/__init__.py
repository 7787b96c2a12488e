"""Native LambdaMART, written to be read; `python -m ltrbench walkthrough` shows it on ten documents.

Start with the reference: the algorithm with its default settings on one page of NumPy, independent of all
other files. A test requires that the engine grows the same trees.

    reference      bins, lambdas, splits, trees, boosting, prediction

For the engine itself start at the loop in `boosting` and follow its calls. The core has about 1,200 lines of
code without docstrings and comments. Each file imports only from files above it:

    objectives/lambdas  gradients and hessians of NDCG
    tree/binning        feature values to small integers
    tree/histogram      sums of gradients and hessians per bin
    tree/splitting      the best split of a leaf
    tree/partition      the documents of a leaf moved to its two children
    tree/nodes          the arrays of a tree
    tree/grower         growing one tree
    boosting            the loop over trees

There are three folders, each of which lists its files in reading order. `objectives` and `tree` do not import
from each other, and `forest` imports from `tree`. From the files here, they import only `settings`, `sums`
and `team`:

    objectives     gradients and hessians of every objective, in the dialect of every library
    tree           binning of features, and growing one tree
    forest         scores of many trees, and the contribution of each feature

Other files that the loop uses:

    settings       declaration of a setting: default, range and documentation in one place
    sampling       samples of queries, documents and features for each tree
    dart           DART: earlier trees dropped while a new one is fitted
    ensemble       the trees so far, their weights and their scores
    sums           sums over documents that do not depend on the order of documents
    team           the members of a fit, among which the queries are divided

Before timing starts:

    warm_up        compiles everything, in two processes

A file with a compiled loop contains, in this order, the formula, the plain NumPy reference, the public
function and the loop. A test compares reference and loop. Stored results have the same bits on any number of
threads: threads only compute independent outputs. Sums over the documents of several queries are sums of
integers, so that they do not depend on the order of queries; sums over a query have a fixed order.
"""
