"""Joins of streams that live at different sites: only rows that can match are moved, on the cheapest route.

Called by lakehouse/queries/multiway: places.py (``results_on_route``), repair.py (``results_of``), choice.py
(``choose``) and centre.py (``Centre`` over ``HashedSynopsis``, its state packed, orders by ``Smje``).
"""
