"""Rollup of a stream: raw rows -> partial nodes of every level and grouping, folded later.

rollup.py        appending the nodes of new batches once; reading them whole
raw_nodes.py     tasks that read raw and write partial nodes; nodes.py, row_nodes.py, counters.py: their kernels
fold.py          partial nodes folded into parts of levels; fold_plan.py: which files that rewrites
old_nodes.py     nodes taken over from the table before, for times whose raw rows are gone
"""
