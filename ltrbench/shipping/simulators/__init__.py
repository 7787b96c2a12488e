"""Evaluators of engines that are not Python packages: they parse a written file and score as the engine does.

plugin_definitions          models as the plug-ins of Elasticsearch and OpenSearch read and score them
learning_to_rank_plugins    the export to these plug-ins
ranklib                     RankLib's models of trees
solr                        models of Apache Solr's Learning to Rank module
vespa_import                models as Vespa imports them
vespa                       imported models as Vespa's content nodes score them
"""
