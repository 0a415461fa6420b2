"""Yardsticks of scheduling: a machine on a virtual clock, and one query run alone.

simulate.py   a machine on a virtual clock, repeatable to the last tuple; simulate_kernels.py is its loop
alone.py      what a query selects when nothing else runs
columns.py    rows as numpy arrays, for executors without Arrow
"""

from __future__ import annotations
