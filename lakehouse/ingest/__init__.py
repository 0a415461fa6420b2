"""Ingest of a stream: from its files and topics into raw, quarantine and ledger.

sources/          files and topics -> manifests -> numbered lines
parser/           lines -> texts -> typed rows, each with its verdict
identities/       identities of rows: duplicates of a batch, and what is remembered after raw rows are gone
topics.py         the unread messages of a stream's topics: fixed in manifests, counted, or given up
drain.py          the manifests of a stream in order, each one an ingest batch; one that fails again is halved
ingest.py         one batch: parts of raw and quarantine are committed, then the ledger
batch_jobs.py     the batch as jobs of the engine; batch_parts.py: a task
file_records.py   what a task reads of files; sources/messages.py: of topics; requeued_records.py: of quarantine
part_counts.py    counts of a part of a batch; batch_stats.py: of the batch; batch_records.py: its manifest, the order
quarantine.py     the open rejected records, and how they are ingested again
"""
