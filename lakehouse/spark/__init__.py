"""Adapters to Spark and Delta: the only package that imports pyspark and delta.

jars.py        which jars the session needs, and where they are; class_archive.py: so that it starts faster
session.py     one session per process
tables.py      Delta tables: idempotent append, read, lease
sources/       files, topics -> manifests -> lines -> typed rows
topics.py      what is not read yet of a stream's topics: fixed, counted, or given up
drain.py       the stream over manifests, each one an ingest batch
ingest.py      one ingest batch: records to raw, quarantine and ledger
duplicates.py  identity: the first accepted row stays
lateness.py    how far rows stand behind the newest time before them
quarantine.py  which rejected records are open, and taking them through again
rollup.py      raw rows -> nodes of every level; folding
entered.py     how many rows entered at each level
declared.py    is a rollup what its stream declares now?
corrections.py corrections: begun, carried out, done
retention.py   raw rows that are kept no longer
rebuild.py     nodes built again from raw: of a range, or all
retract.py     wrong rows: which they are, and whether they can be taken out
retracted.py   what follows from it for nodes, newest time and ledger
maintenance.py merging small files, vacuum, a log that ends
query_batches.py   which batch of a registered query comes next; query_run.py: one query by itself, batch after batch
query_repairs.py   its repairs, one after the other
intake.py      where a batch of a query has its rows from
scan/          shared scans: conditions of several queries on one stream; rounds of queries
late_join/  join_aggregate/  multiway_join/  selection/   registered queries of each kind
moved_bytes.py how many bytes Spark has shuffled and collected
"""
