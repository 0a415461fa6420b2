"""Proposal of a declaration for files that nobody has declared: looked at, typed, written as TOML, and tried.

sample.py        some lines of a file: encoding, separator, head, names, fields
forms.py         the same of XML, and of lines of metrics and positions
times.py         the event time among columns of texts: unit, format, one column or two
columns.py       types of the others; keys, measures and counters among them
declaration.py   the declaration as TOML with comments, and the doubts about it
trial.py         files judged by a declaration without writing: accepted, and rejected by reason with examples
"""
