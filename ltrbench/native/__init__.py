"""Native LambdaMART: the algorithm to be read; `python -m ltrbench walkthrough` follows it on ten documents.

Read this first: the algorithm with its default settings on one page of NumPy, without any of the other files.
A test requires that the engine grows the same trees.

    reference      bins, lambdas, cuts, trees, boosting, prediction

For the engine itself start at the loop in `boosting`, and follow its calls. The core, about 1,200 lines of
code beside their prose, each file importing only from those above it:

    objectives/lambdas  the gradients of NDCG: which way each document should move, and how far
    tree/binning        feature values to small integers
    tree/histogram      sums of gradients by bin
    tree/splitting      the best cut of a leaf
    tree/partition      a leaf's documents shared out between those below its cut
    tree/nodes          what a grown tree is
    tree/grower         growing one tree
    boosting            the loop over trees

Three folders, each of which lists its files in reading order. `objectives` and `tree` do not import from each
other, `forest` imports from `tree`; of the files here they import `settings` alone:

    objectives     what the trees are fitted to, in every library's dialect
    tree           what a tree sees, and how it grows
    forest         the scores of many trees, and what each feature adds to them

What the loop uses besides:

    settings       how a setting is declared, once: its default, range and documentation
    sampling       the queries, documents and features that a tree learns from
    dart           earlier trees left out while a new one is learned
    ensemble       the trees so far, their weights, and the scores that they give

Before any of it is timed:

    warm_up        all of it compiled, by two processes

A file with a compiled loop reads from the formula to the plain NumPy reference, the public function, and the
loop; a test holds reference and loop together. What is stored has the same bits on any number of threads:
threads share out independent outputs only, and sums over documents are of integers or in a fixed order.
"""
