"""Pure methods over numbers and arrays: no I/O, no clock, no framework; numpy and numba at most.

One folder is one problem, one file in it one method, and a slow, obvious yardstick tells what is right.

Problem        Question                                    Method        Yardstick        Paper
ingest         which rows repeat one already accepted      duplicates    duplicates_scan  -
packets        who sent what to whom, in a capture         Capture       struct_scan      -
join_aggregate counts, sums, extremes of a window join     Factorised    Materialised     Wang et al., IC, TC, MTC
rollup         any range of a long past, in small space    DsmgaTree     Recompute        Liu et al., DSMGA-Tree
rollup         the same, with levels that grow             PaperTree     Recompute        Liu et al., DSMGA-Tree
rollup         how far a counter grew, through resets      CounterTree   CounterScan      -
late_join      pairs of two late streams, at once; repair  QJoin         NestedLoop       Wei et al., QJoin
late_join      the same, each row waiting for later ones   KSlack        NestedLoop       Mutschler; Ji et al.
multiway_join  streams of several sites, few rows moved    MultiwayJoin  NestedLoop       Yin, Zhang, SMJ
multiway_join  in which order a block visits the sites     Smje, Smjh    every_order      Yin, Zhang, SMJ
scheduling     which operator runs next, for how long      MultiFactor   Fifo             Dong et al., MultiFactor

The top level is bare on purpose: import what you need from the folders.
"""
