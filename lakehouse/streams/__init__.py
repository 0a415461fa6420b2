"""From a source through ingest into raw, quarantine and ledger, and on into the rollup.

sources/          files and topics -> manifests -> lines -> fields -> typed rows
topics.py         the unread messages of a stream's topics: fixed in manifests, counted, or given up
drain.py          the manifests of a stream in order, each one an ingest batch; one that fails again is halved
ingest.py         one batch: parts of raw and quarantine are committed, then the ledger
batch_jobs.py     the batch as jobs of the engine; batch_parts.py: a task; batch_identities.py: rows that are compared
file_records.py   what a task reads of files; message_records.py: of topics; requeued_records.py: of quarantine
part_counts.py    counts of a part of a batch; batch_stats.py: of the batch; batch_records.py: its manifest, the order
duplicates.py     identity: the first accepted row stays
quarantine.py     the open rejected records, and how they are ingested again
rollup.py         raw rows -> nodes of every level; folding; nodes.py, row_nodes.py, counters.py: in this process
corrections.py    corrections: begun, carried out, done
retention.py      deletion of old raw rows and of old files
rebuild.py        nodes built again from raw: of a range, or all
retract.py        wrong rows: which they are, and whether they can be removed
checks.py         deviations of raw, quarantine and ledger; rollup_checks.py: of the rollup
"""
