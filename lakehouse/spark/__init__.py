"""The session and Delta tables, for whatever runs on Spark.

session.py      one session per process
jars.py         which jars it needs, and where they are
tables.py       Delta tables: create, append once, read
maintenance.py  merge small files, vacuum, cut the log

Ingest and rollups are in ``lakehouse.streams``, registered queries in ``lakehouse.queries``.
"""

from __future__ import annotations
