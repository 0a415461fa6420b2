"""Tidemark's library: the map of layers, and who may import whom.

    algorithms   pure methods over numbers and arrays: numpy and numba only
    catalog      pure names of things: streams, levels, tables, settings
    simulator    streams as they come in life: late, repeated, dirty; imports the catalog only
    spark        adapters to Spark and Delta; above it, jobs and quality may handle DataFrames
    serving      the only place that imports duckdb for analysts
    cli          the command line, loading each layer only when a command needs it

Imports go one way: algorithms <- catalog <- (spark | serving), siblings never import each other;
quality, jobs and dags stand above them. ``tests/test_architecture.py`` holds this.
"""
