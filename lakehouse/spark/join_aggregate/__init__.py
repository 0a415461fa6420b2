"""Registered join-aggregates over raw tables.

- ``rows.py`` ...... raw rows of all sides as a method takes them
- ``bucket.py`` .... one bucket of one batch: state and rows in; parts of answers, log and state out
- ``online.py`` .... a batch: every bucket, then answers and alarms
- ``answers.py`` ... parts of answers -> answers with their revision
- ``alarms.py`` .... answers -> alarms raised, cleared and withdrawn
- ``repair.py`` .... what logged rows still add to answers
- ``tables.py`` .... the query's tables
"""
