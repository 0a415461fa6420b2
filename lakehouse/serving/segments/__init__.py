"""Segments that versions share: nodes and rows in immutable files, merged as a log-structured merge tree."""
