"""The session and Delta tables, for everything that runs on Spark.

Ingest and rollups are in ``lakehouse.ingest``, registered queries in ``lakehouse.queries``.
"""
