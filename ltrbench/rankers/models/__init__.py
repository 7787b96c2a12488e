"""Trained models: their trees, their importances, and their files.

    trees             trees in one form for every backend
    importance        importances of features, in kinds that can be compared
    loading           loads a saved model by the name of its class
    saved             checks a model that was just saved
    lightgbm_text     checks of LightGBM's model files
    xgboost_ubjson    checks of XGBoost's model files
    splits            checks of nodes, for every format

Model files of other libraries are checked before their own parsers read them.
"""
