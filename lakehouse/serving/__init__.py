"""Answers without Spark: one immutable DuckDB file per version, the macros inside it, and the ways to ask it.

file/      build a version, compare its totals, publish it, keep it while it is read
ask/       range questions: by the macros, or exactly from raw rows; charts
sandbox/   SQL of other people, one SELECT at a time, under hard limits
storage_plan.py  what each level of a stream keeps, and the effects of a changed declaration
status.py  the published version and its age, open quarantine, the outcome of each job

``README.md`` says how an answer and its interval are made.
"""
