"""Joins of streams that live at different sites: only rows that can match are moved, on the cheapest route.

Called by lakehouse/queries/multiway: plain.py, pruned.py and repair.py (``results_with_new``, ``results_on_route``,
``results_of``), choice.py (``choose``) and centre.py (``Centre`` over ``HashedSynopsis``, its state packed, orders by
``Smje``).

joining.py ....... results of the rows of some keys, by sorted keys
pruning.py ....... whether counting a batch's keys pays; otherwise its rows are joined plainly
contract.py ...... input and output: sites, vectors, trips, plans, costs
synopsis.py ...... counts of stored rows by slot of hashed join values: upper bounds (HashedSynopsis); in few bytes
cost.py .......... the costs of rows, vectors, filters and orders on their routes
exhaustive.py .... the cheapest order (SMJE)
heuristic.py ..... a cheap order for many sites (SMJH), and the choice between both by their number
centre.py ........ keeps all vectors until they expire; gives each block its filter, order, sizes and cost
"""
