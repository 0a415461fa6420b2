"""Summaries of a column's values that can be combined. Called by lakehouse/checks, ingest and storage."""
