"""The rules of rollups for all engines: which levels nest, how far back each reaches, how sums and counters combine.

Rows are folded into nodes by lakehouse/rollup/row_nodes.py, counters by nodes.py; ranges are answered by the macros
of sql/serving. The trees that they are tested against, the paper's and ours, are in tests/oracles/rollup.
"""
