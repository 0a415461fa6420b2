"""What breaks when the machine does: faults put into real jobs over real tables, and a report of what came of them.

python -m tests.faults [--quick] [--json] [PART ...]     (`make faults` runs all of them)

subject.py    a small lakehouse, every job over it, and what its tables hold at the end
forked.py     a process per attempt, in which every change of a file is a step that can fail
kills.py      the process dies before each step, once or twice in a row
errors.py     from one step on no file can be changed: no space, read-only, too many open files, an error of the disk
disk.py       the same by a real file system that is full or read-only
damage.py     files of the home are deleted, emptied or halved
readers.py    answers asked without pause beside publishes
mutants.py    the guards against doing a thing twice switched off: each time the faults above must tell
inputs.py     hostile files through the real ingest
soak.py       a service that is killed again and again
report.py     what was tried and what broke, as docs/reliability/report.md
"""
