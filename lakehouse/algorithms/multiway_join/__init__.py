"""Joins of streams that live at different sites: only rows that can match are moved, on the cheapest route.

Called by lakehouse/queries/multiway: plain.py, pruned.py and repair.py (``results_with_new``, ``results_on_route``,
``results_of``), choice.py (``choose``) and centre.py (``Centre`` over ``HashedSynopsis``, its state packed, orders by
``Smje``).
"""
