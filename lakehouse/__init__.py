"""Tidemark's library: the map of its packages, and which may import which.

    algorithms   pure methods over numbers and arrays: numpy and numba only
    declare      what the user writes: settings, streams, columns, presets
    home         the files on disk, read and written without an engine
    spark        the session and Delta tables
    streams      from a source to the rollup: ingest, rollup, corrections
    queries      registered queries: one folder per kind, layers by file name
    serving      answers in DuckDB: build a version, ask it, run other people's SQL on it
    web          the same answers over HTTP, and pages
    landing      programs that write landing files: bridge and collector
    service      the continuous service; metrics, logs, lineage
    simulator    late and dirty streams, and the true counts of their rows
    cli          the command line, loading each layer only when a command needs it

Imports go one way: algorithms <- declare <- home <- streams | queries | serving; quality, jobs and dags are above
them. ``tests/test_architecture.py`` checks this.
"""
