"""Faults of the machine, put into real jobs over real tables, and a report of what came of them.

python -m tests.faults [--quick] [--json] [PART ...]     (`make faults` runs all of them)

subject.py    a small lakehouse, every job over it, and what its tables hold at the end
lab.py        where faults are tried: the lakehouse put back before each attempt, in several processes
forked.py     a process per attempt, in which every change of a file is a step that can fail
kills.py      the process dies before each step, once or twice in a row
engine.py     Spark's JVM dies, and the process that uses it lives on
errors.py     from one step on no file can be changed: no space, read-only, too many open files, a disk that fails
disk.py       the same by a real file system that is full or read-only
damage.py     files of the home are deleted, emptied or halved
writers.py    several processes run jobs on one home at once
interleavings.py    steps of several processes in an order that Hypothesis draws (interleaved.py, writers_in_turn.py)
clocks.py     the clock jumps by a day
sources.py    landed files are cut, replaced or removed while they are taken in
topics.py     a topic's broker dies, its messages go, transactions are aborted, partitions are added
sessions.py   an MQTT broker restarts or loses its session with a bridge, which is killed
heap.py       large batches in a JVM with little memory
bounds.py     random ranges over a published version against all rows
readers.py    answers asked without pause beside publishes
inputs.py     hostile files through the real ingest
sandbox.py    statements that try to leave the sandbox
soak.py       a service that is killed again and again
mutants.py    the guards against doing a thing twice switched off: each time the kills must tell
report.py     what was tried and what broke, as tests/faults/results/report.md
"""
