"""From files and topics to typed rows.

files.py     the new, complete files; manifests that fix the contents of each ingest batch
folded_manifests.py  manifests of long finished batches, in one file
landed_content.py  the bytes of a landed file, wherever it is; object_store.py: on S3 (no pyspark)
listing.py   finding new files without listing a store from its beginning; key_pattern.py: the keys that a path names
kafka.py     the topics and offsets of a broker
nfdump.py    names and endings of nfdump's exports (no pyspark)
packets.py   one capture -> Arrow batches of numbered packets, as lines (no pyspark)
lines.py     a file -> Arrow batches of numbered lines (numbered.py); a manifest of files -> a DataFrame of them
file_reader.py  how tasks read files
parquet_rows.py  Parquet files -> the same
messages.py  a manifest of offsets -> the same, and the parts of a message beside its value, of MQTT too
avro.py      an Avro record -> JSON text
json_members.py  members of a JSON record by path, as Spark expressions; what keeps them from being read
verdicts.py  sentences about rejected records, the same by every way (no pyspark)
fields.py    a line -> named texts, per format
rows.py      named texts -> typed rows, with a reason for those that are rejected
plain_lines.py  lines that are certainly valid -> the same typed rows in Arrow, without Spark
plain_values.py  their texts, and values of Parquet, as typed columns
odd_lines.py  other lines of small batches -> the same rows and verdicts, one by one
"""
