"""One file, one DAG for each home, named by its prefix and the file; tasks import a job and call its run().

ingest      every five minutes              -> raw of each stream
rollups     when raw of a stream is new     -> its rollup
queries     when raw of a stream is new     -> results of the queries over it
repair      every night                     -> results
quality     when a rollup is new            -> checked, or stop
publish     when something is checked, or results are new   -> serving
maintain    every night
watch       every five minutes              fails when a service is stalled
"""
