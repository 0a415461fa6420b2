"""Corrections of a stream's history after its ingest.

corrections.py   begun, carried out, done
retention.py     deletion of old raw rows and of old files
rebuild.py       nodes built again from raw: of a range, or all
retract.py       wrong rows, and whether they can be removed; wrong_rows.py: which they are
"""
