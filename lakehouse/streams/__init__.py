"""From a source through ingest into raw, quarantine and ledger, and on into the rollup.

sources/            files and topics -> manifests -> lines -> fields -> typed rows
topics.py           the unread messages of a stream's topics: fixed in manifests, counted, or given up
drain.py            the manifests of a stream in order, each one an ingest batch
batch_records.py    the typed records of one batch, each with its reason for rejection
buffered_batch.py   verdicts on records that must be compared; small_batch.py: on the driver; batch_stats.py: counts
file_chunks.py      files that the driver reads in chunks; spill.py: chunks that are not held in memory
ingest.py           one batch: records to raw, quarantine and ledger
duplicates.py       identity: the first accepted row stays; identities.py: hashes of identities and their index
lateness.py         the order in which rows are processed, and how far they are behind the newest time before them
quarantine.py       the open rejected records, and how they are ingested again
rollup.py           raw rows -> nodes of every level; folding; nodes.py, row_nodes.py, counters.py: in this process
schema_check.py     whether a rollup fits its stream's declaration
corrections.py      corrections: begun, carried out, done
retention.py        deletion of old raw rows, with old_rows.py; landed_files.py: of old files
rebuild.py          nodes built again from raw: of a range, or all
retract.py          wrong rows: which they are, and whether they can be removed
retract_effects.py  the effects of a removal on nodes, newest time and ledger
checks.py           deviations of raw, quarantine and ledger; rollup_checks.py: of the rollup
"""
