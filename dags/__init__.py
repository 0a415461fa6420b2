"""One file, one DAG, named like the file; tasks import a job and call its run().

ingest      every five minutes      -> raw
rollups     when raw is new         -> rollup
queries     when raw is new         -> joins
repair      every night             -> joins
quality     when rollup is new      -> checked, or stop
publish     when checked is new     -> serving
maintain    every night
watch       every five minutes      fails when a service is stalled
"""
