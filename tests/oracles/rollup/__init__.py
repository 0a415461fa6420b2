"""The history of a stream in bounded space, as the paper has it: what the tables and macros are tested against.

contract.py     what goes in and out: Node, Answer, Snapshot, and the Rollup protocol
recompute.py    yardstick: keep every row, look at all of them
paper_tree.py   PaperTree, the paper's: levels that grow with the history, alpha^l + 1 slots each
dsmga_tree.py   DsmgaTree, the tables' rule in pure code: declared levels with horizons that never cut a parent
level_stack.py  kept levels one above the other, in one array: what both trees do alike
nodes.py        one level of it: find, fold, check
descent.py      AAQuery: which nodes answer a range, and which of them it cuts
bounds.py       what a cut node can hide: the guaranteed interval in closed form
counter.py      CounterTree: how far a meter's reading grew, through resets; counter_scan.py is its yardstick

node_kernels.py, query_kernels.py and counter_kernels.py are the compiled loops.
"""

from __future__ import annotations
