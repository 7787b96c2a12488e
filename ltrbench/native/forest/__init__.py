"""Many trees: the scores that they give, and what each feature adds to them.

In reading order:

    bits           64-document bitmasks that route documents through a tree
    scoring        many trees, and the scores that they give
    checks         a forest from a file, checked before its scores are computed
    tree_shap      what each feature adds to a score
"""
