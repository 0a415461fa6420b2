"""The session and Delta tables, for everything that runs on Spark.

session.py           one session per process, started when it is first needed
cluster.py           a session on a cluster: package_archive.py is the code that is sent, workers.py checks the workers
kernel_cache.py      the folder in which workers keep compiled kernels
jars.py              the jars that Spark needs, where they are, and how they are fetched
archived_classes.py  the archive of classes from which sessions start; class_archive.py makes it
tables.py            Delta tables: create, append once, read
ddl.py               columns as SQL writes them -> a schema, without Spark
row_hash.py          Spark's hash of a row, of Arrow columns
comparisons.py       comparisons of Arrow values as Spark means them, and with literals of any digits, exactly
deviations.py        the deviations of a table, as small frames that a rule can judge

Ingest and rollups are in ``lakehouse.ingest``, registered queries in ``lakehouse.queries``.
"""
