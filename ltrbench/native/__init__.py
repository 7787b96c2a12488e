"""Native LambdaMART: the algorithm to be read; `python -m ltrbench walkthrough` follows it on ten documents.

Read this first: the algorithm with its default settings on one page of NumPy, without any of the other files.
A test requires that the engine grows the same trees.

    reference      bins, lambdas, cuts, trees, boosting, prediction

For the engine itself start at the loop in `boosting`, and follow its calls. The core, about 1,100 lines of
code beside their prose, each file importing only from those above it:

    lambdas        the gradients of NDCG: which way each document should move, and how far
    binning        feature values to small integers
    histogram      sums of gradients by bin
    splitting      the best cut of a leaf
    partition      a leaf's documents shared out between those below its cut
    tree           what a grown tree is
    grower         growing one tree
    boosting       the loop over trees

What the trees are fitted to, in every library's dialect:

    ranking        the order of a query's documents, from that of the last iteration
    dialects       what implementations differ in, as named settings, and what the libraries have there
    pairs          the specification: the lambdas of one query pair by pair
    pairwise       the same compiled, for every pairwise objective; `lambdas` is native's own, faster
    swaps          what a metric changes by when two documents change places, laid out for `pairwise`
    xendcg         a cross entropy instead of pairs
    objectives     a data set and any of these settings to a function from scores to gradients
    position_bias  clicks corrected for the position shown, by a term of the score
    propensity     the same by a weight of pairs

What a tree sees, and how it grows:

    equal_width    where RankLib cuts a feature
    sampling       the queries, documents and features that a tree learns from
    goss           the documents of the largest gradients, and some of the rest
    constrained    splitting with monotone features and an l1 penalty
    growth         which leaf is cut next
    fast_growth    the steps of `grower` in one compiled loop, where the leaf of the highest gain is cut next

What becomes of the trees:

    bits           words of a bit a document, in which they go down a tree
    forest         many trees, and the scores that they give
    forest_checks  a forest from a file, checked before its scores are computed
    dart           earlier trees left out while a new one is learned
    ensemble       the trees so far, their weights, and the scores that they give
    tree_shap      what each feature adds to a score

Before any of it is timed:

    warm_up        all of it compiled, by two processes

A file with a compiled loop reads from the formula to the plain NumPy reference, the public function, and the
loop; a test holds reference and loop together. What is stored has the same bits on any number of threads:
threads share out independent outputs only, and sums over documents are of integers or in a fixed order.
"""
