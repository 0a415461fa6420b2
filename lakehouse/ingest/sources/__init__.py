"""Sources of a stream: from files and topics to numbered lines.

appended.py      files that grow, and logs that were rotated: what of them is new
compressed.py    compressed files -> their content, in blocks
files.py           the new, complete files; manifests that fix the contents of each ingest batch
folded_manifests.py  manifests of long finished batches, in one file
landed_content.py  the bytes of a landed file, wherever it is; object_store.py: on a store
listing.py         new files, without listing a store from its beginning; unmatched.py: where there are none
kafka.py           the topics and offsets of a broker; messages.py: a manifest of offsets -> numbered lines
heads.py         encodings, JSON documents and heads of files -> lines of records
lines.py           a file -> Arrow batches of numbered lines (numbered.py), and their rows
nfdump.py          names and endings of nfdump's exports; zeek.py: lines of Zeek's logs that are none of its records
packets.py         one capture -> Arrow batches of numbered packets, as lines
"""
