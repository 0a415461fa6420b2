"""Yardsticks and baselines of joins across sites, and the whole method on virtual sites.

nested_loop.py ...... yardstick: every combination of rows
every_order.py ...... yardstick of orders: each of them
lottery.py .......... baseline: Lottery routing
fixed_order.py ...... baseline: the order that never changes
dense_synopsis.py ... the paper's vectors, a count per join value
vectors.py .......... vectors of rows; a check of the centre
block.py ............ rows that come to a virtual site
window_join.py ...... the whole method on virtual sites, as the paper runs it
travelling.py ....... rows on their way: as combinations, or each once (ours)
totals.py ........... COUNT(*) and SUM of all results from vectors, without a join
"""

from __future__ import annotations
