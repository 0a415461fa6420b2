"""Answers without Spark: one immutable DuckDB file per version, the macros inside it, and the ways to ask it.

``README.md`` says how an answer and its interval are made.
"""
