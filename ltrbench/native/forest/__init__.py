"""Many trees: the scores that they give, and what each feature adds to them.

In reading order:

    bits           words of a bit a document, in which they go down a tree
    scoring        many trees, and the scores that they give
    checks         a forest from a file, checked before its scores are computed
    tree_shap      what each feature adds to a score
"""
