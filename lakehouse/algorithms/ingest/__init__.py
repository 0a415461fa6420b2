"""Decisions of ingest on each row, in order: repeated identities and lateness. Called by lakehouse/ingest.

duplicates.py       verdicts on repeated identities, over sorted arrays
lateness.py         how far each row is behind the newest one before it
"""
