"""From files to typed rows.

files.py   which files are new and complete; manifests that fix what each ingest batch holds
split.py   one file -> Arrow batches of numbered lines (no pyspark)
lines.py   a manifest -> a DataFrame of numbered lines
fields.py  a line -> named texts, per format
rows.py    named texts -> typed rows, each with a reason when it is to be rejected
"""
