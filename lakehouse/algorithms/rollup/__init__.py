"""The rules of rollups for all engines: which levels nest, how far back each reaches, how sums and counters combine.

Rows are folded into nodes by lakehouse/rollup/row_nodes.py, counters by nodes.py; ranges are answered by the macros
of sql/serving. The trees that they are tested against, the paper's and ours, are in tests/oracles/rollup.

levels.py            Level, floors and horizons; used wherever a table or an answer has levels
runs.py              readings in order of their nodes, folded; sums of doubles as two doubles. Called by
                     lakehouse/rollup/row_nodes.py and sums.py
refinement.py        the cut nodes that a finer grouping replaces; called by lakehouse/serving/publish/build.py
rounding.py          the error of sums; the macros take their numbers from here
counter_kernels.py   nodes of a counter combined; called by lakehouse/rollup/counters.py
"""
