"""Summaries of a column's values that can be combined. Called by lakehouse/checks, ingest and storage.

summary.py      moments, quantiles and distinct values of numbers, of parts of a column
run_kernels.py  values of runs counted by bin, and their smallest hashes
"""
