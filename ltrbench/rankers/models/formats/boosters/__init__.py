"""Model files of LightGBM and XGBoost, which other libraries and engines read too.

lightgbm_text    LightGBM's model files
lightgbm_trees   parser of LightGBM's model files, with the checks of the files of our own runs
lightgbm_json    LightGBM's dump, in the form that Vespa reads
xgboost_json     XGBoost's model files, JSON and UBJSON
xgboost_dump     XGBoost's dump, which search engines read
"""
