"""Answers without Spark: one immutable DuckDB file per version, the macros inside it, and the doors to it.

facts.py       what a publisher must know about each stream
build.py       nodes and facts -> the tables of one new file
gate.py        totals of the new file against those the nodes came with
publish.py     build, gate, rename, move the pointer, collect what no reader holds
versions.py    the pointer, the versions, and the shared lock that keeps one alive
locked.py      the one way a published file is opened
sandbox.py     the door: the current version, and statements of other people under hard limits
guard.py       which statement is let through the door
worker.py      the process that runs one such statement
literals.py    values and names as SQL text
ask.py         one range question -> answers; by the macros, or exactly from raw rows
raw.py         the exact answer, read from raw rows
point.py       the short way to one series
parts.py       by more keys than fit in memory at once
series.py      an aggregate over evenly spaced buckets, for charts
plan.py        what is kept of a stream at which age, and what a changed declaration will do
query_facts.py     what a publisher must know about each registered query
build_queries.py   pairs and periods of registered queries -> tables of the new file
queries.py     registered queries as they stand: what they took in, found, hold and owe
completeness.py  recall of a query's periods, its misses and waits
explain.py     all that is known of one query
status.py      what is published, how old it is, what waits in quarantine, how each job ended
"""
