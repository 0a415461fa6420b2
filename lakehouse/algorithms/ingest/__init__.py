"""What ingest decides row by row, in order: repeated identities and lateness. Called by lakehouse/streams.

duplicates.py       verdicts on repeated identities, over sorted arrays
lateness.py         how far each row stands behind the newest one before it
"""
