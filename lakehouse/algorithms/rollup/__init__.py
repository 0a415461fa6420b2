"""What all engines of the rollup agree in: which levels nest, how far back each reaches, how sums and counters combine.

Rows are folded into nodes by lakehouse/streams/nodes.py, in Arrow; ranges are answered by the macros of sql/serving.
The trees that they are tested against, the paper's and ours, are in tests/oracles/rollup.

levels.py            Level, floors and horizons; called wherever a table or an answer has levels
sums.py              sums of doubles as two doubles; called by lakehouse/streams/sums.py
refinement.py        which cut nodes give way to those of a finer grouping; called by lakehouse/serving/file/build.py
rounding.py          how far they can be off; the macros have their numbers from here
counter_kernels.py   nodes of a counter joined; called by lakehouse/streams/counters.py
"""
