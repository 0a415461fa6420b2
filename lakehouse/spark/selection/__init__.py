"""Registered selections inside the stream job: the adapter around ``lakehouse.algorithms.scheduling``.

masks.py       a condition of SQL -> what it says of an Arrow batch
calls.py       a predicate of the operator's own -> the same
chains.py      selections -> chains of operators that the executor runs
task.py        a task: Arrow batches in; selected rows, and what was counted, out
measured.py    what tasks counted -> statistics and the plan that the next batch begins with
tables.py      the tables of a selection
online.py      a batch of all selections that stand at the same place of a stream, in one pass
"""
