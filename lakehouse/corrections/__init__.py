"""Corrections of a stream's history after its ingest."""
