"""Pure methods over numbers and arrays: no I/O, no clock, no framework; numpy and numba at most.

One folder is one problem, one file in it one method, and a slow, obvious yardstick tells what is right.

Problem    Question                                    Method      Yardstick        Paper
ingest     which rows repeat one already accepted      duplicates  duplicates_scan  -
rollup     any range of a long past, in small space    DsmgaTree   Recompute        Liu et al., DSMGA-Tree
rollup     the same, with levels that grow             PaperTree   Recompute        Liu et al., DSMGA-Tree
rollup     how far a counter grew, through resets      CounterTree CounterScan      -
late_join  pairs of two late streams, at once; repair  QJoin       NestedLoop       Wei et al., QJoin
late_join  the same, each row waiting for later ones   KSlack      NestedLoop       Mutschler; Ji et al.

The top level is bare on purpose: import what you need from the folders.
"""
