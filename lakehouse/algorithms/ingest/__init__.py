"""Decisions of ingest on each row, in order: repeated identities and lateness. Called by lakehouse/ingest."""
