"""Tidemark's library: the map of its packages, and who may import whom.

    algorithms   pure methods over numbers and arrays: numpy and numba only
    declare      what the user writes: settings, streams, columns, presets
    home         what is on disk, read and written without an engine
    spark        the session and Delta tables
    streams      the way of a row: ingest, rollup, corrections
    queries      registered queries: one folder per kind, layers by file name
    serving      answers in DuckDB: build a version, ask it, run other people's SQL on it
    web          the same answers over HTTP, and a page
    landing      what is not a file yet, into files
    service      what runs without pause; metrics, logs, lineage
    simulator    late and dirty streams, and the truth about them
    cli          the command line, loading each layer only when a command needs it

Imports go one way: algorithms <- declare <- home <- streams | queries | serving; quality, jobs and dags stand above
them. ``tests/test_architecture.py`` holds this.
"""
