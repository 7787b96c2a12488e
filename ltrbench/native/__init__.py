"""Native LambdaMART: the algorithm to be read, one file a stage, each importing only from those before it.

    pairs       the lambdas of one query pair by pair, in every library's dialect: the specification
    lambdas     the gradients of NDCG: which way each document should move, and how far
    binning     feature values to small integers
    equal_width where RankLib cuts a feature
    histogram   sums of gradients by bin
    splitting   the best cut of a leaf
    constrained the best cut under an l1 penalty or monotone constraints
    tree        what a grown tree is, and the scores that many trees give
    growth      which leaf is cut next
    grower      growing one tree
    ensemble    the trees so far, their weights and the scores they give
    boosting    the loop over trees; start here, and follow its calls

Beside them, a file each, what other dialects of the loop need: sampling, goss, dart, position_bias (as in
LightGBM) and propensity (as in XGBoost).

A stage's file reads from the formula to the plain NumPy reference, the public function, and the compiled
loop; a test holds reference and loop together. What is stored has the same bits on any number of threads:
threads share out independent outputs only, and sums over documents are of integers or in a fixed order.
"""
