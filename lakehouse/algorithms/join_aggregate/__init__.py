"""Aggregates of window joins kept current without storing join results (IC, TC, MTC, view trees, per-key aggregates).

Called by lakehouse/queries/aggregate: bucket.py runs ``Online``, repair.py ``missing``, answers.py ``merged``,
alarms.py ``followed``, parse.py the choice. All six methods run: the cheapest unless METHOD of a query names another.

contract.py ....... shapes of input and output, and the functions of every method
arrivals.py ....... rows on their way into the windows
materialised.py ... every join result is kept (PC, GPC, MPC): the most expensive, and the yardstick of the others
incremental.py .... counts and sums from changes of the windows, Theorem 1 (IC, GIC)
tuple_count.py .... every row carries the contribution of its results, two streams (TC, GTC)
multiway.py ....... the same for any number of streams and join attributes (MTC)
factorised.py ..... ours: per key the aggregates of each side, no rows are joined
view_tree.py ...... counts and sums along join_tree.py: a row meets what the keys beside it come to (F-IVM)
windows.py ........ the rows in the windows, and the part that the four methods in which rows are joined share
totals.py ......... totals of all results, per group; kernels/exact.py: sums without error
choice.py ......... the methods that can run a query, and the cheapest of them
revision.py ....... changes by late rows at ticks that were already answered, within slack and by the repair
online.py ......... answers now, revised within slack; a log of the rest, for the repair
alarms.py ......... the times at which a condition on answers held
"""
