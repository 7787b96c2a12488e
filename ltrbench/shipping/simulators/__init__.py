"""Evaluators of engines that do not run in Python: they parse a written file and score as the engine does.

ranklib    RankLib's models of trees
solr       models of Apache Solr's Learning to Rank module
"""
