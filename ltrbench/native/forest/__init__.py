"""Forests: the scores of many trees, and the contribution of each feature to a score.

In reading order:

    bits           64-document bitmasks that route documents through a tree
    scoring        forests, and the scores of documents
    replaced       scores of documents with other values of one feature
    binned         scores of documents from their bins, during a fit
    stored         scores of sparse documents from their stored values
    checks         validation of a forest that was read from a file
    tree_shap      contributions of features to a score
"""
