"""Aggregates of window joins kept current without storing join results (IC, TC, MTC, view trees, per-key aggregates).

Called by lakehouse/queries/aggregate: bucket.py runs ``Online``, repair.py ``missing``, answers.py ``merged``,
alarms.py ``followed``, parse.py the choice. All six methods run: the cheapest unless METHOD of a query names another.
"""
