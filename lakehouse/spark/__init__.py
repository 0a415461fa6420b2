"""The session and Delta tables, for whatever runs on Spark.

session.py           one session per process, started when it is first asked for something
cluster.py           what a session on a cluster needs: package_archive.py is the code sent, workers.py looks at them
kernel_cache.py      where its workers keep compiled kernels
jars.py              which jars it needs, where they are, and how they are fetched
archived_classes.py  where the archive of classes is that sessions start from; class_archive.py makes it
tables.py            Delta tables: create, append once, read
ddl.py               columns as SQL writes them -> a schema, without Spark
row_hash.py          Spark's hash of a row, of Arrow columns
deviations.py        what a table must hold, as small frames that a rule can judge

Ingest and rollups are in ``lakehouse.streams``, registered queries in ``lakehouse.queries``.
"""

from __future__ import annotations
