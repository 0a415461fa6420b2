"""Joins across sites: what is moved by the order, with and without filters, against Lottery routing; and pages.

    python -m tests.benchmarks.multiway_join [--quick] [--json] [PART ...]

A full run writes docs/benchmarks/multiway_join.
"""

from __future__ import annotations

from tests.benchmarks.parts import run_parts

# Each has figures(quick) -> dict; a full run takes minutes and writes pages.
PARTS = (
    "tests.benchmarks.multiway_join.sites",
    "tests.benchmarks.multiway_join.series",
    "tests.benchmarks.multiway_join.scenarios",
    "tests.benchmarks.multiway_join.hashed",
    "tests.benchmarks.multiway_join.orders",
    "tests.benchmarks.multiway_join.spark",
)


if __name__ == "__main__":
    run_parts(__doc__, PARTS, "few seeds and sites, seconds, no pages")
