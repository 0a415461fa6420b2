"""What ingest decides row by row, in order: repeated identities and lateness.

duplicates_scan.py  yardstick: compare each row with every accepted one
duplicates.py       the same verdicts over sorted arrays
lateness.py         how far each row stands behind the newest one before it
"""
