"""Joins across sites: what is moved by the order, with and without filters, against Lottery routing; and pages.

    python -m tests.benchmarks.multiway_join [--quick] [--json] [PART ...]

A full run writes tests/benchmarks/results/multiway_join.
"""

from __future__ import annotations

from tests.benchmarks.parts import run_parts

if __name__ == "__main__":
    run_parts(
        __doc__,
        __package__,
        ("sites", "series", "scenarios", "hashed", "orders", "choices"),
        only_in_full=("spark",),
    )
