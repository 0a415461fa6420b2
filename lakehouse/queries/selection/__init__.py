"""Selections: rows of one stream by comparisons and predicates, read by scans that several queries share."""
