"""A fifth kind of query, a sample of a stream's rows: what a kind must have, and nothing besides.

SELECT place, temp FROM doors SAMPLE 4      one row of four, by the hash of where it came from
"""
