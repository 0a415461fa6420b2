"""From a source through ingest into raw, quarantine and ledger, and on into the rollup.

sources/          files and topics -> manifests -> lines -> fields -> typed rows
topics.py         the unread messages of a stream's topics: fixed in manifests, counted, or given up
drain.py          the manifests of a stream in order, each one an ingest batch; one that fails again is halved
batch_records.py  the typed records of one batch, each with its reason for rejection; their order
small_batch.py    verdicts on records that the driver reads; file_chunks.py: files in chunks; batch_stats.py: counts
ingest.py         one batch: records, judged by Spark where the driver does not, to raw, quarantine and ledger
duplicates.py     identity: the first accepted row stays
quarantine.py     the open rejected records, and how they are ingested again
rollup.py         raw rows -> nodes of every level; folding; nodes.py, row_nodes.py, counters.py: in this process
corrections.py    corrections: begun, carried out, done
retention.py      deletion of old raw rows and of old files
rebuild.py        nodes built again from raw: of a range, or all
retract.py        wrong rows: which they are, and whether they can be removed
checks.py         deviations of raw, quarantine and ledger; rollup_checks.py: of the rollup
"""
