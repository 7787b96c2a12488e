"""Rows with expected scores as requests of an engine, whose answer `ship --check` compares.

plugins     documents of an index, and features that read their fields, for Elasticsearch and OpenSearch
solr        documents of a collection, and features that read their fields
vespa       an application whose documents have the features as attributes
letor       rows as LETOR text, for RankLib
"""
