"""Aggregates of window joins kept current without storing join results (IC, TC, GIC, GTC, MTC and per-key aggregates).

Called by lakehouse/queries/aggregate: bucket.py runs ``Online``, repair.py ``missing``, answers.py ``merged``,
alarms.py ``followed``, parse.py the choice. All five methods run: the cheapest unless METHOD of a query names another.

contract.py ....... shapes in and out, and the verbs of every method
arrivals.py ....... rows on their way into the windows
materialised.py ... every join result is kept (PC, GPC, MPC): the dearest, and what the others are tested against
incremental.py .... counts and sums from changes of the windows, Theorem 1 (IC, GIC)
tuple_count.py .... every row carries what its results add, two streams (TC, GTC)
multiway.py ....... the same for any number of streams and join attributes (MTC)
factorised.py ..... ours: per key the aggregates of each side, no row meets another
window_join.py .... what the four have in common in which rows meet
windows.py ........ the rows in the windows, found by what they must agree in
totals.py ......... what all results come to, per group; exact_kernels.py: sums without error
credits.py ........ what a row carries, for the two that let it carry something
choice.py ......... which method can run a query, and which is cheapest
revision.py ....... what late rows change at ticks that were answered before
online.py ......... answers now, revised within slack; a log of the rest, for the repair
repair.py ......... what logged rows change at ticks that no revision reached
alarms.py ......... from when to when a condition on answers held
"""
