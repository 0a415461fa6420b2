"""Yardsticks and baselines: what the methods of lakehouse/algorithms are tested against and compared with.

A yardstick is slow and too simple to be wrong; a baseline is another method from the literature. One folder is one
problem, as in lakehouse/algorithms. Pure code: numpy, numba and the product's own algorithms.
"""

from __future__ import annotations
