"""Multiway joins of three to eight streams: only rows that can match are moved, on the cheapest route."""
