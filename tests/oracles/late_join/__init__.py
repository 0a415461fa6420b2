"""Yardsticks and baselines of window joins of late streams.

contract.py        what QJoin and the baselines have in common, for one test of all; whole_join.py: QJoin as such
nested_loop.py     yardstick: keep every row, look at all of them; the repair by its definition
k_slack.py         baseline that waits: K the largest delay so far, or chosen for a recall
constant_slack.py  the slack that never changes, by which policies are judged in hindsight
audit.py           yardstick of periods: recall from the times of all pairs
"""

from __future__ import annotations
