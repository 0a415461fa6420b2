"""Shared scans of streams inside the stream job: the adapter around ``lakehouse.algorithms.scheduling``.

calls.py       a predicate of the operator's own -> what it says of an Arrow batch
timeout.py     how long a call of one may take
readers.py     selections, and sides of joins -> chains of operators that the executor runs
task.py        a task: Arrow batches in; rows that were let through, and what was counted, out
measurements.py  what tasks counted -> statistics and the plan that the next batch begins with
scan.py        one pass over some ingest batches of a stream for all that reads them
shared.py      the rows of a batch out of scans, and what is measured of the kernel that takes them in
rounds.py      a batch of each of several queries: shared scans, then what each does with its rows
"""
