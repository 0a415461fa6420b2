"""Shared scans of streams inside the stream job: the adapter around ``lakehouse.algorithms.scheduling``.

calls.py       a user's predicate -> its result for an Arrow batch, within a time limit
readers.py     selections, and sides of joins -> chains of operators that the executor runs
task.py        a task: Arrow batches in; rows that passed, and counts, out
measurements.py  counts of tasks -> statistics and the plan with which the next batch begins
scan.py        one pass over some ingest batches of a stream for all readers
shared.py      the rows of a batch from scans, and the measurements of the kernel that processes them
rounds.py      a batch of each of several queries: shared scans, then each query's work on its rows
"""
