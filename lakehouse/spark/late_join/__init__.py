"""Window joins over raw tables.

rows.py      raw rows of both streams, each in the buckets where it can meet partners
bucket.py    one bucket of one batch: state and rows in, pairs, log, state and figures out; no JVM
online.py    a batch of a query: every bucket, then state, outputs and figures, each once
repair.py    what the log says may be missing, looked for in raw
missed.py    what repairs tell a batch of the pairs that were missed
tables.py    the tables of a query
"""
