"""The way of a row: from a source through ingest into raw, quarantine and ledger, and on into the rollup.

sources/            files and topics -> manifests -> lines -> fields -> typed rows
topics.py           which messages of a stream's topics are unread: fixed in manifests, counted, or given up
drain.py            the manifests of a stream in order, each one an ingest batch
batch_records.py    the records of one batch, typed, each with its reason for rejection
buffered_batch.py   verdicts on records that must be compared; small_batch.py: on the driver; batch_stats.py: the counts
ingest.py           one batch: records to raw, quarantine and ledger
duplicates.py       identity: the first accepted row stays; identities.py: hashes of identities and their index
lateness.py         in which order rows are processed, and how far they are behind the newest time before them
quarantine.py       which rejected records are open, and how they are taken through again
rollup.py           raw rows -> nodes of every level; folding; nodes.py, counters.py: in Arrow
schema_check.py     whether a rollup is what its stream declares now
corrections.py      corrections: begun, carried out, done
retention.py        raw rows that are dropped for their age, by old_rows.py; landed_files.py: files that are
rebuild.py          nodes built again from raw: of a range, or all
retract.py          wrong rows: which they are, and whether they can be taken out
retract_effects.py  what follows from it for nodes, newest time and ledger
checks.py           what must hold of raw, quarantine and ledger; rollup_checks.py: of the rollup
"""
