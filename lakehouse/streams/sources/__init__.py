"""From files and topics to typed rows.

files.py     the new, complete files; manifests that fix the contents of each ingest batch
folded_manifests.py  manifests of long finished batches, in one file
landed_content.py  the bytes of a landed file, wherever it is; object_store.py: on S3 (no pyspark)
listing.py   finding new files without listing a store from its beginning; key_pattern.py: the keys that a path names
kafka.py     the topics and offsets of a broker
nfdump.py    names and endings of nfdump's exports
packets.py   one capture -> Arrow batches of numbered packets, as lines
zeek.py      lines of Zeek's logs that are none of its records
lines.py     a file -> Arrow batches of numbered lines (numbered.py), and their rows
parquet_rows.py  rows of Parquet files -> typed rows, and their JSON
messages.py  a manifest of offsets -> numbered lines
parser.py    numbered lines -> typed rows, with a reason for those that are rejected: the one way of all sources
field_map.py     which text of a record each wanted field is
plain_lines.py   plain lines -> texts, in Arrow; json_shapes.py, json_lists.py: of JSON
record_texts.py  other lines -> texts, one by one; json_record.py: of JSON; avro.py: an Avro record -> JSON
message_texts.py texts that stand beside the value of a message
usual_texts.py   texts -> texts of values, null where they mean none
plain_values.py  texts, and values of Parquet -> typed columns, in Arrow
shown_offsets.py local times that come twice -> with the offset that the order of their file shows
row_values.py    other texts -> values or a verdict, one by one; texts.py: one text; verdicts.py: the sentences
"""
