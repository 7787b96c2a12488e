"""Sections on single queries and kinds of queries.

distribution     the metric over queries
query_by_query   differences by query, and by kinds of queries
risk             URisk, TRisk and GeoRisk
"""
