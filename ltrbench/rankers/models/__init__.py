"""Trained models: trees, feature importances, and model files.

    trees             one representation of trees for all backends
    scoring           scores of that representation
    importance        feature importances that can be compared across backends
    shuffling         shuffles of the values of a feature
    loading           loads a saved model by the name of its class
    saved             checks the model that a run has saved
    formats           model files of other libraries and engines
    xgboost_ubjson    checks XGBoost's model files
    splits            checks the nodes of trees, for every format

The model files of other libraries are checked before the library's parser reads them.
"""
