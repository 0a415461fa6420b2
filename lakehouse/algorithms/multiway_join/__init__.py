"""Joins of streams that live at different sites: only rows that can match are moved, on the cheapest way.

contract.py ...... what is asked and what comes of it: sites, blocks, vectors, trips, plans, costs
nested_loop.py ... the yardstick: every combination of rows
every_order.py ... the yardstick of orders: each of them
synopsis.py ...... counts of stored rows by join value, exact (DenseSynopsis) or as upper bounds (HashedSynopsis)
packed.py ........ a vector in few bytes
cost.py .......... what rows, vectors, filters and orders cost on the ways that they take
exhaustive.py .... the cheapest order (SMJE)
heuristic.py ..... a cheap order for many sites (SMJH)
lottery.py ....... the baseline: Lottery routing
fixed_order.py ... the order that never changes
centre.py ........ keeps all vectors; gives each block its filter, order, sizes and cost
remembered.py .... what the centre remembers of blocks until they expire
window_join.py ... the whole method on virtual sites
travelling.py .... rows on their way: as combinations, or each once (ours)
totals.py ........ COUNT(*) and SUM of all results, without a join

cost_kernels.py, exhaustive_kernels.py, heuristic_kernels.py and lottery_kernels.py are the compiled loops.
"""
