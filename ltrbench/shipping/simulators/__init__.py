"""Evaluators of engines that are not Python packages: they parse a written file and score as the engine does.

plugins   the plug-ins of Elasticsearch and OpenSearch
ranklib   RankLib's models of trees
solr      models of Apache Solr's Learning to Rank module
vespa     models as Vespa imports them, and as its content nodes score them
"""
