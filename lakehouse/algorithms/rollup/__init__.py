"""The whole history of a stream in bounded space: fine when recent, coarse when old, always with an interval.

contract.py     what goes in and out: Level, Node, Answer, Snapshot, and the Rollup protocol
recompute.py    yardstick: keep every row, look at all of them
dsmga_tree.py   DsmgaTree: declared levels with horizons that never cut a parent
paper_tree.py   PaperTree: levels that grow with the history, alpha^l + 1 slots each
level_stack.py  kept levels one above the other, in one array: what both trees do alike
nodes.py        one level of it: find, fold, check
descent.py      AAQuery: which nodes answer a range, and which of them it cuts
bounds.py       what a cut node can hide: the guaranteed interval in closed form
levels.py       which levels nest and how far back each one reaches, in whole numbers
counter.py      CounterTree: how far a meter's reading grew, through resets; counter_scan.py is its yardstick

node_kernels.py, query_kernels.py and counter_kernels.py are the compiled loops behind batches of rows and of ranges.
"""
