"""Answers without Spark: one immutable DuckDB file per version, the macros inside it, and the doors to it.

facts.py       what a publisher must know about each stream, and about every registered query
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
pair_facts.py  multiway_facts.py  aggregate_facts.py  selection_facts.py   the same for each kind
query_facts.py what all kinds have
build_queries.py   registered queries -> tables of the new file; catalogue.py adds their rows
build_pairs.py     pairs and how complete they are; build_results.py: results of three streams or more
build_selected.py  rows of selections; query_rows.py: the table that these three fill
build_answers.py   answers at ticks, revisions, alarms
answer_series.py   an output of a join-aggregate over evenly spaced buckets of ticks, for charts
queries.py     registered queries as they stand; query_state.py: what they took in, hold and owe
joins.py  multiway_joins.py  aggregates.py  selections.py   the same for each kind
operators.py   their conditions that are asked one by one, as batches measured them
completeness.py  recall of a join's periods, its misses and waits
live_answers.py  answers and alarms of a join-aggregate before they are published
explain.py  explain_multiway.py  explain_aggregate.py  explain_selection.py   all that is known of one query
status.py      what is published, how old it is, what waits in quarantine, how each job ended
"""
