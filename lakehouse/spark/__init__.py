"""Adapters to Spark and Delta: the only package that imports pyspark and delta.

jars.py        which jars the session needs, and where they are
session.py     one session per process
tables.py      Delta tables: idempotent append, read, lease
sources/       files -> manifests -> lines -> typed rows
duplicates.py  identity: first accepted row stays
ledger.py      one row per ingest batch: what came in and where it went
rollup.py      raw rows -> nodes of every level; compaction
"""
