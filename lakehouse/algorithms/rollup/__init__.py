"""What all engines of the rollup agree in: which levels nest, how far back each reaches, how counter nodes combine.

Rows are folded into nodes by lakehouse/streams/nodes.py, in Arrow; ranges are answered by the macros of sql/serving.
The trees that they are tested against, the paper's and ours, are in tests/oracles/rollup.

levels.py            Level, floors and horizons; called wherever a table or an answer has levels
counter_kernels.py   nodes of a counter joined; called by lakehouse/streams/counters.py
"""
