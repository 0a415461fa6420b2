"""Ingest of a stream: from its files and topics into raw, quarantine and ledger."""
