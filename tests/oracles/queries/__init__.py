"""Registered queries by hand."""
