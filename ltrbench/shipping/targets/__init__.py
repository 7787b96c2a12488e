"""The targets of `ship`: a file for each, named as in `--to`, with one class that derives from `Target`.

elasticsearch    the plug-in Elasticsearch Learning to Rank
opensearch       the plug-in OpenSearch Learning to Rank
solr             Apache Solr's Learning to Rank module
vespa            Vespa
lightgbm         LightGBM's model file
xgboost          XGBoost's model file
ranklib          RankLib's model file
onnx             ONNX
treelite         treelite
c                a C function
"""
