"""Summaries of a column's values that can be combined. Called by lakehouse/checks.

summary.py      moments, quantiles and distinct values of numbers, of parts of a column
"""
