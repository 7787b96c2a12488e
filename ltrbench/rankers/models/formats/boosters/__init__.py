"""Model files of LightGBM and XGBoost, which other libraries and engines read too.

xgboost_json     XGBoost's model files, JSON and UBJSON
xgboost_dump     XGBoost's dump, which search engines read
"""
