"""Joins of three streams or more over raw tables: only rows that can match are moved, on the cheapest way.

rows.py      raw rows of all sides, with their key and the slot that they are counted in
centre.py    counts of a batch -> what of each block can join, in which order it visits the windows, at what cost
travel.py    a block on its way: filtered, joined with one window after the other, its rows counted at each stop
online.py    a batch of a query: windows, state, results and log, then figures, each once
repair.py    what the log says may be missing, looked for in raw
tables.py    the tables of a query
"""
