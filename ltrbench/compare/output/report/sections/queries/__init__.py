"""Sections on single queries and kinds of queries."""
